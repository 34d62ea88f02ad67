"""Several releases of one confidential table as one release: all measurements, all exact parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from bayesdp._validate import shown
from bayesdp.consistency import LawCheck, check_consistent
from bayesdp.measurements import Exact, Measured, described
from bayesdp.release import Release

_NEVER_BY_CHANCE = 4
"""Two measurements with this number of answers that are all equal have the same noise; fewer may be equal by chance."""


def joint_release(releases: Sequence[Release], names: Sequence[str] | None = None) -> Release:
    """All measurements and exact parts of several releases of one table, as one release without a guarantee.

    For the total guarantee see `bayesdp.compose`. Messages call them by `names`, for example of files; "release 1", ... by default.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins, Totals
    >>> table = {"county": ["Alpha", "Beta"]}
    >>> total = Release.from_published(table, exact=[Exact(Totals(table), 50)])
    >>> cells = Release.from_published(table, exact=[Exact(Margins(table, ["county"]), [20, 31])])
    >>> joint_release([total, cells], ["total.nc", "cells.nc"])
    Traceback (most recent call last):
        ...
    ValueError: the releases do not fit together: total.nc and cells.nc: exact values contradict one another at total: the
    published total is 50, but by county, county=Alpha + county=Beta is 51
    """
    called = list(names) if names is not None else [f"release {k}" for k in range(1, len(releases) + 1)]
    given: Any
    for given, name in zip(releases, called, strict=True):
        if not isinstance(given, Release):
            raise TypeError(f"releases must be Release objects, but {name} is a {type(given).__name__}")
    if len(releases) == 1:
        return releases[0]
    for release, name in zip(releases, called, strict=True):
        if release.about != releases[0].about:
            raise ValueError(
                f"all releases must be about one table, but {called[0]} is about {releases[0].about} and {name} about {release.about}"
            )
    pairs = list(combinations(zip(releases, called, strict=True), 2))
    for (one, first), (other, second) in pairs:
        _check_same_table(one, first, other, second)
        _check_not_twice(one, first, other, second)
        try:
            check_consistent(tuple(dict.fromkeys((*one.exact, *other.exact))))
        except ValueError as error:
            raise ValueError(f"the releases do not fit together: {first} and {second}: {error}") from error
    try:
        joint = _joined(releases)
        joint.check_feasible()
    except ValueError as error:
        raise ValueError(f"the releases do not fit together: {error}") from error
    owners = [k for k, release in enumerate(releases) for _ in release.measurements]
    exact = dict[Exact, int]()
    for k, release in enumerate(releases):
        for part in release.exact:
            exact.setdefault(part, k)
    owners += reversed(exact.values())  # sources that are exact are negative numbers: from the end
    told = joint.law_check.contradiction(lambda one, other: owners[one] != owners[other])
    if told is not None:
        first, second = (called[owners[source]] for source in told.sources)
        raise ValueError(
            f"the releases do not fit together: {first} and {second} contradict each other by their laws: {told.told}. They are taken "
            "as one table at one time; fit tables of different times or populations each by itself, or correct a law"
        )
    return joint


def _joined(releases: Sequence[Release]) -> Release:
    exact = tuple(dict.fromkeys(part for release in releases for part in release.exact))
    measurements = _renamed([part for release in releases for part in release.measurements])
    simulated = any(release.simulated for release in releases)
    return Release(releases[0].frame, measurements, exact, simulated=simulated, about=releases[0].about)


def check_law(release: Release, *others: Release) -> LawCheck:
    """Are the published numbers compatible with the laws stated of them? Without a model of the counts.

    Compared are sums that are equal in every table: published totals with sums of published parts, several measurements of the
    same sums, noisy sums with exact ones. What they differ by is noise alone, whose law is known: p-values hold for every true table.
    Differences may be too large (more noise than stated, tables of two times, an error) or too small (totals that are sums of
    published cells, less noise than stated).

    Parameters
    ----------
    release : Release
    *others : Release
        Of the same table. All numbers are compared with all, for one p-value.

    Returns
    -------
    LawCheck
        ``pvalue`` (NaN where no published sums have to agree), ``table`` with a row for each group of differences, ``worst`` with the
        worst ones by name, and ``plot()``.

    Examples
    --------
    Noise of standard deviation 4 that is stated as 1.5:

    >>> import bayesdp as bdp
    >>> table = {"area": list("abcdefghijkl"), "sex": ["f", "m"]}
    >>> noisy = bdp.noise.DiscreteGaussian(4.0).draw(1, (12, 2), location=30)
    >>> cells = bdp.Measured(bdp.Identity(table), noisy, bdp.noise.DiscreteGaussian(1.5))
    >>> release = bdp.Release.from_published(table, [cells], [bdp.Exact(bdp.Margins(table, ["area"]), [60] * 12)])
    >>> bdp.check_law(release).pvalue < 1e-4
    True
    """
    releases = (release, *others)
    other: Any
    for number, other in enumerate(releases, 1):
        if not isinstance(other, Release):
            raise TypeError(f"release {number} must be a bayesdp.Release, got {type(other).__name__}")
        _check_same_table(releases[0], "release 1", other, f"release {number}")
    return release.law_check if not others else _joined(releases).law_check


def _check_same_table(one: Release, first: str, other: Release, second: str) -> None:
    if other.frame.same_cells(one.frame):
        return
    if one.frame.dims != other.frame.dims:
        raise ValueError(
            f"all releases must be about one table, but {first} has the dimensions {shown(one.frame.dims)} and {second} "
            f"{shown(other.frame.dims)}"
        )
    for dim in one.frame.dims:
        mine, theirs = one.frame.labels_of(dim), other.frame.labels_of(dim)
        odd = [label for label in mine if label not in theirs] + [label for label in theirs if label not in mine]
        if odd:
            raise ValueError(
                f"all releases must be about one table, but {first} and {second} have different labels of {dim!r}: {shown(odd)}"
            )
        if mine != theirs:
            raise ValueError(
                f"all releases must label the table in one order, but {first} has {dim!r} as {shown(mine, 3)} and {second} as "
                f"{shown(theirs, 3)}; make both from files whose lines are in the same order"
            )


def _check_not_twice(one: Release, first: str, other: Release, second: str) -> None:
    if other == one and other.measurements:
        raise ValueError(f"{second} is {first} again: its noise would be counted twice")
    for measured in other.measurements:
        if measured in one.measurements and int((~measured.unmeasured).sum()) >= _NEVER_BY_CHANCE:
            raise ValueError(
                f"{first} and {second} hold the same noisy numbers, {described(measured.query)} under the law {measured.law}: that "
                "noise would be counted twice. (Independent noise that came out alike is told apart by names, Measured(name=...))"
            )


def _renamed(measurements: Sequence[Measured]) -> tuple[Measured, ...]:
    """Measurements with distinct names, those of later releases with a number."""
    taken: set[str] = set()
    found = []
    for part in measurements:
        name, count = part.name, 1
        while name is not None and name in taken:
            count += 1
            name = f"{part.name}_{count}"
        if name is not None:
            taken.add(name)
        if name != part.name:
            part = Measured(part.query, part.given, part.law, part.invariants, name, unmeasured=part.unmeasured)
        found.append(part)
    return tuple(found)

"""Put several releases of one confidential table, or of the same statistics, together: what they are and protect as one."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import instance, probability, shown
from bayesdp.fibers import Fiber
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured, described
from bayesdp.measurements.consistency import LawCheck, check_consistent
from bayesdp.mechanisms.composition._total import common_kind, is_nested, needs_delta, parts_of, total, total_guarantee
from bayesdp.mechanisms.stated import LOSS_UNKNOWN, composition_name
from bayesdp.privacy import Difference, Guarantee, SemiAdjacency, semi_adjacency
from bayesdp.privacy.losses import Loss
from bayesdp.privacy.sensitivities.kept import kept_differences
from bayesdp.release import Release

_NEVER_BY_CHANCE = 4
"""Two measurements with this number of answers that are all equal have the same noise; fewer may be equal by chance."""


def joint_release(releases: Sequence[Release], names: Sequence[str] | None = None) -> Release:
    """All measurements and exact parts of several releases of one table, as one release without a guarantee."""
    # For the total guarantee see `bayesdp.compose`. Messages call them by `names`, for example of files; "release 1", ... by default.
    called = list(names) if names is not None else [f"release {k}" for k in range(1, len(releases) + 1)]
    for given, name in zip(releases, called, strict=True):
        instance(given, Release, f"releases must be Release objects, but {name} is not")
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


_WIDTH = 100
_NAMED = 10
"""Cells that the text names."""


@dataclass(frozen=True, eq=False)
class Composition:
    """Several releases of one table, taken together. Made by `compose`.

    Attributes
    ----------
    releases : tuple of Release
        As they were given.
    release : Release
        All measurements and exact parts as one release, for inference, with the total guarantee.
    differences : tuple of Difference
        The smallest kinds of difference between two tables that no release's invariants tell apart. Where general
        invariants make the search too long it is empty.
    loss_unknown : str or None
        Why there is no total guarantee, where there is none.
    """

    releases: tuple[Release, ...]
    release: Release
    differences: tuple[Difference, ...]
    loss_unknown: str | None = None

    @property
    def invariants(self) -> Invariants:
        """The equalities of all releases as one linear map."""
        return self.release.invariants

    @property
    def fiber(self) -> Fiber:
        """All tables of counts that agree with the exact parts of all releases."""
        return self.release.fiber

    @property
    def guarantee(self) -> Guarantee | None:
        """The total loss for pairs of tables that agree on all invariants; None where a release states no loss."""
        return self.release.guarantee

    @cached_property
    def semi_adjacency(self) -> SemiAdjacency:
        """How many records change when one does and all exact answers stay: in both conventions, or why that is not known.

        See `bayesdp.privacy.semi_adjacency`. Each release alone may need fewer.
        """
        return semi_adjacency(self.fiber)

    @cached_property
    def newly_determined(self) -> npt.NDArray[np.bool_]:
        """Cells with one possible count only, which no release determines alone, shape ``(*table)``."""
        alone = np.any([release.fiber.determined() for release in self.releases], axis=0)
        return np.asarray(self.fiber.determined() & ~alone)

    def __str__(self) -> str:
        last = str(self.guarantee) if self.guarantee is not None else f"Total loss: {self.loss_unknown}"
        if self.release.about == "statistics":
            size = self.release.frame.size
            what = "1 statistic" if size == 1 else f"{size} statistics"
            return f"Composition of {len(self.releases)} releases of {what}\n{last}"
        frame, free = self.release.frame, self.invariants.dimension
        sizes = " × ".join(map(str, frame.shape))
        lines = [
            f"Composition of {len(self.releases)} releases of a table {printable(' × '.join(frame.dims))} ({sizes} cells)"
        ]
        for number, release in enumerate(self.releases, start=1):
            joint = is_nested(release.invariants, self.invariants)
            more = "; the other invariants follow from these" if joint else ""
            lines.append(
                f"release {number}: rank {release.invariants.rank}, {release.invariants.dimension} dimensions free{more}"
            )
        lines.append(f"together: rank {self.invariants.rank}, {free} dimensions free")
        if not free:
            lines.append(
                "The invariants determine the whole table: no two tables agree on them, and nothing is protected."
            )
        elif self.differences:
            lines.append("Smallest differences that keep all invariants:")
            lines += [
                f"  - {difference.relation}; l1 {difference.l1:.6g}, l2 {difference.l2:.6g}"
                for difference in self.differences
            ]
        else:
            lines.append("Smallest differences that keep all invariants: not searched for, the table is too large.")
        adjacency_text = str(self.semi_adjacency)
        lines.append(adjacency_text[0].upper() + adjacency_text[1:])
        least = "" if self.fiber.determined_is_complete else "at least "
        determined, new = self.fiber.determined(), self.newly_determined
        lower, upper = _limits(self.release)
        alone = [_limits(release) for release in self.releases]
        narrowed = (lower > np.max([low for low, _ in alone], 0)) | (upper < np.min([high for _, high in alone], 0))
        lines.append(
            f"Cells with one possible count: {least}{determined.sum()} of {frame.size}{self._named(determined)}"
        )
        lines.append(f"  of these, determined only by the combination: {new.sum()}{self._named(new)}")
        lines.append(f"Cells whose range the combination makes smaller: {narrowed.sum()}")
        text = [textwrap.fill(line, _WIDTH, subsequent_indent="      ") for line in lines]
        return "\n  ".join(text) + "\n" + textwrap.indent(last, "  ")

    def __repr__(self) -> str:
        ranks, joint = tuple(release.invariants.rank for release in self.releases), self.invariants
        return (
            f"<Composition of {len(ranks)} releases: rank {joint.rank} from {ranks}, {joint.dimension} dimensions free>"
        )

    def _named(self, which: npt.NDArray[np.bool_]) -> str:
        cells = np.flatnonzero(which).tolist()
        return f": {shown(cells, _NAMED, '; ', self.release.frame.cell_name)}" if cells else ""


def _limits(release: Release) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    lower, upper = release.fiber.bounds()
    return lower.astype(np.float64), np.where(upper < 0, np.inf, upper)


def compose(*releases: Release, delta: float | None = None, at_delta: float | None = None) -> Composition:
    """Put several releases of one confidential table together, and say what they protect and reveal together.

    Each release protects pairs of tables that agree on its own invariants. Together they protect only pairs that agree
    on all of them (Proposition 2.9), and their invariants may determine cells that no release determines alone: the
    paper compares it with a linkage attack. The noise of the releases must be independent.

    Losses add: epsilon and delta by sums, rho by its sum, mu by the root of the sum of squares; epsilon of normal noise
    through its mu, exactly, at the sum of the deltas. Pure and approximate losses together are approximate; mu beside
    epsilon becomes epsilon at `delta`, by the exact profile of the Gaussian mechanism. Others are not mixed. The loss of
    each release for a particular difference between two tables is the least of: what follows from the law of its noise; the
    row of its own guarantee; as many steps of one record as the difference takes (`bayesdp.privacy.group_loss`). Rows that
    are not exact say that they are upper bounds, and so does a delta that has reached 1: no protection by this bound. Of
    statistics, releases of the same ones are composed, and epsilon for neighbouring data sets adds up.

    Parameters
    ----------
    *releases : Release
        At least two, about the same cells.
    delta : float, optional
        Only to put mu and epsilon together.
    at_delta : float, optional
        Also work out epsilon at this delta by convolution of the losses, strictly between 0 and 1: a row of its own for each
        kind of pairs where that epsilon is smaller than what follows from the sums. It is certain, for everything is rounded
        up. Of independent noise (`DiscreteLaplace`, `DiscreteGaussian`, `Laplace`) and normal noise the law of the loss is known;
        of other noise, and of noise within bounds, only the epsilon, or epsilon and delta, that the release loses, and the worst
        law with these is taken; of other noise with rho nothing, so that there is no such row. Where all laws are known exactly
        for all pairs of a row, it also says below which no epsilon will do. Not for statistics.

    Returns
    -------
    Composition
        Print it.

    Raises
    ------
    ValueError
        If there are fewer than two, one is given twice, they are about different tables, their exact parts
        contradict one another or leave no table of counts (the rows are named), or their losses cannot be added.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Proposition 2.9.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.mechanisms import ProjectedGaussian
    >>> from bayesdp.queries import Margins
    >>> labels = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> rng = np.random.default_rng(1)
    >>> table = [[5, 3], [2, 7], [4, 4]]
    >>> by_county = ProjectedGaussian(Margins(labels, ["county"]), mu=0.3).release(table, rng)
    >>> by_education = ProjectedGaussian(Margins(labels, ["education"]), mu=0.4).release(table, rng)
    >>> both = compose(by_county, by_education)
    >>> both
    <Composition of 2 releases: rank 4 from (3, 2), 2 dimensions free>
    >>> print(f"{both.guarantee.pairs[0].loss['mu']:.4f}")  # neighbouring tables
    0.5000
    """
    if len(releases) < 2:
        raise ValueError(f"compose needs at least two releases, got {len(releases)}")
    if at_delta is not None:
        probability(at_delta, "at_delta")
    joint = joint_release(releases)
    if joint.about == "statistics" and at_delta is not None:
        raise ValueError("at_delta is for releases of tables, and these are of statistics: leave it out")
    free = joint.about == "counts" and joint.invariants.dimension
    differences = kept_differences(joint.invariants) if free else ()
    guarantee, unknown = total_guarantee(releases, joint, differences, delta, at_delta=at_delta)
    mechanism = together(releases, delta, at_delta)
    if guarantee is None:
        mechanism[LOSS_UNKNOWN] = unknown
    joint = replace(joint, guarantee=guarantee, mechanism=mechanism)
    return Composition(releases, joint, differences, unknown)


def together(releases: Sequence[Release], delta: float | None = None, at_delta: float | None = None) -> dict[str, Any]:
    """Describe a composition by the mechanisms of its releases, from which its total can be worked out again."""
    parts = [None if release.mechanism is None else dict(release.mechanism) for release in releases]
    count = len(releases)
    found: dict[str, Any] = {"mechanism": composition_name(count), "composition_of": count, "releases": parts}
    deltas = {"delta": delta, "at_delta": at_delta}
    return found | {name: float(value) for name, value in deltas.items() if value is not None}


def as_one(releases: Sequence[Release], names: Sequence[str] | None = None) -> Release:
    """Several releases as one, with their total guarantee where one can be stated; a single one as it is. See `joint_release`."""
    joint = joint_release(releases, names)
    if len(releases) == 1:
        return joint
    try:
        return compose(*releases).release
    except ValueError as error:  # the releases fit together, so it is about losses of different kinds
        return replace(joint, mechanism={**together(releases), LOSS_UNKNOWN: str(error)})


def loss_at_difference(
    releases: Sequence[Release], difference: Difference, invariants: Invariants, delta: float | None = None
) -> Loss | None:
    """The loss of releases of one table together, for tables that agree on some invariants and differ in one kind of way.

    It is the row that `compose` would state for that difference, which the invariants leave free, if the invariants were those of the
    releases; they determine those of every release. `delta` puts mu and epsilon together, where releases state one each.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> by_total = bdp.LatticeLaplace(bdp.Totals(labels), epsilon=0.25).release([[5, 3], [2, 7]], rng=1)
    >>> margins = bdp.Invariants(bdp.Margins(labels, ["county"], ["education"]))
    >>> print(loss_at_difference([by_total], bdp.privacy.DIFFERENCES["2x2 move"], margins))
    epsilon = 1
    """
    parts = parts_of(releases, invariants)
    if not parts or any(part.release.guarantee is None for part in parts):
        raise ValueError("releases must have noise, and each of those with noise a guarantee")
    stated = [part.stated for part in parts]
    both = delta if needs_delta({guarantee.kind for guarantee in stated}) else None
    kind = common_kind(stated, both)
    known = [found for part in parts if (found := part.loss(difference)) is not None]
    return total(known, kind, both) if len(known) == len(parts) else None


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
        worst ones by name, ``chi_square``, and ``plot()``.

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
        instance(other, Release, f"release {number} must be a bayesdp.Release")
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

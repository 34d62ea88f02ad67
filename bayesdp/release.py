"""A release: everything that is published about one confidential table, how it shows itself, is written and read."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np
import xarray as xr

from bayesdp import _text
from bayesdp._text import printable
from bayesdp._validate import boolean, choice, instance, set_fields, shown
from bayesdp._wiring import connected
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured, described, held_back
from bayesdp.measurements.consistency import (
    LawCheck,
    PostProcessedWarning,
    check_consistent,
    check_noisy_keeps_invariants,
    check_not_made_consistent,
    counted_once,
    law_check,
    warn_if_post_processed,
)
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.privacy.guarantee import KINDS

__all__ = ["ABOUT", "Exact", "Measured", "Release"]

ABOUT = ("counts", "statistics")
"""What a release may be about: a table of counts, or statistics that are real numbers (means, shares, covariances)."""


def _listed[T](items: Any, kind: type[T], argument: str) -> tuple[T, ...]:
    if isinstance(items, (Measured, Exact)):
        raise TypeError(f"{argument} must be a list of {kind.__name__}, got a single {type(items).__name__}")
    found = tuple(items)
    for item in found:
        instance(item, kind, f"{argument} must hold {kind.__name__} only")
    return found


def _check_about(about: str, measurements: tuple[Measured, ...], exact: tuple[Exact, ...]) -> None:
    """Statistics are any real numbers: nothing is exact about them, no law keeps their totals; shares and their like are no counts."""
    if about == "statistics" and exact:
        raise ValueError(f"a release of statistics has no exact parts, got {shown([repr(part) for part in exact], 2)}")
    no_counts = {"simplex": "that of shares that add up to 1"}
    for part in measurements:
        if about == "statistics" and part.law.keeps_invariants:
            raise ValueError(
                f"a release of statistics needs laws of independent noise, or laws within bounds, got {part.law.name!r}, which keeps "
                "invariants of a table of counts"
            )
        if about == "counts" and part.law.support in no_counts:
            raise ValueError(
                f"the law {part.law.name!r} is {no_counts[part.law.support]}, which are no counts: state about='statistics'"
            )


def _check_same_table(theirs: Frame, frame: Frame, part: Measured | Exact) -> None:
    """Check that a part is about the release's table; name the first difference."""
    if theirs.same_cells(frame):
        return
    if theirs.dims != frame.dims:
        raise ValueError(f"{part!r} is about a table with dimensions {theirs.dims}, the release about {frame.dims}")
    for dim, labels, other in zip(frame.dims, frame.labels, theirs.labels, strict=True):
        odd = sorted(set(labels) ^ set(other), key=str)
        if odd:
            raise ValueError(f"{part!r} and the release have different labels of {dim!r}: {shown(odd)}")
    raise ValueError(f"{part!r} has the release's labels in another order; build all queries on one frame")


def _with_groups(frame: Frame, others: Iterable[Frame]) -> Frame:
    """The frame with the group labels of all the parts."""
    groups = {name: (dim, labels) for name, dim, labels in frame.groups}
    for other in others:
        for name, dim, labels in other.groups:
            if groups.setdefault(name, (dim, labels)) != (dim, labels):
                raise ValueError(f"the parts of the release disagree on the group labels {name!r} of {dim!r}")
    merged = tuple((name, dim, labels) for name, (dim, labels) in groups.items())
    return frame if merged == frame.groups else Frame(frame.dims, frame.labels, merged)


def share_noise(one: Release, other: Release) -> bool:
    """Whether a measurement of one is also one of the other: the same sums, law and five or more different published values."""
    # Fewer may agree by chance, and then nobody could go on. Groups may differ.
    return one.frame.same_cells(other.frame) and any(
        np.array_equal(own.values, its.values)
        and np.unique(own.values).size >= 5
        and own.law == its.law
        and not (own.query.matrix != its.query.matrix).nnz
        for own, its in product(one.measurements, other.measurements)
    )


_SIMULATED = "simulated: the noise came from a seeded generator; this protects nobody"


def _lines(release: Release) -> list[tuple[str, str]]:
    """Headings and sentences: measurements, exact parts, the kind of guarantee."""
    lines = []
    for part in release.measurements:
        hidden = int(part.unmeasured.sum())
        missing = "".join(f", {words}" for words in held_back(part))
        missing += f", {hidden} unmeasured" if hidden else ""
        what = described(part.query) if release.about == "counts" else printable(", ".join(part.query.names[:3]))
        more = f" and {part.query.rows - 3} more" if release.about != "counts" and part.query.rows > 3 else ""
        lines.append(("measured", f"{what}{more}{missing}, law {part.law}"))
    lines += [("exact", repr(part).removeprefix("<Exact: ").removesuffix(">")) for part in release.exact]
    told = dict.fromkeys(part.law.not_private for part in release.measurements)
    lines += [("protection", why) for why in told if why]
    if release.guarantee is not None:
        lines.append(("guarantee", KINDS[release.guarantee.kind]))
    return lines


def _title(release: Release) -> str:
    if release.about == "statistics":
        return "Release of 1 statistic" if release.frame.size == 1 else f"Release of {release.frame.size} statistics"
    sizes = " × ".join(map(str, release.frame.shape))
    return f"Release of a table {printable(' × '.join(release.dims))} ({sizes} cells)"


@dataclass(frozen=True, eq=False)
class Release:
    """What is published about one confidential table: noisy measurements and exact values.

    Build one with `Release.from_published` from published numbers, with a mechanism's ``release(table)``, or
    from a file. Only published numbers are in it: no confidential count, no seed and no state of a generator.

    Parameters
    ----------
    frame : Frame
        Labels of the table.
    measurements : tuple of Measured
        Noisy parts.
    exact : tuple of Exact
        Exact parts.
    mechanism : mapping, optional
        Description of the mechanism, plain data (JSON), where it is known.
    guarantee : Guarantee, optional
        What the mechanism protects, where it is known.
    simulated : bool
        Whether the noise came from a generator whose seed somebody may know.
    about : {"counts", "statistics"}
        What the cells of the frame are: counts of records, or statistics, which are any real numbers. Statistics have no fiber
        and no exact parts, and their noise keeps no invariants.

    Raises
    ------
    TypeError
        If a part has the wrong type.
    ValueError
        If nothing is published, the parts are not about one table, exact values contradict one another (the
        rows are named), a noisy table breaks the invariants that its law keeps (the row and both totals
        are named), or a cell has two values under a law that gives one cell one value. For statistics, if
        something is exact or a law needs invariants.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity, Totals
    >>> county = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> release = Release.from_published(
    ...     county,
    ...     measured=[Measured(Identity(county), [12, -3, 40], DiscreteGaussian(sigma=5.0))],
    ...     exact=[Exact(Totals(county), 50)],
    ... )
    >>> release
    <Release of a table county (3 cells)
      measured: 3 answers by county, law discrete-gaussian sigma=5
      exact: grand total = 50>
    >>> int(release.values.sel(county="Gamma"))
    40
    """

    frame: Frame
    measurements: tuple[Measured, ...]
    exact: tuple[Exact, ...]
    mechanism: Mapping[str, Any] | None = None
    guarantee: Guarantee | None = None
    simulated: bool = False
    about: str = "counts"

    def __post_init__(self) -> None:
        frame = Frame.of(self.frame)
        measurements = _listed(self.measurements, Measured, "measured")
        exact = _listed(self.exact, Exact, "exact")
        _check_about(choice(self.about, ABOUT, "about"), measurements, exact)
        if not measurements and not exact:
            raise ValueError("a release needs at least one measured or exact part")
        parts: list[Measured | Exact] = [*measurements, *exact]
        for part in parts:
            _check_same_table(part.query.frame, frame, part)
        frame = _with_groups(frame, [part.query.frame for part in parts])
        exact = tuple(part.on_frame(frame) for part in exact)
        invariants = Invariants([part.query for part in exact if part.sign == "="], frame)
        measurements = tuple(part.on_frame(frame, invariants) for part in measurements)
        set_fields(self, frame=frame, exact=exact, measurements=measurements)
        names = [part.name for part in measurements if part.name is not None]
        if len(set(names)) < len(names):
            raise ValueError(f"names of measurements must be distinct, got {shown(names)}")
        if self.mechanism is not None:
            # Through JSON and back: a private copy, and a proof that it is plain data.
            plain = _text.loads(_text.dumps(dict(self.mechanism), "mechanism"), "mechanism")
            object.__setattr__(self, "mechanism", plain)
        kind = StatisticGuarantee if self.about == "statistics" else Guarantee
        instance(self.guarantee, kind | None, f"guarantee must be a {kind.__name__}")
        boolean(self.simulated, "simulated")
        if self.guarantee is not None and self.guarantee.simulated != self.simulated:
            raise ValueError(
                f"simulated of the release is {self.simulated}, but simulated of its guarantee is {self.guarantee.simulated}: either "
                "the noise came from a generator whose seed somebody may know, or it did not"
            )
        check_consistent(exact)
        for part in measurements:
            check_noisy_keeps_invariants(part, exact)
        counted_once(measurements, exact=exact)  # or no cell may have two values

    @classmethod
    def from_published(
        cls,
        frame: Any,
        measured: Iterable[Measured] = (),
        exact: Iterable[Exact] = (),
        *,
        mechanism: Mapping[str, Any] | None = None,
        guarantee: Guarantee | None = None,
        simulated: bool = False,
        about: str = "counts",
        adding_up: str = "refuse",
    ) -> Release:
        """Build a release from published numbers.

        Parameters
        ----------
        frame : object
            Anything with the labels of the table: DataArray, Dataset, DataFrame, mapping, Frame.
        measured : iterable of Measured
            Noisy parts.
        exact : iterable of Exact
            Exact parts.
        mechanism, guarantee, simulated, about
            See `Release`. A mechanism that is none of this package's has no description here: leave it out.
        adding_up : {"refuse", "warn"}
            What to do with ten or more noisy sums that all add up exactly, although their noise is independent and the chance of it is
            below one in a million, or with perturbed counts of which all sums agree, where that is below one in a thousand
            (`bayesdp.measurements.consistency.made_consistent`): such tables were made consistent after the noise was added,
            or totals were computed from noisy cells. And with two measurements of the same sums that differ by more than their laws
            explain (below one in a million): they are of two times. "warn" takes them as they are, with a warning.

        Returns
        -------
        Release

        Raises
        ------
        TypeError, ValueError
            As `Release`; also if no table of counts agrees with the exact values, noisy sums add up or differ (see `adding_up`), or as
            `check_stated`.

        Warns
        -----
        PostProcessedWarning
            If numbers with independent noise show that they were clipped, rounded or made consistent after the noise was
            added, see `bayesdp.measurements.consistency.signs_of_post_processing`. Below one false alarm in a million; but numbers
            that were changed may show no sign of it: ``Measured(..., postprocessing="clipped")`` says what is known, and refuses.
        """
        choice(adding_up, ("refuse", "warn"), "adding_up")
        release = Release(Frame.of(frame), tuple(measured), tuple(exact), mechanism, guarantee, simulated, about)
        release.check_feasible()
        release.check_stated()
        if about == "counts":  # statistics may be anywhere between their bounds, and whole numbers by their nature
            if adding_up == "refuse":
                check_not_made_consistent(release.measurements, release.exact, release.law_check.groups)
            warn_if_post_processed(release.measurements, release.exact, release.law_check.groups)
            worst = release.law_check.contradiction(lambda one, other: one != other and min(one, other) >= 0)
            if worst is not None:
                told = (
                    f"{worst.words} contradict each other by their laws: {worst.told}. They are taken as one table at one time; fit "
                    "tables of different times or populations each by itself, or correct a law. If they are of one table, "
                    "adding_up='warn' (--adding-up warn) takes them as they are"
                )
                if adding_up == "refuse":
                    raise ValueError(told)
                warnings.warn(told, PostProcessedWarning, stacklevel=2)
        return release

    def check_feasible(self) -> None:
        """Check that some table of counts has all the exact values; raise ValueError if none does."""
        if self.exact:
            self.fiber.find_point()

    def check_stated(self) -> None:
        """Check the mechanism and the guarantee against law, query and exact parts, as far as they can be worked out again.

        `from_published` and all readers and writers of files do. A mechanism of this package fixes the law of its noise and
        what it protects; of a mechanism that is None nothing is known that could be compared.

        Raises
        ------
        ValueError
            If the mechanism is unknown, or what is said of it or of its guarantee contradicts the rest of the release. The
            message names both sides.

        Examples
        --------
        >>> import bayesdp as bdp
        >>> county = {"county": ["Alpha", "Beta"]}
        >>> release = bdp.LatticeLaplace(bdp.Totals(county), epsilon=0.5).release([30, 80], rng=1)
        >>> stated = bdp.privacy.Guarantee("pure", {"epsilon": 0.1}, "l1", simulated=True)
        >>> Release(release.frame, release.measurements, release.exact, release.mechanism, stated, True).check_stated()
        Traceback (most recent call last):
            ...
        ValueError: parameters: the guarantee states epsilon = 0.1, but the mechanism 'lattice-laplace' has epsilon = 0.5
        """
        if self.mechanism is not None or self.guarantee is not None:
            _ = self._stated

    @cached_property
    def _stated(self) -> bool:
        connected("check what a release states")(self)
        return True

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the table."""
        return self.frame.dims

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates of the table, for ``pm.Model(coords=...)``."""
        return self.frame.coords

    @property
    def values(self) -> xr.DataArray:
        """The noisy values of the only measurement, labelled; NaN where a cell was not published.

        Raises
        ------
        ValueError
            If the release has no measurement or several; look at `measurements` then.
        """
        if len(self.measurements) != 1:
            raise ValueError(
                f"values needs exactly one measurement, and this release has {len(self.measurements)}; "
                "see release.measurements[i].labelled"
            )
        return self.measurements[0].labelled

    @cached_property
    def invariants(self) -> Invariants:
        """The exact equalities as one linear map."""
        return Invariants([part.query for part in self.exact if part.sign == "="], self.frame)

    @cached_property
    def law_check(self) -> LawCheck:
        """Whether the numbers are compatible with their laws, worked out once; see `bayesdp.check_law`."""
        return law_check(self.measurements, self.exact)

    @cached_property
    def fiber(self) -> Fiber:
        """All tables of counts that agree with the exact part.

        Raises
        ------
        ValueError
            If the release is about statistics: these are real numbers, of which no list can be made.
        """
        if self.about != "counts":
            raise ValueError(
                "a release of statistics has no fiber: a fiber holds the tables of counts that agree with it"
            )
        return Fiber.of(self.exact, self.frame)

    def to_dataset(self) -> xr.Dataset:
        """The release as a Dataset, as files and the posterior's ``release`` group hold it."""
        made: xr.Dataset = connected("make a dataset")(self)
        return made

    @classmethod
    def from_dataset(cls, dataset: xr.Dataset) -> Self:
        """Rebuild a release from `to_dataset`, checking everything.

        Raises
        ------
        ValueError
            If something is missing, unknown or inconsistent, or a newer version of bayesdp wrote it.
        """
        found: Self = connected("read a dataset")(dataset)
        return found

    def to_netcdf(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release to a netCDF-4 file, atomically.

        Raises
        ------
        FileExistsError
            If the file exists and `overwrite` is False.
        """
        connected("write netCDF")(self, path, overwrite=overwrite)

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> Self:
        """Read a release from a netCDF-4 file; nothing in the file is trusted.

        Parameters
        ----------
        path : path
            File written by `to_netcdf`.
        max_cells : int, optional
            Largest number of cells of the table, and of values of one variable. By default a million and one for each two
            bytes of the file, and never more than 50 million; ``docs/FILES.md`` says what else is limited.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is no netCDF-4 file, is damaged, declares unreasonable sizes, is of a newer version, or
            holds something that no release holds.
        """
        found: Self = connected("read netCDF")(path, max_cells=max_cells)
        return found

    def to_csv(
        self, path: str | os.PathLike[str], *, noise: str | os.PathLike[str] | None = None, overwrite: bool = False
    ) -> None:
        """Write the release as one CSV file with ``noise.json`` beside it: the form in which data are published.

        Parameters
        ----------
        path : path
            The CSV file, which gets columns of labels and one of numbers for each part.
        noise : path, optional
            Where ``noise.json`` goes, which says what each column is (its query, its law, what is exact, what was not
            published) and the rest that is known. By default ``DATA.noise.json`` beside ``DATA.csv``.
        overwrite : bool
            Whether existing files may be replaced.

        Raises
        ------
        FileExistsError
            If one exists and `overwrite` is False.
        ValueError
            If one CSV file would not keep the labels apart.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import bayesdp as bdp
        >>> county = {"county": ["Alpha", "Beta"]}
        >>> law = bdp.noise.DiscreteLaplace(b=2.0)
        >>> release = bdp.Release.from_published(
        ...     county, [bdp.Measured(bdp.Identity(county), [12, -1], law)], [bdp.Exact(bdp.Totals(county), 14)]
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     release.to_csv(Path(folder) / "counties.csv")
        ...     print((Path(folder) / "counties.csv").read_text())
        ...     bdp.Release.from_csv(Path(folder) / "counties.csv") == release
        county,measured_0,exact_0
        Alpha,12,
        Beta,-1,
        ,,14
        <BLANKLINE>
        True
        """
        connected("write CSV")(self, path, noise=noise, overwrite=overwrite)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        noise: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        max_cells: int | None = None,
    ) -> Self:
        """Read a release from a CSV file with ``noise.json``, with the same checks as `from_netcdf`.

        Parameters
        ----------
        path : path
            The CSV file, written by `to_csv` or by anybody else.
        noise : path or mapping, optional
            Its ``noise.json``, or what that holds as plain data. By default ``DATA.noise.json`` beside ``DATA.csv``.
        max_cells : int, optional
            As for `from_netcdf`.

        Raises
        ------
        FileNotFoundError
            If something is not there.
        ValueError
            If something is not right. The message names the file, and the place in it: line and column, or the path of a
            field of ``noise.json``, such as ``$.measured[0].law``.
        """
        found: Self = connected("read CSV")(path, noise=noise, max_cells=max_cells)
        return found

    def __getstate__(self) -> dict[str, Any]:
        # The fields only: cached properties are made again from them.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.frame, self.measurements, self.exact))

    def __repr__(self) -> str:
        rows = [f"  {heading}: {text}" for heading, text in _lines(self)]
        rows += [f"  {_SIMULATED}"] if self.simulated else []
        return "\n".join([f"<{_title(self)}", *rows]) + ">"

    def _repr_html_(self) -> str:
        cell = "style='text-align:left'"
        rows = "".join(
            f"<tr><th {cell}>{html.escape(heading)}</th><td {cell}>{html.escape(printable(text))}</td></tr>"
            for heading, text in _lines(self)
        )
        remark = f"<p><strong>{html.escape(_SIMULATED)}</strong></p>" if self.simulated else ""
        return f"<p><strong>{html.escape(_title(self))}</strong></p><table>{rows}</table>{remark}"

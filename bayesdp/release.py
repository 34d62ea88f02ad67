"""A release: everything that is published about one confidential table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import xarray as xr

from bayesdp import _release_text
from bayesdp import _strict_json as strict_json
from bayesdp._validate import boolean, choice, shown
from bayesdp._wiring import connected
from bayesdp.consistency import check_consistent, check_noisy_keeps_invariants, warn_if_post_processed
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.privacy import Guarantee, StatisticGuarantee

__all__ = ["ABOUT", "Exact", "Measured", "Release"]

ABOUT = ("counts", "statistics")
"""What a release may be about: a table of counts, or statistics that are real numbers (means, shares, covariances)."""


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
        rows are named), or a noisy table breaks the invariants that its law keeps (the row and both totals
        are named). For statistics, if something is exact or a law needs invariants.

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
        if choice(self.about, ABOUT, "about") == "statistics":
            _check_statistics(measurements, exact)
        else:
            _check_counts(measurements)
        if not measurements and not exact:
            raise ValueError("a release needs at least one measured or exact part")
        parts: list[Measured | Exact] = [*measurements, *exact]
        for part in parts:
            _check_same_table(part.query.frame, frame, part)
        frame = _with_groups(frame, [part.query.frame for part in parts])
        exact = tuple(own.on_frame(frame) for own in exact)
        invariants = Invariants([own.query for own in exact if own.sign == "="], frame)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "exact", exact)
        measurements = tuple(own.on_frame(frame, invariants) for own in measurements)
        object.__setattr__(self, "measurements", measurements)
        names = [own.name for own in measurements if own.name is not None]
        if len(set(names)) < len(names):
            raise ValueError(f"names of measurements must be distinct, got {shown(names)}")
        if self.mechanism is not None:
            # Through JSON and back: a private copy, and a proof that it is plain data.
            plain = strict_json.loads(strict_json.dumps(dict(self.mechanism), "mechanism"), "mechanism")
            object.__setattr__(self, "mechanism", plain)
        kind = StatisticGuarantee if self.about == "statistics" else Guarantee
        if self.guarantee is not None and not isinstance(self.guarantee, kind):
            raise TypeError(f"guarantee must be a {kind.__name__}, got {type(self.guarantee).__name__}")
        boolean(self.simulated, "simulated")
        if self.guarantee is not None and self.guarantee.simulated != self.simulated:
            raise ValueError(
                f"simulated of the release is {self.simulated}, but simulated of its guarantee is {self.guarantee.simulated}: either "
                "the noise came from a generator whose seed somebody may know, or it did not"
            )
        check_consistent(exact)
        for own in measurements:
            check_noisy_keeps_invariants(own, exact)

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

        Returns
        -------
        Release

        Raises
        ------
        TypeError, ValueError
            As `Release`; also if no table of counts agrees with the exact values, or as `check_stated`.

        Warns
        -----
        PostProcessedWarning
            If numbers with independent noise show that they were clipped, rounded or made consistent after the noise was
            added, see `bayesdp.consistency.signs_of_post_processing`. Below one false alarm in a million; but numbers that
            were changed may show no sign of it: ``Measured(..., postprocessing="clipped")`` says what is known, and refuses.
        """
        release = Release(Frame.of(frame), tuple(measured), tuple(exact), mechanism, guarantee, simulated, about)
        release.check_feasible()
        release.check_stated()
        if about == "counts":  # statistics may be anywhere between their bounds, and whole numbers by their nature
            warn_if_post_processed(release.measurements, release.exact)
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
        ValueError: the guarantee states epsilon = 0.1, but noise of the mechanism 'lattice-laplace' as described has epsilon = 0.5
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
    def from_dataset(cls, dataset: xr.Dataset) -> Release:
        """Rebuild a release from `to_dataset`, checking everything.

        Raises
        ------
        ValueError
            If something is missing, unknown or inconsistent, or a newer version of bayesdp wrote it.
        """
        found: Release = connected("read a dataset")(dataset)
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
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> Release:
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
        found: Release = connected("read netCDF")(path, max_cells=max_cells)
        return found

    def to_csv(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release as a folder: ``release.json``, and a CSV file for each part.

        Raises
        ------
        FileExistsError
            If the folder exists and `overwrite` is False, or it holds something else than a release.
        """
        connected("write a folder")(self, folder, overwrite=overwrite)

    @classmethod
    def from_csv(cls, folder: str | os.PathLike[str], *, max_cells: int | None = None) -> Release:
        """Read a release from a folder written by `to_csv`, with the same checks as `from_netcdf`."""
        found: Release = connected("read a folder")(folder, max_cells=max_cells)
        return found

    def __getstate__(self) -> dict[str, Any]:
        # The fields only: cached properties are made again from them.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.frame, self.measurements, self.exact))

    def __repr__(self) -> str:
        return _release_text.as_text(self)

    def _repr_html_(self) -> str:
        return _release_text.as_html(self)


def _listed[T](items: Any, kind: type[T], argument: str) -> tuple[T, ...]:
    if isinstance(items, (Measured, Exact)):
        raise TypeError(f"{argument} must be a list of {kind.__name__}, got a single {type(items).__name__}")
    listed = tuple(items)
    for item in listed:
        if not isinstance(item, kind):
            raise TypeError(f"{argument} must hold {kind.__name__} only, got {type(item).__name__}")
    return listed


def _check_statistics(measurements: tuple[Measured, ...], exact: tuple[Exact, ...]) -> None:
    """Statistics are any real numbers: nothing is exact about them, and no law keeps their totals."""
    if exact:
        raise ValueError(f"a release of statistics has no exact parts, got {shown([repr(own) for own in exact], 2)}")
    for own in measurements:
        if own.law.keeps_invariants:
            raise ValueError(
                f"a release of statistics needs laws of independent noise, or laws within bounds, got {own.law.name!r}, which keeps "
                "invariants of a table of counts"
            )


def _check_counts(measurements: tuple[Measured, ...]) -> None:
    """Shares are no counts: their law is around proportions."""
    for own in measurements:
        if own.law.support == "simplex":
            raise ValueError(
                f"the law {own.law.name!r} is that of shares that add up to 1, which are no counts: state about='statistics'"
            )


def _check_same_table(theirs: Frame, frame: Frame, part: Measured | Exact) -> None:
    """Check that a part is about the release's table; name the first difference."""
    if theirs.same_cells(frame):
        return
    if theirs.dims != frame.dims:
        raise ValueError(f"{part!r} is about a table with dimensions {theirs.dims}, the release about {frame.dims}")
    for dim, own, other in zip(frame.dims, frame.labels, theirs.labels, strict=True):
        odd = sorted(set(own) ^ set(other), key=str)
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

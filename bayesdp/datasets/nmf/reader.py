"""Reading noisy measurement files of the 2020 Census."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayesdp._validate import positive_integer, shown
from bayesdp.datasets.nmf.cells import Cells, cells_of, frame_of
from bayesdp.datasets.nmf.codes import Codes
from bayesdp.datasets.nmf.constraints import Limits
from bayesdp.datasets.nmf.layout import Folder, find_folder
from bayesdp.datasets.nmf.noisy import Bins, Gathered, bins_of
from bayesdp.datasets.nmf.products import Product, product_of, same_query
from bayesdp.datasets.nmf.rows import Place, Row, read_rows
from bayesdp.datasets.nmf.spine import Found, Spine, find_geounits, prefixes_of, spine_of
from bayesdp.datasets.nmf.totals import exact_totals
from bayesdp.datasets.nmf.unused import Ledger, Unused
from bayesdp.release import Release

__all__ = ["MAX_CELLS", "MeasurementFile", "read_nmf"]

MAX_CELLS = 10_000_000
"""Largest table that is built, in cells, where a user states no other: about 2 GB while a release is made."""


@dataclass(frozen=True, eq=False)
class MeasurementFile:
    """What was read from noisy measurement files.

    Parameters
    ----------
    release : Release
        The noisy answers of all levels with the law of their noise, and the exact ones. Its first dimension are the leaves, called
        after their level (``tract``); the levels above them are groups of it, and ``state_fips`` are the states.
    unused : tuple of Unused
        What the files, or the levels that were asked for, say that the release does not use, with the reason.
    codes : Codes
        Cross-walk of geocodes and ordinary codes, both ways.
    product : str
    levels : tuple of str
        Those that were read, from the leaves up.
    path : Path
        The folder.
    """

    release: Release
    unused: tuple[Unused, ...]
    codes: Codes
    product: str
    levels: tuple[str, ...]
    path: Path

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.release.frame.shape))
        parts = f"{len(self.release.measurements)} measured and {len(self.release.exact)} exact parts"
        return (
            f"<MeasurementFile {self.product}, {' < '.join(self.levels)}: {size} cells, {parts}, "
            f"{len(self.unused)} notes on what is not used (.unused)>"
        )


def read_nmf(
    path: str | os.PathLike[str],
    geography: str,
    queries: Iterable[str] | None = None,
    product: str = "pl94-person",
    *,
    levels: Iterable[str] | None = None,
    totals: Mapping[str, int] | None = None,
    cells: Mapping[str, str] | None = None,
    max_cells: int = MAX_CELLS,
) -> MeasurementFile:
    """Read noisy measurement files of the 2020 Census, or of its demonstrations, as a release.

    Needs pyarrow: ``pip install 'bayesdp[census]'``. Files of other states are not opened. Of others the keys are read first,
    and values of the rows that are asked for only, a few megabytes at a time, so that memory goes with what is read and not with the
    files.

    Parameters
    ----------
    path : path
        The folder that holds ``US_Person_PL_PROD`` and so on, or one of these folders itself (whatever its name).
    geography : str
        ``"US"``, two digits of a state (both branches of its spine are read), five digits of a county, or a geocode of the spine. What
        is read is all of it, down to the lowest of `levels`.
    queries : iterable of str, optional
        Noisy queries, such as ``"hispanic * cenrace"``; all by default.
    product : {"pl94-person", "pl94-unit", "dhc-person"}
    levels : iterable of str, optional
        Levels of geography, such as ``["County", "Tract"]``; by default all that are there. The lowest one gives the leaves.
    totals : mapping, optional
        Exact totals from published tables: ``"US"``, a state, a county or a geocode -> number. That of a state is that of
        the sum of its branches, both of which must be read.
    cells : mapping, optional
        How finely the axes of the histogram are cut: axis -> ``"detailed"``, ``"*"`` (summed over) or a recode, such as
        ``{"age": "age_38_groups"}``. By default as finely as `queries` need.
    max_cells : int
        The largest table that is built.

    Returns
    -------
    MeasurementFile

    Raises
    ------
    ImportError
        Without pyarrow.
    FileNotFoundError
        If there is no such folder.
    ValueError
        If there is no such geography, level or query (those that there are are listed); a file is cut short, or lacks columns; a
        variance is missing or not positive; geounits or levels are missing; or exact answers contradict one another. The message
        names the file and the geocode.
    NotImplementedError
        If the table has more than `max_cells` cells. Read fewer levels, or give `queries` or `cells` for coarser cells.

    Notes
    -----
    Each noisy number is the true one plus discrete Gaussian noise of the variance that stands beside it: that of the discrete law,
    from which its sigma is worked out (from 1 on ``sigma**2`` is the variance, below it is more). Constraints that say that
    sums of cells are 0 become cells that are 0. Totals of states are exact, but not in the files of persons: see `totals`.

    Measurements of areas larger than `geography` are about other cells besides, and are not used: see ``unused``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
    >>> units = np.array([[3, 40], [0, 7], [12, 90]])
    >>> blocks = synthetic_spine("50", counties=1, tracts=1, groups=1, blocks=3)
    >>> with TemporaryDirectory() as folder:
    ...     _ = write_synthetic_nmf(folder, dict(zip(blocks, units)), product="pl94-unit", variance=25.0, rng=1)
    ...     found = read_nmf(folder, "50", product="pl94-unit", levels=["County", "Block"])
    >>> found
    <MeasurementFile pl94-unit, Block < County: 3 x 2 cells, 2 measured and 2 exact parts, 4 notes on what is not used (.unused)>
    >>> found.codes.ordinary(blocks[0])
    '500010001001001'
    """
    own = product_of(product)
    prefixes = prefixes_of(geography)
    most = positive_integer(max_cells, "max_cells")
    folder = find_folder(path, own, prefixes[0][1:3] or None)
    asked = _levels(folder, own, levels)
    names = _queries(own, queries)
    found = find_geounits(folder, asked, geography)
    spine = spine_of(folder, asked, found)
    there = _names(found, "DPQuery")
    _check_names(folder, own, names, queries, there)
    table = cells_of(own.histogram, _asked_bins(own, names), cells)
    _check_size(spine, table, most, geography, own)

    ledger = Ledger()
    _note_levels(ledger, folder, own, asked, spine, names, there)
    noisy = _noisy(own, spine, found, table, names, ledger)
    limits = _limits(own, spine, found, table, ledger)
    limits.check(folder.path)
    needed = [part.bins for part in noisy] + [bins for _, _, _, bins in limits.parts]
    frame = frame_of(spine, table, needed)
    try:
        exact = limits.exact(frame)
        exact += exact_totals(totals or {}, frame, spine, folder, prefixes, own.name)
        release = Release.from_published(frame, [part.measured(frame, spine, table) for part in noisy], exact)
    except ValueError as wrong:
        raise ValueError(f"{folder.path}, geography {geography}: {wrong}") from wrong
    codes = Codes({level: spine.nodes[level] for level in spine.levels})
    return MeasurementFile(release, ledger.lines, codes, own.name, spine.levels, folder.path)


def _levels(folder: Folder, product: Product, levels: Iterable[str] | None) -> list[str]:
    if isinstance(levels, str):
        raise TypeError(f"levels must be a list of levels, got the string {levels!r}")
    asked = list(folder.levels if levels is None else levels)
    unknown = [level for level in asked if level not in product.levels]
    if unknown or not asked:
        raise ValueError(f"levels must be some of {shown(product.levels, 10)}, got {shown(unknown or asked)}")
    missing = [level for level in asked if level not in folder.levels]
    if missing:
        raise ValueError(f"{folder.path} has no level {shown(missing)}; its levels are {shown(folder.levels, 10)}")
    return [level for level in product.levels if level in asked]


def _queries(product: Product, queries: Iterable[str] | None) -> list[str] | None:
    if isinstance(queries, str):
        raise TypeError(f"queries must be a list of names, got the string {queries!r}")
    return None if queries is None else list(queries)


def _names(found: Found, kind: str) -> dict[str, set[str]]:
    """The names of rows at each level."""
    return {level: {name for place in own[kind] for _, name in place.keys} for level, own in found.items()}


def _check_names(
    folder: Folder, product: Product, names: Sequence[str] | None, queries: object, there: Mapping[str, set[str]]
) -> None:
    known = sorted(set().union(*there.values()))
    if names is None:
        return
    for name in names:
        if not any(same_query(name) == same_query(own) for own in known):
            valid = product.queries if not known else [own.removesuffix("_dpq") for own in known]
            raise ValueError(
                f"queries names {name!r}, which is not measured in {folder.path}; queries are {shown(valid, 20)}"
            )
    if not names:
        raise ValueError("queries must name at least one query; leave it out for all")


def _asked_bins(product: Product, names: Sequence[str] | None) -> list[Bins] | None:
    """What is asked of the cells; None if all, or a query's name does not say it."""
    if names is None:
        return None
    try:
        return [
            tuple(
                axis.binning(own)
                for axis, own in zip(
                    product.histogram.axes, product.histogram.named(name.removesuffix("_dpq").strip()), strict=True
                )
            )
            for name in names
        ]
    except ValueError:
        return None


def _check_size(spine: Spine, cells: Cells, most: int, geography: str, product: Product) -> None:
    leaves = len(spine.leaves)
    if leaves * cells.size > most:
        raise NotImplementedError(
            f"the table of {leaves:,} geounits of the level {spine.leaf} in {geography} by {cells.size:,} cells has "
            f"{leaves * cells.size:,} cells, and a release holds all of them in memory several times: above max_cells = {most:,}. "
            f"Read fewer levels (levels={list(spine.levels[:0:-1])!r}), a smaller geography, some of the queries, or coarser cells "
            f"(cells={{{product.histogram.names[-1]!r}: '*'}})"
        )


def _note_levels(
    ledger: Ledger,
    folder: Folder,
    product: Product,
    asked: Sequence[str],
    spine: Spine,
    names: Sequence[str] | None,
    there: Mapping[str, set[str]],
) -> None:
    top, leaf = (product.levels.index(own) for own in (spine.levels[-1], spine.leaf))
    for i, level in enumerate(product.levels):
        if level not in folder.levels:
            if i <= leaf:
                ledger.note(level, "there are no files of this level in the folder")
        elif i < top:
            ledger.note(level, "its geounits have other parts besides what was read")
        elif level not in asked:
            ledger.note(level, "it is not among the levels that were asked for")
    if names is not None:
        wanted = {same_query(name) for name in names}
        for level, own in there.items():
            left = sorted(name for name in own if same_query(name) not in wanted)
            if left:
                ledger.note(level, f"queries that were not asked for: {', '.join(left)}")


def _rows(
    product: Product, spine: Spine, found: Found, kind: str, keep: Mapping[str, frozenset[str]]
) -> Iterable[tuple[str, Row, int]]:
    """Level, row and node of all rows that are wanted."""
    for level in spine.levels[::-1]:
        node = {geocode: i for i, geocode in enumerate(spine.nodes[level])}
        places: list[Place] = found[level][kind]
        for place in places:
            for row in read_rows(place, keep[level], product.histogram.names):
                yield level, row, node[row.geocode]


def _noisy(
    product: Product, spine: Spine, found: Found, cells: Cells, names: Sequence[str] | None, ledger: Ledger
) -> list[Gathered]:
    wanted = None if names is None else {same_query(name) for name in names}
    keep = {
        level: frozenset(name for name in own if wanted is None or same_query(name) in wanted)
        for level, own in _names(found, "DPQuery").items()
    }
    gathered: dict[tuple[str, str], Gathered] = {}
    for level, row, node in _rows(product, spine, found, "DPQuery", keep):
        try:
            bins = bins_of(row, product.histogram)
        except LookupError as unknown:
            ledger.note(f"{level}, {row.name}", f"how it cuts the histogram is not known here: {unknown.args[0]}")
            continue
        why = cells.span(bins)
        if why is not None:
            ledger.note(f"{level}, {row.name}", f"it is no sum of the cells: {why}")
            continue
        key = (level, row.name)
        if key not in gathered:
            gathered[key] = Gathered.empty(level, row.name, bins, len(spine.nodes[level]))
        gathered[key].add(row, bins, node)
    for part in gathered.values():
        blank = len(part.file)
        if blank < len(spine.nodes[part.level]):
            total = len(spine.nodes[part.level])
            ledger.note(f"{part.level}, {part.name}", f"{total - blank} of {total} geounits have no such measurement")
    return list(gathered.values())


def _limits(product: Product, spine: Spine, found: Found, cells: Cells, ledger: Ledger) -> Limits:
    limits = Limits(spine, cells, product, ledger)
    keep = {level: frozenset(own) for level, own in _names(found, "Constraint").items()}
    for level, row, node in _rows(product, spine, found, "Constraint", keep):
        limits.add(level, row, node)
    return limits

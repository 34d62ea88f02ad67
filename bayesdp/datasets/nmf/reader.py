"""Reading noisy measurement files of the 2020 Census."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayesdp._validate import positive_integer, shown
from bayesdp.datasets.nmf.histograms import Cells, cells_of
from bayesdp.datasets.nmf.layout import Folder, find_folder
from bayesdp.datasets.nmf.measurements import Bins, Ledger, Unused, frame_of, limits_of, names_of, noisy_of
from bayesdp.datasets.nmf.products import PRODUCTS, Product, plain_name, product_of, same_query
from bayesdp.datasets.nmf.spine import Codes, Found, Spine, exact_totals, find_geounits, prefixes_of, spine_of
from bayesdp.release import Release


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
        The ordinary codes of geocodes.
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
    max_cells: int = 10_000_000,
) -> MeasurementFile:
    """Read noisy measurement files of the 2020 Census, or demonstration files of the 2010 Census, as a `MeasurementFile`.

    Needs pyarrow: ``pip install 'bayesdp[census]'``. Files of other states are not opened. Of others the keys are read first, and then
    the values that are asked for, a few megabytes at a time: memory goes with what is read and not with the files.

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
        The largest table that is built; 10 million cells take about 2 GB while a release is made.

    Raises
    ------
    ImportError, FileNotFoundError, ValueError
        Without pyarrow; if there is no such folder; if there is no such geography, level or query (those that there are are listed); a
        file is cut short, or lacks columns; a variance is missing or not positive; geounits or levels are missing; exact answers
        contradict one another; or folders, partitions, columns or geocodes are not as they are known here (see Notes). The message
        names the file and the geocode.
    NotImplementedError
        If the table has more than `max_cells` cells. Read fewer levels, or give `queries` or `cells` for coarser cells.

    Notes
    -----
    Each noisy number is the true one plus discrete Gaussian noise of the variance that stands beside it: that of the discrete law,
    from which its sigma is worked out (from 1 on ``sigma**2`` is the variance, below it is more). Constraints that say that
    sums of cells are 0 become cells that are 0. Totals of states are exact, but not in the files of persons: see `totals`.

    **Fifteen blocks of 2020** were given other codes after the noise was drawn (listed in the README of the Bureau's least-squares
    estimates). Nothing is moved: `codes` tells the code in the file, and whoever joins blocks with published tables by code finds
    those fifteen missing, or in another place.

    **Demonstration files** of the 2010 Census (2023, ``2010-pl94-nmf-state-partitioned`` and ``2010-dhc-nmf-county-partitioned``) were
    made by the same system of answers recoded into the form of 2020, and are read as those of 2020 are. Nobody here has seen one, so
    nothing is guessed: give the folder in which the ``<Level>.parquet`` are. What is not as in 2020 is refused with what was found;
    levels, folders and columns that are not known are in ``unused``. Codes are those of 2010; a total of a state is that of the
    branches that are there, and both must be where 2020 had both.

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
    described = product_of(product)
    prefixes = prefixes_of(geography)
    most = positive_integer(max_cells, "max_cells")
    folder = find_folder(path, described, prefixes[0][1:3] or None)
    asked = _asked_levels(folder, described, levels)
    if isinstance(queries, str):
        raise TypeError(f"queries must be a list of names, got the string {queries!r}")
    names = None if queries is None else list(queries)
    found = find_geounits(folder, asked, geography, described.histogram.names)
    ledger = Ledger()
    _note_strangers(ledger, folder, described, found)
    spine = spine_of(folder, asked, found)
    keep = _asked_rows(folder, described, names, found)
    table = cells_of(described.histogram, _asked_bins(described, names), cells)
    _check_size(spine, table, most, geography, described)

    _note_levels(ledger, folder, described, spine, found, keep)
    noisy = noisy_of(described, spine, found, table, keep, ledger)
    limits = limits_of(described, spine, found, table, ledger)
    limits.check(folder.path)
    needed = [part.bins for part in noisy] + [bins for _, _, _, bins in limits.parts]
    frame = frame_of(spine, table, needed)
    try:
        exact = limits.exact(frame)
        exact += exact_totals(totals or {}, frame, spine, folder, prefixes)
        release = Release.from_published(frame, [part.measured(frame, spine, table) for part in noisy], exact)
    except ValueError as wrong:
        raise ValueError(f"{folder.path}, geography {geography}: {wrong}") from wrong
    return MeasurementFile(release, tuple(ledger), Codes(spine.nodes), described.name, spine.levels, folder.path)


def _note_levels(
    ledger: Ledger, folder: Folder, product: Product, spine: Spine, found: Found, keep: Mapping[str, frozenset[str]]
) -> None:
    top, leaf = (product.levels.index(own) for own in (spine.levels[-1], spine.leaf))
    for i, level in enumerate(product.levels):
        if level not in folder.levels:
            if i <= leaf:
                ledger.note(level, "there are no files of this level in the folder")
        elif i < top:
            ledger.note(level, "its geounits have other parts besides what was read")
        elif level not in found:
            ledger.note(level, "it is not among the levels that were asked for")
    for level, names in names_of(found, "DPQuery").items():
        left = sorted(names - keep[level])
        if left:
            ledger.note(level, f"queries that were not asked for: {', '.join(left)}")


_PLAIN = frozenset("geocode query_name query_shape value variance sign plb State County".split())
"""Columns that are read, or say nothing that a release needs: shares of the privacy budget, and partitions."""


def _note_strangers(ledger: Ledger, folder: Folder, product: Product, found: Found) -> None:
    """Note what is there and is not known; ValueError if the files are of another product."""
    for level in folder.unknown_levels(product):
        ledger.note(level, f"the product {product.name} has no such level here")
    for level, kinds in found.items():
        for name, reason in folder.strangers(level):
            ledger.note(f"{level}, {name}", reason)
        for place in (place for places in kinds.values() for place in places):
            if not place.rows:
                ledger.note(f"{level}, {place.file.relative_to(folder.path / f'{level}.parquet')}", "it has no rows")
            strange = sorted(set(place.columns) - _PLAIN - set(product.histogram.names))
            other = [own for own in PRODUCTS.values() if set(strange) & set(own.histogram.names)]
            if other and not set(place.columns) >= set(product.histogram.names):
                raise ValueError(
                    f"{place.file} is not of the product {product.name!r}, whose axes are {shown(product.histogram.names)}: it has "
                    f"the columns {shown(strange)}, as in {shown(own.name for own in other)}"
                )
            for name in strange:
                ledger.note(f"{level}, column {name}", "what it says is not known here")


def _asked_levels(folder: Folder, product: Product, levels: Iterable[str] | None) -> list[str]:
    """The levels that are to be read, from the top down; TypeError or ValueError where there are no such."""
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


def _asked_rows(
    folder: Folder, product: Product, names: Sequence[str] | None, found: Found
) -> dict[str, frozenset[str]]:
    """The names of the noisy rows that are asked for at each level; ValueError that lists those that there are."""
    there = names_of(found, "DPQuery")
    if names is None:
        return there
    known = {same_query(name): plain_name(name) for name in sorted(set().union(*there.values()))}
    for name in names:
        if same_query(name) not in known:
            raise ValueError(
                f"queries names {name!r}, which is not measured in {folder.path}; queries are "
                f"{shown(known.values() or product.queries, 20)}"
            )
    if not names:
        raise ValueError("queries must name at least one query; leave it out for all")
    wanted = {same_query(name) for name in names}
    return {level: frozenset(name for name in own if same_query(name) in wanted) for level, own in there.items()}


def _asked_bins(product: Product, names: Sequence[str] | None) -> list[Bins] | None:
    """What is asked of the cells; None if all, or a query's name does not say it."""
    if names is None:
        return None
    try:
        return [product.histogram.binned(product.histogram.named(plain_name(name.strip()))) for name in names]
    except ValueError:
        return None


def _check_size(spine: Spine, cells: Cells, most: int, geography: str, product: Product) -> None:
    """Check that the table is not too large; NotImplementedError that says what would make it smaller."""
    leaves = len(spine.leaves)
    if leaves * cells.size > most:
        raise NotImplementedError(
            f"the table of {leaves:,} geounits of the level {spine.leaf} in {geography} by {cells.size:,} cells has "
            f"{leaves * cells.size:,} cells, and a release holds all of them in memory several times: above max_cells = {most:,}. "
            f"Read fewer levels (levels={list(spine.levels[:0:-1])!r}), a smaller geography, some of the queries, or coarser cells "
            f"(cells={{{product.histogram.names[-1]!r}: '*'}})"
        )

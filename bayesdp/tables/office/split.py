"""The cells and the margins of an office's file, each as a table of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.queries import Identity, Margins, Query, Totals
from bayesdp.storage.csv_file import CsvFile
from bayesdp.tables.long import group_labels
from bayesdp.tables.office.entries import Entries
from bayesdp.tables.office.table import PUBLISHED, STATUSES, OfficeTable
from bayesdp.tables.totals import check_no_sum, declared_totals

__all__ = ["tables_of"]

_EMPTY = 100
"""So many answers for each line are made of a file that lacks most of them; more are no table of cells."""

type Totalled = Mapping[str, str | Sequence[str] | re.Pattern[str]]
"""Dimension -> the label, or the labels, of its total, or what these match."""


def tables_of(
    entries: Entries, totals: Totalled, groups: Mapping[str, str], missing: str | None, levels: Mapping[str, Entries]
) -> tuple[OfficeTable, ...]:
    """Split what was read by the dimensions that are summed over, and by levels of the first one."""
    dims = entries.dims
    own = {name: sums for name, sums in totals.items() if name not in levels}
    summed = _summed(entries, dims, own)
    labels = [
        tuple(label for label, total in zip(every, sums, strict=True) if not total)
        for every, sums in zip(entries.labels, summed, strict=True)
    ]
    above = {name: _above(entries, labels[0], at, name) for name, at in levels.items() if name not in totals}
    larger = ((name, dims[0], codes) for name, codes in above.items())
    frame = Frame(dims, tuple(labels), (*_groups(entries, summed, labels, groups), *larger))
    own_axes = dict(zip(dims, labels, strict=True))
    found = _by_pattern(entries, frame, own_axes, summed, missing)
    if found[0].query.is_identity:
        published = np.where(found[0].codes == PUBLISHED, found[0].values, np.nan)
        check_no_sum(published, own_axes, dict.fromkeys(own, ""), entries.where)
    for name, at in levels.items():
        if name not in above and set(at.labels[0]) != {totals[name]}:
            raise ValueError(
                f"{at.where}: totals says that {name} has one label, {totals[name]!r}; it has {shown(at.labels[0])}"
            )
        axes = {name: tuple(dict.fromkeys(above.get(name, ()))), **dict(list(own_axes.items())[1:])}
        sums = _summed(at, tuple(axes), {name: (), **{dim: own[dim] for dim in axes.keys() & own.keys()}}, some=True)
        sums[0][:] = name not in above
        found += _by_pattern(at, frame, axes, sums, missing)
    return tuple(found)


def _summed(entries: Entries, dims: Sequence[str], totals: Totalled, some: bool = False) -> list[npt.NDArray[np.bool_]]:
    """Which labels are totals; of `some` only, those that are not there do not matter."""
    labels_of = dict(zip(dims, entries.labels, strict=True))
    listed: dict[str, Any] = dict(totals)
    for dim, sums in totals.items():
        if isinstance(sums, re.Pattern):
            listed[dim] = [label for label in labels_of.get(dim, ()) if sums.fullmatch(label)]
            if not listed[dim] and dim in labels_of and not some:
                raise ValueError(f"{entries.where}: no label of {dim!r} matches totals={{{dim!r}: {sums.pattern!r}}}")
        elif some:
            listed[dim] = [label for label in labels_of[dim] if label in ([sums] if isinstance(sums, str) else sums)]
    declared = declared_totals(listed, labels_of, entries.where)
    return [np.isin(own, declared[dim]) for dim, own in labels_of.items()]


def _above(entries: Entries, codes: Sequence[str], level: Entries, name: str) -> tuple[str, ...]:
    """For each code the one of a level that it begins with."""
    found = []
    for code in codes:
        own = [whole for whole in level.labels[0] if code.startswith(whole)]
        if len(own) != 1:
            raise ValueError(
                f"{entries.where}: {entries.dims[0]}={printable(code)} begins with {len(own) or 'no'} codes of {name} "
                f"in {level.where} ({shown(own or level.labels[0])}); codes nest where each begins with that of one larger area"
            )
        found += own
    empty = [whole for whole in level.labels[0] if whole not in found]
    if empty:
        raise ValueError(
            f"{level.where}: no {entries.dims[0]} of {entries.where} begins with {name}={shown(empty)}: areas of a level are missing; "
            "or choose the lines that have parts: lines={...}"
        )
    return tuple(found)


def _by_pattern(
    entries: Entries,
    frame: Frame,
    axes: Mapping[str, Sequence[str]],
    summed: Sequence[npt.NDArray[np.bool_]],
    missing: str | None,
) -> list[OfficeTable]:
    """A table for each set of dimensions that is summed over, answers labelled by `axes`."""
    positions = []
    for (name, own), every, places, sums in zip(axes.items(), entries.labels, entries.places, summed, strict=True):
        where = {label: i for i, label in enumerate(own)}
        odd = [label for label, total in zip(every, sums, strict=True) if not total and label not in where]
        if odd:
            raise ValueError(f"{entries.where}: of {name!r} {shown(odd)} are here only, elsewhere are {shown(own)}")
        positions.append(np.array([where.get(label, 0) for label in every], dtype=np.int64)[places])
    over = np.stack([sums[places] for places, sums in zip(entries.places, summed, strict=True)])
    patterns = sorted({tuple(map(bool, own)) for own in np.unique(over, axis=1).T}, key=lambda own: (sum(own), own))
    found = []
    for pattern in patterns:
        chosen = np.flatnonzero((over == np.array(pattern)[:, None]).all(axis=0))
        kept = {name: own for (name, own), total in zip(axes.items(), pattern, strict=True) if not total}
        row = [own for own, total in zip(positions, pattern, strict=True) if not total]
        found.append(_table(entries, frame, kept, chosen, row, missing))
    return found


def _groups(
    entries: Entries,
    summed: Sequence[npt.NDArray[np.bool_]],
    labels: Sequence[tuple[str, ...]],
    groups: Mapping[str, str],
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The group labels of the frame; lines of totals have none that count, and files of one table must agree."""
    found = []
    for group, dim in groups.items():
        axis = entries.dims.index(dim)
        totals = {label for label, total in zip(entries.labels[axis], summed[axis], strict=True) if total}
        rows = tuple(
            (line, (own[columns.labels[axis]], own[file.column(group)]))
            for file, columns in entries.sources
            for line, own in file.rows
            if group in file.header and own[columns.labels[axis]] not in totals
        )
        absent = set(labels[axis]) - {label for _, (label, _) in rows}
        if absent:
            raise ValueError(
                f"{entries.where}: {dim}={shown(sorted(absent))} have no {group!r} in the files that have this column"
            )
        own = group_labels(CsvFile(Path(entries.where), (dim, group), rows), group, dim, labels[axis])
        found.append((group, dim, tuple(own)))
    return tuple(found)


def _table(
    entries: Entries,
    frame: Frame,
    kept: Mapping[str, Sequence[str]],
    chosen: npt.NDArray[np.int64],
    positions: Sequence[npt.NDArray[np.int64]],
    missing: str | None,
) -> OfficeTable:
    """The table with the labels `kept`, summed over all else."""
    query = _query(frame, list(kept))
    size = prod(map(len, kept.values()))
    if size >= 2**62:
        raise ValueError(
            f"{entries.where}: the labels of {shown(kept)} have {size} combinations; a "
            "column that holds no labels is left out: ignore=[...]"
        )
    row = np.zeros(chosen.size, dtype=np.int64)
    for labels, places in zip(kept.values(), positions, strict=True):
        row = row * len(labels) + places[chosen]
    order = np.argsort(row, kind="stable")
    twice = np.flatnonzero(np.diff(row[order]) == 0)
    if twice.size:
        one, two = (int(chosen[order[int(twice.min()) + i]]) for i in (0, 1))
        raise ValueError(
            f"{entries.at(two)}: {entries.name(two)} is there already, in {entries.at(one).removeprefix(entries.where + ', ')}"
            + ("" if entries.name(one) == entries.name(two) else f" as {entries.name(one)}")
        )
    if row.size < size:
        _check_missing(entries, frame, kept, row, size, missing)
    values = np.full(size, 0.0 if missing == "zero" else np.nan)
    codes = np.full(size, 0 if missing is None else list(STATUSES).index(missing), dtype=np.int8)
    values[row], codes[row] = entries.values[chosen], entries.codes[chosen]
    whole = not (np.isnan(values).any() or entries.fractional[chosen].any())
    answers = (values.astype(np.int64) if whole else values).reshape(query.shape)
    notes = {}
    if entries.marks:
        for entry, own in zip(chosen.tolist(), row.tolist(), strict=True):
            if entry in entries.marks:
                notes[query.parts[0].name(own)] = entries.marks[entry]
    return OfficeTable(query, answers, codes.reshape(query.shape), notes)


def _query(frame: Frame, kept: Sequence[str]) -> Query:
    if tuple(kept) == frame.dims:
        return Identity(frame)
    return Margins(frame, kept) if kept else Totals(frame)


def _check_missing(
    entries: Entries,
    frame: Frame,
    kept: Mapping[str, Sequence[str]],
    row: npt.NDArray[np.int64],
    size: int,
    missing: str | None,
) -> None:
    """Check that answers without a line were declared; never allocate a table much larger than the file."""
    present = set(row.tolist())
    shape = [len(own) for own in kept.values()]
    examples = []
    for own in islice((i for i in range(size) if i not in present), 3):
        index = np.unravel_index(own, shape)
        examples.append(
            ", ".join(f"{name}={labels[int(i)]}" for (name, labels), i in zip(kept.items(), index, strict=True))
        )
    over = [
        dim for dim in frame.dims if not {dim, *(name for name, own, _ in frame.groups if own == dim)} & kept.keys()
    ]
    which = f" summed over {shown(over)}" if over else ""
    lacking = f"{entries.where}: {size - row.size} of the {size} answers{which} have no line, for example "
    lacking += printable("; ".join(examples))
    if missing is None:
        raise ValueError(
            f"{lacking}; say what that means, missing='not_published' if nothing is known of them, or another of "
            f"{shown(tuple(STATUSES)[1:], 9)}; a column that holds no labels is left out: ignore=[...]; one that follows from another "
            "is a group: groups={'state': 'county'}"
        )
    if size > _EMPTY * max(row.size, 10_000):
        raise ValueError(
            f"{lacking}; with so few of them present the columns of labels are hardly those of one table: "
            f"{shown(entries.dims)}"
        )

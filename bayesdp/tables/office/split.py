"""The cells and the margins of an office's file, each as a table of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import prod

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.queries import Identity, Margins, Query, Totals
from bayesdp.tables.long import group_labels
from bayesdp.tables.office.entries import Entries
from bayesdp.tables.office.table import PUBLISHED, STATUSES, OfficeTable
from bayesdp.tables.totals import check_no_sum, declared_totals

__all__ = ["tables_of"]

_EMPTY = 100
"""So many answers for each line are made of a file that lacks most of them; more are no table of cells."""


def tables_of(
    entries: Entries, totals: Mapping[str, str | Sequence[str]], groups: Mapping[str, str], missing: str | None
) -> tuple[OfficeTable, ...]:
    """Split what was read by the dimensions that are summed over."""
    dims = entries.columns.dims
    where = printable(entries.file.path)
    declared = declared_totals(totals, dict(zip(dims, entries.labels, strict=True)), where)
    summed = [np.isin(own, declared[dim]) for dim, own in zip(dims, entries.labels, strict=True)]
    frame_labels, positions = [], []
    for own, places, sums in zip(entries.labels, entries.places, summed, strict=True):
        kept = np.flatnonzero(~sums)
        position = np.zeros(len(own), dtype=np.int64)
        position[kept] = np.arange(len(kept))
        frame_labels.append(tuple(own[i] for i in kept))
        positions.append(position[places])
    frame = Frame(dims, tuple(frame_labels), _groups(entries, summed, frame_labels, groups))
    over = np.stack([sums[places] for places, sums in zip(entries.places, summed, strict=True)])
    patterns = sorted({tuple(map(bool, own)) for own in np.unique(over, axis=1).T}, key=lambda own: (sum(own), own))
    found = []
    for pattern in patterns:
        chosen = np.flatnonzero((over == np.array(pattern)[:, None]).all(axis=0))
        found.append(_table(entries, frame, pattern, chosen, positions, missing))
        if not any(pattern):
            labels_of = dict(zip(dims, frame_labels, strict=True))
            check_no_sum(np.where(found[0].codes == PUBLISHED, found[0].values, np.nan), labels_of, totals, where)
    return tuple(found)


def _groups(
    entries: Entries,
    summed: Sequence[npt.NDArray[np.bool_]],
    labels: Sequence[tuple[str, ...]],
    groups: Mapping[str, str],
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The group labels of the frame; lines of totals have none that count."""
    found = []
    columns, file = entries.columns, entries.file
    for group, dim in groups.items():
        axis = columns.dims.index(dim)
        totals = {label for label, total in zip(entries.labels[axis], summed[axis], strict=True) if total}
        rows = tuple(own for own in file.rows if own[1][columns.labels[axis]] not in totals)
        header = tuple(dim if i == columns.labels[axis] else name for i, name in enumerate(file.header))
        found.append(
            (group, dim, tuple(group_labels(replace(file, header=header, rows=rows), group, dim, labels[axis])))
        )
    return tuple(found)


def _table(
    entries: Entries,
    frame: Frame,
    pattern: tuple[bool, ...],
    chosen: npt.NDArray[np.int64],
    positions: Sequence[npt.NDArray[np.int64]],
    missing: str | None,
) -> OfficeTable:
    """The table that is summed over the dimensions where `pattern` is True."""
    kept = [axis for axis, total in enumerate(pattern) if not total]
    query = _query(frame, kept)
    size = prod(frame.shape[axis] for axis in kept)
    if size >= 2**62:
        raise ValueError(
            f"{printable(entries.file.path)}: the labels of {shown(frame.dims[axis] for axis in kept)} have {size} combinations; a "
            "column that holds no labels is left out: ignore=[...]"
        )
    row = np.zeros(chosen.size, dtype=np.int64)
    for axis in kept:
        row = row * frame.shape[axis] + positions[axis][chosen]
    order = np.argsort(row, kind="stable")
    twice = np.flatnonzero(np.diff(row[order]) == 0)
    if twice.size:
        one, two = (int(chosen[order[int(twice.min()) + i]]) for i in (0, 1))
        raise ValueError(
            f"{entries.at(two)}: {entries.name(two)} is there already, in line {entries.line(one)}"
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


def _query(frame: Frame, kept: Sequence[int]) -> Query:
    if len(kept) == len(frame.dims):
        return Identity(frame)
    return Margins(frame, [frame.dims[axis] for axis in kept]) if kept else Totals(frame)


def _check_missing(
    entries: Entries, frame: Frame, kept: Sequence[int], row: npt.NDArray[np.int64], size: int, missing: str | None
) -> None:
    """Check that answers without a line were declared; never allocate a table much larger than the file."""
    present = set(row.tolist())
    shape = [frame.shape[axis] for axis in kept]
    examples = []
    for own in islice((i for i in range(size) if i not in present), 3):
        index = np.unravel_index(own, shape)
        examples.append(
            ", ".join(f"{frame.dims[axis]}={frame.labels[axis][int(i)]}" for axis, i in zip(kept, index, strict=True))
        )
    path = printable(entries.file.path)
    over = [own for axis, own in enumerate(frame.dims) if axis not in kept]
    which = f" summed over {shown(over)}" if over else ""
    lacking = f"{path}: {size - row.size} of the {size} answers{which} have no line, for example {printable('; '.join(examples))}"
    if missing is None:
        raise ValueError(
            f"{lacking}; say what that means, missing='not_published' if nothing is known of them, or another of "
            f"{shown(tuple(STATUSES)[1:], 9)}; a column that holds no labels is left out: ignore=[...]; one that follows from another "
            "is a group: groups={'state': 'county'}"
        )
    if size > _EMPTY * max(row.size, 10_000):
        raise ValueError(
            f"{lacking}; with so few of them present the columns of labels are hardly those of one table: "
            f"{shown(entries.columns.dims)}"
        )

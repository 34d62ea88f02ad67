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
from bayesdp.tables.office.table import STATUSES, OfficeTable

__all__ = ["tables_of"]

_TOTALS = frozenset({
    "total", "totals", "grand total", "overall", "all", "sum", "_t", "t_t", "both sexes", "all ages", "all persons", "all categories",
    "insgesamt", "zusammen", "summe", "gesamt", "ensemble", "totaal", "totale", "yhteensä", "i alt", "totalt", "ogółem", "suma",
})  # fmt: skip
"""Labels that must be declared to be totals, or to be none."""

_EMPTY = 100
"""So many answers for each line are made of a file that lacks most of them; more are no table of cells."""


def tables_of(
    entries: Entries, totals: Mapping[str, str | Sequence[str]], groups: Mapping[str, str], missing: str | None
) -> tuple[OfficeTable, ...]:
    """Split what was read by the dimensions that are summed over.

    Raises
    ------
    ValueError
        If a total was not declared, or an answer is there twice or not at all.
    """
    dims = entries.columns.dims
    summed = _summed(entries, totals)
    frame_labels, positions = [], []
    for dim, own, places, sums in zip(dims, entries.labels, entries.places, summed, strict=True):
        kept = [i for i in range(len(own)) if not sums[i]]
        if not kept:
            raise ValueError(f"{printable(entries.file.path)}: {dim!r} has no label besides its totals")
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
    return tuple(found)


def _summed(entries: Entries, totals: Mapping[str, str | Sequence[str]]) -> list[npt.NDArray[np.bool_]]:
    """For each dimension, which of its labels are totals."""
    dims = entries.columns.dims
    if not isinstance(totals, Mapping):
        raise TypeError(f"totals must be a mapping, such as {{'area': 'Total'}}, got {totals!r}")
    unknown = [dim for dim in totals if dim not in dims]
    if unknown:
        raise ValueError(f"totals names {shown(unknown)}; dimensions are {shown(dims)}")
    found = []
    for dim, own in zip(dims, entries.labels, strict=True):
        said = totals.get(dim)
        if said is None:
            likely = next((label for label in own if label.strip().casefold() in _TOTALS), None)
            if likely is not None:
                raise ValueError(
                    f"{printable(entries.file.path)}: {dim}={likely!r} looks like a sum over {dim!r}; declare it: "
                    f"totals={{{dim!r}: {likely!r}}}, or, if it is a category like the others, totals={{{dim!r}: []}}"
                )
        listed = () if said is None else (said,) if isinstance(said, str) else tuple(said)
        missed = [label for label in listed if label not in own]
        if missed:
            raise ValueError(
                f"{printable(entries.file.path)}: totals says that {shown(missed)} is a label of {dim!r}, which has {shown(own)}"
            )
        found.append(np.array([label in listed for label in own], dtype=np.bool_))
    return found


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
    row = _rows(frame, kept, chosen, positions, size)
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


def _rows(
    frame: Frame,
    kept: Sequence[int],
    chosen: npt.NDArray[np.int64],
    positions: Sequence[npt.NDArray[np.int64]],
    size: int,
) -> npt.NDArray[np.int64]:
    """The place of each entry among the answers of its query."""
    if size >= 2**62:
        raise ValueError(
            f"the labels {shown(frame.dims[axis] for axis in kept)} have {size} combinations; a column that holds "
            "no labels is left out: ignore=[...]"
        )
    row = np.zeros(chosen.size, dtype=np.int64)
    for axis in kept:
        row = row * frame.shape[axis] + positions[axis][chosen]
    return row


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

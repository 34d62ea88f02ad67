"""The cells and the margins of an office's file, each as a table of its own."""

from __future__ import annotations

import re
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
    frame = Frame(
        dims,
        tuple(labels),
        (*_groups(entries, summed, labels, groups), *((name, dims[0], codes) for name, codes in above.items())),
    )
    found = _by_pattern(entries, frame, dims, labels, summed, missing)
    if found[0].query.is_identity:
        published = np.where(found[0].codes == PUBLISHED, found[0].values, np.nan)
        check_no_sum(published, dict(zip(dims, labels, strict=True)), own, entries.where)
    for name, at in levels.items():
        if name not in above and set(at.labels[0]) != {totals[name]}:
            raise ValueError(
                f"{at.where}: totals says that {name} has one label, {totals[name]!r}; it has {shown(at.labels[0])}"
            )
        names, codes = (name, *dims[1:]), tuple(dict.fromkeys(above.get(name, ())))
        sums = _summed(at, names, {**{dim: own[dim] for dim in dims[1:] if dim in own}, name: ()}, some=True)
        sums[0][:] = name not in above
        found += _by_pattern(at, frame, names, [codes, *labels[1:]], sums, missing)
    return tuple(found)


def _summed(entries: Entries, dims: Sequence[str], totals: Totalled, some: bool = False) -> list[npt.NDArray[np.bool_]]:
    """Which labels are totals; of `some` only, those that are not there do not matter."""
    listed: dict[str, str | Sequence[str]] = {}
    labels_of = dict(zip(dims, entries.labels, strict=True))
    for dim, sums in totals.items():
        listed[dim] = sums
        if isinstance(sums, re.Pattern):
            listed[dim] = [label for label in labels_of.get(dim, ()) if sums.fullmatch(label)]
            if not listed[dim] and dim in labels_of and not some:
                raise ValueError(f"{entries.where}: no label of {dim!r} matches totals={{{dim!r}: {sums.pattern!r}}}")
        elif some and not isinstance(sums, str):
            listed[dim] = [label for label in sums if label in labels_of[dim]]
        elif some and sums not in labels_of[dim]:
            listed[dim] = ()
    declared = declared_totals(listed, labels_of, entries.where)
    return [np.isin(own, declared[dim]) for dim, own in labels_of.items()]


def _above(entries: Entries, codes: Sequence[str], level: Entries, name: str) -> tuple[str, ...]:
    """For each code the one of a level that it begins with."""
    found = []
    for code in codes:
        own = [whole for whole in level.labels[0] if code.startswith(whole)]
        if len(own) != 1:
            raise ValueError(
                f"{entries.where}: {entries.dims[0]}={printable(code)} begins with "
                + (
                    f"{len(own)} codes, {shown(own)},"
                    if own
                    else f"no code of {name}, which are {shown(level.labels[0])},"
                )
                + f" of {level.where}; codes nest where each begins with that of the area it is part of"
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
    names: Sequence[str],
    labels: Sequence[tuple[str, ...]],
    summed: Sequence[npt.NDArray[np.bool_]],
    missing: str | None,
) -> list[OfficeTable]:
    """A table for each set of dimensions that is summed over, answers labelled by `names`."""
    positions = []
    for name, own, every, places, sums in zip(names, labels, entries.labels, entries.places, summed, strict=True):
        where = {label: i for i, label in enumerate(own)}
        odd = [label for label, total in zip(every, sums, strict=True) if not total and label not in where]
        if odd:
            raise ValueError(
                f"{entries.where}: {shown(odd)} are labels of {name!r} here only, elsewhere they are {shown(own)}"
            )
        positions.append(np.array([where.get(label, 0) for label in every], dtype=np.int64)[places])
    over = np.stack([sums[places] for places, sums in zip(entries.places, summed, strict=True)])
    patterns = sorted({tuple(map(bool, own)) for own in np.unique(over, axis=1).T}, key=lambda own: (sum(own), own))
    found = []
    for pattern in patterns:
        chosen = np.flatnonzero((over == np.array(pattern)[:, None]).all(axis=0))
        kept = {name: own for name, own, total in zip(names, labels, pattern, strict=True) if not total}
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
        known: dict[str, tuple[str, CsvFile]] = {}
        for file, columns in entries.sources:
            if group not in file.header:
                continue
            place = columns.labels[axis]
            rows = tuple(own for own in file.rows if own[1][place] not in totals)
            header = tuple(dim if i == place else name for i, name in enumerate(file.header))
            here = tuple(dict.fromkeys(own[place] for _, own in rows))
            for label, own in zip(
                here, group_labels(replace(file, header=header, rows=rows), group, dim, here), strict=True
            ):
                before, other = known.setdefault(label, (own, file))
                if before != own:
                    raise ValueError(
                        f"{printable(file.path)}: {printable(f'{dim}={label} has {group}={own}, but {group}={before}')} in "
                        f"{printable(other.path)}; files that are one table name an area alike"
                    )
        absent = [label for label in labels[axis] if label not in known]
        if absent:
            raise ValueError(
                f"{entries.where}: {dim}={shown(absent)} have no {group!r} in the files that have this column"
            )
        found.append((group, dim, tuple(known[label][0] for label in labels[axis])))
    return tuple(found)


def _table(
    entries: Entries,
    frame: Frame,
    kept: Mapping[str, tuple[str, ...]],
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
    for own, places in zip(kept.values(), positions, strict=True):
        row = row * len(own) + places[chosen]
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
    kept: Mapping[str, tuple[str, ...]],
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

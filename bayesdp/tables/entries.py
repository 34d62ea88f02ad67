"""The numbers of CSV files one by one, by the labels of their columns and lines; and the tables and margins that they make up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp._validate import instance, name_list, nearest, shown
from bayesdp.frames import Frame
from bayesdp.queries import Identity, Margins, Query, Totals
from bayesdp.storage.csv_file import NUMBER, PLAIN_NUMBERS, CsvFile
from bayesdp.storage.guarded import check_labels, damaged
from bayesdp.storage.schema import DIMENSIONS
from bayesdp.tables.office import PUBLISHED, STATUSES, Notation, OfficeTable, PlainNumbers
from bayesdp.tables.totals import check_no_sum, declaration, declared_totals, looks_like_total

VALUE_NAMES = ("count", "counts", "n", "noisy", "obs_value", "total", "value", "values")
"""A column of one of these names holds the values, unless told otherwise."""

_EMPTY = 100
"""So many answers for each line are made of a file that lacks most of them; more are no table of cells."""

type Totalled = Mapping[str, str | Sequence[str] | re.Pattern[str]]
"""Dimension -> the label, or the labels, of its total, or what these match."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file by what they hold."""

    dims: tuple[str, ...]  # dimensions of the table, in order
    # Places of the columns of labels, in a wide file of all dimensions but those of the header, and of values, in a wide file one
    # for each name there that holds labels.
    labels: tuple[int, ...]
    values: tuple[int, ...]
    flags: int | None  # place of the column of symbols and marks
    # The labels of each column of values of a wide file, along each dimension of the header.
    heads: tuple[tuple[str, ...], ...] = ()


def columns_of(
    file: CsvFile,
    *,
    wide: bool,
    dims: Sequence[str] | None,
    value: str | Sequence[str] | None,
    flags: str | None,
    groups: Mapping[str, str],
    header: str | None,
    guess: bool,
) -> Columns:
    """The columns of a file as they were declared; see `value_column` for `guess`."""
    if len(file.header) == 1:
        raise ValueError(
            f"{printable(file.path)}: there is no column of labels: the header is one column, {file.listed(file.header)}; "
            "a table needs labels and values"
        )
    if not file.rows:
        raise ValueError(f"{printable(file.path)}: there is no line below the header")
    if wide and flags is not None:
        raise ValueError("flags is for long files, where one column holds the symbols of one column of values")
    order = None if dims is None else name_list(dims, "dims")
    other = {*groups} | (set() if flags is None else {flags})
    for name in other:
        file.column(name)
    rest = [name for name in file.header if name not in other]
    found = _wide(file, order, value, rest, header) if wide else _long(file, order, value, rest, flags, guess=guess)
    if len(found.dims) > DIMENSIONS:
        raise ValueError(
            f"{printable(file.path)}: there are {len(found.dims)} dimensions, {file.listed(found.dims, 3)}, and a table has at most "
            f"{DIMENSIONS}; a column that holds no labels is left out: ignore=['state'] (--ignore state)"
        )
    labelled = found.dims[: len(found.labels)]
    for group, dim in groups.items():
        if dim not in labelled:
            raise ValueError(
                f"{printable(file.path)}: group {group!r} belongs to {dim!r}, which is no column of labels; "
                f"{nearest(dim, labelled, file.listed)} are"
            )
    return found


def value_column(file: CsvFile, value: str | None, among: Sequence[str], *, guess: bool) -> str:
    """The name of the column of values; where it may be guessed, the last of two at most."""
    if value is not None:
        if file.header[file.column(value)] not in among:
            raise ValueError(
                f"{printable(file.path)}: value is {value!r}, which is the column of flags, a group, or left out"
            )
        return value
    found = [name for name in among if name.lower() in VALUE_NAMES]
    if not found and guess and len(file.header) <= 2:
        return file.header[-1]
    if len(found) != 1:
        what = f"{file.listed(found)} could all be" if found else f"none of {file.listed(among)} is known to be"
        raise ValueError(
            f"{printable(file.path)}: {what} the column of values; name it: value='...' (--value); if the header holds the labels "
            "of one dimension: layout='wide' (--layout wide)"
        )
    return found[0]


def _long(
    file: CsvFile, order: tuple[str, ...] | None, value: Any, rest: Sequence[str], flags: str | None, *, guess: bool
) -> Columns:
    if value is not None and not isinstance(value, str):
        raise TypeError(
            f"value must be the name of one column, got {value!r}; where several columns hold one table, their names are labels "
            "of a dimension: layout='wide', and dims= with a name for it at the end"
        )
    values = value_column(file, value, rest, guess=guess)
    labels = tuple(name for name in rest if name != values)
    if order is not None and set(order) != set(labels):
        raise ValueError(
            f"{printable(file.path)}: dims are {shown(order)}, but the columns of labels are {file.listed(labels)}; a column that "
            "follows from another one is a group: groups={'state': 'county'} (--group state=county); one that holds no labels is "
            "left out: ignore=['state'] (--ignore state); if the header holds the labels of one dimension: layout='wide' "
            "(--layout wide)"
        )
    dims = labels if order is None else order
    if not dims:
        raise ValueError(f"{printable(file.path)}: there is no column of labels besides {file.listed([values])}")
    symbols = None if flags is None else file.column(flags)
    return Columns(dims, tuple(map(file.column, dims)), (file.column(values),), symbols)


def _wide(file: CsvFile, order: tuple[str, ...] | None, value: Any, rest: Sequence[str], header: str | None) -> Columns:
    parts = None if header is None else pattern(header, "header", "r'(?P<sex>[MFP])_(?P<age>.*)'")
    if parts is not None:
        named = tuple(parts.groupindex)
        if not named or order is None or set(named) & set(order):
            raise ValueError(
                f"header={header!r} must have a named group, (?P<sex>[MF]), for each dimension of the header, and dims= those of the "
                f"columns of labels; got {shown(named) if named else 'no group'}, and dims={order}"
            )
        order = (*order, *named)
    elif order is None or len(order) < 2:
        raise ValueError(_nameless(file, rest))
    if isinstance(value, str):
        raise TypeError(f"value must be a list of columns in a wide file, got {value!r}")
    places = []
    for i, dim in enumerate(order[:-1] if parts is None else order[: -len(parts.groupindex)]):
        nameless = i == 0 and dim not in file.header and file.header[0] == ""
        places.append(0 if nameless else file.column(dim))
    labels = {file.header[place] for place in places}
    unlabelled = [name for name in rest if name not in labels]
    columns = unlabelled if value is None else list(name_list(value, "value"))
    odd = sorted({*columns} - {*unlabelled})
    if odd:
        raise ValueError(
            f"{printable(file.path)}: value names {shown(odd)}; columns of values are among {file.listed(unlabelled)}"
        )
    named_columns = {*columns}
    left = [name for name in unlabelled if name not in named_columns]
    if left:
        raise ValueError(
            f"{printable(file.path)}: the columns {file.listed(left)} are not named by value; "
            f"leave them out: ignore=[{file.listed(left)}]"
        )
    if not columns:
        raise ValueError(f"{printable(file.path)}: there is no column of values besides {shown(order[: len(places)])}")
    heads = (tuple(columns),) if parts is None else _split(file, columns, parts)
    return Columns(order, tuple(places), tuple(map(file.column, columns)), None, heads)


def text_columns(file: CsvFile) -> int:
    """How many columns from the left hold labels, it seems: the first one, and those behind it that have fields with letters."""
    lettered = (any(fields[i][:1].isalpha() for _, fields in file.rows) for i in range(1, len(file.header) - 1))
    return 1 + len(list(takewhile(bool, lettered)))


def _nameless(file: CsvFile, rest: Sequence[str]) -> str:
    """How to name the dimensions of a wide file, and to declare what looks like a total."""
    names = [name for name in file.header[: text_columns(file)] if name in rest]
    heads = [name for name in rest if name not in names]
    columns = {name or "rows": [fields[file.column(name)] for _, fields in file.rows] for name in names} | {
        "NAME": heads
    }
    totals = {
        file.label_text(dim): file.listed([label])
        for dim, labels in columns.items()
        for label in [label for label in labels if looks_like_total(label)][:1]
    }
    said, options = declaration(totals)
    declared = f"; and declare the totals: {said} ({options})" if totals else ""
    return (
        f"{printable(file.path)}: in a wide file the dimension whose labels are in the header ({file.listed(heads, 3)}) has no "
        f"name there; name all, and this one last, in the place of NAME: dims=[{file.listed(columns, 9)}] "
        f"(--dims {','.join(map(file.label_text, columns))}){declared}; where each name there holds several labels, header= splits it"
    )


def _split(file: CsvFile, names: Sequence[str], parts: re.Pattern[str]) -> tuple[tuple[str, ...], ...]:
    """The labels that names of columns hold, along each dimension of the header."""
    found = []
    for name in names:
        labels = parts.fullmatch(name)
        if labels is None or not all(labels.groupdict().values()):
            raise ValueError(
                f"{printable(file.path)}: header={parts.pattern!r} finds no labels in the name of the column {file.listed([name])}; "
                f"widen it, or leave the column out: ignore=[{file.listed([name])}]"
            )
        found.append(labels)
    return tuple(tuple(str(labels[dim]) for labels in found) for dim in parts.groupindex)


def pattern(text: Any, name: str, example: str) -> re.Pattern[str]:
    """A regular expression that a user wrote."""
    instance(text, str, f"{name} must be a regular expression, such as {example}", quoted=True)
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{name} must be a regular expression, such as {example}, got {text!r}: {error}") from None


@dataclass(frozen=True, eq=False)
class Entries:
    """The values of files that are one table, one file after the other, line by line, and in a line from left to right."""

    sources: tuple[tuple[CsvFile, Columns], ...]
    # Along each dimension, in the order in which they first appear; totals among them.
    labels: tuple[tuple[str, ...], ...]
    places: tuple[Ints, ...]  # for each dimension the place of the label of each entry
    values: Ints | Floats  # NaN where there is no number
    codes: npt.NDArray[np.int8]  # places in `STATUSES`
    whole: Mask  # where a number is, written as a whole one
    marks: Mapping[int, tuple[str, ...]]  # entry -> marks of footnotes

    @classmethod
    def of(cls, file: CsvFile, columns: Columns, notation: Notation | PlainNumbers) -> Entries:
        """Those of one file."""
        labels, places = [], []
        for dim, column in zip(columns.dims, columns.labels, strict=False):
            known: dict[str, int] = {}
            where = [known.setdefault(fields[column], len(known)) for _, fields in file.rows]
            if "" in known:
                line = file.rows[where.index(known[""])][0]
                raise ValueError(
                    f"{file.at(line)}: the label of {file.listed([dim])} is empty; if it is a note below the table, say how many "
                    "lines such notes are: footer="
                )
            labels.append(tuple(known))
            places.append(np.repeat(np.array(where, dtype=np.int64), len(columns.values)))
        for header in columns.heads:
            if "" in header:
                raise ValueError(
                    f"{printable(file.path)}: column {columns.values[header.index('')] + 1} has values and no label in the header; "
                    "leave it out: ignore=['']"
                )
            heads = {label: place for place, label in enumerate(dict.fromkeys(header))}
            labels.append(tuple(heads))
            places.append(np.tile([heads[label] for label in header], len(file.rows)))
        texts = [
            fields[place] if columns.flags is None else f"{fields[place]} {fields[columns.flags]}".strip()
            for _, fields in file.rows
            for place in columns.values
        ]
        meaning = {text: notation.read(text) for text in dict.fromkeys(texts)}
        unread = [text for text, field in meaning.items() if field is None]
        read = [meaning[text] or (np.nan, 0, ()) for text in texts]
        numbers = [field[0] for field in read]
        whole = all(isinstance(number, int) for number in numbers)
        found = cls(
            ((file, columns),),
            tuple(labels),
            tuple(places),
            np.array(numbers, dtype=np.int64) if whole else np.array(numbers, dtype=np.float64),
            np.array([field[1] for field in read], dtype=np.int8),
            np.array([isinstance(number, int) for number in numbers], dtype=np.bool_),
            {i: field[2] for i, field in enumerate(read) if field[2]},
        )
        if unread:
            raise ValueError(found._undeclared(texts.index(unread[0]), unread, notation))
        return found

    def _undeclared(self, entry: int, texts: Sequence[str], notation: Notation | PlainNumbers) -> str:
        """What to do about the first text that was not declared, and which others there are."""
        if self.sources[0][0].confidential:
            return f"{self.at(entry)}: what stands at {self.name(entry)} is not a number; {PLAIN_NUMBERS}"
        first, *others = texts
        held = "the field" if not first else repr(first) if len(first) <= 60 else repr(first[:60]) + "..."
        cut = [text if len(text) <= 20 else text[:20] + "..." for text in others]
        more = f" (not declared either: {shown(cut)})" if cut else ""
        return f"{self.at(entry)}: {printable(held)} at {self.name(entry)} {notation.remedy(first)}{more}"

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """Files that hold different parts of one table, as one."""
        if len(parts) == 1:
            return parts[0]
        for part in parts:
            if part.dims != parts[0].dims:
                raise ValueError(f"{part.where}: dims are {part.dims}, those of {parts[0].where} are {parts[0].dims}")
        known: list[dict[str, int]] = [{} for _ in parts[0].dims]
        places: list[list[Ints]] = [[] for _ in known]
        marks: dict[int, tuple[str, ...]] = {}
        start = 0
        for part in parts:
            for every, labels, at, found in zip(known, part.labels, part.places, places, strict=True):
                found.append(np.array([every.setdefault(label, len(every)) for label in labels], dtype=np.int64)[at])
            marks |= {start + entry: noted for entry, noted in part.marks.items()}
            start += len(part.values)
        values, codes, whole = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "codes", "whole")
        )
        sources = tuple(source for part in parts for source in part.sources)
        return cls(sources, tuple(map(tuple, known)), tuple(map(np.concatenate, places)), values, codes, whole, marks)

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the table."""
        return self.sources[0][1].dims

    def listed(self, labels: Iterable[str], limit: int = 5) -> str:
        """Labels, for messages."""
        return self.sources[0][0].listed(labels, limit)

    def titled(self, labels: Iterable[tuple[str, str]]) -> str:
        """Labels with their dimensions, for messages."""
        text = self.sources[0][0].label_text
        return ", ".join(f"{text(dim)}={text(label)}" for dim, label in labels)

    def name(self, entry: int) -> str:
        """The labels of an entry, for messages."""
        named = zip(self.dims, self.labels, self.places, strict=True)
        return self.titled((dim, labels[place[entry]]) for dim, labels, place in named)

    @property
    def where(self) -> str:
        """The files, for messages."""
        return printable(" and ".join(str(file.path) for file, _ in self.sources))

    def at(self, entry: int) -> str:
        """The file, the line and the column of an entry, for messages."""
        for file, columns in self.sources:
            line, column = divmod(entry, len(columns.values))
            if line < len(file.rows):
                break
            entry -= len(file.rows) * len(columns.values)
        return file.at(file.rows[line][0], file.header[columns.values[column]])


def tables_of(
    entries: Entries, totals: Totalled, groups: Mapping[str, str], missing: str | None, levels: Mapping[str, Entries]
) -> tuple[OfficeTable, ...]:
    """Split what was read by the dimensions that are summed over, and by levels of the first one."""
    dims = entries.dims
    declared = {name: sums for name, sums in totals.items() if name not in levels}
    summed = _summed(entries, dims, declared)
    labels = [
        tuple(label for label, total in zip(every, sums, strict=True) if not total)
        for every, sums in zip(entries.labels, summed, strict=True)
    ]
    above = {name: _above(entries, labels[0], at, name) for name, at in levels.items() if name not in totals}
    larger = ((name, dims[0], codes) for name, codes in above.items())
    for dim, every in zip(dims, labels, strict=True):
        with damaged(entries.sources[0][0].path):
            check_labels(entries.sources[0][0].label_text(dim), [len(label) for label in every])
    upper = [(group, dim, _group(entries, group, dim, labels[dims.index(dim)])) for group, dim in groups.items()]
    frame = Frame(dims, tuple(labels), (*upper, *larger))
    axes = dict(zip(dims, labels, strict=True))
    found = _by_pattern(entries, frame, axes, summed, missing)
    if found[0].query.is_identity:
        published = np.where(found[0].codes == PUBLISHED, found[0].values, np.nan)
        check_no_sum(published, axes, dict.fromkeys(declared, ""), entries.where, entries.listed)
    for name, at in levels.items():
        if name not in above and set(at.labels[0]) != {totals[name]}:
            raise ValueError(
                f"{at.where}: totals says that {name} has one label, {totals[name]!r}; it has {shown(at.labels[0])}"
            )
        larger_axes = {name: tuple(dict.fromkeys(above.get(name, ()))), **dict(list(axes.items())[1:])}
        known = {name: (), **{dim: declared[dim] for dim in larger_axes.keys() & declared.keys()}}
        sums = _summed(at, tuple(larger_axes), known, some=True)
        sums[0][:] = name not in above
        found += _by_pattern(at, frame, larger_axes, sums, missing)
    return tuple(found)


def _summed(entries: Entries, dims: Sequence[str], totals: Totalled, some: bool = False) -> list[Mask]:
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
    declared = declared_totals(listed, labels_of, entries.where, entries.listed)
    sums_of = {dim: set(declared[dim]) for dim in labels_of}
    return [np.array([label in sums_of[dim] for label in labels]) for dim, labels in labels_of.items()]


def _above(entries: Entries, codes: Sequence[str], level: Entries, name: str) -> tuple[str, ...]:
    """For each code the one of a level that it begins with."""
    found, known = [], set(level.labels[0])
    lengths = sorted({len(whole) for whole in known}, reverse=True)
    for code in codes:
        wholes = [code[:length] for length in lengths if code[:length] in known]
        if len(wholes) != 1:
            raise ValueError(
                f"{entries.where}: {entries.dims[0]}={printable(code)} begins with {len(wholes) or 'no'} codes of {name} "
                f"in {level.where} ({shown(wholes or level.labels[0])}); codes nest where each begins with that of one larger area"
            )
        found += wholes
    known -= set(found)
    empty = [whole for whole in level.labels[0] if whole in known]
    if empty:
        raise ValueError(
            f"{level.where}: no {entries.dims[0]} of {entries.where} begins with {name}={shown(empty)}: areas of a level are missing; "
            "or choose the lines that have parts: lines={...}"
        )
    return tuple(found)


def _group(entries: Entries, group: str, dim: str, labels: Sequence[str]) -> tuple[str, ...]:
    """The group label of each label, which must follow from it in all files; lines of totals have none that count."""
    axis, known = entries.dims.index(dim), set(labels)
    found: dict[str, tuple[str, str]] = {}
    for file, columns in entries.sources:
        for line, fields in file.rows if group in file.header else ():
            label, upper = fields[columns.labels[axis]], fields[file.column(group)]
            if label not in known:
                continue
            if not upper:
                raise ValueError(f"{file.at(line)}: the label of {file.listed([group])} is empty")
            first, place = found.setdefault(label, (upper, file.at(line)))
            if first != upper:
                here, there = entries.titled([(group, upper)]), entries.titled([(group, first)])
                raise ValueError(
                    f"{file.at(line)}: {entries.titled([(dim, label)])} has {here}, but {there} in "
                    f"{place.removeprefix(f'{entries.where}, ')}; a group label must follow from the label of {dim!r} "
                    f"(if {dim!r} repeats across groups, join the two labels)"
                )
    absent = [label for label in labels if label not in found]
    if absent:
        raise ValueError(
            f"{entries.where}: {dim}={entries.listed(absent)} have no {group!r} in the files that have this column"
        )
    return tuple(found[label][0] for label in labels)


def _by_pattern(
    entries: Entries,
    frame: Frame,
    axes: Mapping[str, Sequence[str]],
    summed: Sequence[Mask],
    missing: str | None,
) -> list[OfficeTable]:
    """A table for each set of dimensions that is summed over, answers labelled by `axes`."""
    positions = []
    for (name, labels), every, places, sums in zip(axes.items(), entries.labels, entries.places, summed, strict=True):
        where = {label: i for i, label in enumerate(labels)}
        odd = [label for label, total in zip(every, sums, strict=True) if not total and label not in where]
        if odd:
            raise ValueError(f"{entries.where}: of {name!r} {shown(odd)} are here only, elsewhere are {shown(labels)}")
        positions.append(np.array([where.get(label, 0) for label in every], dtype=np.int64)[places])
    over = np.stack([sums[places] for places, sums in zip(entries.places, summed, strict=True)])
    found = []
    for totals in sorted(np.unique(over, axis=1).T.tolist(), key=lambda totals: (sum(totals), totals)):
        chosen = np.flatnonzero((over == np.array(totals)[:, None]).all(axis=0))
        kept = {name: labels for (name, labels), total in zip(axes.items(), totals, strict=True) if not total}
        row = [position for position, total in zip(positions, totals, strict=True) if not total]
        found.append(_table(entries, frame, kept, chosen, row, missing))
    return found


def _table(
    entries: Entries,
    frame: Frame,
    kept: Mapping[str, Sequence[str]],
    chosen: Ints,
    positions: Sequence[Ints],
    missing: str | None,
) -> OfficeTable:
    """The table with the labels `kept`, summed over all else."""
    identity = tuple(kept) == frame.dims
    query: Query = Identity(frame) if identity else Margins(frame, list(kept)) if kept else Totals(frame)
    size = prod(map(len, kept.values()))
    if size >= 2**62:
        raise ValueError(
            f"{entries.where}: the labels of {entries.listed(kept)} have {size} combinations; a "
            "column that holds no labels is left out: ignore=[...] (--ignore)"
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
    whole = entries.whole[chosen].all() and (row.size == size or missing == "zero")
    nothing = 0 if whole or missing == "zero" else np.nan
    values: npt.NDArray[Any] = np.full(size, nothing, np.int64 if whole else np.float64)
    codes = np.full(size, 0 if missing is None else list(STATUSES).index(missing), dtype=np.int8)
    values[row], codes[row] = entries.values[chosen], entries.codes[chosen]
    marked = [i for i, entry in enumerate(chosen.tolist()) if entry in entries.marks]
    notes = {query.parts[0].name(int(row[i])): entries.marks[int(chosen[i])] for i in marked}
    return OfficeTable(query, values.reshape(query.shape), codes.reshape(query.shape), notes)


def _check_missing(
    entries: Entries,
    frame: Frame,
    kept: Mapping[str, Sequence[str]],
    row: Ints,
    size: int,
    missing: str | None,
) -> None:
    """Check that answers without a line were declared; never allocate a table much larger than the file."""
    present = set(row.tolist())
    shape = [len(labels) for labels in kept.values()]
    examples = []
    for place in islice((i for i in range(size) if i not in present), 3):
        index = np.unravel_index(place, shape)
        examples.append(
            entries.titled((name, labels[int(i)]) for (name, labels), i in zip(kept.items(), index, strict=True))
        )
    known = {name if name in frame.dims else frame.group(name)[0] for name in kept}
    over = [dim for dim in frame.dims if dim not in known]
    what = (
        f"answers summed over {entries.listed(over)}" if over else "cells" if tuple(kept) == frame.dims else "answers"
    )
    lacking = f"{entries.where}: {size - row.size} of the {size} {what} are missing, for example {'; '.join(examples)}"
    if missing is None:
        file, read = entries.sources[0][0], entries.listed(kept)
        extra = None if over else _extra_column(kept, row)
        if extra is not None:
            named, option = file.listed([extra]), file.label_text(extra)
            raise ValueError(
                f"{lacking}; {read} were read as columns of labels, and without {named} no cell is missing: leave that column out "
                f"(--ignore {option}, ignore=[{named}]), or, if it holds labels that follow from another column, say so "
                f"(--group {option}=NAME, groups={{{named}: NAME}})"
            )
        raise ValueError(
            f"{lacking}; {read} were read as columns of labels. Write a line for each missing cell, with an empty value if it was not "
            "published (and state that: --unmeasured blank), or say what that means, missing='not_published' if nothing is known of "
            f"them, or another of {shown(tuple(STATUSES)[1:], 9)}; a column that holds no labels is left out (--ignore NAME)"
        )
    if size > _EMPTY * max(row.size, 10_000):
        raise ValueError(
            f"{lacking}; with so few of them present the columns of labels are hardly those of one table: "
            f"{entries.listed(entries.dims)}"
        )


def _extra_column(kept: Mapping[str, Sequence[str]], row: Ints) -> str | None:
    """A column without which every combination of labels has one line; of several, one that holds numbers."""
    shape = tuple(map(len, kept.values()))
    places = np.unravel_index(row, shape)
    found = []
    for i, name in enumerate(kept):
        rest = shape[:i] + shape[i + 1 :]
        if rest and prod(rest) == row.size:
            at = np.ravel_multi_index(places[:i] + places[i + 1 :], rest)
            found += [name] if np.unique(at).size == row.size else []
    numeric = [name for name in found if all(NUMBER.fullmatch(label) for label in kept[name])]
    return next(iter([*numeric, *found]), None)

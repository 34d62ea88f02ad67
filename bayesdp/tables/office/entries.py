"""The numbers of an office's files one by one: where each stands, its labels, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.storage.csv_file import CsvFile
from bayesdp.tables.office.columns import Columns
from bayesdp.tables.office.fields import Field, Notation

__all__ = ["Entries", "entries_of", "joined"]


@dataclass(frozen=True, eq=False)
class Entries:
    """The values of files that are one table, line by line, and in a line from left to right.

    Attributes
    ----------
    sources : tuple of (CsvFile, Columns)
        Where they are from, and what the columns hold; one file after the other.
    dims : tuple of str
        Dimensions of the table.
    labels : tuple of tuple of str
        Along each dimension, in the order in which they first appear; totals among them.
    places : tuple of numpy.ndarray of int64, each (entries,)
        For each dimension the place of the label of each entry.
    values : numpy.ndarray of float64, (entries,)
        NaN where there is no number.
    codes : numpy.ndarray of int8, (entries,)
        Places in `STATUSES`.
    fractional : numpy.ndarray of bool, (entries,)
        Where a number is not written as a whole one.
    marks : mapping
        Entry -> marks of footnotes.
    """

    sources: tuple[tuple[CsvFile, Columns], ...]
    dims: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    places: tuple[npt.NDArray[np.int64], ...]
    values: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int8]
    fractional: npt.NDArray[np.bool_]
    marks: Mapping[int, tuple[str, ...]]

    def name(self, entry: int) -> str:
        """The labels of an entry, as they may be shown."""
        return printable(
            ", ".join(
                f"{dim}={own[place[entry]]}"
                for dim, own, place in zip(self.dims, self.labels, self.places, strict=True)
            )
        )

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


def joined(parts: Sequence[Entries]) -> Entries:
    """Files that hold different parts of one table, as one."""
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if part.dims != parts[0].dims:
            raise ValueError(f"{part.where}: dims are {part.dims}, those of {parts[0].where} are {parts[0].dims}")
    known: list[dict[str, int]] = [{} for _ in parts[0].dims]
    places: list[list[npt.NDArray[np.int64]]] = [[] for _ in known]
    marks: dict[int, tuple[str, ...]] = {}
    start = 0
    for part in parts:
        for own, labels, at, found in zip(known, part.labels, part.places, places, strict=True):
            found.append(np.array([own.setdefault(label, len(own)) for label in labels], dtype=np.int64)[at])
        marks |= {start + entry: own for entry, own in part.marks.items()}
        start += len(part.values)
    values, codes, fractional = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "codes", "fractional")
    )
    sources = tuple(source for part in parts for source in part.sources)
    every = tuple(tuple(own) for own in known)
    return Entries(sources, parts[0].dims, every, tuple(map(np.concatenate, places)), values, codes, fractional, marks)


def entries_of(file: CsvFile, columns: Columns, notation: Notation) -> Entries:
    """Read all of them."""
    labels, places = [], []
    for dim, column in zip(columns.dims, columns.labels, strict=False):
        own: dict[str, int] = {}
        where = [own.setdefault(fields[column], len(own)) for _, fields in file.rows]
        if "" in own:
            line = file.rows[where.index(own[""])][0]
            raise ValueError(
                f"{file.at(line)}: the label of {dim!r} is empty; if it is a note below the table, say how many lines such notes "
                "are: footer="
            )
        labels.append(tuple(own))
        places.append(np.repeat(np.array(where, dtype=np.int64), len(columns.values)))
    for header in columns.heads:
        if "" in header:
            raise ValueError(
                f"{printable(file.path)}: column {columns.values[header.index('')] + 1} has values and no label in the header; "
                "leave it out: ignore=['']"
            )
        known_heads = {label: place for place, label in enumerate(dict.fromkeys(header))}
        labels.append(tuple(known_heads))
        places.append(np.tile([known_heads[label] for label in header], len(file.rows)))
    texts = _texts(file, columns)
    known: dict[str, Field | None] = {}
    found: list[Field | None] = []
    for text in texts:
        if text not in known:
            known[text] = notation.read(text)
        found.append(known[text])
    if None in known.values():
        raise ValueError(_undeclared(file, columns, notation, labels, places, texts, known))
    read = [own for own in found if own is not None]
    return Entries(
        ((file, columns),),
        columns.dims,
        tuple(labels),
        tuple(places),
        np.array([own[0] for own in read], dtype=np.float64),
        np.array([own[1] for own in read], dtype=np.int8),
        np.array([not own[3] for own in read], dtype=np.bool_),
        {i: own[2] for i, own in enumerate(read) if own[2]},
    )


def _texts(file: CsvFile, columns: Columns) -> list[str]:
    """What stands in the columns of values, with the flag of the line behind it."""
    if columns.flags is None:
        return [fields[place] for _, fields in file.rows for place in columns.values]
    [place] = columns.values
    return [f"{fields[place]} {fields[columns.flags]}".strip() for _, fields in file.rows]


def _undeclared(
    file: CsvFile,
    columns: Columns,
    notation: Notation,
    labels: list[tuple[str, ...]],
    places: list[npt.NDArray[np.int64]],
    texts: list[str],
    known: Mapping[str, Field | None],
) -> str:
    """What to do about the first text that was not declared, and which others there are."""
    texts_unknown = [text for text, own in known.items() if own is None]
    first = texts_unknown[0]
    nothing = np.zeros(0)
    own = ((file, columns),), columns.dims, tuple(labels), tuple(places)
    entries = Entries(*own, nothing, nothing.astype(np.int8), nothing.astype(bool), {})
    entry = texts.index(first)
    held = "the field" if not first else repr(first) if len(first) <= 60 else repr(first[:60]) + "..."
    others = [text if len(text) <= 20 else text[:20] + "..." for text in texts_unknown[1:]]
    more = f" (not declared either: {shown(others)})" if others else ""
    return f"{entries.at(entry)}: {printable(held)} at {entries.name(entry)} {notation.remedy(first)}{more}"

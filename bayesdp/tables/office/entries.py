"""The numbers of an office's file one by one: where each stands, its labels, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.storage.csv_file import CsvFile
from bayesdp.tables.office.columns import Columns
from bayesdp.tables.office.fields import Field, Notation

__all__ = ["Entries", "entries_of"]


@dataclass(frozen=True, eq=False)
class Entries:
    """The values of a file, line by line, and in a line from left to right.

    Attributes
    ----------
    file : CsvFile
        Where they are from.
    columns : Columns
        What its columns hold.
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

    file: CsvFile
    columns: Columns
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
                for dim, own, place in zip(self.columns.dims, self.labels, self.places, strict=True)
            )
        )

    def line(self, entry: int) -> int:
        """The line of the file that an entry stands in."""
        return self.file.rows[entry // len(self.columns.values)][0]

    def at(self, entry: int) -> str:
        """The file, the line and the column of an entry, for messages."""
        return self.file.at(self.line(entry), self.file.header[self.columns.values[entry % len(self.columns.values)]])


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
    if columns.wide:
        header = tuple(file.header[place] for place in columns.values)
        if "" in header:
            raise ValueError(
                f"{printable(file.path)}: column {columns.values[header.index('')] + 1} has values and no label in the header; "
                "leave it out: ignore=['']"
            )
        labels.append(header)
        places.append(np.tile(np.arange(len(header), dtype=np.int64), len(file.rows)))
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
        file,
        columns,
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
    entries = Entries(
        file, columns, tuple(labels), tuple(places), nothing, nothing.astype(np.int8), nothing.astype(bool), {}
    )
    entry = texts.index(first)
    held = "the field" if not first else repr(first) if len(first) <= 60 else repr(first[:60]) + "..."
    others = [text if len(text) <= 20 else text[:20] + "..." for text in texts_unknown[1:]]
    more = f" (not declared either: {shown(others)})" if others else ""
    return f"{entries.at(entry)}: {printable(held)} at {entries.name(entry)} {notation.remedy(first)}{more}"

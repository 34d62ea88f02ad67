"""Files of exact margins: what a table's rows, columns or blocks sum to."""

from __future__ import annotations

import os
from typing import Any

from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact
from bayesdp.queries import Query, SumPart
from bayesdp.storage.csv_file import CsvFile, numbers, read_csv
from bayesdp.tables.long import value_column

__all__ = ["read_margins"]

_SUMMED = ("", "*")
"""In a column of labels: summed over."""

type Cell = tuple[int, str, str]


def read_margins(path: str | os.PathLike[str], frame: Any, *, value: str | None = None) -> list[Exact]:
    r"""Read exact margins and totals from a CSV file.

    One line a sum. The columns of labels are dimensions of the table or group labels; an empty field or ``*``
    means that the sum goes over that dimension, and a dimension without a column is summed over everywhere.
    So one file can hold several margins::

        county,education,total
        Alpha,,20
        Beta,,55
        *,Low,50
        *,High,25

    Parameters
    ----------
    path : path
        CSV file.
    frame : object
        Anything with the labels of the table.
    value : str, optional
        The column of values, if it is not called total, count, value or n.

    Returns
    -------
    list of Exact
        One for each margin, in the order of the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column or a label is unknown, a sum is there twice or missing from its margin, or a value is not
        a whole number; the message names file, line and sum.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "margins.csv"
    ...     _ = path.write_text("county,education,total\nAlpha,,20\nBeta,,55\n,Low,50\n,High,25\n")
    ...     read_margins(path, labels)
    [<Exact: 2 answers by county>, <Exact: 2 answers by education>]
    """
    own = Frame.of(frame)
    file = read_csv(path)
    values = value_column(file, value)
    names = [name for name in file.header if name != values]
    known = [*own.dims, *(name for name, _, _ in own.groups)]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{file.path}: the columns {shown(unknown)} are neither dimensions nor group labels of the "
            f"table; those are {shown(known)}"
        )
    margins: dict[tuple[str, ...], list[tuple[int, tuple[str, ...], str]]] = {}
    for line, fields in file.rows:
        row = dict(zip(file.header, fields, strict=True))
        keep = tuple(name for name in names if row[name] not in _SUMMED)
        margins.setdefault(keep, []).append((line, tuple(row[name] for name in keep), row[values]))
    if not margins:
        raise ValueError(f"{file.path}: there is no line below the header")
    return [_margin(file, own, keep, rows) for keep, rows in margins.items()]


def _margin(file: CsvFile, frame: Frame, keep: tuple[str, ...], rows: list[tuple[int, tuple[str, ...], str]]) -> Exact:
    """One margin from its lines."""
    first = rows[0][0]
    try:
        part = SumPart(frame, keep)
    except ValueError as error:
        raise ValueError(f"{file.at(first)}: {error}") from None
    query = Query(frame, (part,))
    # Labels in the file are text; those of the table may be numbers.
    places = []
    for name, labels in zip(part.keep, part.answer_labels, strict=True):
        place = {str(label): i for i, label in enumerate(labels)}
        if len(place) < len(labels) or any(text in place for text in _SUMMED):
            raise ValueError(f"labels of {name!r} cannot be told apart in a file of margins: {shown(labels)}")
        places.append(place)
    order = [keep.index(name) for name in part.keep]
    found: dict[tuple[int, ...], Cell] = {}
    for line, labels, text in rows:
        sorted_labels = [labels[i] for i in order]
        for name, label, place in zip(part.keep, sorted_labels, places, strict=True):
            if label not in place:
                raise ValueError(f"{file.at(line)}: {label!r} is no label of {name!r}; labels are {shown(place)}")
        at = tuple(place[label] for place, label in zip(places, sorted_labels, strict=True))
        title = ", ".join(f"{n}={v}" for n, v in zip(part.keep, sorted_labels, strict=True)) or "the grand total"
        if at in found:
            raise ValueError(f"{file.at(line)}: {title} is there already, in line {found[at][0]}")
        if not text:
            raise ValueError(f"{file.at(line)}: {title} has no value")
        found[at] = (line, title, text)
    missing = [query.names[i] for i in range(part.rows) if _index(part, i) not in found]
    if missing:
        raise ValueError(
            f"{file.path}: the margin by {shown(part.keep)} is not complete, {shown(missing, 3)} missing; "
            "leave out or complete the margin"
        )
    ordered = [found[_index(part, i)] for i in range(part.rows)]
    try:
        return Exact(query, numbers(file, ordered).reshape(query.shape))
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from None


def _index(part: SumPart, row: int) -> tuple[int, ...]:
    """Position of an answer along each of its dimensions."""
    at = []
    for size in reversed(part.shape):
        row, rest = divmod(row, size)
        at.append(rest)
    return tuple(reversed(at))

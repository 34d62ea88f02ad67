"""Files of margins: what a table's rows, columns or blocks sum to, exactly or with noise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable
from bayesdp._validate import meant, shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact
from bayesdp.queries import Query, SumPart
from bayesdp.storage.csv_file import CsvFile, numbers, read_csv
from bayesdp.storage.guarded import damaged
from bayesdp.storage.noise_json import Layout, keys_of, title_of
from bayesdp.tables.entries import value_column

type Cell = tuple[int, str, str]


def read_margins(
    path: str | os.PathLike[str], frame: Any, *, value: str | None = None, ignore: Sequence[str] = ()
) -> list[Exact]:
    r"""Read exact margins and totals from a CSV file: one `Exact` for each margin, in the order of the file.

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
    ignore : sequence of str, optional
        Columns that are left out, whatever they hold.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file; if a column or a label is unknown, a sum is there twice or missing from its margin, or a value is not
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
    file, values, margins = _margins(path, Frame.of(frame), value, ignore)
    found = []
    for query, cells in margins:
        empty = next((cell for cell in cells if not cell[2]), None)
        if empty is not None:
            line, title, _ = empty
            raise ValueError(
                f"{file.at(line, values)}: {title} has no value; give it, or leave all lines of its margin out, which is then "
                "not exact"
            )
        answers = numbers(file, cells, values).reshape(query.shape)
        with damaged(file.path):
            found.append(Exact(query, answers))
    return found


def read_noisy_margins(
    path: str | os.PathLike[str], frame: Any, *, value: str | None = None, ignore: Sequence[str] = ()
) -> list[tuple[Query, Ints | Floats]]:
    r"""Read noisy margins, totals or cells from a CSV file of the form that `read_margins` reads.

    Parameters and errors are those of `read_margins`; but noisy values may be empty, negative or fractional.

    Returns
    -------
    list of (Query, array)
        One for each margin, in the order of the file: its query, and its noisy values in the shape of the query; NaN
        where the file has none.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "noisy_margins.csv"
    ...     _ = path.write_text("county,total\nAlpha,21\nBeta,-2\n")
    ...     [(query, values)] = read_noisy_margins(path, labels)
    >>> query.names, values.tolist()
    (['county=Alpha', 'county=Beta'], [21, -2])
    """
    file, values, margins = _margins(path, Frame.of(frame), value, ignore)
    return [(query, numbers(file, cells, values).reshape(query.shape)) for query, cells in margins]


def _margins(
    path: str | os.PathLike[str], frame: Frame, value: str | None, ignore: Sequence[str]
) -> tuple[CsvFile, str, list[tuple[Query, list[Cell]]]]:
    """The file, its column of values, and the lines of each margin in the order of its query."""
    file = read_csv(path, ignore, sums=True)
    values = value_column(file, value, file.header, guess=True)
    names = [name for name in file.header if name != values]
    known = [*frame.dims, *(name for name, _, _ in frame.groups)]
    for name in names:
        if name not in known:
            left_out = f". A column of something else is left out: ignore=[{name!r}] (--ignore {printable(name)})"
            raise ValueError(
                f"{file.path}: the column {name!r} is neither a dimension nor a group label of the table; those are {shown(known)}"
                f"{meant(name, known) or left_out}"
            )
    lines = Layout(frame, {name: name for name in names}, dict.fromkeys(names, "*"), None, str).lines(file)
    if not lines:
        raise ValueError(f"{file.path}: there is no line below the header")
    column, margins = file.column(values), []
    for keep in dict.fromkeys(keep for keep, _ in lines):
        query = Query(frame, (SumPart(frame, keep),))
        keys = list(keys_of(query))
        missing = [title_of(key) for key in keys if key not in lines]
        if missing:
            raise ValueError(
                f"{file.path}: the margin by {shown(keep)} is not complete, {shown(missing, 3)} missing; complete the margin or "
                "leave all its lines out. (A column of the table's file that is no label, as one of totals, is left out with --ignore)"
            )
        cells = [(line, title_of(key), fields[column]) for key in keys for line, fields in [lines[key]]]
        margins.append((query, cells))
    return file, values, margins

"""Read a CSV file as a statistical office publishes it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bayesdp._text import printable
from bayesdp._validate import choice, name_list, shown
from bayesdp.storage.csv_file import CsvFile
from bayesdp.tables.office.columns import columns_of, pattern
from bayesdp.tables.office.entries import Entries, entries_of, joined
from bayesdp.tables.office.fields import Notation
from bayesdp.tables.office.file import office_file
from bayesdp.tables.office.split import Totalled, tables_of
from bayesdp.tables.office.table import STATUSES, OfficeTable

__all__ = ["read_office_csv"]

type Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_office_csv(
    path: Paths,
    *,
    levels: Mapping[str, Paths] | None = None,
    layout: str = "long",
    dims: Sequence[str] | None = None,
    header: str | None = None,
    lines: Mapping[str, str] | None = None,
    value: str | Sequence[str] | None = None,
    flags: str | None = None,
    groups: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    totals: Totalled | None = None,
    missing: str | None = None,
    symbols: Mapping[str, str | int] | None = None,
    footnotes: Sequence[str] = (),
    thousands: str | Sequence[str] | None = None,
    decimal: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    skip_rows: int = 0,
    footer: int = 0,
    strip: bool = False,
) -> tuple[OfficeTable, ...]:
    r"""Read a CSV file as a statistical office publishes it, with symbols for cells that have no number.

    Nothing is guessed: what a symbol means, what a comma is and which lines are titles is declared, and where something was not
    the error says what was met, where, and how to declare it. Labels are text: ``01001`` keeps its zero.

    Parameters
    ----------
    path : path, or sequence of path
        The file, or several that hold parts of one table, such as different columns of the same areas.
    levels : mapping, optional
        Files of larger areas: name of their column of codes -> path, or paths. Otherwise they are laid out alike. The code of
        an area, a label of the first dimension, begins with that of each larger one that it is part of; these become its groups, and
        what is published of them tables of their own. One whose only code is named in `totals` is the sum over all areas.
    layout : {"long", "wide"}
        Long files have one line for each number, with columns of labels and one of values. In wide files the header holds the
        labels of the last dimension, and there is a column of values below each.
    dims : sequence of str, optional
        Dimensions of the table, in order. In long files these are the columns of labels, by default all that are nothing else.
        In wide files the last one is that of the header, which has no name there; a first column without a name gets the first.
    header : str, optional
        A regular expression that splits each name in the header of a wide file into labels of several dimensions, a named group for
        each: ``r"(?P<sex>[MF])_(?P<age>.*)"``. Then `dims` are those of the columns of labels only.
    lines : mapping, optional
        Column -> a regular expression: only lines where it matches the whole field are read, such as those of one sheet.
    value : str, or sequence of str, optional
        The column of values of a long file, if it is not called value, obs_value, count, total or n; the columns of a wide file, by
        default all that are nothing else.
    flags : str, optional
        A column of a long file that holds symbols and marks. It is read as if it stood behind the value.
    groups : mapping, optional
        Columns of labels that follow from another column, such as a region from an area: name of the group -> dimension.
    ignore : sequence of str, optional
        Columns that are left out.
    totals : mapping, optional
        Dimension -> the label, or the labels, of its total, such as ``{"area": "Total"}``. Sums that carry one become tables of their
        own, which are measurements of the same table. A compiled regular expression stands for all labels that it matches as a
        whole. An empty list says that a label which looks like a total is a category.
    missing : str, optional
        The status of answers that have no line; without it such answers are an error.
    symbols : mapping, optional
        Symbol -> ``"suppressed"``, ``"not_published"``, ``"zero"`` (a true zero), ``"below_threshold"`` or ``"not_applicable"`` (no
        count can be there), see `STATUSES`; or 0, for a symbol that stands for the published number 0, as a dash does that
        also means *rounded to zero*. The symbol ``""`` is an empty field.
    footnotes : sequence of str, optional
        Marks that may follow a number or a symbol. They are kept in `OfficeTable.notes`.
    thousands : str or sequence of str, optional
        Separator of thousands, or several: comma, point, blank, apostrophe, ``"\u00a0"`` (no-break space), ``"\u202f"`` (narrow
        no-break space), ``"\u2009"`` (thin space).
    decimal : {",", "."}, optional
        The decimal sign. Without it all numbers must be whole.
    delimiter : {",", ";", "\\t", "|"}
        What stands between fields.
    encoding : str
        Such as utf-8 (with or without a mark in front), utf-16, cp1252.
    skip_rows : int
        Lines above the header, blank ones included.
    footer : int
        Lines below the table, blank ones not counted.
    strip : bool
        Whether blanks around fields are taken away. Without it they are an error.

    Returns
    -------
    tuple of OfficeTable
        The cells of the table, then each margin that the file has (those that are summed over fewer dimensions first, and of these
        those that keep the first dimensions), and the grand total last; then the same of each level. Their queries share one frame.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError, ValueError
        If an argument or the file is not as declared: an undeclared symbol, separator or total, a cell that is there twice or not at
        all, a line with too many fields, bytes that are no text; a code that is part of no area of a level, or of several, an
        area of a level without parts, an area that two files name otherwise. The message names the line, the column and the cell, and
        how to declare what was met.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> text = "Population\narea;sex;count\n01001;F;1.203\n01001;M;..\n01001;Total;2.400\n01002;F;6 r\n01002;M;-\n01002;Total;6\n"
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "office.csv"
    ...     _ = path.write_text(text)
    ...     cells, areas = read_office_csv(
    ...         path, delimiter=";", skip_rows=1, thousands=".", footnotes=["r"], totals={"sex": "Total"},
    ...         symbols={"..": "suppressed", "-": "zero"},
    ...     )
    >>> cells
    <OfficeTable: 4 answers by area × sex: 2 published, 1 suppressed, 1 zero; footnotes 'r'>
    >>> areas.labelled.to_series().to_dict(), cells.mask("suppressed").sel(area="01001", sex="M").item()
    ({'01001': 2400, '01002': 6}, True)
    """
    notation = Notation.of({} if symbols is None else symbols, footnotes, thousands, decimal)
    if missing is not None:
        choice(missing, tuple(STATUSES)[1:], "missing")
    for name, given in {"levels": levels, "groups": groups, "totals": totals, "lines": lines}.items():
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a mapping, with names of columns as keys, got {given!r}")
    left_out, upper = name_list(ignore, "ignore"), dict(groups or {})
    chosen = {name: pattern(text, f"lines of {name!r}", "'Table 1'") for name, text in (lines or {}).items()}
    met: set[str] = set()

    def read(paths: Paths, level: str | None) -> Entries:
        several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not several:
            raise ValueError("path must name a file, or several, got none")
        found = []
        for target in several:
            file = office_file(
                target, delimiter=delimiter, encoding=encoding, skip_rows=skip_rows, footer=footer, strip=strip
            )
            met.update(file.header)
            names = [level, *dims[1:]] if level and dims else dims
            alone = len(several) == 1 and not levels  # where there are more files, each has some of the columns
            left = [name for name in left_out if alone or name in file.header]
            own_groups = {name: dim for name, dim in upper.items() if alone or name in file.header}
            if level:
                left, own_groups = [*left, *own_groups], {}
            columns = columns_of(file, layout, names, value, flags, own_groups, left, header)
            found.append(entries_of(_of_lines(file, chosen), columns, notation))
        return joined(found)

    entries = read(path, None)
    above = {name: read(own, name) for name, own in (levels or {}).items()}
    unknown = [name for name in (*left_out, *upper, *chosen) if name not in met]
    if unknown:
        raise ValueError(f"{entries.where}: there is no column {shown(unknown)}; columns are {shown(sorted(met), 9)}")
    return tables_of(entries, {} if totals is None else totals, upper, missing, above)


def _of_lines(file: CsvFile, chosen: Mapping[str, re.Pattern[str]]) -> CsvFile:
    """The lines of a file that were chosen."""
    rows = file.rows
    for name, text in chosen.items():
        if name in file.header:
            place = file.column(name)
            rows = tuple(own for own in rows if text.fullmatch(own[1][place]))
            if not rows:
                raise ValueError(
                    f"{printable(file.path)}: no line is left where lines={{{name!r}: {text.pattern!r}}} matches the column"
                )
    return replace(file, rows=rows)

"""Read a CSV file as a statistical office publishes it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bayesdp._validate import choice
from bayesdp.tables.office.columns import columns_of
from bayesdp.tables.office.entries import entries_of
from bayesdp.tables.office.fields import Notation
from bayesdp.tables.office.file import office_file
from bayesdp.tables.office.split import tables_of
from bayesdp.tables.office.table import STATUSES, OfficeTable

__all__ = ["read_office_csv"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


def read_office_csv(
    path: str | os.PathLike[str],
    *,
    layout: str = "long",
    dims: Sequence[str] | None = None,
    value: str | Sequence[str] | None = None,
    flags: str | None = None,
    groups: Mapping[str, str] = _NOTHING,
    ignore: Sequence[str] = (),
    totals: Mapping[str, str | Sequence[str]] = _NOTHING,
    missing: str | None = None,
    symbols: Mapping[str, str | int] = _NOTHING,
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
    path : path
        The file.
    layout : {"long", "wide"}
        Long files have one line for each number, with columns of labels and one of values. In wide files the header holds the
        labels of the last dimension, and there is a column of values below each.
    dims : sequence of str, optional
        Dimensions of the table, in order. In long files these are the columns of labels, by default all that are nothing else.
        In wide files the last one is that of the header, which has no name there; a first column without a name gets the first.
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
        own, which are measurements of the same table. An empty list says that a label which looks like a total is a
        category.
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
        those that keep the first dimensions), and the grand total last. Their queries share one frame.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError, ValueError
        If an argument or the file is not as declared: an undeclared symbol, separator or total, a cell that is there twice or not at
        all, a line with too many fields, bytes that are no text. The message names the line, the column and the cell, and
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
    notation = Notation.of(symbols, footnotes, thousands, decimal)
    if missing is not None:
        choice(missing, tuple(STATUSES)[1:], "missing")
    file = office_file(path, delimiter=delimiter, encoding=encoding, skip_rows=skip_rows, footer=footer, strip=strip)
    columns = columns_of(file, layout, dims, value, flags, groups, ignore)
    entries = entries_of(file, columns, notation)
    return tables_of(entries, totals, groups, missing)

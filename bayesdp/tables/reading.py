"""Tables from users' files: CSV files, those of statistical offices among them, and netCDF."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import choice, instance, name_list, nearest, shown
from bayesdp.queries import Query
from bayesdp.storage.csv_file import CsvFile, read_csv
from bayesdp.storage.guarded import damaged
from bayesdp.storage.hdf5 import load_netcdf
from bayesdp.tables.entries import VALUE_NAMES, Entries, Totalled, columns_of, pattern, tables_of, text_columns
from bayesdp.tables.office import STATUSES, Notation, OfficeTable, PlainNumbers
from bayesdp.tables.totals import Declared, check_no_sum, declared_totals, looks_like_total

_DECLARED = (
    "decimal", "delimiter", "encoding", "flags", "footer", "footnotes", "header", "lines", "missing", "skip_rows", "strip", "symbols",
    "thousands",
)  # fmt: skip
"""How `read_table` may be told that a file is written, as `read_office_csv`."""

_SCALING = ("scale_factor", "add_offset", "missing_value")

type Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_table(
    path: str | os.PathLike[str],
    *,
    dims: Sequence[str] | None = None,
    value: str | None = None,
    groups: Mapping[str, str] | None = None,
    layout: str = "auto",
    ignore: Sequence[str] = (),
    totals: Mapping[str, str | Sequence[str]] | None = None,
    confidential: bool = False,
    **declared: Any,
) -> xr.DataArray:
    r"""Read a table of counts, true or noisy, from a CSV or netCDF file, whose forms ``docs/FILES.md`` shows.

    Parameters
    ----------
    path : path
        ``.csv``, or ``.nc`` for netCDF-4.
    dims : sequence of str, optional
        Names of the dimensions. A wide table needs them, because its header holds labels of a dimension that
        is named nowhere; this one is the last. For a long table they choose the order.
    value : str, optional
        Long table: the column of values; not needed if it is called count, value, obs_value, noisy, total or n, or if
        there are two columns. netCDF: the variable; not needed if there is one.
    groups : mapping of str to str, optional
        Long table: columns that are no dimensions but labels of groups, and the dimension each belongs to, as
        in ``{"state": "county"}``.
    layout : {"auto", "long", "wide"}
        Form of a CSV file. A table is taken as wide if it has no column of values and everything but its
        first column is numbers.
    ignore : sequence of str, optional
        Columns of a CSV file that are left out, whatever they hold: neither labels nor values.
    totals : mapping, optional
        CSV: dimension -> the label, or the labels, of its total, such as ``{"county": "Total"}``. What carries one is no cell and is
        left out here; `read_table_totals` has it. An empty list says that a label which looks like a total is a category.
    confidential : bool, default False
        For the true table, of which a release is to be made: messages about what is wrong with the file name line, column
        and rule, and show no number of the file, nor any label or name of a column with a digit in it.
    **declared
        How a CSV file is written where it is otherwise than by default, as for `read_office_csv`: `delimiter`, `encoding`,
        `skip_rows`, `thousands`, `symbols` and the like. A cell with a symbol is NaN; of ``"zero"`` and ``"below_threshold"`` more
        is known, so they are refused here.

    Returns
    -------
    xarray.DataArray
        int64 if all numbers are written as integers, otherwise float64; NaN where a cell is empty. Labels in
        CSV files are text, also where they look like numbers: 017 stays 017. They come in the order of the
        file, and group labels as non-dimension coordinates.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file; if cells are repeated, missing or not numeric, or the form is not clear; the message names file, line
        and cell. Also if a label that is not declared says that it is a total, in one of many languages, or is nearer to the sum of
        all others than chance explains (below one in a million); or if totals of a confidential table are no sums of its cells.

    See Also
    --------
    read_table_totals : what was published for the totals.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table.csv"
    ...     _ = path.write_text("county,Low,High\nAlpha,15,1\nBeta,20,10\n")
    ...     table = read_table(path, dims=["county", "education"])
    >>> table.sel(county="Beta", education="High").item()
    10
    """
    form = {"dims": dims, "value": value, "groups": groups, "layout": layout, "ignore": ignore, **declared}
    cells, answers = _split(path, {} if totals is None else totals, confidential=confidential, **form)
    for query, values in answers if confidential else ():
        if not np.array_equal(query.apply(cells.values), values):
            raise ValueError(
                f"{path}: the declared totals by {shown(values.dims) or 'nothing'} are not all sums of the cells"
            )
    return cells


def read_table_totals(
    path: str | os.PathLike[str], totals: Mapping[str, str | Sequence[str]], **form: Any
) -> list[tuple[Query, xr.DataArray]]:
    r"""Read the totals that a file has among its labels: under a law of noise, each is a measurement of its own.

    Parameters and errors are those of `read_table`.

    Returns
    -------
    list of (Query, xarray.DataArray)
        Margins, those of more dimensions first, and the grand total: the query, about the cells that `read_table` returns, and what
        was published, of the shape of the query.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table.csv"
    ...     _ = path.write_text("county,Low,High\nAlpha,15,1\nBeta,20,10\nTotal,34,12\n")
    ...     [(query, values)] = read_table_totals(path, {"county": "Total"}, dims=["county", "education"])
    >>> query.names, values.values.tolist()
    (['education=Low', 'education=High'], [34, 12])
    """
    return _split(path, totals, **form)[1]


def _split(
    path: str | os.PathLike[str], totals: Declared, *, confidential: bool = False, **form: Any
) -> tuple[xr.DataArray, list[tuple[Query, xr.DataArray]]]:
    """The cells of a file, and its totals, which are all declared."""
    target = Path(path)
    for name in form.keys() - {*_DECLARED, "dims", "value", "groups", "layout", "ignore"}:
        raise TypeError(f"{name!r} is nothing to be declared of a table; that is {nearest(name, _DECLARED)}")
    for name in ("dims", "ignore"):
        name_list(form.get(name) or (), name)
    if target.suffix.lower() == ".nc":
        return _netcdf_table(target, totals, **form), []
    if target.suffix.lower() != ".csv":
        raise ValueError(f"{target}: a table must be a .csv or .nc file")
    signs = {name: form.pop(name) for name in ("symbols", "footnotes", "thousands", "decimal") if name in form}
    notation = Notation.of(**signs) if any(signs.values()) else PlainNumbers()
    form = {"layout": "auto", "confidential": confidential, "totals": totals, **form}
    (cells, *sums), column = _tables(target, notation, guess=True, **form)
    if not cells.query.is_identity:
        raise ValueError(f"{target}: each line is a total as declared, and none a cell")
    lost = np.flatnonzero(cells.mask("zero", "below_threshold"))
    if lost.size:
        which, status = cells.query.names[lost[0]], str(cells.status.values.reshape(-1)[lost[0]])
        raise ValueError(
            f"{target}: {'a cell' if confidential else printable(which)} is declared {status!r} ({STATUSES[status]}), which a plain "
            "table cannot say: read_office_csv keeps it; a symbol that stands for the published number 0 is symbols={'-': 0}"
        )
    return cells.labelled.rename(column).copy(), [(table.query, table.labelled) for table in sums]


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
    skip_rows, footer : int
        Lines above the header, blank ones included, and below the table, blank ones not counted.
    strip : bool
        Whether blanks around fields are taken away. Without it they are an error.

    Returns
    -------
    tuple of OfficeTable
        The cells of the table, then each margin that the file has (those that are summed over fewer dimensions first, and of these
        those that keep the first dimensions), and the grand total last; then the same of each level. Their queries share one frame.

    Raises
    ------
    FileNotFoundError, TypeError, ValueError
        If there is no such file; if an argument or the file is not as declared: an undeclared symbol, separator or total, a cell that
        is there twice or not at all, a line with too many fields, bytes that are no text; a code that is part of no area of a level,
        or of several, an area of a level without parts, an area that two files name otherwise. The message names the line, the column
        and the cell, and how to declare what was met.

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
    tables, _ = _tables(
        path, notation, levels=levels, layout=layout, dims=dims, header=header, lines=lines, value=value, flags=flags, groups=groups,
        ignore=ignore, totals=totals, missing=missing, delimiter=delimiter, encoding=encoding, skip_rows=skip_rows, footer=footer,
        strip=strip,
    )  # fmt: skip
    return tables


def _tables(
    path: Paths,
    notation: Notation | PlainNumbers,
    *,
    guess: bool = False,
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
    **form: Any,
) -> tuple[tuple[OfficeTable, ...], str | None]:
    """The cells of a table and its sums, and the name of the column of values; see `read_office_csv` for what is declared."""
    # `guess`: whether the layout, and which of two columns holds the values, may be found out.
    choice(layout, ("auto", "long", "wide") if guess else ("long", "wide"), "layout")
    if missing is not None:
        choice(missing, tuple(STATUSES)[1:], "missing")
    for name, given in {"levels": levels, "groups": groups, "totals": totals, "lines": lines}.items():
        instance(given, Mapping | None, f"{name} must be a mapping, with names of columns as keys", quoted=True)
    left_out, upper, sums = name_list(ignore, "ignore"), dict(groups or {}), {} if totals is None else totals
    chosen = {name: pattern(text, f"lines of {name!r}", "'Table 1'") for name, text in (lines or {}).items()}
    met: set[str] = set()

    def read(paths: Paths, level: str | None) -> Entries:
        several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not several:
            raise ValueError("path must name a file, or several, got none")
        found = []
        for target in several:
            alone = len(several) == 1 and not levels  # where there are more files, each has some of the columns
            dropped = [name for name in (*left_out, *(upper if level else ())) if name not in chosen]
            file = read_csv(target, dropped, several=not alone, **form)
            met.update(file.header, file.left_out)
            file = _of_lines(file, chosen, left_out)
            wide = layout == "wide" or (
                layout == "auto" and value is None and not upper and _looks_wide(file, sums, dims, notation)
            )
            if header is not None and not wide:
                raise ValueError("header is for wide files, whose header holds labels: layout='wide'")
            columns = columns_of(
                file,
                wide=wide,
                dims=[level, *dims[1:]] if level and dims else dims,
                value=None if guess and wide else value,
                flags=flags,
                groups={} if level else {name: dim for name, dim in upper.items() if alone or name in file.header},
                header=header,
                guess=guess,
            )
            found.append(Entries.of(file, columns, notation))
        return Entries.joined(found)

    entries = read(path, None)
    above = {name: read(paths, name) for name, paths in (levels or {}).items()}
    unknown = [name for name in (*left_out, *upper, *chosen) if name not in met]
    if unknown:
        raise ValueError(f"{entries.where}: there is no column {shown(unknown)}; columns are {shown(sorted(met), 9)}")
    file, columns = entries.sources[0]
    return tables_of(entries, sums, upper, missing, above), None if columns.heads else file.header[columns.values[0]]


def _looks_wide(file: CsvFile, totals: Totalled, dims: Sequence[str] | None, notation: Notation | PlainNumbers) -> bool:
    """Distinct labels in the first columns, no text in the others, and none of values by name, or one that is their total."""
    if not file.rows:
        return False
    labels = {
        label for total in totals.values() for label in ([total] if isinstance(total, str | re.Pattern) else total)
    }
    order = list(dims or ())
    order[:1] = [""] if order and file.header[0] == "" else order[:1]
    # A column, or a slip of the pen for one.
    if len(order) > 1 and get_close_matches(order[-1], file.header, cutoff=0.75):
        return False
    said = len(order) > 1 and {*order[:-1]} <= {*file.header}  # as in no long file
    places = [file.column(name) for name in order[:-1]] if said else list(range(text_columns(file)))
    below = [i for i in range(len(file.header)) if i not in places]
    keys = {tuple(fields[i] for i in places) for _, fields in file.rows}
    texts = {fields[i][:1] for _, fields in file.rows for i in below}
    if len(below) < 2 or len(keys) < len(file.rows) or any(text.isalpha() for text in texts):
        return False
    named = [i for i in below if file.header[i].lower() in VALUE_NAMES and file.header[i] not in labels]
    if not named:
        return said or len(places) == 1
    if len(named) > 1 or not looks_like_total(file.header[named[0]]):
        return False
    read = [[(notation.read(fields[i]) or (np.nan,))[0] for i in below] for _, fields in file.rows]
    numbers, total = np.array(read, dtype=np.float64), below.index(named[0])
    off = np.abs(2 * numbers[:, total] - numbers.sum(axis=1))  # from the sum of the others, noise of both included
    return said or (len(below) > 2 and bool(np.nansum(off) < np.nansum(np.abs(numbers[:, total])) / 2))


def _of_lines(file: CsvFile, chosen: Mapping[str, re.Pattern[str]], ignore: Sequence[str]) -> CsvFile:
    """The lines of a file that were chosen, perhaps by columns that are left out."""
    rows = file.rows
    for name, text in chosen.items():
        if name in file.header:
            place = file.column(name)
            rows = tuple(row for row in rows if text.fullmatch(row[1][place]))
            if not rows:
                raise ValueError(
                    f"{printable(file.path)}: no line is left where lines={{{name!r}: {text.pattern!r}}} matches the column"
                )
    places = [i for i, name in enumerate(file.header) if name not in ignore]
    if len(places) < len(file.header):
        rows = tuple((line, tuple(fields[i] for i in places)) for line, fields in rows)
    return CsvFile(file.path, tuple(file.header[i] for i in places), rows, file.confidential, file.left_out)


def _netcdf_table(
    path: Path,
    totals: Declared,
    *,
    dims: Sequence[str] | None = None,
    value: str | None = None,
    groups: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    layout: str = "auto",
    **declared: Any,
) -> xr.DataArray:
    """The cells of a netCDF file, none of whose labels is a total."""
    choice(layout, ("auto", "long", "wide"), "layout")
    if groups:
        raise ValueError(f"{path}: groups are for long CSV files; in netCDF they are coordinates")
    if ignore or declared:
        raise ValueError(
            f"{path}: columns can be left out of a CSV file, and signs in it declared ({shown(declared) or 'ignore'}); of a netCDF "
            "file one variable is read"
        )
    dataset = load_netcdf(path)
    if "bayesdp_schema" in dataset.attrs:
        raise ValueError(f"{path}: this is a release, not a table; read it with Release.from_netcdf")
    names = [str(name) for name in dataset.data_vars]
    if value is None and len(names) != 1:
        raise ValueError(f"{path}: name the variable with value= (--value); there are {shown(names)}")
    name = names[0] if value is None else value
    if name not in names:
        raise ValueError(f"{path}: there is no variable {name!r}; there are {nearest(name, names)}")
    table = dataset[name]
    with damaged(path):
        fill = float(table.attrs.get("_FillValue", np.nan))
    odd = [key for key in _SCALING if key in table.attrs] + ([] if np.isnan(fill) else ["_FillValue"])
    if odd:
        raise ValueError(f"{path}: {name!r} is stored with {shown(odd)}; save the plain numbers")
    if table.dtype.kind not in "iuf":
        raise ValueError(f"{path}: {name!r} must hold numbers, got dtype {table.dtype}")
    if dims is not None:
        if set(dims) != set(table.dims):
            raise ValueError(f"{path}: dims are {shown(dims)}, but {name!r} has {shown(table.dims)}")
        table = table.transpose(*dims)
    labels_of = {str(dim): table[dim].values.tolist() for dim in table.dims if dim in table.coords}
    only_csv = "totals among the labels are read from CSV files only: leave them out of a netCDF file, as xarray's drop_sel does"
    if any(declared_totals(totals, labels_of, str(path), remedy=only_csv).values()):
        raise ValueError(f"{path}: {only_csv}")
    if len(labels_of) == table.ndim:
        check_no_sum(table.values, labels_of, totals, str(path), remedy=only_csv)
    return table.drop_attrs()

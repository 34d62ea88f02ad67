"""Reading a table from a file, whatever its form."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._validate import choice, nearest, shown
from bayesdp.queries import Query
from bayesdp.storage.csv_file import CsvFile, numbers, read_csv
from bayesdp.storage.netcdf import load_dataset
from bayesdp.tables.long import VALUE_NAMES, long_table
from bayesdp.tables.totals import Declared, Show, check_no_sum, declared_totals, split_totals

_LAYOUTS = ("auto", "long", "wide")
_SCALING = ("scale_factor", "add_offset", "missing_value")


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
) -> xr.DataArray:
    r"""Read a table of counts, true or noisy, from a CSV or netCDF file.

    Parameters
    ----------
    path : path
        ``.csv``, or ``.nc`` for netCDF-4.
    dims : sequence of str, optional
        Names of the dimensions. A wide table needs them, because its header holds labels of a dimension that
        is named nowhere. For a long table they choose the order.
    value : str, optional
        Long table: the column of values; not needed if it is called count, value, noisy, total or n, or if
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
        Dimension -> the label, or the labels, of its total, such as ``{"county": "Total"}``. What carries one is no cell and is left
        out here; `read_table_totals` has it. An empty list says that a label which looks like a total is a category.
    confidential : bool, default False
        For the true table, of which a release is to be made: messages about what is wrong with the file name line, column
        and rule, and show no number of the file, nor any label or name of a column with a digit in it.

    Returns
    -------
    xarray.DataArray
        int64 if all numbers are written as integers, otherwise float64; NaN where a cell is empty. Labels in
        CSV files are text, also where they look like numbers: 017 stays 017. They come in the order of the
        file, and group labels as non-dimension coordinates.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If cells are repeated, missing or not numeric, or the form is not clear; the message names file, line
        and cell. Also if a label that is not declared says that it is a total, in one of many languages, or is nearer to the sum of
        all others than chance explains (below one in a million); or if totals of a confidential table are no sums of its cells.

    See Also
    --------
    read_table_totals : what was published for the totals.

    Notes
    -----
    ``docs/FILES.md`` shows the forms.

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
    form = {"dims": dims, "value": value, "groups": groups, "layout": layout, "ignore": ignore}
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

    Parameters
    ----------
    path, totals, **form
        As for `read_table`.

    Returns
    -------
    list of (Query, xarray.DataArray)
        Margins, those of more dimensions first, and the grand total: the query, about the cells that `read_table` returns, and what
        was published, of the shape of the query.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_table`.

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
    table, show = _read(Path(path), totals, confidential=confidential, **form)
    labels_of = {str(dim): table[dim].values.tolist() for dim in table.dims if dim in table.coords}
    summed = declared_totals(totals, labels_of, str(path), show)
    cells, answers = split_totals(table, summed) if any(summed.values()) else (table, [])
    if len(labels_of) == table.ndim:
        check_no_sum(cells.values, {dim: cells[dim].values.tolist() for dim in labels_of}, totals, str(path), show)
    return cells, answers


def _read(
    target: Path,
    totals: Declared,
    *,
    dims: Sequence[str] | None = None,
    value: str | None = None,
    groups: Mapping[str, str] | None = None,
    layout: str = "auto",
    ignore: Sequence[str] = (),
    confidential: bool = False,
) -> tuple[xr.DataArray, Show]:
    """All that a file holds, with totals among the labels, and how its labels are shown."""
    choice(layout, _LAYOUTS, "layout")
    if isinstance(dims, str):
        raise TypeError(f"dims must be a list of names, got {dims!r}")
    if isinstance(ignore, str):
        raise TypeError(f"ignore must be a list of names, got {ignore!r}")
    suffix = target.suffix.lower()
    if suffix == ".nc":
        if groups:
            raise ValueError(f"{target}: groups are for long CSV files; in netCDF they are coordinates")
        if ignore:
            raise ValueError(f"{target}: columns can be left out of a CSV file; of a netCDF file one variable is read")
        return _netcdf_table(target, dims, value), shown
    if suffix != ".csv":
        raise ValueError(f"{target}: a table must be a .csv or .nc file")
    file = read_csv(target, ignore, confidential=confidential)
    if layout == "wide" or (layout == "auto" and value is None and not groups and _looks_wide(file, totals)):
        return _wide_table(file, dims), file.listed
    return long_table(file, value, dims, groups or {}, totals), file.listed


def _looks_wide(file: CsvFile, totals: Declared) -> bool:
    """No column of values by name, distinct labels in the first column, and no text in the others."""
    declared = {label for own in totals.values() for label in ([own] if isinstance(own, str) else own)}
    if len(file.header) < 3 or any(name.lower() in VALUE_NAMES and name not in declared for name in file.header):
        return False
    first = [fields[0] for _, fields in file.rows]
    texts = {text for _, fields in file.rows for text in fields[1:] if text}
    return len(set(first)) == len(first) and not any(text[0].isalpha() for text in texts)


def _wide_table(file: CsvFile, dims: Sequence[str] | None) -> xr.DataArray:
    """Labels of the first dimension in the first column, of the second in the header."""
    first = file.header[0] or "rows"
    if dims is None or len(dims) != 2:
        raise ValueError(
            f"{file.path}: a wide table has two dimensions, and the one whose labels are in the header "
            f"({file.listed(file.header[1:], 3)}) has no name there; name both: "
            f"dims=[{file.listed([first])}, ...] (--dims {file.label_text(first)},NAME)"
        )
    if file.header[0] not in ("", dims[0]):
        raise ValueError(f"{file.path}: the first column is {file.listed([first])}, but dims names it {dims[0]!r}")
    if len(file.header) < 2 or not file.rows:
        raise ValueError(f"{file.path}: there are no cells")
    seen: dict[str, int] = {}
    cells = []
    for line, fields in file.rows:
        label = fields[0]
        if not label:
            raise ValueError(f"{file.at(line)}: the label of {dims[0]!r} is empty")
        if label in seen:
            raise ValueError(
                f"{file.at(line)}: {dims[0]}={file.label_text(label)} is there already, in line {seen[label]}"
            )
        seen[label] = line
        for column, text in zip(file.header[1:], fields[1:], strict=True):
            cells.append((line, f"{dims[0]}={file.label_text(label)}, {dims[1]}={file.label_text(column)}", text))
    if "" in file.header[1:]:
        raise ValueError(f"{file.path}: a label in the header is empty")
    coords = {dims[0]: list(seen), dims[1]: list(file.header[1:])}
    columns = [*file.header[1:]] * len(seen)
    values = numbers(file, cells, columns).reshape(len(seen), len(file.header) - 1)
    return xr.DataArray(values, dims=tuple(dims), coords=coords)


def _netcdf_table(path: Path, dims: Sequence[str] | None, value: str | None) -> xr.DataArray:
    dataset = load_dataset(path)
    if "bayesdp_schema" in dataset.attrs:
        raise ValueError(f"{path}: this is a release, not a table; read it with Release.from_netcdf")
    names = [str(name) for name in dataset.data_vars]
    if value is None and len(names) != 1:
        raise ValueError(f"{path}: name the variable with value= (--value); there are {shown(names)}")
    name = names[0] if value is None else value
    if name not in names:
        raise ValueError(f"{path}: there is no variable {name!r}; there are {nearest(name, names)}")
    table = dataset[name]
    fill = table.attrs.get("_FillValue", np.nan)
    odd = [key for key in _SCALING if key in table.attrs] + ([] if np.isnan(fill) else ["_FillValue"])
    if odd:
        raise ValueError(f"{path}: {name!r} is stored with {shown(odd)}; save the plain numbers")
    if table.dtype.kind not in "iuf":
        raise ValueError(f"{path}: {name!r} must hold numbers, got dtype {table.dtype}")
    if dims is not None:
        if set(dims) != set(table.dims):
            raise ValueError(f"{path}: dims are {shown(dims)}, but {name!r} has {shown(table.dims)}")
        table = table.transpose(*dims)
    return table.drop_attrs()

"""Reading a table from a file, whatever its form."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from bayesdp._validate import choice, shown
from bayesdp.storage.csv_file import CsvFile, numbers, read_csv
from bayesdp.storage.netcdf import load_dataset
from bayesdp.tables.long import VALUE_NAMES, long_table

__all__ = ["read_table"]

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
        and cell.

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
    target = Path(path)
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
        return _netcdf_table(target, dims, value)
    if suffix != ".csv":
        raise ValueError(f"{target}: a table must be a .csv or .nc file")
    file = read_csv(target, ignore, confidential=confidential)
    if layout == "wide" or (layout == "auto" and value is None and not groups and _looks_wide(file)):
        return _wide_table(file, dims)
    return long_table(file, value, dims, groups or {})


def _looks_wide(file: CsvFile) -> bool:
    """No column of values by name, distinct labels in the first column, and no text in the others."""
    if len(file.header) < 3 or any(name.lower() in VALUE_NAMES for name in file.header):
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
        raise ValueError(f"{path}: there is no variable {name!r}; there are {shown(names)}")
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

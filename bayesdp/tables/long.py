"""Long tables: one line a cell, with columns of labels and one of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, product
from math import prod

import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.storage.csv_file import NUMBER, CsvFile, numbers

__all__ = ["VALUE_NAMES", "long_table", "value_column"]

VALUE_NAMES = ("count", "counts", "n", "noisy", "total", "value", "values")
"""A column of one of these names holds the values, unless told otherwise."""

_DIMENSIONS = 64
"""NumPy's arrays have no more."""


def value_column(file: CsvFile, value: str | None) -> str:
    """The name of the column of values.

    Raises
    ------
    ValueError
        If the named column is missing, or none was named and it is not clear which one it is.
    """
    if value is not None:
        return file.header[file.column(value)]
    found = [name for name in file.header if name.lower() in VALUE_NAMES]
    if len(found) == 1:
        return found[0]
    if not found and len(file.header) <= 2:
        return file.header[-1]
    what = f"{shown(found)} could all be" if found else f"none of {file.listed(file.header)} is known to be"
    raise ValueError(f"{file.path}: {what} the column of values; name it with value= (--value)")


def long_table(file: CsvFile, value: str | None, dims: Sequence[str] | None, groups: Mapping[str, str]) -> xr.DataArray:
    """A table from one line a cell; see `bayesdp.tables.read_table`."""
    values = value_column(file, value)
    labels = [name for name in file.header if name != values and name not in groups]
    for group, dim in groups.items():
        file.column(group)
        if dim not in labels:
            raise ValueError(
                f"{file.path}: group {group!r} belongs to {dim!r}, which is no dimension; {file.listed(labels)} are"
            )
    if len(labels) > _DIMENSIONS:
        raise ValueError(
            f"{file.path}: there are {len(labels)} columns of labels ({shown(labels, 3)}), and a table has {_DIMENSIONS} dimensions "
            "at most; a column that holds no labels is left out: ignore=['state'] (--ignore state)"
        )
    if dims is not None and set(dims) != set(labels):
        wide = len(dims) == 2 and dims[0] == file.header[0]
        raise ValueError(
            f"{file.path}: dims are {shown(dims)}, but the columns of labels are {file.listed(labels)}; a column that follows from "
            "another one is a group: groups={'state': 'county'} (--group state=county); one that holds no labels is left "
            "out: ignore=['state'] (--ignore state)"
            + (
                f"; if this is a wide table with totals in the column {file.listed([values])}, --ignore {file.told(values)}"
                if wide
                else ""
            )
        )
    order = tuple(dims or labels)
    if not order:
        raise ValueError(f"{file.path}: there is no column of labels")
    place = [file.column(name) for name in order]
    cells = _distinct_cells(file, order, place, file.column(values))
    own = {dim: list(dict.fromkeys(labels[i] for labels in cells)) for i, dim in enumerate(order)}
    by_group = {group: (dim, _group(file, group, dim, own[dim])) for group, dim in groups.items()}
    in_file = numbers(file, list(cells.values()), values)  # before cells are missed: this is the plainer mistake
    _check_complete(file, own, cells)
    position = {labels: i for i, labels in enumerate(cells)}
    ordered = in_file[[position[labels] for labels in product(*own.values())]]
    shape = tuple(map(len, own.values()))
    coords = {**own, **by_group}
    return xr.DataArray(ordered.reshape(shape), dims=order, coords=coords, name=values)


def _distinct_cells(
    file: CsvFile, dims: Sequence[str], place: Sequence[int], values: int
) -> dict[tuple[str, ...], tuple[int, str, str]]:
    """For each cell its line, its name for messages and the text of its value."""
    cells: dict[tuple[str, ...], tuple[int, str, str]] = {}
    for line, fields in file.rows:
        labels = tuple(fields[i] for i in place)
        for dim, label in zip(dims, labels, strict=True):
            if not label:
                raise ValueError(f"{file.at(line)}: the label of {file.listed([dim])} is empty")
        name = ", ".join(f"{file.told(dim)}={file.told(label)}" for dim, label in zip(dims, labels, strict=True))
        if labels in cells:
            raise ValueError(f"{file.at(line)}: the cell {name} is there already, in line {cells[labels][0]}")
        cells[labels] = (line, name, fields[values])
    if not cells:
        raise ValueError(f"{file.path}: there is no line below the header")
    return cells


def _check_complete(file: CsvFile, own: Mapping[str, Sequence[str]], cells: Mapping[tuple[str, ...], object]) -> None:
    """Check that every combination of labels has a line; never allocate a table larger than the file."""
    size = prod(len(labels) for labels in own.values())
    if size == len(cells):
        return
    first = islice((labels for labels in product(*own.values()) if labels not in cells), 3)
    told = "; ".join(
        ", ".join(f"{file.told(d)}={file.told(v)}" for d, v in zip(own, labels, strict=True)) for labels in first
    )
    missing = f"{file.path}: {size - len(cells)} of the {size} cells are missing, for example {told}"
    extra = _extra_column(own, cells)
    if extra is not None:
        named = file.listed([extra])
        raise ValueError(
            f"{missing}; {file.listed(own)} were read as columns of labels, and without {named} no cell is missing: leave that "
            f"column out (--ignore {file.told(extra)}, ignore=[{named}]), or, if it holds labels that follow from another column, "
            f"say so (--group {file.told(extra)}=NAME, groups={{{named}: NAME}})"
        )
    raise ValueError(
        f"{missing}; {file.listed(own)} were read as columns of labels. Write a line for each missing cell, with an empty value if "
        "it was not published (and state that: --unmeasured blank), or leave out a column that holds no labels "
        "(--ignore NAME)"
    )


def _extra_column(own: Mapping[str, Sequence[str]], cells: Mapping[tuple[str, ...], object]) -> str | None:
    """A column without which every combination of labels has one line; of several, one that holds numbers."""
    found = []
    for i, name in enumerate(own):
        rest = {labels[:i] + labels[i + 1 :] for labels in cells}
        if len(own) > 1 and len(rest) == len(cells) == prod(len(v) for k, v in own.items() if k != name):
            found.append(name)
    numeric = [name for name in found if all(NUMBER.fullmatch(label) for label in own[name])]
    return next(iter([*numeric, *found]), None)


def _group(file: CsvFile, group: str, dim: str, labels: Sequence[str]) -> list[str]:
    """The group label of each label; it must be a function of it."""
    found: dict[str, tuple[int, str]] = {}
    for line, fields in file.rows:
        label, own = fields[file.column(dim)], fields[file.column(group)]
        if not own:
            raise ValueError(f"{file.at(line)}: the label of {file.listed([group])} is empty")
        first, known = found.setdefault(label, (line, own))
        if known != own:
            label, own, known = file.told(label), file.told(own), file.told(known)
            raise ValueError(
                f"{file.at(line)}: {printable(f'{dim}={label} has {group}={own}, but {group}={known}')} in line {first}; a "
                f"group label must follow from the label of {dim!r} (if {dim!r} repeats across groups, "
                "join the two labels)"
            )
    return [found[label][1] for label in labels]

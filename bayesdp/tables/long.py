"""Long tables: one line a cell, with columns of labels and one of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod

import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import nearest, shown
from bayesdp.storage.csv_file import NUMBER, CsvFile, numbers
from bayesdp.tables.totals import Declared, declared_totals

VALUE_NAMES = ("count", "counts", "n", "noisy", "total", "value", "values")
"""A column of one of these names holds the values, unless told otherwise."""

DIMENSIONS = 64
"""NumPy's arrays have no more."""


def value_column(file: CsvFile, value: str | None) -> str:
    """The name of the column of values."""
    if value is not None:
        return file.header[file.column(value)]
    found = [name for name in file.header if name.lower() in VALUE_NAMES]
    if len(found) == 1:
        return found[0]
    if not found and len(file.header) <= 2:
        return file.header[-1]
    what = f"{shown(found)} could all be" if found else f"none of {file.listed(file.header)} is known to be"
    raise ValueError(f"{file.path}: {what} the column of values; name it with value= (--value)")


def long_table(
    file: CsvFile, value: str | None, dims: Sequence[str] | None, groups: Mapping[str, str], totals: Declared
) -> xr.DataArray:
    """A table from one line a cell, totals among them; see `bayesdp.tables.read_table`."""
    values = value_column(file, value)
    labels = [name for name in file.header if name != values and name not in groups]
    for group, dim in groups.items():
        file.column(group)
        if dim not in labels:
            raise ValueError(
                f"{file.path}: group {group!r} belongs to {dim!r}, which is no dimension; they are {nearest(dim, labels, file.listed)}"
            )
    if len(labels) > DIMENSIONS:
        raise ValueError(
            f"{file.path}: there are {len(labels)} columns of labels ({shown(labels, 3)}), and a table has {DIMENSIONS} dimensions "
            "at most; a column that holds no labels is left out: ignore=['state'] (--ignore state)"
        )
    if dims is not None and set(dims) != set(labels):
        wide = len(dims) == 2 and dims[0] == file.header[0]
        raise ValueError(
            f"{file.path}: dims are {shown(dims)}, but the columns of labels are {file.listed(labels)}; a column that follows from "
            "another one is a group: groups={'state': 'county'} (--group state=county); one that holds no labels is left "
            "out: ignore=['state'] (--ignore state)"
            + (
                f"; if this is a wide table with totals in the column {file.listed([values])}, say so: --total "
                f"{dims[1]}={file.label_text(values)}, totals={{{dims[1]!r}: {file.listed([values])}}}, or leave it out: --ignore "
                f"{file.label_text(values)}"
                if wide
                else ""
            )
        )
    order = tuple(dims or labels)
    if not order:
        raise ValueError(f"{file.path}: there is no column of labels")
    place = [file.column(name) for name in order]
    cells = _distinct_cells(file, order, place, file.column(values))
    labels_of = {dim: list(dict.fromkeys(labels[i] for labels in cells)) for i, dim in enumerate(order)}
    summed = declared_totals(totals, labels_of, str(file.path), file.listed)
    by_group = {}
    for group, dim in groups.items():
        rows = tuple(own for own in file.rows if own[1][file.column(dim)] not in summed[dim])
        found = dict.fromkeys(summed[dim], "")  # the group label of a total, which does not count
        own = [label for label in labels_of[dim] if label not in found]
        found |= zip(own, group_labels(replace(file, rows=rows), group, dim, own), strict=True)
        by_group[group] = dim, [found[label] for label in labels_of[dim]]
    in_file = numbers(file, list(cells.values()), values)  # before cells are missed: this is the plainer mistake
    _check_complete(file, labels_of, cells)
    position = {labels: i for i, labels in enumerate(cells)}
    ordered = in_file[[position[labels] for labels in product(*labels_of.values())]]
    shape = tuple(map(len, labels_of.values()))
    coords = {**labels_of, **by_group}
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
        name = ", ".join(
            f"{file.label_text(dim)}={file.label_text(label)}" for dim, label in zip(dims, labels, strict=True)
        )
        if labels in cells:
            raise ValueError(f"{file.at(line)}: the cell {name} is there already, in line {cells[labels][0]}")
        cells[labels] = (line, name, fields[values])
    if not cells:
        raise ValueError(f"{file.path}: there is no line below the header")
    return cells


def _check_complete(
    file: CsvFile, labels_of: Mapping[str, Sequence[str]], cells: Mapping[tuple[str, ...], object]
) -> None:
    """Check that every combination of labels has a line; never allocate a table larger than the file."""
    size = prod(len(labels) for labels in labels_of.values())
    if size == len(cells):
        return
    first = islice((labels for labels in product(*labels_of.values()) if labels not in cells), 3)
    examples = "; ".join(
        ", ".join(f"{file.label_text(d)}={file.label_text(v)}" for d, v in zip(labels_of, labels, strict=True))
        for labels in first
    )
    missing = f"{file.path}: {size - len(cells)} of the {size} cells are missing, for example {examples}"
    read = f"{file.listed(labels_of)} were read as columns of labels"
    extra = _extra_column(labels_of, cells)
    if extra is not None:
        named, option = file.listed([extra]), file.label_text(extra)
        raise ValueError(
            f"{missing}; {read}, and without {named} no cell is missing: leave that column out (--ignore {option}, "
            f"ignore=[{named}]), or, if it holds labels that follow from another column, say so (--group {option}=NAME, "
            f"groups={{{named}: NAME}})"
        )
    raise ValueError(
        f"{missing}; {read}. Write a line for each missing cell, with an empty value if it was not published (and state that: "
        "--unmeasured blank), or leave out a column that holds no labels (--ignore NAME)"
    )


def _extra_column(labels_of: Mapping[str, Sequence[str]], cells: Mapping[tuple[str, ...], object]) -> str | None:
    """A column without which every combination of labels has one line; of several, one that holds numbers."""
    found = []
    for i, name in enumerate(labels_of):
        rest = {labels[:i] + labels[i + 1 :] for labels in cells}
        if len(labels_of) > 1 and len(rest) == len(cells) == prod(len(v) for k, v in labels_of.items() if k != name):
            found.append(name)
    numeric = [name for name in found if all(NUMBER.fullmatch(label) for label in labels_of[name])]
    return next(iter([*numeric, *found]), None)


def group_labels(file: CsvFile, group: str, dim: str, labels: Sequence[str]) -> list[str]:
    """The group label of each label; it must be a function of it."""
    found: dict[str, tuple[int, str]] = {}
    for line, fields in file.rows:
        label, group_label = fields[file.column(dim)], fields[file.column(group)]
        if not group_label:
            raise ValueError(f"{file.at(line)}: the label of {file.listed([group])} is empty")
        first, known = found.setdefault(label, (line, group_label))
        if known != group_label:
            label, group_label, known = file.label_text(label), file.label_text(group_label), file.label_text(known)
            raise ValueError(
                f"{file.at(line)}: {printable(f'{dim}={label} has {group}={group_label}, but {group}={known}')} in line {first}; a "
                f"group label must follow from the label of {dim!r} (if {dim!r} repeats across groups, "
                "join the two labels)"
            )
    return [found[label][1] for label in labels]

"""Which columns of an office's file hold labels, and which hold values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesdp._text import printable
from bayesdp._validate import choice, name_list, shown
from bayesdp.storage.csv_file import CsvFile
from bayesdp.tables.long import DIMENSIONS, VALUE_NAMES

__all__ = ["LAYOUTS", "Columns", "columns_of", "pattern"]

LAYOUTS = ("long", "wide")
_VALUES = (*VALUE_NAMES, "obs_value")


@dataclass(frozen=True)
class Columns:
    """The columns of a file by what they hold.

    Attributes
    ----------
    dims : tuple of str
        Dimensions of the table, in order.
    labels : tuple of int
        Places of the columns of labels: of all dimensions, in a wide file of all but those of the header.
    values : tuple of int
        Places of the columns of values: one, in a wide file one for each name in the header that holds labels.
    flags : int or None
        Place of the column of symbols and marks.
    heads : tuple of tuple of str
        The labels of each column of values of a wide file, along each dimension of the header.
    """

    dims: tuple[str, ...]
    labels: tuple[int, ...]
    values: tuple[int, ...]
    flags: int | None
    heads: tuple[tuple[str, ...], ...] = ()


def columns_of(
    file: CsvFile,
    layout: str,
    dims: Sequence[str] | None,
    value: str | Sequence[str] | None,
    flags: str | None,
    groups: Mapping[str, str],
    ignore: Sequence[str],
    header: str | None = None,
) -> Columns:
    """The columns of a file as they were declared."""
    choice(layout, LAYOUTS, "layout")
    if header is not None and layout != "wide":
        raise ValueError("header is for wide files, whose header holds labels: layout='wide'")
    order = None if dims is None else name_list(dims, "dims")
    other = {*name_list(ignore, "ignore"), *groups} | (set() if flags is None else {flags})
    for name in other:
        file.column(name)
    rest = [name for name in file.header if name not in other]
    found = _wide(file, order, value, rest, header) if layout == "wide" else _long(file, order, value, rest)
    if len(found.dims) > DIMENSIONS:
        raise ValueError(
            f"{printable(file.path)}: there are {len(found.dims)} dimensions, {file.listed(found.dims, 3)}, and a table has at most "
            f"{DIMENSIONS}; a column that holds no labels is left out: ignore=[...]"
        )
    for group, dim in groups.items():
        if dim not in found.dims[: len(found.labels)]:
            raise ValueError(
                f"{printable(file.path)}: group {group!r} belongs to {dim!r}, which is no column of labels; "
                f"{file.listed(found.dims[: len(found.labels)])} are"
            )
    if flags is None:
        return found
    if found.heads:
        raise ValueError("flags is for long files, where one column holds the symbols of one column of values")
    return Columns(found.dims, found.labels, found.values, file.column(flags))


def _long(file: CsvFile, order: tuple[str, ...] | None, value: Any, rest: Sequence[str]) -> Columns:
    if value is not None and not isinstance(value, str):
        raise TypeError(
            f"value must be the name of one column, got {value!r}; where several columns hold one table, their names are labels "
            "of a dimension: layout='wide', and dims= with a name for it at the end"
        )
    values = _value_column(file, value, rest)
    labels = tuple(name for name in rest if name != values)
    if order is not None and set(order) != set(labels):
        raise ValueError(
            f"{printable(file.path)}: dims are {shown(order)}, but the columns of labels are {file.listed(labels)}; a column that "
            "follows from another one is a group: groups={'state': 'county'}; one that holds no labels is left out: "
            "ignore=['state']; if the header holds the labels of one dimension: layout='wide'"
        )
    own = labels if order is None else order
    if not own:
        raise ValueError(f"{printable(file.path)}: there is no column of labels besides {values!r}")
    return Columns(own, tuple(map(file.column, own)), (file.column(values),), None)


def _value_column(file: CsvFile, value: str | None, rest: Sequence[str]) -> str:
    if value is not None:
        if file.header[file.column(value)] not in rest:
            raise ValueError(
                f"{printable(file.path)}: value is {value!r}, which is the column of flags, a group, or left out"
            )
        return value
    found = [name for name in rest if name.lower() in _VALUES]
    if len(found) != 1:
        what = f"{file.listed(found)} could all be" if found else f"none of {file.listed(rest)} is known to be"
        raise ValueError(
            f"{printable(file.path)}: {what} the column of values; name it: value='...'; if the header holds the labels of one "
            "dimension: layout='wide'"
        )
    return found[0]


def _wide(file: CsvFile, order: tuple[str, ...] | None, value: Any, rest: Sequence[str], header: str | None) -> Columns:
    parts = None if header is None else pattern(header, "header", "r'(?P<sex>[MFP])_(?P<age>.*)'")
    if parts is not None:
        named = tuple(parts.groupindex)
        if not named or order is None or set(named) & set(order):
            raise ValueError(
                f"header={header!r} must have a named group, (?P<sex>[MF]), for each dimension of the header, and dims= those of the "
                f"columns of labels; got {shown(named) if named else 'no group'}, and dims={order}"
            )
        order = (*order, *named)
    elif order is None or len(order) < 2:
        raise ValueError(
            f"{printable(file.path)}: in a wide file the dimension whose labels are in the header ({file.listed(rest[1:], 3)}) has no "
            f"name there; name all, and this one last: dims=[{file.listed(rest[:1])}, ...]; "
            "where each name there holds several labels, header= splits it"
        )
    if isinstance(value, str):
        raise TypeError(f"value must be a list of columns in a wide file, got {value!r}")
    places = []
    for i, dim in enumerate(order[:-1] if parts is None else order[: -len(parts.groupindex)]):
        nameless = i == 0 and dim not in file.header and file.header[0] == ""
        places.append(0 if nameless else file.column(dim))
    labels = {file.header[place] for place in places}
    own = [name for name in rest if name not in labels] if value is None else list(name_list(value, "value"))
    odd = [name for name in own if name in labels or name not in rest]
    if odd:
        raise ValueError(
            f"{printable(file.path)}: value names {shown(odd)}; columns of values are among "
            f"{file.listed([n for n in rest if n not in labels])}"
        )
    if value is not None and len(own) + len(labels) < len(rest):
        left = [name for name in rest if name not in labels and name not in own]
        raise ValueError(
            f"{printable(file.path)}: the columns {file.listed(left)} are not named by value; "
            f"leave them out: ignore=[{file.listed(left)}]"
        )
    if not own:
        raise ValueError(f"{printable(file.path)}: there is no column of values besides {shown(order[: len(places)])}")
    heads = (tuple(own),) if parts is None else _split(file, own, parts)
    return Columns(order, tuple(places), tuple(map(file.column, own)), None, heads)


def _split(file: CsvFile, names: Sequence[str], parts: re.Pattern[str]) -> tuple[tuple[str, ...], ...]:
    """The labels that names of columns hold, along each dimension of the header."""
    found = [parts.fullmatch(name) for name in names]
    for name, own in zip(names, found, strict=True):
        if own is None or not all(own.groupdict().values()):
            raise ValueError(
                f"{printable(file.path)}: header={parts.pattern!r} finds no labels in the name of the column {file.listed([name])}; "
                f"widen it, or leave the column out: ignore=[{file.listed([name])}]"
            )
    return tuple(tuple(str(own[dim]) for own in found if own is not None) for dim in parts.groupindex)


def pattern(text: Any, name: str, example: str) -> re.Pattern[str]:
    """A regular expression that a user wrote."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a regular expression, such as {example}, got {text!r}")
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{name} must be a regular expression, such as {example}, got {text!r}: {error}") from None

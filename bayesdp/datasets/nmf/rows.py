"""Rows of noisy measurement files, read a little at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown
from bayesdp.datasets.nmf.arrow import parquet
from bayesdp.datasets.nmf.layout import branch_of

_KEYS = ("geocode", "query_name")
_KEY_ROWS = 65_536
"""Keys that are looked at together: a few megabytes."""
_BATCH_BYTES = 2**23
"""About as many bytes of values are decoded together."""


@dataclass(frozen=True)
class Place:
    """Where the rows of a file are that are wanted, and what they are called.

    Parameters
    ----------
    file : Path
    groups : dict
        Row group -> rows of it.
    keys : list of (str, str)
        Geocode and query of each, in that order.
    columns : tuple of str
        All columns of the file.
    rows : int
        How many rows the file has.
    """

    file: Path
    groups: dict[int, npt.NDArray[np.int64]]
    keys: list[tuple[str, str]]
    columns: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True, eq=False)
class Row:
    """One row: a query or constraint of a geounit.

    Parameters
    ----------
    file : Path
    geocode, name : str
    bins : tuple of str or None
        How each axis is cut; None where the file has no such column.
    shape : tuple of int or None
    values : int64 array
    variance : float
        NaN where the file states none.
    sign : str or None
    """

    file: Path
    geocode: str
    name: str
    bins: tuple[str | None, ...]
    shape: tuple[int, ...] | None
    values: npt.NDArray[np.int64]
    variance: float
    sign: str | None


def _open(file: Path) -> Any:
    arrow, pq = parquet()
    try:
        opened = pq.ParquetFile(file, memory_map=False, buffer_size=2**20, pre_buffer=False)
    except (arrow.ArrowException, OSError) as broken:
        raise ValueError(f"{file}: no readable parquet file, it may be cut short: {broken}") from broken
    missing = [name for name in (*_KEYS, "value") if name not in opened.schema_arrow.names]
    if missing:
        opened.close()
        raise ValueError(
            f"{file}: the columns {shown(missing)} are missing; there are {shown(opened.schema_arrow.names, 12)}"
        )
    return opened


def _batches(opened: Any, file: Path, group: int, columns: Sequence[str], size: int) -> Iterator[Any]:
    arrow, _ = parquet()
    try:
        yield from opened.iter_batches(batch_size=size, row_groups=[group], columns=list(columns), use_threads=False)
    except (arrow.ArrowException, OSError) as broken:
        raise ValueError(f"{file}: row group {group} cannot be read, the file may be cut short: {broken}") from broken


def find_rows(file: Path, prefixes: Sequence[str]) -> Place:
    """The rows of a file whose geocode starts with one of `prefixes`: keys are read, values are not."""
    branch = branch_of(file)
    groups: dict[int, npt.NDArray[np.int64]] = {}
    keys: list[tuple[str, str]] = []
    with _open(file) as opened:
        for group in range(opened.metadata.num_row_groups):
            if not _within(opened.metadata.row_group(group), prefixes, file, branch):
                continue
            found: list[int] = []
            first = 0
            for batch in _batches(opened, file, group, _KEYS, _KEY_ROWS):
                geocodes, names = (batch.column(name) for name in _KEYS)
                for column, name in ((geocodes, "geocode"), (names, "query_name")):
                    if column.null_count:
                        raise ValueError(f"{file}: {column.null_count} rows have no {name}")
                for i, geocode in enumerate(geocodes.to_pylist()):
                    _check_branch(file, branch, str(geocode))
                    if str(geocode).startswith(tuple(prefixes)):
                        found.append(first + i)
                        keys.append((str(geocode), str(names[i].as_py())))
                first += batch.num_rows
            if found:
                groups[group] = np.asarray(found, dtype=np.int64)
        columns = tuple(opened.schema_arrow.names)
        rows = int(opened.metadata.num_rows)
    return Place(file, groups, keys, columns, rows)


def _check_branch(file: Path, branch: str | None, geocode: str) -> None:
    """Check that a geocode is of the state of its partition: by partitions it is decided which files are opened."""
    if branch is not None and not geocode.startswith(branch):
        raise ValueError(
            f"{file}: geocode {geocode} does not start with {branch}, the branch and state of its partition: the files are "
            "partitioned in a way that is not known here, and rows would be missed"
        )


def _within(group: Any, prefixes: Sequence[str], file: Path, branch: str | None) -> bool:
    """Whether the geocodes of a row group may start with a prefix, by the smallest and the largest, where the file states them."""
    for column in range(group.num_columns):
        own = group.column(column)
        if own.path_in_schema == "geocode" and own.is_stats_set and own.statistics.has_min_max:
            low, high = str(own.statistics.min), str(own.statistics.max)
            _check_branch(file, branch, low)
            _check_branch(file, branch, high)
            return any(low[: len(prefix)] <= prefix <= high[: len(prefix)] for prefix in prefixes)
    return True


def read_rows(place: Place, names: frozenset[str], axes: Sequence[str]) -> Iterator[Row]:
    """The rows of a place that have one of these names, with their values."""
    with _open(place.file) as opened:
        there = opened.schema_arrow.names
        columns = [name for name in ("query_shape", "value", "variance", "sign", *axes) if name in there]
        start = 0
        for group, rows in place.groups.items():
            keys = place.keys[start : start + len(rows)]
            start += len(rows)
            wanted = [i for i, (_, name) in enumerate(keys) if name in names]
            if not wanted:
                continue
            first = 0
            pending = iter(wanted)
            following = next(pending, None)
            for batch in _batches(opened, place.file, group, columns, _batch_size(opened, group)):
                while following is not None and rows[following] < first + batch.num_rows:
                    yield _row(place.file, keys[following], batch, int(rows[following]) - first, axes)
                    following = next(pending, None)
                first += batch.num_rows
                if following is None:
                    break


def _batch_size(opened: Any, group: int) -> int:
    own = opened.metadata.row_group(group)
    size = sum(
        own.column(i).total_uncompressed_size
        for i in range(own.num_columns)
        if own.column(i).path_in_schema.split(".")[0] == "value"
    )
    # Files pack small numbers tightly, so that a row takes several times as much in memory as in the file.
    return int(np.clip(_BATCH_BYTES // max(1, 8 * size // max(1, own.num_rows)), 1, 8192))


def _row(file: Path, key: tuple[str, str], batch: Any, i: int, axes: Sequence[str]) -> Row:
    def cell(name: str) -> Any:
        return batch.column(name)[i] if name in batch.schema.names else None

    where = f"{file}: geocode {key[0]}, {key[1]}"
    value = cell("value")
    if value is None or not value.is_valid:
        raise ValueError(f"{where}: there is no value")
    listed = value.values if hasattr(value, "values") else None
    if listed is None or listed.null_count or not str(listed.type).lstrip("u").startswith("int"):
        raise ValueError(f"{where}: value must be a list of whole numbers, got {value.type}")
    arrow, _ = parquet()
    try:
        whole = listed.cast(arrow.int64())
    except arrow.ArrowInvalid as large:
        raise ValueError(f"{where}: value has a number beyond 64 bits: {large}") from large
    shape = cell("query_shape")
    stated = cell("variance")
    sign = cell("sign")
    return Row(
        file,
        *key,
        tuple(_text(cell(axis)) for axis in axes),
        None if shape is None or not shape.is_valid else tuple(int(n) for n in shape.as_py()),
        np.array(whole.to_numpy(zero_copy_only=False), dtype=np.int64),
        float("nan") if stated is None or not stated.is_valid else float(stated.as_py()),
        _text(sign),
    )


def _text(cell: Any) -> str | None:
    return None if cell is None or not cell.is_valid else str(cell.as_py())

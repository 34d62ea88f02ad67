"""Where the files of a product are, and their rows, read a little at a time.

``<root>/US_Person_PL_PROD/<Level>.parquet/{DPQuery|Constraint}/State=<number>/part-*.parquet``, where the files of the DHC may have
``County=<number>`` below the state. What is not like that is refused, or named, and never passed over. Links are followed within the
folder that was asked for.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bayesdp._arrays import Ints
from bayesdp._validate import shown
from bayesdp.datasets.nmf.products import Product
from bayesdp.storage.guarded import Limits, in_child

KINDS = ("DPQuery", "Constraint")


def _below(folder: Path, root: Path) -> list[Path]:
    """All files, sorted, and folders that have none with rows. Hidden folders, such as of temporary files, are not entered."""
    if not os.path.lexists(folder):
        return []
    if not _checked(folder, root).is_dir():
        return [folder]
    entries = sorted(folder.iterdir())
    found = [file for entry in entries for file in ([entry] if _is_hidden(entry) else _below(entry, root))]
    return found if any(map(_has_rows, found)) else [*found, folder]


def _checked(path: Path, root: Path) -> Path:
    """A file or folder, or a link to one within `root`, as it is; ValueError for anything else."""
    if not (path.is_dir() or path.is_file()):
        raise ValueError(
            f"{path} is neither a file nor a folder, nor a link to one: what should be there cannot be read"
        )
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise ValueError(
            f"{path} is a link that leads out of {root}, to {path.resolve()}: give a folder that has both, or a copy"
        )
    if path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{path} is a link to a folder that it is in, {path.resolve()}: remove it")
    return path


def _is_hidden(path: Path) -> bool:
    """Whether it is put beside the files of a product, and is none of them."""
    return path.name.startswith((".", "_"))


@dataclass(frozen=True)
class Folder:
    """The folder of a product, with a folder ``<Level>.parquet`` for each level."""

    path: Path
    levels: tuple[str, ...]  # that are there, from the top down
    root: Path  # that was asked for, out of which no link may lead

    def at(self, level: str) -> Path:
        """The folder of a level."""
        return self.path / f"{level}.parquet"

    def files(self, level: str, kind: str, prefix: str) -> list[Path]:
        """Files of a level and kind that may hold geocodes with a prefix, sorted: the others are not opened."""
        files = _below(self.at(level) / kind, self.root)
        return [file for file in files if _has_rows(file) and _may_hold(file, prefix)]

    def strangers(self, level: str) -> list[tuple[str, str]]:
        """What a level has besides files with rows, and why that is not used; ValueError if it has no kind that is known."""
        folder = self.at(level)
        there = sorted(own.name for own in _told(folder.iterdir()))
        if not set(there) & set(KINDS):
            raise ValueError(
                f"{folder} has none of the folders {' and '.join(KINDS)}, in which rows are looked for; there are "
                f"{shown(there) if there else 'no files'}: this layout is not known here"
            )
        others = _told(path for kind in KINDS for path in _below(folder / kind, self.root) if not _has_rows(path))
        return [
            *((name, "it is not known here what is in that folder") for name in there if name not in KINDS),
            *((str(path.relative_to(folder)), "there are no rows that are known here") for path in others),
        ]

    def unknown_levels(self, product: Product) -> list[str]:
        """What is beside the levels of the product."""
        return sorted(
            {entry.name.removesuffix(".parquet") for entry in _told(self.path.iterdir())} - set(product.levels)
        )

    def branches(self, *levels: str) -> set[str]:
        """The first three digits of the geocodes of some levels, as their partitions state them; empty where there are none."""
        numbers = {_partition(own).get("State") for level in levels for own in self.at(level).glob("*/State=*")}
        return {f"{number:03d}" for number in numbers if number is not None}


def _partition(folder: Path) -> dict[str, int]:
    """The numbers of the state and the county of the partition that a folder is in, as far as it is in one."""
    found: dict[str, int] = {}
    for part in folder.parts:
        if part.endswith(".parquet"):  # what is above the folder of the level is the user's own
            found.clear()
        match = re.fullmatch(r"(State|County)=(\d+)", part)
        if match:
            found[match[1]] = int(match[2])
    return found


def branch_of(file: Path) -> str | None:
    """The first three digits of the geocodes in a file, as the partition that it is in states them; None where none does."""
    number = _partition(file.parent).get("State")
    return None if number is None else f"{number:03d}"


def _may_hold(file: Path, prefix: str) -> bool:
    partition = _partition(file.parent)
    # Three digits of branch and state, which partitions spell `State=1`, `State=01` or `State=001`, and then those of the county.
    state, county = prefix[:3], prefix[3:]
    if state and partition.get("State", int(state)) != int(state):
        return False
    number = partition.get("County")
    if number is None or not county:
        return True
    # How counties are spelled is not documented: three digits, four, with the kind of unit or with a digit of a split.
    # A file that is opened for nothing costs time; one that is passed over, rows.
    spelled = {int(digits) % 1000 for digits in (county[:5], county) if digits.isdigit()}
    return number % 1000 in spelled or number // 10 % 1000 in spelled


def find_folder(path: str | os.PathLike[str], product: Product, state: str | None) -> Folder:
    """The folder of a product, at `path` or below it."""
    root = Path(path)
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is no folder")
    prefix = "PR" if state == "72" else "US"
    there = sorted(folder for folder in root.iterdir() if folder.is_dir() and folder.name.endswith(product.suffix))
    if _has_levels(root, product):
        found = [root]
    else:
        found = [folder for folder in there if folder.name.startswith(prefix)] or (there if len(there) == 1 else [])
    if not found:
        names = sorted(entry.name for entry in root.iterdir())
        raise FileNotFoundError(
            f"{root} has no folder {prefix}{product.suffix} of the product {product.name!r}, and no folders <Level>.parquet; "
            f"there are {shown(names) if names else 'no files'}{_further_down(root, product)}"
        )
    if len(found) > 1:
        raise ValueError(
            f"{root} has several folders of the product {product.name!r}: {shown(str(own) for own in found)}"
        )
    if not _has_levels(found[0], product):
        raise ValueError(
            f"{found[0]} has no level of the product {product.name!r}, such as {product.levels[0]}.parquet; levels are "
            f"{shown(product.levels, 10)}"
        )
    for entry in (found[0], *_told(found[0].iterdir())):
        if not _checked(entry, root).is_dir() and entry.name.removesuffix(".parquet") in product.levels:
            raise ValueError(f"{entry} is a file; a level is a folder, with {' and '.join(KINDS)} in it")
    return Folder(found[0], tuple(level for level in product.levels if (found[0] / f"{level}.parquet").is_dir()), root)


def _told(paths: Iterable[Path]) -> list[Path]:
    """Without what programs write beside files of rows to check them."""
    return [own for own in paths if own.name != "_SUCCESS" and own.suffix != ".crc"]


def _has_rows(path: Path) -> bool:
    return path.suffix == ".parquet" and path.is_file() and not _is_hidden(path)


def _further_down(root: Path, product: Product) -> str:
    """The end of a message: folders below that have levels, one of which may be what is meant."""
    below = (folder for depth in (1, 2, 3) for folder in sorted(root.glob("*/" * depth)))
    found = [str(folder) for folder in below if _has_levels(folder, product)]
    return f"; folders with levels of geography are {shown(found)}: give the one of the product" if found else ""


def _has_levels(folder: Path, product: Product) -> bool:
    return any((folder / f"{level}.parquet").is_dir() for level in product.levels)


def parquet() -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.parquet``; ImportError that names the extra where they are missing."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as missing:
        raise ImportError(
            "noisy measurement files are parquet files, which need pyarrow: pip install 'bayesdp[census]'"
        ) from missing


_KEYS = ("geocode", "query_name")
_SMALL = 2**20
"""Files of as many bytes together are read by one child process: to start one takes longer than to read them."""
_KEY_ROWS = 65_536
"""Keys that are looked at together: a few megabytes."""
_LONGEST_KEY = 500
_BATCH_BYTES = 2**23
"""About as many bytes of values are decoded together."""


@dataclass(frozen=True)
class Place:
    """Where the rows of a file are that are wanted, and what they are called."""

    file: Path
    groups: dict[int, list[tuple[int, str, str]]]  # row group -> rows of it: number, geocode and query
    columns: tuple[str, ...]  # all of the file
    rows: int  # how many the file has
    read: tuple[Row, ...] | None = None  # the rows with their values, of a small file

    @property
    def keys(self) -> Iterator[tuple[str, str]]:
        """Geocode and query of each row."""
        return ((geocode, name) for rows in self.groups.values() for _, geocode, name in rows)


@dataclass(frozen=True, eq=False)
class Row:
    """One row: a query or constraint of a geounit."""

    where: str  # for messages
    file: Path
    geocode: str
    name: str
    bins: tuple[str | None, ...]  # how each axis is cut; None where the file has no such column
    shape: tuple[int, ...] | None
    values: Ints
    variance: float  # NaN where the file states none
    sign: str | None


def _guarded[T](read: Callable[[], T], files: Sequence[Path]) -> T:
    """What a function reads from parquet files, in a child process with limits; see `bayesdp.storage.guarded`."""
    arrow, _ = parquet()

    def run() -> T:
        if hasattr(os, "fork"):  # Arrow's own allocators reserve a gigabyte before it is used, which the limit counts
            arrow.set_memory_pool(arrow.system_memory_pool())
        return read()

    return in_child(run, files[0], Limits.of_rows(sum(file.stat().st_size for file in files)))


def _open(file: Path) -> Any:
    arrow, pq = parquet()
    try:
        opened = pq.ParquetFile(
            file, memory_map=False, buffer_size=2**20, pre_buffer=False, read_dictionary=list(_KEYS)
        )
    except arrow.ArrowException as broken:
        raise ValueError(f"{file}: no readable parquet file, it may be cut short: {broken}") from broken
    missing = [name for name in (*_KEYS, "value") if name not in opened.schema_arrow.names]
    if missing:
        raise ValueError(
            f"{file}: the columns {shown(missing)} are missing; there are {shown(opened.schema_arrow.names, 12)}"
        )
    return opened


def _batches(opened: Any, file: Path, group: int, columns: Sequence[str], size: int) -> Iterator[Any]:
    arrow, _ = parquet()
    try:
        yield from opened.iter_batches(batch_size=size, row_groups=[group], columns=list(columns), use_threads=False)
    except MemoryError:
        raise
    except (arrow.ArrowException, OSError) as broken:
        raise ValueError(f"{file}: row group {group} cannot be read, the file may be cut short: {broken}") from broken


def find_rows(asked: Sequence[tuple[Path, str]], axes: Sequence[str] | None) -> Iterable[Place]:
    """The rows of each file whose geocode starts with a prefix: keys, and of small files values if `axes` are given."""
    if asked and sum(file.stat().st_size for file, _ in asked) <= _SMALL:
        with suppress(ValueError) if asked[1:] else nullcontext():
            return _guarded(lambda: [_find_rows(*own, axes) for own in asked], [file for file, _ in asked])
    # Each by itself: the limits are its own, and so is the name in a message.
    return (_guarded(partial(_find_rows, *own, None), [own[0]]) for own in asked)


def _find_rows(file: Path, prefix: str, axes: Sequence[str] | None) -> Place:
    branch = branch_of(file)
    groups: dict[int, list[tuple[int, str, str]]] = {}
    with _open(file) as opened:
        for group in range(opened.metadata.num_row_groups):
            if not _within(opened.metadata.row_group(group), prefix, file, branch):
                continue
            found: list[tuple[int, str, str]] = []
            first = 0
            for batch in _batches(opened, file, group, _KEYS, _KEY_ROWS):
                geocodes, rows = _distinct(batch.column("geocode"), "geocode", file)
                names, queries = _distinct(batch.column("query_name"), "query_name", file)
                for geocode in geocodes:
                    _check_branch(file, branch, geocode)
                wanted = [geocode.startswith(prefix) for geocode in geocodes]
                for number, (row, query) in enumerate(zip(rows, queries, strict=True), first):
                    if wanted[row]:
                        found.append((number, geocodes[row], names[query]))
                first += batch.num_rows
            if found:
                groups[group] = found
        place = Place(file, groups, tuple(opened.schema_arrow.names), int(opened.metadata.num_rows))
    if axes is None:
        return place
    with suppress(ValueError, MemoryError):  # of rows that nobody may have asked for
        return replace(place, read=tuple(_read_rows(place, frozenset(name for _, name in place.keys), axes)))
    return place


def _distinct(column: Any, name: str, file: Path) -> tuple[list[str], list[int]]:
    """The different texts of a column, and which of them each row has."""
    if column.null_count:
        raise ValueError(f"{file}: {column.null_count} rows have no {name}")
    encoded = column.dictionary_encode()
    texts = [str(text) for text in encoded.dictionary.to_pylist()]
    long = next((text for text in texts if len(text) > _LONGEST_KEY), None)
    if long is not None:
        raise ValueError(f"{file}: {name} of {len(long)} characters, {long[:40]!r}...; at most {_LONGEST_KEY} are read")
    return texts, encoded.indices.to_pylist()


def _check_branch(file: Path, branch: str | None, geocode: str) -> None:
    """Check that a geocode is of the state of its partition: by partitions it is decided which files are opened."""
    if branch is not None and not geocode.startswith(branch):
        raise ValueError(
            f"{file}: geocode {geocode} does not start with {branch}, the branch and state of its partition: the files are "
            "partitioned in a way that is not known here, and rows would be missed"
        )


def _within(group: Any, prefix: str, file: Path, branch: str | None) -> bool:
    """Whether the geocodes of a row group may start with `prefix`, by the smallest and the largest, where the file states them."""
    for column in range(group.num_columns):
        own = group.column(column)
        if own.path_in_schema == "geocode" and own.is_stats_set and own.statistics.has_min_max:
            low, high = str(own.statistics.min), str(own.statistics.max)
            _check_branch(file, branch, low)
            _check_branch(file, branch, high)
            return low[: len(prefix)] <= prefix <= high[: len(prefix)]
    return True


def read_rows(place: Place, names: frozenset[str], axes: Sequence[str]) -> list[Row]:
    """The rows of a place that have one of these names, with their values."""
    if place.read is not None:
        return [row for row in place.read if row.name in names]
    return _guarded(lambda: list(_read_rows(place, names, axes)), [place.file])


def _read_rows(place: Place, names: frozenset[str], axes: Sequence[str]) -> Iterator[Row]:
    with _open(place.file) as opened:
        there = opened.schema_arrow.names
        columns = [name for name in ("query_shape", "value", "variance", "sign", *axes) if name in there]
        for group, rows in place.groups.items():
            wanted = deque(row for row in rows if row[2] in names)
            if not wanted:
                continue
            first = 0
            for batch in _batches(opened, place.file, group, columns, _batch_size(opened, group)):
                while wanted and wanted[0][0] < first + batch.num_rows:
                    number, geocode, name = wanted.popleft()
                    yield _row(place.file, geocode, name, batch, number - first, axes)
                first += batch.num_rows
                if not wanted:
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


def _row(file: Path, geocode: str, name: str, batch: Any, i: int, axes: Sequence[str]) -> Row:
    def cell(column: str) -> Any:
        return batch.column(column)[i].as_py() if column in batch.schema.names else None

    where = f"{file}: geocode {geocode}, {name}"
    value = batch.column("value")[i]
    if not value.is_valid:
        raise ValueError(f"{where}: there is no value")
    listed = value.values if hasattr(value, "values") else None
    if listed is None or listed.null_count or not str(listed.type).lstrip("u").startswith("int"):
        raise ValueError(f"{where}: value must be a list of whole numbers, got {value.type}")
    arrow, _ = parquet()
    try:
        whole = listed.cast(arrow.int64())
    except arrow.ArrowInvalid as large:
        raise ValueError(f"{where}: value has a number beyond 64 bits: {large}") from large
    shape, variance, sign, *bins = (cell(column) for column in ("query_shape", "variance", "sign", *axes))
    return Row(
        where,
        file,
        geocode,
        name,
        tuple(None if cut is None else str(cut) for cut in bins),
        None if shape is None else tuple(int(n) for n in shape),
        np.array(whole.to_numpy(zero_copy_only=False), dtype=np.int64),
        float("nan") if variance is None else float(variance),
        None if sign is None else str(sign),
    )

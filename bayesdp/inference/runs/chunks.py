"""Some draws of one chain, with the state after them, as the content of a record; and draws that are given again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _text
from bayesdp.storage.records import Record, pack, unpack

type Array = npt.NDArray[Any]
type Values = dict[str, Array]
type Layout = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Type and shape of every value variable."""

_WHAT = "a record of draws"


@dataclass(frozen=True)
class Chunk:
    """Successive draws of one chain.

    Parameters
    ----------
    values : dict of arrays, shape ``(draws, *variable)``
    stats : list of dicts of arrays, shape (draws,)
        The statistics of each step method.
    objects : list of lists of str
        For each step method, the names of statistics that are not numbers; their values are not written.
    rows : int
        Number of draws in the record. Tuning draws are thrown away in the end, so only the last of them is written.
    state : bytes
        State of the step methods after the last draw.
    """

    values: dict[str, Array]
    stats: list[dict[str, Array]]
    objects: list[list[str]]
    rows: int
    state: bytes


def chunk_bytes(points: Sequence[Values], stats: Sequence[Sequence[dict[str, Any]]], state: bytes) -> bytes:
    """Encode draws as the content of a record; whole numbers are stored in the smallest integer type that holds them."""
    names = list(points[0])
    arrays = [_narrow(np.stack([np.asarray(point[name]) for point in points])) for name in names]
    names_of_stats: list[list[str]] = []
    objects: list[list[str]] = []
    for method, found in enumerate(stats[0]):
        columns = {name: np.asarray([each[method].get(name) for each in stats]) for name in found}
        numbers = {name: column for name, column in columns.items() if column.dtype.kind in "biuf" and column.ndim == 1}
        arrays += numbers.values()
        names_of_stats.append(list(numbers))
        objects.append([name for name in columns if name not in numbers])  # a warning, which was logged
    arrays.append(np.frombuffer(state, dtype=np.uint8))
    return pack({"rows": len(points), "variables": names, "stats": names_of_stats, "objects": objects}, arrays)


def _narrow(values: Array) -> Array:
    if values.dtype.kind not in "iu" or values.size == 0:
        return values
    least = np.result_type(np.min_scalar_type(values.min()), np.min_scalar_type(values.max()))
    return values.astype(least) if least.itemsize < values.dtype.itemsize else values


def read_chunk(content: bytes, layout: Layout) -> Chunk:
    """Draws from the content of a record."""
    plain, arrays = unpack(content, _WHAT)
    _text.expect(plain, dict, _WHAT, {"rows", "variables", "stats", "objects"})
    rows = _text.expect(plain["rows"], int, f"rows of {_WHAT}")
    if not isinstance(plain["variables"], list) or plain["variables"] != list(layout) or rows < 1:
        raise ValueError(f"{_WHAT} is of other variables")
    stat_names, objects = _names(plain["stats"]), _names(plain["objects"])
    if len(stat_names) != len(objects):
        raise ValueError(f"{_WHAT} has statistics of different step methods")
    if len(arrays) != len(layout) + sum(map(len, stat_names)) + 1:
        raise ValueError(f"{_WHAT} has arrays that belong to nothing")
    left = iter(arrays)
    values = {}
    for name, (dtype, shape) in layout.items():
        array = next(left)
        fits = array.dtype == dtype if dtype.kind not in "iu" else array.dtype.kind in "iu"
        if not fits or array.shape != (rows, *shape):
            raise ValueError(f"{_WHAT} has {name} of another shape or type")
        values[name] = array
    stats = [{name: next(left) for name in names} for names in stat_names]
    if any(column.shape != (rows,) for columns in stats for column in columns.values()):
        raise ValueError(f"{_WHAT} has statistics of another number of draws")
    return Chunk(values, stats, objects, rows, next(left).tobytes())


def _names(listed: Any) -> list[list[str]]:
    lists: list[Any] = _text.expect(listed, list, f"statistics of {_WHAT}")
    if any(not isinstance(names, list) or any(not isinstance(name, str) for name in names) for names in lists):
        raise ValueError(f"statistics of {_WHAT} are no names")
    return lists


@dataclass(frozen=True)
class KeptDraws:
    """The draws of one chain in a journal, which `RecordedStep` returns again when the chain goes on.

    Parameters
    ----------
    descriptor, process : int
        The open file, and the process that opened it. There it must be read through this descriptor: closing
        another one of the same file would give up the lock.
    records : tuple of Record
        They follow one another, from the first draw of the tuning on.
    """

    path: Path
    descriptor: int
    process: int
    records: tuple[Record, ...]
    tune: int
    layout: Layout

    @property
    def end(self) -> int:
        """Number of draws, tuning included."""
        return self.records[-1].last

    def rows(self) -> Iterator[tuple[Values, list[dict[str, Any]]]]:
        """Each draw and its statistics; a record of tuning draws, which holds the last of them only, repeats that one."""
        for record in self.records:
            chunk = self._read(record)
            count = record.last - record.first
            for row in range(count):
                at = row if chunk.rows == count else chunk.rows - 1
                values = {name: np.array(array[at], dtype=self.layout[name][0]) for name, array in chunk.values.items()}
                stats: list[dict[str, Any]] = [
                    {name: column[at] for name, column in columns.items()} | dict.fromkeys(objects)
                    for columns, objects in zip(chunk.stats, chunk.objects, strict=True)
                ]
                yield values, stats

    def state(self) -> bytes:
        """The state of the step methods after the last draw."""
        return self._read(self.records[-1]).state

    def check(self, record: Record) -> None:
        """Read a record; ValueError if its content is not what its head says."""
        chunk = self._read(record)
        tuning = record.last <= self.tune
        if chunk.rows != (1 if tuning else record.last - record.first):
            raise ValueError(f"{str(self.path)!r}: {_WHAT} has another number of draws than its head says")

    def _read(self, record: Record) -> Chunk:
        if os.getpid() == self.process and hasattr(os, "pread"):
            content = _read_at(self.descriptor, record.length, record.offset)
        else:
            with self.path.open("rb") as file:
                file.seek(record.offset)
                content = file.read(record.length)
        try:
            return read_chunk(content, self.layout)
        except ValueError as error:
            raise ValueError(f"{str(self.path)!r}: {error}") from None


def _read_at(descriptor: int, length: int, offset: int) -> bytes:
    """Bytes of a file; one call gives 2 GB at most."""
    parts, at = [], 0
    while at < length and (part := os.pread(descriptor, min(length - at, 2**30), offset + at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def point_bytes(layout: Layout) -> int:
    """Size of one draw of all variables in bytes."""
    return sum(dtype.itemsize * prod(shape) for dtype, shape in layout.values())

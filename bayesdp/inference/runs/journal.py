"""The draws of one run on disk as they come, so that a run that was stopped goes on where it was (`bayesdp fit --resume`).

The file is locked for one process and grows at its end. It begins with `MAGIC` and a record that says which run it is of; all that
follows are records (`bayesdp.storage.records`), each with some draws of one chain and the state after them.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pymc as pm
from pymc.util import get_random_generator

from bayesdp import _text
from bayesdp.inference.runs import recorded
from bayesdp.inference.runs.fingerprint import described_run, planned
from bayesdp.inference.runs.recorded import RecordedStep, Stats, checked_state, state_bytes
from bayesdp.storage.journal import difference, locked
from bayesdp.storage.records import Record, Scanned, pack, record_bytes, scan, unpack

type Array = npt.NDArray[Any]
type Values = dict[str, Array]
type Layout = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Type and shape of every value variable."""

_WHAT = "a record of draws"
_log = logging.getLogger(__name__)

_MOST = 2**28
"""Longest content of a record, in bytes, beside 64 times a draw: the state of a full mass matrix, say."""

MAGIC = b"bayesdp-draws-1\n"
_RUN, RESUMED, DRAWS = b"RUN ", b"GOON", b"DRAW"
"""Tags of records: what the run is, that it went on, and some draws of a chain."""


def holds_draws(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file of draws that is more than its beginning, sound or not.

    Raises
    ------
    ValueError
        If there is a file of another kind.
    """
    place = Path(path)
    if not os.path.lexists(place):
        return False
    with place.open("rb") as file:
        try:
            head, found = _read(file, place, 2**62, limit=2)  # draws come right after the beginning
        except _DamagedError:
            return True
    return head is not None and any(record.tag == DRAWS for record in found.records)


def remove_journal(path: str | os.PathLike[str]) -> bool:
    """Remove a file of draws; whether it had any.

    Raises
    ------
    ValueError
        If the file is of another kind: no file but a journal is removed.
    BlockingIOError
        If another process is writing to it.
    """
    if not os.path.lexists(path):
        return False
    held = holds_draws(path)
    with locked(Path(path)):
        Path(path).unlink()
    return held


class _DamagedError(ValueError):
    """The beginning of a file of draws cannot be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{str(path)!r} is damaged at its beginning: nothing can go on from it (--force begins anew)")


def _read(file: BinaryIO, path: Path, most: int, limit: int | None = None) -> tuple[dict[str, Any] | None, Scanned]:
    """What the run is, and the records; ValueError for another kind of file."""
    file.seek(0)
    begins = file.read(len(MAGIC))
    if begins != MAGIC[: len(begins)]:
        raise ValueError(f"{str(path)!r} is not a file of draws: name another one, or move it away")
    found = scan(file, len(MAGIC), most, limit)
    if not found.records:
        if found.trouble and not found.torn:
            raise _DamagedError(path)
        return None, found
    first = found.records[0]
    if first.tag != _RUN or not first.sound or first.length > 2**24:
        raise _DamagedError(path)
    file.seek(first.offset)
    try:
        plain, _ = unpack(file.read(first.length), "it")
    except ValueError:
        raise _DamagedError(path) from None
    entropy = plain.get("entropy") if isinstance(plain, dict) else None
    if not isinstance(entropy, int) or entropy < 0 or not isinstance(plain.get("run"), dict):
        raise _DamagedError(path)
    return plain, found


@dataclass(frozen=True)
class Chunk:
    """Successive draws of one chain."""

    values: dict[str, Array]  # shape ``(draws, *variable)``
    stats: list[dict[str, Array]]  # the statistics of each step method, shape (draws,)
    objects: list[list[str]]  # of each, the names of statistics that are not numbers; their values are not written
    rows: int  # draws in the record; of those of the tuning, which are thrown away in the end, the last one
    state: bytes  # of the step methods after the last draw


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
    """The draws of one chain in a journal, which `RecordedStep` returns again when the chain goes on."""

    # `descriptor`, `process`: the open file, and the process that opened it. There it must be read through this descriptor: closing
    # another one of the same file would give up the lock. `records` follow one another, from the first draw of the tuning on.

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


class DrawJournal:
    """The draws of one run, and the states of its step methods, in a file.

    A record holds some draws of a chain, and the state of its step methods after them. One is written when some seconds
    have passed, at the end of the tuning, and at the end. A record that is cut off was not finished when the process died: it
    is dropped, and its draws are drawn again, the same ones. Without `resume`, a file that has draws is an error.
    """

    # `given`: arguments of `pm.sample`. `resumed`: how often the run was stopped and went on. `seed`: for `pm.sample`.

    def __init__(
        self, path: str | os.PathLike[str], model: pm.Model, given: Mapping[str, Any], *, resume: bool
    ) -> None:
        self.path = Path(path)
        _check_options(given)
        self._chains, self._draws, self._tune = planned((), given)
        self._layout: Layout = {name: (value.dtype, value.shape) for name, value in model.initial_point().items()}
        self._most = _MOST + 64 * point_bytes(self._layout)
        self._run = described_run(model, (self._chains, self._draws, self._tune), given)
        self.resumed = 0
        self.seed: Any = given.get("random_seed")
        self._ends = [0] * self._chains
        self._records: list[list[Record]] = [[] for _ in range(self._chains)]
        self._points: list[list[Any]] = [[] for _ in range(self._chains)]
        self._stats: list[list[Any]] = [[] for _ in range(self._chains)]
        self._attached = False
        self._file: BinaryIO = locked(self.path)
        self._end, self._synced = 0, time.monotonic()
        try:
            self._begin(resume)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.filename is None and error.strerror:
                what = f"{error.strerror}: there is no room for draws as they come"
                raise OSError(error.errno, what, str(self.path)) from error
            raise
        chains = get_random_generator(self.seed).spawn(self._chains)
        self._keys = [tuple(rng.bit_generator.seed_seq.spawn_key) for rng in chains]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kept(self) -> int:
        """How many draws the file has, with those of the tuning."""
        return sum(self._ends)

    @property
    def total(self) -> int:
        """How many the run has, with those of the tuning."""
        return self._chains * (self._draws + self._tune)

    def _begin(self, resume: bool) -> None:
        head, found = _read(self._file, self.path, self._most)
        if head is None or not any(record.tag == DRAWS for record in found.records):
            self._start()
            return
        if not resume:
            raise FileExistsError(
                f"{str(self.path)!r} has draws of a run that did not end: resume=True (--resume) goes on with them; to "
                "begin anew, remove the file (--force)"
            )
        differs = difference(head["run"], self._run)
        if differs:
            raise ValueError(
                f"{str(self.path)!r} has draws of another run: {differs}. Go on with the arguments of then, or remove the file "
                "(--force) to begin anew"
            )
        if self.seed is None:
            self.seed = head["entropy"]
        self._take(found.records)
        if found.trouble:
            _log.warning("%s: %s; what is before it is used", self.path, found.trouble)
        self._cut(found.end)
        self.resumed = 1 + sum(record.tag == RESUMED for record in found.records)
        self._append(record_bytes(RESUMED, 0, 0, 0, b""))

    def _start(self) -> None:
        """Empty the file, and write the beginning, on disk at once."""
        entropy = secrets.randbits(128)
        if self.seed is None:
            self.seed = entropy  # recorded, so that chains which have not begun can begin as they would have
        self._cut(0)
        self._append(MAGIC + record_bytes(_RUN, 0, 0, 0, pack({"run": self._run, "entropy": entropy}, [])))
        os.fsync(self._file.fileno())

    def _cut(self, end: int) -> None:
        """Take away what follows a position."""
        self._file.truncate(end)
        self._end = end

    def _append(self, content: bytes) -> None:
        """Write at the end; what was written of a record that could not be finished is taken away again."""
        view = memoryview(content)
        self._file.seek(self._end)
        try:
            while view:
                view = view[self._file.write(view) :]
        except BaseException:
            self._file.truncate(self._end)
            raise
        self._end += len(content)

    def _take(self, records: list[Record]) -> None:
        """Take the records of each chain that follow one another; a chain ends where one is damaged."""
        broken: set[int] = set()
        for record in records:
            chain = record.chain
            if record.tag != DRAWS or chain >= self._chains or record.first != self._ends[chain]:
                continue
            if record.sound and record.last > self._tune + self._draws:
                raise ValueError(
                    f"{str(self.path)!r} has {record.last - self._tune:,} draws of chain {chain}, and draws={self._draws:,} are asked "
                    "for: ask for as many or more"
                )
            spans = record.first < self._tune < record.last
            if not record.sound or spans or not record.first < record.last <= self._tune + self._draws:
                if chain not in broken:
                    _log.warning(
                        "%s: draws of chain %d are damaged; it goes on from its draw %s",
                        self.path, chain, f"{record.first:,}",
                    )  # fmt: skip
                broken.add(chain)
                continue
            self._kept([record]).check(record)
            broken.discard(chain)
            self._records[chain].append(record)
            self._ends[chain] = record.last

    def _kept(self, records: list[Record]) -> KeptDraws:
        return KeptDraws(self.path, self._file.fileno(), os.getpid(), tuple(records), self._tune, self._layout)

    def attach(self, step: Any) -> RecordedStep:
        """Wrap the step method that PyMC has made; it gives the draws that are there, and then goes on."""
        try:
            state_bytes(step)
        except TypeError as error:
            name = getattr(step, "name", type(step).__name__)
            raise ValueError(f"draws cannot be kept for {name}: {error}; leave out journal=") from None
        replays = {self._keys[chain]: self._kept(records) for chain, records in enumerate(self._records) if records}
        for replay in replays.values():
            checked_state(step, replay.state())
        self._attached = True
        return RecordedStep(step, replays, recorded.SECONDS)

    def keep(self, draw: Any) -> None:
        """Note a draw; it is written with the next state of its chain."""
        if not self._attached:
            raise RuntimeError(
                "this version of PyMC samples in another way, in which draws cannot be kept; leave out journal="
            )
        chain = draw.chain
        if self._file.closed or draw.draw_idx < self._ends[chain]:
            return
        if draw.tuning and not isinstance(draw.stats, Stats):
            return  # thrown away in the end; the last one before a state is where the chain goes on from
        points, stats = self._points[chain], self._stats[chain]
        points.append({name: np.array(draw.point[name]) for name in self._layout})
        stats.append(draw.stats)
        if isinstance(draw.stats, Stats):
            first, last = self._ends[chain], draw.draw_idx + 1
            content = chunk_bytes(points, stats, draw.stats.state)
            points.clear()
            stats.clear()
            try:
                self._append(record_bytes(DRAWS, chain, first, last, content))
                self._ends[chain] = last
                if time.monotonic() - self._synced >= recorded.SECONDS:
                    os.fsync(self._file.fileno())
                    self._synced = time.monotonic()
            except OSError as error:
                _log.warning(
                    "%s: %s. Sampling goes on; draws from here on are not kept while sampling",
                    self.path,
                    error.strerror,
                )
                self.close()

    def close(self) -> None:
        """Close the file; further draws are not kept."""
        self._file.close()

    def say(self) -> None:
        """Say on standard error how many draws the file has, if the run goes on."""
        if self.resumed:
            print(
                f"going on from {self.path}: it has {self.kept:,} of {self.total:,} draws (those for tuning included)",
                file=sys.stderr, flush=True,
            )  # fmt: skip


def _check_options(given: Mapping[str, Any]) -> None:
    if given.get("nuts_sampler", "pymc") != "pymc":
        raise ValueError(
            f"nuts_sampler={given['nuts_sampler']!r} keeps no draws while it samples; leave out journal=, or use "
            "nuts_sampler='pymc'"
        )
    if given.get("trace") is not None:
        raise ValueError("draws go to `trace` or to `journal`: leave one of them out")
    for name, only in (("discard_tuned_samples", True), ("keep_warning_stat", False)):
        if bool(given.get(name, only)) != only:
            raise ValueError(f"{name}={given[name]!r} cannot be had with journal=, which does not keep what it adds")

"""Draws on disk as they come, so that a run that was stopped goes on where it was: `bayesdp fit --resume`."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pymc as pm
from pymc.util import get_random_generator

from bayesdp.inference import _recorded
from bayesdp.inference._chunks import KeptDraws, Layout, chunk_bytes, point_bytes
from bayesdp.inference._fingerprint import described_run, difference
from bayesdp.inference._plan import planned
from bayesdp.inference._recorded import RecordedStep, Stats
from bayesdp.inference._step_state import checked_state, state_bytes
from bayesdp.storage.records import Record, Scanned, pack, record_bytes, scan, unpack

try:
    import fcntl
except ImportError:  # Windows: two runs that write to one journal are not noticed there
    fcntl = None  # type: ignore[assignment]

__all__ = ["MAGIC", "DrawJournal", "holds_draws", "remove_journal"]

_log = logging.getLogger(__name__)

MAGIC = b"bayesdp-draws-1\n"
_RUN, _RESUMED, _DRAWS = b"RUN ", b"GOON", b"DRAW"
_MOST = 2**28
"""Longest content of a record, in bytes, beside 64 times a draw: the state of a full mass matrix, say."""


class DrawJournal:
    """The file of a run's draws.

    It begins with what the run is, and grows by records: some draws of a chain, and the state of its step methods after
    them. One of these is written when some seconds have passed, at the end of the tuning and at the end. A record that is
    cut off was not finished when the process died; it is dropped, and its draws are drawn again, the same ones.

    Parameters
    ----------
    path : path
    model : pymc.Model
    given : mapping
        Arguments of ``pm.sample``.
    resume : bool
        Go on with the draws that are there. Without it, a file that has draws is an error.

    Raises
    ------
    FileExistsError
        If there are draws, and `resume` is False.
    BlockingIOError
        If another process is writing to the file.
    ValueError
        If the file is no journal, or of another run; both sides are named.

    Attributes
    ----------
    resumed : int
        How often the run was stopped and went on.
    seed : int, sequence or generator
        For ``pm.sample``.
    """

    def __init__(
        self, path: str | os.PathLike[str], model: pm.Model, given: Mapping[str, Any], *, resume: bool
    ) -> None:
        self.path = Path(path)
        _check_options(given)
        self._chains, self._draws, self._tune = planned((), given)
        self._layout: Layout = {name: (own.dtype, own.shape) for name, own in model.initial_point().items()}
        self._most = _MOST + 64 * point_bytes(self._layout)
        self._run = described_run(model, (self._chains, self._draws, self._tune), given)
        self.resumed = 0
        self.seed: Any = given.get("random_seed")
        self._ends = [0] * self._chains
        self._records: list[list[Record]] = [[] for _ in range(self._chains)]
        self._points: list[list[Any]] = [[] for _ in range(self._chains)]
        self._stats: list[list[Any]] = [[] for _ in range(self._chains)]
        self._attached = False
        self._synced = time.monotonic()
        self._file: BinaryIO | None = _locked(self.path)
        try:
            self._begin(resume)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.filename is None and error.strerror:
                told = f"{error.strerror}: there is no room for draws as they come"
                raise OSError(error.errno, told, str(self.path)) from error
            raise
        self._keys = [
            tuple(own.bit_generator.seed_seq.spawn_key) for own in get_random_generator(self.seed).spawn(self._chains)
        ]

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
        file = self._open
        head, found = _read(file, self.path, self._most)
        if head is None or not any(own.tag == _DRAWS for own in found.records):
            self._start()
            return
        if not resume:
            raise FileExistsError(
                f"{str(self.path)!r} has draws of a run that did not end: resume=True (--resume) goes on with them; to "
                "begin anew, remove the file (--force)"
            )
        told = difference(head["run"], self._run)
        if told:
            raise ValueError(
                f"{str(self.path)!r} has draws of another run: {told}. Go on with the arguments of then, or remove the file "
                "(--force) to begin anew"
            )
        if self.seed is None:
            self.seed = head["entropy"]
        self._take(found.records)
        if found.trouble:
            _log.warning("%s: %s; what is before it is used", self.path, found.trouble)
        file.truncate(found.end)
        self._end = found.end
        self.resumed = 1 + sum(own.tag == _RESUMED for own in found.records)
        self._append(record_bytes(_RESUMED, 0, 0, 0, b""))

    def _start(self) -> None:
        file = self._open
        entropy = secrets.randbits(128)
        if self.seed is None:
            self.seed = entropy  # recorded, so that chains which have not begun can begin as they would have
        file.truncate(0)
        self._end = 0
        self._append(MAGIC + record_bytes(_RUN, 0, 0, 0, pack({"run": self._run, "entropy": entropy}, [])))
        os.fsync(file.fileno())

    def _take(self, records: list[Record]) -> None:
        """The records of each chain that follow one another; a chain ends where one is damaged."""
        broken: set[int] = set()
        for own in records:
            if own.tag != _DRAWS or own.chain >= self._chains or own.first != self._ends[own.chain]:
                continue
            spans = own.first < self._tune < own.last
            if not own.sound or spans or not own.first < own.last <= self._tune + self._draws:
                if own.chain not in broken:
                    _log.warning(
                        "%s: draws of chain %d are damaged; it goes on from its draw %s",
                        self.path, own.chain, f"{own.first:,}",
                    )  # fmt: skip
                broken.add(own.chain)
                continue
            self._kept([own]).checked(own)
            broken.discard(own.chain)
            self._records[own.chain].append(own)
            self._ends[own.chain] = own.last

    def _kept(self, records: list[Record]) -> KeptDraws:
        return KeptDraws(self.path, self._open.fileno(), os.getpid(), tuple(records), self._tune, self._layout)

    @property
    def _open(self) -> BinaryIO:
        assert self._file is not None
        return self._file

    def attach(self, step: Any) -> RecordedStep:
        """Wrap the step method that PyMC has made; it gives the draws that are there, and then goes on.

        Raises
        ------
        ValueError
            If the state of a step method cannot be kept, or what was kept is not one of it.
        """
        try:
            state_bytes(step)
        except TypeError as error:
            name = getattr(step, "name", type(step).__name__)
            raise ValueError(f"draws cannot be kept for {name}: {error}; leave out journal=") from None
        replays = {self._keys[chain]: self._kept(own) for chain, own in enumerate(self._records) if own}
        for own in replays.values():
            checked_state(step, own.state())
        self._attached = True
        return RecordedStep(step, replays, _recorded.SECONDS)

    def keep(self, draw: Any) -> None:
        """Note a draw; it is written with the next state of its chain.

        Raises
        ------
        RuntimeError
            If PyMC has not asked for the journal before it samples.
        """
        if not self._attached:
            raise RuntimeError(
                "this version of PyMC samples in another way, in which draws cannot be kept; leave out journal="
            )
        chain = draw.chain
        if self._file is None or draw.draw_idx < self._ends[chain]:
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
                self._append(record_bytes(_DRAWS, chain, first, last, content))
                self._ends[chain] = last
                self._sync()
            except OSError as error:
                _log.warning(
                    "%s: %s. Sampling goes on; draws from here on are not kept while sampling",
                    self.path,
                    error.strerror,
                )
                self.close()

    def _append(self, content: bytes) -> None:
        """Write at the end; what was written of a record that could not be finished is taken away again."""
        file, view = self._open, memoryview(content)
        file.seek(self._end)
        try:
            while view:
                view = view[file.write(view) :]
        except BaseException:
            file.truncate(self._end)
            raise
        self._end += len(content)

    def _sync(self) -> None:
        if time.monotonic() - self._synced >= _recorded.SECONDS:
            os.fsync(self._open.fileno())
            self._synced = time.monotonic()

    def close(self) -> None:
        """Close the file; further draws are not kept."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def say(self) -> None:
        """Say what is there, on standard error."""
        if self.resumed:
            print(
                f"going on from {self.path}: it has {self.kept:,} of {self.total:,} draws (those for tuning included)",
                file=sys.stderr, flush=True,
            )  # fmt: skip


def holds_draws(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file of draws that is more than its beginning, sound or not.

    Raises
    ------
    ValueError
        If there is a file of another kind.
    """
    own = Path(path)
    if not os.path.lexists(own):
        return False
    with own.open("rb") as file:
        try:
            head, found = _read(file, own, 2**62, limit=2)  # draws come right after the beginning
        except _DamagedError:
            return True
    return head is not None and any(each.tag == _DRAWS for each in found.records)


def remove_journal(path: str | os.PathLike[str]) -> bool:
    """Remove a file of draws; whether it had any.

    Raises
    ------
    ValueError
        If the file is of another kind: nobody's own file is removed.
    BlockingIOError
        If another process is writing to it.
    """
    if not os.path.lexists(path):
        return False
    held = holds_draws(path)
    with _locked(Path(path)):
        Path(path).unlink()
    return held


class _DamagedError(ValueError):
    """The beginning of a file of draws cannot be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{str(path)!r} is damaged at its beginning: nothing can go on from it (--force begins anew)")


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


def _locked(path: Path) -> BinaryIO:
    """Open a file, new or old, for this process alone."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {str(path.parent)!r} does not exist; create it first")
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b", buffering=0)
    try:
        if fcntl is not None:
            # Of the process, and not inherited by those of the chains, which may outlive it for a moment.
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # another one: a file system without locks
        if error.errno in (errno.EACCES, errno.EAGAIN):
            file.close()
            raise BlockingIOError(
                f"{str(path)!r} is being written to by another process: wait for it, or end it"
            ) from None
    return file


def _read(file: BinaryIO, path: Path, most: int, limit: int | None = None) -> tuple[dict[str, Any] | None, Scanned]:
    """What the run is, and the records; None if the file has not even a beginning.

    Raises
    ------
    ValueError
        If it is another kind of file.
    """
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

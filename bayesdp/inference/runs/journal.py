"""The draws of one run on disk as they come, so that a run that was stopped goes on where it was (`bayesdp fit --resume`)."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pymc as pm
from pymc.util import get_random_generator

from bayesdp.inference.runs import recorded
from bayesdp.inference.runs.chunks import KeptDraws, Layout, chunk_bytes, point_bytes
from bayesdp.inference.runs.fingerprint import described_run, difference
from bayesdp.inference.runs.journal_file import DRAWS, RESUMED, JournalFile
from bayesdp.inference.runs.plan import planned
from bayesdp.inference.runs.recorded import RecordedStep, Stats
from bayesdp.inference.runs.step_state import checked_state, state_bytes
from bayesdp.storage.records import Record, record_bytes

_log = logging.getLogger(__name__)

_MOST = 2**28
"""Longest content of a record, in bytes, beside 64 times a draw: the state of a full mass matrix, say."""


class DrawJournal:
    """The draws of one run, and the states of its step methods, in a file.

    A record holds some draws of a chain, and the state of its step methods after them. One is written when some seconds
    have passed, at the end of the tuning, and at the end. A record that is cut off was not finished when the process died: it
    is dropped, and its draws are drawn again, the same ones.

    Parameters
    ----------
    given : mapping
        Arguments of ``pm.sample``.
    resume : bool
        Go on with the draws that are there. Without it, a file that has draws is an error.


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
        self._file = JournalFile(self.path)
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
        head, found = self._file.read(self._most)
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
        self._file.cut(found.end)
        self.resumed = 1 + sum(record.tag == RESUMED for record in found.records)
        self._file.append(record_bytes(RESUMED, 0, 0, 0, b""))

    def _start(self) -> None:
        entropy = secrets.randbits(128)
        if self.seed is None:
            self.seed = entropy  # recorded, so that chains which have not begun can begin as they would have
        self._file.start(self._run, entropy)

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
        return KeptDraws(self.path, self._file.descriptor, os.getpid(), tuple(records), self._tune, self._layout)

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
                self._file.append(record_bytes(DRAWS, chain, first, last, content))
                self._ends[chain] = last
                self._file.sync_after(recorded.SECONDS)
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

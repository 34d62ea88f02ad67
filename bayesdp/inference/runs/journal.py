"""The draws of one run on disk as they come, so that a run that was stopped goes on where it was (`bayesdp fit --resume`).

They are in the folder of a `RunJournal`, in files that each hold some draws of one chain, and the state of the sampler after them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pymc as pm
from pymc.util import get_random_generator

from bayesdp import _text
from bayesdp.inference.runs import recorded
from bayesdp.inference.runs.fingerprint import described_run, planned
from bayesdp.inference.runs.recorded import RecordedStep, Stats, checked_state, state_arrays
from bayesdp.steps.base import start_of
from bayesdp.storage.journal import RunJournal, group, read_arrays, readable, require, write_arrays

type Array = npt.NDArray[Any]
type Values = dict[str, Array]
type Layout = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Type and shape of every value variable."""
type Piece = tuple[Path, int, int]
"""A file, its first draw, and the one after its last."""

_NAME = re.compile(r"chain-(\d{1,9})-(\d{1,15})-(\d{1,15})\.npz")
"""Of a file: the chain, its first draw, and the one after its last."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chunk:
    """Successive draws of one chain."""

    values: dict[str, Array]  # shape ``(draws, *variable)``
    stats: list[dict[str, Array]]  # the statistics of each step method, shape (draws,)
    objects: list[list[str]]  # of each, the names of statistics that are not numbers; their values are not written
    rows: int  # draws in the file; of those of the tuning, which are thrown away in the end, the last one
    state: dict[str, Array]  # of the step methods after the last draw


def chunk_arrays(
    points: Sequence[Values], stats: Sequence[Sequence[dict[str, Any]]], state: Mapping[str, Array]
) -> dict[str, Array]:
    """Draws as the arrays of a file; whole numbers are stored in the smallest integer type that holds them."""
    found = {f"value:{name}": _narrow(np.stack([np.asarray(point[name]) for point in points])) for name in points[0]}
    objects: list[list[str]] = []
    for method, names in enumerate(stats[0]):
        columns = {name: np.asarray([each[method].get(name) for each in stats]) for name in names}
        numbers = {name: own for name, own in columns.items() if own.dtype.kind in "biuf" and own.ndim == 1}
        found |= {f"stats {method}:{name}": own for name, own in numbers.items()}
        objects.append([name for name in columns if name not in numbers])  # a warning, which was logged
    found["objects"] = np.array(json.dumps(objects))
    return found | {f"state:{name}": own for name, own in state.items()}


def _narrow(values: Array) -> Array:
    if values.dtype.kind not in "iu" or values.size == 0:
        return values
    least = np.result_type(np.min_scalar_type(values.min()), np.min_scalar_type(values.max()))
    return values.astype(least) if least.itemsize < values.dtype.itemsize else values


def read_chunk(file: Path, layout: Layout, rows: int) -> Chunk:
    """So many draws from a file; ValueError, which names it, if it has something else."""
    arrays = read_arrays(file)
    with readable(file):
        listed: Any = _text.expect(_text.loads(str(arrays["objects"]), "it"), list, "statistics")
        named = all(isinstance(own, list) and all(isinstance(name, str) for name in own) for own in listed)
        require(named, "statistics are no names")
        values, stats = group(arrays, "value:"), [group(arrays, f"stats {method}:") for method in range(len(listed))]
        require(list(values) == list(layout), "it is of other variables")
        for name, (dtype, shape) in layout.items():
            array = values[name]
            fits = array.dtype == dtype if dtype.kind not in "iu" else array.dtype.kind in "iu"
            require(fits and array.shape == (rows, *shape), f"{name} is of another shape or type")
        columns = [column for own in stats for column in own.values()]
        require(
            all(own.shape == (rows,) and own.dtype.kind in "biuf" for own in columns), "statistics are of other draws"
        )
        state = group(arrays, "state:")
        require(len(arrays) == 1 + len(values) + len(columns) + len(state), "it has arrays that belong to nothing")
    return Chunk(values, stats, listed, rows, state)


@dataclass(frozen=True)
class KeptDraws:
    """The draws of one chain in a journal, which `RecordedStep` returns again when the chain goes on."""

    files: tuple[Piece, ...]  # they follow one another
    tune: int
    layout: Layout

    @property
    def end(self) -> int:
        """Number of draws, tuning included."""
        return self.files[-1][2]

    def rows(self) -> Iterator[tuple[Values, list[dict[str, Any]]]]:
        """Each draw and its statistics; a file of tuning draws, which holds the last of them only, repeats that one."""
        for number, (_, first, last) in enumerate(self.files):
            chunk = self.chunk(number)
            for row in range(last - first):
                at = min(row, chunk.rows - 1)
                values = {name: np.array(array[at], dtype=self.layout[name][0]) for name, array in chunk.values.items()}
                stats: list[dict[str, Any]] = [
                    {name: column[at] for name, column in columns.items()} | dict.fromkeys(objects)
                    for columns, objects in zip(chunk.stats, chunk.objects, strict=True)
                ]
                yield values, stats

    def state(self) -> dict[str, Array]:
        """The state of the step methods after the last draw."""
        return self.chunk(-1).state

    def chunk(self, number: int) -> Chunk:
        """The content of a file."""
        file, first, last = self.files[number]
        return read_chunk(file, self.layout, 1 if last <= self.tune else last - first)


class DrawJournal:
    """The draws of one run, and the states of its step methods, in the folder of a `RunJournal`."""

    # `given`: arguments of `pm.sample`. `resumed`: how often the run was stopped and went on. `seed`: for `pm.sample`.

    def __init__(
        self, path: str | os.PathLike[str], model: pm.Model, given: Mapping[str, Any], *, resume: bool
    ) -> None:
        _check_options(given)
        self._chains, self._draws, self._tune = planned(given)
        self._layout: Layout = {name: (value.dtype, value.shape) for name, value in start_of(model).items()}
        run = described_run(model, (self._chains, self._draws, self._tune), given)
        self._files: list[list[Piece]] = [[] for _ in range(self._chains)]
        self._points: list[list[Any]] = [[] for _ in range(self._chains)]
        self._stats: list[list[Any]] = [[] for _ in range(self._chains)]
        self._attached, self._full = False, False
        self._journal = RunJournal(path, resume=resume)
        self.path = self._journal.path
        self.resumed = self._journal.resumed
        self.seed: Any = given.get("random_seed")
        if self.seed is None:
            self.seed = self._journal.entropy  # recorded: chains which have not begun can begin as they would have
        try:
            self._journal.check(run)
            self._take()
            self._journal.begin(run)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.strerror:
                what = f"{error.strerror}: there is no room for draws as they come"
                raise OSError(error.errno, what, str(self.path)) from error
            raise
        chains = get_random_generator(self.seed).spawn(self._chains)
        self._keys = [tuple(rng.bit_generator.seed_seq.spawn_key) for rng in chains]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, chain: int) -> int:
        return self._files[chain][-1][2] if self._files[chain] else 0

    @property
    def kept(self) -> int:
        """How many draws the folder has, with those of the tuning."""
        return sum(map(self._end, range(self._chains)))

    @property
    def total(self) -> int:
        """How many the run has, with those of the tuning."""
        return self._chains * (self._draws + self._tune)

    def _take(self) -> None:
        """Take the files of each chain that follow one another; a chain ends where one is damaged, and what follows is removed."""
        named = [(file, _NAME.fullmatch(file.name)) for file in self.path.glob("chain-*.npz")]
        found = sorted((int(match[1]), int(match[2]), int(match[3]), file) for file, match in named if match)
        longest = max(((last - self._tune, chain) for chain, _, last, _ in found), default=(0, 0))
        if longest[0] > self._draws:
            raise ValueError(
                f"{str(self.path)!r} has {longest[0]:,} draws of chain {longest[1]}, and draws={self._draws:,} are asked for: ask for "
                "as many or more"
            )
        for chain, files in enumerate(self._files):
            ours = [(file, first, last) for own, first, last, file in found if own == chain]
            for number, (file, first, last) in enumerate(ours):
                try:
                    follows = first == self._end(chain) and first < last and not first < self._tune < last
                    require(follows, "does not follow the one before")
                    self._kept([(file, first, last)]).chunk(0)
                except ValueError:
                    _log.warning(
                        "%s: draws of chain %d are damaged; it goes on from its draw %s",
                        self.path, chain, f"{self._end(chain):,}",
                    )  # fmt: skip
                    for other, _, _ in ours[number:]:
                        other.unlink()
                    break
                files.append((file, first, last))

    def _kept(self, files: Sequence[Piece]) -> KeptDraws:
        return KeptDraws(tuple(files), self._tune, self._layout)

    def attach(self, step: Any) -> RecordedStep:
        """Wrap the step method that PyMC has made; it gives the draws that are there, and then goes on."""
        try:
            state_arrays(step)
        except TypeError as error:
            name = getattr(step, "name", type(step).__name__)
            raise ValueError(f"draws cannot be kept for {name}: {error}; leave out journal=") from None
        replays = {self._keys[chain]: self._kept(files) for chain, files in enumerate(self._files) if files}
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
        chain, first = draw.chain, self._end(draw.chain)
        if self._full or draw.draw_idx < first:
            return
        if draw.tuning and not isinstance(draw.stats, Stats):
            return  # thrown away in the end; the last one before a state is where the chain goes on from
        points, stats = self._points[chain], self._stats[chain]
        points.append({name: np.array(draw.point[name]) for name in self._layout})
        stats.append(draw.stats)
        if isinstance(draw.stats, Stats):
            last = draw.draw_idx + 1
            file = self.path / f"chain-{chain}-{first}-{last}.npz"
            try:
                write_arrays(file, chunk_arrays(points, stats, draw.stats.state))
                self._files[chain].append((file, first, last))
            except OSError as error:
                _log.warning(
                    "%s: %s. Sampling goes on; draws from here on are not kept while sampling",
                    self.path,
                    error.strerror,
                )
                self._full = True
            points.clear()
            stats.clear()

    def close(self) -> None:
        """Let other processes write to the folder; further draws are not kept."""
        self._full = True
        self._journal.close()

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

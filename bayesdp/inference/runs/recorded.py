"""A step method that hands over its state every few seconds, and first repeats the draws that a journal has.

PyMC keeps the state of step methods in the process that samples a chain. Here the step method that PyMC has made is wrapped before
PyMC hands it to the chains: every few seconds a draw carries the state along, so that the parent can write it, with
the draws, to a file. A chain that goes on first returns its recorded draws, without computing them, takes its recorded state,
and then draws what it would have drawn. So PyMC sees a run like any other, and its traces, statistics, tuning and progress are right.

PyMC has no argument for that: it makes step methods and samples in one function. Building them outside would repeat a good part of
that function (initial points, NUTS with its start, options of steps), and differ from it in time. So its two samplers are
replaced by ones that look for a journal and otherwise do what they did. `Attachable.attach` not being called is noticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pymc.sampling.mcmc as mcmc
from pymc.initial_point import PointType

from bayesdp.inference.runs.step_state import restore_state, state_bytes

type Values = dict[str, npt.NDArray[Any]]

SECONDS = 5.0
"""Time between two states of a chain, in seconds."""
_BYTES = 2**24
"""Draws between two states at most, in bytes: the parent holds them until they are written."""


class Stats(list[dict[str, Any]]):
    """Statistics of a draw, one mapping a step method, and the state after it."""

    state: bytes


class Replay(Protocol):
    """Recorded draws of one chain."""

    @property
    def end(self) -> int:
        """Number of draws, tuning included."""

    def rows(self) -> Iterator[tuple[Values, list[dict[str, Any]]]]:
        """Each draw, and its statistics."""

    def state(self) -> bytes:
        """The state after the last of them."""


@runtime_checkable
class Attachable(Protocol):
    """The attribute ``journal`` that a callback of PyMC has if draws are to be written as they come."""

    def attach(self, step: Any) -> RecordedStep:
        """Wrap the step method of all chains."""


class RecordedStep:
    """Wraps the step method of a run.

    Parameters
    ----------
    replays : mapping from tuples of int
        Recorded draws, by the spawn key of the chain's seed, which is how a step method knows its chain.
    seconds : float
        Between two states.
    """

    def __init__(self, step: Any, replays: Mapping[tuple[int, ...], Replay], seconds: float) -> None:
        self.inner = step
        self.replays = dict(replays)
        self.seconds = seconds
        self._size = 0  # bytes of a draw
        self._replay: Replay | None = None
        self._rows: Iterator[tuple[Values, list[dict[str, Any]]]] = iter(())

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Begin a chain."""
        self.inner.setup_chain(rng, tune, draws)
        self._tune, self._total, self._done = tune, tune + draws, 0
        self._stopped = False
        self._replay = self.replays.get(tuple(rng.bit_generator.seed_seq.spawn_key))  # type: ignore[attr-defined]
        if self._replay is not None:
            self._rows = self._replay.rows()
        self._bytes, self._time = 0, time.monotonic()

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Return a recorded draw, or make one."""
        if self._replay is not None:
            known = next(self._rows, None)
            if known is not None:
                self._done += 1
                return self._with_values(point, known[0]), known[1]
            self._go_on(self._replay)
        new, stats = self.inner.step(point)
        self._done += 1
        if not self._size:
            self._size = sum(value.nbytes for value in new.values())
        self._bytes += self._size
        if not self._due():
            return new, stats
        kept = Stats(stats)
        kept.state = state_bytes(self.inner)
        self._bytes, self._time = 0, time.monotonic()
        return new, kept

    @staticmethod
    def _with_values(point: PointType, values: Values) -> PointType:
        new = point.copy()  # PyMC records by position: the order of the names stays
        new.update(values)
        return new

    def _due(self) -> bool:
        """Whether a state is due. One is at the end of the tuning, so that no record has draws of both phases."""
        at_an_end = self._done in (self._tune, self._total)
        return at_an_end or self._bytes >= _BYTES or time.monotonic() - self._time >= self.seconds

    def _go_on(self, replay: Replay) -> None:
        restore_state(self.inner, replay.state())
        # The state written at the end of the tuning is from before PyMC called `stop_tuning`.
        if self._stopped and replay.end <= self._tune:
            self.inner.stop_tuning()
        self._replay = None
        self._time = time.monotonic()

    def stop_tuning(self) -> None:
        """End the tuning."""
        self._stopped = True
        self.inner.stop_tuning()

    def reset_tuning(self) -> None:
        """Begin the tuning; PyMC asks for it in chains that run one after the other."""
        if hasattr(self.inner, "reset_tuning"):
            self.inner.reset_tuning()

    @property
    def tune(self) -> bool:
        """Whether the step method is being tuned."""
        return bool(getattr(self.inner, "tune", False))

    @tune.setter
    def tune(self, value: bool) -> None:
        self.inner.tune = value

    @property
    def sampling_state(self) -> Any:
        """The state of the step method; PyMC puts the first one back before every chain."""
        return self.inner.sampling_state

    @sampling_state.setter
    def sampling_state(self, state: Any) -> None:
        self.inner.sampling_state = state

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        return self.inner._progressbar_config(n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return self.inner._make_progressbar_update_functions()


_HOOKED = "_bayesdp_journal"


def hook() -> None:
    """Have PyMC's samplers ask the callback for a journal; once, and nothing changes for callbacks without one."""
    for name in ("_sample_many", "_mp_sample", _TOGETHER):
        sampler = getattr(mcmc, name)
        if not hasattr(sampler, _HOOKED):
            setattr(mcmc, name, _asking(sampler, together=name == _TOGETHER))


_TOGETHER = "_sample_population"
"""For step methods that look at all chains; it calls no callback."""


def _asking(sampler: Callable[..., Any], together: bool) -> Callable[..., Any]:
    @wraps(sampler)
    def asking(**kwargs: Any) -> Any:
        journal = getattr(kwargs.get("callback"), "journal", None)
        if isinstance(journal, Attachable):
            if together:
                raise ValueError(
                    "draws of step methods that sample all chains together cannot be kept; leave out journal="
                )
            kwargs["step"] = journal.attach(kwargs["step"])
        return sampler(**kwargs)

    setattr(asking, _HOOKED, True)
    return asking

"""A step method that hands over its state every few seconds, and first repeats the draws that a journal has.

The step method that PyMC has made is wrapped before PyMC hands it to the chains: every few seconds a draw carries the state along, so
that the parent can write it, with the draws, to a file. A chain that goes on first returns its recorded draws, without computing them,
takes its recorded state, and then draws what it would have drawn: PyMC sees a run like any other. It has no argument for that, so its
samplers are replaced by ones that look for a journal and otherwise do what they did. `DrawJournal.attach` not being called is noticed.

PyMC pickles the state. A journal is a file that may come from anywhere, so here it is spelled out as plain data and arrays, and read
back only into the place of a live state of the same form.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pymc.sampling.mcmc as mcmc
from pymc.initial_point import PointType
from pymc.step_methods.compound import flatten_steps
from pymc.step_methods.state import DataClassState
from pymc.util import RandomGeneratorState, random_generator_from_state

from bayesdp import _text
from bayesdp.storage.journal import require

if TYPE_CHECKING:
    from bayesdp.inference.runs.journal import KeptDraws

type Array = npt.NDArray[Any]
type Values = dict[str, Array]

_NOT_IN_PYMCS_STATE = ("divergences", "_reached_max_treedepth")
"""Counters of NUTS that PyMC leaves out of its sampling state; the first is a statistic of every draw."""
_WHAT = "the state of the step methods"
_DEEPEST = 40


def state_arrays(step: Any) -> dict[str, Array]:
    """The state of a step method: text, and numbered arrays."""
    arrays: list[Array] = []
    counters = [
        {name: getattr(part, name) for name in _NOT_IN_PYMCS_STATE if hasattr(part, name)} for part in _parts(step)
    ]
    plain = {"state": _written(step.sampling_state, arrays), "counters": counters}
    text = np.frombuffer(_text.dumps(plain, _WHAT).encode(), dtype=np.uint8)
    return {"plain": text, **{str(number): own for number, own in enumerate(arrays)}}


def restore_state(step: Any, found: Mapping[str, Array]) -> None:
    """Put a state back into a step method."""
    state, counters = checked_state(step, found)
    step.sampling_state = state
    for part, kept in zip(_parts(step), counters, strict=True):
        for name in _NOT_IN_PYMCS_STATE:
            if hasattr(part, name) and isinstance(kept, dict) and isinstance(kept.get(name), int):
                setattr(part, name, kept[name])


def checked_state(step: Any, found: Mapping[str, Array]) -> tuple[Any, list[Any]]:
    """Decode a state into PyMC's form, and the counters that PyMC leaves out, without changing the step method."""
    names = [str(number) for number in range(len(found) - 1)]
    require(set(found) == {"plain", *names}, f"{_WHAT} is of another form")
    arrays = [found[name] for name in names]
    require(all(own.dtype.kind in "biuf" for own in arrays), f"{_WHAT} has arrays that are no numbers")
    text = found["plain"].tobytes().decode(errors="replace")
    plain = _text.expect(_text.loads(text, _WHAT), dict, _WHAT, {"state", "counters"})
    counters = plain["counters"]
    known = isinstance(counters, list) and len(counters) == len(_parts(step))
    require(known, f"{_WHAT} is of other step methods")
    return _like(step.sampling_state, plain["state"], arrays, 0), counters


def _parts(step: Any) -> list[Any]:
    return list(flatten_steps(step))


def _changing(state: DataClassState) -> list[str]:
    """Fields that sampling changes; the others are compared by PyMC when a state is put back."""
    return [field.name for field in fields(state) if not field.metadata.get("frozen", False)]


def _written(value: Any, arrays: list[Array]) -> Any:
    """A value as plain data, with its arrays put into a list. One key says what an object is."""
    if value is None or isinstance(value, bool | str) or (isinstance(value, int) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, DataClassState):
        return {"state": {name: _written(getattr(value, name), arrays) for name in _changing(value)}}
    if isinstance(value, RandomGeneratorState):
        return {"generator": [_written(dict(item), arrays) for item in value]}
    if isinstance(value, np.ndarray | np.generic | float):
        if np.asarray(value).dtype.kind not in "biuf":
            raise TypeError(f"an array of dtype {np.asarray(value).dtype} cannot be kept: only numbers can")
        arrays.append(np.array(value))
        return {"array" if isinstance(value, np.ndarray) else "number": len(arrays) - 1, "float": type(value) is float}
    if isinstance(value, Mapping):
        return {"dict": {str(key): _written(item, arrays) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        if len(value) > 8 and all(type(item) is np.float64 for item in value):
            arrays.append(np.array(value))  # the acceptance of every draw so far, in NUTS
            return {"numbers": len(arrays) - 1, "kind": kind}
        return {kind: [_written(item, arrays) for item in value]}
    raise TypeError(f"{type(value).__name__} cannot be kept")


def _read(written: Any, arrays: list[Array], depth: int) -> Any:
    """Decode what `_written` has written where there is no live value to compare it with."""
    require(depth <= _DEEPEST, f"{_WHAT} is nested too deeply")
    match written:
        case None | bool() | int() | str():
            return written
        case {"array": int(at)}:
            return _array(arrays, at).copy()
        case {"number": int(at), "float": bool(plain)}:
            array = _array(arrays, at)
            require(array.shape == (), f"{_WHAT} has an array where a number was to be")
            return array.item() if plain else array[()]
        case {"numbers": int(at), "kind": kind}:
            listed = list(_array(arrays, at).reshape(-1))
            return listed if kind == "list" else tuple(listed)
        case {"list": list(items)}:
            return [_read(item, arrays, depth + 1) for item in items]
        case {"tuple": list(items)}:
            return tuple(_read(item, arrays, depth + 1) for item in items)
        case {"dict": dict(items)}:
            return {key: _read(item, arrays, depth + 1) for key, item in items.items()}
    raise ValueError(f"{_WHAT} is of another form")


def _array(arrays: list[Array], at: int) -> Array:
    require(0 <= at < len(arrays), f"{_WHAT} lacks an array")
    return arrays[at]


def _content(written: Any, kind: str) -> Any:
    """What was written as an object of some kind; None if that is none."""
    return written.get(kind) if isinstance(written, dict) else None


def _like(live: Any, written: Any, arrays: list[Array], depth: int) -> Any:
    """Decode what `_written` has written in the form of the live value: nothing of another kind gets into a step method."""
    require(depth <= _DEEPEST, f"{_WHAT} is nested too deeply")
    if isinstance(live, DataClassState):
        kept, names = _content(written, "state"), _changing(live)
        known = isinstance(kept, dict) and set(kept) == set(names)
        require(known, f"{_WHAT} is of other step methods, or of another version of them")
        values = {field.name: getattr(live, field.name) for field in fields(live)}
        return type(live)(**values | {name: _like(values[name], kept[name], arrays, depth + 1) for name in names})
    if isinstance(live, RandomGeneratorState):
        return _generator(live, written, arrays)
    if isinstance(live, list) and live and isinstance(live[0], DataClassState):
        kept = _content(written, "list")
        require(isinstance(kept, list) and len(kept) == len(live), f"{_WHAT} is of other step methods")
        return [_like(item, other, arrays, depth + 1) for item, other in zip(live, kept, strict=True)]
    found = _read(written, arrays, depth)
    require(live is None or _same_kind(live, found), f"{_WHAT} has a value of another kind or size")
    return found


def _same_kind(live: Any, found: Any) -> bool:
    """Whether a decoded value may replace a live one: of the same type, and arrays of the same shape and dtype."""
    if isinstance(live, np.ndarray):
        return isinstance(found, np.ndarray) and found.shape == live.shape and found.dtype == live.dtype
    if isinstance(live, bool | np.bool_):
        return isinstance(found, bool | np.bool_)
    if isinstance(live, int | float | np.number):  # a count may become a real number, as NUTS has it
        return isinstance(found, int | float | np.number) and not isinstance(found, bool)
    if isinstance(live, list) and isinstance(found, list) and len(live) == len(found):
        return all(
            not isinstance(item, np.ndarray) or _same_kind(item, other) for item, other in zip(live, found, strict=True)
        )
    return isinstance(found, list if isinstance(live, list) else type(live))


def _generator(live: RandomGeneratorState, written: Any, arrays: list[Array]) -> RandomGeneratorState:
    """Decode a random generator of the live kind: PyMC looks up its class by name, which must not come from a file."""
    kept = _content(written, "generator")
    require(isinstance(kept, list) and len(kept) == 2, f"{_WHAT} lacks a random generator")
    bits, seeds = (_read(item, arrays, 0) for item in kept)
    known = isinstance(bits, dict) and isinstance(seeds, dict) and set(seeds) == set(live.seed_seq_state)
    known = known and seeds["pool_size"] == live.seed_seq_state["pool_size"]
    require(known, f"{_WHAT} has a random generator of another form")
    same = bits.get("bit_generator") == live.bit_generator_state["bit_generator"]
    require(same, f"{_WHAT} has a random generator of another kind")
    found = RandomGeneratorState(bit_generator_state=bits, seed_seq_state=seeds)
    try:
        random_generator_from_state(found)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ValueError(f"{_WHAT} has an impossible random generator: {error}") from None
    return found


SECONDS = 5.0
"""Time between two states of a chain, in seconds, at first; after `_LONG` it grows with the time that has passed."""
_LONG = 500.0
_BYTES = 2**24
"""Draws between two states at most, in bytes: the parent holds them until they are written."""


class Stats(list[dict[str, Any]]):
    """Statistics of a draw, one mapping a step method, and the state after it."""

    state: dict[str, Array]


class RecordedStep:
    """Wraps the step method of a run, and is like it in all else."""

    # `replays`: recorded draws, by the spawn key of the chain's seed, which is how a step method knows its chain.

    def __init__(self, step: Any, replays: Mapping[tuple[int, ...], KeptDraws], seconds: float) -> None:
        self.inner = step
        self.replays = dict(replays)
        self.seconds = seconds
        self._size = 0  # bytes of a draw
        self._replay: KeptDraws | None = None
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
        self._begun = self._time

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Return a recorded draw, or make one."""
        if self._replay is not None:
            known = next(self._rows, None)
            if known is not None:
                self._done += 1
                return point.copy() | known[0], known[1]  # PyMC records by position: the order of the names stays
            self._go_on(self._replay)
        new, stats = self.inner.step(point)
        self._done += 1
        if not self._size:
            self._size = sum(value.nbytes for value in new.values())
        self._bytes += self._size
        if not self._due():
            return new, stats
        kept = Stats(stats)
        kept.state = state_arrays(self.inner)
        self._bytes, self._time = 0, time.monotonic()
        return new, kept

    def _due(self) -> bool:
        """Whether a state is due. One is at the end of the tuning, so that no record has draws of both phases."""
        if self._done in (self._tune, self._total) or self._bytes >= _BYTES:
            return True
        # A hundredth of what was drawn may be lost: a long run has no more than some hundred files a chain.
        now = time.monotonic()
        return now - self._time >= self.seconds * max(1.0, (now - self._begun) / _LONG)

    def _go_on(self, replay: KeptDraws) -> None:
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

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # What PyMC sets: the state that every chain begins with, and whether the step method is being tuned.
        if name in ("sampling_state", "tune"):
            setattr(self.inner, name, value)
        else:
            super().__setattr__(name, value)


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
        attach = getattr(getattr(kwargs.get("callback"), "journal", None), "attach", None)
        if attach is not None and together:
            raise ValueError("draws of step methods that sample all chains together cannot be kept; leave out journal=")
        if attach is not None:
            kwargs["step"] = attach(kwargs["step"])
        return sampler(**kwargs)

    setattr(asking, _HOOKED, True)
    return asking

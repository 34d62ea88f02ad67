"""The state of a step method between two draws, as plain data and arrays: what PyMC calls its sampling state.

PyMC's own storage pickles it. A journal is a file that may come from anywhere, so here it is spelled out, and read back
only into the place of a live state of the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
from pymc.step_methods.compound import flatten_steps
from pymc.step_methods.state import DataClassState
from pymc.util import RandomGeneratorState, random_generator_from_state

from bayesdp.storage.records import pack, unpack

type Array = npt.NDArray[Any]

_NOT_IN_PYMCS_STATE = ("divergences", "_reached_max_treedepth")
"""Counters of NUTS that PyMC leaves out of its sampling state; the first is a statistic of every draw."""
_WHAT = "the state of the step methods"
_DEEPEST = 40


def state_bytes(step: Any) -> bytes:
    """The state of a step method."""
    arrays: list[Array] = []
    counters = [
        {name: getattr(part, name) for name in _NOT_IN_PYMCS_STATE if hasattr(part, name)} for part in _parts(step)
    ]
    return pack({"state": _written(step.sampling_state, arrays), "counters": counters}, arrays)


def restore_state(step: Any, content: bytes) -> None:
    """Put a state back into a step method."""
    state, counters = checked_state(step, content)
    step.sampling_state = state
    for part, kept in zip(_parts(step), counters, strict=True):
        for name in _NOT_IN_PYMCS_STATE:
            if hasattr(part, name) and isinstance(kept, dict) and isinstance(kept.get(name), int):
                setattr(part, name, kept[name])


def checked_state(step: Any, content: bytes) -> tuple[Any, list[Any]]:
    """Decode a state into PyMC's form, and the counters that PyMC leaves out, without changing the step method."""
    plain, arrays = unpack(content, _WHAT)
    if not isinstance(plain, dict) or set(plain) != {"state", "counters"}:
        raise ValueError(f"{_WHAT} is of another form")
    counters = plain["counters"]
    if not isinstance(counters, list) or len(counters) != len(_parts(step)):
        raise ValueError(f"{_WHAT} is of other step methods")
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
        arrays.append(np.asarray(value))
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
    if depth > _DEEPEST:
        raise ValueError(f"{_WHAT} is nested too deeply")
    if not isinstance(written, dict):
        if isinstance(written, list | float):
            raise ValueError(f"{_WHAT} is of another form")
        return written
    match written:
        case {"array": int(at)}:
            return _array(arrays, at).copy()
        case {"number": int(at), "float": bool(plain)}:
            array = _array(arrays, at)
            if array.shape != ():
                raise ValueError(f"{_WHAT} has an array where a number was to be")
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
    if not 0 <= at < len(arrays):
        raise ValueError(f"{_WHAT} lacks an array")
    return arrays[at]


def _like(live: Any, written: Any, arrays: list[Array], depth: int) -> Any:
    """Decode what `_written` has written in the form of the live value: nothing of another kind gets into a step method."""
    if depth > _DEEPEST:
        raise ValueError(f"{_WHAT} is nested too deeply")
    if isinstance(live, DataClassState):
        kept = written.get("state") if isinstance(written, dict) else None
        names = _changing(live)
        if not isinstance(kept, dict) or set(kept) != set(names):
            raise ValueError(f"{_WHAT} is of other step methods, or of another version of them")
        values = {field.name: getattr(live, field.name) for field in fields(live)}
        return type(live)(**values | {name: _like(values[name], kept[name], arrays, depth + 1) for name in names})
    if isinstance(live, RandomGeneratorState):
        return _generator(live, written, arrays)
    if isinstance(live, list) and live and isinstance(live[0], DataClassState):
        kept = written.get("list") if isinstance(written, dict) else None
        if not isinstance(kept, list) or len(kept) != len(live):
            raise ValueError(f"{_WHAT} is of other step methods")
        return [_like(item, other, arrays, depth + 1) for item, other in zip(live, kept, strict=True)]
    found = _read(written, arrays, depth)
    if live is not None and not _same_kind(live, found):
        raise ValueError(f"{_WHAT} has a value of another kind or size")
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
    kept = written.get("generator") if isinstance(written, dict) else None
    if not isinstance(kept, list) or len(kept) != 2:
        raise ValueError(f"{_WHAT} lacks a random generator")
    bits, seeds = (_read(item, arrays, 0) for item in kept)
    if not isinstance(bits, dict) or not isinstance(seeds, dict) or set(seeds) != set(live.seed_seq_state):
        raise ValueError(f"{_WHAT} has a random generator of another form")
    if bits.get("bit_generator") != live.bit_generator_state["bit_generator"]:
        raise ValueError(f"{_WHAT} has a random generator of another kind")
    if seeds["pool_size"] != live.seed_seq_state["pool_size"]:
        raise ValueError(f"{_WHAT} has a random generator with an impossible seed")
    found = RandomGeneratorState(bit_generator_state=bits, seed_seq_state=seeds)
    try:
        random_generator_from_state(found)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ValueError(f"{_WHAT} has an impossible random generator: {error}") from None
    return found

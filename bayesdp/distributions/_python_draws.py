"""Samplers written in Python, called from code that PyTensor compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.tensor.random.variable import shared_rng

from bayesdp._numba import nb as numba


def drawn_in_python(op: Any, ndim: int) -> tuple[Any, None]:
    """What PyTensor's numba backend is to call for a random variable: its `rng_fn`, without PyTensor's warning about it."""
    # None in place of a cache key keeps PyTensor from storing a function that refers to this very Op.
    number = numba.from_dtype(np.dtype(op.dtype))
    result = numba.types.Array(number, ndim, "C") if ndim else number

    def draw_one(rng: np.random.Generator, inputs: tuple[Any, ...]) -> Any:
        drawn = op.rng_fn(rng, *inputs, None)
        return np.ascontiguousarray(drawn) if ndim else np.asarray(drawn).item()

    @numba_njit
    def random(rng, *inputs):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        with numba.objmode(out=result):
            out = draw_one(rng, inputs)
        return out

    return random, None


def applied(op: Any, *inputs: Any, size: Any, rng: Any) -> Any:
    """The variable of a random variable's Op, with a generator of its own if none is given."""
    own = shared_rng(seed=None) if rng is None else rng
    return op(*inputs, size=size, rng=own, return_next_rng=True)[1]

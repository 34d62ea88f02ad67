"""Random variables whose value is a whole table, sampled by the laws of `bayesdp.noise`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.variable import shared_rng

from bayesdp.distributions._parameters import is_discrete
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats, Ints, NoiseLaw

__all__ = ["TableNoiseRV", "applied", "nearest_table", "norm_l1", "norm_l2", "squared_norm"]


class TableNoiseRV(RandomVariable):
    """A noisy table around a location, with one scale; all dimensions of the table are core dimensions.

    Parameters
    ----------
    invariants : Invariants
        What the noise does not change. It is among ``__props__``, as is everything else that an Op depends
        on: PyTensor merges and caches Ops that agree in their props.
    norm : {"l1", "l2"}
        Norm of the noise; only the lattice Laplace law has a choice.
    """

    __props__: tuple[str, ...] = (*RandomVariable.__props__, "invariants", "norm")  # type: ignore[assignment]

    def __init__(self, invariants: Invariants, norm: str = "l2", **props: Any) -> None:
        self.invariants = invariants
        self.norm = norm
        core = ",".join(ascii_lowercase[: len(invariants.frame.shape)])
        props.setdefault("signature", f"({core}),()->({core})")
        super().__init__(**props)

    @abstractmethod
    def law(self, scale: float) -> NoiseLaw:
        """Give the noise law at one scale."""

    def rng_fn(self, rng: np.random.Generator, mu: Any, scale: Any, size: Sequence[int] | None = None) -> Floats | Ints:
        """Draw one table for each location and scale of the batch."""
        mu, scale = np.asarray(mu), np.asarray(scale, dtype=np.float64)
        table = self.invariants.frame.shape
        lead = mu.shape[: mu.ndim - len(table)]
        batch = np.broadcast_shapes(lead, scale.shape) if size is None else tuple(size)
        locations = np.broadcast_to(mu, (*batch, *table)).reshape(-1, *table)
        scales = np.broadcast_to(scale, batch).reshape(-1)
        if np.all(locations == locations[:1]) and np.all(scales == scales[:1]) and len(scales):
            # The usual case, one law for the whole batch: a sampler is set up once.
            law = self.law(float(scales[0]))
            draws = law.draw(rng, table, len(scales), self.invariants, locations[0])
            return np.reshape(draws, (*batch, *table))
        out: Any = np.empty((len(scales), *table), dtype=self.dtype)
        for i, (location, value) in enumerate(zip(locations, scales, strict=True)):
            out[i] = self.law(float(value)).draw(rng, table, None, self.invariants, location)
        return np.reshape(out, (*batch, *table))

    def __str__(self) -> str:
        return f"{self.name}_rv{{{self.norm}}}"


@numba_core_rv_funcify.register(TableNoiseRV)
def _core(op: TableNoiseRV, node: Any) -> tuple[Any, None]:
    """Call the Python sampler from compiled code, on purpose and so without PyTensor's warning about it.

    Returning None for the cache key keeps PyTensor from storing a function that refers to this very Op.
    """
    result = numba.types.Array(numba.from_dtype(np.dtype(op.dtype)), len(op.invariants.frame.shape), "C")

    def draw_one(rng: np.random.Generator, mu: Any, scale: float) -> Any:
        return np.ascontiguousarray(op.rng_fn(rng, mu, scale))

    @numba_njit
    def random(rng, mu, scale):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        with numba.objmode(out=result):
            out = draw_one(rng, mu, scale)
        return out

    return random, None


def applied(op: TableNoiseRV, mu: Any, scale: Any, *, size: Any = None, rng: Any = None) -> Any:
    """Make the variable of an Op, with a generator of its own unless one is given."""
    own = shared_rng(seed=None) if rng is None else rng
    _, variable = op(mu, scale, size=size, rng=own, return_next_rng=True)
    return variable


def nearest_table(rv: Any, mu: Any) -> Any:
    """Give mu in every place of the batch; where the law is one of integers, rounded."""
    centre = pt.round(mu) if is_discrete(rv) and not is_discrete(mu) else mu
    return pt.zeros_like(rv) + centre


def squared_norm(difference: Any, ndim: int) -> Any:
    """Sum of squares over the last `ndim` dimensions."""
    return pt.sum(pt.sqr(difference), axis=tuple(range(-ndim, 0)))


def norm_l1(difference: Any, ndim: int) -> Any:
    """Sum of absolute values over the last `ndim` dimensions."""
    return pt.sum(pt.abs(difference), axis=tuple(range(-ndim, 0)))


def norm_l2(difference: Any, ndim: int) -> Any:
    """Euclidean length over the last `ndim` dimensions, with gradient 0 (not NaN) where it is 0."""
    square = squared_norm(difference, ndim)
    inside = square > 0
    return pt.switch(inside, pt.sqrt(pt.switch(inside, square, 1.0)), 0.0)

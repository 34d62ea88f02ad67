"""Random variables of the unconstrained integer laws, sampled by the compiled kernels of `bayesdp.noise`."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from bayesdp.noise import _kernels
from bayesdp.noise.base import Ints

__all__ = ["ScalarNoiseRV", "register_kernel", "rounded_location"]

# PyTensor keeps compiled functions on disk: one compiled from other samplers must not be found again.
_KERNEL_VERSION = zlib.crc32(inspect.getsource(_kernels).encode())


class ScalarNoiseRV(RandomVariable):
    """An integer random variable with a real location and a scale.

    Attributes
    ----------
    fill : callable
        Compiled sampler ``fill(rng, mu, scale, out)`` of `bayesdp.noise`, for PyTensor's Python mode.
    """

    signature = "(),()->()"
    dtype = "int64"
    fill: ClassVar[Callable[..., None]]

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, mu: Any, scale: Any, size: Sequence[int] | None) -> Ints:
        """Draw an array of independent values."""
        mu, scale = np.asarray(mu, dtype=np.float64), np.asarray(scale, dtype=np.float64)
        shape = np.broadcast_shapes(mu.shape, scale.shape) if size is None else tuple(size)
        out = np.empty((1, int(np.prod(shape))), dtype=np.int64)
        spread = [np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1) for array in (mu, scale)]
        cls.fill(rng, *spread, out)
        return out.reshape(shape)


def register_kernel(rv_type: type[ScalarNoiseRV], kernel: Callable[..., Any]) -> None:
    """Tell PyTensor's numba backend which compiled scalar function draws one value."""

    @numba_core_rv_funcify.register(rv_type)
    def _core(op: Any, node: Any) -> tuple[Any, int]:
        @numba_njit
        def random(rng, mu, scale):  # type: ignore[no-untyped-def]  # compiled for the types it meets
            return kernel(rng, float(mu), float(scale))

        return random, _KERNEL_VERSION


def rounded_location(size: Any, mu: Any, scale: Any) -> Any:
    """Give the support point: the nearest integer of mu in every cell, which always has positive mass."""
    centre, _ = pt.broadcast_arrays(pt.cast(pt.round(mu), "int64"), scale)
    return centre if rv_size_is_none(size) else pt.full(size, centre)

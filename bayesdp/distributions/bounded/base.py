"""What the PyMC distributions within bounds share: random variables, bounds, sums of a Gaussian over an interval."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.gradient import DisconnectedType, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorConstant

from bayesdp.noise import _kernels
from bayesdp.noise.bounded import _kernels as _bounded_kernels
from bayesdp.noise.bounded.base import checked_bounds

__all__ = [
    "BoundedRV",
    "checked",
    "finite",
    "gaussian_sums",
    "inner_point",
    "limits",
    "register_sampler",
]

# PyTensor keeps compiled functions on disk: one compiled from other samplers or sums must not be found again.
_SOURCES = (_bounded_kernels.__file__, _kernels.__file__, __file__)
_VERSION = zlib.crc32("".join(Path(source).read_text(encoding="utf-8") for source in _SOURCES).encode())


class BoundedRV(RandomVariable):
    """A random variable with a real location, a scale and two bounds; `law` is its name in `bayesdp.noise`."""

    signature = "(),(),(),()->()"
    law: ClassVar[str]
    values: ClassVar[str]

    @classmethod
    def rng_fn(
        cls, rng: np.random.Generator, mu: Any, scale: Any, lower: Any, upper: Any, size: Sequence[int] | None
    ) -> Any:
        """Draw an array of independent values."""
        arrays = [np.asarray(array, dtype=np.float64) for array in (mu, scale, lower, upper)]
        shape = np.broadcast_shapes(*(array.shape for array in arrays)) if size is None else tuple(size)
        out = np.empty((1, int(np.prod(shape))), dtype=cls.values)
        spread = [np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1) for array in arrays]
        _bounded_kernels.FILLS[cls.law](rng, *spread, out)
        return out.reshape(shape)


def register_sampler(rv_type: type[BoundedRV]) -> None:
    """Tell PyTensor's numba backend which compiled scalar function draws one value."""
    kernel = _bounded_kernels.SAMPLERS[rv_type.law]

    @numba_core_rv_funcify.register(rv_type)
    def _core(op: Any, node: Any) -> tuple[Any, int]:
        @numba_njit
        def random(rng, mu, scale, lower, upper):  # type: ignore[no-untyped-def]  # compiled for the types it meets
            return kernel(rng, float(mu), float(scale), float(lower), float(upper))

        return random, _VERSION


def limits(lower: Any, upper: Any, *, integer: bool) -> tuple[Any, Any]:
    """Accept bounds as float64 tensors; None is no bound. Constants are checked.

    Raises
    ------
    TypeError, ValueError
        If constants are reversed, equal, both infinite or not numbers.
    """
    sides = [
        pt.as_tensor_variable(np.float64(missing) if side is None else side)
        for side, missing in ((lower, -np.inf), (upper, np.inf))
    ]
    if all(isinstance(side, TensorConstant) for side in sides):
        sides = [
            pt.constant(np.asarray(side, np.float64))
            for side in checked_bounds([_data(side) for side in sides], integer=integer)
        ]
    return tuple(side if side.dtype == "float64" else pt.cast(side, "float64") for side in sides)  # type: ignore[return-value]


def _data(variable: Any) -> Any:
    return variable.data


def finite(bound: Any, other: Any) -> tuple[Any, Any]:
    """Whether a bound is finite, and a finite number in its place that keeps gradients finite where it is not."""
    there = pt.invert(pt.isinf(bound))
    return there, pt.switch(there, bound, other)


def checked(logp: Any, value: Any, scale: Any, lower: Any, upper: Any, name: str) -> Any:
    """The log-density within the bounds, ``-inf`` outside, and an error for parameters that are none."""
    inside = pt.and_(pt.ge(value, lower), pt.le(value, upper))
    return check_parameters(
        pt.switch(inside, logp, -np.inf), scale > 0, pt.lt(lower, upper), msg=f"{name} > 0, lower < upper"
    )


def inner_point(size: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
    """A point strictly within the bounds, near mu."""
    low, start = finite(lower, 0.0)
    high, end = finite(upper, 0.0)
    near = pt.clip(pt.cast(mu, "float64"), lower, upper)
    both = pt.and_(low, high)
    point = pt.switch(both, 0.5 * near + 0.25 * (start + end), pt.switch(low, near + scale, near - scale))
    return point if rv_size_is_none(size) else pt.full(size, point)


class GaussianSumsOp(Op):
    """Sum of Gaussian masses over the integers of intervals, with its derivatives; see `gaussian_sums`.

    Vectors mu, sigma, lower, upper in; logarithm of the sum in units of the mass of m, its derivatives with respect to mu
    and sigma for fixed m, and m out.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply[Any]:
        vectors = [pt.as_tensor_variable(variable) for variable in inputs]
        return Apply(self, vectors, [pt.vector(dtype="float64") for _ in range(4)])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        found = _sums(*[np.ascontiguousarray(array, dtype=np.float64) for array in inputs])
        for storage, array in zip(outputs, found, strict=True):
            storage[0] = array

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        return [shapes[0]] * 4

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        return [[True, True, True, False], [True, True, True, False], [False] * 4, [False] * 4]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        if any(not isinstance(c.type, DisconnectedType) for c in cotangents[1:3]):
            found = [grad_not_implemented(self, i, inputs[i], "second derivatives are not available") for i in (0, 1)]
        else:
            found = [cotangents[0] * outputs[1], cotangents[0] * outputs[2]]
        return [*found, DisconnectedType()(), DisconnectedType()()]


# Not PyTensor's numba_njit: functions made by that cannot be called from Python, which `perform` does.
@numba.njit(cache=True)
def _sums(mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    out = np.empty((mu.size, 4))
    _bounded_kernels.gaussian_sums(mu, sigma, lower, upper, out)
    m = out[:, 3].copy()
    first, second = out[:, 1] / out[:, 0], out[:, 2] / out[:, 0]
    slope = (second - 2.0 * (mu - m) * first) / sigma**3
    return np.log(out[:, 0]), first / sigma**2, slope, m


@register_funcify_default_op_cache_key(GaussianSumsOp)
def _funcify(op: Any, node: Any, **kwargs: Any) -> tuple[Any, int]:
    return _sums, _VERSION


def gaussian_sums(mu: Any, sigma: Any, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Logarithm of the sum of ``exp(-(k - m) ((k - m) - 2 (mu - m)) / (2 sigma**2))`` from lower to upper, and m.

    m is the integer within the bounds that is nearest to mu. All arguments have one shape.
    """
    flat = [pt.flatten(variable) for variable in (mu, sigma, lower, upper)]
    found: Any = GaussianSumsOp()(*flat)
    total, _, _, m = found
    return pt.reshape(total, mu.shape, ndim=mu.ndim), pt.reshape(m, mu.shape, ndim=mu.ndim)

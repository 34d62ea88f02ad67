"""PyMC distributions of laws within bounds, made from the laws of `bayesdp.noise`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import BoundedContinuous, bounded_cont_transform
from pymc.distributions.dist_math import check_icdf_parameters, check_icdf_value, check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.distributions.transforms import _default_transform
from pytensor.tensor.variable import TensorConstant

from bayesdp.distributions.independent.scalar import ScalarNoiseRV, distribution_class, whole_values
from bayesdp.distributions.parameters import scale
from bayesdp.noise.bounded.base import BoundedLaw, checked_bounds
from bayesdp.noise.namespace import finite


class BoundedRV(ScalarNoiseRV):
    """A random variable with a law within bounds; its inputs after the location are the scale and both bounds."""


def bounded_distribution(law: type[BoundedLaw]) -> Callable[[type], Any]:
    """Make the PyMC distribution of a law within bounds, with parameters ``mu``, the scale, ``lower`` and ``upper``.

    Parameters
    ----------
    law : type of BoundedLaw
        With `log_kernel`. If it has a `log_cdf_kernel` or an `icdf_kernel`, so has the distribution.

    Returns
    -------
    decorator
        See `scalar_distribution`. Free variables of a `pymc.distributions.continuous.BoundedContinuous` are transformed to
        the whole line.
    """
    kernels: Any = law

    def logp(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-mass or log-density, at a bound with an atom its log-probability; ``-inf`` outside the bounds."""
        return within_bounds(law, kernels.log_kernel(pt, value, mu, scale, lower, upper), value, scale, lower, upper)

    def logcdf(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Logarithm of the probability of at most `value`."""
        at = pt.floor(value) if law.integer else value
        inner = kernels.log_cdf_kernel(pt, at, mu, scale, lower, upper)
        return pt.switch(pt.lt(value, lower), -np.inf, pt.switch(pt.ge(at, upper), 0.0, inner))

    def icdf(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Smallest value whose probability of not being exceeded is at least that."""
        inner = pt.clip(kernels.icdf_kernel(pt, pt.clip(value, 1e-300, 1.0), mu, scale, lower, upper), lower, upper)
        found = pt.switch(pt.eq(value, 0.0), lower, pt.switch(pt.eq(value, 1.0), upper, inner))
        return check_icdf_parameters(check_icdf_value(found, value), scale > 0, msg=f"{law.scale_name} > 0")

    def support_point(rv: Any, size: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """A point between the bounds, near mu."""
        point = _inner_point(size, mu, scale, lower, upper)
        return pt.cast(pt.clip(pt.round(point), lower, upper), "int64") if law.integer else point

    def converted(spread: Any, lower: Any, upper: Any) -> list[Any]:
        return [scale(spread, law.scale_name), *_limits(lower, upper, integer=law.integer)]

    verbs: dict[str, Any] = {"logp": logp, "support_point": support_point}
    verbs |= {} if law.log_cdf_kernel is None else {"logcdf": logcdf}
    verbs |= {} if law.icdf_kernel is None else {"icdf": icdf}
    sides = (4, 5)  # of the inputs: generator, size, mu, scale, lower, upper
    verbs["bound_args_indices"] = sides

    sides_entry = f"lower, upper : tensor_like, optional\n    {'Whole b' if law.integer else 'B'}{_BOUNDS}"
    entries = {"mu": _LOCATION, "lower": sides_entry, "upper": sides_entry}
    example = _COUNT.replace("SCALE", law.scale_name) if law.integer else ""

    def made(own: type) -> Any:
        found = distribution_class(law, own, converted, verbs, example, entries, BoundedRV)
        if issubclass(own, BoundedContinuous):
            _default_transform.register(found)(lambda op, rv: bounded_cont_transform(op, rv, sides))
        return found

    return made


_LOCATION = "mu : tensor_like of float or int\n    Location: the confidential value."
_BOUNDS = "ounds; None or an infinity where there is none, on one side at most."

_COUNT = """>>> import pymc as pm
>>> with pm.Model():
...     count = pm.Binomial("count", 50, 0.3)
...     noisy = {name}("noisy", mu=count, SCALE=4.0, lower=0, upper=50, observed=12)"""


def within_bounds(law: type[BoundedLaw], logp: Any, value: Any, scale: Any, lower: Any, upper: Any) -> Any:
    """A log-density within the bounds, ``-inf`` outside, and an error for parameters that are none."""
    inside = pt.and_(pt.ge(value, lower), pt.le(value, upper))
    found = pt.switch(inside, whole_values(law, value, logp), -np.inf)
    return check_parameters(found, scale > 0, pt.lt(lower, upper), msg=f"{law.scale_name} > 0, lower < upper")


def _limits(lower: Any, upper: Any, *, integer: bool) -> tuple[Any, Any]:
    """Accept bounds as float64 tensors; None is no bound. Constants are checked: numbers, the lower one below, not both infinite."""
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


def _inner_point(size: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
    """A point strictly within the bounds, near mu."""
    low, high = pt.invert(pt.isinf(lower)), pt.invert(pt.isinf(upper))
    near = pt.clip(pt.cast(mu, "float64"), lower, upper)
    middle = 0.5 * near + 0.25 * (finite(pt, lower, 0.0) + finite(pt, upper, 0.0))
    point = pt.switch(pt.and_(low, high), middle, pt.switch(low, near + scale, near - scale))
    return point if rv_size_is_none(size) else pt.full(size, point)

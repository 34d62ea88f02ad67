"""PyMC distributions of laws made of another one: what of it is published within thresholds, or after rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Distribution, _support_point
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.logprob.abstract import _logprob

from bayesdp import noise
from bayesdp.distributions.independent import limits, whole_values
from bayesdp.distributions.registry import (
    PROPS,
    PythonRV,
    is_discrete,
    location,
    op_of_rv_type,
    register_distribution,
    scale,
)
from bayesdp.noise.arrays import finite
from bayesdp.noise.independent.rounded import log_cell, steps_of
from bayesdp.noise.perturbed.censored import check_order


class OfAnotherRV(PythonRV):
    """A random variable of a law made of another one, with a scale: inputs are the location, that scale, and maybe others."""

    __props__: tuple[str, ...] = (*PROPS, "inner")
    inner: Any  # the type of the other law
    law_of: Any  # from the values of its inputs after the location to the law

    def rng_fn(self, rng: np.random.Generator, *inputs: Any) -> Any:
        """Draw an array of independent values; the last argument is their size."""
        *values, size = inputs
        arrays = [np.asarray(array, dtype=np.float64) for array in values]
        shape = np.broadcast_shapes(*(array.shape for array in arrays)) if size is None else tuple(size)
        mu, *parameters = (np.broadcast_to(array, shape).copy() for array in arrays)
        return np.asarray(self.law_of(parameters).draw(rng, shape, location=mu), dtype=self.dtype)


def _with_scale(law: Any, parameters: dict[str, Any], what: str) -> tuple[Any, Any]:
    """The type of the law inside, and its scale, which is taken out of the parameters or the law."""
    name = getattr(law, "scale_name", None)
    if isinstance(law, noise.NoiseLaw) and name and name in parameters:
        raise TypeError(f"{name} is given twice: law={law!r} has one already")
    if isinstance(law, noise.NoiseLaw) and name:
        law, parameters[name] = type(law), getattr(law, name)
    if not isinstance(law, type) or name is None or not hasattr(law, "log_cdf_kernel"):
        raise TypeError(f"law must be a type of noise law with {what}, got {law!r}")
    kind: Any = law
    if name not in parameters:
        raise TypeError(f"{name} of the law {kind.name!r} is missing")
    return kind, scale(parameters.pop(name), name)


class CensoredRV(OfAnotherRV):
    """Random variable of `Censored`; inputs are the location, the scale of the law that was censored, and both thresholds."""

    law_type = noise.Censored
    name, signature = "censored", "(),(),(),()->()"

    def __init__(self, inner: type[noise.NoiseLaw], **props: Any) -> None:
        props.setdefault("dtype", "int64" if inner.integer else "float64")
        super().__init__(inner=inner, **props)

    def law_of(self, parameters: Sequence[Any]) -> noise.Censored:
        """The law with the values of its inputs after the location."""
        width, low, high = parameters
        return noise.Censored(self.inner(width), low, high)


class Censored(Distribution):
    """Values of a law around mu that are published from `below` to `above`; the others stand as codes 1 beyond.

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to.
    law : type of NoiseLaw, or NoiseLaw
        The law that was censored, one with a scale: `bayesdp.noise.DiscreteLaplace` and others, or with its scale one of these.
    below, above : tensor_like, optional
        Smallest and largest value that is published; None or an infinity where there is no threshold.
    **scale
        ``b`` or ``sigma``, where `law` is a type.

    See Also
    --------
    bayesdp.noise.Censored : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 12.0)
    ...     noisy = Censored("noisy", mu=count, law=bdp.noise.DiscreteLaplace, b=4.0, below=10, observed=9)
    """

    rv_type = CensoredRV
    rv_op = op_of_rv_type

    @classmethod
    def dist(cls, mu: Any, law: Any, below: Any = None, above: Any = None, **parameters: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        kind, width = _with_scale(law, parameters, "a scale and tails, such as DiscreteLaplace")
        sides = limits({"below": below, "above": above}, check_order, integer=kind.integer)
        return super().dist([location(mu), width, *sides], inner=kind, **parameters)


register_distribution(noise.Censored, Censored)


@_logprob.register(CensoredRV)
def _censored_logp(
    op: CensoredRV, values: Any, rng: Any, size: Any, mu: Any, width: Any, low: Any, high: Any, **_: Any
) -> Any:
    [value] = values
    known = op.inner
    step = 1.0 if op.inner.integer else 0.0
    centre = pt.cast(mu, "float64")
    under = known.log_cdf_kernel(pt, finite(pt, low, 0.0) - step, centre, width)
    over = known.log_cdf_kernel(pt, -finite(pt, high, 0.0) - step, -centre, width)  # laws with a scale are symmetric
    inside = pt.and_(pt.ge(value, low), pt.le(value, high))
    # A value that is harmless where it is not used.
    between = known.log_kernel(pt, pt.switch(inside, value, pt.cast(pt.round(centre), str(value.dtype))), mu, width)
    found = pt.switch(inside, whole_values(known, value, between), -np.inf)
    found = pt.switch(pt.eq(value, low - 1.0), under, found)
    found = pt.switch(pt.eq(value, high + 1.0), over, found)
    return check_parameters(found, width > 0, pt.le(low, high), msg=f"{known.scale_name} > 0, below <= above")


@_support_point.register(CensoredRV)
def _point(op: CensoredRV, rv: Any, rng: Any, size: Any, mu: Any, width: Any, low: Any, high: Any) -> Any:
    """A published value near mu."""
    near = pt.clip(pt.round(mu) if op.inner.integer and not is_discrete(mu) else mu, low, high)
    near = pt.cast(pt.broadcast_arrays(near, width)[0], str(op.dtype))
    return near if rv_size_is_none(size) else pt.full(size, near)


class RoundedRV(OfAnotherRV):
    """Random variable of `Rounded`; inputs are the location and the scale of the noise before rounding."""

    law_type = noise.Rounded
    name, signature = "rounded", "(),()->()"
    __props__ = (*OfAnotherRV.__props__, "base")
    base: float

    def __init__(self, base: float, **props: Any) -> None:
        props.setdefault("dtype", "int64" if base.is_integer() else "float64")
        super().__init__(base=base, **props)

    def law_of(self, parameters: Sequence[Any]) -> noise.Rounded:
        """The law with the values of its inputs after the location."""
        return noise.Rounded(self.inner(parameters[0]), self.base)


class Rounded(Distribution):
    """Real noise around mu, rounded with it to the nearest multiple of a base: `bayesdp.noise.Rounded`.

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to.
    law : type of NoiseLaw, or NoiseLaw
        The law of the noise before rounding, `bayesdp.noise.Laplace` or `bayesdp.noise.Gaussian`, or with its scale one of these.
    base : float
        What was rounded to multiples of; a known number.
    **scale
        ``b`` or ``sigma``, where `law` is a type.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 12.0)
    ...     noisy = Rounded("noisy", mu=count, law=bdp.noise.Laplace, b=4.0, base=5, observed=15)
    """

    rv_type = RoundedRV
    rv_op = op_of_rv_type

    @classmethod
    def dist(cls, mu: Any, law: Any, base: Any, **parameters: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        kind, width = _with_scale(law, parameters, "a scale and tails, such as Laplace")
        checked = noise.Rounded(kind(1.0), base)
        return super().dist([location(mu), width], inner=kind, base=checked.base, **parameters)


register_distribution(noise.Rounded, Rounded)


@_logprob.register(RoundedRV)
def _rounded_logp(op: RoundedRV, values: Any, rng: Any, size: Any, mu: Any, width: Any, **_: Any) -> Any:
    steps, known = steps_of(pt, pt.cast(values[0], "float64"), op.base)
    off = pt.abs(steps * op.base - pt.cast(mu, "float64"))
    found = pt.switch(known, log_cell(op.inner, pt, off, 0.5 * op.base, width), -np.inf)
    return check_parameters(found, width > 0, msg=f"{op.inner.scale_name} > 0")


@_support_point.register(RoundedRV)
def _nearest(op: RoundedRV, rv: Any, rng: Any, size: Any, mu: Any, width: Any) -> Any:
    """The multiple of the base nearest to mu."""
    near, _ = pt.broadcast_arrays(pt.round(pt.cast(mu, "float64") / op.base) * op.base, width)
    near = pt.cast(near, str(op.dtype))
    return near if rv_size_is_none(size) else pt.full(size, near)

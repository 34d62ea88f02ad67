"""Values of a law that are published within thresholds only, as a PyMC distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Distribution, _support_point
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.logprob.abstract import _logprob
from pytensor.tensor.variable import TensorConstant

from bayesdp import noise
from bayesdp.distributions.registry import (
    PROPS,
    PythonRV,
    applied,
    as_real,
    is_discrete,
    location,
    register_distribution,
    scale,
)
from bayesdp.noise.arrays import checked_limit
from bayesdp.noise.namespace import finite
from bayesdp.noise.perturbed.censored import check_order


class CensoredRV(PythonRV):
    """Random variable of `Censored`; inputs are the location, the scale of the law that was censored, and both thresholds."""

    law_type = noise.Censored
    name, signature = "censored", "(),(),(),()->()"
    __props__ = (*PROPS, "inner")
    inner: type[noise.NoiseLaw]

    def __init__(self, inner: type[noise.NoiseLaw], **props: Any) -> None:
        props.setdefault("dtype", "int64" if inner.integer else "float64")
        super().__init__(inner=inner, **props)

    def rng_fn(self, rng: np.random.Generator, *inputs: Any) -> Any:
        """Draw an array of independent values; the last argument is their size."""
        *own, size = inputs
        arrays = [np.asarray(array, dtype=np.float64) for array in own]
        shape = np.broadcast_shapes(*(array.shape for array in arrays)) if size is None else tuple(size)
        mu, *parameters = (np.broadcast_to(array, shape).copy() for array in arrays)
        return np.asarray(self.law_of(parameters).draw(rng, shape, location=mu), dtype=self.dtype)

    def law_of(self, parameters: Sequence[Any]) -> noise.Censored:
        """The law with the values of its inputs after the location."""
        kind: Any = self.inner
        width, low, high = parameters
        return noise.Censored(kind(width), low, high)


class Censored(Distribution):
    r"""Values of a law around mu that are published from `below` to `above`; the others stand as codes 1 beyond.

    .. math:: f(x \mid \mu) = \begin{cases} P(Y < below) & x = below - 1 \\ f_Y(x \mid \mu) & below \le x \le above \\
        P(Y > above) & x = above + 1 \end{cases}

    Tails are exact in logarithms however far out the thresholds are.

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to.
    law : NoiseLaw, or type of NoiseLaw
        The law that was censored, one with a scale: `bayesdp.noise.DiscreteLaplace` and others. If it is a type, its scale is
        given by its name, and may be a variable.
    below, above : tensor_like, optional
        Smallest and largest value that is published; None or an infinity where there is no threshold.
    **scale
        ``b`` or ``sigma``, for a type of law.

    See Also
    --------
    bayesdp.noise.Censored : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 12.0)
    ...     noisy = Censored("noisy", mu=count, law=bdp.noise.DiscreteLaplace(4.0), below=10, observed=9)
    """

    rv_type = CensoredRV

    @classmethod
    def rv_op(cls, *parameters: Any, inner: type[noise.NoiseLaw], size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this law."""
        return applied(CensoredRV(inner), *parameters, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, law: Any, below: Any = None, above: Any = None, **parameters: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        kind = law if isinstance(law, type) else type(law)
        name = getattr(kind, "scale_name", None)
        if not issubclass(kind, noise.NoiseLaw) or name is None or not hasattr(kind, "log_cdf_kernel"):
            raise TypeError(
                f"law must be a noise law with a scale and tails, such as DiscreteLaplace(4.0), got {law!r}"
            )
        known: Any = kind
        if kind is not law:
            if name in parameters:
                raise TypeError(f"{name} is given twice: by the law {law} and by itself")
            parameters = {name: law.scale, **parameters}
        own = {key: parameters.pop(key) for key in (name,) if key in parameters}
        if not own:
            raise TypeError(f"{name} of the law {kind.name!r} is missing")
        sides = _sides(below, above, integer=known.integer)
        return super().dist([location(mu), scale(own[name], name), *sides], inner=kind, **parameters)


def _sides(below: Any, above: Any, *, integer: bool) -> list[Any]:
    """Thresholds as float64 tensors; constants are checked."""
    found: list[Any] = []
    for value, absent, name in ((below, -np.inf, "below"), (above, np.inf, "above")):
        variable = pt.as_tensor_variable(np.float64(absent) if value is None else value)
        if isinstance(variable, TensorConstant):
            variable = pt.constant(np.asarray(checked_limit(variable.data, absent, name, integer=integer), np.float64))
        found.append(as_real(variable))
    if all(isinstance(side, TensorConstant) for side in found):
        check_order(found[0].data, found[1].data, integer=integer)
    return found


register_distribution(noise.Censored, Censored)


@_logprob.register(CensoredRV)
def _censored_logp(
    op: CensoredRV, values: Any, rng: Any, size: Any, mu: Any, width: Any, low: Any, high: Any, **_: Any
) -> Any:
    [value] = values
    known: Any = op.inner
    step = 1.0 if op.inner.integer else 0.0
    centre = pt.cast(mu, "float64")
    under = known.log_cdf_kernel(pt, finite(pt, low, 0.0) - step, centre, width)
    over = known.log_cdf_kernel(pt, -finite(pt, high, 0.0) - step, -centre, width)  # laws with a scale are symmetric
    inside = pt.and_(pt.ge(value, low), pt.le(value, high))
    # A value that is harmless where it is not used.
    own = known.log_kernel(pt, pt.switch(inside, value, pt.cast(pt.round(centre), str(value.dtype))), mu, width)
    if op.inner.integer and not is_discrete(value):
        inside = pt.and_(inside, pt.eq(value, pt.floor(value)))
    found = pt.switch(inside, own, -np.inf)
    found = pt.switch(pt.eq(value, low - 1.0), under, found)
    found = pt.switch(pt.eq(value, high + 1.0), over, found)
    return check_parameters(found, width > 0, pt.le(low, high), msg=f"{known.scale_name} > 0, below <= above")


@_support_point.register(CensoredRV)
def _point(op: CensoredRV, rv: Any, rng: Any, size: Any, mu: Any, width: Any, low: Any, high: Any) -> Any:
    """A published value near mu."""
    near = pt.clip(pt.round(mu) if op.inner.integer and not is_discrete(mu) else mu, low, high)
    near = pt.cast(pt.broadcast_arrays(near, width)[0], str(op.dtype))
    return near if rv_size_is_none(size) else pt.full(size, near)

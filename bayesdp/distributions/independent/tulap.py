"""Tulap noise as a PyMC distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from bayesdp.distributions._parameters import location, scale
from bayesdp.noise.base import Floats
from bayesdp.privacy.canonical import Tulap as TulapLaw

__all__ = ["Tulap"]


class TulapRV(RandomVariable):
    """Random variable of `Tulap`."""

    name = "tulap"
    signature = "(),(),()->()"
    dtype = "float64"
    _print_name = ("Tulap", r"\operatorname{Tulap}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, mu: Any, epsilon: Any, delta: Any, size: Any = None) -> Floats:
        """Draw an array of independent values."""
        mu, epsilon, delta = (np.asarray(own, dtype=np.float64) for own in (mu, epsilon, delta))
        shape = np.broadcast_shapes(mu.shape, epsilon.shape, delta.shape) if size is None else tuple(size)
        flat = [np.broadcast_to(own, shape).reshape(-1) for own in (mu, epsilon, delta)]
        out = np.empty(flat[0].size)
        for law in set(zip(flat[1].tolist(), flat[2].tolist(), strict=True)):
            own = (flat[1] == law[0]) & (flat[2] == law[1])
            out[own] = flat[0][own] + TulapLaw(*law).rvs(int(own.sum()), rng)
        return out.reshape(shape)


@numba_core_rv_funcify.register(TulapRV)
def _tulap_core(op: TulapRV, node: Any) -> tuple[Any, int]:
    @numba_njit
    def random(rng, mu, epsilon, delta):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        # Discrete Laplace plus uniform, and again where that is beyond the ends that delta leaves: the same law as Tulap
        # noise given that q/2 <= F <= 1 - q/2, with q = 2 delta b / (1 - b + 2 delta b).
        b = math.exp(-epsilon)
        q = 2.0 * delta * b / (1.0 - b + 2.0 * delta * b)
        while True:
            first = math.floor(rng.standard_exponential() / epsilon)
            second = math.floor(rng.standard_exponential() / epsilon)
            noise = first - second + rng.random() - 0.5
            if delta == 0.0:
                return mu + noise
            z = -abs(noise)
            steps = math.ceil(-z - 0.5)
            tail = b**steps * (b / (1.0 + b) + (1.0 - b) / (1.0 + b) * (z + steps + 0.5))
            if tail >= 0.5 * q:
                return mu + noise

    return random, 1


class Tulap(pm.Continuous):
    r"""Truncated uniform-Laplace noise around mu, canonical for (epsilon, delta)-differential privacy.

    .. math:: f(x \mid \mu, \epsilon, \delta) = \frac{1 - b + 2 \delta b}{1 + b}\; b^{[x - \mu]}
        \qquad b = e^{-\epsilon}, \; [z] = \text{the integer nearest to } |z|

    where delta has not cut the tail off. The density is a step function: it jumps at half-integer distances from mu and is flat
    between them, so that its gradient says nothing about mu. NUTS remains valid (it accepts by the density itself) but moves
    blindly through this term; `pm.Slice` is the better sampler for what is in mu. Counts (`ConfidentialCounts`) move by exact
    conditional steps, and with known epsilon and delta never out of reach.

    With delta > 0 the density is zero far from mu, so that a start of mu out of reach of the data is refused by PyMC; give one
    within reach with ``pm.sample(initvals=...)``. `bayesdp.observe` needs none.

    ========  ==========================================================================
    Support   real numbers; if delta > 0, those within a bounded distance of mu
    Mean      mu
    Variance  ``2 b / (1 - b)**2 + 1/12`` for delta = 0
    ========  ==========================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to, for a statistic of sensitivity 1.
    epsilon : tensor_like of float
        Privacy loss (epsilon > 0).
    delta : tensor_like of float, default 0
        (0 <= delta < 1).

    See Also
    --------
    bayesdp.noise.Tulap : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = Tulap("noisy", mu=level, epsilon=1.0, observed=12.3)
    """

    rv_op = TulapRV()

    @classmethod
    def dist(cls, mu: Any, epsilon: Any, delta: Any = 0.0, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(epsilon, "epsilon"), pt.cast(delta, "float64")], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the variable here
        """Location, where the density is highest."""
        centre, _, _ = pt.broadcast_arrays(pt.cast(mu, "float64"), epsilon, delta)
        return centre if rv_size_is_none(size) else pt.full(size, centre)

    def logp(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Log-density; ``-inf`` beyond the ends."""
        value_of = _log_parts(value, mu, epsilon, delta)
        density = pt.log(value_of["slope"]) - epsilon * value_of["steps"]
        density = pt.switch(value_of["inside"], density, -np.inf)
        return check_parameters(density, epsilon > 0, delta >= 0, delta < 1, msg="epsilon > 0, 0 <= delta < 1")

    def logcdf(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        parts = _log_parts(value, mu, epsilon, delta)
        ratio = pt.switch(parts["inside"] & (delta > 0), parts["log_cut"] - parts["log_value"], -np.inf)
        tail = parts["log_value"] - epsilon * parts["steps"] + pt.log1p(-pt.exp(ratio))
        tail = pt.switch(parts["inside"], tail, -np.inf)
        upper = pt.log1p(-pt.exp(pt.minimum(tail, -math.log(2.0))))
        result = pt.switch(value <= mu, tail, upper)
        return check_parameters(result, epsilon > 0, delta >= 0, delta < 1, msg="epsilon > 0, 0 <= delta < 1")


def _log_parts(value: Any, mu: Any, epsilon: Any, delta: Any) -> dict[str, Any]:
    """See `bayesdp.privacy.canonical.Tulap`: ``F = b**k (v - s (b**-k - 1))`` with ``s = delta b / (1 - b)``."""
    z = -pt.abs(value - mu)
    steps = pt.ceil(-z - 0.5)
    b = pt.exp(-epsilon)
    slope = (-pt.expm1(-epsilon) + 2.0 * delta * b) / (1.0 + b)
    log_c = pt.log1p(-delta) - epsilon - pt.log1p(b)
    rest = slope * (z + steps + 0.5)
    positive = rest > 0
    log_value = pt.logaddexp(log_c, pt.switch(positive, pt.log(pt.switch(positive, rest, 1.0)), -np.inf))
    cuts = (delta > 0) & (steps > 0)
    log_cut = pt.log(pt.switch(cuts, delta, 0.5)) - epsilon - pt.log(-pt.expm1(-epsilon)) + epsilon * steps
    log_cut = log_cut + pt.log(-pt.expm1(-epsilon * pt.switch(cuts, steps, 1.0)))
    log_cut = pt.switch(cuts, log_cut, -np.inf)
    return {"steps": steps, "slope": slope, "log_value": log_value, "log_cut": log_cut, "inside": log_cut < log_value}

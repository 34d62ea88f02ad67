"""Canonical noise as PyMC distributions, and laws of bounded support about counts on a fiber."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key

from bayesdp import noise
from bayesdp.distributions.confidential_counts import floored
from bayesdp.distributions.independent import scalar_distribution
from bayesdp.distributions.registry import (
    PROPS,
    PythonRV,
    add_likelihood,
    applied,
    in_python,
    is_discrete,
    location,
    register_distribution,
)
from bayesdp.noise.base import Floats
from bayesdp.privacy import CanonicalNoise as NoiseLaw
from bayesdp.privacy import TradeOff


def of_counts(kind: Any) -> Any:
    """The distribution of the same law about answers of counts: what cannot be has the density `OFF_FIBER` while they are free."""
    plain, name = _logprob.dispatch(kind.rv_type), f"{kind.__name__}OfCounts"
    about = {"__module__": __name__, "__doc__": f"`{kind.__name__}` about answers of counts; used by `observe`."}
    rv_type = type(kind.rv_type)(f"{name}RV", (kind.rv_type,), {**about, "__qualname__": f"{name}.rv_type"})

    @_logprob.register(rv_type)
    def logp(op: Any, values: Any, rng: Any, size: Any, mu: Any, *parameters: Any, **more: Any) -> Any:
        return floored(plain(op, values, rng, size, mu, *parameters, **more), mu)

    def rv_op(cls: Any, *inputs: Any, size: Any = None, rng: Any = None, **props: Any) -> Any:
        return applied(rv_type(**props), *inputs, size=size, rng=rng)

    own_op = classmethod(rv_op)  # type: ignore[arg-type]  # the name of its class is not known here
    return type(kind)(name, (kind,), {**about, "rv_type": rv_type, "rv_op": own_op})


@scalar_distribution(noise.Tulap)
class Tulap(pm.Continuous):
    """Truncated uniform-Laplace noise around mu, canonical for (epsilon, delta)-differential privacy.

    With ``b = exp(-epsilon)`` the density is ``(1 - b + 2 delta b) / (1 + b) b**[x - mu]``, [z] the integer nearest to ``|z|``,
    where delta has not cut the tail off. It is a step function: it jumps at half-integer distances from mu and is flat
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

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = Tulap("noisy", mu=level, epsilon=1.0, observed=12.3)
    """

    def logp(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Log-density; ``-inf`` beyond the ends."""
        return _checked(noise.Tulap.log_kernel(pt, value, mu, epsilon, delta), epsilon, delta)

    def logcdf(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        return _checked(noise.Tulap.log_cdf_kernel(pt, value, mu, epsilon, delta), epsilon, delta)


def _checked(found: Any, epsilon: Any, delta: Any) -> Any:
    return check_parameters(found, epsilon > 0, delta >= 0, delta < 1, msg="epsilon > 0, 0 <= delta < 1")


class CanonicalNoiseRV(PythonRV):
    """Random variable of `CanonicalNoise`; the trade-off function is among its props."""

    law_type = noise.Canonical
    name, signature, dtype = "canonical_noise", "()->()", "float64"
    __props__ = (*PROPS, "tradeoff")
    tradeoff: TradeOff

    def __init__(self, tradeoff: TradeOff, **props: Any) -> None:
        self.noise: NoiseLaw = tradeoff.canonical_noise()
        super().__init__(tradeoff=tradeoff, **props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, size: Sequence[int] | None = None) -> Floats:
        """Draw an array of independent values."""
        centre = np.asarray(mu, dtype=np.float64)
        shape = centre.shape if size is None else tuple(size)
        return np.asarray(centre + np.asarray(self.noise.rvs(shape, rng)), dtype=np.float64)


class LogDensity(Op):
    """Log-density of canonical noise at each distance from its location, by the recursion. It has no gradient."""

    __props__ = ("tradeoff",)

    def __init__(self, tradeoff: TradeOff) -> None:
        self.tradeoff = tradeoff
        self.noise: NoiseLaw = tradeoff.canonical_noise()

    def make_node(self, *inputs: Any) -> Any:
        """Take a tensor of distances."""
        [z] = inputs
        own = pt.cast(pt.as_tensor_variable(z), "float64")
        return Apply(self, [own], [own.type()])

    def perform(self, node: Any, inputs: Sequence[Any], output_storage: Any) -> None:
        """Evaluate in NumPy."""
        output_storage[0][0] = np.asarray(self.noise.logpdf(inputs[0]), dtype=np.float64)

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """The shape of the distances."""
        return shapes


@register_funcify_and_cache_key(LogDensity)
def _log_density(op: LogDensity, node: Any, **kwargs: Any) -> tuple[Any, None]:
    def evaluate(z: Any) -> Any:
        return np.reshape(op.noise.logpdf(z), np.shape(z))

    return in_python(evaluate, ("float64", node.inputs[0].type.ndim))


class CanonicalNoise(pm.Continuous):
    r"""Canonical noise of a symmetric trade-off function around mu (paper 003, Definition 35 and Lemma 36).

    Telling mu from mu + 1 is exactly as hard as the trade-off function says. For (epsilon, delta) that is `Tulap`, for mu-GDP
    ``pm.Normal("y", level, 1 / mu)``; this one takes any symmetric function, and evaluates its density by the recursion,
    outside of the compiled code: a few microseconds a value and a step of the recursion.

    The density has no gradient here, so that PyMC gives what is in mu to Slice, which is valid; counts on a fiber need none.

    Where f(0) < 1 the noise is bounded: a start of mu out of reach of the data has no density, and PyMC refuses it beside other
    free variables. Give one within reach with ``pm.sample(initvals=...)``. For (epsilon, delta) `bayesdp.observe` needs none.

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to, for a statistic of sensitivity 1.
    tradeoff : TradeOff
        Symmetric, and known: not a random variable.

    See Also
    --------
    bayesdp.privacy.TradeOff.canonical_noise : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> from bayesdp.privacy import approximate_dp
    >>> twice = approximate_dp(0.5).tensor(approximate_dp(0.5))
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = CanonicalNoise("noisy", mu=level, tradeoff=twice, observed=12.3)
    """

    rv_type = CanonicalNoiseRV

    @classmethod
    def rv_op(cls, mu: Any, *, tradeoff: TradeOff, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this trade-off function."""
        return applied(CanonicalNoiseRV(tradeoff), mu, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, tradeoff: TradeOff, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        if not isinstance(tradeoff, TradeOff):
            raise TypeError(
                f"tradeoff must be a trade-off function such as gaussian_dp(1.0), got {type(tradeoff).__name__}"
            )
        tradeoff.canonical_noise()  # refused here if there is none
        return super().dist([location(mu)], tradeoff=tradeoff, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any) -> Any:  # PyMC passes the variable
        """Location, where the density is highest."""
        return pt.zeros_like(rv) + mu


register_distribution(noise.Canonical, CanonicalNoise)


@_logprob.register(CanonicalNoiseRV)
def _canonical_noise_logp(op: CanonicalNoiseRV, values: Any, rng: Any, size: Any, mu: Any, **_: Any) -> Any:
    [value] = values
    return LogDensity(op.tradeoff)(value - mu)


TulapOfCounts, CanonicalNoiseOfCounts = of_counts(Tulap), of_counts(CanonicalNoise)
TulapRV: Any = Tulap.rv_type
CanonicalOfCountsRV: Any = CanonicalNoiseOfCounts.rv_type


@add_likelihood.register
def _add_canonical(law: noise.Canonical, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    bounded = is_discrete(mu) and math.isfinite(law.standard.support()[1])
    own = CanonicalNoiseOfCounts if bounded else CanonicalNoise
    own(name, mu=mu, tradeoff=law.tradeoff, **data)


@add_likelihood.register
def _add_tulap(law: noise.Tulap, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    """Noise for another sensitivity is noise for 1 in that unit; the published numbers stay in counts."""
    if law.sensitivity != 1.0:
        raise NotImplementedError(
            f"a model with Tulap noise for a sensitivity other than 1 is not available (the law has {law.sensitivity:g}); divide "
            "the published numbers and the answers by it, and use bayesdp.distributions.Tulap"
        )
    held = law.delta > 0.0 and is_discrete(mu)  # counts on a fiber, whose step keeps them within reach
    own = TulapOfCounts if held else Tulap
    own(name, mu=mu, epsilon=law.epsilon, delta=law.delta, **data)

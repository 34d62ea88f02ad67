"""Canonical noise of any symmetric trade-off function as a PyMC distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from bayesdp import noise
from bayesdp._numba import nb as numba
from bayesdp.distributions._python_draws import applied, drawn_in_python
from bayesdp.distributions.parameters import location
from bayesdp.distributions.registry import register_distribution
from bayesdp.noise.base import Floats
from bayesdp.privacy import CanonicalNoise as NoiseLaw
from bayesdp.privacy import TradeOff

__all__ = ["CanonicalNoise"]


class CanonicalNoiseRV(RandomVariable):
    """Random variable of `CanonicalNoise`; the trade-off function is among its props."""

    law_type = noise.Canonical
    name = "canonical_noise"
    signature = "()->()"
    dtype = "float64"
    _print_name = ("CanonicalNoise", r"\operatorname{CanonicalNoise}")
    __props__: tuple[str, ...] = (*RandomVariable.__props__, "tradeoff")  # type: ignore[assignment]

    def __init__(self, tradeoff: TradeOff, **props: Any) -> None:
        self.tradeoff = tradeoff
        self.noise: NoiseLaw = tradeoff.canonical_noise()
        super().__init__(**props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, size: Sequence[int] | None = None) -> Floats:
        """Draw an array of independent values."""
        centre = np.asarray(mu, dtype=np.float64)
        shape = centre.shape if size is None else tuple(size)
        return np.asarray(centre + np.asarray(self.noise.rvs(shape, rng)), dtype=np.float64)


@numba_core_rv_funcify.register(CanonicalNoiseRV)
def _core(op: CanonicalNoiseRV, node: Any) -> tuple[Any, None]:
    return drawn_in_python(op, 0)


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
    result = numba.types.Array(numba.float64, node.inputs[0].type.ndim, "C")

    def evaluate(z: Any) -> Any:
        return np.ascontiguousarray(op.noise.logpdf(z)).reshape(np.shape(z))

    @numba_njit
    def log_density(z):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        with numba.objmode(out=result):
            out = evaluate(z)
        return out

    return log_density, None


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

    Raises
    ------
    TypeError, ValueError
        If `tradeoff` is not a symmetric trade-off function.

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

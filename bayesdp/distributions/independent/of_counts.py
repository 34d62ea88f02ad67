"""Canonical noise of counts, the Tulap law among it, as PyMC distributions."""

from __future__ import annotations

import math
from typing import Any

import pytensor.tensor as pt
from pymc.logprob.abstract import ValuedRV, _logprob
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import walk

from bayesdp.distributions._python_draws import applied
from bayesdp.distributions.exact_answers import OFF_FIBER
from bayesdp.distributions.independent.canonical_noise import CanonicalNoise, CanonicalNoiseRV, LogDensity
from bayesdp.distributions.independent.scalar import Tulap, TulapRV
from bayesdp.distributions.parameters import is_discrete
from bayesdp.distributions.registry import add_likelihood
from bayesdp.noise.independent.canonical import Canonical
from bayesdp.noise.independent.canonical import Tulap as TulapLaw
from bayesdp.privacy import TradeOff

__all__ = ["CanonicalOfCounts", "CanonicalOfCountsRV", "TulapOfCounts", "are_free"]


class CanonicalOfCountsRV(CanonicalNoiseRV):
    """Random variable of `CanonicalOfCounts`."""


class CanonicalOfCounts(CanonicalNoise):
    """Canonical noise of bounded support about answers of a `ConfidentialCounts`; used by `observe`.

    The same law as `CanonicalNoise`; beyond the ends as for `TulapOfCounts`.
    """

    rv_type = CanonicalOfCountsRV

    @classmethod
    def rv_op(cls, mu: Any, *, tradeoff: TradeOff, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this trade-off function."""
        return applied(CanonicalOfCountsRV(tradeoff), mu, size=size, rng=rng)


@_logprob.register(CanonicalOfCountsRV)
def _canonical_of_counts_logp(op: CanonicalOfCountsRV, values: Any, rng: Any, size: Any, mu: Any, **_: Any) -> Any:
    [value] = values
    density = LogDensity(op.tradeoff)(value - mu)
    return pt.maximum(density, OFF_FIBER) if are_free(mu) else density


@add_likelihood.register
def _add_canonical(law: Canonical, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    bounded = is_discrete(mu) and math.isfinite(law.standard.support()[1])
    own = CanonicalOfCounts if bounded else CanonicalNoise
    own(name, mu=mu, tradeoff=law.tradeoff, **data)


class TulapOfCountsRV(TulapRV):
    """Random variable of `TulapOfCounts`."""


class TulapOfCounts(Tulap):
    """Tulap noise with delta > 0 about answers of a `ConfidentialCounts`; used by `observe`.

    The same law as `Tulap`. Its log-density beyond the ends is a large negative constant in place of minus infinity while the
    counts are free, as for exact answers: a sampler of other variables may run before the step method of the counts has
    moved the start within reach, which it does at its first step, and it stays there.
    """

    rv_op = TulapOfCountsRV()

    def logp(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Log-density."""
        density = Tulap.logp(value, mu, epsilon, delta)
        return pt.maximum(density, OFF_FIBER) if are_free(mu) else density


def are_free(mu: Any) -> bool:
    """Whether answers are of counts that are being sampled, rather than given."""

    def inputs(variable: Any) -> Any:
        if variable.owner is None:
            return []
        return variable.owner.inputs[1:] if isinstance(variable.owner.op, ValuedRV) else variable.owner.inputs

    leaves = (variable for variable in walk([mu], inputs) if variable.owner is None)
    return any(not isinstance(leaf, SharedVariable | Constant) for leaf in leaves)


@add_likelihood.register
def _add_tulap(law: TulapLaw, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    """Noise for another sensitivity is noise for 1 in that unit; the published numbers stay in counts."""
    if law.sensitivity != 1.0:
        raise NotImplementedError(
            f"a model with Tulap noise for a sensitivity other than 1 is not available (the law has {law.sensitivity:g}); divide "
            "the published numbers and the answers by it, and use bayesdp.distributions.Tulap"
        )
    held = law.delta > 0.0 and is_discrete(mu)  # counts on a fiber, whose step keeps them within reach
    own = TulapOfCounts if held else Tulap
    own(name, mu=mu, epsilon=law.epsilon, delta=law.delta, **data)

"""Canonical noise of bounded support about counts whose step method keeps them within its reach."""

from __future__ import annotations

import math
from typing import Any

import pytensor.tensor as pt
from pymc.logprob.abstract import _logprob

from bayesdp.distributions._python_draws import applied
from bayesdp.distributions.exact_answers import OFF_FIBER
from bayesdp.distributions.independent.canonical_noise import CanonicalNoise, CanonicalNoiseRV, LogDensity
from bayesdp.distributions.independent.tulap_of_counts import are_free
from bayesdp.distributions.likelihoods import add_likelihood
from bayesdp.distributions.parameters import is_discrete
from bayesdp.noise.independent.canonical import Canonical
from bayesdp.privacy import TradeOff

__all__ = ["CanonicalOfCounts", "CanonicalOfCountsRV"]


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

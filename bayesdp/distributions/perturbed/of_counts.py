"""Perturbed counts about counts whose step method keeps them where the published ones are possible."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.abstract import _logprob

from bayesdp.distributions._python_draws import applied
from bayesdp.distributions.exact_answers import OFF_FIBER
from bayesdp.distributions.independent.tulap_of_counts import are_free
from bayesdp.distributions.likelihoods import add_likelihood
from bayesdp.distributions.parameters import is_discrete
from bayesdp.distributions.perturbed.base import PerturbedRV, looked_up
from bayesdp.distributions.registry import distribution_of
from bayesdp.noise.perturbed.base import PerturbedLaw

__all__ = ["PerturbedOfCounts"]


class PerturbedOfCountsRV(PerturbedRV):
    """Random variable of `PerturbedOfCounts`."""

    name = "perturbed_of_counts"
    law_type = PerturbedLaw
    _print_name = ("PerturbedOfCounts", r"\operatorname{PerturbedOfCounts}")


class PerturbedOfCounts(pm.Discrete):
    """Published answers of a `ConfidentialCounts` under a law of perturbed counts; used by `observe`.

    The log-mass is that of the law. Where that is minus infinity it is a large negative constant while the counts are free, as for
    exact answers: a sampler of other variables may run before the step method of the counts has moved the start to where
    the published answers are possible, which it does at its first step, and it stays there.
    """

    rv_type = PerturbedOfCountsRV

    @classmethod
    def rv_op(cls, mu: Any, *, law: PerturbedLaw, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this law."""
        return applied(PerturbedOfCountsRV(law), mu, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, law: PerturbedLaw, **kwargs: Any) -> Any:
        """Make an unregistered variable of answers `mu`, whole numbers."""
        return super().dist([pt.cast(pt.as_tensor_variable(mu), "int64")], law=law, **kwargs)


@_logprob.register(PerturbedOfCountsRV)
def _of_counts_logp(op: PerturbedOfCountsRV, values: Any, rng: Any, size: Any, mu: Any, **_: Any) -> Any:
    mass = looked_up(op.law.transitions, values[0], mu)
    return pt.maximum(mass, OFF_FIBER) if are_free(mu) else mass


@add_likelihood.register
def _add_perturbed(law: PerturbedLaw, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    """Answers that are real numbers are left to the distribution of the law, which says that it needs counts."""
    if is_discrete(mu):
        PerturbedOfCounts(name, mu=mu, law=law, **data)
    else:
        distribution_of(type(law))(name, mu=mu, **parameters, **data)

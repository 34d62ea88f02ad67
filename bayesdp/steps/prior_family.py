"""Prior families of counts that the kernel knows, read off their base."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pymc.distributions.multivariate import DirichletMultinomialRV
from pytensor.tensor.random.basic import BinomialRV, MultinomialRV, NegBinomialRV, PoissonRV

from bayesdp.distributions.confidential_counts import FlatCountsRV


def prior_family(base: Any) -> tuple[str, Any, Any, Any] | None:
    """Family, log weight, shape and number of trials of a base; None for a base without fast steps."""
    op = base.owner.op
    one = pt.ones(())
    if isinstance(op, FlatCountsRV):
        return "flat", pt.zeros(()), one, None
    if isinstance(op, DirichletMultinomialRV):
        n, a = base.owner.inputs[2:4]
        return "negbin", pt.zeros(()), pt.broadcast_to(a, base.shape), n
    if not isinstance(op, PoissonRV | NegBinomialRV | BinomialRV | MultinomialRV):
        return None
    parameters = base.owner.inputs[2:]
    if isinstance(op, PoissonRV):
        return "poisson", pt.log(parameters[0]), one, None
    if isinstance(op, NegBinomialRV):
        n, p = parameters
        return "negbin", pt.log1p(-p), n, None
    if isinstance(op, BinomialRV):
        n, p = parameters
        return "binomial", pt.log(p) - pt.log1p(-p), n, None
    n, p = parameters
    return "poisson", pt.broadcast_to(pt.log(p), base.shape), one, n


def flat_parameter(variable: Any, base: Any) -> Any:
    """A parameter of the base, one number a cell in C order."""
    return pt.cast(pt.broadcast_to(variable, base.shape), "float64").flatten()

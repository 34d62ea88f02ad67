"""Log-densities of count distributions at real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters, factln, logpow
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.logprob.basic import logp
from pymc.util import check_dist_not_registered
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.variable import TensorVariable

from bayesdp.inference.observed import shape_of
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]

_ELEMENTWISE = {"PoissonRV", "NegBinomialRV", "BinomialRV", "BetaBinomialRV"}
"""Mass functions whose formula in PyMC, with gamma functions for factorials, holds between whole numbers."""

_OF_A_TOTAL = {"MultinomialRV": "Multinomial", "DirichletMultinomialRV": "DirichletMultinomial"}
"""Mass functions that PyMC sets to zero where rounding errors change the total: written out below."""

_WITH_N = {"BinomialRV": 0, "BetaBinomialRV": 0, **dict.fromkeys(_OF_A_TOTAL, 0)}
"""Position of the parameter n, by law."""


def _kind(base: Any) -> str:
    return type(base.owner.op).__name__


def _parameters(base: Any) -> list[Any]:
    op = base.owner.op
    return list(op.dist_params(base.owner))


def check_base(base: Any) -> None:
    """Check that `base` is an unnamed distribution with a density, or with a mass function that can be continued."""
    owner = getattr(base, "owner", None)
    if not isinstance(base, TensorVariable) or not isinstance(
        getattr(owner, "op", None), RandomVariable | SymbolicRandomVariable
    ):
        raise TypeError(f"base must be an unnamed PyMC distribution such as pm.Poisson.dist(3), got {base!r}")
    check_dist_not_registered(base)
    if base.dtype in discrete_dtypes and _kind(base) not in {*_ELEMENTWISE, *_OF_A_TOTAL}:
        raise TypeError(
            f"base {base.owner.op} has no continuation between whole numbers here. Use pm.Poisson, pm.NegativeBinomial, "
            "pm.Binomial, pm.BetaBinomial, pm.Multinomial or pm.DirichletMultinomial, a continuous distribution such as "
            "pm.Gamma, or ConfidentialCounts, which takes every distribution of whole numbers"
        )


def _constant_n(base: Any) -> Floats | None:
    """The parameter n of a base; None for a law without one."""
    where = _WITH_N.get(_kind(base))
    if where is None:
        return None
    n = _parameters(base)[where]
    if any(not isinstance(v, Constant) for v in graph_inputs([n])):
        raise NotImplementedError(
            f"n of the base {base.owner.op} must be a number or an array: it limits the table, whose coordinates are fixed "
            "before sampling. ConfidentialCounts takes a random n, or one in pm.Data"
        )
    return np.asarray(n.eval(), dtype=np.float64)


def caps(base: Any, release: Release) -> Floats:
    """The largest value of each cell under the base, shape (cells,); infinity for none."""
    # NotImplementedError if n is not a constant.
    n, shape = _constant_n(base), release.frame.shape
    if n is None:
        return np.full(release.frame.size, np.inf)
    if _kind(base) not in _OF_A_TOTAL:
        return np.broadcast_to(n, shape).reshape(-1).astype(np.float64)
    width = shape_of(base)[-1]
    groups = np.arange(release.frame.size) // width
    start = release.fiber.find_point().reshape(-1)
    totals = np.broadcast_to(n, (groups[-1] + 1,))
    for group in range(groups[-1] + 1):
        members = (groups == group).astype(np.float64)
        implied = np.abs(release.invariants.project(members.reshape(shape))).max() < 1e-9
        if not implied or members @ start != totals[group]:
            raise ValueError(
                f"n = {totals[group]:g} of the {_OF_A_TOTAL[_kind(base)]} base must be what the exact answers say of the "
                f"total of its cells, from {release.frame.cell_name(int(np.argmax(members)))} on: "
                + (f"they say {members @ start:g}" if implied else "they leave it open")
            )
    return np.full(release.frame.size, np.inf)


def continued_logp(base: Any, x: Any) -> Any:
    """Log-density of a table, a scalar: the base's own, or its mass function with gamma functions for factorials."""
    # `x`, shape `(*table)`: nonnegative. A multivariate base over a vector gets the flat table.
    value = x if base.owner.op.ndim_supp == 0 else pt.reshape(x, base.shape, ndim=base.ndim)
    if _kind(base) not in _OF_A_TOTAL:
        return pt.sum(logp(base, value))
    n, weight = (
        pt.cast(parameter, "float64") for parameter in _parameters(base)
    )  # small integers would give single precision
    if _kind(base) == "MultinomialRV":
        density = factln(n) + pt.sum(logpow(weight, value) - factln(value), axis=-1)
        good = pt.all(weight >= 0) & pt.all(pt.isclose(pt.sum(weight, axis=-1), 1.0))
        return pt.sum(check_parameters(density, good, msg="p >= 0, sum(p) = 1"))
    whole = pt.sum(weight, axis=-1)
    density = factln(n) + pt.gammaln(whole) - pt.gammaln(n + whole)
    density += pt.sum(pt.gammaln(value + weight) - pt.gammaln(weight) - factln(value), axis=-1)
    return pt.sum(check_parameters(density, pt.all(weight > 0), msg="a > 0"))

"""The l1, l2 and l-infinity laws on a subspace as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp import _validate
from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions.tables import TableNoiseRV, applied, nearest_table, norm_l1, norm_l2
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.subspace_norm import NORM_ORDERS
from bayesdp.noise.subspace.subspace_norm import SubspaceNorm as SubspaceNormLaw

__all__ = ["SubspaceNorm"]


class SubspaceNormRV(TableNoiseRV):
    """Random variable of `SubspaceNorm`."""

    name = "subspace_norm"
    dtype = "float64"
    _print_name = ("SubspaceNorm", r"\operatorname{SubspaceNorm}")

    def law(self, scale: float) -> SubspaceNormLaw:
        """Give the noise law at one epsilon."""
        return SubspaceNormLaw(scale, self.norm)


class SubspaceNorm(pm.Continuous):
    r"""Real tables that share the invariants of mu, with density falling exponentially in a norm.

    .. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log C - \epsilon \|x - \mu\|

    with n the dimension of the null space, on which this is the density in orthonormal coordinates, and C the integral of
    ``exp(-||v||)`` over it. Where that is not computed its term, a constant, is left out (`bayesdp.noise.SubspaceNorm` says
    where). The density is finite for tables that break the invariants too: in a model, membership is decided by the exact
    part of a release alone.

    Parameters
    ----------
    mu : tensor_like, shape (..., *table)
        The table that the noise was added to.
    epsilon : tensor_like of float
        Rate per count (epsilon > 0), one for a table.
    norm : {"l1", "l2", "linf"}, default "l1"
    invariants : Invariants
        What the noise does not change.

    See Also
    --------
    bayesdp.SemiNorm : the mechanism; it takes privacy parameters.
    bayesdp.noise.SubspaceNorm : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
    ...     noisy = SubspaceNorm("noisy", counts, 0.25, norm="l2", invariants=margins, observed=table.values)
    """

    rv_type = SubspaceNormRV

    @classmethod
    def rv_op(cls, mu: Any, epsilon: Any, *, invariants: Invariants, norm: str, **kwargs: Any) -> Any:
        """Apply the random variable of these invariants and this norm."""
        return applied(SubspaceNormRV(invariants, norm), mu, epsilon, **kwargs)

    @classmethod
    def dist(cls, mu: Any, epsilon: Any, *, invariants: Invariants, norm: str = "l1", **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, rate = checked_location(mu, invariants), scale(epsilon, "epsilon")
        _validate.choice(norm, tuple(NORM_ORDERS), "norm")
        return super().dist([location, rate], invariants=invariants, norm=norm, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, epsilon: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


def _norm_linf(difference: Any, ndim: int) -> Any:
    return pt.max(pt.abs(difference), axis=tuple(range(-ndim, 0)))


_LENGTHS = {"l1": norm_l1, "l2": norm_l2, "linf": _norm_linf}


@_logprob.register(SubspaceNormRV)
def _subspace_norm_logp(op: SubspaceNormRV, values: Any, rng: Any, size: Any, mu: Any, epsilon: Any, **_: Any) -> Any:
    [value] = values
    constant = SubspaceNormLaw(1.0, op.norm).log_normaliser(op.invariants) or 0.0
    density = op.invariants.dimension * pt.log(epsilon) - constant
    density -= epsilon * _LENGTHS[op.norm](value - mu, op.ndim_supp)
    return check_parameters(density, epsilon > 0, msg="epsilon > 0")

"""The projected Gaussian law as a PyMC distribution."""

from __future__ import annotations

import math
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions.tables import (
    TableNoiseRV,
    applied,
    nearest_table,
    squared_norm,
)
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_gaussian import ProjectedGaussian as ProjectedGaussianLaw

__all__ = ["ProjectedGaussian"]


class ProjectedGaussianRV(TableNoiseRV):
    """Random variable of `ProjectedGaussian`."""

    name = "projected_gaussian"
    dtype = "float64"
    _print_name = ("ProjectedGaussian", r"\operatorname{ProjectedGaussian}")

    def law(self, scale: float) -> ProjectedGaussianLaw:
        """Give the noise law at one sigma."""
        return ProjectedGaussianLaw(scale)


class ProjectedGaussian(pm.Continuous):
    r"""Real tables that share the invariants of mu: normal noise, projected onto what they leave free.

    .. math:: \log f(x \mid \mu, \sigma) = -\frac{\|x - \mu\|_2^2}{2\sigma^2} - n \log(\sigma\sqrt{2\pi})

    with n the dimension of the null space, on which this is the density in orthonormal coordinates. It is
    finite for tables that break the invariants too: in a model, membership is decided by the exact part of a
    release alone.

    Parameters
    ----------
    mu : tensor_like, shape (..., *table)
        The table that the noise was added to.
    sigma : tensor_like of float
        Scale in counts (sigma > 0), one for a table.
    invariants : Invariants
        What the noise does not change.

    See Also
    --------
    bayesdp.ProjectedGaussian : the mechanism of the same name; it takes privacy parameters.
    bayesdp.noise.ProjectedGaussian : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
    ...     noisy = ProjectedGaussian("noisy", counts, 5.0, invariants=margins, observed=table.values)
    """

    rv_type = ProjectedGaussianRV

    @classmethod
    def rv_op(cls, mu: Any, sigma: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Apply the random variable of these invariants."""
        return applied(ProjectedGaussianRV(invariants), mu, sigma, **kwargs)

    @classmethod
    def dist(cls, mu: Any, sigma: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, width = checked_location(mu, invariants), scale(sigma, "sigma")
        return super().dist([location, width], invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(ProjectedGaussianRV)
def _projected_gaussian_logp(
    op: ProjectedGaussianRV, values: Any, rng: Any, size: Any, mu: Any, sigma: Any, **_: Any
) -> Any:
    [value] = values
    density = -0.5 * squared_norm(value - mu, op.ndim_supp) / sigma**2
    density -= op.invariants.dimension * pt.log(sigma * math.sqrt(2.0 * math.pi))
    return check_parameters(density, sigma > 0, msg="sigma > 0")

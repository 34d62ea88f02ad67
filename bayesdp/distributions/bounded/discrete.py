"""Discrete Laplace and Gaussian laws within bounds as PyMC distributions: truncated, and with the tails at the bounds."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt

from bayesdp import noise
from bayesdp.distributions.bounded.base import bounded_distribution, within_bounds
from bayesdp.distributions.bounded.gaussian_sums import gaussian_sums

__all__ = [
    "BoundaryInflatedDiscreteGaussian",
    "BoundaryInflatedDiscreteLaplace",
    "TruncatedDiscreteGaussian",
    "TruncatedDiscreteLaplace",
]


@bounded_distribution(noise.TruncatedDiscreteLaplace)
class TruncatedDiscreteLaplace(pm.Discrete):
    r"""Integers between bounds with mass proportional to ``exp(-|x - mu| / b)``; the normaliser depends on mu.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count.
    b : tensor_like of float
        Scale in counts (b > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.TruncatedDiscreteLaplace : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = TruncatedDiscreteLaplace("noisy", mu=count, b=4.0, lower=0, upper=50, observed=12)
    """


@bounded_distribution(noise.TruncatedDiscreteGaussian)
class TruncatedDiscreteGaussian(pm.Discrete):
    r"""Integers between bounds with mass proportional to ``exp(-(x - mu)**2 / (2 sigma**2))``; the normaliser depends on mu.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count. First derivatives are exact, second ones are not available.
    sigma : tensor_like of float
        Scale in counts (sigma > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.TruncatedDiscreteGaussian : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = TruncatedDiscreteGaussian("noisy", mu=count, sigma=4.0, lower=0, upper=50, observed=12)
    """

    def logp(value: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-mass; ``-inf`` outside the bounds."""
        law = noise.TruncatedDiscreteGaussian
        mass = law.log_kernel(pt, value, mu, sigma, lower, upper, gaussian_sums)
        return within_bounds(law, mass, value, sigma, lower, upper)


@bounded_distribution(noise.BoundaryInflatedDiscreteLaplace)
class BoundaryInflatedDiscreteLaplace(pm.Discrete):
    r"""Discrete Laplace integers around mu, clipped to bounds: each bound has the mass of the tail beyond it as well.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count.
    b : tensor_like of float
        Scale in counts (b > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.BoundaryInflatedDiscreteLaplace : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = BoundaryInflatedDiscreteLaplace("noisy", mu=count, b=4.0, lower=0, upper=50, observed=0)
    """


@bounded_distribution(noise.BoundaryInflatedDiscreteGaussian)
class BoundaryInflatedDiscreteGaussian(pm.Discrete):
    r"""Discrete Gaussian integers around mu, clipped to bounds: each bound has the mass of the tail beyond it as well.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count.
    sigma : tensor_like of float
        Scale in counts (sigma > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.BoundaryInflatedDiscreteGaussian : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = BoundaryInflatedDiscreteGaussian("noisy", mu=count, sigma=4.0, lower=0, upper=50, observed=0)
    """

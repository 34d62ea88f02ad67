"""Laplace laws within bounds as PyMC distributions: truncated, and with atoms at the bounds.

Discrete Laplace and Gaussian laws within bounds as PyMC distributions: truncated, and with the tails at the bounds.

The decorator completes the docstrings by those of the laws.
"""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import BoundedContinuous

from bayesdp import noise
from bayesdp.distributions.bounded.base import bounded_distribution, within_bounds
from bayesdp.distributions.bounded.gaussian import gaussian_sums


@bounded_distribution(noise.TruncatedLaplace)
class TruncatedLaplace(BoundedContinuous):
    r"""Real values between bounds with density proportional to ``exp(-|x - mu| / b)``.

    .. math:: f(x \mid \mu, b) = \frac{\exp(-|x - \mu| / b)}{b\,(2 - e^{-(\mu - l)/b} - e^{-(u - \mu)/b})}

    for locations between the bounds; one outside gives the law of the nearer bound. The normaliser depends on mu: it is
    part of the likelihood of a released statistic. The log-density has a kink at ``mu = x``, as the law itself does.

    ========  =====================================
    Support   :math:`x \in (l, u)`
    Mean      :math:`\mu` plus a bias inwards
    Variance  below :math:`2 b^2`
    ========  =====================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    b : tensor_like of float
        Scale (b > 0), in the unit of the statistic.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = TruncatedLaplace("noisy", mu=share, b=0.04, lower=0.0, upper=1.0, observed=0.37)
    """


@bounded_distribution(noise.BoundaryInflatedLaplace)
class BoundaryInflatedLaplace(pm.Continuous):
    r"""Laplace values around mu, clipped to bounds: an atom at each finite bound (the BIT rule).

    The log-density refers to Lebesgue measure plus a unit point mass at each finite bound: at a bound it is the
    log-probability of the atom, :math:`\frac12 e^{-(\mu - l)/b}` and :math:`\frac12 e^{-(u - \mu)/b}` for locations between
    the bounds, and elsewhere that of Laplace noise. Give it ``observed`` values: gradient-based steps cannot move a free
    variable of such a law onto its atoms.

    ========  ==========================================================================
    Support   :math:`x \in [l, u]`, bounds included
    Mean      :math:`\mu + \frac b2 (e^{-(\mu - l)/b} - e^{-(u - \mu)/b})`
    Variance  below :math:`2 b^2`
    ========  ==========================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    b : tensor_like of float
        Scale (b > 0), in the unit of the statistic.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = BoundaryInflatedLaplace("noisy", mu=share, b=0.04, lower=0.0, upper=1.0, observed=[0.0, 0.03])
    """


@bounded_distribution(noise.TruncatedDiscreteLaplace)
class TruncatedDiscreteLaplace(pm.Discrete):
    """Integers between bounds with mass proportional to ``exp(-|x - mu| / b)``."""


@bounded_distribution(noise.TruncatedDiscreteGaussian)
class TruncatedDiscreteGaussian(pm.Discrete):
    """Integers between bounds with mass proportional to ``exp(-(x - mu)**2 / (2 sigma**2))``.

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count. First derivatives are exact, second ones are not available.
    """

    def logp(value: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-mass; ``-inf`` outside the bounds."""
        law = noise.TruncatedDiscreteGaussian
        mass = law.log_kernel(pt, value, mu, sigma, lower, upper, gaussian_sums)
        return within_bounds(law, mass, value, sigma, lower, upper)


@bounded_distribution(noise.BoundaryInflatedDiscreteLaplace)
class BoundaryInflatedDiscreteLaplace(pm.Discrete):
    """Discrete Laplace integers around mu, clipped to bounds: each bound has the mass of the tail beyond it as well."""


@bounded_distribution(noise.BoundaryInflatedDiscreteGaussian)
class BoundaryInflatedDiscreteGaussian(pm.Discrete):
    """Discrete Gaussian integers around mu, clipped to bounds: each bound has the mass of the tail beyond it as well."""

"""Discrete Laplace and Gaussian laws within bounds as PyMC distributions: truncated, and with the tails at the bounds.

The decorator completes the docstrings by those of the laws.
"""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt

from bayesdp import noise
from bayesdp.distributions.bounded.base import bounded_distribution, within_bounds
from bayesdp.distributions.bounded.gaussian_sums import gaussian_sums


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

"""The discrete Laplace and Gaussian laws within public bounds: given that they stay inside, or moved to the nearer bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.noise.base import Floats
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.integers import BoundaryInflatedDiscrete, OfGaussian, OfLaplace, TruncatedDiscrete
from bayesdp.noise.bounded.truncated_laplace import within
from bayesdp.noise.namespace import real


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteLaplace(TruncatedDiscrete, OfLaplace):
    """Independent integers with mass proportional to ``exp(-|k - mu| / b)`` within whole bounds.

    The normaliser depends on the location and belongs in every likelihood.

    ========  ===============================================
    Support   integers from the lower to the upper bound
    Mean      mu plus a bias inwards, away from nearer bounds
    Variance  depends on mu and the bounds; see `variance`
    ========  ===============================================

    Parameters
    ----------
    b : float or array_like
        Scale in counts.
    bounds : pair of float or array_like
        Lower and upper bound, whole numbers; None or an infinity where there is none, on one side at most.

    Raises
    ------
    TypeError, ValueError
        If b is not positive, or the bounds are reversed, equal, fractional or both infinite.

    See Also
    --------
    bayesdp.distributions.TruncatedDiscreteLaplace : the same law as a PyMC distribution.

    Notes
    -----
    Mean and variance are sums of at most 53 positive terms, by doubling (no differences of large numbers).

    References
    ----------
    Liu (2019), Definition 2(a), with the discrete law in place of the continuous one.

    Examples
    --------
    >>> law = TruncatedDiscreteLaplace(b=2.0, bounds=(0, 4))
    >>> np.round(np.exp(law.log_mass([0, 1, 2, 3, 4], 1)), 4)
    array([0.2163, 0.3566, 0.2163, 0.1312, 0.0796])
    >>> print(f"{law.mean(1):.4f}")
    1.5011
    """

    b: float | Floats
    bounds: Any

    name = "truncated-discrete-laplace"
    relation = (
        "bounds=LOW:HIGH and b of the law without bounds, which truncation keeps; what epsilon it has depends on the bounds "
        "(mechanisms.TruncatedDiscreteLaplace)"
    )
    draw_one = staticmethod(kernels.truncated_discrete_laplace)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-mass of integers within the bounds."""
        near = xp.clip(mu, lower, upper)  # the law around a location outside is that around the bound
        m = xp.round(near)
        d = near - m
        one = -xp.expm1(-1.0 / scale)
        # How much farther than m its two neighbours are; all others are 1 farther each.
        down = xp.exp(-xp.where(d >= 0.0, 1.0, 1.0 + 2.0 * d) / scale) * within(xp, m - lower, scale) / one
        up = xp.exp(-xp.where(d >= 0.0, 1.0 - 2.0 * d, 1.0) / scale) * within(xp, upper - m, scale) / one
        return -(xp.abs(value - near) - xp.abs(d)) / scale - xp.log1p(down + up)


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteLaplace(BoundaryInflatedDiscrete, OfLaplace):
    """Discrete Laplace integers around mu, clipped to whole bounds: an additional mass at each finite bound.

    For a location within the bounds and whole, the log-mass is ``-|k - mu| / b`` and a constant for each k: nothing in
    it depends on how far mu is from the bounds.

    ========  ===============================================
    Support   integers from the lower to the upper bound
    Mean      mu plus a bias inwards, away from nearer bounds
    Variance  depends on mu and the bounds; see `variance`
    ========  ===============================================

    Parameters
    ----------
    b : float or array_like
        Scale in counts.
    bounds : pair of float or array_like
        Lower and upper bound, whole numbers; None or an infinity where there is none, on one side at most.

    Raises
    ------
    TypeError, ValueError
        If b is not positive, or the bounds are reversed, equal, fractional or both infinite.

    See Also
    --------
    bayesdp.distributions.BoundaryInflatedDiscreteLaplace : the same law as a PyMC distribution.

    References
    ----------
    Liu (2019), Definition 2(b), with the discrete law in place of the continuous one.

    Examples
    --------
    >>> law = BoundaryInflatedDiscreteLaplace(b=2.0, bounds=(0, 4))
    >>> np.round(np.exp(law.log_mass([0, 1, 2, 3, 4], 1)), 4)
    array([0.3775, 0.2449, 0.1486, 0.0901, 0.1389])
    """

    b: float | Floats
    bounds: Any

    name = "boundary-inflated-discrete-laplace"
    relation = "bounds=LOW:HIGH and b of the noise before clipping: b = sensitivity / epsilon"
    draw_one = staticmethod(kernels.boundary_inflated_discrete_laplace)


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteGaussian(TruncatedDiscrete, OfGaussian):
    """Independent integers with mass proportional to ``exp(-(k - mu)**2 / (2 sigma**2))`` within whole bounds.

    The normaliser depends on the location and belongs in every likelihood.

    ========  ===============================================
    Support   integers from the lower to the upper bound
    Mean      mu plus a bias inwards, away from nearer bounds
    Variance  depends on mu and the bounds; see `variance`
    ========  ===============================================

    Parameters
    ----------
    sigma : float or array_like
        Scale in counts.
    bounds : pair of float or array_like
        Lower and upper bound, whole numbers; None or an infinity where there is none, on one side at most.

    Raises
    ------
    TypeError, ValueError
        If sigma is not positive, or the bounds are reversed, equal, fractional or both infinite.

    See Also
    --------
    bayesdp.distributions.TruncatedDiscreteGaussian : the same law as a PyMC distribution.

    Notes
    -----
    Sums have up to 20,000 terms that matter; longer ones are integrals with an Euler-Maclaurin correction, to 1e-12.

    Examples
    --------
    >>> law = TruncatedDiscreteGaussian(sigma=2.0, bounds=(0, 4))
    >>> print(f"{law.mean(1):.4f}")
    1.5917
    """

    sigma: float | Floats
    bounds: Any

    name = "truncated-discrete-gaussian"
    relation = "bounds=LOW:HIGH and sigma of the law without bounds, which truncation keeps"
    draw_one = staticmethod(kernels.truncated_discrete_gaussian)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any, log_sums: Any = None) -> Any:
        """Log-mass of integers within the bounds.

        PyTensor has no loop for the normaliser: it needs ``log_sums(mu, scale, lower, upper)``, the logarithm of the first of
        `gaussian_sums`, and m.
        """
        value, mu, scale, lower, upper = xp.broadcast_arrays(value, real(xp, mu), scale, lower, upper)
        total, m = (log_sums or cls._log_sums)(mu, scale, lower, upper)
        j = value - m
        return -0.5 * (j / scale) * ((j - 2.0 * (mu - m)) / scale) - total

    @classmethod
    def _log_sums(cls, *arrays: Floats) -> tuple[Floats, Floats]:
        s0, _, _, m = cls._sums(*arrays)
        return np.log(s0), m


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteGaussian(BoundaryInflatedDiscrete, OfGaussian):
    """Discrete Gaussian integers around mu, clipped to whole bounds: an additional mass at each finite bound.

    ========  ===============================================
    Support   integers from the lower to the upper bound
    Mean      mu plus a bias inwards, away from nearer bounds
    Variance  depends on mu and the bounds; see `variance`
    ========  ===============================================

    Parameters
    ----------
    sigma : float or array_like
        Scale in counts.
    bounds : pair of float or array_like
        Lower and upper bound, whole numbers; None or an infinity where there is none, on one side at most.

    Raises
    ------
    TypeError, ValueError
        If sigma is not positive, or the bounds are reversed, equal, fractional or both infinite.

    See Also
    --------
    bayesdp.distributions.BoundaryInflatedDiscreteGaussian : the same law as a PyMC distribution.

    Examples
    --------
    >>> law = BoundaryInflatedDiscreteGaussian(sigma=2.0, bounds=(0, 4))
    >>> print(f"{law.mean(1):.4f}")
    1.3275
    """

    sigma: float | Floats
    bounds: Any

    name = "boundary-inflated-discrete-gaussian"
    relation = "bounds=LOW:HIGH and sigma of the noise before clipping: sigma = sensitivity / sqrt(2 rho)"
    draw_one = staticmethod(kernels.boundary_inflated_discrete_gaussian)

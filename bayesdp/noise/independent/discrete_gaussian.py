"""The discrete Gaussian law on the integers, around any real location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.noise import _theta
from bayesdp.noise._kernels import fill_discrete_gaussian
from bayesdp.noise.base import Floats
from bayesdp.noise.independent._scales import DISCRETE_GAUSSIAN
from bayesdp.noise.independent.integers import IntegerLaw

__all__ = ["DiscreteGaussian"]


@dataclass(frozen=True, eq=False, init=False)
class DiscreteGaussian(IntegerLaw):
    r"""Independent integer noise with mass proportional to ``exp(-(k - mu)**2 / (2 sigma**2))``.

    The normaliser is a theta function: summed directly for small scales, by Poisson's formula for large ones,
    exact to double precision everywhere. For sigma of 1 or more it is ``sigma sqrt(2 pi)`` to 1e-8, and mean
    and variance are mu and sigma**2 to 1e-6 and better.

    ========  ==========================================
    Support   the integers
    Mean      mu for integers and half-integers, near it else
    Variance  a little below ``sigma**2`` around an integer
    ========  ==========================================

    Parameters
    ----------
    sigma : float or array_like
        Scale in counts. It is not the standard deviation, but close to it from 1 on. An array has one scale
        per cell of the query, or a shape that broadcasts to it.
    rho, sensitivity : float or array_like
        In place of sigma: the loss of zero-concentrated differential privacy, and the largest l2 change of the answers that
        it is for. ``sigma = sensitivity / sqrt(2 rho)``.
    variance, standard_deviation : float or array_like
        In place of sigma, either, of at least 1: ``sigma**2``, which from there on is the variance to 1e-6.

    Raises
    ------
    TypeError, ValueError
        If the scale is not a positive finite number below 2**46, or is not stated in one of these ways.

    See Also
    --------
    bayesdp.distributions.DiscreteGaussian : the same law as a PyMC distribution.
    bayesdp.privacy.discrete_gaussian_delta : what it protects.

    References
    ----------
    Canonne, Kamath and Steinke (2020), The Discrete Gaussian for Differential Privacy, Definition 1.

    Examples
    --------
    >>> law = DiscreteGaussian(sigma=6.25)
    >>> np.round(np.exp(law.log_mass([0, 1, 2, 3])), 11)
    array([0.06383076, 0.06301894, 0.06064488, 0.0568852 ])
    """

    sigma: float | Floats

    name = "discrete-gaussian"
    ways = DISCRETE_GAUSSIAN

    def __init__(
        self,
        sigma: Any = None,
        *,
        rho: Any = None,
        sensitivity: Any = None,
        variance: Any = None,
        standard_deviation: Any = None,
        **wrong: Any,
    ) -> None:
        self._set_scale(
            wrong,
            sigma=sigma,
            rho=rho,
            sensitivity=sensitivity,
            variance=variance,
            standard_deviation=standard_deviation,
        )

    @property
    def _fill(self) -> Any:
        return fill_discrete_gaussian

    @staticmethod
    def _log_mass(k: Floats, mu: Floats, scale: Floats) -> Floats:
        """Log-mass at integers k."""
        centre = np.rint(mu)
        j, offset = k - centre, mu - centre
        return np.asarray(-j * (j - 2.0 * offset) / (2.0 * scale**2) - _theta.log_sum(offset, scale))

    @staticmethod
    def _log_cdf(k: Floats, mu: Floats, scale: Floats) -> Floats:
        """Logarithm of P(K <= k) for integers k."""
        centre = np.rint(mu)
        j, offset = k - centre, mu - centre
        # From the nearest integer of mu on, subtract the upper tail from 1; below it, sum the mirrored tail.
        above = j >= 0.0
        start = np.where(above, j + 1.0, -j)
        side = np.where(above, offset, -offset)
        flat = [np.ascontiguousarray(array).reshape(-1) for array in (start, side, scale)]
        tail = _theta.log_upper_tail(*flat).reshape(k.shape) - _theta.log_sum(offset, scale)
        tail = np.minimum(tail, 0.0)
        return np.where(above, np.log1p(-np.exp(np.where(above, tail, -1.0))), tail)

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""
        centre = np.rint(mu)
        mean, variance = _theta.moments(mu - centre, scale)
        return centre + mean, variance

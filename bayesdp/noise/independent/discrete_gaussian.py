"""The discrete Gaussian law on the integers, around any real location."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.noise import kernels, theta
from bayesdp.noise._verbs import KernelForm, LossByLength, normal_loss
from bayesdp.noise.base import Floats
from bayesdp.noise.independent.scaled import DISCRETE_GAUSSIAN, MOST_OUTCOMES, IntegerLaw, StatedByRho, moved_by_masses
from bayesdp.noise.namespace import log1mexp, real, whole
from bayesdp.noise.secure import gaussian_by_integers
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False, init=False)
class DiscreteGaussian(StatedByRho, IntegerLaw):
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
    kernel_form = KernelForm("gaussian")
    draw_one = staticmethod(kernels.discrete_gaussian)
    fill = staticmethod(kernels.fill_discrete_gaussian)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-mass at integers."""
        if whole(mu):
            return -0.5 * ((value - mu) / scale) ** 2 - theta.log_sum(None, scale, xp)
        centre = xp.round(mu)
        j, offset = value - centre, mu - centre
        return -0.5 * j * (j - 2.0 * offset) / scale**2 - theta.log_sum(offset, scale, xp)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`, an integer."""
        value, mu, scale = xp.broadcast_arrays(value, real(xp, mu), scale)
        centre = xp.round(mu)
        j, offset = value - centre, mu - centre
        # From the nearest integer of mu on, subtract the upper tail from 1; below it, sum the mirrored tail.
        above = j >= 0.0
        start, side = xp.where(above, j + 1.0, -j), xp.where(above, offset, -offset)
        tail = xp.minimum(theta.log_upper_tail(start, side, scale, xp) - theta.log_sum(offset, scale, xp), 0.0)
        return xp.where(above, log1mexp(xp, xp.where(above, tail, -1.0)), tail)

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""
        centre = np.rint(mu)
        mean, variance = theta.moments(mu - centre, scale)
        return centre + mean, variance

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`; not known here where each answer has a scale of its own."""
        return (
            None
            if np.ndim(self.sigma)
            else LossByLength(
                ("zcdp", "approximate"), "l2", normal_loss(float(self.sigma), continuous=False), tight=False
            )
        )

    def moved(self, by: float) -> TradeOff | None:
        """See `NoiseLaw.moved`; not known where each answer has a scale of its own."""
        if np.ndim(self.sigma):
            return None
        most = math.ceil(10.0 * float(self.sigma)) + int(by)  # beyond it is a mass of 1e-22, around both centres
        if most > MOST_OUTCOMES:
            return None
        return moved_by_masses(np.exp(np.asarray(self.log_mass(np.arange(-most, most + 1)))), int(by))

    def draw_by_integers(self, size: int, engine: str) -> list[int]:
        """Draw noise of one scale with integer arithmetic only. See `NoiseLaw.draw_by_integers`."""
        return gaussian_by_integers(float(self.sigma), size, engine)

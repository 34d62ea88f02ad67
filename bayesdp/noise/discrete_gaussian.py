"""The discrete Gaussian law on the integers, around any real location."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.noise import _theta
from bayesdp.noise._arrays import broadcast_scale, located, positive_scale, values_and_location
from bayesdp.noise._draws import draw_each
from bayesdp.noise._kernels import fill_discrete_gaussian
from bayesdp.noise.base import Floats, Ints, NoiseLaw

__all__ = ["DiscreteGaussian"]


@dataclass(frozen=True, eq=False)
class DiscreteGaussian(NoiseLaw):
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

    Raises
    ------
    TypeError, ValueError
        If sigma is not a positive finite number below 2**46.

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
    support = "integers"
    integer = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive_scale(self.sigma, "sigma"))

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum the log-masses of all cells; ``-inf`` if a value is not an integer. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_mass(values, location)))

    def log_mass(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass of each value, elementwise; ``-inf`` where it is not an integer.

        Parameters
        ----------
        values, location : array_like
            Finite numbers below 2**53 in size, of shapes that broadcast.

        Returns
        -------
        numpy.ndarray
        """
        k, mu, sigma = self._prepared(values, location)
        centre = np.rint(mu)
        j, offset = k - centre, mu - centre
        mass = -j * (j - 2.0 * offset) / (2.0 * sigma**2) - _theta.log_sum(offset, sigma)
        return np.where(k == np.rint(k), mass, -np.inf)

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""
        k, mu, sigma = self._prepared(values, location)
        return _log_cdf(np.floor(k), mu, sigma)

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""
        k, mu, sigma = self._prepared(values, location)
        return _log_cdf(-np.floor(k) - 1.0, -mu, sigma)

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability of at most each value (any real number), elementwise."""
        return np.exp(self.log_cdf(values, location))

    def draw(
        self,
        rng: np.random.Generator | None,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Ints:
        """Draw independent noise, or values around a real location. See `NoiseLaw.draw`."""
        centre, scale = located(location, shape), broadcast_scale(self.sigma, shape, "sigma")
        return draw_each(fill_discrete_gaussian, rng, centre, scale, size)

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean around each location, elementwise."""
        mu, _, sigma = self._prepared(location, 0.0)
        centre = np.rint(mu)
        return centre + _theta.moments(mu - centre, sigma)[0]

    def variance(
        self,
        shape: tuple[int, ...],
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Variance of each cell around its location (zero by default), shape `shape`."""
        mu = located(location, shape)
        return _theta.moments(mu - np.rint(mu), broadcast_scale(self.sigma, shape, "sigma"))[1]

    def _prepared(self, values: npt.ArrayLike, location: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        k, mu = values_and_location(values, location)
        return k, mu, broadcast_scale(self.sigma, k.shape, "sigma")


def _log_cdf(k: Floats, mu: Floats, sigma: Floats) -> Floats:
    """Logarithm of P(K <= k) for integers k."""
    centre = np.rint(mu)
    j, offset = k - centre, mu - centre
    # From the nearest integer of mu on, subtract the upper tail from 1; below it, sum the mirrored tail.
    above = j >= 0.0
    start = np.where(above, j + 1.0, -j)
    side = np.where(above, offset, -offset)
    flat = [np.ascontiguousarray(array).reshape(-1) for array in (start, side, sigma)]
    tail = _theta.log_upper_tail(*flat).reshape(k.shape) - _theta.log_sum(offset, sigma)
    tail = np.minimum(tail, 0.0)
    return np.where(above, np.log1p(-np.exp(np.where(above, tail, -1.0))), tail)

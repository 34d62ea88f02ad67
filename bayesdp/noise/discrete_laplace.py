"""The discrete Laplace law on the integers, around any real location."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.noise._arrays import broadcast_scale, located, positive_scale, values_and_location
from bayesdp.noise._draws import draw_each
from bayesdp.noise._kernels import fill_discrete_laplace
from bayesdp.noise.base import Floats, Ints, NoiseLaw

__all__ = ["DiscreteLaplace"]


@dataclass(frozen=True, eq=False)
class DiscreteLaplace(NoiseLaw):
    r"""Independent integer noise with mass proportional to ``exp(-|k - mu| / b)``.

    With ``q = exp(-1/b)`` and ``f = mu - floor(mu)`` the normaliser is ``(q**f + q**(1-f)) / (1 - q)``; at an
    integer mu that is ``(1 + q) / (1 - q)``, the two-sided geometric law.

    ========  ==============================================
    Support   the integers
    Mean      mu for integers and half-integers, near it else
    Variance  ``2 q / (1 - q)**2`` around an integer
    ========  ==============================================

    Parameters
    ----------
    b : float or array_like
        Scale in counts: a change of one count costs ``epsilon = 1/b``. An array has one scale per cell of the
        query, or a shape that broadcasts to it.

    Raises
    ------
    TypeError, ValueError
        If b is not a positive finite number below 2**46.

    See Also
    --------
    bayesdp.distributions.DiscreteLaplace : the same law as a PyMC distribution.

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2009); Inusah and Kozubowski (2006) for the law.

    Examples
    --------
    >>> law = DiscreteLaplace(b=4.0)
    >>> print(f"{law.logp([3, -1], [0, 0]):.6f}")
    -5.169262
    >>> law.draw(np.random.default_rng(1), shape=(3,)).dtype
    dtype('int64')
    """

    b: float | Floats

    name = "discrete-laplace"
    support = "integers"
    integer = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))

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
        k, mu, b = self._prepared(values, location)
        # Relative to the mass of the nearest integer, so that nothing underflows for small b.
        nearest = np.abs(np.rint(mu) - mu)
        normaliser = np.log1p(np.exp(-(1.0 - 2.0 * nearest) / b)) - np.log(-np.expm1(-1.0 / b))
        return np.where(k == np.rint(k), -(np.abs(k - mu) - nearest) / b - normaliser, -np.inf)

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""
        k, mu, b = self._prepared(values, location)
        return _log_cdf(np.floor(k), mu, b)

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""
        k, mu, b = self._prepared(values, location)
        return _log_cdf(-np.floor(k) - 1.0, -mu, b)

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
        centre, scale = located(location, shape), broadcast_scale(self.b, shape, "b")
        return draw_each(fill_discrete_laplace, rng, centre, scale, size)

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean around each location, elementwise."""
        mu, _, b = self._prepared(location, 0.0)
        return _moments(mu, b)[0]

    def variance(
        self,
        shape: tuple[int, ...],
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Variance of each cell around its location (zero by default), shape `shape`."""
        return _moments(located(location, shape), broadcast_scale(self.b, shape, "b"))[1]

    def _prepared(self, values: npt.ArrayLike, location: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        k, mu = values_and_location(values, location)
        return k, mu, broadcast_scale(self.b, k.shape, "b")


def _log_cdf(k: Floats, mu: Floats, b: Floats) -> Floats:
    """Logarithm of P(K <= k) for integers k."""
    base = np.floor(mu)
    # With f = mu - floor(mu), P(K <= k) = q**(mu - k) / (q**f + q**(1 - f)) up to floor(mu); above, it is 1
    # minus the mirror image.
    below = k <= base
    distance = np.where(below, mu - k, k + 1.0 - mu)
    own = np.where(below, mu - base, base + 1.0 - mu)
    tail = -(distance - own) / b - np.log1p(np.exp(np.minimum((2.0 * own - 1.0) / b, 700.0)))
    with np.errstate(divide="ignore"):
        return np.where(below, tail, np.log1p(-np.exp(np.where(below, -1.0, tail))))


def _moments(mu: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Mean and variance around mu."""
    near = np.rint(mu)
    sign = np.where(mu >= near, 1.0, -1.0)
    f = np.abs(mu - near)  # by symmetry only 0 <= f <= 1/2 is needed; counting away from the nearest integer
    geometric = 1.0 / np.expm1(np.minimum(1.0 / b, 700.0))  # mean of the steps beyond the first integer of a side
    above = 1.0 / (1.0 + np.exp(np.minimum((1.0 - 2.0 * f) / b, 700.0)))
    mean = above + geometric * np.tanh((2.0 * f - 1.0) / (2.0 * b))
    square = geometric * (2.0 * geometric + 1.0) + above * (1.0 + 2.0 * geometric)
    return near + sign * mean, square - mean**2

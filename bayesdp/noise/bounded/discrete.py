"""The discrete Laplace and Gaussian laws within public bounds: given that they stay inside, or moved to the nearer bound."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp.noise._arrays import positive_scale
from bayesdp.noise.base import Floats
from bayesdp.noise.bounded._kernels import FILLS, gaussian_sums, laplace_sums
from bayesdp.noise.bounded.base import BoundedLaw, Moments, checked_bounds
from bayesdp.noise.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.noise.independent.discrete_laplace import DiscreteLaplace

__all__ = [
    "BoundaryInflatedDiscreteGaussian",
    "BoundaryInflatedDiscreteLaplace",
    "BoundedDiscrete",
    "TruncatedDiscreteGaussian",
    "TruncatedDiscreteLaplace",
]


class BoundedDiscrete(BoundedLaw):
    """Integers on an interval; the law that was bounded is `free`."""

    integer = True
    free: ClassVar[type[DiscreteLaplace | DiscreteGaussian]]

    def __post_init__(self) -> None:
        object.__setattr__(self, self.scale_name, positive_scale(self.scale, self.scale_name))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds, integer=True))

    def log_mass(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass of each value, elementwise; ``-inf`` outside the bounds and off the integers."""
        return self._log_each(values, location)

    @abstractmethod
    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""

    def _sums(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Sums of the unnormalised masses and moments about m, in units of the mass of m, and m: see `laplace_sums`."""
        arrays = (mu, scale, lower, upper)
        a, b, c, d = (np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in arrays)
        out = np.empty((a.size, 4))
        (laplace_sums if self.free is DiscreteLaplace else gaussian_sums)(a, b, c, d, out)
        s0, s1, s2, m = (column.reshape(mu.shape) for column in out.T)
        return s0, s1, s2, m

    def _excess(self, k: Floats, m: Floats, mu: Floats, scale: Floats) -> Floats:
        """How much larger the log-mass of m is than that of k, without the bounds."""
        j, d = k - m, mu - m
        if self.free is DiscreteGaussian:
            return np.asarray(0.5 * (j / scale) * ((j - 2.0 * d) / scale))
        # Beyond a bound, all integers within the bounds are on the same side of mu.
        return np.where(np.abs(d) > 1.0, np.abs(j), np.abs(j - d) - np.abs(d)) / scale

    def _quantile(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        reach = 800.0 * scale + 2.0
        low = np.where(np.isfinite(lower), lower, np.floor(np.minimum(mu, upper) - reach))
        high = np.where(np.isfinite(upper), upper, np.ceil(np.maximum(mu, lower) + reach))
        target = np.log(q) - 1e-14  # a quantile that is asked for by its own probability is that value
        while np.any(low < high):
            middle = np.floor(0.5 * (low + high))
            enough = (middle >= upper) | (self._log_tails(middle, mu, scale, lower, upper)[0] >= target)
            low, high = np.where(enough, low, np.minimum(middle + 1.0, high)), np.where(enough, middle, high)
        return low

    def _fill(self, rng: Any, mu: Floats, scale: Floats, lower: Floats, upper: Floats, out: Any) -> None:
        FILLS[self.name](rng, mu, scale, lower, upper, out)


class _Truncated(BoundedDiscrete):
    """The free law given that it is within the bounds."""

    has_atoms = False

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        mu = self._prepared(location, 0.0)[0]
        low, high = np.broadcast_to(self.lower, mu.shape), np.broadcast_to(self.upper, mu.shape)
        found = [
            np.where(np.isfinite(side), np.exp(self._log_each(np.where(np.isfinite(side), side, 0.0), mu)), 0.0)
            for side in (low, high)
        ]
        return found[0], found[1]

    def _log_prob(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        s0, _, _, m = self._sums(mu, scale, lower, upper)
        return -self._excess(y, m, mu, scale) - np.log(s0)

    def _log_tails(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        s0, _, _, m = self._sums(mu, scale, lower, upper)
        # The side of y that m is not on: it never holds nearly all of the mass, so that 1 minus it has all digits.
        low = y < m
        part, _, _, end = self._sums(mu, scale, np.where(low, lower, y + 1.0), np.where(low, y, upper))
        tail = np.minimum(np.log(part) - self._excess(end, m, mu, scale) - np.log(s0), 0.0)
        with np.errstate(divide="ignore"):
            rest = np.log1p(-np.exp(tail))
        return np.where(low, tail, rest), np.where(low, rest, tail)

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        s0, s1, s2, m = self._sums(mu, scale, lower, upper)
        return m, s1 / s0, s2 / s0


class _BoundaryInflated(BoundedDiscrete):
    """The free law, moved to the nearer bound where it is outside."""

    has_atoms = True

    def _log_outside(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats, room: int) -> tuple[Floats, Floats]:
        """Logarithms of the free probabilities of below ``lower + room``, and of above ``upper - room``."""
        law = self.free(scale)
        low, high = np.isfinite(lower), np.isfinite(upper)
        below = law.log_cdf(np.where(low, lower - 1.0 + room, 0.0), mu)
        above = law.log_sf(np.where(high, upper - room, 0.0), mu)
        return np.where(low, below, -np.inf), np.where(high, above, -np.inf)

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        mu, _, scale, lower, upper = self._prepared(location, 0.0)
        below, above = self._log_outside(mu, scale, lower, upper, room=1)
        return np.exp(below), np.exp(above)

    def _log_prob(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        below, above = self._log_outside(mu, scale, lower, upper, room=1)
        return np.where(y == lower, below, np.where(y == upper, above, self.free(scale).log_mass(y, mu)))

    def _log_tails(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        law = self.free(scale)
        return law.log_cdf(y, mu), law.log_sf(y, mu)

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        _, s1, s2, m = self._sums(mu, scale, lower, upper)
        mass = np.exp(self.free(scale).log_mass(m, mu))
        below, above = (np.exp(tail) for tail in self._log_outside(mu, scale, lower, upper, room=0))
        down, up = (np.where(np.isfinite(side), side - m, 0.0) for side in (lower, upper))
        return m, mass * s1 + below * down + above * up, mass * s2 + below * down**2 + above * up**2


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteLaplace(_Truncated):
    """Independent integers with mass proportional to ``exp(-|k - mu| / b)`` within whole bounds.

    Mean and variance are sums of at most 53 positive terms, by doubling (no differences of large numbers). The
    normaliser depends on the location and belongs in every likelihood.

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
    free = DiscreteLaplace


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteLaplace(_BoundaryInflated):
    """Discrete Laplace integers around mu, clipped to whole bounds: an additional mass at each finite bound.

    For a location within the bounds and whole, the log-mass is ``-|k - mu| / b`` and a constant for each k: nothing in
    it depends on how far mu is from the bounds.

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
    free = DiscreteLaplace


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteGaussian(_Truncated):
    """Independent integers with mass proportional to ``exp(-(k - mu)**2 / (2 sigma**2))`` within whole bounds.

    Sums have up to 20,000 terms that matter; longer ones are integrals with an Euler-Maclaurin correction, to 1e-12.
    The normaliser depends on the location and belongs in every likelihood.

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
    scale_name = "sigma"
    free = DiscreteGaussian


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteGaussian(_BoundaryInflated):
    """Discrete Gaussian integers around mu, clipped to whole bounds: an additional mass at each finite bound.

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
    scale_name = "sigma"
    free = DiscreteGaussian

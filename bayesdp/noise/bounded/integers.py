"""What the laws on the integers of an interval share."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp.noise.base import Floats
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.base import BoundedLaw, Moments
from bayesdp.noise.bounded.boundary_inflated import BoundaryInflated
from bayesdp.noise.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.noise.independent.discrete_laplace import DiscreteLaplace
from bayesdp.noise.namespace import finite, log1mexp


class BoundedDiscrete(BoundedLaw):
    """Integers on an interval."""

    integer = True
    _add_up: ClassVar[Any]
    """Sums of the unnormalised masses and moments about m, in units of the mass of m, and m: see `laplace_sums`."""

    @staticmethod
    @abstractmethod
    def _excess(k: Floats, m: Floats, mu: Floats, scale: Floats) -> Floats:
        """How much larger the log-mass of m is than that of k, without the bounds."""

    @staticmethod
    @abstractmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """How much larger the log-mass of a whole location is than that of the integer at this distance, without the bounds."""

    @abstractmethod
    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""

    def log_mass(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass of each value, elementwise; ``-inf`` outside the bounds and off the integers."""
        return self.log_each(values, location)

    @classmethod
    def _sums(cls, *arrays: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """See `_add_up`; for arrays of any one shape."""
        out = np.empty((arrays[0].size, 4))
        cls._add_up(*(np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in arrays), out)
        s0, s1, s2, m = (column.reshape(arrays[0].shape) for column in out.T)
        return s0, s1, s2, m

    def _quantile(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        reach = 800.0 * scale + 2.0
        low = np.where(np.isfinite(lower), lower, np.floor(np.minimum(mu, upper) - reach))
        high = np.where(np.isfinite(upper), upper, np.ceil(np.maximum(mu, lower) + reach))
        target = np.log(q) - 1e-14  # a quantile that is asked for by its own probability is that value
        while np.any(low < high):
            middle = np.floor(0.5 * (low + high))
            enough = (middle >= upper) | (self._log_cdf(middle, mu, scale, lower, upper) >= target)
            low, high = np.where(enough, low, np.minimum(middle + 1.0, high)), np.where(enough, middle, high)
        return low


class OfLaplace(BoundedDiscrete):
    """Laws made from the discrete Laplace by bounds."""

    free = DiscreteLaplace
    _add_up = staticmethod(kernels.laplace_sums)

    @staticmethod
    def _excess(k: Floats, m: Floats, mu: Floats, scale: Floats) -> Floats:
        j, d = k - m, mu - m
        # Beyond a bound, all integers within the bounds are on the same side of mu.
        return np.where(np.abs(d) > 1.0, np.abs(j), np.abs(j - d) - np.abs(d)) / scale

    @staticmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """``|distance| / b``."""
        return abs(distance) / scale


class OfGaussian(BoundedDiscrete):
    """Laws made from the discrete Gaussian by bounds."""

    free = DiscreteGaussian
    scale_name = "sigma"
    _add_up = staticmethod(kernels.gaussian_sums)

    @staticmethod
    def _excess(k: Floats, m: Floats, mu: Floats, scale: Floats) -> Floats:
        j, d = k - m, mu - m
        return np.asarray(0.5 * (j / scale) * ((j - 2.0 * d) / scale))

    @staticmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """``distance**2 / (2 sigma**2)``."""
        return distance**2 / (2 * scale**2)


class TruncatedDiscrete(BoundedDiscrete):
    """The free law given that it is within the bounds."""

    has_atoms = False

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        mu = self._prepared(location, 0.0)[0]
        low, high = np.broadcast_to(self.lower, mu.shape), np.broadcast_to(self.upper, mu.shape)
        found = [
            np.where(np.isinf(side), 0.0, np.exp(self.log_each(finite(np, side, 0.0), mu))) for side in (low, high)
        ]
        return found[0], found[1]

    def _log_cdf(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        s0, _, _, m = self._sums(mu, scale, lower, upper)
        # The side of y that m is not on: it never holds nearly all of the mass, so that 1 minus it has all digits.
        low = y < m
        part, _, _, end = self._sums(mu, scale, np.where(low, lower, y + 1.0), np.where(low, y, upper))
        tail = np.minimum(np.log(part) - self._excess(end, m, mu, scale) - np.log(s0), 0.0)
        return np.where(low, tail, log1mexp(np, np.where(low, -1.0, tail)))

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        s0, s1, s2, m = self._sums(mu, scale, lower, upper)
        return m, s1 / s0, s2 / s0


class BoundaryInflatedDiscrete(BoundaryInflated, BoundedDiscrete):
    """The free law, moved to the nearer bound where it is outside."""

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        _, s1, s2, m = self._sums(mu, scale, lower, upper)
        mass = np.exp(self.free.log_kernel(np, m, mu, scale))
        below, above = self._beyond(mu, scale, lower - 1.0, upper + 1.0)
        down, up = (np.where(np.isfinite(side), side - m, 0.0) for side in (lower, upper))
        return m, mass * s1 + below * down + above * up, mass * s2 + below * down**2 + above * up**2

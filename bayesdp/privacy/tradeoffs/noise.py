"""What every canonical noise law has: distribution function and density with their logarithms, quantiles, moments, draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.levels import Floats, levels, plain, points


class CanonicalNoise(ABC):
    """Noise for a statistic of sensitivity 1, with the methods of a SciPy law.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> noise = approximate_dp(1.0, 0.01).canonical_noise()
    >>> print(f"{noise.cdf(2.5):.6f} {noise.ppf(0.975):.6f}")
    0.968999 2.757834
    """

    @abstractmethod
    def _tails(self, z: Floats) -> tuple[Floats, Floats]:
        """``F(z)`` and ``1 - F(z)`` for finite z <= 0."""

    @abstractmethod
    def _density(self, z: Floats) -> Floats:
        """``F'(z)`` for finite z <= 0."""

    @abstractmethod
    def _quantile(self, low: Floats) -> Floats:
        """``F^-1(low)`` for low <= 1/2."""

    @abstractmethod
    def _log_tail(self, z: Floats) -> Floats:
        """``log F(z)`` for finite z <= 0, finite wherever ``F(z) > 0``, also where F underflows."""

    @abstractmethod
    def _log_density(self, z: Floats) -> Floats:
        """``log F'(z)`` for finite z <= 0."""

    @abstractmethod
    def var(self) -> float:
        """Variance."""

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function, to full relative accuracy in the lower tail.

        Parameters
        ----------
        x : float or array_like
            Any real numbers, infinities included.

        Returns
        -------
        float or ndarray
            Of the shape of x.

        Raises
        ------
        TypeError, ValueError
            If x does not hold numbers.
        """
        at = points(x, "x")
        low, high = self._both(at)
        return plain(np.where(at <= 0.0, low, high))

    def sf(self, x: npt.ArrayLike) -> Any:
        """Survival function ``1 - cdf``, to full relative accuracy in the upper tail. See `cdf`."""
        at = points(x, "x")
        low, high = self._both(at)
        return plain(np.where(at <= 0.0, high, low))

    def pdf(self, x: npt.ArrayLike) -> Any:
        """Density; at its jumps, one of the two limits. See `cdf`."""
        at = points(x, "x")
        finite = np.isfinite(at)
        return plain(np.where(finite, self._density(-np.abs(np.where(finite, at, 0.0))), 0.0))

    def logcdf(self, x: npt.ArrayLike) -> Any:
        """Logarithm of `cdf`, finite in the lower tail far beyond where `cdf` underflows; ``-inf`` off the support."""
        at = points(x, "x")
        return plain(self._log_lower(at))

    def logsf(self, x: npt.ArrayLike) -> Any:
        """Logarithm of `sf`. See `logcdf`."""
        at = points(x, "x")
        return plain(self._log_lower(-at))

    def logpdf(self, x: npt.ArrayLike) -> Any:
        """Logarithm of `pdf`, finite far beyond where `pdf` underflows; ``-inf`` off the support."""
        at = points(x, "x")
        finite = np.isfinite(at)
        return plain(np.where(finite, self._log_density(-np.abs(np.where(finite, at, 0.0))), -np.inf))

    def ppf(self, q: npt.ArrayLike) -> Any:
        """Quantile function, the inverse of `cdf`.

        Parameters
        ----------
        q : float or array_like
            Probabilities from 0 to 1; at the ends the limits of the support.

        Returns
        -------
        float or ndarray
            Of the shape of q.

        Raises
        ------
        TypeError, ValueError
            If q does not hold numbers between 0 and 1.
        """
        level = levels(q, "q")
        x = self._quantile(np.minimum(level, 1.0 - level))
        return plain(np.where(level <= 0.5, x, -x))

    def isf(self, q: npt.ArrayLike) -> Any:
        """Inverse of `sf`. See `ppf`."""
        return plain(-np.asarray(self.ppf(q)))

    def mean(self) -> float:
        """Mean: 0, for the law is symmetric and its tails fall at least geometrically."""
        return 0.0

    def median(self) -> float:
        """Median: 0."""
        return 0.0

    def std(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(self.var()))

    def support(self) -> tuple[float, float]:
        """Ends of the support; infinite unless f says that some outcomes tell the tables apart."""
        end = float(self.ppf(1.0))
        return -end, end

    def interval(self, confidence: float) -> tuple[float, float]:
        """Central interval that holds the noise with probability `confidence`.

        Parameters
        ----------
        confidence : float
            Strictly between 0 and 1.

        Returns
        -------
        tuple of float

        Raises
        ------
        TypeError, ValueError
            If confidence is not strictly between 0 and 1.

        Examples
        --------
        >>> from bayesdp.privacy.canonical import Tulap
        >>> print("{:.4f} {:.4f}".format(*Tulap(1.0).interval(0.95)))
        -2.9954 2.9954
        """
        half = float(self.isf(0.5 * (1.0 - _validate.probability(confidence, "confidence"))))
        return -half, half

    def rvs(self, size: int | tuple[int, ...] | None = None, rng: _validate.Seed = None) -> Any:
        """Independent draws, by inversion.

        Parameters
        ----------
        size : int, tuple of int or None
            Shape of the result; None draws one float.
        rng : int, numpy.random.Generator or None
            Source of randomness; None makes one from the operating system's entropy.

        Returns
        -------
        float or ndarray

        Raises
        ------
        TypeError, ValueError
            If rng is not a generator, or size not a shape.
        """
        generator = _validate.generator_of(rng)
        half = 0.5 * (1.0 - np.asarray(generator.random(size)))  # in (0, 1/2]: never the infinite end
        sign = np.where(np.asarray(generator.random(size)) < 0.5, 1.0, -1.0)
        return plain(sign * self._quantile(half))

    def _both(self, at: Floats) -> tuple[Floats, Floats]:
        """Smaller and larger tail at +-at."""
        finite = np.isfinite(at)
        low, high = self._tails(-np.abs(np.where(finite, at, 0.0)))
        return np.where(finite, low, 0.0), np.where(finite, high, 1.0)

    def _log_lower(self, at: Floats) -> Floats:
        """``log F(at)``, through whichever tail is the smaller."""
        finite = np.isfinite(at)
        z = np.where(finite, at, 0.0)
        small = self._log_tail(-np.abs(z))
        with np.errstate(divide="ignore"):
            result = np.where(z <= 0.0, small, np.log1p(-np.exp(np.minimum(small, -np.log(2.0)))))
        return np.where(finite, result, np.where(at < 0.0, -np.inf, 0.0))

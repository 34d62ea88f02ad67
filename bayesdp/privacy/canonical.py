"""Canonical noise of a symmetric trade-off function f (Awan and Vadhan, 2023; paper 003, Definition 35).

A law F, symmetric about 0, such that telling F from F shifted by 1 is exactly as hard as f says. In the
convention of Dong, Roth and Su, ``F(x - 1) = f(1 - F(x))``: Gaussian for mu-GDP, Tulap for (epsilon, delta)-DP, and by recursion
for any other.

The objects are meant for p-values and simulation: their draws are floating-point inversions, which is not
how to publish a confidential number.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import gammainc, log_ndtr, ndtr, ndtri

from bayesdp import _validate
from bayesdp._arrays import Floats

if TYPE_CHECKING:
    from bayesdp.privacy.tradeoffs.base import TradeOff


def points(values: npt.ArrayLike, argument: str) -> Floats:
    """Accept real numbers, infinities included, as float64."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must hold integers or real numbers, got an array of dtype {array.dtype}")
    array = array.astype(np.float64)
    bad = np.isnan(array)
    if bad.any():
        raise ValueError(f"{argument} must not be NaN, but entry {bad.argmax()} is")
    return array


def levels(values: npt.ArrayLike, argument: str) -> Floats:
    """Accept real numbers from 0 to 1, both included, as float64."""
    array = points(values, argument)
    bad = (array < 0.0) | (array > 1.0)
    if bad.any():
        raise ValueError(
            f"{argument} must lie between 0 and 1, but entry {bad.argmax()} is {array.flat[bad.argmax()].item()!r}"
        )
    return array


def plain(array: Floats) -> Any:
    """Turn an array without dimensions into a float, leave others as they are."""
    return float(array) if np.ndim(array) == 0 else array


def checked_delta(delta: Any) -> float:
    """Accept a delta from 0 to below 1."""
    value = _validate.nonnegative_real(delta, "delta")
    if value >= 1.0:
        raise ValueError(f"delta must be at least 0 and less than 1, got {delta!r}")
    return value


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
    def _logs(self, z: Floats) -> tuple[Floats, Floats]:
        """``log F(z)``, finite wherever ``F(z) > 0``, also where F underflows, and ``log F'(z)``, for finite z <= 0."""

    @abstractmethod
    def _quantile(self, low: Floats) -> Floats:
        """``F^-1(low)`` for low <= 1/2."""

    @abstractmethod
    def var(self) -> float:
        """Variance."""

    def _tail(self, z: Floats) -> Floats:
        """``F(z)`` for finite z <= 0."""
        return np.exp(self._logs(z)[0])

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function at any real numbers or infinities, accurate relative to itself in the lower tail."""
        return plain(self._lower(points(x, "x")))

    def sf(self, x: npt.ArrayLike) -> Any:
        """Survival function ``1 - cdf``, accurate relative to itself in the upper tail. See `cdf`."""
        return plain(self._lower(-points(x, "x")))

    def pdf(self, x: npt.ArrayLike) -> Any:
        """Density; at its jumps, one of the two limits. See `cdf`."""
        return plain(np.exp(np.asarray(self.logpdf(x))))

    def logcdf(self, x: npt.ArrayLike) -> Any:
        """Logarithm of `cdf`, finite in the lower tail far beyond where `cdf` underflows; ``-inf`` off the support."""
        return plain(self._log_lower(points(x, "x")))

    def logpdf(self, x: npt.ArrayLike) -> Any:
        """Logarithm of `pdf`, finite far beyond where `pdf` underflows; ``-inf`` off the support."""
        at = points(x, "x")
        finite = np.isfinite(at)
        return plain(np.where(finite, self._logs(-np.abs(np.where(finite, at, 0.0)))[1], -np.inf))

    def ppf(self, q: npt.ArrayLike) -> Any:
        """Quantile function, the inverse of `cdf`, at probabilities from 0 to 1; at these two, the ends of the support."""
        level = levels(q, "q")
        x = self._quantile(np.minimum(level, 1.0 - level))
        return plain(np.where(level <= 0.5, x, -x))

    def isf(self, q: npt.ArrayLike) -> Any:
        """Inverse of `sf`. See `ppf`."""
        return -self.ppf(q)

    def support(self) -> tuple[float, float]:
        """Ends of the support; infinite unless f says that some outcomes tell the tables apart."""
        end = float(self.ppf(1.0))
        return -end, end

    def rvs(self, size: int | tuple[int, ...] | None = None, rng: _validate.Seed = None) -> Any:
        """Independent draws, by inversion.

        Parameters
        ----------
        size : int, tuple of int or None
            Shape of the result; None draws one float.
        rng : int, numpy.random.Generator or None
            Source of randomness; None makes one from the operating system's entropy.
        """
        generator = _validate.generator_of(rng)
        half = 0.5 * (1.0 - np.asarray(generator.random(size)))  # in (0, 1/2]: never the infinite end
        sign = np.where(np.asarray(generator.random(size)) < 0.5, 1.0, -1.0)
        return plain(sign * self._quantile(half))

    def _lower(self, at: Floats) -> Floats:
        """``F(at)``, through whichever tail is the smaller."""
        finite = np.isfinite(at)
        small = np.where(finite, self._tail(-np.abs(np.where(finite, at, 0.0))), 0.0)
        return np.where(at <= 0.0, small, 1.0 - small)

    def _log_lower(self, at: Floats) -> Floats:
        """``log F(at)``, through whichever tail is the smaller."""
        finite = np.isfinite(at)
        z = np.where(finite, at, 0.0)
        small = self._logs(-np.abs(z))[0]
        with np.errstate(divide="ignore"):
            result = np.where(z <= 0.0, small, np.log1p(-np.exp(np.minimum(small, -np.log(2.0)))))
        return np.where(finite, result, np.where(at < 0.0, -np.inf, 0.0))


_ADDED_BELOW = 1_000_000
"""Terms of a finite sum are added one by one below this; above it they are an integral to 12 digits."""


@dataclass(frozen=True)
class GaussianNoise(CanonicalNoise):
    """``N(0, 1 / mu**2)``, canonical for mu-GDP. Lemma 36 gives another law, equal to it at the half-integers."""

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _validate.positive_real(self.mu, "mu"))

    def _tail(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(ndtr(self.mu * z))

    def _quantile(self, low: Floats) -> Floats:
        return np.asarray(ndtri(low) / self.mu)

    def _logs(self, z: Floats) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            density = math.log(self.mu / math.sqrt(2.0 * math.pi)) - 0.5 * (self.mu * z) ** 2
            return np.asarray(log_ndtr(self.mu * z)), np.asarray(density)

    def var(self) -> float:
        """Variance, ``1 / mu**2``."""
        return 1.0 / self.mu**2


@dataclass(frozen=True)
class Tulap(CanonicalNoise):
    """Truncated uniform-Laplace noise, the only canonical noise of (epsilon, delta)-DP.

    With delta = 0 it is a discrete Laplace variable (ratio ``exp(-epsilon)``) plus an independent
    U(-1/2, 1/2); delta > 0 cuts off its tails. With epsilon = 0 it is uniform on +-1/(2 delta).
    Source: Awan and Slavkovic (2018, Definition 2); here as the solution of Lemma 36's recursion,
    ``F(z) = b**k v - delta b (1 - b**k) / (1 - b)``, v the value of the centre k steps on, b = exp(-epsilon).
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.nonnegative_real(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", checked_delta(self.delta))
        if self.epsilon == 0.0 and self.delta == 0.0:
            raise ValueError("epsilon and delta must not both be 0: no noise hides a difference entirely")

    def _centre(self) -> tuple[float, float]:
        """``c = F(-1/2)`` and the density ``1 - 2c`` of the centre."""
        b = math.exp(-self.epsilon)
        return (1.0 - self.delta) * b / (1.0 + b), (-math.expm1(-self.epsilon) + 2.0 * self.delta * b) / (1.0 + b)

    def _tail(self, z: Floats) -> Floats:
        # A test asks for millions of these: without the logarithms, which are for what underflows.
        c, slope = self._centre()
        steps = np.ceil(-z - 0.5)
        with np.errstate(over="ignore"):
            taken = steps if self.epsilon == 0.0 else np.expm1(-self.epsilon * steps) / math.expm1(-self.epsilon)
            value = np.exp(-self.epsilon * steps) * (c + slope * (z + steps + 0.5))
            return np.maximum(value - self.delta * math.exp(-self.epsilon) * taken, 0.0)

    def _quantile(self, low: Floats) -> Floats:
        if self.epsilon == 0.0:
            return (low - 0.5) / self.delta
        c, slope = self._centre()
        shift = self.delta * math.exp(-self.epsilon) / -math.expm1(-self.epsilon)
        tail = np.where(low < c, low, c)  # so that the logarithm is taken in the tail only
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = np.where(low < c, np.ceil((np.log(c + shift) - np.log(tail + shift)) / self.epsilon), 0.0)
            half = np.exp(0.5 * self.epsilon * steps)  # in two halves: the whole may overflow
            x = ((low + shift) * half * half - shift - c) / slope - 0.5 - steps
        return np.where((low == 0.0) & (self.delta == 0.0), -np.inf, x)

    def _logs(self, z: Floats) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore"):
            if self.epsilon > 0.0:
                return tulap_logs(np, z, self.epsilon, self.delta)
            tail = np.log(np.maximum(0.5 + self.delta * z, 0.0))
        return tail, np.where(np.isneginf(tail), -np.inf, math.log(self.delta))

    def var(self) -> float:
        """Variance, in closed form: ``2 b / (1 - b)**2 + 1/12`` for delta = 0, uniform for epsilon = 0."""
        if self.epsilon == 0.0:
            return 1.0 / (12.0 * self.delta**2)
        if self.delta == 0.0:
            return 2.0 * math.exp(-self.epsilon) / math.expm1(-self.epsilon) ** 2 + 1.0 / 12.0
        # Cells of width 1 around the integers -n ... n with density slope b**|k|, and a part of one more on each side.
        slope, end = self._centre()[1], -float(self._quantile(np.asarray(0.0)))
        if end <= 0.5:
            return slope * 2.0 * end**3 / 3.0
        full = math.floor(end - 0.5)
        inner = slope * (1.0 / 12.0 + 2.0 * _cells(self.epsilon, full))
        return inner + 2.0 * slope * math.exp(-self.epsilon * (full + 1)) * (end**3 - (full + 0.5) ** 3) / 3.0


def tulap_logs(xp: Any, z: Any, epsilon: Any, delta: Any) -> tuple[Any, Any]:
    """Logarithms of the tail and of the density of Tulap noise at z <= 0, for NumPy and PyTensor; epsilon is positive.

    The tail is ``b**steps (value - cut)``, b = exp(-epsilon), with ``cut = s (b**-steps - 1)`` and ``s = delta b / (1 - b)``: beyond
    the end it is the larger one.
    """
    steps = xp.ceil(-z - 0.5)
    b, rest = xp.exp(-epsilon), -xp.expm1(-epsilon)
    slope = (rest + 2.0 * delta * b) / (1.0 + b)
    log_centre = xp.log1p(-delta) - epsilon - xp.log1p(b)
    grown = slope * (z + steps + 0.5)
    positive = grown > 0.0
    log_value = xp.logaddexp(log_centre, xp.where(positive, xp.log(xp.where(positive, grown, 1.0)), -np.inf))
    cuts = (delta > 0.0) & (steps > 0.0)
    log_cut = xp.log(xp.where(cuts, delta, 0.5)) - epsilon - xp.log(rest) + epsilon * steps
    log_cut = xp.where(cuts, log_cut + xp.log(-xp.expm1(-epsilon * xp.where(cuts, steps, 1.0))), -np.inf)
    inside = log_cut < log_value
    kept = xp.log1p(-xp.exp(xp.where(inside, log_cut - log_value, -1.0)))
    tail = xp.where(inside, log_value - epsilon * steps + kept, -np.inf)
    return tail, xp.where(inside, xp.log(slope) - epsilon * steps, -np.inf)


def _cells(epsilon: float, n: int) -> float:
    """Sum ``(k**2 + 1/12) exp(-epsilon k)`` over k from 1 to n: second moments of cells of width 1."""
    n = min(n, math.ceil(800.0 / epsilon))  # the rest is below 1e-300
    if n < _ADDED_BELOW:
        k = np.arange(1.0, n + 1.0)
        return float(np.sum((k * k + 1.0 / 12.0) * np.exp(-epsilon * k)))
    # So many cells of one slope: the sum is the integral of x**2 exp(-epsilon x) up to a relative 1/n**2.
    return float(2.0 * gammainc(3.0, epsilon * (n + 0.5)) / epsilon**3)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_PANELS = 16
"""Panels of each piece between two kinks, for trade-off functions that are curved there."""
_NEGLIGIBLE = 1e-18
"""The sum over cells ends where a cell adds less than this share."""
_SMALLEST_DENSITY = 1e-12  # of the centre; below it f is 1 - alpha to double precision


@dataclass(frozen=True)
class RecursiveNoise(CanonicalNoise):
    """Canonical noise of any symmetric f by the recursion of Awan and Vadhan (paper 003, Lemma 36).

    Uniform between -1/2 and 1/2 with ``F(-1/2) = c = f(c)``, and ``F(x) = f(1 - F(x + 1))`` below. As f is
    convex every step shrinks the tail by at least ``c / (1 - c)``, so that the work stops when it is zero.
    """

    tradeoff: TradeOff
    _c: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.tradeoff.symmetric:
            raise ValueError(
                f"tradeoff must be symmetric (its own inverse) to have canonical noise, and {self.tradeoff!r} is not"
            )
        c = _fixed_point(self.tradeoff)
        if 1.0 - 2.0 * c < _SMALLEST_DENSITY:
            raise ValueError(f"tradeoff must differ from 1 - alpha: no noise attains that, but {self.tradeoff!r} does")
        object.__setattr__(self, "_c", c)

    def _start(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Steps k from z to the centre, ``z + k`` in (-1/2, 1/2], and both tails there, where F is linear."""
        steps = np.ceil(-z - 0.5)
        at, slope = z + steps, 1.0 - 2.0 * self._c
        return steps, self._c + slope * (at + 0.5), self._c + slope * (0.5 - at)

    def _logs(self, z: Floats) -> tuple[Floats, Floats]:
        """Logarithms of the tail and of the density: no underflow, and one step for all that are left on a straight end."""
        left, low, _ = (np.atleast_1d(part).reshape(-1).copy() for part in self._start(z))
        with np.errstate(divide="ignore"):
            tail = np.log(low)
        density = np.full(low.shape, np.log(1.0 - 2.0 * self._c))
        end = self.tradeoff._linear_end()
        going = np.flatnonzero((left > 0.0) & (tail > -np.inf))
        while going.size:
            if end is not None:
                straight = going[tail[going] <= end[0]]
                tail[straight] += left[straight] * end[1]
                density[straight] += left[straight] * end[1]
                left[straight] = 0.0
                going = going[left[going] > 0.0]
            tail[going], step = self.tradeoff._log_step(tail[going])
            density[going] += step
            left[going] -= 1.0
            going = going[(left[going] > 0.0) & (tail[going] > -np.inf)]
        density[np.isneginf(tail)] = -np.inf
        return tail.reshape(np.shape(z)), density.reshape(np.shape(z))

    def var(self) -> float:
        """Variance: ``4`` times the integral of ``|x| F(x)`` over x < 0, cell by cell, split where F has kinks."""
        # `F(x) = f(1 - F(x + 1))` takes the nodes of one cell to those of the next, so that the work is linear in the number of cells.
        # If F has a kink at x it has one at `x - 1`; hence all kinks lie at the same places within their cells: where the quantiles of
        # the kinks of f lie. Between them Gauss's rule is exact for straight pieces. The relative error is about 1e-12 for piecewise
        # linear f and 1e-10 for smooth ones.
        f = self.tradeoff
        kinks = f._kinks()
        at = np.asarray(self.ppf(1.0 - kinks[(kinks > 0.0) & (kinks < 1.0)]))
        at = np.concatenate([at, -at, [self.ppf(0.0)]])
        at = at[np.isfinite(at)]
        places = at - np.ceil(at - 0.5)  # to (-1/2, 1/2]
        panels = 1 if f._piecewise_linear else _PANELS
        edges = np.unique(np.concatenate([[-0.5, 0.0, 0.5], places]))
        fine = np.unique(np.concatenate([np.linspace(a, b, panels + 1) for a, b in itertools.pairwise(edges)]))
        centre, half = 0.5 * (fine[1:] + fine[:-1]), 0.5 * np.diff(fine)
        z = (centre[:, None] + half[:, None] * _NODES).reshape(-1)
        weight = (half[:, None] * _WEIGHTS).reshape(-1)
        _, low, high = self._start(z)
        total = float(np.sum(weight * (z < 0.0) * -z * low))
        while True:
            low, high = f._errors(high, low)
            z = z - 1.0
            more = float(np.sum(weight * -z * low))
            total += more
            if more <= _NEGLIGIBLE * total or not np.any(low > 0.0):
                return 4.0 * total

    def _quantile(self, low: Floats) -> Floats:
        flat = np.atleast_1d(low).reshape(-1).copy()
        other = 1.0 - flat
        endless = self.tradeoff.power(0.0) == 0.0
        steps = np.zeros(flat.shape)
        going = np.flatnonzero((flat < self._c) & ~((flat == 0.0) & endless))
        while going.size:
            # A symmetric f is its own inverse: low = f(1 - next) means next = 1 - f(low).
            other[going], flat[going] = self.tradeoff._errors(flat[going], other[going])
            steps[going] += 1.0
            going = going[flat[going] < self._c]
        x = (flat - self._c) / (1.0 - 2.0 * self._c) - 0.5 - steps
        return np.where((np.asarray(low) == 0.0) & endless, -np.inf, x.reshape(np.shape(low)))


def _fixed_point(tradeoff: TradeOff) -> float:
    """Give the c in [0, 1/2] with ``f(c) = c``."""
    if tradeoff(0.0) <= 0.0:
        return 0.0
    if tradeoff(0.5) >= 0.5:
        return 0.5
    exact = {"xtol": 1e-300, "rtol": 4 * np.finfo(float).eps, "maxiter": 5000}
    return float(scipy.optimize.brentq(lambda c: tradeoff(c) - c, 0.0, 0.5, **exact))

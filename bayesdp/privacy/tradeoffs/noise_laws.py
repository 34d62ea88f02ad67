"""Canonical noise in closed form: Gaussian for mu-GDP, Tulap for (epsilon, delta)-DP."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, log_ndtr, ndtr, ndtri

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.levels import Floats
from bayesdp.privacy.tradeoffs.noise import CanonicalNoise

_ADDED_BELOW = 1_000_000
"""Terms of a finite sum are added one by one below this; above it they are an integral to 12 digits."""


@dataclass(frozen=True)
class GaussianNoise(CanonicalNoise):
    """``N(0, 1 / mu**2)``, canonical for mu-GDP. Lemma 36 gives another law, equal to it at the half-integers.

    Parameters
    ----------
    mu : float
        Parameter of Gaussian differential privacy, greater than zero.
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _validate.positive_real(self.mu, "mu"))

    def _tails(self, z: Floats) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            return ndtr(self.mu * z), ndtr(-self.mu * z)

    def _density(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return self.mu / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * (self.mu * z) ** 2)

    def _quantile(self, low: Floats) -> Floats:
        return np.asarray(ndtri(low) / self.mu)

    def _log_tail(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(log_ndtr(self.mu * z))

    def _log_density(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(math.log(self.mu / math.sqrt(2.0 * math.pi)) - 0.5 * (self.mu * z) ** 2)

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

    Parameters
    ----------
    epsilon, delta : float
        Zero or greater, not both zero, delta less than 1.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.nonnegative_real(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", _validate.nonnegative_real(self.delta, "delta"))
        if self.delta >= 1.0:
            raise ValueError(f"delta must be at least 0 and less than 1, got {self.delta!r}")
        if self.epsilon == 0.0 and self.delta == 0.0:
            raise ValueError("epsilon and delta must not both be 0: no noise hides a difference entirely")

    def _centre(self) -> tuple[float, float]:
        """``c = F(-1/2)`` and the density ``1 - 2c`` of the centre."""
        b = math.exp(-self.epsilon)
        return (1.0 - self.delta) * b / (1.0 + b), (-math.expm1(-self.epsilon) + 2.0 * self.delta * b) / (1.0 + b)

    def _tails(self, z: Floats) -> tuple[Floats, Floats]:
        c, slope = self._centre()
        steps = np.ceil(-z - 0.5)
        value = c + slope * (z + steps + 0.5)
        b = math.exp(-self.epsilon)
        with np.errstate(over="ignore"):
            taken = steps if self.epsilon == 0.0 else np.expm1(-self.epsilon * steps) / math.expm1(-self.epsilon)
            low = np.maximum(np.exp(-self.epsilon * steps) * value - self.delta * b * taken, 0.0)
        return low, 1.0 - low

    def _density(self, z: Floats) -> Floats:
        steps = np.ceil(-z - 0.5)
        with np.errstate(over="ignore"):
            inside = self._centre()[1] * np.exp(-self.epsilon * steps)
        return np.where(self._tails(z)[0] > 0.0, inside, 0.0)

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

    def _log_tail(self, z: Floats) -> Floats:
        return self._logs(z)[0]

    def _log_density(self, z: Floats) -> Floats:
        return self._logs(z)[1]

    def _logs(self, z: Floats) -> tuple[Floats, Floats]:
        """Logarithms of the tail and of the density, from ``F = b**k (v - s (b**-k - 1))`` with ``s = delta b / (1 - b)``."""
        steps = np.ceil(-z - 0.5)
        log_c = math.log1p(-self.delta) - self.epsilon - math.log1p(math.exp(-self.epsilon))
        slope = self._centre()[1]
        with np.errstate(divide="ignore"):
            log_value = np.logaddexp(log_c, np.log(slope * (z + steps + 0.5)))
        log_density = math.log(slope) - self.epsilon * steps
        if self.delta == 0.0:
            return log_value - self.epsilon * steps, log_density
        with np.errstate(divide="ignore"):
            if self.epsilon == 0.0:
                log_cut = np.log(steps) + math.log(self.delta)
            else:
                ratio = math.log(self.delta) - self.epsilon - math.log(-math.expm1(-self.epsilon))
                # log(exp(epsilon k) - 1) without overflow
                log_cut = ratio + self.epsilon * steps + np.log(-np.expm1(-self.epsilon * steps))
            gone = log_cut >= log_value
            kept = np.log1p(-np.exp(np.where(gone, -np.inf, log_cut - log_value)))
        tail = np.where(gone, -np.inf, log_value - self.epsilon * steps + kept)
        return tail, np.where(gone, -np.inf, log_density)

    def var(self) -> float:
        """Variance, in closed form: ``2 b / (1 - b)**2 + 1/12`` for delta = 0, uniform for epsilon = 0."""
        if self.epsilon == 0.0:
            return 1.0 / (12.0 * self.delta**2)
        b = math.exp(-self.epsilon)
        if self.delta == 0.0:
            return 2.0 * b / math.expm1(-self.epsilon) ** 2 + 1.0 / 12.0
        # Cells of width 1 around the integers -n ... n with density slope b**|k|, and a part of one more on each side.
        slope, end = self._centre()[1], -float(self._quantile(np.asarray(0.0)))
        full = max(math.floor(end - 0.5), 0)
        if end <= 0.5:
            return slope * 2.0 * end**3 / 3.0
        inner = slope * (1.0 / 12.0 + 2.0 * _cells(self.epsilon, full))
        left = full + 0.5
        return inner + 2.0 * slope * math.exp(-self.epsilon * (full + 1)) * (end**3 - left**3) / 3.0


def _cells(epsilon: float, n: int) -> float:
    """Sum ``(k**2 + 1/12) exp(-epsilon k)`` over k from 1 to n: second moments of cells of width 1."""
    n = min(n, math.ceil(800.0 / epsilon))  # the rest is below 1e-300
    if n < _ADDED_BELOW:
        k = np.arange(1.0, n + 1.0)
        return float(np.sum((k * k + 1.0 / 12.0) * np.exp(-epsilon * k)))
    # So many cells of one slope: the sum is the integral of x**2 exp(-epsilon x) up to a relative 1/n**2.
    return float(2.0 * gammainc(3.0, epsilon * (n + 0.5)) / epsilon**3)

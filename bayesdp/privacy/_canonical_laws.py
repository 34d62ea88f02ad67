"""Canonical noise in closed form: Gaussian for mu-GDP, Tulap for (epsilon, delta)-DP."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from bayesdp import _validate
from bayesdp.privacy._canonical import CanonicalNoise
from bayesdp.privacy._levels import Floats

__all__ = ["GaussianNoise", "Tulap"]


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

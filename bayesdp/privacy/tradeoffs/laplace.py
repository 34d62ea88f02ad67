"""The trade-off function of Laplace noise, shifted by a real number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayesdp.privacy.tradeoffs.base import SymmetricTradeOff
from bayesdp.privacy.tradeoffs.levels import Floats

_SAME = 1e-12
"""Losses this close to the largest one, relative to it, are the largest: more is rounding."""


@dataclass(frozen=True)
class LaplaceTradeOff(SymmetricTradeOff):
    """Trade-off function of standard Laplace noise around 0 and around `shift` (Dong, Roth and Su, 2022, Section A.6).

    The best tests reject large values: ``f(alpha) = F(F^-1(1 - alpha) - shift)``, F the distribution function.

    Parameters
    ----------
    shift : float
        How far the two centres are apart, in scales of the noise; greater than zero.

    Examples
    --------
    >>> print(f"{LaplaceTradeOff(1.0)(0.05):.6f}")  # exp(1) * 0.05 is the power
    0.864086
    """

    shift: float

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore"):
            quantile = np.where(a <= 0.5, -np.log(2.0 * np.minimum(a, 0.5)), np.log(2.0 * np.minimum(s, 0.5)))
        moved = quantile - self.shift
        tail = 0.5 * np.exp(-np.abs(moved))
        return np.where(moved <= 0.0, tail, 1.0 - tail), np.where(moved <= 0.0, 1.0 - tail, tail)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            quantile = np.where(a <= 0.5, -np.log(2.0 * np.minimum(a, 0.5)), np.log(2.0 * np.minimum(s, 0.5)))
        return np.asarray(np.exp(np.clip(2.0 * quantile - self.shift, -self.shift, self.shift)))

    def _linear_end(self) -> tuple[float, float] | None:
        return -self.shift - math.log(2.0), -self.shift

    def at_losses(self, losses: Floats) -> tuple[Floats, Floats]:
        """Type I error and power of the tests that reject what has a privacy loss above each of `losses`."""
        x = 0.5 * (losses + self.shift)
        a, power = 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(self.shift - x))
        all_of_it = losses < -self.shift * (1.0 - _SAME)
        none_of_it = losses >= self.shift * (1.0 - _SAME)
        a, power = (np.where(all_of_it, 1.0, np.where(none_of_it, 0.0, own)) for own in (a, power))
        return a, power

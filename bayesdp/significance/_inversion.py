"""p-values of a noisy count under a family of laws, and what inverting them gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq

from bayesdp import _validate
from bayesdp.noise.base import Floats
from bayesdp.significance._families import NEGLIGIBLE, Family
from bayesdp.significance._noise import Noise

__all__ = ["ALTERNATIVES", "FOR_LEVELS", "NoisyCount", "finite_statistic"]

ALTERNATIVES: Final = ("greater", "less", "two-sided")
_WIDEST = 600.0  # log odds beyond which all mass is at the end, as in the families
FOR_LEVELS = 1e-30
"""Masses below this share of the largest have no say in p-values that are compared with 1 - level >= 1e-16."""


def finite_statistic(value: Any) -> float:
    """Accept a finite real number."""
    array = _validate.finite_array(value, "statistic")
    if array.ndim:
        raise TypeError(f"statistic must be one number, got an array of shape {array.shape}")
    return float(array)


@dataclass(frozen=True)
class NoisyCount:
    """A published number ``U = X + N``: X of a family, N noise that is symmetric about 0.

    Parameters
    ----------
    statistic : float
        U.
    family : Family
    noise : Noise
    """

    statistic: float
    family: Family
    noise: Noise

    def greater(self, log_odds: float, negligible: float = NEGLIGIBLE) -> float:
        """``P(X + N >= statistic) = E F(X - statistic)``: rises with the odds."""
        law = self.family.masses(log_odds, negligible)
        return min(1.0, law.expectation(self._cdf(law.points - self.statistic)))

    def less(self, log_odds: float, negligible: float = NEGLIGIBLE) -> float:
        """``P(X + N <= statistic) = E F(statistic - X)``: falls with the odds."""
        law = self.family.masses(log_odds, negligible)
        return min(1.0, law.expectation(self._cdf(self.statistic - law.points)))

    def pvalue(self, log_odds: float, alternative: str) -> float:
        """p-value; two-sided is twice the smaller one, exact because the noise is continuous."""
        if alternative == "greater":
            return self.greater(log_odds)
        if alternative == "less":
            return self.less(log_odds)
        return min(1.0, 2.0 * min(self.greater(log_odds), self.less(log_odds)))

    def bounds(self, level: float, alternative: str) -> tuple[float, float]:
        """Log odds with a p-value above ``1 - level``; infinite ends where no odds are ruled out."""
        error = 1.0 - _validate.probability(level, "level")
        if alternative == "greater":
            return self.lower(error), math.inf
        if alternative == "less":
            return -math.inf, self.upper(error)
        return self.lower(0.5 * error), self.upper(0.5 * error)

    def lower(self, error: float) -> float:
        """Log odds at which `greater` is `error`; -inf if it is never below, inf if it is never above."""
        return _crossing(lambda log_odds: self.greater(log_odds, FOR_LEVELS), error)

    def upper(self, error: float) -> float:
        """Log odds at which `less` is `error`; inf if it is never below, -inf if it is never above."""
        return -_crossing(lambda log_odds: self.less(-log_odds, FOR_LEVELS), error)

    def _cdf(self, x: Floats) -> Floats:
        return np.asarray(self.noise.cdf(x), dtype=np.float64)


def _crossing(rising: Callable[[float], float], level: float) -> float:
    """Where a rising function of the log odds takes a value; an infinity where its limits are on one side of it."""
    if rising(-math.inf) >= level:
        return -math.inf
    if rising(math.inf) <= level:
        return math.inf
    width = 1.0
    while width < _WIDEST and not rising(-width) < level < rising(width):
        width *= 2.0
    left, right = -min(width, _WIDEST), min(width, _WIDEST)
    if rising(left) >= level:  # the limit is nearer than rounding
        return -math.inf
    if rising(right) <= level:
        return math.inf
    return float(brentq(lambda log_odds: rising(log_odds) - level, left, right, xtol=1e-13, rtol=1e-14))

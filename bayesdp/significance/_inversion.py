"""p-values of a noisy count under a family of laws, and what inverting them gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp import _validate
from bayesdp.noise.base import Floats
from bayesdp.significance._families import NEGLIGIBLE, CountLaws
from bayesdp.significance._noise import Noise

ALTERNATIVES: Final = ("greater", "less", "two-sided")
_COMMON = 1e-12  # tails above it keep their digits without the smallest masses
_UNIFORM = 1e-6  # what rounding of the statistic may do to a p-value
_WIDEST = 600.0  # log odds beyond which all mass is at the end, as in the families
FOR_LEVELS = 1e-30
"""Masses below this share of the largest have no say in p-values that are compared with 1 - level >= 1e-16."""


def finite_statistic(value: Any) -> float:
    """Accept a finite real number."""
    array = _validate.finite_array(value, "statistic")
    if array.ndim:
        raise TypeError(f"statistic must be one number, got an array of shape {array.shape}")
    return float(array)


def at_odds_ratios(function: Callable[[float], float], odds_ratio: npt.ArrayLike) -> Any:
    """A function of the log odds ratio at one odds ratio (a float) or an array of them (an array of that shape)."""
    ratios = np.asarray(odds_ratio, dtype=np.float64)
    if np.any(~(ratios >= 0.0)):
        raise ValueError(f"odds_ratio must be at least 0, got {odds_ratio!r}")
    with np.errstate(divide="ignore"):
        logs = np.log(ratios).reshape(-1).tolist()
    values = np.array([function(log_odds) for log_odds in logs])
    return values.reshape(ratios.shape) if ratios.ndim else float(values[0])


@dataclass(frozen=True)
class NoisyCount:
    """A published number `U = X + N`: X of a family, N noise that is symmetric about 0."""

    statistic: float
    family: CountLaws
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
        self._check_resolution(log_odds)
        if alternative == "greater":
            return self._precise(self.greater, log_odds)
        if alternative == "less":
            return self._precise(self.less, log_odds)
        return min(1.0, 2.0 * min(self._precise(self.greater, log_odds), self._precise(self.less, log_odds)))

    def _precise(self, tail: Callable[[float, float], float], log_odds: float) -> float:
        """A tail probability with all its digits."""
        # `FOR_LEVELS` leaves out less than 1e-30 of each of some millions of masses: too little to matter for a tail above 1e-12.
        rough = tail(log_odds, FOR_LEVELS)
        return rough if rough > _COMMON else tail(log_odds, NEGLIGIBLE)

    def _check_resolution(self, log_odds: float) -> None:
        """Refuse noise so narrow that the statistic, a binary64 number, cannot carry it: its p-value would not be uniform.

        The statistic is known to one spacing s of numbers of its size. That moves the p-value by at most the largest mass times
        what noise and whole numbers can put into an interval of length s, ``P(|N| < s / 2) + s``.
        """
        largest = float(np.max(self.family.masses(log_odds, FOR_LEVELS).weights))
        spacing = float(np.spacing(max(abs(self.statistic), float(self.family.high), 1.0)))
        error = largest * (1.0 - 2.0 * float(self.noise.cdf(-0.5 * spacing)) + spacing)
        if error > _UNIFORM and self.family.low < self.family.high:
            raise ValueError(
                f"the noise {self.noise!r} is too narrow for the statistic {self.statistic!r}: binary64 numbers of this size are "
                f"{spacing:.1e} apart, so that the p-value could be off by {error:.1e}. Noise that narrow protects nothing: test "
                "without privacy"
            )

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

"""Tests and confidence intervals for a proportion, from a count with canonical noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from bayesdp import _validate
from bayesdp.privacy.canonical import CanonicalNoise
from bayesdp.privacy.tradeoffs.base import TradeOff, checked
from bayesdp.significance._families import (
    ALTERNATIVES,
    FOR_LEVELS,
    NEGLIGIBLE,
    Binomial,
    ConfidenceInterval,
    NoisyCount,
    Tested,
    documented_test,
    finite_statistic,
)
from bayesdp.significance.corners import in_words

_GRID = 33  # proportions on each side of the estimate at which a two-sided interval looks for its end


@dataclass(frozen=True)
class BinomialResult(Tested):
    """What a noisy count of successes says about their probability.

    Parameters
    ----------
    n, noise, tradeoff : int, CanonicalNoise, str
        Number of trials, law of N, and the trade-off function f in words.
    """

    n: int
    noise: CanonicalNoise
    tradeoff: str

    @property
    def _count(self) -> NoisyCount:
        return NoisyCount(self.statistic, Binomial(self.n), self.noise)

    def confidence_interval(self, level: float = 0.95) -> ConfidenceInterval:
        """Proportions whose p-value is above ``1 - level``; one-sided for a one-sided alternative.

        The two-sided one is the smallest interval that holds them all: its ends are looked for on a grid from 0 and from 1,
        because nobody has proved that the two-sided p-value falls on both sides of ``Z / n`` (the one-sided ones do).

        It is (1, 1) or (0, 0) where only that end is left, or not even that: for a statistic far outside 0 to n.
        """
        error = 1.0 - _validate.probability(level, "level")
        if self.alternative == "two-sided":
            estimate = min(max(self.statistic / self.n, 0.0), 1.0)
            return ConfidenceInterval(self._end(0.0, estimate, error), self._end(1.0, estimate, error))
        low, high = self._count.bounds(level, self.alternative)
        return ConfidenceInterval(float(expit(low)), float(expit(high)))

    def _end(self, outside: float, estimate: float, error: float) -> float:
        """Where the two-sided p-value first exceeds `error` on the way in from 0 or 1; the estimate if nowhere."""

        def above(p: float) -> float:
            return _both_sides(self._count, self.n, p, FOR_LEVELS) - error

        grid = np.linspace(outside, estimate, _GRID).tolist()
        for i, inner in enumerate(grid):
            if above(inner) > 0.0:
                return float(brentq(above, inner, grid[i - 1], xtol=1e-15)) if i else outside
        return estimate


@documented_test
def binomial_test(
    statistic: float, n: int, p: float = 0.5, *, tradeoff: TradeOff, alternative: str = "two-sided"
) -> BinomialResult:
    """Test a proportion from a count of successes with canonical noise.

    ``p-value = E F(X - Z)`` for "greater", X binomial under the null: rejecting for small ones is the uniformly most
    powerful f-DP test. "two-sided" is ``P(|U - n p| >= |Z - n p|)``, U = X + N: exact in size and nearly unbiased, but not
    the most powerful unbiased test. Intervals invert the tests over the proportion (not over the estimate).

    Source: Awan and Slavkovic (2018, 2020) for (epsilon, delta); Awan and Vadhan (2023) for any f.

    Parameters
    ----------
    statistic : float
        ``Z = X + N``, N a draw of ``tradeoff.canonical_noise()``.
    n : int
        Number of trials, public.
    p : float, default 0.5
        Proportion of the null hypothesis, strictly between 0 and 1.
    tradeoff : TradeOff
        Symmetric f that the noise is canonical for; neighbours differ by at most one success.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> result = binomial_test(18.7, 30, 0.4, tradeoff=approximate_dp(1.0, 0.01), alternative="greater")
    >>> print(f"{result.pvalue:.6f} {result.confidence_interval(0.95).low:.5f}")
    0.013008 0.45791
    """
    z = finite_statistic(statistic)
    trials = _validate.positive_integer(n, "n")
    if trials >= _validate.MAX_COUNT:
        raise ValueError(f"n must be less than 2**53, got {n!r}")
    null = _validate.probability(p, "p")
    _validate.choice(alternative, ALTERNATIVES, "alternative")
    f = checked(tradeoff, "tradeoff")
    noise = f.canonical_noise()
    count = NoisyCount(z, Binomial(trials), noise)
    if alternative == "two-sided":
        pvalue = _both_sides(count, trials, null)
    else:
        pvalue = count.pvalue(math.log(null) - math.log1p(-null), alternative)
    return BinomialResult(z, pvalue, alternative, null, trials, noise, in_words(f))


def _both_sides(count: NoisyCount, n: int, p: float, negligible: float = NEGLIGIBLE) -> float:
    """``P(|X + N - n p| >= |Z - n p|)``."""
    law = count.family.masses(float(logit(p)), negligible)
    centre = n * p
    distance = abs(count.statistic - centre)
    at = law.points - centre
    tails = np.asarray(count.noise.cdf(at - distance)) + np.asarray(count.noise.cdf(-at - distance))
    return min(1.0, law.expectation(tails))

"""What a p-value that is known at every null odds ratio gives: intervals, a median-unbiased estimate, a confidence distribution."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy.typing as npt

from bayesdp.significance._inversion import NoisyCount, at_odds_ratios


class ConfidenceInterval(NamedTuple):
    """Ends of a confidence interval, as SciPy's results name them."""

    low: float
    high: float


class Inverted(ABC):
    """A test of an odds ratio that can be inverted."""

    alternative: str

    @property
    @abstractmethod
    def _count(self) -> NoisyCount:
        """The noisy number, with the laws of count and noise."""

    def confidence_interval(self, level: float = 0.95) -> ConfidenceInterval:
        """Odds ratios whose p-value is above ``1 - level``: exact coverage, as the p-value is uniform.

        One-sided for a one-sided alternative: [low, inf) for "greater", [0, high) for "less".

        Parameters
        ----------
        level : float, default 0.95
            Between 0 and 1.

        Returns
        -------
        ConfidenceInterval
            ``low`` is 0, or ``high`` infinite, where no odds ratio however extreme is ruled out. (inf, inf) or (0, 0),
            an interval without any odds ratio, where all are: the statistic is then far off what the margins allow.

        Raises
        ------
        TypeError, ValueError
            If level is not a number between 0 and 1.
        """
        low, high = self._count.bounds(level, self.alternative)
        return ConfidenceInterval(_exp(low), _exp(high))

    @property
    def estimate(self) -> float:
        """Median-unbiased estimate of the odds ratio: as often too small as too large, whatever the truth.

        The odds ratio at which both one-sided p-values are one half, and so inside every two-sided confidence interval of
        this result that is not empty. 0 or infinite where the statistic is at the end of what the margins allow; NaN where they
        determine the table, so that nothing can be said. (R's ``fisher.test`` prints the conditional maximum-likelihood estimate
        of a table without noise.)

        Examples
        --------
        >>> from bayesdp.privacy.tradeoffs import approximate_dp
        >>> from bayesdp.significance import odds_ratio_test
        >>> result = odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=approximate_dp(1.0, 0.01))
        >>> round(result.estimate, 4), round(float(result.confidence_distribution(result.estimate)), 6)
        (2.95, 0.5)
        """
        return math.nan if self.determined else _exp(self._count.lower(0.5))

    def confidence_distribution(self, odds_ratio: npt.ArrayLike) -> Any:
        """One-sided p-value ("greater") as a function of the null odds ratio: a distribution function of the odds ratio.

        Its quantiles are the confidence bounds. The rest below its limit at 0, and above that at infinity, is confidence
        in those ends.

        Parameters
        ----------
        odds_ratio : float or array_like
            At least 0; infinity is allowed.

        Returns
        -------
        float or ndarray
            Of the shape of odds_ratio; rising.

        Raises
        ------
        ValueError
            If an odds ratio is negative or NaN.
        """
        return at_odds_ratios(self._count.greater, odds_ratio)

    @property
    def determined(self) -> bool:
        """Whether the margins leave a single table: then nothing published says anything about the odds ratio."""
        family = self._count.family
        return family.low == family.high


def _exp(log: float) -> float:
    return math.inf if log == math.inf else math.exp(log)

"""Tests of the odds ratio of a 2 x 2 table whose margins are exact (paper 003, Section 5.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.base import TradeOff, checked
from bayesdp.significance._families import (
    ALTERNATIVES,
    ConfidenceInterval,
    Hypergeometric,
    Inverted,
    NoisyCount,
    finite_statistic,
    margins,
)
from bayesdp.significance._noise import Noise, in_words
from bayesdp.significance.rules import Rule, rule_of

__all__ = ["ConfidenceInterval", "OddsRatioResult", "odds_ratio_test", "result_of"]


@dataclass(frozen=True)
class OddsRatioResult(Inverted):
    """What a noisy corner of a 2 x 2 table with exact margins says about the odds ratio ``x11 x22 / (x12 x21)``.

    Parameters
    ----------
    statistic : float
        ``U = x11 + N``, N the noise.
    pvalue : float
        Uniform at the null odds ratio, and smaller the further the truth is on the alternative's side.
    alternative : {"greater", "less", "two-sided"}
    null : float
        Odds ratio of the null hypothesis; its boundary for one-sided alternatives.
    rows : tuple of int
        Row totals.
    column : int
        Total of the first column.
    noise : Noise
        Law of N.
    tradeoff : str
        The trade-off function f in words: how hard it is to tell two tables that differ by one move (+1, -1, -1, +1).
    optimal : bool
        Whether the noise is canonical for f, the alternative one-sided, and the table not determined by its margins: then the
        test that rejects for small p is uniformly most powerful among the unbiased tests that satisfy Semi-DP with f. No
        two-sided p-value is called that.
    cell : str or None
        Labels of the corner x11, where a labelled release was tested.
    published : float or None
        The published noisy corner, or the weighted mean of several, where an integer release was tested: the statistic less
        `uniform`.
    uniform : float or None
        The U(-1/2, 1/2) that turned an integer release into canonical noise (of several releases, divided by the sum of their
        weights). Drawn once and kept: the p-value is randomised, and drawing again until it is small would not have the size
        that is stated.
    """

    statistic: float
    pvalue: float
    alternative: str
    null: float
    rows: tuple[int, int]
    column: int
    noise: Noise
    tradeoff: str
    optimal: bool
    cell: str | None = None
    published: float | None = None
    uniform: float | None = None

    @property
    def _count(self) -> NoisyCount:
        return NoisyCount(self.statistic, Hypergeometric(*self.rows, self.column), self.noise)

    def unbiased_test(self, alpha: float = 0.05) -> Rule:
        """Two-sided unbiased test of size alpha that this statistic can be put to: ``P(|U - k| > m)``.

        Its decision is ``result.unbiased_test(alpha).rejects(result.statistic)``. See `unbiased_odds_ratio`.
        """
        family = Hypergeometric(*self.rows, self.column)
        return rule_of("noisy-two-sided", alpha, self.null, family, self.noise, self.tradeoff)

    @property
    def claim(self) -> str:
        """What the test is, in a sentence."""
        if self.determined:
            return (
                f"no test of the odds ratio: the margins determine the table (the corner is {self._count.family.low}), whatever the "
                "odds ratio; the p-value compares the noise with its own law, and every odds ratio has the same one"
            )
        if self.optimal:
            return (
                f"uniformly most powerful among the unbiased tests that satisfy Semi-DP with f of {self.tradeoff} "
                f"(one-sided, {self.alternative})"
            )
        if self.alternative == "two-sided":
            return f"exact size under f of {self.tradeoff}; twice the smaller one-sided p-value, which is not the UMPU test"
        return f"exact size under {self.tradeoff}; the noise is not canonical, so that the test is not the UMPU one"


def odds_ratio_test(
    statistic: float,
    *,
    rows: tuple[int, int],
    column: int,
    tradeoff: TradeOff,
    alternative: str = "greater",
    null: float = 1.0,
) -> OddsRatioResult:
    """Test the odds ratio of a 2 x 2 table from a noisy corner and the exact margins.

    ``p = E F(H - U)`` for "greater", H the corner under the null odds ratio given the margins (Fisher's noncentral
    hypergeometric law) and F canonical noise of f. It is uniform under the null, and rejecting for ``p <= alpha`` is the
    uniformly most powerful unbiased test under Semi-DP. "two-sided" doubles the smaller one-sided p-value: of exact size,
    but not UMPU (see `umpu_odds_ratio`, which needs the data, and `unbiased_odds_ratio`).

    Source: paper 003, Theorem 37. The odds ratio is ``x11 x22 / (x12 x21)``, see docs/CORRECTIONS.md.

    Parameters
    ----------
    statistic : float
        ``U = x11 + N``, N a draw of ``tradeoff.canonical_noise()`` that was added before the corner was released.
    rows : tuple of int
        Totals of the two rows.
    column : int
        Total of the first column.
    tradeoff : TradeOff
        Symmetric f that the noise is canonical for, as of `bayesdp.privacy.approximate_dp`.
    alternative : {"greater", "less", "two-sided"}
    null : float, default 1
        Odds ratio of the null hypothesis, greater than 0.

    Returns
    -------
    OddsRatioResult

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid: margins that no table has, a trade-off function without canonical noise.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> result = odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=approximate_dp(1.0, 0.01))
    >>> low, high = result.confidence_interval(0.95)
    >>> print(f"{result.pvalue:.6f} [{low:.4f}, {high})")
    0.010337 [1.3680, inf)
    """
    u = finite_statistic(statistic)
    f = checked(tradeoff, "tradeoff")
    return result_of(u, margins(rows, column), f.canonical_noise(), in_words(f), alternative, null, canonical=True)


def result_of(
    statistic: float,
    family: Hypergeometric,
    noise: Noise,
    tradeoff: str,
    alternative: str,
    null: float,
    *,
    canonical: bool,
    **labels: Any,
) -> OddsRatioResult:
    """The result of a test whose family and noise are known; `labels` are the last fields of `OddsRatioResult`."""
    _validate.choice(alternative, ALTERNATIVES, "alternative")
    ratio = _validate.positive_real(null, "null")
    pvalue = NoisyCount(statistic, family, noise).pvalue(math.log(ratio), alternative)
    optimal = canonical and alternative != "two-sided" and family.low < family.high
    rows = (family.r1, family.r2)
    return OddsRatioResult(statistic, pvalue, alternative, ratio, rows, family.c1, noise, tradeoff, optimal, **labels)

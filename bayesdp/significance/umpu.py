"""Tests of the odds ratio of a 2 x 2 table with exact margins as functions, with thresholds, size and power."""

from __future__ import annotations

from bayesdp import _validate
from bayesdp.privacy.tradeoffs import TradeOff
from bayesdp.privacy.tradeoffs.profile import checked
from bayesdp.significance._families import margins
from bayesdp.significance._inversion import ALTERNATIVES
from bayesdp.significance._noise import in_words
from bayesdp.significance.rules import Form, Rule, rule_of


def umpu_odds_ratio(
    alpha: float,
    *,
    rows: tuple[int, int],
    column: int,
    tradeoff: TradeOff,
    alternative: str = "greater",
    null: float = 1.0,
) -> Rule:
    """The uniformly most powerful unbiased test of the odds ratio under Semi-DP, as a function of the confidential corner.

    One-sided, ``phi(x) = F(x - m)`` with m such that the size is alpha (paper 003, Theorem 37). Two-sided,
    ``phi(x) = F(|x - k| - m)``, k and m such that the size is alpha and the power is least at the null: the form that Awan
    and Slavkovic (2018) prove for binomial data. docs/TWO-SIDED-TEST.md proves it for the odds ratio and every symmetric
    trade-off function; the tests compare its power with that of the best test, by linear programming, on small margins.

    Parameters
    ----------
    alpha : float
        Size, between 0 and 1.
    rows, column, tradeoff, alternative, null
        As for `odds_ratio_test`.

    Returns
    -------
    Rule
        With ``probability(x11)``, ``power(odds_ratio)``, ``threshold``, and ``decide(x11)``, which draws the one bit that
        the test publishes.

    Raises
    ------
    TypeError, ValueError
        As `odds_ratio_test`.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import gaussian_dp
    >>> rule = umpu_odds_ratio(0.05, rows=(12, 8), column=10, tradeoff=gaussian_dp(1.0), alternative="two-sided")
    >>> print(f"{rule.centre:.6f} {rule.size:.6f} {rule.power(0.2):.6f} {rule.power(5.0):.6f}")
    6.000000 0.050000 0.240697 0.240697
    """
    f = checked(tradeoff, "tradeoff")
    _validate.choice(alternative, ALTERNATIVES, "alternative")
    forms: dict[str, Form] = {"greater": "greater", "less": "less", "two-sided": "umpu-two-sided"}
    return rule_of(forms[alternative], alpha, null, margins(rows, column), f.canonical_noise(), in_words(f))


def unbiased_odds_ratio(
    alpha: float, *, rows: tuple[int, int], column: int, tradeoff: TradeOff, null: float = 1.0
) -> Rule:
    """The two-sided unbiased test of a *noisy* corner: reject if ``|U - k| > m``.

    k and m are such that the size is alpha and the derivative of the power at the null is 0. It is post-processing of
    U, and not the UMPU test, which no function of U alone attains.

    Parameters
    ----------
    alpha : float
        Size, between 0 and 1.
    rows, column, tradeoff, null
        As for `odds_ratio_test`.

    Returns
    -------
    Rule
        With ``rejects(statistic)``, ``power(odds_ratio)``, ``centre`` k and ``threshold`` m.

    Raises
    ------
    TypeError, ValueError
        As `odds_ratio_test`.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import gaussian_dp
    >>> rule = unbiased_odds_ratio(0.05, rows=(12, 8), column=10, tradeoff=gaussian_dp(1.0))
    >>> print(f"{rule.centre:.4f} {rule.threshold:.4f} {rule.power(5.0):.6f} {rule.rejects(10.2)}")
    6.0000 2.9449 0.239143 True
    """
    f = checked(tradeoff, "tradeoff")
    return rule_of("noisy-two-sided", alpha, null, margins(rows, column), f.canonical_noise(), in_words(f))

"""Tests, p-values and confidence intervals from noisy numbers, exact in size. No PyMC.

- `odds_ratio_test`: the odds ratio of a 2 x 2 table with exact margins, from a noisy corner (paper 003, Theorem 37);
- `odds_ratio_test_from_release`: the same from a release, with the trade-off function worked out;
- `odds_ratio_test_from_releases`: one test from several releases of the table;
- `common_odds_ratio_test`: an odds ratio that several 2 x 2 tables (strata) have in common, from their releases;
- `independence_test_from_releases`: rows and columns of a larger table with exact margins;
- `umpu_odds_ratio`, `unbiased_odds_ratio`: the tests as functions, with thresholds, size and power;
- `posterior_odds_ratio`: the odds ratio in a posterior, with the test of the same release beside it;
- `binomial_test`: a proportion, from a noisy count.
"""

from bayesdp.significance._families import ConfidenceInterval
from bayesdp.significance.binomial import BinomialResult, binomial_test
from bayesdp.significance.independence import IndependenceResult, independence_test_from_releases
from bayesdp.significance.odds_ratio import (
    CommonOddsRatioResult,
    OddsRatioResult,
    common_odds_ratio_test,
    odds_ratio_test,
    odds_ratio_test_from_release,
    odds_ratio_test_from_releases,
)
from bayesdp.significance.posterior import PosteriorOddsRatio, posterior_odds_ratio
from bayesdp.significance.rules import Rule, umpu_odds_ratio, unbiased_odds_ratio

__all__ = [
    "BinomialResult", "CommonOddsRatioResult", "ConfidenceInterval", "IndependenceResult", "OddsRatioResult", "PosteriorOddsRatio",
    "Rule", "binomial_test", "common_odds_ratio_test", "independence_test_from_releases", "odds_ratio_test",
    "odds_ratio_test_from_release", "odds_ratio_test_from_releases", "posterior_odds_ratio", "umpu_odds_ratio",
    "unbiased_odds_ratio",
]  # fmt: skip

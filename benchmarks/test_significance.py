"""Tests of the odds ratio and of proportions: speed at a million, beside SciPy's Fisher test and OpenDP's canonical noise."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp
from bayesdp.significance import binomial_test, odds_ratio_test, umpu_odds_ratio

MILLION = {"rows": (10**6, 10**6), "column": 10**6}
_SECONDS: dict[str, float] = {}


@pytest.mark.parametrize(
    ("name", "f"),
    [("Tulap", approximate_dp(1.0, 1e-9)), ("Gaussian", gaussian_dp(1.0))],
)
@pytest.mark.benchmark(group="odds ratio, margins of a million")
def test_p_value(benchmark, enter, name: str, f: TradeOff) -> None:
    benchmark.pedantic(
        odds_ratio_test, args=(500_600.4,), kwargs={**MILLION, "tradeoff": f}, rounds=20, warmup_rounds=2
    )
    _SECONDS[name] = benchmark.stats.stats.median
    enter(f"p-value of an odds ratio, margins of a million, {name} noise", 1e3 * _SECONDS[name], "ms", at_most=50)


@pytest.mark.benchmark(group="odds ratio, margins of a million")
def test_interval(benchmark, enter) -> None:
    result = odds_ratio_test(500_600.4, **MILLION, tradeoff=approximate_dp(1.0), alternative="two-sided")
    benchmark.pedantic(result.confidence_interval, rounds=5)
    enter("95% interval of an odds ratio, margins of a million", 1e3 * benchmark.stats.stats.median, "ms")


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
@pytest.mark.benchmark(group="odds ratio, margins of a million")
def test_umpu(benchmark, enter, alternative: str) -> None:
    given = {**MILLION, "tradeoff": approximate_dp(1.0), "alternative": alternative}
    rule = benchmark.pedantic(umpu_odds_ratio, args=(0.05,), kwargs=given, rounds=3)
    enter(f"UMPU test ({alternative}), margins of a million: threshold", 1e3 * benchmark.stats.stats.median, "ms")
    enter(f"UMPU test ({alternative}), margins of a million: size less 0.05", abs(rule.size - 0.05), "", at_most=1e-9)


@pytest.mark.benchmark(group="odds ratio, margins of a million")
def test_fisher_of_scipy(benchmark, enter) -> None:
    table = [[500_600, 499_400], [499_400, 500_600]]
    benchmark.pedantic(fisher_exact, args=(table,), kwargs={"alternative": "greater"}, rounds=20, warmup_rounds=2)
    seconds = benchmark.stats.stats.median
    enter("Fisher's exact test without noise, SciPy, margins of a million", 1e3 * seconds, "ms")


@pytest.mark.parametrize("n", [1000, 10**6])
@pytest.mark.benchmark(group="binomial proportion")
def test_binomial_beside_opendp(benchmark, enter, n: int) -> None:
    canonical = pytest.importorskip("opendp.extras.numpy.canonical")
    z, theta = 0.3 * n + 1.7 * math.sqrt(n) + 0.4, 0.3
    f = approximate_dp(1.0, 1e-6)
    given = {"statistic": z, "n": n, "p": theta, "tradeoff": f, "alternative": "greater"}
    result = benchmark.pedantic(binomial_test, kwargs=given, rounds=10, warmup_rounds=1)
    ours = benchmark.stats.stats.median
    enter(f"p-value of a proportion, n = {n:,}", 1e3 * ours, "ms")

    their_test = canonical.BinomialCND(estimate=z, d_in=1.0, d_out=(1.0, 1e-6), size=n)
    started = time.perf_counter()
    theirs = np.asarray(their_test.p_value(theta, "right")).item()
    seconds = time.perf_counter() - started
    enter(f"the same by OpenDP, n = {n:,}", 1e3 * seconds, "ms")
    enter(f"relative difference to OpenDP, n = {n:,}", abs(theirs / result.pvalue - 1.0), "", at_most=1e-9)


def _coverage(interval: Callable[[float], tuple[float, float] | None], n: int, theta: float) -> tuple[float, float]:
    """Share of intervals that cover, and share that exist: the count by enumeration, its noise at 10 quantiles."""
    offsets = np.asarray(approximate_dp(1.0, 0.01).canonical_noise().ppf((np.arange(10) + 0.5) / 10))
    covered = given = 0.0
    for x, mass in enumerate(binom.pmf(np.arange(n + 1), n, theta)):
        if mass > 1e-5:
            ends = [found for e in offsets.tolist() if (found := interval(x + e)) is not None]
            given += mass * len(ends) / offsets.size
            covered += mass * sum(low <= theta <= high for low, high in ends) / offsets.size
    return covered / given, given


def test_coverage_beside_opendp(enter) -> None:
    canonical = pytest.importorskip("opendp.extras.numpy.canonical")
    n, theta = 30, 0.1

    def ours(z: float) -> tuple[float, float]:
        return binomial_test(z, n, tradeoff=approximate_dp(1.0, 0.01)).confidence_interval(0.95)

    def theirs(z: float) -> tuple[float, float] | None:
        try:
            low, high = canonical.BinomialCND(z, 1.0, (1.0, 0.01), n).confidence_interval(0.05)
        except ValueError:  # "the decision boundary of the predicate is outside the bounds"
            return None
        return float(low), float(high)

    covered, given = _coverage(ours, n, theta)
    enter("coverage of a 95% interval, n = 30, theta = 0.1", covered, "", at_least=0.94)
    covered, share = _coverage(theirs, n, theta)
    enter("the same by OpenDP, where it gives an interval", covered, "")
    enter("how often OpenDP gives an interval there, ours always", share / given, "")

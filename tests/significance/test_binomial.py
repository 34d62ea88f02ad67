"""Binomial proportions: independent numbers, the size of the tests, coverage over theta, and large n."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp
from bayesdp.significance import binomial_test

F = approximate_dp(1.0, 0.01)


def test_numbers_computed_elsewhere() -> None:
    greater = binomial_test(18.7, 30, 0.4, tradeoff=F, alternative="greater")
    assert greater.pvalue == pytest.approx(0.0130083231, abs=1e-10)
    both = binomial_test(18.7, 30, 0.5, tradeoff=F)
    assert both.pvalue == pytest.approx(0.2198143498, abs=1e-10)
    assert greater.confidence_interval(0.95) == pytest.approx((0.45791, 1.0), abs=5e-6)
    less = binomial_test(18.7, 30, 0.4, tradeoff=F, alternative="less")
    assert less.confidence_interval(0.95) == pytest.approx((0.0, 0.77125), abs=5e-6)
    assert both.confidence_interval(0.95) == pytest.approx((0.42770, 0.79058), abs=5e-6)


@pytest.mark.parametrize("f", [F, approximate_dp(0.5), gaussian_dp(1.0)], ids=repr)
@pytest.mark.parametrize("theta", [0.1, 0.5, 0.83])
def test_size_and_coverage_over_theta(f: TradeOff, theta: float) -> None:
    # P(p <= alpha) = 1 - coverage at the truth. Two published implementations fail here: sizes of 1 - alpha, intervals
    # around the estimate. The law of Z from SciPy's masses, its noise at quantiles (a midpoint rule in each cell).
    n, noise = 12, f.canonical_noise()
    grid = (np.arange(60) + 0.5) / 60
    offsets = np.asarray(noise.ppf(grid))
    for alternative in ("greater", "less", "two-sided"):
        p = np.array([
            [binomial_test(x + e, n, theta, tradeoff=f, alternative=alternative).pvalue for e in offsets]
            for x in range(n + 1)
        ])  # fmt: skip
        for alpha in (0.05, 0.25):
            size = binom.pmf(range(n + 1), n, theta) @ (p <= alpha).mean(axis=1)
            assert size == pytest.approx(alpha, abs=1.0 / grid.size)


@pytest.mark.parametrize("z", [-4.0, -0.3, 0.0, 2.2, 6.0, 9.9, 12.0, 12.4, 17.0])
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("f", [approximate_dp(0.8, 0.02), gaussian_dp(0.6)], ids=repr)
def test_the_interval_holds_exactly_the_proportions_that_are_not_rejected(
    f: TradeOff, z: float, alternative: str
) -> None:
    low, high = binomial_test(z, 12, 0.5, tradeoff=f, alternative=alternative).confidence_interval(0.9)
    for theta in np.linspace(0.001, 0.999, 230):
        p = binomial_test(z, 12, float(theta), tradeoff=f, alternative=alternative).pvalue
        if abs(p - 0.1) > 1e-9:
            assert (p > 0.1) == (low < theta < high)


def test_the_one_sided_p_value_rises_with_the_proportion_up_to_the_bound() -> None:
    theta = np.linspace(0.01, 0.99, 99)
    rising = [binomial_test(6.4, 12, p, tradeoff=F, alternative="greater").pvalue for p in theta]
    assert np.all(np.diff(rising) > 0)
    low = binomial_test(6.4, 12, tradeoff=F, alternative="greater").confidence_interval(0.8).low
    assert binomial_test(6.4, 12, low, tradeoff=F, alternative="greater").pvalue == pytest.approx(0.2, abs=1e-11)


def test_without_noise_it_is_the_binomial_test() -> None:
    # Almost no noise: the statistic is the count less 1/2, whose upper tail is that of the count.
    result = binomial_test(8.5, 20, 0.3, tradeoff=approximate_dp(80.0), alternative="greater")
    assert result.pvalue == pytest.approx(binomtest(9, 20, 0.3, alternative="greater").pvalue, rel=1e-12)


@pytest.mark.parametrize("f", [F, gaussian_dp(0.1)], ids=repr)
def test_a_million_trials(f: TradeOff) -> None:
    n, z = 10**6, 301_000.4
    result = binomial_test(z, n, 0.3, tradeoff=f, alternative="greater")
    x = np.arange(n + 1)
    assert result.pvalue == pytest.approx(binom.pmf(x, n, 0.3) @ f.canonical_noise().cdf(x - z), rel=1e-7)
    low, high = binomial_test(z, n, 0.3, tradeoff=f).confidence_interval(0.95)
    spread = 1.959964 * np.sqrt(0.301 * 0.699 / n + (10 / n) ** 2 * (f != F))
    assert (low, high) == pytest.approx((0.3010004 - spread, 0.3010004 + spread), abs=3e-6)


def test_no_overflow() -> None:
    for z, epsilon in itertools.product((-1e6, 3.0, 1e6), (1e-3, 1.0, 1e4)):
        for alternative in ("greater", "less", "two-sided"):
            result = binomial_test(z, 10, 0.5, tradeoff=approximate_dp(epsilon), alternative=alternative)
            assert 0.0 <= result.pvalue <= 1.0
            low, high = result.confidence_interval()
            assert 0.0 <= low <= high <= 1.0


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"n": 0}, ValueError, "n must be"),
        ({"n": 2.5}, TypeError, "n must be"),
        ({"p": 0.0}, ValueError, "p must lie strictly between 0 and 1"),
        ({"p": 40}, ValueError, "p must lie"),
        ({"statistic": np.inf}, ValueError, "statistic"),
        ({"tradeoff": 1.0}, TypeError, "tradeoff"),
        ({"alternative": "two.sided"}, ValueError, "two-sided"),
        ({"n": 2**53}, ValueError, "2\\*\\*53"),
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, object], error: type[Exception], message: str) -> None:
    given = {"statistic": 3.0, "n": 10, "p": 0.5, "tradeoff": F, **wrong}
    with pytest.raises(error, match=message):
        binomial_test(**given)  # type: ignore[arg-type]


def test_bad_questions_to_a_result() -> None:
    result = binomial_test(3.0, 10, tradeoff=F)
    with pytest.raises(ValueError, match="level"):
        result.confidence_interval(0.0)

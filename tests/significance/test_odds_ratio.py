"""The odds-ratio test of a noisy corner: independent numbers, uniform p-values, exact coverage, far tails."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import fisher_exact, hypergeom, nchypergeom_fisher, norm

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff
from bayesdp.significance import odds_ratio_test

STEPS = tradeoff([0.6, 0.25, 0.1, 0.05], [0.05, 0.1, 0.25, 0.6])
TRADEOFFS = [approximate_dp(1.0), approximate_dp(0.4, 0.05), gaussian_dp(0.8), STEPS]
R1, R2, C1 = 9, 7, 6


def masses(odds_ratio: float, margins: tuple[int, int, int] = (R1, R2, C1)) -> tuple[np.ndarray, np.ndarray]:
    """The corner's law from binomial coefficients: another way than the library's."""
    r1, r2, c1 = margins
    x = np.arange(max(0, c1 - r2), min(r1, c1) + 1)
    weights = np.array([math.comb(r1, int(k)) * math.comb(r2, c1 - int(k)) for k in x]) * odds_ratio ** x.astype(float)
    return x, weights / weights.sum()


@pytest.mark.parametrize(
    ("f", "expected"),
    [(approximate_dp(1), 0.012274126450), (approximate_dp(1, 0.01), 0.010336811134), (gaussian_dp(1), 0.007901356460)],
    ids=repr,
)
def test_p_values_computed_elsewhere(f: TradeOff, expected: float) -> None:
    result = odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=f)
    assert result.pvalue == pytest.approx(expected, abs=1e-12)
    assert result.optimal
    assert odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=f, alternative="less").pvalue == pytest.approx(
        1 - expected, abs=1e-12
    )
    both = odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=f, alternative="two-sided")
    assert both.pvalue == pytest.approx(2 * expected, abs=1e-12)
    assert not both.optimal
    assert "not the UMPU" in both.claim


def test_the_p_value_is_a_tail_of_the_convolution() -> None:
    # P(H + N >= U) by quadrature over the density of N, in place of E F(H - U).
    x, weights = masses(1.7)
    u = 4.31
    noise = norm(scale=2.0)
    tail = sum(w * quad(noise.pdf, u - h, u - h + 60, limit=200)[0] for h, w in zip(x, weights, strict=True))
    result = odds_ratio_test(u, rows=(R1, R2), column=C1, tradeoff=gaussian_dp(0.5), null=1.7)
    assert result.pvalue == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
@pytest.mark.parametrize("null", [1.0, 0.25, 3.0])
def test_p_is_uniform_at_the_null_and_super_uniform_inside(f: TradeOff, null: float) -> None:
    # P(p <= a) exactly: p <= a is U >= u(a), with u(a) found by bisection on p; then the law of U from coefficients.
    noise = f.canonical_noise()
    for level in (0.003, 0.05, 0.3, 0.9):
        for alternative, sign in (("greater", 1.0), ("less", -1.0)):
            low, high = -200.0, 200.0

            def p_value(u: float, alternative: str = alternative) -> float:
                own = odds_ratio_test(u, rows=(R1, R2), column=C1, tradeoff=f, alternative=alternative, null=null)
                return own.pvalue

            for _ in range(70):
                middle = 0.5 * (low + high)
                if (p_value(middle) > level) == (sign > 0):
                    low = middle
                else:
                    high = middle

            def rejects(odds_ratio: float, sign: float = sign, threshold: float = high) -> float:
                x, weights = masses(odds_ratio)
                return float(weights @ noise.cdf(sign * (x - threshold)))

            assert rejects(null) == pytest.approx(level, abs=1e-11)
            assert rejects(null * math.exp(-sign)) < level  # inside the null hypothesis
            assert rejects(null * math.exp(sign)) > level


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
@pytest.mark.parametrize("truth", [0.2, 1.0, 4.0])
def test_intervals_cover_as_often_as_they_say(f: TradeOff, truth: float) -> None:
    # The statistic at the quantiles of its law given each corner: the share of intervals that cover, by enumeration.
    noise = f.canonical_noise()
    x, weights = masses(truth)
    grid = (np.arange(25) + 0.5) / 25
    for alternative in ("greater", "less", "two-sided"):
        covered = 0.0
        for corner, mass in zip(x, weights, strict=True):
            for u in corner + np.asarray(noise.ppf(grid)):
                result = odds_ratio_test(u, rows=(R1, R2), column=C1, tradeoff=f, alternative=alternative)
                # The odds ratios with p above 0.2; that the interval has those ends is the next test.
                inside = 0.1 < float(result.confidence_distribution(truth)) < 0.9
                if alternative != "two-sided":
                    tail = float(result.confidence_distribution(truth))
                    inside = tail > 0.2 if alternative == "greater" else tail < 0.8
                covered += mass * inside / grid.size
        assert covered == pytest.approx(0.8, abs=1.0 / grid.size)  # the grid is a midpoint rule for each corner


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
@pytest.mark.parametrize("u", [-1.2, 0.4, 3.3, 5.9, 7.1])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_interval_and_p_value_agree(f: TradeOff, u: float, level: float) -> None:
    def p_value(null: float, alternative: str) -> float:
        own = odds_ratio_test(u, rows=(R1, R2), column=C1, tradeoff=f, alternative=alternative, null=null)
        return own.pvalue

    for alternative in ("greater", "less", "two-sided"):
        result = odds_ratio_test(u, rows=(R1, R2), column=C1, tradeoff=f, alternative=alternative)
        low, high = result.confidence_interval(level)
        assert low <= high
        assert alternative != "greater" or high == math.inf
        assert alternative != "less" or low == 0.0
        for end in (low, high):
            if 0.0 < end < math.inf:
                assert p_value(end, alternative) == pytest.approx(1 - level, abs=1e-10)
        if 0.0 < low < math.inf:
            assert p_value(low * 0.99, alternative) < 1 - level < p_value(low * 1.001, alternative)
        if 0.0 < high < math.inf:
            assert p_value(high * 1.01, alternative) < 1 - level < p_value(high * 0.999, alternative)


def test_ends_are_infinite_exactly_where_no_odds_ratio_is_ruled_out() -> None:
    # At odds ratio 0 the corner is 0: the tail of the noise alone says whether 0 is ruled out.
    f = approximate_dp(1.0)
    noise = f.canonical_noise()
    for u in np.linspace(-8.0, 14.0, 23):
        low, high = odds_ratio_test(
            u, rows=(R1, R2), column=C1, tradeoff=f, alternative="two-sided"
        ).confidence_interval(0.95)
        assert (low == 0.0) == (noise.cdf(0 - u) >= 0.025)
        assert (high == math.inf) == (noise.cdf(u - C1) >= 0.025)
    bounded = approximate_dp(0.4, 0.05)  # its noise is bounded: far off the margins nothing is left
    far = odds_ratio_test(40.0, rows=(R1, R2), column=C1, tradeoff=bounded, alternative="two-sided")
    assert far.confidence_interval() == (math.inf, math.inf)
    assert far.pvalue == 0.0


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
def test_the_confidence_distribution_rises_and_has_the_bounds_as_quantiles(f: TradeOff) -> None:
    result = odds_ratio_test(3.2, rows=(R1, R2), column=C1, tradeoff=f)
    w = np.array([0.0, *np.geomspace(1e-8, 1e8, 60), math.inf])
    rising = result.confidence_distribution(w)
    assert np.all(np.diff(rising) >= -1e-15)
    assert np.all(np.diff(rising[15:46]) > 0)
    noise = f.canonical_noise()
    assert rising[0] == pytest.approx(noise.cdf(0 - 3.2), abs=1e-15)
    assert rising[-1] == pytest.approx(noise.cdf(C1 - 3.2), abs=1e-15)
    low = result.confidence_interval(0.7).low
    assert result.confidence_distribution(low) == pytest.approx(0.3, abs=1e-11)


def test_without_noise_it_is_fishers_test() -> None:
    # Nearly no noise, at a corner + u: the p-value lies between Fisher's with and without the corner itself.
    table = [[8, 2], [1, 5]]
    for null in (1.0, 2.5):
        law = nchypergeom_fisher(16, 10, 9, null)
        result = odds_ratio_test(8 + 0.3, rows=(10, 6), column=9, tradeoff=approximate_dp(60.0), null=null)
        assert result.pvalue == pytest.approx(law.sf(8) + 0.2 * law.pmf(8), rel=1e-6)
    fisher = fisher_exact(table, alternative="greater").pvalue
    smallest = odds_ratio_test(7.5, rows=(10, 6), column=9, tradeoff=approximate_dp(60.0)).pvalue
    assert smallest == pytest.approx(fisher, rel=1e-12)


def test_exchanging_columns_turns_the_odds_ratio_over() -> None:
    f = gaussian_dp(0.7)
    one = odds_ratio_test(4.4, rows=(R1, R2), column=C1, tradeoff=f, null=2.0, alternative="two-sided")
    other = odds_ratio_test(R1 - 4.4, rows=(R1, R2), column=R1 + R2 - C1, tradeoff=f, null=0.5, alternative="two-sided")
    assert other.pvalue == pytest.approx(one.pvalue, rel=1e-12)
    low, high = one.confidence_interval()
    assert other.confidence_interval() == pytest.approx((1 / high, 1 / low), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 300.0, 1e4])
def test_no_overflow_in_the_far_tails(epsilon: float) -> None:
    for u, alternative in itertools.product((-1e4, 5.0, 1e4), ("greater", "less", "two-sided")):
        result = odds_ratio_test(
            u, rows=(R1, R2), column=C1, tradeoff=approximate_dp(epsilon, 0.0), alternative=alternative
        )
        assert 0.0 <= result.pvalue <= 1.0
        low, high = result.confidence_interval()
        assert 0.0 <= low <= high
    assert odds_ratio_test(1e4, rows=(R1, R2), column=C1, tradeoff=gaussian_dp(1e4)).pvalue == 0.0


def test_tiny_p_values_keep_their_digits() -> None:
    # Far above the margins only the last cell of E F(H - U) matters, up to the geometric tail of the noise.
    f = approximate_dp(1.0)
    u = 300.25
    x, weights = masses(1.0)
    expected = math.log(sum(w * math.exp(h) for h, w in zip(x, weights, strict=True)))
    one = math.log(f.canonical_noise().cdf(0 - u))
    result = odds_ratio_test(u, rows=(R1, R2), column=C1, tradeoff=f)
    assert math.log(result.pvalue) == pytest.approx(one + expected, rel=1e-13)


def test_a_million_in_the_margins() -> None:
    margins = {"rows": (10**6, 10**6), "column": 10**6, "tradeoff": approximate_dp(1.0, 1e-6)}
    u = 500_600.4
    started = time.perf_counter()
    result = odds_ratio_test(u, **margins)  # type: ignore[arg-type]
    spent = time.perf_counter() - started
    law = hypergeom(2 * 10**6, 10**6, 10**6)
    near = np.arange(500_560, 500_660)
    noise = margins["tradeoff"].canonical_noise()  # type: ignore[attr-defined]
    expected = law.pmf(near) @ noise.cdf(near - u) + law.sf(near[-1])
    assert result.pvalue == pytest.approx(expected, rel=1e-6)  # SciPy's factorials lose digits at this size
    assert spent < 1.0  # the benchmark has the real figure; a loaded machine must not fail here


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"rows": (3, -1)}, ValueError, r"rows\[1\]"),
        ({"rows": (3, 4, 5)}, ValueError, "totals of the two rows"),
        ({"rows": 7}, ValueError, "totals of the two rows"),
        ({"column": 17}, ValueError, "at most the grand total 16"),
        ({"column": 2.5}, TypeError, "column"),
        ({"tradeoff": 1.0}, TypeError, "a trade-off function such as gaussian_dp"),
        ({"tradeoff": tradeoff([0.5, 0.5], [0.9, 0.1])}, ValueError, "symmetric"),
        ({"alternative": "bigger"}, ValueError, "'greater', 'less', 'two-sided'"),
        ({"null": 0.0}, ValueError, "null"),
        ({"null": math.inf}, ValueError, "null"),
        ({"statistic": math.nan}, ValueError, "statistic"),
        ({"statistic": [1.0, 2.0]}, TypeError, "one number"),
        ({"rows": (2**53, 1)}, ValueError, "2\\*\\*53"),
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, object], error: type[Exception], message: str) -> None:
    given = {"statistic": 3.0, "rows": (R1, R2), "column": C1, "tradeoff": approximate_dp(1.0), **wrong}
    with pytest.raises(error, match=message):
        odds_ratio_test(given.pop("statistic"), **given)  # type: ignore[arg-type]


def test_bad_questions_to_a_result() -> None:
    result = odds_ratio_test(3.0, rows=(R1, R2), column=C1, tradeoff=approximate_dp(1.0))
    with pytest.raises(ValueError, match="level"):
        result.confidence_interval(95)
    with pytest.raises(ValueError, match="odds_ratio must be at least 0"):
        result.confidence_distribution(-1.0)

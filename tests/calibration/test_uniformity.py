"""The band of ranks, p-values and power against enumeration and simulation; ranks among ties; what is refused."""

from collections import Counter
from contextlib import suppress
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import signal, stats

from bayesdp.calibration import verdict as v
from bayesdp.calibration.study import SHORT, TooFewDraws, joint_rank, squared_error_rank, thinned, uniform_rank
from bayesdp.calibration.verdict import band, crossing_probability, dispersion_pvalue, judge, power, uniformity_pvalue
from tests.refusals import refused


@pytest.mark.parametrize(("n", "false_alarm"), [(7, 0.1), (50, 0.01), (120, 0.1)])
def test_the_band_holds_uniform_values_as_often_as_it_says(n, false_alarm):
    """Within five standard errors of 3000 samples: false alarm below 1e-5 in all cases together."""
    rng = np.random.default_rng(n)
    points, lower, upper = band(n, false_alarm)
    counts = np.sum(rng.random((3000, n, 1)) <= points, axis=1)
    left = np.mean(np.any((counts < lower) | (counts > upper), axis=1))
    stated = crossing_probability(n, lower, upper, points)
    assert stated <= false_alarm
    assert abs(left - stated) < 5 * np.sqrt(max(stated, 1e-3) / 3000)


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_p_values_of_few_values_are_those_of_enumeration(n):
    tails = {}
    for j in range(n):
        z = Fraction(j + 1, n + 1)
        mass = [comb(n, c) * z**c * (1 - z) ** (n - c) for c in range(n + 1)]
        tails |= {(c, j): min(Fraction(1), 2 * min(sum(mass[: c + 1]), sum(mass[c:]))) for c in range(n + 1)}
    often = Counter(tuple(sorted(cells)) for cells in product(range(n + 1), repeat=n))
    worst = {own: min(tails[sum(cell <= j for cell in own), j] for j in range(n)) for own in often}
    for own in often:
        expected = Fraction(sum(often[other] for other in often if worst[other] <= worst[own]), (n + 1) ** n)
        assert uniformity_pvalue((np.array(own) + 0.5) / (n + 1)) == pytest.approx(float(expected), rel=1e-9), own
    # All of 10 n values up to the first point: so many, or none up to the last one, with a probability of (1 / (n + 1))**n each.
    small = uniformity_pvalue(np.full(10 * n, 0.5 / (10 * n + 1)))
    assert small == pytest.approx(2.0 * (10 * n + 1.0) ** (-10 * n), rel=1e-6)


@pytest.mark.parametrize("n", [2, 3, 100])
def test_the_mirror_image_has_the_same_p_value(n):
    """The two sides of a grid have the same tails, which rounding must not tell apart."""
    rng = np.random.default_rng(n)
    for bend in (0.5, 1.0, 1.0, 1.0, 3.0):
        values = rng.random(n) ** bend
        assert uniformity_pvalue(1.0 - values) == pytest.approx(uniformity_pvalue(values), rel=1e-6)


def test_power_of_the_band_is_what_simulation_gives():
    """Five standard errors of 400 samples; where nothing is wrong it is the false alarm."""
    rng, stated = np.random.default_rng(5), power(100, "scale", 1.3, 0.05)
    errors = 1.3 * rng.standard_normal((400, 100))
    ranks = np.mean([uniformity_pvalue(row) <= 0.05 for row in stats.norm.cdf(errors)])
    dispersion = np.mean([dispersion_pvalue(row) <= 0.05 for row in stats.chi2.cdf(errors**2, 1)])
    assert abs(ranks - stated.ranks) < 5 * np.sqrt(0.25 / 400)
    assert abs(dispersion - stated.dispersion) < 5 * np.sqrt(0.25 / 400)


def test_the_crossing_probability_is_that_of_enumeration_and_squared_errors_notice_what_ranks_miss():
    scale, shift, none = power(300, "scale", 1.2, 0.001), power(300, "shift", 0.3, 0.001), power(80, "scale", 1.0, 0.05)
    assert scale.ranks < 0.5 < 0.85 < scale.dispersion
    assert shift.ranks > 0.85 > 0.1 > shift.dispersion
    points, lower, upper = band(80, 0.05)
    assert none.ranks == pytest.approx(crossing_probability(80, lower, upper, points), rel=1e-9)
    assert none.dispersion == pytest.approx(0.05)
    lower, upper, law = np.array([0, 1]), np.array([1, 2]), np.array([0.2, 0.5])
    cells, outside = np.array([0.2, 0.3, 0.5]), 0.0
    for outcome in np.ndindex(3, 3, 3):
        counts = np.array([sum(c <= k for c in outcome) for k in (0, 1)])
        if np.any(counts < lower) or np.any(counts > upper):
            outside += np.prod(cells[list(outcome)])
    assert crossing_probability(3, lower, upper, law) == pytest.approx(outside, abs=1e-14)


def test_dispersion_in_closed_form_holm_against_the_textbook_and_a_verdict_that_says_what_is_wrong():
    u = np.array([0.1, 0.5, 0.9])
    squares = stats.norm.ppf((1 + u) / 2) ** 2
    assert v.dispersion_ratio(u) == pytest.approx(np.sqrt(squares.mean()))
    total = squares.sum()
    assert dispersion_pvalue(u) == pytest.approx(2 * min(stats.chi2.cdf(total, 3), stats.chi2.sf(total, 3)))
    assert v.holm([0.01, 0.02, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert v.holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    u = np.random.default_rng(2).random(200)
    verdict = judge({"good": u, "bad": u**3}, {"good": u, "bad": u}, 0.01)
    assert not verdict.calibrated
    assert verdict.worst.name == "bad"
    assert "NOT calibrated" in str(verdict)
    assert "1.2 times as large as stated" in str(verdict)  # what could have been seen


RNG = np.random.default_rng(1)
test_what_is_refused = refused(
    *((lambda own=own: uniformity_pvalue(own), "between 0 and 1") for own in ([], [0.5, 1.5], [np.nan], [[0.5]])),
    (lambda: dispersion_pvalue([0.5, 1.5]), "between 0 and 1"),
    (lambda: band(10, 1.0), "false_alarm"),
    (lambda: power(10, "tilt"), "alternative"),
    (lambda: judge({}, {}), "at least one quantity"),
    (lambda: uniform_rank(1.0, [], RNG), "at least one number"),
    (lambda: uniform_rank(np.nan, [1.0], RNG), "NaN"),
)


@pytest.mark.parametrize(("draws", "spread"), [(1, 1), (1, 1000), (4, 3), (37, 1000)])
def test_ranks_among_exchangeable_integers_are_uniform_whatever_the_ties(draws, spread):
    rng = np.random.default_rng(draws * spread)
    values = rng.integers(spread, size=(2000, draws + 1))
    ranks = [uniform_rank(own[0], own[1:], rng) for own in values]
    assert uniformity_pvalue(ranks) > 1e-5  # false alarm 4e-5 over the four cases


def test_ranks_of_rare_counts_are_uniform_also_where_one_of_truth_and_draws_is_the_odd_one():
    """Most cells are 0 in all draws or in all but one: 300 and 3,000 ranks, false alarms one in 10,000 each."""
    rng = np.random.default_rng(4)
    tables = rng.poisson(0.02, (300, 201, 100)).astype(float)
    assert uniformity_pvalue([joint_rank("q", own[0], own[None, 1:], rng, 25.0) for own in tables]) > 1e-4
    odd = (rng.random((3000, 21)) < 0.02) * 1.0
    ranks = np.array([squared_error_rank(own[0], own[1:], rng) for own in odd])
    assert uniformity_pvalue(ranks[~np.isnan(ranks)]) > 1e-4


def test_ranks_of_squared_errors_are_uniform():
    """And a mean that had seen the draws would be noticed; a posterior of one point has no dispersion."""
    rng = np.random.default_rng(4)
    values = rng.standard_normal((2000, 41))
    assert uniformity_pvalue([squared_error_rank(row[0], row[1:], rng) for row in values]) > 1e-4
    values = values[:, :9]
    squares = (values - values[:, 1:].mean(axis=1, keepdims=True)) ** 2
    assert uniformity_pvalue([uniform_rank(row[0], row[1:], rng) for row in squares]) < 1e-6
    assert np.isnan(squared_error_rank(3.0, [3.0] * 10, rng))


def ranks_of_a_chain(rng, correlation, scales):
    """Of three normal numbers and errors so many times as large: ranks of one, of squared errors, and of their sum."""
    for longer in (1, 4, 16):  # as a simulation does where too few effective draws are left
        shocks = rng.standard_normal((1, longer * SHORT["draws"], 3)) * np.sqrt(1.0 - correlation**2)
        shocks[:, 0] = rng.standard_normal(3)
        draws, truth = signal.lfilter([1.0], [1.0, -correlation], shocks, axis=1), rng.standard_normal(3)
        with suppress(TooFewDraws):
            kept, ess = zip(*(thinned("q", draws[..., i]) for i in range(3)), strict=True)
            return [
                (
                    uniform_rank(scale * truth[0], kept[0], rng),
                    [squared_error_rank(scale * own, few, rng) for own, few in zip(truth, kept, strict=True)],
                    joint_rank("q", scale * truth, draws, rng, min(ess)),
                )
                for scale in scales
            ]
    raise AssertionError("too few effective draws in 3,200")


@pytest.mark.parametrize("correlation", [-0.3, 0.6])
def test_ranks_among_correlated_draws_of_short_chains_are_uniform_and_larger_errors_are_noticed(correlation):
    """300 chains of the default length; false alarms 1e-4 each, and errors of 1.3 are missed as rarely."""
    rng = np.random.default_rng(6)
    found = [ranks_of_a_chain(rng, correlation, (1.0, 1.3)) for _ in range(300)]
    (ranks, squares, sums), (_, larger, larger_sums) = (zip(*own, strict=True) for own in zip(*found, strict=True))
    assert min(uniformity_pvalue(ranks), uniformity_pvalue(sums), dispersion_pvalue(np.ravel(squares))) > 1e-4
    assert max(uniformity_pvalue(larger_sums), dispersion_pvalue(np.ravel(larger))) < 1e-4

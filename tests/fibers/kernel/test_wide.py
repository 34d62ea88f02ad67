"""Laws too wide, or too far away, or with too many modes for a short table of weights; and their arithmetic.

Two cells with a known total leave one number free: each move is an independent draw (but for slice steps). The exact law is summed
over all its points with SciPy. False alarms of each test of a law: `harness.LEVEL`.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from bayesdp import Exact, Frame, Identity, LinearQuery, Totals
from bayesdp.fibers import Chain, Fiber, NoiseTerm, Target
from bayesdp.fibers.kernel import state as columns
from bayesdp.fibers.kernel.state import WINDOW
from bayesdp.fibers.kernel.weights import log_gamma_difference, reflected_step
from tests.fibers.harness import LEVEL, law_pvalue, log_noise, log_prior

PAIR = Frame.of({"c": ["p", "q"]})


def pair(total, *terms, family):
    return Target(Fiber.of([Exact(Totals(PAIR), total)], PAIR), terms, family)


def noise(kind, scale, *values, seen=(True, True)):
    return NoiseTerm(Identity(PAIR), np.array(values, dtype=float), kind, np.asarray(scale), np.array(seen))


def exact_law(target, theta, shape, total):
    """Probability of every value 0 .. total of the first cell."""
    first = np.arange(total + 1)
    tables = np.stack([first, total - first], axis=1)
    return special.softmax(log_prior(target.family, theta, shape, tables) + log_noise(target, tables))


def draw(target, theta, shape, start, draws, moves=1, fresh=False):
    """First cell after every `moves` moves; with `fresh`, each time from the same start."""
    chain = Chain(target, np.random.default_rng(1))
    chain.set_prior(np.asarray(theta, dtype=float), np.asarray(shape, dtype=float))
    chain.load(np.asarray(start))
    found = np.empty(draws, dtype=np.int64)
    for i in range(draws):
        if fresh:
            chain.load(np.asarray(start))
        chain.sweep(moves)
        found[i] = chain.counts[0]
    return found


def kolmogorov(draws, probability):
    """P-value of a Kolmogorov-Smirnov test on the cdf, uniform within each atom."""
    edges = np.concatenate([[0.0], np.cumsum(probability)])
    u = np.random.default_rng(0).random(len(draws))
    return stats.kstest(edges[draws] + u * probability[draws], "uniform").pvalue


TOTAL = 2_000_000
PRIORS = {
    "flat": (np.zeros(2), np.ones(2)),
    "poisson": (np.log([900_000.0, 1_000_000.0]), np.ones(2)),
    "negbin": (np.array([-1e-6, -2e-6]), np.array([2.5, 7.0])),
    "binomial": (np.array([0.1, 0.0]), np.array([1_900_000.0, 1_800_000.0])),
}
LAWS = {"l1": 1e-4, "l2": 1e-4, "gaussian": 1e4}


@pytest.mark.parametrize("family", PRIORS)
def test_millions_of_counts_from_near_and_from_far_tails(family):
    theta, shape = PRIORS[family]
    tables = np.stack([np.arange(TOTAL + 1), TOTAL - np.arange(TOTAL + 1)], axis=1)
    logs = log_prior(family, theta, shape, tables)
    for kind, scale in LAWS.items():
        target = pair(TOTAL, noise(kind, scale, 1_104_321.4, 893_210.0), family=family)
        law = special.softmax(logs + log_noise(target, tables))
        for start in ([1_100_000, 900_000], [200_000, 1_800_000]):
            draws = draw(target, theta, shape, start, 1000, fresh=True)
            assert kolmogorov(draws, law) > LEVEL, (kind, start)


@pytest.mark.parametrize("sigma", [0.05, 0.7, 40.0, 3e4])
def test_flat_prior_and_gaussian_noise_give_a_discrete_gaussian(sigma):
    # Only the first cell is measured: discrete Gaussian around the noisy value, from a start 1e6 away.
    centre, reach = 1_000_000.3, math.ceil(12 * sigma + 3)
    term = noise("gaussian", sigma, centre, 0.0, seen=(True, False))
    draws = draw(pair(3_000_000, term, family="flat"), [0, 0], [1, 1], [0, 3_000_000], 3000, fresh=True)
    around = np.arange(1_000_000 - reach, 1_000_001 + reach)
    law = special.softmax(-((around - centre) ** 2) / (2 * sigma**2))
    assert around[0] <= draws.min() <= draws.max() <= around[-1]
    assert min(kolmogorov(draws - around[0], law), law_pvalue(draws - around[0], law)) > LEVEL


@pytest.mark.parametrize(("alpha", "total"), [(0.1, 200), (0.1, 5000), (0.4, 10**6), (1.0, 10**6), (30.0, 90_000)])
def test_dirichlet_multinomial_cells_are_beta_binomial(alpha, total):
    moves = 40 if alpha < 1.0 and total > 1024 else 1  # slice steps, 40 for each draw kept
    shape = np.array([alpha, 2 * alpha])
    draws = draw(pair(total, family="negbin"), [0, 0], shape, [total // 2, total - total // 2], 1500, moves)
    cdf = np.cumsum(np.exp(stats.betabinom.logpmf(np.arange(total + 1), total, *shape)))
    edges = np.unique(np.searchsorted(cdf, np.linspace(0, 1, 40)[1:-1]))
    expected = np.diff(np.concatenate([[0.0], cdf[edges], [1.0]]))
    assert law_pvalue(np.searchsorted(edges, draws), expected) > LEVEL


@pytest.mark.parametrize(("total", "rate", "moves"), [(60, 0.05, 1), (1200, 0.0045, 60)])  # by a scan, by slices
def test_three_modes_are_all_visited(total, rate, moves):
    # Shape 0.3: both ends and the noisy value in the middle attract. A walk outwards from one mode would miss the others.
    theta, shape = np.zeros(2), np.full(2, 0.3)
    target = pair(total, noise("l1", rate, total / 2, total / 2), family="negbin")
    law = exact_law(target, theta, shape, total)
    peaks = np.flatnonzero((law >= np.append(law[1:], 0)) & (law >= np.append(0, law[:-1])))
    assert peaks.tolist() == [0, total // 2, total]
    draws = draw(target, theta, shape, [0, total], 3000, moves=moves)
    assert law_pvalue(draws, law) > LEVEL


@pytest.mark.parametrize("family", ["flat", "poisson", "negbin"])
def test_entries_larger_than_one_and_many_counts(family):
    # 2 p + 3 q = 6,000,001: the only direction is (3, -2).
    query = LinearQuery(PAIR, [[2, 3]], ["weighted"])
    target = Target(Fiber.of([Exact(query, [6_000_001])], PAIR), (noise("gaussian", 5e3, 1.5e6, 1.01e6),), family)
    theta, shape = np.log([0.999999, 0.999999]), np.array([2.5, 1.5])
    draws = draw(target, theta, shape, [2, 1_999_999], 2000, fresh=True)
    first = np.arange(2, 3_000_000, 3)
    tables = np.stack([first, (6_000_001 - 2 * first) // 3], axis=1)
    law = special.softmax(log_prior(family, theta, shape, tables) + log_noise(target, tables))
    assert kolmogorov((draws - 2) // 3, law) > LEVEL


def test_far_starts_of_one_cell_without_bounds_and_of_l2_residuals_that_do_not_drift():
    one_cell = Fiber.of([], Frame.of({"c": ["p"]}))
    target = Target(one_cell, (), "poisson")
    for start in (0, 5_000_000):
        draws = draw(target, np.log([1e6]), np.ones(1), [start], 2000, fresh=True)
        u = stats.poisson.cdf(draws - 1, 1e6) + np.random.default_rng(3).random(2000) * stats.poisson.pmf(draws, 1e6)
        assert stats.kstest(u, "uniform").pvalue > LEVEL
    with pytest.raises(ValueError, match="improper"):
        draw(Target(one_cell, (), "flat"), np.zeros(1), np.ones(1), [0], 1, moves=10)
    # A start 1e9 away makes the squared residual 1e18, where doubles are 128 apart; it must not stay wrong by that much.
    total = 4_000_000_000
    target = pair(total, noise("l2", 0.05, 2e9 + 0.3, 2e9 - 0.9), family="flat")
    chain = Chain(target, np.random.default_rng(4))
    chain.set_prior(np.zeros(2), np.ones(2))
    chain.load(np.array([3_000_000_000, 1_000_000_000]))
    draws = np.array([chain.counts[0] for _ in range(3000) if chain.sweep(1) >= 0])
    residual = chain.state.rows[:, columns.NOISY] - chain.counts
    assert chain.state.groups[0, columns.SQUARED] == pytest.approx((residual**2).sum(), abs=1e-3)
    around = np.arange(2_000_000_000 - 900, 2_000_000_000 + 901)
    law = special.softmax(log_noise(target, np.stack([around, total - around], axis=1)))
    assert kolmogorov(draws[1:] - around[0], law) > LEVEL


@pytest.mark.parametrize("rate", [30.0, 900.0])
def test_sharp_noise_does_not_overflow(rate):
    target = pair(100, noise("l1", rate, 40.0, 61.0), family="poisson")
    draws = draw(target, [900.0, 0.0], [1, 1], [100, 0], 200, fresh=True)
    # The prior weight exp(900) wins against the noise at 30 and draws with it at 900 up to the noisy values.
    law = exact_law(target, np.array([900.0, 0.0]), np.ones(2), 100)
    assert law_pvalue(draws, law) > LEVEL


@pytest.mark.parametrize("k", [0, 1, 5, 8, 9, 40, 1000, 6_000])
def test_log_gamma_difference_against_exact_products(k):
    for twice_a in (1, 3, 7, 38, 40, 41, 1001, 2_000_001, 2 * 10**12 + 1):
        # (a)(a+1)...(a+k-1) = prod(2a + 2i) / 2^k, exactly; math.log takes integers of any length.
        exact = math.log(math.prod(range(twice_a, twice_a + 2 * k, 2))) - k * math.log(2)
        found = [log_gamma_difference(twice_a / 2, float(k)), -log_gamma_difference(twice_a / 2 + k, float(-k))]
        assert found == pytest.approx([exact, exact], rel=2e-12, abs=2e-12), twice_a


def _table(law, at):
    """What `tabulate` writes for a table that stands at position `at` of the line."""
    weights = np.zeros(2 * WINDOW)
    up, down = law[at + 1 :] / law[at], law[:at][::-1] / law[at]
    weights[WINDOW : WINDOW + len(up)], weights[: len(down)] = up, down
    return up.sum(), down.sum(), len(up), len(down), weights


@pytest.mark.parametrize("law", [[0.1, 0.4, 0.3, 0.15, 0.05], [0.7, 0.3], np.exp(-np.arange(9.0))])
def test_chances_are_the_overlaps_with_the_mirrored_law(law):
    law = np.asarray(law) / np.sum(law)
    edges = np.concatenate([[0.0], np.cumsum(law)])
    mirrored = 1.0 - edges[::-1]
    overlap = np.minimum(edges[1:, None], mirrored[None, 1:]) - np.maximum(edges[:-1, None], mirrored[None, :-1])
    expected = np.maximum(overlap, 0.0)[:, ::-1] / law[:, None]
    chances = np.zeros_like(expected)
    for at in range(len(law)):  # by a grid of uniform shares
        above, under, up, down, weights = _table(law, at)
        for share in (np.arange(10_000) + 0.5) / 10_000:
            k, _ = reflected_step(share, above, under, up, down, 0.0, 0.0, weights)
            chances[at, at + k] += 1e-4
    np.testing.assert_allclose(chances, expected, atol=2e-4)
    np.testing.assert_allclose(law @ expected, law, atol=1e-14)


def test_sure_means_that_no_weight_left_out_could_change_the_step():
    rng = np.random.default_rng(1)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        law = np.exp(-0.5 * ((np.arange(12) - 12 * rng.random()) / (0.5 + 3 * rng.random())) ** 2)
        at = int(rng.integers(12))
        above, under, up, down, weights = _table(law, at)
        rest, more = rng.random(2) * 10.0 ** rng.uniform(-4, 0)
        share = rng.random()
        k, sure = reflected_step(share, above, under, up, down, rest, more, weights)
        seen[sure] += 1
        for upper, lower in product((0.0, rest), (0.0, more)) if sure else ():
            assert reflected_step(share, above + upper, under + lower, up, down, 0.0, 0.0, weights)[0] == k
    assert min(seen.values()) > 100

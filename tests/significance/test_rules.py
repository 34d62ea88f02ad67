"""Rules of rejection: size, power and unbiasedness against linear programs; the proof for two sides; binomial proportions."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, binomtest

from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff
from bayesdp.significance import binomial_test, odds_ratio_test, umpu_odds_ratio, unbiased_odds_ratio
from tests.refusals import refused
from tests.significance.examples import corners, masses

P, Q = [0.6, 0.25, 0.1, 0.05], [0.05, 0.1, 0.25, 0.6]
STEPS = tradeoff(P, Q)
TRADEOFFS = [approximate_dp(1.0), approximate_dp(0.4, 0.05), gaussian_dp(0.8), STEPS]
ALTERNATIVES = ("greater", "less", "two-sided")
MARGINS = [(9, 7, 6), (3, 12, 10), (9, 7, 6), (1, 1, 1)]
ODDS = np.array([0.0, *np.geomspace(1e-3, 1e3, 25), math.inf])


def every_rule(alpha, margins, f, null=1.0):
    r1, r2, c1 = margins
    given = {"rows": (r1, r2), "column": c1, "tradeoff": f, "null": null}
    umpu = [umpu_odds_ratio(alpha, **given, alternative=own) for own in ALTERNATIVES]
    return [*umpu, unbiased_odds_ratio(alpha, **given)]


def test_noise_that_binary64_cannot_carry_is_refused_and_wider_noise_has_its_size():
    """Sizes are held against binomial coefficients in every case that is answered; 0.0849 for 0.05 was not."""
    margins, answered = (12, 8, 10), []
    for mu in (1e2, 1e4, 1e6, 1e8, 1e10, 1e12, 1e16):
        try:
            rules = every_rule(0.05, margins, gaussian_dp(mu))
        except ValueError:
            with pytest.raises(ValueError, match="too narrow for binary64 thresholds"):
                every_rule(0.05, margins, gaussian_dp(mu))
            with pytest.raises(ValueError, match="too narrow for the statistic 8"):
                odds_ratio_test(8.0, rows=margins[:2], column=margins[2], tradeoff=gaussian_dp(mu))
            continue
        answered.append(mu)
        for rule in rules:
            assert masses(margins, 1.0) @ rule.probability(corners(margins)) == pytest.approx(0.05, rel=1e-6)
        odds_ratio_test(8.0, rows=margins[:2], column=margins[2], tradeoff=gaussian_dp(mu))
    assert answered[:4] == [1e2, 1e4, 1e6, 1e8]
    assert 1e12 not in answered
    # Tulap noise is never narrower than a uniform number.
    for rule in every_rule(0.05, margins, approximate_dp(1e4)):
        assert rule.size == pytest.approx(0.05, rel=1e-9)


def test_margins_too_large_for_the_sum_are_refused_and_those_that_determine_the_table_say_so():
    half = 2**50
    with pytest.raises(NotImplementedError, match="more than 2,097,152 numbers on one side of its mode"):
        odds_ratio_test(half / 2 + 0.3, rows=(half, half), column=half, tradeoff=approximate_dp(1.0))
    # The same number of records with a small column is no trouble: the corner then has few values. Binomial to nine digits.
    few = odds_ratio_test(7.0, rows=(half, half), column=10, tradeoff=gaussian_dp(3.0))
    chance = np.array([math.comb(10, k) for k in range(11)]) / 2**10
    tails = gaussian_dp(3.0).canonical_noise().cdf(np.arange(11) - 7.0)
    assert few.pvalue == pytest.approx(chance @ tails, rel=1e-9)
    for rule in every_rule(0.05, (12, 0, 5), approximate_dp(1.0)):
        assert rule.family.determined
        np.testing.assert_allclose(rule.power(ODDS), 0.05, rtol=1e-9)


def assert_private(f, phi, slack):
    """Paper 003, Equation (2), on every table with these margins, both ways."""
    assert np.all(phi[1:] <= f.power(phi[:-1]) + slack)
    assert np.all(phi[:-1] <= f.power(phi[1:]) + slack)


@pytest.mark.parametrize(("f", "margins"), [*zip(TRADEOFFS, MARGINS, strict=True)], ids=str)
@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.97])
def test_semi_dp_size_and_unbiasedness(f, margins, alpha):
    for null in (1.0, 0.3):
        for rule in every_rule(alpha, margins, f, null):
            phi = rule.probability(corners(margins))
            assert_private(f, phi, 1e-13)
            assert masses(margins, null) @ phi == pytest.approx(alpha, abs=1e-13, rel=1e-12)
            assert rule.size == pytest.approx(alpha, abs=1e-13, rel=1e-12)
            power, slack = rule.power(ODDS), 1e-12 * alpha + 1e-14
            side = rule.two_sided | ((null < ODDS) if rule.form == "greater" else (null > ODDS))
            assert np.all(power[side] >= alpha - slack)
            assert np.all(power[~side] <= alpha + slack)


def lines(f):
    """f as a maximum of lines ``a - b alpha``; for a curve, tangents from below (a weaker constraint)."""
    if f == STEPS:
        knots = np.array([0.0, *np.cumsum(P[::-1])])  # rejected in the order of Q / P, largest first
        values = 1.0 - np.array([0.0, *np.cumsum(Q[::-1])])
        slopes = -np.diff(values) / np.diff(knots)
        return [(v + b * k, b) for k, v, b in zip(knots, values, slopes, strict=False)]
    if hasattr(f, "epsilon"):
        e, delta = math.exp(f.epsilon), f.delta
        return [(1.0 - delta, e), ((1.0 - delta) / e, 1.0 / e), (0.0, 0.0)]
    alphas = np.concatenate([np.geomspace(1e-9, 0.05, 60), np.linspace(0.05, 1 - 1e-9, 250)])
    step = 1e-6 * alphas * (1 - alphas)
    slopes = -(f(alphas + step) - f(alphas - step)) / (2 * step)
    return [(float(f(a)) + b * a, b) for a, b in zip(alphas, slopes.tolist(), strict=True)]


def best_power(f, margins, alpha, null, odds_ratio, *, two_sided):
    """Largest power of any Semi-DP test of that size (and unbiased to first order, if two-sided): a linear program."""
    x = corners(margins)
    rows, limits = [], []
    for a, b in lines(f):
        for i in range(x.size):
            for j in (i - 1, i + 1):
                if 0 <= j < x.size:
                    row = np.zeros(x.size)  # phi_i <= 1 - (a - b phi_j)
                    row[i], row[j] = 1.0, -b
                    rows.append(row)
                    limits.append(1.0 - a)
    weights = masses(margins, null)
    equal, values = [weights], [alpha]
    if two_sided:
        equal.append(weights * (x - weights @ x))
        values.append(0.0)
    found = linprog(-masses(margins, odds_ratio), np.array(rows), limits, np.array(equal), values, bounds=(0.0, 1.0))
    assert found.status == 0, found.message
    return -float(found.fun)


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
@pytest.mark.parametrize(("margins", "null"), [((9, 7, 6), 2.5), ((3, 12, 10), 1.0)], ids=str)
def test_no_semi_dp_test_has_more_power(f, margins, null):
    # Tangents from below leave room: up to 5e-4 for the curved f. The others are exact, up to the solver's 1e-7.
    room = 5e-4 if f == TRADEOFFS[2] else 1e-7
    for alpha in (0.05, 0.3):
        greater, less, both, noisy = every_rule(alpha, margins, f, null)
        for odds_ratio in (0.05, 0.5, 60.0):
            best = best_power(f, margins, alpha, null, odds_ratio, two_sided=False)
            assert best - room < (greater if odds_ratio > null else less).power(odds_ratio) < best + 1e-7
            best = best_power(f, margins, alpha, null, odds_ratio, two_sided=True)
            assert best - room < both.power(odds_ratio) < best + 1e-7
            assert noisy.power(odds_ratio) < best + 1e-7


@pytest.mark.parametrize("f", [TRADEOFFS[1], TRADEOFFS[2]], ids=repr)
def test_p_values_and_rules_decide_alike(f):
    margins = (9, 7, 6)
    greater, less, _, noisy = every_rule(0.05, margins, f, 1.5)
    given = {"rows": (9, 7), "column": 6, "tradeoff": f, "null": 1.5}
    for u in np.linspace(-6, 13, 20):
        for rule in (greater, less):
            result = odds_ratio_test(u, **given, alternative=rule.form)
            assert (result.pvalue <= 0.05) == rule.rejects(u)
    two_sided = odds_ratio_test(4.2, **given, alternative="two-sided")
    assert two_sided.unbiased_test(0.05) == noisy
    # The chance of rejecting, from the noise: U at its quantiles.
    noise = f.canonical_noise()
    grid = (np.arange(20000) + 0.5) / 20000
    for rule in (greater, less, noisy):
        for corner in (0, 3, 6):
            u = corner + np.asarray(noise.ppf(grid))
            edges = {"greater": u >= rule.threshold, "less": u <= rule.threshold}
            rejected = edges.get(rule.form, np.abs(u - rule.centre) > rule.threshold)
            assert rule.probability(corner) == pytest.approx(rejected.mean(), abs=1e-4)
            assert rule.rejects(u[17]) == bool(rejected[17])


def exact_masses(margins, sds):
    """Masses of the central law within some standard deviations, beyond which is next to nothing, by ratios in 300 bits."""
    r1, r2, c1 = margins
    n = r1 + r2
    mean = c1 * r1 / n
    sd = math.sqrt(mean * (r2 / n) * (n - c1) / (n - 1))
    x = np.arange(max(0, c1 - r2, int(mean - sds * sd)), min(r1, c1, int(mean + sds * sd)) + 1)
    ways, found = 1 << 300, []
    for k in x.tolist():
        found.append(ways)
        ways = ways * (r1 - k) * (c1 - k) // ((k + 1) * (r2 - c1 + k + 1))
    whole = sum(found)
    return x, np.array([own / whole for own in found])


LARGE = [((10**4, 9000, 8000), 1e-12), ((10**4, 10**4, 30), 1e-12), ((10**5, 90_000, 10**5), 1e-10)]


@pytest.mark.parametrize(("margins", "tolerance"), LARGE)
def test_size_with_large_margins(margins, tolerance):
    x, weights, f = *exact_masses(margins, 12.0), approximate_dp(1.0, 1e-6)
    for alpha in (0.05, 1e-5):
        for rule in every_rule(alpha, margins, f):
            phi = rule.probability(x)
            assert math.fsum(weights * phi) == pytest.approx(alpha, abs=tolerance * alpha / 0.05, rel=0)
            if rule.two_sided:
                centred = x - math.fsum(weights * (x - x[0])) - x[0]
                assert abs(math.fsum(weights * centred * phi)) < 1e-9


PROOF = (9, 8, 7)
SLACK = 1e-10


def private(f, wanted):
    """The largest test below `wanted` that satisfies the constraint: the constraint, over and over, until nothing changes."""
    phi = wanted.copy()
    while True:
        power = np.asarray(f.power(phi))
        right, left = np.append(power[1:], 1.0), np.insert(power[:-1], 0, 1.0)
        lower = np.minimum(phi, np.minimum(left, right))
        if np.array_equal(lower, phi):
            return phi
        phi = lower


def unbiased_tests(f, alpha, rng, number):
    """Convex combinations of random private tests (the constraint is convex) with the size alpha and no covariance with x."""
    p, x = masses(PROOF, 1.0), corners(PROOF)
    found = []
    while len(found) < number:
        shapes = [rng.random(x.size) ** rng.uniform(0.2, 6.0) for _ in range(12)]
        shapes += [np.where(rng.random(x.size) < 0.5, 1.0, 0.0) * rng.random() for _ in range(12)]
        candidates = np.array([private(f, shape) for shape in shapes] + [np.zeros(x.size), np.ones(x.size)])
        sums = np.array([np.ones(len(candidates)), candidates @ p, candidates @ (p * (x - p @ x))])
        weights = linprog(rng.normal(size=len(candidates)), A_eq=sums, b_eq=[1.0, alpha, 0.0])
        if weights.status == 0:
            found.append(weights.x @ candidates)
    return found


@pytest.mark.parametrize(("f", "alpha"), [(TRADEOFFS[1], 0.05), (TRADEOFFS[2], 0.8), (STEPS, 0.3)], ids=str)
def test_each_step_of_the_proof(f, alpha):
    rng = np.random.default_rng(1806)
    x, p = corners(PROOF), masses(PROOF, 1.0)
    rule = umpu_odds_ratio(alpha, rows=PROOF[:2], column=PROOF[2], tradeoff=f, alternative="two-sided")
    best = rule.probability(x)
    # Step 1, and the equality that step 3 uses: outwards of the centre, where the value is not 0.
    assert_private(f, best, SLACK)
    right, left = (x[:-1] >= rule.centre) & (best[:-1] > SLACK), (x[1:] <= rule.centre) & (best[1:] > SLACK)
    np.testing.assert_allclose(best[1:][right], np.asarray(f.power(best[:-1]))[right], atol=SLACK)
    np.testing.assert_allclose(best[:-1][left], np.asarray(f.power(best[1:]))[left], atol=SLACK)
    patterns = set()
    for phi in unbiased_tests(f, alpha, rng, 25):
        assert_private(f, phi, SLACK)
        d = best - phi
        # Step 2.
        assert abs(d @ p) < SLACK
        assert abs(d @ (p * x)) < SLACK * x.size
        # Steps 3 and 4: plus, minus, plus; nothing else, unless the tests are the same.
        signs = np.sign(d[np.abs(d) > 1e-8])
        kept = signs[np.insert(np.diff(signs) != 0, 0, True)] if signs.size else signs
        patterns.add(tuple(kept.tolist()))
        for odds_ratio in (0.02, 0.4, 0.9, 1.5, 30.0):
            assert masses(PROOF, odds_ratio) @ d >= -SLACK
    assert patterns <= {(), (1.0, -1.0, 1.0)}
    assert (1.0, -1.0, 1.0) in patterns


F = approximate_dp(1.0, 0.01)


def test_numbers_computed_elsewhere_without_noise_and_of_a_million_trials():
    greater = binomial_test(18.7, 30, 0.4, tradeoff=F, alternative="greater")
    assert greater.pvalue == pytest.approx(0.0130083231, abs=1e-10)
    both = binomial_test(18.7, 30, 0.5, tradeoff=F)
    assert both.pvalue == pytest.approx(0.2198143498, abs=1e-10)
    assert greater.confidence_interval(0.95) == pytest.approx((0.45791, 1.0), abs=5e-6)
    less = binomial_test(18.7, 30, 0.4, tradeoff=F, alternative="less")
    assert less.confidence_interval(0.95) == pytest.approx((0.0, 0.77125), abs=5e-6)
    assert both.confidence_interval(0.95) == pytest.approx((0.42770, 0.79058), abs=5e-6)
    # Almost no noise: the statistic is the count less 1/2, whose upper tail is that of the count.
    result = binomial_test(8.5, 20, 0.3, tradeoff=approximate_dp(80.0), alternative="greater")
    assert result.pvalue == pytest.approx(binomtest(9, 20, 0.3, alternative="greater").pvalue, rel=1e-12)
    n, z, f = 10**6, 301_000.4, gaussian_dp(0.1)
    result = binomial_test(z, n, 0.3, tradeoff=f, alternative="greater")
    x = np.arange(n + 1)
    assert result.pvalue == pytest.approx(binom.pmf(x, n, 0.3) @ f.canonical_noise().cdf(x - z), rel=1e-7)
    low, high = binomial_test(z, n, 0.3, tradeoff=f).confidence_interval(0.95)
    spread = 1.959964 * np.sqrt(0.301 * 0.699 / n + (10 / n) ** 2)
    assert (low, high) == pytest.approx((0.3010004 - spread, 0.3010004 + spread), abs=3e-6)


@pytest.mark.parametrize(("f", "theta"), [(F, 0.1), (gaussian_dp(1.0), 0.5)], ids=str)
def test_size_and_coverage_over_theta(f, theta):
    # P(p <= alpha) = 1 - coverage at the truth. Two published implementations fail here: sizes of 1 - alpha, intervals
    # around the estimate. The law of Z from SciPy's masses, its noise at quantiles (a midpoint rule in each cell).
    n, offsets = 12, f.canonical_noise().ppf((np.arange(60) + 0.5) / 60)
    for alternative in ALTERNATIVES:
        p = np.array([
            [binomial_test(x + e, n, theta, tradeoff=f, alternative=alternative).pvalue for e in offsets]
            for x in range(n + 1)
        ])  # fmt: skip
        for alpha in (0.05, 0.25):
            size = binom.pmf(range(n + 1), n, theta) @ (p <= alpha).mean(axis=1)
            assert size == pytest.approx(alpha, abs=1.0 / 60)


@pytest.mark.parametrize("z", [-4.0, 0.0, 6.0, 12.4])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("f", [approximate_dp(0.8, 0.02), gaussian_dp(0.6)], ids=repr)
def test_the_interval_holds_exactly_the_proportions_that_are_not_rejected(f, z, alternative):
    low, high = binomial_test(z, 12, 0.5, tradeoff=f, alternative=alternative).confidence_interval(0.9)
    for theta in np.linspace(0.001, 0.999, 60):
        p = binomial_test(z, 12, float(theta), tradeoff=f, alternative=alternative).pvalue
        if abs(p - 0.1) > 1e-9:
            assert (p > 0.1) == (low < theta < high)


def binomial(statistic=3.0, n=10, p=0.5, f=F, **others):
    return binomial_test(statistic, n, p, tradeoff=f, **others)


def rule(alpha=0.05, alternative="two-sided"):
    return umpu_odds_ratio(alpha, rows=(9, 7), column=6, tradeoff=F, alternative=alternative)


test_bad_arguments_are_named = refused(
    (lambda: binomial(n=0), "n must be"),
    (lambda: binomial(n=2.5), "n must be"),
    (lambda: binomial(p=0.0), "p must lie strictly between 0 and 1"),
    (lambda: binomial(math.inf), "statistic"),
    (lambda: binomial(f=1.0), "tradeoff"),
    (lambda: binomial(alternative="two.sided"), "two-sided"),
    (lambda: binomial(n=2**53), r"2\*\*53"),
    (lambda: binomial().confidence_interval(0.0), "level"),
    (lambda: rule().probability(7), "from 0 to 6"),
    (lambda: rule().probability(2.5), "whole numbers"),
    (lambda: rule().power([1.0, -2.0]), "at least 0"),
    (lambda: rule().rejects(3.0), "needs the data"),
    (lambda: rule(0.0), "alpha"),
    (lambda: rule(1.0), "alpha"),
    (lambda: rule(alternative="both"), "'two-sided'"),
)

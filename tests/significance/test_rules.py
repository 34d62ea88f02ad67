"""Rules of rejection: size, power and unbiasedness against linear programs; the proof for two sides; binomial proportions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy.optimize import linprog
from scipy.stats import binom, binomtest

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff
from bayesdp.significance import Rule, binomial_test, odds_ratio_test, umpu_odds_ratio, unbiased_odds_ratio

P, Q = [0.6, 0.25, 0.1, 0.05], [0.05, 0.1, 0.25, 0.6]
STEPS = tradeoff(P, Q)
TRADEOFFS = [approximate_dp(1.0), approximate_dp(0.4, 0.05), gaussian_dp(0.8), STEPS]
ALTERNATIVES = ("greater", "less", "two-sided")
MARGINS = [(9, 7, 6), (3, 12, 10), (1, 1, 1), (4, 4, 8)]
ODDS = np.array([0.0, *np.geomspace(1e-3, 1e3, 25), math.inf])


def every_rule(alpha: float, margins: tuple[int, int, int], f: TradeOff, null: float = 1.0) -> list[Rule]:
    r1, r2, c1 = margins
    given = {"rows": (r1, r2), "column": c1, "tradeoff": f, "null": null}
    umpu = [umpu_odds_ratio(alpha, **given, alternative=own) for own in ALTERNATIVES]  # type: ignore[arg-type]
    return [*umpu, unbiased_odds_ratio(alpha, **given)]  # type: ignore[arg-type]


def corners(margins: tuple[int, int, int]) -> np.ndarray:
    r1, r2, c1 = margins
    return np.arange(max(0, c1 - r2), min(r1, c1) + 1)


def masses(margins: tuple[int, int, int], odds_ratio: float) -> np.ndarray:
    """Fisher's noncentral hypergeometric law from binomial coefficients."""
    r1, r2, c1 = margins
    x = corners(margins)
    weights = np.array([math.comb(r1, int(k)) * math.comb(r2, c1 - int(k)) for k in x]) * odds_ratio ** x.astype(float)
    return np.asarray(weights / weights.sum())


def test_noise_that_binary64_cannot_carry_is_refused_and_wider_noise_has_its_size() -> None:
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


def test_rules_of_tables_that_are_determined_say_so() -> None:
    for rule in every_rule(0.05, (12, 0, 5), approximate_dp(1.0)):
        assert rule.family.determined
        np.testing.assert_allclose(rule.power(ODDS), 0.05, rtol=1e-9)


def test_margins_too_large_for_the_sum_are_refused_before_the_memory_is_gone() -> None:
    half = 2**50
    with pytest.raises(NotImplementedError, match="more than 2,097,152 numbers on one side of its mode"):
        odds_ratio_test(half / 2 + 0.3, rows=(half, half), column=half, tradeoff=approximate_dp(1.0))
    # The same number of records with a small column is no trouble: the corner then has few values. Binomial to nine digits.
    few = odds_ratio_test(7.0, rows=(half, half), column=10, tradeoff=gaussian_dp(3.0))
    chance = np.array([math.comb(10, k) for k in range(11)]) / 2**10
    tails = gaussian_dp(3.0).canonical_noise().cdf(np.arange(11) - 7.0)
    assert few.pvalue == pytest.approx(chance @ tails, rel=1e-9)


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
@pytest.mark.parametrize("margins", MARGINS, ids=str)
@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.4, 0.97])
def test_semi_dp_size_and_unbiasedness(f: TradeOff, margins: tuple[int, int, int], alpha: float) -> None:
    for null in (1.0, 0.3):
        for rule in every_rule(alpha, margins, f, null):
            phi = rule.probability(corners(margins))
            # Paper 003, Equation (2), on every table with these margins, both ways.
            assert np.all(phi[1:] <= f.power(phi[:-1]) + 1e-13)
            assert np.all(phi[:-1] <= f.power(phi[1:]) + 1e-13)
            assert masses(margins, null) @ phi == pytest.approx(alpha, abs=1e-13, rel=1e-12)
            assert rule.size == pytest.approx(alpha, abs=1e-13, rel=1e-12)
            power = rule.power(ODDS)
            slack = 1e-12 * alpha + 1e-14
            if rule.two_sided:
                assert np.all(power >= alpha - slack)
            else:
                side = (null < ODDS) if rule.form == "greater" else (null > ODDS)
                assert np.all(power[side] >= alpha - slack)
                assert np.all(power[~side] <= alpha + slack)


@pytest.mark.parametrize("margins", MARGINS[:2], ids=str)
def test_power_is_the_expectation_of_the_test(margins: tuple[int, int, int]) -> None:
    for rule in every_rule(0.1, margins, gaussian_dp(1.0), 2.0):
        for odds_ratio in (0.01, 1.0, 2.0, 30.0):
            expected = masses(margins, odds_ratio) @ rule.probability(corners(margins))
            assert rule.power(odds_ratio) == pytest.approx(expected, rel=1e-12)


def lines(f: TradeOff) -> list[tuple[float, float]]:
    """f as a maximum of lines ``a - b alpha``; for a curve, tangents from below (a weaker constraint)."""
    if f == STEPS:
        knots = np.array([0.0, *np.cumsum(P[::-1])])  # rejected in the order of Q / P, largest first
        values = 1.0 - np.array([0.0, *np.cumsum(Q[::-1])])
        slopes = -np.diff(values) / np.diff(knots)
        return [(v + b * k, b) for k, v, b in zip(knots, values, slopes, strict=False)]
    if hasattr(f, "epsilon"):
        e, delta = math.exp(f.epsilon), f.delta  # type: ignore[attr-defined]
        return [(1.0 - delta, e), ((1.0 - delta) / e, 1.0 / e), (0.0, 0.0)]
    alphas = np.concatenate([np.geomspace(1e-9, 0.05, 60), np.linspace(0.05, 1 - 1e-9, 250)])
    step = 1e-6 * alphas * (1 - alphas)
    slopes = -(f(alphas + step) - f(alphas - step)) / (2 * step)
    return [(float(f(a)) + b * a, b) for a, b in zip(alphas, slopes.tolist(), strict=True)]


def best_power(
    f: TradeOff, margins: tuple[int, int, int], alpha: float, null: float, odds_ratio: float, *, two_sided: bool
) -> float:
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
@pytest.mark.parametrize("margins", [(9, 7, 6), (3, 12, 10), (8, 8, 8)], ids=str)
@pytest.mark.parametrize("null", [1.0, 2.5])
def test_no_semi_dp_test_has_more_power(f: TradeOff, margins: tuple[int, int, int], null: float) -> None:
    # Tangents from below leave room: up to 5e-4 for the curved f. The others are exact, up to the solver's 1e-7.
    room = 5e-4 if f == TRADEOFFS[2] else 1e-7
    for alpha in (0.05, 0.3):
        greater, less, both, noisy = every_rule(alpha, margins, f, null)
        for odds_ratio in (0.05, 0.5, 4.0, 60.0):
            if odds_ratio > null:
                best = best_power(f, margins, alpha, null, odds_ratio, two_sided=False)
                assert best - room < greater.power(odds_ratio) < best + 1e-7
            elif odds_ratio < null:
                best = best_power(f, margins, alpha, null, odds_ratio, two_sided=False)
                assert best - room < less.power(odds_ratio) < best + 1e-7
            best = best_power(f, margins, alpha, null, odds_ratio, two_sided=True)
            assert best - room < both.power(odds_ratio) < best + 1e-7
            assert noisy.power(odds_ratio) < best + 1e-7


def test_the_noisy_two_sided_test_is_weaker_and_so_not_called_umpu() -> None:
    *_, both, noisy = every_rule(0.3, (9, 7, 6), approximate_dp(1.0))
    assert noisy.power(4.0) < both.power(4.0) - 1e-3


@pytest.mark.parametrize("base", [approximate_dp(0.5), approximate_dp(0.3, 0.01), gaussian_dp(0.4), STEPS], ids=repr)
@pytest.mark.parametrize("distance", [2, 3])
def test_more_power_than_the_route_of_group_privacy(base: TradeOff, distance: int) -> None:
    # A DP test for neighbours, whose promise for groups of the semi-adjacent size is f, against the best test for f.
    f = base.group(distance)
    margins, odds = (16, 14, 12), ODDS[1:-1:2]
    naive, best = every_rule(0.05, margins, base), every_rule(0.05, margins, f)
    for rule, better in zip(naive[:3], best[:3], strict=True):
        side = odds > 1.2 if rule.form == "greater" else odds < 0.8 if rule.form == "less" else np.abs(odds - 1) > 0.2
        phi = rule.probability(corners(margins))
        assert np.all(phi[1:] <= f.power(phi[:-1]) + 1e-13)  # it does satisfy Semi-DP with f
        gain = (better.power(odds) - rule.power(odds))[side]
        assert np.all(gain > 0.0)
        assert gain.max() > 0.02


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
def test_p_values_and_rules_decide_alike(f: TradeOff) -> None:
    margins = (9, 7, 6)
    greater, less, _, noisy = every_rule(0.05, margins, f, 1.5)
    given = {"rows": (9, 7), "column": 6, "tradeoff": f, "null": 1.5}
    for u in np.linspace(-6, 13, 20):
        for rule in (greater, less):
            result = odds_ratio_test(u, **given, alternative=rule.form)  # type: ignore[arg-type]
            assert (result.pvalue <= 0.05) == rule.rejects(u)
    two_sided = odds_ratio_test(4.2, **given, alternative="two-sided")  # type: ignore[arg-type]
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


def test_two_sided_tests_are_centred_where_the_law_is_symmetric() -> None:
    for rule in every_rule(0.05, (8, 8, 8), approximate_dp(0.7))[2:]:
        assert rule.centre == pytest.approx(4.0, abs=1e-9)
        phi = rule.probability(corners((8, 8, 8)))
        np.testing.assert_allclose(phi, phi[::-1], atol=1e-12)


def exact_masses(margins: tuple[int, int, int], sds: float) -> tuple[np.ndarray, np.ndarray]:
    """Masses of the central law within some standard deviations, with 60 digits."""
    r1, r2, c1 = margins
    n = r1 + r2
    mean = c1 * r1 / n
    sd = math.sqrt(mean * (r2 / n) * (n - c1) / (n - 1))
    x = np.arange(max(0, c1 - r2, int(mean - sds * sd)), min(r1, c1, int(mean + sds * sd)) + 1)
    digits = ctx.dps
    ctx.dps = 60
    try:

        def log_choose(n: int, k: int) -> arb:
            return arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()

        first = int(x[0])
        mass = (log_choose(r1, first) + log_choose(r2, c1 - first) - log_choose(n, c1)).exp()
        found = []
        for k in x.tolist():
            found.append(float(mass))
            mass = mass * ((r1 - k) * (c1 - k)) / ((k + 1) * (r2 - c1 + k + 1))
    finally:
        ctx.dps = digits
    return x, np.array(found)


@pytest.mark.parametrize(
    ("margins", "tolerance"),
    [((10**4, 9000, 8000), 1e-12), ((10**4, 10**4, 30), 1e-12), ((10**6, 900_000, 10**6), 1e-9)],
)
@pytest.mark.parametrize("f", [approximate_dp(1.0, 1e-6), gaussian_dp(0.3)], ids=repr)
def test_size_with_large_margins(margins: tuple[int, int, int], tolerance: float, f: TradeOff) -> None:
    x, weights = exact_masses(margins, 12.0)
    for alpha in (0.05, 1e-5):
        for rule in every_rule(alpha, margins, f):
            phi = rule.probability(x)
            assert math.fsum(weights * phi) == pytest.approx(alpha, abs=tolerance * alpha / 0.05, rel=0)
            if rule.two_sided:
                centred = x - math.fsum(weights * (x - x[0])) - x[0]
                assert abs(math.fsum(weights * centred * phi)) < 1e-9


def test_bad_questions_to_a_rule() -> None:
    given = {"rows": (9, 7), "column": 6, "tradeoff": approximate_dp(1.0)}
    rule = umpu_odds_ratio(0.05, **given, alternative="two-sided")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="from 0 to 6"):
        rule.probability(7)
    with pytest.raises(ValueError, match="whole numbers"):
        rule.probability(2.5)
    with pytest.raises(ValueError, match="at least 0"):
        rule.power([1.0, -2.0])
    with pytest.raises(ValueError, match="needs the data"):
        rule.rejects(3.0)
    for alpha in (0.0, 1.0, 5):
        with pytest.raises(ValueError, match="alpha"):
            umpu_odds_ratio(alpha, **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'two-sided'"):
        umpu_odds_ratio(0.05, **given, alternative="both")  # type: ignore[arg-type]


PROVED = [
    approximate_dp(1.0),
    approximate_dp(0.4, 0.05),
    approximate_dp(0.0, 0.2),
    gaussian_dp(0.8),
    tradeoff([0.6, 0.25, 0.1, 0.05], [0.05, 0.1, 0.25, 0.6]),
]
PROOF = (9, 8, 7)
SLACK = 1e-10


def private(f: TradeOff, wanted: np.ndarray) -> np.ndarray:
    """The largest test below `wanted` that satisfies the constraint: the constraint, over and over, until nothing changes."""
    phi = wanted.copy()
    while True:
        power = np.asarray(f.power(phi))
        right, left = np.append(power[1:], 1.0), np.insert(power[:-1], 0, 1.0)
        lower = np.minimum(phi, np.minimum(left, right))
        if np.array_equal(lower, phi):
            return phi
        phi = lower


def unbiased_tests(f: TradeOff, alpha: float, rng: np.random.Generator, number: int) -> list[np.ndarray]:
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


@pytest.mark.parametrize("f", PROVED, ids=repr)
@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.8])
def test_each_step_of_the_proof(f: TradeOff, alpha: float) -> None:
    rng = np.random.default_rng(1806)
    x, p = corners(PROOF), masses(PROOF, 1.0)
    rule = umpu_odds_ratio(alpha, rows=PROOF[:2], column=PROOF[2], tradeoff=f, alternative="two-sided")
    best = rule.probability(x)
    # Step 1, and the equality that step 3 uses: outwards of the centre, where the value is not 0.
    assert np.all(best[1:] <= f.power(best[:-1]) + SLACK)
    assert np.all(best[:-1] <= f.power(best[1:]) + SLACK)
    right, left = (x[:-1] >= rule.centre) & (best[:-1] > SLACK), (x[1:] <= rule.centre) & (best[1:] > SLACK)
    np.testing.assert_allclose(best[1:][right], np.asarray(f.power(best[:-1]))[right], atol=SLACK)
    np.testing.assert_allclose(best[:-1][left], np.asarray(f.power(best[1:]))[left], atol=SLACK)
    patterns = set()
    for phi in unbiased_tests(f, alpha, rng, 25):
        assert np.all(phi[1:] <= f.power(phi[:-1]) + SLACK)
        assert np.all(phi[:-1] <= f.power(phi[1:]) + SLACK)
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


def test_a_test_of_another_form_fails_a_step() -> None:
    """The pattern of signs is not automatic: the noisy test, of the same size and unbiased, has no plus at the ends."""
    from bayesdp.significance import unbiased_odds_ratio

    x, f = corners(PROOF), approximate_dp(1.0)
    given = {"rows": PROOF[:2], "column": PROOF[2], "tradeoff": f}
    noisy = unbiased_odds_ratio(0.3, **given).probability(x)  # type: ignore[arg-type]
    best = umpu_odds_ratio(0.3, **given, alternative="two-sided").probability(x)  # type: ignore[arg-type]
    d = noisy - best
    signs = np.sign(d[np.abs(d) > 1e-8])
    assert tuple(signs[np.insert(np.diff(signs) != 0, 0, True)].tolist()) == (-1.0, 1.0, -1.0)


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

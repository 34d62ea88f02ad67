"""Trade-off functions and their canonical noise: against linear programs, 50 digits, and numbers computed elsewhere."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.stats import binom, kstest, norm

from bayesdp.privacy import SemiGuarantee
from bayesdp.privacy.canonical import GaussianNoise, RecursiveNoise, Tulap
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff
from tests.refusals import refused

GRID = np.linspace(0.0, 1.0, 401)
RESPONSE = tradeoff([0.7, 0.2, 0.1], [0.1, 0.2, 0.7])
SKEW = tradeoff([0.5, 0.3, 0.2, 0.0], [0.1, 0.0, 0.5, 0.4])
COIN = tradeoff(binom.pmf(range(9), 8, 0.3), binom.pmf(range(9), 8, 0.55))
SYMMETRIC = [approximate_dp(1.0), approximate_dp(0.3, 0.05), approximate_dp(0.0, 0.2), gaussian_dp(0.8), RESPONSE]
ALL = [approximate_dp(0.3, 0.05), gaussian_dp(0.8), RESPONSE, SKEW, COIN, approximate_dp(0.4, 0.01).group(3)]


@pytest.mark.parametrize("alpha", [0.0, 0.03, 0.35, 0.8, 1.0])
def test_discrete_pair_is_the_best_of_all_tests(alpha):
    """The least type II error over all randomised tests is a linear program."""
    for seed in range(4):
        p, q = np.random.default_rng(seed).dirichlet([0.7] * 6, size=2)
        p[0] = q[1] = 0.0
        p, q = p / p.sum(), q / q.sum()
        power = -linprog(-q, A_ub=p[None], b_ub=[alpha], bounds=(0, 1), method="highs").fun
        assert tradeoff(p, q)(alpha) == pytest.approx(1.0 - power, abs=1e-12)


def test_values_of_the_formulas_and_their_digits_in_the_far_tails():
    f = approximate_dp(1.0, 0.1)
    expected = np.maximum.reduce([0 * GRID, 0.9 - math.e * GRID, (0.9 - GRID) / math.e])
    np.testing.assert_allclose(f(GRID), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(gaussian_dp(0.8)(GRID), norm.cdf(norm.isf(GRID) - 0.8), rtol=1e-12)
    level = np.array([1e-300, 1e-100, 1e-20])
    f = gaussian_dp(2.0)
    np.testing.assert_allclose(f.power(level), norm.sf(norm.isf(level) - 2.0), rtol=1e-12)
    np.testing.assert_allclose(f.increasing(f.power(level)), level, rtol=1e-10)


@pytest.mark.parametrize("f", ALL)
def test_every_function_is_a_trade_off_function_with_its_slope_and_inverse(f):
    values = f(GRID)
    assert np.all(np.diff(values) <= 1e-15)
    assert np.all(np.diff(values, 2) >= -1e-14)  # convex
    assert np.all(values <= 1.0 - GRID + 1e-14)
    assert values[-1] == 0.0
    np.testing.assert_allclose(f.power(GRID), 1.0 - values, rtol=0, atol=1e-14)
    np.testing.assert_allclose(f.increasing(1.0 - GRID), values, rtol=0, atol=1e-14)
    at, h = np.array([0.0123, 0.1771, 0.3137, 0.4567, 0.6543, 0.8765]), 1e-6
    numeric = (f(at - h) - f(at + h)) / (2 * h)
    np.testing.assert_allclose(f._slope(at, 1 - at), numeric, rtol=1e-6, atol=1e-9)
    for beta in np.linspace(0.01, 0.99, 23):
        alpha = f.inverse()(beta)
        assert f(alpha) <= beta + 1e-12
        assert alpha == 0.0 or f(max(alpha - 1e-9, 0.0)) > beta - 1e-12
        if alpha > 1e-6:
            assert f(alpha - 1e-6) > beta


def test_inverse_is_the_trade_off_of_the_exchanged_pair_and_symmetry_is_recognised():
    p, q = [0.5, 0.3, 0.2, 0.0], [0.1, 0.0, 0.5, 0.4]
    np.testing.assert_allclose(SKEW.inverse()(GRID), tradeoff(q, p)(GRID), rtol=0, atol=1e-15)
    np.testing.assert_allclose(SKEW.group(2).inverse()(GRID), SKEW.inverse().group(2)(GRID), rtol=0, atol=1e-15)
    assert all(f.symmetric and f.inverse() is f for f in SYMMETRIC if f is not RESPONSE)
    some = (RESPONSE, SKEW, COIN, SKEW.group(2), RESPONSE.group(2))
    assert [f.symmetric for f in some] == [True, False, False, False, True]


@pytest.mark.parametrize("f", ALL)
def test_group_privacy_in_both_conventions(f):
    power, increasing = GRID, GRID
    for k in (1, 2, 3):
        power, increasing = 1.0 - f(np.clip(power, 0, 1)), f(np.clip(1.0 - increasing, 0, 1))
        np.testing.assert_allclose(f.group(k)(GRID), 1.0 - power, rtol=0, atol=1e-12)
        np.testing.assert_allclose(f.group(k).increasing(GRID), increasing, rtol=0, atol=1e-12)
        np.testing.assert_allclose(f.group(k).group(2)(GRID), f.group(2 * k)(GRID), rtol=0, atol=1e-12)


def test_tails_invert_each_other_and_are_not_lost_in_groups():
    tiny = np.array([1e-250, 1e-100, 1e-30])
    for f in (approximate_dp(1.0), approximate_dp(50.0), RESPONSE, COIN):
        small = tiny[f.power(tiny) < 0.5]
        np.testing.assert_allclose(f.inverse().increasing(f.power(small)), small, rtol=1e-12)
    assert np.all(approximate_dp(800.0).power(tiny) == 1.0)
    assert approximate_dp(800.0).increasing(1e-3) == 0.0
    assert approximate_dp(1.0).group(200).increasing(0.1) == pytest.approx(0.1 * math.exp(-200), rel=1e-12)
    start = np.array([1e-200])
    assert approximate_dp(1.0).group(300).power(start) == pytest.approx(1e-200 * math.exp(300), rel=1e-12)


EIGHT = tradeoff(binom.pmf(range(9), 8, 0.35), binom.pmf(range(9), 8, 0.65))
ANSWER = tradeoff([0.7, 0.2, 0.1, 0.0], [0.0, 0.2, 0.1, 0.7])
SMOOTH = [approximate_dp(1.0), approximate_dp(0.3, 0.05), approximate_dp(0.0, 0.2), gaussian_dp(0.8)]
PAIRS = [
    *((f, f.canonical_noise()) for f in [*SMOOTH, EIGHT, ANSWER, approximate_dp(0.5, 1e-3).group(2)]),
    *((f, RecursiveNoise(f)) for f in SMOOTH),
]
X = np.linspace(-9.3, 9.3, 373)


def test_numbers_computed_elsewhere_and_recursion_meets_the_gaussian_at_half_integers():
    for epsilon, delta, at, expected in (
        (1.0, 0.0, (-0.5, 0.25, 1, 2.5), (0.26894142137, 0.61552928932, 0.81606027941, 0.96360273657)),
        (1.0, 0.01, (-0.5, 0.25, 1, 2.5), (0.26625200716, 0.61687399642, 0.81973907383, 0.96899885645)),
        # At 1, Lemma 36 gives 1 - f(1/2) = 1 - exp(-0.5) (0.5 - 1e-7), by hand.
        (0.5, 1e-7, (-1, -0.5, 0, 0.5, 1), (0.30326526920, 0.37754063104, 0.5, 0.62245936896, 0.69673473080)),
    ):
        f = approximate_dp(epsilon, delta)
        assert f.canonical_noise() == Tulap(epsilon, delta)
        for noise in (f.canonical_noise(), RecursiveNoise(f)):
            np.testing.assert_allclose(noise.cdf(at), expected, rtol=0, atol=1e-11)
    # Canonical noise of mu-GDP is not unique: Lemma 36 is uniform in the centre. Both obey the same recursion.
    for mu in (0.2, 1.0, 3.0):
        assert gaussian_dp(mu).canonical_noise() == GaussianNoise(mu)
        half = np.arange(-8, 8) + 0.5
        found = RecursiveNoise(gaussian_dp(mu)).cdf(half)
        np.testing.assert_allclose(found, norm.cdf(mu * half), rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(GaussianNoise(mu).cdf(X), norm.cdf(X, scale=1 / mu), rtol=1e-12)
        np.testing.assert_allclose(GaussianNoise(mu).pdf(X), norm.pdf(X, scale=1 / mu), rtol=1e-12)


def tulap_as_printed(x, epsilon, delta):
    """Awan and Slavkovic: discrete Laplace plus uniform, its q/2 tails cut off; for moderate x only."""
    b = math.exp(-epsilon)
    q = 2 * delta * b / (1 - b + 2 * delta * b)
    z = -np.abs(x)
    low = b ** -np.round(z) / (1 + b) * (b + (z - np.round(z) + 0.5) * (1 - b))
    low = np.maximum(low - q / 2, 0) / (1 - q)
    return np.where(x <= 0, low, 1 - low)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.3, 0.05), (3.0, 1e-6), (0.01, 1e-9), (8.0, 0.3)])
def test_recursion_and_both_closed_forms_agree(epsilon, delta):
    f = approximate_dp(epsilon, delta)
    closed, recursive = Tulap(epsilon, delta), RecursiveNoise(f)
    np.testing.assert_allclose(closed.cdf(X), tulap_as_printed(X, epsilon, delta), rtol=0, atol=1e-12)
    np.testing.assert_allclose(recursive.cdf(X), closed.cdf(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(recursive.pdf(X), closed.pdf(X), rtol=1e-11, atol=1e-12)
    levels = np.linspace(0.0, 1.0, 203)[1:-1]
    np.testing.assert_allclose(recursive.ppf(levels), closed.ppf(levels), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("f", "noise"), PAIRS)
def test_canonical_property_and_density_quantiles_and_draws_are_those_of_the_distribution(f, noise):
    # Definition 35: F(x - 1) = f(1 - F(x)) for 0 < F(x) < 1, in the increasing convention f(F(x)); F symmetric.
    x = X[(noise.cdf(X) > 0.0) & (noise.sf(X) > 0.0)]
    np.testing.assert_allclose(noise.cdf(x - 1), f(noise.sf(x)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(noise.cdf(x - 3), f.group(3)(noise.sf(x)), rtol=0, atol=1e-12)
    x = x[noise.cdf(x) < 0.99]  # a distribution function near 1 has lost the digits of its tail
    np.testing.assert_allclose(noise.cdf(x - 1), f.increasing(noise.cdf(x)), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(noise.cdf(-X), noise.sf(X), rtol=1e-14)
    np.testing.assert_allclose(noise.cdf(X) + noise.sf(X), 1.0, rtol=1e-14)
    assert noise.cdf(0.0) == pytest.approx(0.5, abs=1e-15)
    # Part 1: for shifts of 0 to 1 no threshold test does better than f allows.
    for shift in (0.1, 0.5, 0.9):
        assert np.all(noise.cdf(X - shift) >= f(noise.sf(X)) - 1e-13)
    x, h = X + 0.0123, 1e-6  # not at jumps of a density
    np.testing.assert_allclose(noise.pdf(x), (noise.cdf(x + h) - noise.cdf(x - h)) / (2 * h), rtol=1e-6, atol=1e-9)
    levels = np.concatenate([np.linspace(0.0, 1.0, 301)[1:-1], [1e-12, 1e-6]])
    np.testing.assert_allclose(noise.cdf(noise.ppf(levels)), levels, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(noise.sf(-noise.ppf(levels)), levels, rtol=1e-10, atol=1e-15)
    inside = (noise.cdf(X) > 1e-9) & (noise.cdf(X) < 0.99)
    np.testing.assert_allclose(noise.ppf(noise.cdf(X[inside])), X[inside], rtol=0, atol=1e-9)
    # 11 laws, each with a false alarm of 1e-4 (the seed is fixed).
    draws = noise.rvs(20_000, rng=np.random.default_rng(5))
    assert kstest(draws, noise.cdf).pvalue > 1e-4


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 600.0, 1e3, 1e4])
def test_nothing_overflows(epsilon):
    # Warnings are errors here.
    x = np.array([-math.inf, -1e4, -1.0, 0.0, 1e4 / epsilon, 1e7, math.inf])
    for delta in (0.0, 1e-7):
        closed = Tulap(epsilon, delta)
        laws = [closed] if not 1 <= epsilon < 700 else [closed, RecursiveNoise(approximate_dp(epsilon, delta))]
        for noise in laws:
            assert np.all(np.diff(noise.cdf(x)) >= 0)
            assert noise.cdf(-math.inf) == noise.sf(math.inf) == 0.0
            assert np.all(np.isfinite(noise.pdf(x)))
            ends = noise.ppf([0.0, 5e-324, 1e-300, 1.0])
            assert not np.isnan(ends).any()
            assert (ends[0] == -math.inf) == (delta == 0.0)
    assert np.all(np.isfinite(GaussianNoise(epsilon).pdf([1e200, -1e308])))
    assert GaussianNoise(epsilon).cdf(-1e308) == 0.0


test_bad_arguments_are_named = refused(
    (lambda: approximate_dp(-1.0), "epsilon must be a finite number of at least 0", ValueError),
    (lambda: approximate_dp(1.0, 1.0), "delta must be at least 0 and less than 1, got 1.0", ValueError),
    (lambda: gaussian_dp(0.0), "mu must be a finite number greater than 0", ValueError),
    (lambda: SKEW([0.1, 1.2]), "alpha must lie between 0 and 1, but entry 1 is 1.2", ValueError),
    (lambda: SKEW(math.nan), "alpha must not be NaN", ValueError),
    (lambda: SKEW.increasing(-0.1), "level must lie between 0 and 1", ValueError),
    (lambda: SKEW([True]), "alpha must hold integers or real numbers", TypeError),
    (lambda: SKEW.group(0), "k must be", ValueError),
    (lambda: tradeoff([0.5, 0.5], [1.0]), "p has 2 and q has 1", ValueError),
    (lambda: tradeoff([0.5, 0.4], [0.5, 0.5]), "p must add up to 1 within 1e-09, but adds up to 0.9", ValueError),
    (lambda: tradeoff([0.5, 0.5], [1.5, -0.5]), "q must lie between 0 and 1, but entry 0 is 1.5", ValueError),
    (lambda: tradeoff([[1.0]], [1.0]), r"p must be a vector .* got shape \(1, 1\)", ValueError),
    (lambda: Tulap(0.0), "epsilon and delta must not both be 0", ValueError),
    (lambda: Tulap(1.0, 1.0), "delta must be at least 0 and less than 1", ValueError),
    (lambda: GaussianNoise(-1.0), "mu must be", ValueError),
    (lambda: approximate_dp(0.0).canonical_noise(), "not both be 0", ValueError),
    (lambda: tradeoff([0.5, 0.5], [0.1, 0.9]).canonical_noise(), "tradeoff must be symmetric", ValueError),
    (lambda: tradeoff([0.5, 0.5], [0.5, 0.5]).canonical_noise(), "must differ from 1 - alpha", ValueError),
    (lambda: Tulap(1.0).cdf([0.0, math.nan]), "x must not be NaN, but entry 1 is", ValueError),
    (lambda: Tulap(1.0).ppf(1.1), "q must lie between 0 and 1", ValueError),
)
FIVE = tradeoff(binom.pmf(range(6), 5, 0.3), binom.pmf(range(6), 5, 0.7))
LAWS = [Tulap(1.0), Tulap(0.0, 0.1), Tulap(0.3, 0.05), GaussianNoise(0.8)]
LAWS += map(RecursiveNoise, (approximate_dp(0.3, 0.05), gaussian_dp(0.8), FIVE.group(2)))
NEAR = np.linspace(-6.0, 6.0, 241) + 0.003


@pytest.mark.parametrize("law", LAWS)
def test_logarithms_are_those_of_the_probabilities_and_the_variance_is_the_integral(law):
    for log, plain in ((law.logcdf, law.cdf), (law.logpdf, law.pdf)):
        value = plain(NEAR)
        assert np.all(np.isneginf(log(NEAR)[value == 0.0]))
        inside = value > 1e-12  # below, at the ends of a bounded support, the probability itself has few digits
        np.testing.assert_allclose(log(NEAR)[inside], np.log(value[inside]), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(law.logcdf([-math.inf, math.inf]), [-math.inf, 0.0])
    np.testing.assert_array_equal(law.logpdf([-math.inf, math.inf]), [-math.inf, -math.inf])
    end = min(law.support()[1], 60.0)
    f = getattr(law, "tradeoff", None)
    kinks = np.empty(0) if f is None else np.asarray(law.ppf(1.0 - f._kinks()))
    offsets = np.unique(np.round(np.concatenate([[0.5], kinks % 1.0, -kinks % 1.0]), 12))
    edges = np.unique(np.clip([0.0, end, *(k + o for k in range(61) for o in offsets)], 0.0, end))
    nodes, weights = np.polynomial.legendre.leggauss(30)  # between jumps of the density
    centre, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    x = centre[:, None] + half[:, None] * nodes
    area = float(np.sum(half[:, None] * weights * x * x * law.pdf(x)))
    assert law.var() == pytest.approx(2.0 * area, rel=1e-8)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e4])
def test_far_tails_of_pure_noise_are_finite_and_exact(epsilon):
    # For integer k, F(-k) = exp(-k epsilon) / 2, and the density there is (1 - b) / (1 + b) exp(-k epsilon).
    k = np.unique(np.ceil(np.array([1.0, 1e2, 1e3, 1e4]) / epsilon))
    noise = Tulap(epsilon)
    np.testing.assert_allclose(noise.logcdf(-k), -k * epsilon - math.log(2.0), rtol=1e-13)
    np.testing.assert_allclose(noise.logpdf(k), -k * epsilon + math.log(math.tanh(epsilon / 2)), rtol=1e-12)
    if epsilon <= 30.0:
        np.testing.assert_allclose(RecursiveNoise(approximate_dp(epsilon)).logcdf(-k), noise.logcdf(-k), rtol=1e-9)
        near = k[k * epsilon < 700.0]
        np.testing.assert_allclose(noise.cdf(-near), 0.5 * np.exp(-near * epsilon), rtol=1e-12)
        np.testing.assert_allclose(noise.ppf(0.5 * np.exp(-near * epsilon)), -near, rtol=1e-12)


def test_truncated_tail_against_fifty_digits_and_support():
    # F(z) = b F(z + 1) - delta b, from the centre down (Lemma 36 for f_{epsilon, delta}).
    with localcontext(prec=50):
        epsilon, delta = Decimal("0.5"), Decimal("1e-7")
        b = (-epsilon).exp()
        c = (1 - delta) * b / (1 + b)
        value = c + (1 - 2 * c) * Decimal("0.3")  # F(-1/2 + 0.3)
        expected = []
        for _ in range(28):
            expected.append(float(value.ln()))
            value = b * (value - delta)
    at = -0.2 - np.arange(28.0)
    np.testing.assert_allclose(Tulap(0.5, 1e-7).logcdf(at), expected, rtol=1e-9)
    np.testing.assert_allclose(Tulap(0.5, 1e-7).cdf(1.0), 0.69673473080, rtol=0, atol=5e-12)
    assert (Tulap(0.5, 1e-7).logcdf(-1e9), Tulap(1.0).support()) == (-math.inf, (-math.inf, math.inf))
    law = Tulap(0.5, 0.01)
    low, high = law.support()
    assert (low, law.sf(high)) == (-high, pytest.approx(0.0, abs=1e-15))
    assert law.sf(high - 1e-3) > 0.0


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-7), (2e-7, 1e-7), (1e-5, 1e-9), (1e-3, 0.3)])
def test_variance_with_a_great_many_cells(epsilon, delta):
    # Nearly continuous: density proportional to exp(-epsilon |x|) on the support, or so many cells are added up.
    law = Tulap(epsilon, delta)
    end = law.support()[1]
    if end > 1e4:
        inner, mass = (quad(lambda u: u**k * math.exp(-epsilon * end * u), 0, 1, epsabs=0)[0] for k in (2, 0))  # noqa: B023
        assert law.var() == pytest.approx(end**2 * inner / mass, rel=1e-5)
    else:
        expected = quad(lambda x: 2 * x * x * law.pdf(x), 0, end, points=[0.5, 1.5])[0]
        assert law.var() == pytest.approx(expected, rel=1e-9)


def test_a_group_of_a_semi_guarantee_is_about_so_many_times_the_records():
    assert (
        SemiGuarantee(gaussian_dp(0.5), 2).group(3).adjacency,
        SemiGuarantee(gaussian_dp(0.5), 2).group(1).adjacency,
    ) == (6, 2)

"""Trade-off functions, against linear programs, enumerated tests, quadrature-free identities and 50-digit arithmetic."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.stats import binom, norm

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, describe_tradeoff, gaussian_dp, laplace_dp, tradeoff
from bayesdp.privacy.tradeoffs.profile import tradeoff_delta

GRID = np.linspace(0.0, 1.0, 401)
RESPONSE = tradeoff([0.7, 0.2, 0.1], [0.1, 0.2, 0.7])
SKEW = tradeoff([0.5, 0.3, 0.2, 0.0], [0.1, 0.0, 0.5, 0.4])
COIN = tradeoff(binom.pmf(range(9), 8, 0.3), binom.pmf(range(9), 8, 0.55))
SYMMETRIC = [approximate_dp(1.0), approximate_dp(0.3, 0.05), approximate_dp(0.0, 0.2), gaussian_dp(0.8), RESPONSE]
ALL = [*SYMMETRIC, SKEW, COIN, SKEW.group(3), approximate_dp(0.4, 0.01).group(3)]


def smallest_type_two(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    """Minimise the type II error over all randomised tests, as a linear program."""
    found = linprog(-q, A_ub=p[None], b_ub=[alpha], bounds=(0, 1), method="highs")
    return 1.0 + float(found.fun)


@pytest.mark.parametrize("alpha", [0.0, 0.03, 0.2, 0.35, 0.5, 0.8, 1.0])
def test_discrete_pair_is_the_best_of_all_tests(alpha: float) -> None:
    for seed in range(4):
        p, q = np.random.default_rng(seed).dirichlet([0.7] * 6, size=2)
        p[0] = 0.0
        q[1] = 0.0
        p, q = p / p.sum(), q / q.sum()
        assert tradeoff(p, q)(alpha) == pytest.approx(smallest_type_two(p, q, alpha), abs=1e-12)


def test_values_of_the_formulas() -> None:
    f = approximate_dp(1.0, 0.1)
    expected = np.maximum.reduce([0 * GRID, 0.9 - math.e * GRID, (0.9 - GRID) / math.e])
    np.testing.assert_allclose(f(GRID), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(gaussian_dp(0.8)(GRID), norm.cdf(norm.isf(GRID) - 0.8), rtol=1e-12)


@pytest.mark.parametrize("f", ALL, ids=repr)
def test_every_function_is_a_trade_off_function(f: TradeOff) -> None:
    values = f(GRID)
    assert np.all(np.diff(values) <= 1e-15)
    assert np.all(np.diff(values, 2) >= -1e-14)  # convex
    assert np.all(values <= 1.0 - GRID + 1e-14)
    assert values[-1] == 0.0
    np.testing.assert_allclose(f.power(GRID), 1.0 - values, rtol=0, atol=1e-14)
    np.testing.assert_allclose(f.increasing(1.0 - GRID), values, rtol=0, atol=1e-14)
    assert isinstance(f(0.3), float)
    assert f(np.full((2, 3), 0.3)).shape == (2, 3)


@pytest.mark.parametrize("f", ALL, ids=repr)
def test_slope_is_the_derivative(f: TradeOff) -> None:
    at = np.array([0.0123, 0.1771, 0.3137, 0.4567, 0.6543, 0.8765])
    h = 1e-6
    numeric = (f(at - h) - f(at + h)) / (2 * h)
    np.testing.assert_allclose(f._slope(at, 1 - at), numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("f", ALL, ids=repr)
def test_inverse_is_the_generalised_inverse(f: TradeOff) -> None:
    for beta in np.linspace(0.01, 0.99, 23):
        alpha = f.inverse()(beta)
        assert f(alpha) <= beta + 1e-12
        assert alpha == 0.0 or f(max(alpha - 1e-9, 0.0)) > beta - 1e-12
        if alpha > 1e-6:
            assert f(alpha - 1e-6) > beta


def test_inverse_is_the_trade_off_of_the_exchanged_pair() -> None:
    p, q = [0.5, 0.3, 0.2, 0.0], [0.1, 0.0, 0.5, 0.4]
    np.testing.assert_allclose(SKEW.inverse()(GRID), tradeoff(q, p)(GRID), rtol=0, atol=1e-15)
    np.testing.assert_allclose(SKEW.group(2).inverse()(GRID), SKEW.inverse().group(2)(GRID), rtol=0, atol=1e-15)


def test_symmetry_is_recognised() -> None:
    assert all(f.symmetric and f.inverse() is f for f in SYMMETRIC if f is not RESPONSE)
    assert RESPONSE.symmetric
    assert not SKEW.symmetric
    assert not COIN.symmetric
    assert not SKEW.group(2).symmetric
    assert RESPONSE.group(2).symmetric


@pytest.mark.parametrize("f", ALL, ids=repr)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_group_privacy_in_both_conventions(f: TradeOff, k: int) -> None:
    power, increasing = GRID, GRID
    for _ in range(k):
        power, increasing = 1.0 - f(np.clip(power, 0, 1)), f(np.clip(1.0 - increasing, 0, 1))
    np.testing.assert_allclose(f.group(k)(GRID), 1.0 - power, rtol=0, atol=1e-12)
    np.testing.assert_allclose(f.group(k).increasing(GRID), increasing, rtol=0, atol=1e-12)


def test_group_of_a_gaussian_is_gaussian_and_groups_multiply() -> None:
    assert gaussian_dp(0.3).group(4).group(2) == gaussian_dp(0.3 * 8)
    assert SKEW.group(2).group(3) == SKEW.group(6)


def test_group_is_a_chain_of_laplace_shifts() -> None:
    # Laplace noise of scale 1 / epsilon, shifted by 2 instead of 1: its trade-off bounds the group function from above.
    pure = approximate_dp(1.0).group(2)
    assert np.all(pure(GRID) >= approximate_dp(2.0)(GRID) - 1e-15)
    assert np.max(pure(GRID) - approximate_dp(2.0)(GRID)) > 0.05


def test_gaussian_keeps_its_digits_in_the_far_tails() -> None:
    level = np.array([1e-300, 1e-100, 1e-20])
    f = gaussian_dp(2.0)
    np.testing.assert_allclose(f.power(level), norm.sf(norm.isf(level) - 2.0), rtol=1e-12)
    np.testing.assert_allclose(f.increasing(f.power(level)), level, rtol=1e-10)


@pytest.mark.parametrize(
    "f", [approximate_dp(1.0), approximate_dp(50.0), approximate_dp(800.0), RESPONSE, COIN], ids=repr
)
def test_tails_invert_each_other(f: TradeOff) -> None:
    tiny = np.array([1e-250, 1e-100, 1e-30])
    if f == approximate_dp(800.0):
        assert np.all(f.power(tiny) == 1.0)
        assert f.increasing(1e-3) == 0.0
        return
    small = tiny[f.power(tiny) < 0.5]
    np.testing.assert_allclose(f.inverse().increasing(f.power(small)), small, rtol=1e-12)


def test_group_of_many_does_not_lose_the_tail() -> None:
    assert approximate_dp(1.0).group(200).increasing(0.1) == pytest.approx(0.1 * math.exp(-200), rel=1e-12)
    start = np.array([1e-200])
    assert approximate_dp(1.0).group(300).power(start) == pytest.approx(1e-200 * math.exp(300), rel=1e-12)


def test_order_of_the_outcomes_does_not_matter() -> None:
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.35, 0.25])
    for order in itertools.permutations(range(3)):
        np.testing.assert_allclose(tradeoff(p[[*order]], q[[*order]])(GRID), tradeoff(p, q)(GRID), rtol=0, atol=1e-15)


def test_objects_are_frozen_and_comparable() -> None:
    assert tradeoff([0.5, 0.5], [0.1, 0.9]) == tradeoff([0.5, 0.5], [0.1, 0.9])
    assert len({approximate_dp(1), approximate_dp(1.0), gaussian_dp(1.0), SKEW}) == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        approximate_dp(1.0).epsilon = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: approximate_dp(-1.0), ValueError, "epsilon must be a finite number of at least 0"),
        (lambda: approximate_dp(1.0, 1.0), ValueError, "delta must be at least 0 and less than 1, got 1.0"),
        (lambda: gaussian_dp(0.0), ValueError, "mu must be a finite number greater than 0"),
        (lambda: gaussian_dp("1"), TypeError, "mu"),
        (lambda: SKEW([0.1, 1.2]), ValueError, "alpha must lie between 0 and 1, but entry 1 is 1.2"),
        (lambda: SKEW(math.nan), ValueError, "alpha must not be NaN"),
        (lambda: SKEW.increasing(-0.1), ValueError, "level must lie between 0 and 1"),
        (lambda: SKEW([True]), TypeError, "alpha must hold integers or real numbers"),
        (lambda: SKEW.group(0), ValueError, "k must be"),
        (lambda: SKEW.group(1.5), TypeError, "k must be"),  # type: ignore[arg-type]
        (lambda: tradeoff([0.5, 0.5], [1.0]), ValueError, "p has 2 and q has 1"),
        (lambda: tradeoff([0.5, 0.4], [0.5, 0.5]), ValueError, "p must add up to 1 within 1e-09, but adds up to 0.9"),
        (lambda: tradeoff([0.5, 0.5], [1.5, -0.5]), ValueError, "q must lie between 0 and 1, but entry 0 is 1.5"),
        (lambda: tradeoff([[1.0]], [1.0]), ValueError, r"p must be a vector .* got shape \(1, 1\)"),
    ],
)
def test_bad_arguments_are_named(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


LEVELS = np.concatenate([10.0 ** np.arange(-12, -1), np.linspace(0.02, 0.98, 49)])


@pytest.mark.parametrize(
    ("p", "q", "known"),
    [
        (stats.norm(0, 2), stats.norm(1, 2), gaussian_dp(0.5)),
        (stats.norm(1, 2), stats.norm(0, 2), gaussian_dp(0.5)),
        (stats.laplace(0, 2), stats.laplace(3, 2), laplace_dp(1.5)),
        (stats.logistic(0), stats.logistic(1), lambda a: 1.0 / (1.0 + math.e * a / (1.0 - a))),
        (stats.expon(0, 1), stats.expon(0, 3), lambda a: 1.0 - a ** (1.0 / 3.0)),
    ],
    ids=["normal", "falling", "Laplace", "logistic", "exponential"],
)
def test_continuous_laws_against_closed_forms(p, q, known):
    f = tradeoff(p, q)
    np.testing.assert_allclose(f(LEVELS), known(LEVELS), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(f.inverse()(f(LEVELS[11:])), LEVELS[11:], rtol=1e-7)

    def hockey_stick(one, other):
        return quad(lambda x: max(one.pdf(x) - math.exp(0.7) * other.pdf(x), 0.0), -30, 60, limit=500)[0]

    assert tradeoff_delta(f, 0.7) == pytest.approx(max(hockey_stick(p, q), hockey_stick(q, p)), abs=1e-7)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tradeoff(stats.cauchy(0), stats.cauchy(1)), NotImplementedError, "not monotone .it turns near"),
        (lambda: tradeoff(stats.poisson(3), stats.poisson(4)), TypeError, "p must be .* without logpdf"),
        (
            lambda: tradeoff(stats.norm(), [0.5, 0.5]),
            TypeError,
            "q must be a vector of probabilities or a continuous law",
        ),
        (lambda: describe_tradeoff(tradeoff(stats.norm(), stats.norm(1))), NotImplementedError, "a file cannot name"),
    ],
)
def test_continuous_laws_that_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()

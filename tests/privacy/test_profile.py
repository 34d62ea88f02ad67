"""Profiles of losses: the hockey stick, products of trade-off functions, and convolution with both bounds."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, laplace

from bayesdp import privacy
from bayesdp.papers.semi_dp import census_analysis
from bayesdp.privacy.canonical import RecursiveNoise
from bayesdp.privacy.tradeoffs import profile
from bayesdp.privacy.tradeoffs.laws import LaplaceTradeOff, approximate_dp, gaussian_dp, tradeoff
from bayesdp.privacy.tradeoffs.profile import convolved_epsilon
from tests.refusals import refused

P, Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.1, 0.5, 0.3])
A = tradeoff(P, Q)
LAPLACE = privacy.laplace_dp(1.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5, 6.0])
def test_delta_is_the_hockey_stick_divergence(epsilon):
    gamma = math.exp(epsilon)
    both = max(np.maximum(Q - gamma * P, 0).sum(), np.maximum(P - gamma * Q, 0).sum())
    assert privacy.tradeoff_delta(A, epsilon) == pytest.approx(both, abs=1e-15)
    assert privacy.tradeoff_delta(A.inverse(), epsilon) == pytest.approx(both, abs=1e-15)
    a, power = A._at_losses(np.array([-epsilon]))
    assert power[0] - a[0] / gamma == pytest.approx(np.maximum(Q - P / gamma, 0).sum(), abs=1e-15)
    for f in (gaussian_dp(1.3), LAPLACE):
        a, power = privacy.TradeOff._at_losses(f, np.array([epsilon]))  # by bisection
        assert power[0] - gamma * a[0] == pytest.approx(privacy.tradeoff_delta(f, epsilon), rel=1e-9, abs=1e-15)
    assert privacy.tradeoff_delta(gaussian_dp(1.3), epsilon) == privacy.gaussian_delta(epsilon, 1.0, 1.3)
    pure = approximate_dp(2.0, 0.01)
    spared = 0.99 * (math.exp(2.0) - gamma) / (1.0 + math.exp(2.0))
    assert privacy.tradeoff_delta(pure, epsilon) == pytest.approx(0.01 + max(spared, 0.0), abs=1e-15)


@pytest.mark.parametrize("f", [A, gaussian_dp(1.0), approximate_dp(0.5, 1e-3).group(2), approximate_dp(1.0)])
def test_epsilon_inverts_delta(f):
    for epsilon in (0.05, 0.4, 0.9):
        delta = privacy.tradeoff_delta(f, epsilon)
        found = privacy.tradeoff_epsilon(f, delta * (1 + 1e-12))
        assert found == pytest.approx(epsilon, abs=1e-9)
        assert privacy.tradeoff_delta(f, found) <= delta * (1 + 2e-12)


def test_epsilon_at_its_ends_and_very_large_epsilons():
    assert privacy.tradeoff_epsilon(approximate_dp(1.25), 0.0) == 1.25
    assert privacy.tradeoff_epsilon(approximate_dp(1.0).group(2), 0.0) == pytest.approx(2.0, rel=1e-9)
    assert privacy.tradeoff_epsilon(gaussian_dp(1.0), 0.0) == math.inf
    assert privacy.tradeoff_epsilon(A, 0.1) == math.inf  # 0.3 of Q is where P has nothing
    assert privacy.tradeoff_epsilon(A, 0.9) == 0.0
    # An outcome that only one of the laws has.
    assert privacy.tradeoff_delta(A, 800.0) == privacy.tradeoff_delta(A, 700.0) == 0.3
    assert privacy.tradeoff_delta(approximate_dp(0.5).group(3), 1e300) == 0.0
    f = approximate_dp(800.0, 0.125)
    assert ((f(0.0), f.power(0.0), f(1e-300)), privacy.tradeoff_delta(f, 750.0)) == ((0.875, 0.125, 0.0), 1.0)


def test_the_paper_s_census_numbers():
    stated, semi = census_analysis(convention="paper")
    assert (stated.a, semi.a, stated.rho, semi.rho) == (1, 2, 2.56, 10.24)
    assert (stated.epsilon, semi.epsilon) == pytest.approx((17.91528, 40.95057), abs=5e-6)
    assert semi.epsilon_tight == privacy.rho_to_epsilon(10.24, 1e-10) < semi.epsilon
    (own,) = census_analysis(0.5, a=3, delta=1e-6)
    assert own.rho == 4.5
    assert own.epsilon == own.epsilon_tight == privacy.rho_to_epsilon(4.5, 1e-6)


def test_laplace_noise():
    # Shifted by 1: the curve has a middle piece exp(-1) / (4 alpha).
    e = math.e
    for alpha in (1e-9, 0.1, 0.3, 0.9, 1 - 1e-6):
        expected = 1 - e * alpha if alpha < 1 / (2 * e) else 1 / (4 * e * alpha) if alpha <= 0.5 else (1 - alpha) / e
        assert LAPLACE(alpha) == pytest.approx(expected, rel=1e-9)
    assert LAPLACE.symmetric
    assert RecursiveNoise(LAPLACE).cdf(-2.0) == pytest.approx(LAPLACE(RecursiveNoise(LAPLACE).sf(-1.0)), rel=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-15, 1e-6, 0.3])
def test_no_loss_of_laplace_noise_is_stated_too_small(delta):
    exact = 1.0 + 2.0 * math.log1p(-delta)
    assert 0.0 <= privacy.tradeoff_epsilon(LAPLACE, delta) - exact < 1e-15
    assert privacy.tradeoff_delta(LAPLACE, exact) == pytest.approx(delta, rel=1e-12, abs=1e-16)
    assert privacy.tradeoff_delta(LAPLACE, 1.0 - 1e-12) == pytest.approx(5e-13, rel=1e-3)
    assert privacy.tradeoff_delta(LAPLACE, 2.0) == privacy.tradeoff_epsilon(LAPLACE, 0.9) == 0.0


GRID = np.unique(np.concatenate([np.linspace(0.0, 1.0, 301), np.logspace(-8, -2, 40), 1 - np.logspace(-8, -2, 40)]))
FIRST_P, FIRST_Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.0, 0.5, 0.4])
R, S = np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.35, 0.25])
FIRST, B = tradeoff(FIRST_P, FIRST_Q), tradeoff(R, S)


def test_products_are_exact_for_gaussians_and_discrete_laws_and_probabilities_never_exceed_one():
    assert privacy.tensor_product(gaussian_dp(3.0), gaussian_dp(4.0)) == gaussian_dp(5.0)
    assert privacy.tensor_product(*[gaussian_dp(0.5)] * 4) == gaussian_dp(1.0)
    assert privacy.tensor_product(FIRST) is FIRST
    found = privacy.tensor_product(FIRST, B, B)
    rr, ss = np.multiply.outer(R, R), np.multiply.outer(S, S)
    expected = tradeoff(np.multiply.outer(FIRST_P, rr).ravel(), np.multiply.outer(FIRST_Q, ss).ravel())
    np.testing.assert_allclose(found(GRID), expected(GRID), rtol=0, atol=1e-14)
    np.testing.assert_allclose(privacy.tensor_product(B, FIRST, B)(GRID), found(GRID), rtol=0, atol=1e-14)
    f = privacy.tensor_product(approximate_dp(0.5), approximate_dp(0.3, 0.01))
    grid, x = np.linspace(0.0, 1.0, 4001), np.linspace(-12.0, 12.0, 2001)
    noise = f.canonical_noise()
    level = noise.cdf(x)
    assert max(np.max(own) for own in (f.power(grid), f(grid), level)) <= 1.0
    inside = level < 1.0  # the support is bounded
    assert np.allclose(f(1.0 - level[inside]), noise.cdf(x[inside] - 1.0), atol=1e-9)


@pytest.mark.parametrize(("epsilon", "delta", "n"), [(0.1, 0.0, 20), (0.7, 0.0, 5), (0.4, 0.02, 3)])
def test_differential_privacy_composes_like_randomised_response(epsilon, delta, n):
    # f_{epsilon, delta} is the trade-off of: reveal all with probability delta, otherwise tell the truth with e^eps/(1+e^eps).
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    p, q = binom.pmf(range(n + 1), n, 1 - truth), binom.pmf(range(n + 1), n, truth)
    kept = (1 - delta) ** n  # as soon as one reveals, all is known
    expected = tradeoff(np.append(kept * p, [1 - kept, 0]), np.append(kept * q, [0, 1 - kept]))
    found = privacy.tensor_product(*[approximate_dp(epsilon, delta)] * n)
    np.testing.assert_allclose(found(GRID), expected(GRID), rtol=0, atol=1e-13)
    assert found.symmetric


def test_semi_first_is_never_below_composition_first():
    # Proposition 21; equality for Gaussians.
    for factors in ([approximate_dp(0.5)] * 2, [approximate_dp(0.3, 0.01), B], [B, approximate_dp(0.2)]):
        for a in (2, 3):
            first, late = privacy.semi_first(factors, a), privacy.composition_first(factors, a)
            assert np.all(first(GRID) >= late(GRID) - 1e-13)
            assert np.max(first(GRID) - late(GRID)) > 1e-3
    for first in (privacy.semi_first, privacy.composition_first):
        assert first([gaussian_dp(0.3), gaussian_dp(0.4)], 2) == gaussian_dp(1.0)


def brackets(bounds, delta_at, delta, width):
    """`delta_at` is exact: at the upper bound it is small enough, and just below the lower one it is not."""
    assert delta_at(bounds.upper) <= delta * (1 + 1e-9)
    assert delta_at(bounds.lower - 1e-9) >= delta * (1 - 1e-9)
    assert bounds.lower <= bounds.upper <= bounds.lower + width


def response_delta(epsilon, n):
    """Of n randomised responses, by the number of true answers."""
    k = np.arange(n + 1)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    p, q = binom.pmf(k, n, 1.0 - truth), binom.pmf(k, n, truth)
    return lambda e: float(np.maximum(q - math.exp(e) * p, 0.0).sum())


def mixed_delta(mu, epsilon, n):
    """Of normal noise, also at negative epsilons (Balle and Wang, 2018, Theorem 8), and n responses: the mean over their loss."""
    k = np.arange(n + 1)
    mass, losses = binom.pmf(k, n, 1.0 / (1.0 + math.exp(-epsilon))), (2 * k - n) * epsilon

    def delta_at(e):
        left = e - losses
        return float(mass @ (ndtr(mu / 2 - left / mu) - np.exp(left) * ndtr(-mu / 2 - left / mu)))

    return delta_at


def laplace_delta(shift, epsilon):
    """Of Laplace noise moved by so many scales."""
    if epsilon >= shift:
        return 0.0
    return -math.expm1(epsilon) if epsilon <= -shift else -math.expm1(0.5 * (epsilon - shift))


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_normal_losses_are_one_normal_loss(delta):
    four = convolved_epsilon([gaussian_dp(0.5)] * 4, delta)
    exact = privacy.gaussian_epsilon(delta, 1.0, 1.0)
    assert four.lower <= exact <= four.upper
    assert four.upper - four.lower < 1e-10
    # The same on the grid, which normal factors alone do not need.
    pieces = [gaussian_dp(0.5)] * 4
    upper, lower = (profile._on_grid(pieces, delta, pessimistic=side) for side in (True, False))
    assert lower <= exact <= upper
    assert upper - lower < (0.01 if delta == 1e-9 else 2e-3)


def test_randomised_responses_are_counted_also_with_normal_noise():
    for epsilon, n, delta in ((0.1, 30, 1e-3), (0.7, 5, 1e-6), (0.05, 400, 1e-6)):
        found = convolved_epsilon([approximate_dp(epsilon)] * n, delta)
        brackets(found, response_delta(epsilon, n), delta, 1e-6)
        assert found.upper < n * epsilon
    for delta, width in ((1e-2, 1e-3), (1e-9, 0.01)):
        found = convolved_epsilon([gaussian_dp(0.3), *[approximate_dp(0.1)] * 10, gaussian_dp(0.4)], delta)
        brackets(found, mixed_delta(0.5, 0.1, 10), delta, width)


def test_laplace_trade_off_and_its_losses_are_those_of_the_law():
    for delta in (0.1, 1e-6):
        brackets(convolved_epsilon([LaplaceTradeOff(0.8)], delta), lambda e: laplace_delta(0.8, e), delta, 1e-4)
    alpha = np.concatenate([np.linspace(0.0, 1.0, 301), np.logspace(-12, -2, 30), 1 - np.logspace(-12, -2, 30)])
    f, p, q = LaplaceTradeOff(1.3), laplace(0, 1), laplace(1.3, 1)
    np.testing.assert_allclose(f(alpha), q.cdf(p.isf(alpha)), atol=1e-14)
    np.testing.assert_allclose(f.power(alpha), q.sf(p.isf(alpha)), rtol=1e-12)
    inside = alpha[(alpha > 0.0) & (alpha < 1.0)]
    x = p.isf(inside)
    np.testing.assert_allclose(f._slope(inside, 1 - inside), np.exp(q.logpdf(x) - p.logpdf(x)), rtol=1e-4)


def test_laws_that_are_not_symmetric_are_taken_in_both_orders():
    p, q, n = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.05, 0.35]), 3
    ps, qs = p, q
    for _ in range(n - 1):
        ps, qs = np.multiply.outer(ps, p).ravel(), np.multiply.outer(qs, q).ravel()

    def delta_at(e):
        return max(np.maximum(a - math.exp(e) * b, 0.0).sum() for a, b in ((qs, ps), (ps, qs)))

    for delta in (0.1, 0.01):
        for f in (tradeoff(p, q), tradeoff(q, p)):
            brackets(convolved_epsilon([f] * n, delta), delta_at, delta, 1e-9)


def test_every_delta_of_a_curve_is_bracketed():
    # The lower and the upper epsilon as a function of delta, for factors with an infinite loss too.
    kept, truth = 0.99**2, response_delta(0.4, 2)
    for delta in (0.02, 0.05, 0.2):
        found = convolved_epsilon([approximate_dp(0.4, 0.01)] * 2, delta)
        brackets(found, lambda e: 1.0 - kept + kept * truth(e), delta, 1e-9)
    assert convolved_epsilon([approximate_dp(0.4, 0.01)] * 2, 0.019).upper == math.inf
    assert convolved_epsilon([], 1e-6) == profile.EpsilonBounds(0.0, 0.0)
    assert convolved_epsilon([gaussian_dp(0.1)], 0.5).upper == 0.0


MIXED = r"not of DiscretePair.*GaussianTradeOff.*bayesdp\.compose"
test_bad_arguments_are_named = refused(
    (lambda: privacy.laplace_dp(0.0), "shift must be", ValueError),
    (lambda: privacy.tradeoff_delta(0.5, 1.0), "f must be a trade-off function", TypeError),
    (lambda: privacy.tradeoff_delta(A, -1.0), "epsilon must be", ValueError),
    (lambda: privacy.tradeoff_epsilon(A, 1.0), "delta must be at least 0 and less than 1", ValueError),
    (lambda: census_analysis(convention="theirs"), "convention", ValueError),
    (lambda: census_analysis(a=()), "at least one distance", ValueError),
    (lambda: census_analysis(a=0), "a must be", ValueError),
    (lambda: privacy.tensor_product(), "at least one trade-off function", ValueError),
    (lambda: privacy.tensor_product(FIRST, 0.5), "factor 1 must be a trade-off function", TypeError),
    (lambda: privacy.tensor_product(gaussian_dp(0.8), approximate_dp(0.6)), MIXED, NotImplementedError),
    (lambda: privacy.semi_first([FIRST], 0), "a must be", ValueError),
    (lambda: convolved_epsilon([gaussian_dp(1.0), 2.0], 1e-6), "factor 1", TypeError),
    (lambda: convolved_epsilon([gaussian_dp(1.0)], 0.0), "delta", ValueError),
)

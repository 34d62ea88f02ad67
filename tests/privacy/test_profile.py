"""Trade-off functions to (epsilon, delta) and back, against closed forms and sums written out; Renyi; the census."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bayesdp.papers.semi_dp import census_analysis, renyi_to_epsilon, renyi_to_rho
from bayesdp.privacy import (
    TradeOff,
    approximate_dp,
    gaussian_delta,
    gaussian_dp,
    laplace_dp,
    rho_to_epsilon,
    tradeoff,
    tradeoff_delta,
    tradeoff_epsilon,
)
from bayesdp.privacy.canonical import RecursiveNoise

P, Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.1, 0.5, 0.3])
A = tradeoff(P, Q)
LAPLACE = laplace_dp(1.0)
GRID = np.linspace(0.0, 1.0, 501)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5, 6.0])
def test_delta_is_the_hockey_stick_divergence(epsilon: float) -> None:
    gamma = math.exp(epsilon)
    both = max(np.maximum(Q - gamma * P, 0).sum(), np.maximum(P - gamma * Q, 0).sum())
    assert tradeoff_delta(A, epsilon) == pytest.approx(both, abs=1e-15)
    assert tradeoff_delta(A.inverse(), epsilon) == pytest.approx(both, abs=1e-15)
    a, power = A._at_losses(np.array([-epsilon]))
    assert power[0] - a[0] / gamma == pytest.approx(np.maximum(Q - P / gamma, 0).sum(), abs=1e-15)
    for f, exact in (
        (gaussian_dp(1.3), gaussian_delta(epsilon, 1.0, 1.3)),
        (LAPLACE, tradeoff_delta(LAPLACE, epsilon)),
    ):
        a, power = TradeOff._at_losses(f, np.array([epsilon]))  # by bisection
        assert power[0] - gamma * a[0] == pytest.approx(exact, rel=1e-9, abs=1e-15)
    assert tradeoff_delta(gaussian_dp(1.3), epsilon) == gaussian_delta(epsilon, 1.0, 1.3)
    pure = approximate_dp(2.0, 0.01)
    spared = 0.99 * (math.exp(2.0) - gamma) / (1.0 + math.exp(2.0))
    assert tradeoff_delta(pure, epsilon) == pytest.approx(0.01 + max(spared, 0.0), abs=1e-15)


@pytest.mark.parametrize("f", [A, gaussian_dp(1.0), approximate_dp(0.5, 1e-3).group(2), approximate_dp(1.0)])
def test_epsilon_inverts_delta(f: object) -> None:
    for epsilon in (0.05, 0.4, 0.9):
        delta = tradeoff_delta(f, epsilon)  # type: ignore[arg-type]
        found = tradeoff_epsilon(f, delta * (1 + 1e-12))  # type: ignore[arg-type]
        assert found == pytest.approx(epsilon, abs=1e-9)
        assert tradeoff_delta(f, found) <= delta * (1 + 2e-12)  # type: ignore[arg-type]


def test_epsilon_at_its_ends() -> None:
    assert tradeoff_epsilon(approximate_dp(1.25), 0.0) == 1.25
    assert tradeoff_epsilon(approximate_dp(1.0).group(2), 0.0) == pytest.approx(2.0, rel=1e-9)
    assert tradeoff_epsilon(gaussian_dp(1.0), 0.0) == math.inf
    assert tradeoff_epsilon(A, 0.1) == math.inf  # 0.3 of Q is where P has nothing
    assert tradeoff_epsilon(A, 0.9) == 0.0


def test_zcdp_is_renyi_at_all_orders() -> None:
    orders = 1.0 + np.logspace(-3, 3, 200_001)
    for rho, delta in ((2.56, 1e-10), (0.05, 1e-6)):
        assert renyi_to_epsilon(orders, rho * orders, delta) == pytest.approx(rho_to_epsilon(rho, delta), rel=1e-7)
    assert renyi_to_rho(orders, 0.3 * orders) == pytest.approx(0.3)


def test_renyi_bound_holds_for_laplace_noise() -> None:
    def divergence(a: float) -> float:
        law = stats.laplace()
        area = quad(lambda x: math.exp(a * law.logpdf(x) + (1 - a) * law.logpdf(x - 1)), -60, 60, points=[0, 1])[0]
        return math.log(area) / (a - 1)

    orders = [1.5, 2.0, 4.0, 16.0]
    curve = [divergence(a) for a in orders]
    delta = tradeoff_delta(LAPLACE, 0.5)
    assert delta == pytest.approx(1 - math.exp(-0.25), rel=1e-9)  # 1 - exp((epsilon - 1) / 2)
    assert 0.5 <= renyi_to_epsilon(orders, curve, delta) < 1.0


def test_the_paper_s_census_numbers() -> None:
    stated, semi = census_analysis(convention="paper")
    assert (stated.a, semi.a) == (1, 2)
    assert (stated.rho, semi.rho) == (2.56, 10.24)
    assert stated.epsilon == pytest.approx(17.91528, abs=5e-6)
    assert semi.epsilon == pytest.approx(40.95057, abs=5e-6)
    assert semi.epsilon_tight == rho_to_epsilon(10.24, 1e-10) < semi.epsilon
    (own,) = census_analysis(0.5, a=3, delta=1e-6)
    assert own.rho == 4.5
    assert own.epsilon == own.epsilon_tight == rho_to_epsilon(4.5, 1e-6)


@pytest.mark.parametrize("alpha", [1e-9, 0.01, 0.1, 0.2, 0.5, 0.9, 1 - 1e-6])
def test_laplace_noise(alpha: float) -> None:
    # Shifted by 1: the curve has a middle piece exp(-1) / (4 alpha).
    e = math.e
    expected = 1 - e * alpha if alpha < 1 / (2 * e) else 1 / (4 * e * alpha) if alpha <= 0.5 else (1 - alpha) / e
    assert LAPLACE(alpha) == pytest.approx(expected, rel=1e-9)
    assert LAPLACE.symmetric


def test_laplace_noise_goes_on() -> None:
    assert RecursiveNoise(LAPLACE).cdf(-2.0) == pytest.approx(LAPLACE(RecursiveNoise(LAPLACE).sf(-1.0)), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: laplace_dp(0.0), ValueError, "shift must be"),
        (lambda: tradeoff_delta(0.5, 1.0), TypeError, "f must be a trade-off function"),  # type: ignore[arg-type]
        (lambda: tradeoff_delta(A, -1.0), ValueError, "epsilon must be"),
        (lambda: tradeoff_epsilon(A, 1.0), ValueError, "delta must be at least 0 and less than 1"),
        (
            lambda: renyi_to_epsilon([1.0], [0.1], 1e-6),
            ValueError,
            "alpha must be finite and greater than 1, but entry 0",
        ),
        (lambda: renyi_to_epsilon([2.0], [-0.1], 1e-6), ValueError, "divergence must be zero or greater"),
        (lambda: renyi_to_epsilon([2.0, 3.0], [0.1], 1e-6), ValueError, "hold 2 and 1"),
        (lambda: census_analysis(convention="theirs"), ValueError, "convention"),
        (lambda: census_analysis(a=()), ValueError, "at least one distance"),
        (lambda: census_analysis(a=0), ValueError, "a must be"),
    ],
)
def test_bad_arguments_are_named(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("delta", [0.0, 1e-15, 1e-13, 1e-6, 0.3])
def test_no_loss_of_laplace_noise_is_stated_too_small(delta: float) -> None:
    exact = 1.0 + 2.0 * math.log1p(-delta)
    assert 0.0 <= tradeoff_epsilon(LAPLACE, delta) - exact < 1e-15
    assert tradeoff_delta(LAPLACE, exact) == pytest.approx(delta, rel=1e-12, abs=1e-16)
    assert tradeoff_delta(LAPLACE, 1.0 - 1e-12) == pytest.approx(5e-13, rel=1e-3)
    assert tradeoff_delta(LAPLACE, 2.0) == tradeoff_epsilon(LAPLACE, 0.9) == 0.0


def test_very_large_epsilons() -> None:
    assert tradeoff_delta(A, 800.0) == tradeoff_delta(A, 700.0) == 0.3  # an outcome that only one of the laws has
    assert tradeoff_delta(approximate_dp(0.5).group(3), 1e300) == 0.0
    f = approximate_dp(800.0, 0.125)
    assert (f(0.0), f.power(0.0), f(1e-300)) == (0.875, 0.125, 0.0)
    assert tradeoff_delta(f, 750.0) == 1.0

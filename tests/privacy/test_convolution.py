"""Epsilon by convolution of losses, against closed forms, enumeration, quadrature and dp-accounting."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom

from bayesdp.privacy import approximate_dp, gaussian_delta, gaussian_dp, gaussian_epsilon, tradeoff
from bayesdp.privacy.tradeoffs import profile
from bayesdp.privacy.tradeoffs.laws import LaplaceTradeOff
from bayesdp.privacy.tradeoffs.profile import convolved_epsilon


def brackets(bounds: profile.EpsilonBounds, delta_at: Callable[[float], float], delta: float, width: float) -> None:
    """`delta_at` is exact: at the upper bound it is small enough, and just below the lower one it is not."""
    assert delta_at(bounds.upper) <= delta * (1 + 1e-9)
    assert delta_at(bounds.lower - 1e-9) >= delta * (1 - 1e-9)
    assert bounds.lower <= bounds.upper <= bounds.lower + width


def response_delta(epsilon: float, n: int) -> Callable[[float], float]:
    """Of n randomised responses, by the number of true answers."""
    k = np.arange(n + 1)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    p, q = binom.pmf(k, n, 1.0 - truth), binom.pmf(k, n, truth)
    return lambda e: float(np.maximum(q - math.exp(e) * p, 0.0).sum())


def normal_delta(mu: float, epsilon: float) -> float:
    """Of normal noise, also at negative epsilons (Balle and Wang, 2018, Theorem 8)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def mixed_delta(mu: float, epsilon: float, n: int) -> Callable[[float], float]:
    """Of normal noise and n randomised responses: the mean over the loss of these."""
    k = np.arange(n + 1)
    q = binom.pmf(k, n, 1.0 / (1.0 + math.exp(-epsilon)))
    return lambda e: float(sum(w * normal_delta(mu, e - (2 * i - n) * epsilon) for i, w in zip(k, q, strict=True)))


def laplace_delta(shift: float, epsilon: float) -> float:
    """Of Laplace noise moved by so many scales."""
    if epsilon >= shift:
        return 0.0
    return -math.expm1(epsilon) if epsilon <= -shift else -math.expm1(0.5 * (epsilon - shift))


def two_laplace_delta(shift: float) -> Callable[[float], float]:
    """Of two such: atoms of half of the mass at the largest loss and of ``exp(-shift) / 2`` at the smallest, a density between."""

    def delta(epsilon: float) -> float:
        turns = sorted({own for own in (epsilon - shift, epsilon + shift) if -shift < own < shift})
        between = quad(
            lambda own: 0.25 * math.exp(-0.5 * (shift - own)) * laplace_delta(shift, epsilon - own),
            -shift,
            shift,
            points=turns or None,
            epsabs=1e-13,
        )[0]
        atoms = 0.5 * laplace_delta(shift, epsilon - shift) + 0.5 * math.exp(-shift) * laplace_delta(
            shift, epsilon + shift
        )
        return float(between + atoms)

    return delta


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_normal_losses_are_one_normal_loss(delta: float) -> None:
    four = convolved_epsilon([gaussian_dp(0.5)] * 4, delta)
    exact = gaussian_epsilon(delta, 1.0, 1.0)
    assert four.lower <= exact <= four.upper
    assert four.upper - four.lower < 1e-10
    # The same on the grid, which normal factors alone do not need.
    pieces = [gaussian_dp(0.5)] * 4
    upper, lower = (profile._on_grid(pieces, delta, pessimistic=side) for side in (True, False))
    assert lower <= exact <= upper
    assert upper - lower < (0.01 if delta == 1e-9 else 2e-3)


@pytest.mark.parametrize(("epsilon", "n"), [(0.1, 30), (0.7, 5), (0.05, 400)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_randomised_responses_are_counted(epsilon: float, n: int, delta: float) -> None:
    found = convolved_epsilon([approximate_dp(epsilon)] * n, delta)
    brackets(found, response_delta(epsilon, n), delta, 1e-6)
    assert found.upper < n * epsilon


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-9])
def test_normal_noise_and_responses(delta: float) -> None:
    found = convolved_epsilon(
        [approximate_dp(0.1), gaussian_dp(0.3), *[approximate_dp(0.1)] * 9, gaussian_dp(0.4)], delta
    )
    brackets(found, mixed_delta(0.5, 0.1, 10), delta, 0.01 if delta < 1e-6 else 1e-3)


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6])
def test_laplace_noise_by_quadrature(delta: float) -> None:
    brackets(convolved_epsilon([LaplaceTradeOff(0.8)], delta), lambda e: laplace_delta(0.8, e), delta, 1e-4)
    brackets(convolved_epsilon([LaplaceTradeOff(0.8)] * 2, delta), two_laplace_delta(0.8), delta, 3e-4)


def test_laplace_trade_off_is_that_of_the_law() -> None:
    from scipy.stats import laplace

    alpha = np.concatenate([np.linspace(0.0, 1.0, 301), np.logspace(-12, -2, 30), 1 - np.logspace(-12, -2, 30)])
    f, p, q = LaplaceTradeOff(1.3), laplace(0, 1), laplace(1.3, 1)
    np.testing.assert_allclose(f(alpha), q.cdf(p.isf(alpha)), atol=1e-14)
    np.testing.assert_allclose(f.power(alpha), q.sf(p.isf(alpha)), rtol=1e-12)
    inside = alpha[(alpha > 0.0) & (alpha < 1.0)]
    x = p.isf(inside)
    np.testing.assert_allclose(f._slope(inside, 1 - inside), np.exp(q.logpdf(x) - p.logpdf(x)), rtol=1e-4)


def test_laws_that_are_not_symmetric_are_taken_in_both_orders() -> None:
    p, q, n = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.05, 0.35]), 3
    ps, qs = p, q
    for _ in range(n - 1):
        ps, qs = np.multiply.outer(ps, p).ravel(), np.multiply.outer(qs, q).ravel()

    def delta_at(e: float) -> float:
        one, other = (np.maximum(a - math.exp(e) * b, 0.0).sum() for a, b in ((qs, ps), (ps, qs)))
        return float(max(one, other))

    for delta in (0.1, 0.01):
        for f in (tradeoff(p, q), tradeoff(q, p)):
            brackets(convolved_epsilon([f] * n, delta), delta_at, delta, 1e-9)


def test_the_bounds_of_dp_accounting_overlap() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    ours = convolved_epsilon([LaplaceTradeOff(0.5)] * 10 + [gaussian_dp(0.5)], 1e-6)
    high, low = (
        pld.from_laplace_mechanism(2.0, value_discretization_interval=1e-3, pessimistic_estimate=side)
        .self_compose(10)
        .compose(pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3, pessimistic_estimate=side))
        .get_epsilon_for_delta(1e-6)
        for side in (True, False)
    )
    assert low <= ours.upper
    assert ours.lower <= high
    assert ours.upper - ours.lower < 0.01


def test_the_wrong_side_of_the_grid_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = mixed_delta(0.5, 0.1, 10)
    rounded = profile._rounded
    monkeypatch.setattr(profile, "_rounded", lambda f, h, pessimistic: rounded(f, h, False))
    wrong = convolved_epsilon([gaussian_dp(0.5), *[approximate_dp(0.1)] * 10], 1e-6)
    assert exact(wrong.upper) > 1e-6 * (1 + 1e-9)


def test_every_delta_of_a_curve_is_bracketed() -> None:
    # The lower and the upper epsilon as a function of delta, for factors with an infinite loss too.
    kept = 0.99**2
    truth = response_delta(0.4, 2)

    def delta_at(e: float) -> float:
        return 1.0 - kept + kept * truth(e)

    for delta in (0.02, 0.05, 0.2):
        brackets(convolved_epsilon([approximate_dp(0.4, 0.01)] * 2, delta), delta_at, delta, 1e-9)
    assert convolved_epsilon([approximate_dp(0.4, 0.01)] * 2, 0.019).upper == math.inf


def test_nothing_said_and_bad_input() -> None:
    assert convolved_epsilon([], 1e-6) == profile.EpsilonBounds(0.0, 0.0)
    assert convolved_epsilon([gaussian_dp(0.1)], 0.5).upper == 0.0
    assert gaussian_delta(0.0, 10.0) < 0.5
    with pytest.raises(TypeError, match="factor 1"):
        convolved_epsilon([gaussian_dp(1.0), 2.0], 1e-6)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="delta"):
        convolved_epsilon([gaussian_dp(1.0)], 0.0)

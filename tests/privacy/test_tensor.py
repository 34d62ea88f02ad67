"""Tensor products, against products of laws written out and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from bayesdp.privacy import (
    TradeOff,
    approximate_dp,
    composition_first,
    gaussian_dp,
    semi_first,
    tensor_product,
    tradeoff,
)

GRID = np.unique(np.concatenate([np.linspace(0.0, 1.0, 301), np.logspace(-8, -2, 40), 1 - np.logspace(-8, -2, 40)]))
P, Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.0, 0.5, 0.4])
R, S = np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.35, 0.25])
A, B = tradeoff(P, Q), tradeoff(R, S)


def test_gaussians_multiply_exactly() -> None:
    assert tensor_product(gaussian_dp(3.0), gaussian_dp(4.0)) == gaussian_dp(5.0)
    assert tensor_product(*[gaussian_dp(0.5)] * 4) == gaussian_dp(1.0)
    assert tensor_product(A) is A


def test_discrete_products_are_those_of_the_product_laws() -> None:
    found = tensor_product(A, B, B)
    rr, ss = np.multiply.outer(R, R), np.multiply.outer(S, S)
    expected = tradeoff(np.multiply.outer(P, rr).ravel(), np.multiply.outer(Q, ss).ravel())
    np.testing.assert_allclose(found(GRID), expected(GRID), rtol=0, atol=1e-14)
    np.testing.assert_allclose(tensor_product(B, A, B)(GRID), found(GRID), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("epsilon", "delta", "n"), [(0.1, 0.0, 20), (0.7, 0.0, 5), (0.4, 0.02, 3)])
def test_differential_privacy_composes_like_randomised_response(epsilon: float, delta: float, n: int) -> None:
    # f_{epsilon, delta} is the trade-off of: reveal all with probability delta, otherwise tell the truth with e^eps/(1+e^eps).
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    p, q = binom.pmf(range(n + 1), n, 1 - truth), binom.pmf(range(n + 1), n, truth)
    kept = (1 - delta) ** n  # as soon as one reveals, all is known
    expected = tradeoff(np.append(kept * p, [1 - kept, 0]), np.append(kept * q, [0, 1 - kept]))
    found = tensor_product(*[approximate_dp(epsilon, delta)] * n)
    np.testing.assert_allclose(found(GRID), expected(GRID), rtol=0, atol=1e-13)
    assert found.symmetric


def test_semi_first_is_never_below_composition_first() -> None:
    # Proposition 21; equality for Gaussians.
    for factors in ([approximate_dp(0.5)] * 2, [approximate_dp(0.3, 0.01), B], [B, approximate_dp(0.2)]):
        for a in (2, 3):
            first, late = semi_first(factors, a), composition_first(factors, a)
            assert np.all(first(GRID) >= late(GRID) - 1e-13)
            assert np.max(first(GRID) - late(GRID)) > 1e-3
    assert semi_first([gaussian_dp(0.3), gaussian_dp(0.4)], 2) == gaussian_dp(1.0)
    assert composition_first([gaussian_dp(0.3), gaussian_dp(0.4)], 2) == gaussian_dp(1.0)


def test_semi_first_by_hand() -> None:
    # Two releases at epsilon, a = 2: each step of randomised response is a chain of two; written out.
    truth = 1 / (1 + math.exp(-0.5))
    f = approximate_dp(0.5).group(2)
    a = np.concatenate([[0.0], np.sort(f._kinks()), [1.0]])
    p, q = np.diff(a), -np.diff(f(a))
    expected = tradeoff(np.outer(p, p).ravel(), np.outer(q, q).ravel())
    np.testing.assert_allclose(semi_first([approximate_dp(0.5)] * 2, 2)(GRID), expected(GRID), atol=1e-13)
    assert f(1 - truth) == pytest.approx(1 - (1 - (1 - truth) * math.exp(-0.5)), abs=1e-12)


@pytest.mark.parametrize("f", [A, approximate_dp(0.4, 0.02).group(3), approximate_dp(2.0), B.group(2)])
def test_kinks_are_all_there(f: TradeOff) -> None:
    np.testing.assert_allclose(f._pair()(GRID), f(GRID), rtol=0, atol=1e-14)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="at least one trade-off function"):
        tensor_product()
    with pytest.raises(TypeError, match="factor 1 must be a trade-off function"):
        tensor_product(A, 0.5)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match=r"not of DiscretePair.*GaussianTradeOff.*bayesdp\.compose"):
        tensor_product(gaussian_dp(0.8), approximate_dp(0.6))
    with pytest.raises(ValueError, match="a must be"):
        semi_first([A], 0)


def test_probabilities_of_a_product_never_exceed_one() -> None:
    f = tensor_product(approximate_dp(0.5), approximate_dp(0.3, 0.01))
    grid = np.linspace(0.0, 1.0, 4001)
    assert np.max(f.power(grid)) <= 1.0
    assert np.max(f(grid)) <= 1.0
    noise = f.canonical_noise()
    x = np.linspace(-12.0, 12.0, 2001)
    level = noise.cdf(x)
    assert np.max(level) <= 1.0
    inside = level < 1.0  # the support is bounded
    assert np.allclose(f(1.0 - level[inside]), noise.cdf(x[inside] - 1.0), atol=1e-9)

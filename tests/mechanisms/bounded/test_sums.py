"""Bounds given a public sum, against linear programming; the second of two statistics; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

import bayesdp as bdp
from bayesdp.mechanisms.bounded.sums import bounds_given_sum, second_of_sum


def test_the_intervals_of_the_paper() -> None:
    """Remark 1: [max(c - c12, c01), min(c - c02, c11)] and [max(c - c11, c02), min(c - c01, c12)], on 200 random cases."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        low = rng.normal(size=2)
        high = low + rng.exponential(size=2)
        c = rng.uniform(low.sum(), high.sum())
        lower, upper = bounds_given_sum((low, high), c)
        for j, k in ((0, 1), (1, 0)):
            assert lower[j] == pytest.approx(max(c - high[k], low[j]), abs=1e-12)
            assert upper[j] == pytest.approx(min(c - low[k], high[j]), abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_weighted_sums_of_several_against_linear_programming(seed: int) -> None:
    rng = np.random.default_rng(seed)
    r = int(rng.integers(2, 6))
    low = rng.normal(size=r)
    high: Any = low + rng.exponential(size=r)
    weights = rng.choice([-1.0, 1.0], r) * rng.uniform(0.5, 2.0, r)
    middle = float(weights @ (low + rng.uniform(size=r) * (high - low)))
    total: Any = [middle, (middle - 0.1, middle + 0.05), (None, middle), (middle, None)][seed % 4]
    if seed % 3 == 0:
        high = [None, *high[1:]]
    lower, upper = bounds_given_sum((low, high), total, weights)
    least, most = total if isinstance(total, tuple) else (total, total)
    rows = [sign * weights for sign, end in ((-1, least), (1, most)) if end is not None]
    ends = [sign * end for sign, end in ((-1, least), (1, most)) if end is not None]
    for j in range(r):
        for sign, found in ((1, lower[j]), (-1, upper[j])):
            goal = sign * np.eye(r)[j]
            best = optimize.linprog(goal, A_ub=rows, b_ub=ends, bounds=list(zip(low, high, strict=True)))
            assert best.status in (0, 3)
            expected = sign * best.fun if best.status == 0 else -sign * np.inf
            assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", [bdp.TruncatedLaplace, bdp.BoundaryInflatedLaplace])
@pytest.mark.parametrize("weights", [None, (2.0, -0.7)])
def test_both_keep_their_bounds_and_the_sum(kind: Any, weights: Any) -> None:
    bounds, total = ([0.1, -0.3], [0.9, 0.7]), 1.1
    share = np.ones(2) if weights is None else np.array(weights)
    lower, upper = bounds_given_sum(bounds, total, weights)
    mechanism = kind(1.0, 0.5, (lower[0], upper[0]))
    assert mechanism.true_epsilon == pytest.approx(1.0, rel=1e-9)  # of the pair: the second follows from the first
    first = mechanism.law.draw(3, (4000,), location=0.5 * (lower[0] + upper[0]))
    second = second_of_sum(first, bounds, total, weights)
    assert np.all((second >= lower[1]) & (second <= upper[1]))
    np.testing.assert_allclose(share[0] * first + share[1] * second, total, atol=1e-14)
    # One at a bound is the other one at a bound, exactly: atoms stay atoms.
    at = second_of_sum([lower[0], upper[0]], bounds, total, weights)
    np.testing.assert_array_equal(np.sort(at), [lower[1], upper[1]])


def test_a_statistic_that_the_sum_determines() -> None:
    lower, upper = bounds_given_sum(([0.1, 0.2, 0.3], 1.0), 0.1 + 0.2 + 0.3)
    assert np.all(lower <= upper)
    np.testing.assert_allclose(upper, [0.1, 0.2, 0.3], atol=1e-15)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bounds_given_sum(([0, 0], [1, 1]), 2.5), ValueError, "total must be a sum .* 0 to 2, got 2.5"),
        (lambda: bounds_given_sum(([0, 0], [1, 1]), (-2, -1)), ValueError, "total must be a sum"),
        (lambda: bounds_given_sum(([0, 0], [1, 1]), (2, 1)), ValueError, "total must have the lower bound first"),
        (lambda: bounds_given_sum(([0, 0], [1, 1]), (0, 1, 2)), TypeError, "total must be one number, or a pair"),
        (lambda: bounds_given_sum(([0, 0], [1, 1]), "1"), TypeError, "total"),
        (lambda: bounds_given_sum(([0, 0], [1, 1]), float("nan")), ValueError, "total must be finite"),
        (lambda: bounds_given_sum((0, 1), 1.0), ValueError, "bounds must be those of two or more"),
        (lambda: bounds_given_sum(([0, 0], 1), 1.0, [1.0, 0.0]), ValueError, "that of statistic 2 is"),
        (lambda: bounds_given_sum(([0, 0], 1), 1.0, [1.0]), ValueError, "weights must be 2 numbers"),
        (lambda: second_of_sum(0.5, ([0, 0, 0], 1), 1.0), ValueError, "bounds must be those of two statistics, got 3"),
        (lambda: second_of_sum(0.5, ([0, 0], 1), (0.0, 1.0)), TypeError, "total must be one number here"),
        (lambda: second_of_sum(0.05, ([0, 0.2], [1, 0.9]), 1.0), ValueError, "first must be within .*, got 0.05"),
    ],
)
def test_bad_input(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

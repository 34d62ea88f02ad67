"""The lower bound for the error of all private mechanisms, against the best mechanisms of small cases by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import bayesdp as bdp
from bayesdp.mechanisms import CorrelatedGaussian, ExtendedLaplace, KNorm, WideKNorm
from bayesdp.privacy import neighbour_differences
from bayesdp.privacy.error_bounds import private_error_bound
from bayesdp.queries import LinearQuery, Totals


def best_error(counts: int, epsilon: float, delta: float) -> float:
    """The least worst-case squared error of all mechanisms for a count from 0 to counts, outputs on a grid, by a linear program.

    Deltas are those of each output alone, which is weaker than (epsilon, delta): the program's mechanisms are more than all.
    """
    outputs = np.linspace(0, counts, 2 * counts + 1)
    n, m = counts + 1, len(outputs)
    size = n * m + 1  # probabilities, and the worst error
    rows, limits = [], []
    for x in range(n):
        row = np.zeros(size)
        row[x * m : (x + 1) * m] = (outputs - x) ** 2
        row[-1] = -1.0
        rows.append(row)
        limits.append(0.0)
        for y in (x - 1, x + 1):
            if 0 <= y < n:
                for j in range(m):
                    row = np.zeros(size)
                    row[x * m + j], row[y * m + j] = 1.0, -math.exp(epsilon)
                    rows.append(row)
                    limits.append(delta)
    sums = np.zeros((n, size))
    for x in range(n):
        sums[x, x * m : (x + 1) * m] = 1.0
    found = linprog(np.eye(size)[-1], np.array(rows), limits, sums, np.ones(n), bounds=(0, None), method="highs")
    return float(found.fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (3.0, 0.0), (1.0, 1e-3), (0.6, 0.0)])
def test_no_mechanism_for_a_count_is_below_it(epsilon: float, delta: float) -> None:
    bound, best = private_error_bound([[1.0]], epsilon, delta), best_error(12, epsilon, delta)
    assert 0.2 * best < bound <= best * (1 + 1e-9)


def test_one_bit_is_sharp() -> None:
    """Two tables only: randomised response, with the posterior mean as its output, attains the bound for a prior of one half."""
    for epsilon in (2.5, 3.0, 5.0):  # one step is best from about 2.4 on
        keep = 1 / (1 + math.exp(-epsilon))
        error = keep * (1 - keep) ** 2 + (1 - keep) * keep**2
        assert private_error_bound([[1.0]], epsilon) == pytest.approx(error, rel=1e-12)


def test_errors_of_orthogonal_moves_add_up_and_scale() -> None:
    one = private_error_bound([[1.0]], 0.5)
    assert private_error_bound(np.eye(6), 0.5) == pytest.approx(6 * one)
    assert private_error_bound(3 * np.eye(6), 0.5) == pytest.approx(54 * one)
    # Vectors inside the span of others do not lessen it.
    assert private_error_bound([[2.0, 0.0], [0.0, 1.0], [0.5, 0.5]], 0.5) == pytest.approx(5 * one)


AGES = {"age": [str(a) for a in range(6)]}
BELOW = LinearQuery(AGES, np.tril(np.ones((5, 6), dtype=int)), [f"up to {a}" for a in range(5)])


@pytest.mark.parametrize("query", [None, BELOW])
def test_all_mechanisms_are_above_it(query) -> None:
    total = Totals(AGES)
    pure = [kind(total, 0.5, query=query) for kind in (KNorm, WideKNorm, ExtendedLaplace)]
    asked = pure[0].released_query
    vectors = neighbour_differences(asked, bdp.Invariants(total), "substitution")
    bound = private_error_bound(vectors, 0.5)
    assert all(own.error > bound for own in pure)
    gaussian = CorrelatedGaussian(total, epsilon=0.5, delta=1e-6, query=query)
    assert gaussian.error > private_error_bound(vectors, 0.5, 1e-6)
    assert private_error_bound(vectors, 0.5, 1e-6) <= bound


def test_k_norm_noise_of_running_totals_is_at_most_so_far_from_the_optimum() -> None:
    """The number of docs/papers/subspace-dp.md."""
    ages = {"age": [str(a) for a in range(8)]}
    below = LinearQuery(ages, np.tril(np.ones((7, 8), dtype=int)), [f"up to {a}" for a in range(7)])
    vectors = neighbour_differences(below, bdp.Invariants(Totals(ages)), "substitution")
    assert KNorm(Totals(ages), 0.1, query=below).error / private_error_bound(vectors, 0.1) == pytest.approx(
        12.55, abs=0.05
    )


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="delta must be less than 1"):
        private_error_bound([[1.0]], 1.0, 1.0)
    with pytest.raises(ValueError, match="epsilon must be"):
        private_error_bound([[1.0]], 0.0)
    with pytest.raises(ValueError, match="span"):
        private_error_bound([[1.0, 0.0]], 1.0)
    assert private_error_bound([[1.0]], 1e-7) > 0.0

"""The lower bound for the error of all private mechanisms, against the best mechanisms of small cases by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import bayesdp as bdp
from bayesdp.mechanisms import CorrelatedGaussian, ExtendedLaplace, KNorm
from bayesdp.papers.subspace import base_decomposition, gaussian_error_factor, private_error_bound
from bayesdp.privacy import gaussian_sigma, neighbour_differences, optimal_factorization
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
    pure = [kind(total, 0.5, query=query) for kind in (KNorm, ExtendedLaplace)]
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


def _moves(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Vectors of neighbours of several shapes: alike, long in few directions, nearly flat, few or many, running totals."""
    n = int(rng.integers(1, 9))
    if kind == "running totals":
        return np.tril(np.ones((n, n)))
    vectors = rng.normal(size=(n + int(rng.integers(0, 12)), n))
    if kind == "long":
        vectors *= 10.0 ** rng.uniform(-2, 2, n)
    if kind == "signs":
        vectors = np.vstack([np.sign(vectors) * (rng.random(vectors.shape) < 0.5), np.eye(n)])
    return vectors


@pytest.mark.parametrize("kind", ["alike", "long", "signs", "running totals"])
def test_the_least_gaussian_noise_is_within_the_factor_of_every_mechanism(kind: str) -> None:
    """Theorem 3.11 with a constant: both steps of its proof in 40 cases of each kind, and the factor that follows."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        vectors = _moves(kind, rng)
        n = vectors.shape[1]
        trace = float(np.trace(optimal_factorization(vectors).covariance))
        unit = private_error_bound([[1.0]], 0.2, 1e-6)
        pivots = private_error_bound(vectors, 0.2, 1e-6) / unit
        harmonic = sum(1.0 / i for i in range(1, n + 1))
        assert trace <= harmonic * pivots * (1 + 1e-5)  # the gap of the factorization is 1e-6
        # The pivots, for other weights p than the best: at least sum_i i l_i.
        p = rng.dirichlet(np.ones(len(vectors)))
        eigenvalues = np.sort(np.linalg.eigvalsh((vectors * p[:, None]).T @ vectors))[::-1]
        assert pivots >= float(np.arange(1, n + 1) @ eigenvalues) * (1 - 1e-9)
        error = gaussian_sigma(0.2, 1e-6) ** 2 * trace
        assert error <= gaussian_error_factor(n, 0.2, 1e-6) * private_error_bound(vectors, 0.2, 1e-6) * (1 + 1e-5)


def _share(size: int, taken: int) -> float:
    """What a block may need, in units of G: it takes so many of the axes that are left."""
    half = size // 2 + 1
    return 2.0 * taken * size / (half * (half + 1))


def _largest_shares(dimension: int) -> list[list[float]]:
    """By dimension and number of blocks, the largest sum of shares over all sizes of blocks."""
    found = [[0.0]]
    for size in range(1, dimension + 1):
        row = [-math.inf] * (size.bit_length() + 1)
        for taken in range((size + 1) // 2, size + 1):
            for blocks, rest in enumerate(found[size - taken]):
                row[blocks + 1] = max(row[blocks + 1], _share(size, taken) + rest)
        found.append(row)
    return found


def test_all_sizes_of_blocks_are_within_the_factor_of_the_ellipsoid_method() -> None:
    """The enumeration of the proof: 3.06 K**2, and 4 K**2 is stated; with ties of 1e-6 and gaps of 1e-3 it is still enough."""
    unit = gaussian_error_factor(1, 0.2, 1e-6)
    most = 0.0
    for size, row in enumerate(_largest_shares(300)):
        if size:
            needed = max(blocks * total for blocks, total in enumerate(row) if blocks)
            assert (
                needed * (1 + 1e-3) * (1 + 1e-6) ** 2
                < gaussian_error_factor(size, 0.2, 1e-6, method="ellipsoid") / unit
            )
            most = max(most, needed / (1 + math.floor(math.log2(size))) ** 2)
    assert most == pytest.approx(3.0575, abs=5e-4)


@pytest.mark.parametrize("kind", ["alike", "long", "signs", "running totals"])
def test_the_mechanism_of_theorem_3_11_is_within_its_factor_of_every_mechanism(kind: str) -> None:
    """Each step of the proof for each block, and the factor that follows, in 40 cases of each kind."""
    rng = np.random.default_rng(11)
    unit = private_error_bound([[1.0]], 0.2, 1e-6)
    for _ in range(40):
        vectors = _moves(kind, rng)
        size = left = vectors.shape[1]
        covariance, blocks = base_decomposition(vectors)
        pivots = private_error_bound(vectors, 0.2, 1e-6) / unit
        total = 0.0
        for block in blocks:
            taken, radius = block.shape[1], float(np.max(np.linalg.norm(vectors @ block, axis=1)))
            assert taken >= left / 2
            assert taken * radius**2 <= _share(left, taken) * pivots * (1 + 2e-3)  # gaps of 1e-3, ties of 1e-6
            left, total = left - taken, total + taken * radius**2
        trace = float(np.trace(covariance))
        assert len(blocks) <= size.bit_length()
        assert trace <= len(blocks) * total * (1 + 1e-9)
        error = gaussian_sigma(0.2, 1e-6) ** 2 * trace
        factor = gaussian_error_factor(size, 0.2, 1e-6, method="ellipsoid")
        assert error <= factor * private_error_bound(vectors, 0.2, 1e-6)


def test_theorem_3_11_in_its_own_form() -> None:
    """Epsilon up to 1, delta up to epsilon / 1000: 5 log(1/delta) for one answer, by steps of the proof and as a whole."""
    x = np.linspace(1.93, 2.93, 10_001)
    assert np.min(x**2 * np.exp(x) / (1 + np.exp(x)) ** 2) > 0.411
    assert math.expm1(2.93) < 18
    for epsilon in (1.0, 0.97, 0.8, 0.5, 0.3, 0.1, 0.01):
        for delta in (epsilon / 1000, epsilon**2 / 1000, 1e-6, 1e-9, 1e-20, 1e-100, 1e-300):
            if delta <= epsilon / 1000:
                assert gaussian_sigma(epsilon, delta) ** 2 <= 2 * math.log(1 / delta) / epsilon**2
                assert private_error_bound([[1.0]], epsilon, delta) * epsilon**2 >= 0.403
                assert gaussian_error_factor(1, epsilon, delta) <= 5 * math.log(1 / delta)
    at_its_largest = gaussian_error_factor(1, 1.0, 1e-300) / math.log(1e300)
    assert 4.6 < at_its_largest < 5  # not far from what is stated


def test_the_mechanism_is_within_the_factor() -> None:
    total = Totals(AGES)
    vectors = neighbour_differences(BELOW, bdp.Invariants(total), "substitution")
    mechanism = CorrelatedGaussian(total, epsilon=0.5, delta=1e-6, query=BELOW)
    factor = gaussian_error_factor(vectors.shape[1], 0.5, 1e-6)
    assert mechanism.error <= factor * private_error_bound(vectors, 0.5, 1e-6)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="delta must be less than 1"):
        private_error_bound([[1.0]], 1.0, 1.0)
    with pytest.raises(ValueError, match="epsilon must be"):
        private_error_bound([[1.0]], 0.0)
    with pytest.raises(ValueError, match="span"):
        private_error_bound([[1.0, 0.0]], 1.0)
    assert private_error_bound([[1.0]], 1e-7) > 0.0
    with pytest.raises(ValueError, match="dimension must be"):
        gaussian_error_factor(0, 1.0, 1e-6)
    with pytest.raises(ValueError, match="delta"):
        gaussian_error_factor(3, 1.0, 0.0)
    with pytest.raises(ValueError, match="method must be one of 'factorization', 'ellipsoid'"):
        gaussian_error_factor(3, 1.0, 1e-6, method="ball")
    with pytest.raises(ValueError, match="dimension must be at most 300"):
        gaussian_error_factor(301, 1.0, 1e-6, method="ellipsoid")

"""Nonnegative least squares with exact sums against the listing of all sets of zeros, rounding against that of all roundings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from notebooks.topdown import Constraints, NoTable, nonnegative_least_squares, round_within


def no_sums(n):
    return Constraints(sp.csr_array((0, n)), np.zeros(0), np.zeros(0))


def by_enumeration(rows, values, weights, equations, right, lower=None, upper=None):
    """From the definition: over all sets of unknowns that are 0 and of limits that hold with equality, the best that is feasible."""
    n = rows.shape[1]
    choices = [(None,)] * 0 if lower is None else [(None, lower[i], upper[i]) for i in range(len(lower))]
    best, least = None, np.inf
    for size in range(n + 1):
        for zero in itertools.combinations(range(n), size):
            kept = [i for i in range(n) if i not in zero]
            for active in itertools.product(*choices):
                own = [i for i, value in enumerate(active) if value is not None]
                e = np.vstack([equations[: len(right)], equations[len(right) :][own]])[:, kept]
                f = np.concatenate([right, [active[i] for i in own]])
                h = rows[:, kept].T @ (weights[:, None] * rows[:, kept])
                top = np.hstack([h, e.T])
                system = np.vstack([top, np.hstack([e, np.zeros((len(e), len(e)))])])
                found = np.linalg.lstsq(system, np.concatenate([rows[:, kept].T @ (weights * values), f]), rcond=None)[
                    0
                ]
                x = np.zeros(n)
                x[kept] = found[: len(kept)]
                sums = equations @ x
                limited = sums[len(right) :]
                feasible = x.min(initial=0.0) >= -1e-9 and np.allclose(sums[: len(right)], right, atol=1e-8)
                if lower is not None:
                    feasible = feasible and np.all(limited >= lower - 1e-8) and np.all(limited <= upper + 1e-8)
                loss = np.sum(weights * (rows @ x - values) ** 2)
                if feasible and loss < least - 1e-12:
                    best, least = x, loss
    return best


def two_way(rng, shape):
    """A noisy table with noisy totals and precise row sums, and both of its margins exact."""
    n = shape[0] * shape[1]
    cells = np.eye(n)
    by_row = np.kron(np.eye(shape[0]), np.ones(shape[1]))
    by_column = np.kron(np.ones(shape[0]), np.eye(shape[1]))
    truth = rng.poisson(1.5, n)
    rows = np.vstack([cells, np.ones((1, n)), by_row[:1]])
    weights = np.concatenate([np.full(n, 0.25), [3.0], [100.0]]) * rng.choice([0.01, 1.0, 10.0])
    values = rows @ truth + rng.normal(0.0, 2.5, len(rows))
    return truth, rows, values, weights, by_row, by_column


def nearest(x, matrix, lower, upper):
    """The least distance of a rounding, over all of them."""
    down = np.floor(x + 1e-6)
    ups = [(0, 1) if left > 2e-6 else (0,) for left in x - down]
    tables = np.array([down + np.array(up) for up in itertools.product(*ups)])
    sums = tables @ matrix.T
    kept = np.all((sums >= lower) & (sums <= upper), axis=1)
    return np.abs(tables[kept] - x).sum(axis=1).min()


@pytest.mark.parametrize("seed", range(8))
def test_limits_of_sums_against_enumeration(seed):
    rng = np.random.default_rng(100 + seed)
    truth, rows, values, weights, by_row, by_column = two_way(rng, (2, 3))
    matrix = np.vstack([by_column, by_row])
    right = (by_column @ truth).astype(float)
    lower, upper = (by_row @ truth - 1.0).clip(0), by_row @ truth + 1.0
    known = Constraints(sp.csr_array(matrix), np.concatenate([right, lower]), np.concatenate([right, upper]))
    found = nonnegative_least_squares(sp.csr_array(rows), values, weights, known)
    np.testing.assert_allclose(found, by_enumeration(rows, values, weights, matrix, right, lower, upper), atol=2e-6)
    whole = round_within(found, known)
    assert np.all((matrix @ whole >= known.lower) & (matrix @ whole <= known.upper))
    assert np.abs(whole - found).sum() == pytest.approx(nearest(found, matrix, known.lower, known.upper), abs=1e-5)


def test_a_large_problem_fulfils_the_conditions_of_optimality():
    """3,000 unknowns, most of them 0: nonnegative, sums kept, and no feasible direction goes down."""
    rng = np.random.default_rng(4)
    k, c = 10, 300
    truth = rng.negative_binomial(0.2, 0.02, (k, c))
    groups = rng.integers(0, 12, c)
    recode = sp.csr_array(np.equal.outer(np.arange(12), groups).astype(float))
    each = sp.eye_array(k)
    rows = sp.csr_array(sp.vstack([sp.eye_array(k * c), sp.kron(each, recode), sp.kron(each, np.ones((1, c)))]))
    weights = np.concatenate([np.full(k * c, 1 / 20.0), np.full(k * 12, 1 / 500.0), np.full(k, 1 / 1.2)])
    values = rows @ truth.reshape(-1) + rng.normal(0.0, 1.0, rows.shape[0]) / np.sqrt(weights)
    column = sp.csr_array(sp.kron(np.ones((1, k)), sp.eye_array(c)))
    right = truth.sum(axis=0).astype(float)
    keep = np.flatnonzero(column.T @ (right > 0))
    known = Constraints(column[:, keep], right, right)
    found = nonnegative_least_squares(rows[:, keep], values, weights, known)
    assert found.min() >= 0
    np.testing.assert_allclose(known.matrix @ found, right, atol=1e-5)
    gradient = rows[:, keep].T @ (weights * (rows[:, keep] @ found - values))
    columns = np.asarray(known.matrix.argmax(axis=0)).reshape(-1)
    for own in range(c):  # moving a count from one leaf to another never lowers the loss
        members = columns == own
        if members.any():
            least = gradient[members].min()
            assert np.all(gradient[members & (found > 1e-6)] - least < 1e-6)


def test_sums_that_no_table_has():
    known = Constraints(sp.csr_array(np.array([[1.0, 1.0], [1.0, 0.0]])), np.array([3.0, 5.0]), np.array([3.0, 5.0]))
    with pytest.raises(NoTable, match="no nonnegative table"):
        nonnegative_least_squares(sp.eye_array(2, format="csr"), np.zeros(2), np.ones(2), known)


def test_a_rounding_that_there_is_not():
    # Three sums of pairs are 1 each: all halves, and no whole numbers.
    pairs = Constraints(sp.csr_array(np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]])), np.ones(3), np.ones(3))
    with pytest.raises(NoTable, match="no rounding"):
        round_within(np.full(3, 0.5), pairs)
    with pytest.raises(NoTable, match="no rounding"):
        round_within(np.array([1.0, 1.0, 0.0]), pairs)
    assert round_within(np.array([0.4, 0.6, 2.0]), no_sums(3)).tolist() == [0, 1, 2]


def test_nothing_is_free():
    none = sp.csr_array((2, 0))
    assert nonnegative_least_squares(none, np.ones(2), np.ones(2), no_sums(0)).shape == (0,)
    with pytest.raises(NoTable):
        nonnegative_least_squares(
            none, np.ones(2), np.ones(2), Constraints(sp.csr_array((1, 0)), np.ones(1), np.ones(1))
        )

"""Fibers of counts near 2**53: sums and limits by Python's integers as the oracle; nothing wraps, nothing is rounded."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from bayesdp import Exact, LatticeLaplace, LinearQuery, Margins, ProjectedGaussian, Totals
from bayesdp.distributions.confidential_counts import answers
from bayesdp.fibers import Fiber
from bayesdp.fibers.system import propagated_bounds

LARGEST = 2**53


def _ints(values):
    return values.reshape(-1).tolist()


def _products(matrix, table):
    """By Python's integers."""
    return [sum(w * x for w, x in zip(row, _ints(table), strict=True)) for row in matrix.tolist()]


def test_sums_that_wrap_are_not_met_and_those_of_2_to_the_53_are_refused_and_symbolic_answers_exact():
    """4096 cells of 2**52 are 2**64, which is 0 in 64 bits."""
    fiber = Fiber.of([Exact(Totals({"cell": list(range(4096))}), 0)])
    with pytest.raises(ValueError, match="the terms of total add up"):
        fiber.contains(np.full(4096, 2**52))
    assert fiber.contains(np.zeros(4096, dtype=np.int64))
    # Whatever is no count is no member, and is not added up.
    mixed = np.stack([np.full(4096, 2**62), np.zeros(4096, dtype=np.int64)])
    assert fiber.members(mixed).tolist() == [False, True]
    labels = {"cell": ["a", "b"]}
    fiber = Fiber.of([Exact(LinearQuery(labels, [[2**31, 2**31]], ["double"]), [0])])
    with pytest.raises(ValueError, match="the terms of double add up"):
        fiber.contains(np.array([2**32, 2**32]))
    stated = LinearQuery(labels, [[1, 0], [2**40, 1]], ["a", "sum"])  # a is fixed, and 2**40 times a is 2**80
    with pytest.raises(ValueError, match="the terms of sum add up"):
        _ = Fiber.of([Exact(stated, [2**40, 5])]).system.free_totals()
    total = Totals({"cell": list(range(4096))})
    for mechanism in (LatticeLaplace(total, epsilon=1.0), ProjectedGaussian(total, mu=1e-9)):
        with pytest.raises(ValueError, match=r"add up to less than 2\*\*53"):
            mechanism.release(np.full(4096, 2**52), rng=1)
    double = LatticeLaplace(LinearQuery({"cell": ["a", "b"]}, [[2**21, 2**21]], ["double"]), 1.0)
    with pytest.raises(ValueError, match=r"smaller than 2\*\*53 in absolute value, but double is not"):
        double.release([2**32, 2**32], rng=1)
    # Products of 2**62 that cancel: float64 rounds each of them by up to 256.
    rng = np.random.default_rng(1)
    matrix = rng.integers(2**30, 2**31, size=(4, 3)) * rng.choice([-1, 1], size=(4, 3))
    table, x = rng.integers(2**29, 2**30, size=3), pt.lvector("x")
    query = LinearQuery({"cell": ["a", "b", "c"]}, matrix, list("wxyz"))
    found = pytensor.function([x], answers(query, x))(table)
    assert found.dtype == np.int64
    assert _ints(found) == _products(matrix, table)


@pytest.mark.parametrize("seed", range(8))
def test_points_with_totals_near_the_limit_have_them_exactly_and_limits_of_two_way_tables_are_frechets(seed):
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 40))
    labels = {"cell": list(range(cells)), "block": ("cell", [int(b) for b in rng.integers(0, 2, cells)])}
    blocks = Totals(labels, by="block")
    totals = [int(v) for v in LARGEST // 2 - rng.integers(1, 2 ** int(rng.integers(2, 52)), size=blocks.rows)]
    fiber = Fiber.of([Exact(blocks, totals)])
    for guide in (None, rng.gamma(0.3, 2.0**45, size=cells)):
        point = fiber.find_point(guide)
        assert _products(blocks.matrix.toarray(), point) == totals
        assert point.min() >= 0
    labels = {"row": ["a", "b", "c"], "column": ["u", "v"]}
    table = rng.integers(0, 2 ** int(rng.integers(2, 50)), size=(3, 2))
    table[int(rng.integers(3)), int(rng.integers(2))] = LARGEST - int(table.sum()) - int(rng.integers(1, 9))
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    fiber = Fiber.of([Exact(Margins(labels, ["row"]), rows), Exact(Margins(labels, ["column"]), columns)])
    (lower, upper), pairs = map(_ints, fiber.bounds()), [(r, c) for r in _ints(rows) for c in _ints(columns)]
    assert lower == [max(0, r + c - sum(_ints(rows))) for r, c in pairs]
    assert upper == [min(pair) for pair in pairs]
    assert fiber.contains(fiber.find_point())


@pytest.mark.parametrize("seed", range(20))
def test_limits_of_general_sums_hold_for_the_table_that_they_are_of(seed):
    """Weights and counts of which float64 rounds the sums: no limit may leave the table out."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2 ** int(rng.integers(1, 30)), size=40)
    matrix = np.zeros((6, 40), dtype=np.int64)
    for row in matrix:
        weights = rng.integers(1, 2 ** int(rng.integers(1, 30)), size=6) * rng.choice([-1, 1, 1], size=6)
        row[rng.choice(40, 6, replace=False)] = weights
    query = LinearQuery({"cell": list(range(40))}, matrix, [f"r{i}" for i in range(6)])
    if np.any(np.abs(query.apply(table)) >= LARGEST):  # not publishable
        table = table >> 8
    assert _ints(query.apply(table)) == _products(matrix, table)
    lower, upper = propagated_bounds(Fiber.of([Exact(query, query.apply(table))]).system)
    assert np.all((lower <= table) & (table <= upper))


@pytest.mark.parametrize("bits", [20, 32, 33, 52])
def test_real_noise_is_added_exactly_or_the_answers_are_refused(bits):
    """A grid of 2**-21 leaves 2**32 for counts; beyond, float64 rounds the sum by what depends on the count."""
    mechanism = ProjectedGaussian(Totals({"cell": ["a", "b", "c"]}), mu=1.0)
    table = np.array([2**bits - 1, 2 ** (bits - 1) + 1, 3])
    if 2**bits > LARGEST * mechanism.grid:
        with pytest.raises(ValueError, match=r"2\*\*53 steps of the grid of the noise"):
            mechanism.release(table, rng=1)
        return
    values = mechanism.release(table, rng=1).measurements[0].values
    steps = [value / mechanism.grid for value in values.tolist()]
    assert all(step == int(step) for step in steps)
    assert sum(int(step) for step in steps) == sum(_ints(table)) * int(1 / mechanism.grid)

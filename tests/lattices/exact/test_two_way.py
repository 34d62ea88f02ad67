"""Two-way and three-way tables: the mass of two rows, whole draws against enumeration, and published numbers."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from bayesdp.lattices import sample_noise
from bayesdp.lattices.fixed_sum import log_normaliser
from bayesdp.lattices.two_way import (
    TwoWay,
    draw_three_way,
    draw_two_way,
    three_way_acceptance,
    two_row_ratio,
    two_way,
    two_way_acceptance,
)
from tests.lattices.oracles import LEVEL, lattice_points, law_on, one_way, pvalue, two_way_margins


def by_rows(rows: int, columns: int, epsilon: float) -> TwoWay:
    """The plan for small rates, which leaves one row instead of two."""
    empty = np.zeros(0)
    return two_way(rows, columns, epsilon)._replace(sines=empty, cosines=empty)


@pytest.mark.parametrize(("columns", "epsilon", "reach"), [(2, 0.25, 90), (3, 0.3, 60), (3, 3.0, 8), (4, 1.0, 18)])
def test_the_mass_of_two_rows_and_its_bound(columns, epsilon, reach, rng):
    grid = np.array(list(product(range(-reach, reach + 1), repeat=columns - 1)))
    rows = np.column_stack([grid, -grid.sum(axis=1)])
    plan = two_way(3, columns, epsilon)
    zero = np.exp(-2 * epsilon * np.abs(rows).sum(axis=1)).sum()
    assert plan.log_zero == pytest.approx(np.log(zero), abs=1e-9)
    scratch = np.zeros(len(plan.sines))
    for trial in range(6):
        sums = rng.integers(-5, 6, columns) * (trial > 0)
        sums[0] -= sums.sum()
        mass = np.exp(-epsilon * (np.abs(rows).sum(axis=1) + np.abs(rows + sums).sum(axis=1))).sum()
        found = two_row_ratio(plan, sums, scratch)
        assert found == pytest.approx(mass / zero, abs=1e-10)
        assert found <= np.exp(np.min(plan.bounds @ [np.abs(sums).sum(), 1.0])) * (1 + 1e-12)


def test_small_rates_leave_one_row():
    assert two_way(4, 4, 1e-4).sines.size == 0


# Five tests at LEVEL.
@pytest.mark.parametrize(
    ("rows", "columns", "epsilon", "reach", "plan"),
    [
        (3, 3, 0.8, 8, two_way),
        (3, 3, 0.8, 8, by_rows),
        (4, 3, 1.2, 4, two_way),
        (5, 2, 0.7, 7, two_way),
        (3, 3, 2.5, 4, two_way),
    ],
)
def test_tables_follow_the_law(rows, columns, epsilon, reach, plan, make_rng):
    size = 20000
    own = plan(rows, columns, epsilon)
    draws, tries = draw_two_way(own, make_rng(rows), size)
    assert not draws.sum(axis=1).any()
    assert not draws.sum(axis=2).any()
    if (rows, columns) == (5, 2):  # enumerated by its one free column
        draws = draws[:, :, 0]
        points = lattice_points(np.ones((1, 5), dtype=np.int64), reach)
        assert pvalue(draws, points, law_on(points, "l1", 2 * epsilon)) > LEVEL
    else:
        points = lattice_points(one_way(rows, columns).matrix.toarray(), reach)
        assert pvalue(draws.reshape(size, -1), points, law_on(points, "l1", epsilon)) > LEVEL
    assert two_way_acceptance(own, make_rng(9), 4000) == pytest.approx(size / tries, rel=0.1)


def test_the_share_that_is_kept_is_a_ratio_of_sums(make_rng):
    points = lattice_points(one_way(4, 3).matrix.toarray(), 5)
    log_sum = np.log(np.exp(-1.2 * np.abs(points).sum(axis=1)).sum())
    expected = np.exp(log_sum - 2 * log_normaliser(3, 1.2) - log_normaliser(3, 2.4))
    assert two_way_acceptance(two_way(4, 3, 1.2), make_rng(1), 50000) == pytest.approx(expected, rel=0.01)


# Published variance, covariance and mass of zero (checks.md); 4.5 standard errors: one false alarm in 50,000.
def test_the_published_numbers_of_a_3_x_3_table(make_rng):
    size = 200_000
    draws = sample_noise(one_way(3, 3), "l1", 1.0, make_rng(5), size, "exact").astype(float)
    for values, expected in [
        (draws[:, 0, 0] ** 2, 0.156180318),
        (draws[:, 0, 0] * draws[:, 0, 1], -0.078090159),
        (~draws.any(axis=(1, 2)), 0.716986545),
    ]:
        assert abs(values.mean() - expected) < 4.5 * values.std() / np.sqrt(size)


# One false alarm in 16,000 each: mean sizes agree with another program's (6 x 6: 98.12 +- .08), and with the chain.
def test_larger_tables(make_rng):
    draws, tries = draw_two_way(two_way(6, 6, 0.25), make_rng(6), 2500)
    sizes = np.abs(draws).sum(axis=(1, 2))
    assert abs(sizes.mean() - 98.12) < 4 * np.hypot(sizes.std() / 50, 0.08)
    assert 2500 / tries == pytest.approx(0.030, abs=0.004)
    exact = np.abs(sample_noise(one_way(4, 5), "l1", 0.25, make_rng(7), 8000, "exact")).sum(axis=(1, 2))
    chain = np.abs(sample_noise(one_way(4, 5), "l1", 0.25, make_rng(8), 600, "mcmc", 60)).sum(axis=(1, 2))
    assert abs(exact.mean() - chain.mean()) < 4 * np.hypot(exact.std() / np.sqrt(8000), chain.std() / np.sqrt(600))


# Two tests at LEVEL. Tables with an entry beyond 2 are beyond the enumeration: they have a length of 24 or more.
@pytest.mark.parametrize("epsilon", [1.0, 0.8])
def test_three_way_tables_follow_the_law(epsilon, make_rng):
    plan = two_way(3, 3, epsilon)
    draws, tries = draw_three_way(plan, 3, make_rng(4), 20000)
    for axis in (1, 2, 3):
        assert not draws.sum(axis=axis).any()
    points = lattice_points(two_way_margins(3, 3, 3).matrix.toarray(), 2)
    assert pvalue(draws.reshape(-1, 27), points, law_on(points, "l1", epsilon)) > LEVEL
    assert three_way_acceptance(plan, 3, make_rng(5), 4000) == pytest.approx(20000 / tries, rel=0.1)


# Another program: E||z||_1 = 28.87 +- .07 by a chain; four standard errors.
def test_the_size_of_three_way_noise(make_rng):
    draws, _ = draw_three_way(two_way(3, 3, 0.25), 3, make_rng(4), 4000)
    sizes = np.abs(draws).sum(axis=(1, 2, 3))
    assert abs(sizes.mean() - 28.87) < 4 * np.hypot(sizes.std() / np.sqrt(4000), 0.07)


# 120 means, each within 5.5 standard errors: one false alarm in 200,000. The ways are of three lengths, in disorder.
def test_cells_of_a_three_way_table_are_where_they_belong(make_rng):
    invariants = two_way_margins(3, 5, 4)
    exact = sample_noise(invariants, "l1", 0.9, make_rng(1), 5000, "exact").astype(float)
    assert not np.any(invariants.matrix @ exact.reshape(5000, -1).T)
    chain = sample_noise(invariants, "l1", 0.9, make_rng(2), 1500, "mcmc", 60).astype(float)
    for mine, theirs in [(exact**2, chain**2), (exact * exact[:, :1], chain * chain[:, :1])]:
        error = np.hypot(mine.std(axis=0) / np.sqrt(5000), theirs.std(axis=0) / np.sqrt(1500))
        assert np.all(np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 5.5 * error)


@pytest.mark.parametrize("sizes", [*permutations((3, 4, 5)), (3, 4), (4, 3)])
def test_no_order_of_the_ways_changes_an_invariant(sizes, make_rng):
    invariants = one_way(*sizes) if len(sizes) == 2 else two_way_margins(*sizes)
    draws = sample_noise(invariants, "l1", 1.0, make_rng(1), 100, "exact")
    assert draws.any()
    assert not np.any(invariants.matrix @ draws.reshape(100, -1).T)

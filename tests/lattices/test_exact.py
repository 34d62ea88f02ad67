"""Exact samplers of noise on lattices: two-way and three-way tables, groups that overlap, fixed sums, nearest planes."""

from functools import reduce
from itertools import permutations, product
from math import comb

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import eval_legendre

from bayesdp._numba import seed_state
from bayesdp.fibers.moves.basis import kernel_basis
from bayesdp.invariants import Invariants
from bayesdp.lattices import fixed_sum as fixed
from bayesdp.lattices import gram_schmidt as planes
from bayesdp.lattices import sample_noise
from bayesdp.lattices import two_way as ways
from bayesdp.lattices.parts import General
from bayesdp.queries import LinearQuery
from tests.lattices.oracles import CASES, assert_follows, assert_mass, labels, lattice_points, one_way, two_way_margins


@pytest.mark.parametrize(("columns", "epsilon", "reach"), [(2, 0.25, 90), (3, 0.3, 60), (4, 1.0, 18)])
def test_the_mass_of_two_rows_and_its_bound(columns, epsilon, reach, rng):
    rows, plan = lattice_points(np.ones((1, columns), dtype=np.int64), reach), ways.two_way(3, columns, epsilon)
    zero = np.exp(-2 * epsilon * np.abs(rows).sum(axis=1)).sum()
    assert plan.log_zero == pytest.approx(np.log(zero), abs=1e-9)
    scratch = np.zeros(len(plan.sines))
    for trial in range(6):
        sums = rng.integers(-5, 6, columns) * (trial > 0)
        sums[0] -= sums.sum()
        mass = np.exp(-epsilon * (np.abs(rows).sum(axis=1) + np.abs(rows + sums).sum(axis=1))).sum()
        found = ways.two_row_ratio(plan, sums, scratch)
        assert found == pytest.approx(mass / zero, abs=1e-10)
        assert found <= np.exp(np.min(plan.bounds @ [np.abs(sums).sum(), 1.0])) * (1 + 1e-12)


# Three tests at LEVEL.
@pytest.mark.parametrize(("rows", "columns", "epsilon", "reach"), [(3, 3, 0.8, 8), (4, 3, 1.2, 3), (5, 2, 0.7, 7)])
def test_tables_follow_the_law(rows, columns, epsilon, reach, make_rng):
    size, own = 10_000, ways.two_way(rows, columns, epsilon)
    if rows == 3:  # the plan for small rates, which leaves one row instead of two
        own = own._replace(sines=np.zeros(0), cosines=np.zeros(0))
    draws, tries = ways.draw_two_way(own, make_rng(rows), size)
    if (rows, columns) == (5, 2):  # enumerated by its one free column
        assert not draws.sum(axis=2).any()
        assert_follows(draws[:, :, 0], np.ones((1, 5), dtype=np.int64), reach, "l1", 2 * epsilon)
    else:
        assert_follows(draws.reshape(size, -1), one_way(rows, columns).matrix.toarray(), reach, "l1", epsilon)
    assert ways.two_way_acceptance(own, make_rng(9), 4000) == pytest.approx(size / tries, rel=0.1)
    if (rows, columns) == (4, 3):  # the share that is kept is a ratio of sums
        sums = np.exp(-1.2 * np.abs(lattice_points(one_way(4, 3).matrix.toarray(), 3)).sum(axis=1)).sum()
        expected = np.log(sums) - 2 * fixed.log_normaliser(3, 1.2) - fixed.log_normaliser(3, 2.4)
        assert np.log(ways.two_way_acceptance(own, make_rng(1), 30_000)) == pytest.approx(expected, abs=0.015)


# One false alarm in 16,000: another program has a mean size of 98.12 +- .08 at 6 x 6.
def test_the_size_of_larger_tables(make_rng):
    draws, tries = ways.draw_two_way(ways.two_way(6, 6, 0.25), make_rng(6), 2500)
    sizes = np.abs(draws).sum(axis=(1, 2))
    assert abs(sizes.mean() - 98.12) < 4 * np.hypot(sizes.std() / 50, 0.08)
    assert 2500 / tries == pytest.approx(0.030, abs=0.004)


# One test at LEVEL. Tables with an entry beyond 2 are beyond the enumeration: they have a length of 24 or more.
def test_three_way_tables_follow_the_law(make_rng):
    plan = ways.two_way(3, 3, 0.8)
    draws, tries = ways.draw_three_way(plan, 3, make_rng(4), 10_000)
    assert_follows(draws.reshape(-1, 27), two_way_margins(3, 3, 3).matrix.toarray(), 2, "l1", 0.8)
    assert ways.three_way_acceptance(plan, 3, make_rng(5), 4000) == pytest.approx(10_000 / tries, rel=0.1)


@pytest.mark.parametrize("sizes", [*permutations((3, 4, 5)), (3, 4), (4, 3)])
def test_no_order_of_the_ways_changes_an_invariant(sizes, make_rng):
    invariants = one_way(*sizes) if len(sizes) == 2 else two_way_margins(*sizes)
    draws = sample_noise(invariants, "l1", 1.0, make_rng(1), 100, "exact")
    assert draws.any()
    assert not np.any(invariants.matrix @ draws.reshape(100, -1).T)


def groups_of(matrix):
    return fixed.exchangeable_groups(General(np.arange(matrix.shape[1]), sp.csr_array(matrix)))


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_the_law_of_a_sum_is_a_convolution(count, epsilon):
    one = np.exp(-epsilon * np.abs(np.arange(-300, 301)))
    law = reduce(np.convolve, [one] * count)
    zero = len(law) // 2
    expected = law[zero : zero + 60] / law[zero]
    found = np.exp([fixed.log_sum_mass(count, -s, epsilon) - fixed.log_sum_mass(count, 0, epsilon) for s in range(60)])
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    table = fixed.sum_ratios(count, epsilon)
    np.testing.assert_allclose(table[:60], expected[: len(table)], rtol=1e-11)
    assert len(table) == 65536 or table[-1] < 1e-11


SMALL = {
    "two sets": ([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], 12),
    "not unimodular": ([[2, 3, 2, 5]], 14),
    "no whole pivot": ([[2, 2, 3, 3]], 14),
    "opposite signs": ([[1, -1, 1, 1, 0], [0, 0, 2, -2, 1]], 12),
}


# Four tests at LEVEL.
@pytest.mark.parametrize("name", SMALL)
def test_draws_follow_the_law(name, make_rng):
    (rows, reach), epsilon, size = SMALL[name], 0.8, 8000
    matrix = np.array(rows)
    groups = groups_of(matrix)
    draws, tries = fixed.draw_groups(groups, epsilon, make_rng(11), size)
    assert_follows(draws, matrix, reach, "l1", epsilon)
    # The estimate and the share that is kept, each with a relative error of a few percent.
    assert fixed.groups_acceptance(groups, epsilon, make_rng(12), 4000) == pytest.approx(size / tries, rel=0.15)
    if name == "two sets":  # the sum over the lattice by those over the free fifth cell and the pivots, two pairs
        whole = np.exp(-epsilon * np.abs(lattice_points(matrix, 14)).sum(axis=1)).sum()
        expected = whole * np.tanh(epsilon / 2) * np.tanh(epsilon) ** 2
        assert fixed.groups_acceptance(groups, epsilon, make_rng(3), 100_000) == pytest.approx(expected, rel=0.02)


def test_venn_regions_have_the_known_size_and_share_and_wide_relations_no_groups(make_rng):
    # Two cells in each of the seven regions of three sets. An independent program: E||z||_1 = 43.33 +- .03, acceptance .113.
    venn = np.array([[s >> i & 1 for s in range(1, 8) for _ in range(2)] for i in range(3)])
    draws, tries = fixed.draw_groups(groups_of(venn), 0.25, make_rng(1), 22_500)
    assert not np.any(venn @ draws.T)
    assert 22_500 / tries == pytest.approx(0.1130, abs=0.004)
    sizes = np.abs(draws).sum(axis=1)
    assert abs(sizes.mean() - 43.33) < 4 * np.hypot(sizes.std() / 150, 0.03)
    assert groups_of(np.array([[1 << 21, (1 << 21) + 1]])) is None  # relations with large numbers are left to others


def sparse(state, mass, order, sign, row, _):
    """Where bars are few among many places: draws are repeated when two fall together."""
    fixed._compose_sparse(state, mass + len(order) - 1, order, sign, row)


# Five tests at LEVEL. Marked are the bars in the first, the units in the second.
@pytest.mark.parametrize(
    ("compose", "mass", "cells"),
    [(fixed.compose, 5, 3), (fixed.compose, 2, 5), (sparse, 5, 3), (sparse, 2, 5), (sparse, 7, 2)],
)
def test_compositions_are_uniform(compose, mass, cells, make_rng):
    state, draws = seed_state(make_rng(mass)), np.zeros((4000, cells), dtype=np.int64)
    for row in draws:
        compose(state, mass, np.arange(cells), 1, row, fixed.scratch(cells))
    listed = np.array([c for c in product(range(mass + 1), repeat=cells) if sum(c) == mass])
    assert_mass(draws, listed, np.full(len(listed), 1 / comb(mass + cells - 1, cells - 1)))


# One test at LEVEL. A large bit map: places beyond the first word, and the last word half full.
def test_a_composition_of_a_large_mass_is_uniform_in_each_part(make_rng):
    state, mass, draws = seed_state(make_rng(62)), 200, np.zeros((5000, 3), dtype=np.int64)
    for row in draws:
        fixed.compose(state, mass, np.array([2, 0, 1]), -1, row, fixed.scratch(3))
    assert np.all(draws.sum(axis=1) == -mass)
    first = np.arange(mass + 1)
    assert_mass(-draws[:, [1]], first[:, None], (mass - first + 1) / comb(mass + 2, 2))


# Two tests at LEVEL: small and large rates, blocks in disorder, a block of one cell and a free cell.
@pytest.mark.parametrize("epsilon", [0.4, 1.5])
def test_blocks_and_free_cells_are_independent(epsilon, make_rng):
    blocks = np.array([1, -1, 0, 1, 2, 0, 1])
    draws = fixed.draw_fixed_sums(blocks, epsilon, make_rng(4), 10_000)
    assert not draws[:, 4].any()
    matrix = np.array([blocks == b for b in (0, 1)]).astype(np.int64)[:, [0, 1, 2, 3, 5, 6]]
    kept, points = np.delete(draws, 4, axis=1), lattice_points(matrix, 6 if epsilon < 1 else 4)
    log_sums = fixed.log_normaliser(3, epsilon) + fixed.log_normaliser(2, epsilon)
    assert_mass(kept, points, np.exp(-epsilon * np.abs(points).sum(axis=1) - log_sums) * np.tanh(epsilon / 2))


# Each mean is within four standard errors (one false alarm in 16,000): at the paper's size, and where bars are sparse.
@pytest.mark.parametrize(("cells", "epsilon", "size"), [(102, 0.192, 4000), (30, 1e-5, 1000), (2000, 0.05, 50)])
def test_mean_size_is_minus_the_derivative_of_the_log_normaliser(cells, epsilon, size, make_rng):
    step = 1e-5 * epsilon
    mean = -(fixed.log_normaliser(cells, epsilon + step) - fixed.log_normaliser(cells, epsilon - step)) / (2 * step)
    if cells == 102:
        assert mean == pytest.approx(522.78, abs=0.005)
        assert fixed.log_normaliser(102, 0.192) == pytest.approx(234.1172, abs=5e-5)
        for n, rate in [(1, 0.3), (2, 0.3), (4, 0.5), (9, 2.0)]:  # the Legendre polynomial
            legendre = eval_legendre(n - 1, 1 / np.tanh(rate))
            assert fixed.log_normaliser(n, rate) == pytest.approx(np.log(legendre), rel=1e-13, abs=1e-14)
    draws = fixed.draw_fixed_sums(np.zeros(cells, dtype=np.int64), epsilon, make_rng(7), size)
    assert not draws.sum(axis=1).any()
    sizes = np.abs(draws).sum(axis=1)
    assert abs(sizes.mean() - mean) < 4 * sizes.std() / np.sqrt(size)
    assert fixed.draw_fixed_sums(np.array([-1, -1]), 1.0, make_rng(1), 3).shape == (3, 2)
    assert fixed.draw_fixed_sums(np.array([0, 0]), 1.0, make_rng(1), 0).shape == (0, 2)


SKEWED = Invariants(LinearQuery(labels(3), [[3, 5, 7]], ["weighted"]))
SOME = [
    SKEWED,
    one_way(2, 2, 3),
    two_way_margins(3, 4, 5),
    *(CASES[name][0] for name in ("totals", "loose", "general")),
]


@pytest.mark.parametrize("invariants", SOME, ids=repr)
def test_the_triangle_orthogonalises_a_basis_of_the_lattice(invariants):
    found = planes.gram_schmidt(invariants)
    basis = found.basis.toarray().astype(float)
    lower = found.triangle.toarray() + np.eye(len(basis))
    assert not np.any(np.triu(found.triangle.toarray()))
    orthogonal = np.linalg.solve(lower, basis)
    np.testing.assert_allclose(orthogonal @ orthogonal.T, np.diag(found.lengths**2), atol=1e-10)
    # A basis of the whole lattice, not of a part of it: it changes no invariant, and has the right volume.
    assert not (invariants.matrix @ found.basis.T).toarray().any()
    other = kernel_basis(invariants).toarray().astype(float)
    assert np.log(found.lengths).sum() == pytest.approx(0.5 * np.linalg.slogdet(other @ other.T)[1], abs=1e-9)
    across = np.searchsorted(found.pieces, np.array(found.triangle.nonzero()), side="right")
    assert np.all(across[0] == across[1])


def test_squared_lengths_of_margins_in_closed_form():
    harmonic, found = np.cumsum(1 / np.arange(1, 20)), planes.gram_schmidt(one_way(6, 4))
    assert (found.lengths**2).sum() == pytest.approx((5 + harmonic[4]) * (3 + harmonic[2]))
    assert planes.gram_schmidt(one_way(4, 4)).reach == pytest.approx(2.417, abs=5e-4)
    matrix = np.random.default_rng(1).integers(1, 4, (2, 300))  # too large
    assert planes.gram_schmidt(Invariants(LinearQuery(labels(300), matrix, ["one", "two"]))) is None


# Eight tests at LEVEL: small scales by inversion, larger ones by rejection, centres on and off the integers.
@pytest.mark.parametrize("sigma", [0.2, 0.6, 1.4, 9.0])
@pytest.mark.parametrize("centre", [-3.0, 11.37])
def test_gaussian_around_a_centre(centre, sigma, make_rng):
    state = seed_state(make_rng(1))
    draws = np.array([[planes.centred_gaussian(state, centre, sigma)] for _ in range(8000)])
    line = np.arange(-70, 90)
    mass = np.exp(-0.5 * ((line - centre) / sigma) ** 2)
    if (sigma, centre) == (0.2, -3.0):  # all but 7e-6 of the mass on one integer
        assert np.mean(draws == -3) > 0.999
    else:
        assert_mass(draws, line[:, None], mass / mass.sum())


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.4999, 0.5, 0.9, 1.4999, 1.5, 3.0])
def test_the_mass_around_a_centre(sigma):
    line = np.arange(-60, 61)
    for centre in [0.0, 0.2, 0.5, -0.77, 4.3]:
        ratio = np.exp(-0.5 * ((line - centre) / sigma) ** 2).sum() / np.exp(-0.5 * (line / sigma) ** 2).sum()
        found = planes.mass_ratio(centre, sigma, np.exp(-2 * (np.pi * sigma) ** 2))
        assert found == pytest.approx(ratio, abs=1e-15, rel=1e-12)


# Eight tests at LEVEL. Small scales, at which a tenth of Klein's draws is rejected.
@pytest.mark.parametrize("case", ["3x3", "3x3x3", "totals", "general", "skewed"])
def test_klein_and_nearest_planes_follow_the_law(case, make_rng):
    invariants, reach = CASES.get(case, (SKEWED, 16))
    lattice, size, sigma = planes.gram_schmidt(invariants), 8000, {"skewed": 1.8, "3x3x3": 0.8}.get(case, 0.6)
    draws, tries = planes.draw_klein(lattice, sigma, make_rng(2), size)
    assert_follows(draws, invariants.matrix.toarray(), reach, "gaussian", sigma)
    # The bound is on the worst piece; tries count all pieces.
    assert size * (len(lattice.pieces) - 1) / tries > planes.klein_acceptance(lattice, sigma) - 0.02
    if case in ("3x3", "totals", "general"):
        draws, tries = planes.draw_nearest_plane(lattice, 1.7, make_rng(4), size)
        assert_follows(draws, invariants.matrix.toarray(), reach, "l2", 1.7)
        assert size / tries > planes.nearest_plane_acceptance(lattice, 1.7) * 0.95


# The share that is kept is exp(-epsilon reach) where the lattice is fine: measured by another program, too.
@pytest.mark.parametrize(("size", "share"), [(4, 0.547), (10, 0.228)])
def test_the_share_that_nearest_planes_keep(size, share, make_rng):
    lattice = planes.gram_schmidt(one_way(size, size))
    assert planes.nearest_plane_acceptance(lattice, 0.25) == pytest.approx(share, abs=0.005)
    _, tries = planes.draw_nearest_plane(lattice, 0.25, make_rng(1), 4000)
    assert 4000 / tries == pytest.approx(share, abs=0.02)

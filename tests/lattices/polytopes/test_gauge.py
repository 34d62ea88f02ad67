"""Gauges of polytopes: closed forms, the simplex, balls of sensitivity and of other norms."""

import math
import pickle
from itertools import permutations, product

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes import SensitivityHull, SymmetricHull, sensitivity_hull
from bayesdp.lattices.polytopes.base import gauge_program
from bayesdp.lattices.polytopes.generators import circuits, listed
from bayesdp.mechanisms import ExtendedLaplace, KNorm
from bayesdp.papers.subspace import private_error_bound
from bayesdp.privacy import neighbour_differences, optimal_factorization
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.comparison.enumeration import lattice_points
from tests.lattices.polytopes.examples import Programs, both_margins, cube, moves, substitutions
from tests.refusals import refused

BOTH = (SymmetricHull, Programs)


def points(dimension, count=25):
    return np.random.default_rng(dimension).normal(size=(count, dimension)) * 7.0


def volume(hull):
    return math.exp(hull.log_cone_mass) / math.factorial(hull.dimension)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_the_norms_of_cross_polytopes_cubes_and_of_one_fixed_total_which_is_half_the_l1_norm(kind, n):
    v, (invariants, vertices) = points(n), substitutions(n + 1)
    cross, box, hull = kind(np.eye(n)), kind(cube(n)), kind(vertices)
    assert cross.gauge(v) == pytest.approx(np.abs(v).sum(axis=1), rel=1e-13)
    assert box.gauge(v) == pytest.approx(np.abs(v).max(axis=1), rel=1e-13)
    assert hull.gauge(v) == pytest.approx(0.5 * np.abs(invariants.from_coordinates(v)).sum(axis=1), rel=1e-13)
    if kind is SymmetricHull:
        # The root polytope has C(2n, n) unimodular simplices and 2**(n+1) - 2 facets; the lattice has density 1/sqrt(n+1).
        expected = [2**n / math.factorial(n), 2**n, math.comb(2 * n, n) / math.factorial(n) * math.sqrt(n + 1)]
        assert [volume(own) for own in (cross, box, hull)] == pytest.approx(expected, rel=1e-12)
        assert [len(own.boundary.forms) for own in (cross, box, hull)] == [2 ** (n - 1), n, 2**n - 1]
        # With z = s (D - D') of lattice-free l1 noise: E ||z||**2 = 4 (2d - 1)(d - 1) / (d + 1).
        assert np.trace(hull.second_moment) == pytest.approx(4 * (2 * n + 1) * n / (n + 2), rel=1e-12)


SLOW = pytest.param(4, 866, 68048, 127.7, marks=pytest.mark.slow)  # Qhull needs seconds


@pytest.mark.parametrize(("size", "facets", "cones", "square"), [(3, 30, 66, 46.8), SLOW])
def test_hull_of_the_moves_of_square_tables(size, facets, cones, square):
    # Figures of a separate computation: facets, n! vol K in a lattice basis, and mean squares of draws, to a few thousandths.
    _, vertices = moves(size, size)
    hull, n = SymmetricHull(vertices), (size - 1) ** 2
    assert (hull.dimension, len(vertices)) == (n, math.comb(size, 2) ** 2)
    assert 2 * len(hull.boundary.forms) == facets
    determinant = size ** (size - 1)  # of a lattice basis of tables with zero margins, in orthonormal coordinates
    assert volume(hull) / determinant * math.factorial(n) == pytest.approx(cones, rel=1e-9)
    assert np.trace(hull.second_moment) == pytest.approx(square, rel=4e-3)
    assert np.max(np.abs(hull.boundary.forms @ vertices.T)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("shape", [(2, 5), (3, 4)])
def test_programs_agree_with_facets(shape):
    _, vertices = moves(*shape)
    facets, program = SymmetricHull(vertices), Programs(vertices)
    v = points(facets.dimension)
    assert (program.log_cone_mass, program.second_moment) == (None, None)
    assert program.gauge(v) == pytest.approx(facets.gauge(v), rel=1e-12)
    for hull in (facets, program):
        for point in (*v[:5], np.zeros(hull.dimension)):
            value, form = hull.subgradient(point)
            assert value == pytest.approx(float(form @ point), rel=1e-12)
            assert value == pytest.approx(float(hull.gauge(point)), rel=1e-12)
            assert np.max(np.abs(vertices @ form)) <= 1 + 1e-9


def test_generic_points_doubled_vertices_and_units():
    for kind, scale in ((SymmetricHull, 1e-6), (Programs, 1e5)):
        own = moves(3, 3)[1]
        v, base, scaled = points(4), kind(own), kind(own * scale)
        assert scaled.gauge(v * 1e9) * scale == pytest.approx(base.gauge(v) * 1e9, rel=1e-11)
        if kind is SymmetricHull:
            assert volume(scaled) == pytest.approx(volume(base) * scale**4, rel=1e-10)
    rng = np.random.default_rng(2)
    vertices = rng.normal(size=(40, 5))
    hull = SymmetricHull(vertices)
    doubled, v = SymmetricHull(np.concatenate([vertices, -vertices, 0.3 * vertices, np.zeros((1, 5))])), points(5)
    assert doubled.gauge(v) == pytest.approx(hull.gauge(v), rel=1e-12)
    assert volume(doubled) == pytest.approx(volume(hull), rel=1e-10)
    assert Programs(vertices).gauge(v) == pytest.approx(hull.gauge(v), rel=1e-10)


def test_hulls_compare_and_travel_by_their_vertices():
    _, vertices = moves(3, 3)
    hull = SymmetricHull(vertices)
    _, other = hull.boundary, pickle.loads(pickle.dumps(hull))
    assert (other, hash(other)) == (hull, hash(hull))
    assert "boundary" not in other.__dict__  # it is found again, and takes no room
    assert hull != SymmetricHull(2 * vertices)
    assert SymmetricHull([[0.0, 1.0], [1.0, -0.0]]) == SymmetricHull([[0.0, 1.0], [1.0, 0.0]])
    assert SymmetricHull(moves(4, 5)[1]).boundary is None  # too large for Qhull: programs
    margins = both_margins(3, 4)
    assert sensitivity_hull(margins, 3) is sensitivity_hull(both_margins(3, 4), 3)
    assert sensitivity_hull(margins, 3) != sensitivity_hull(margins, 2)
    assert pickle.loads(pickle.dumps(SensitivityHull(margins, 3))) == SensitivityHull(margins, 3)


def units(rows, columns):
    return both_margins(rows, columns).coordinates(np.eye(rows * columns).reshape(-1, rows, columns))


def by_definition(rows, columns, records):
    """Coordinates of all moves, and of all 3-cycles, written out cell by cell."""
    tables = []
    for size in range(2, records + 1):
        for i, j in product(permutations(range(rows), size), permutations(range(columns), size)):
            tables.append(np.zeros((rows, columns)))
            tables[-1][i, j] += 1
            tables[-1][i, np.roll(j, 1)] -= 1
    return both_margins(rows, columns).coordinates(np.unique(tables, axis=0))


GENERIC = np.random.default_rng(1).normal(size=(60, 7))
CASES = {
    "moves as a list": (listed(moves(4, 4)[1]), moves(4, 4)[1]),
    "generic points": (listed(GENERIC), GENERIC),
    "circuits of two, 4 x 5": (circuits(units(4, 5), 4, 5, 2), by_definition(4, 5, 2)),
    "circuits of three, 3 x 3": (circuits(units(3, 3), 3, 3, 3), by_definition(3, 3, 3)),
    "circuits of three, 5 x 4": (circuits(units(5, 4), 5, 4, 3), by_definition(5, 4, 3)),
    "circuits of three, 2 x 4": (circuits(units(2, 4), 2, 4, 3), by_definition(2, 4, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_gauges_agree_with_another_program(case):
    own, vertices = CASES[case]
    rng = np.random.default_rng(2)
    generic = rng.normal(size=(12, own.dimension)) * 10.0 ** rng.uniform(-6, 6, 12)[:, None]
    # Sums of a few vertices: weights of most bases are zero.
    corners = rng.integers(-2, 3, (12, 4))[:, :, None] * vertices[rng.integers(0, len(vertices), (12, 4))]
    for point in [*generic, *corners.sum(axis=1), np.zeros(own.dimension)]:
        expected, _ = gauge_program(vertices, point)
        value, form = own.subgradient(point)
        for limit in (np.nan, value):
            assert own.gauges(point[None], limit)[0] == pytest.approx(value, rel=1e-9)
        assert value == pytest.approx(expected, rel=1e-9)
        # The form proves the value from below: at most 1 on every vertex.
        assert form @ point == pytest.approx(value, rel=1e-9)
        assert np.max(np.abs(vertices @ form)) <= 1 + 1e-9
        # Bounds of it, on their side of a limit.
        limits = expected * np.array([0.5, 0.999, 1 - 1e-8, 1 + 1e-8, 1.001, 1.5])
        bounds = own.gauges(np.tile(point, (6, 1)), limits)
        if expected > 0.0:
            assert list(bounds <= limits) == [False, False, False, True, True, True]
        assert np.all(np.where(bounds <= limits, bounds - expected, expected - bounds) >= -1e-9 * expected)


@pytest.mark.parametrize(("size", "adjacency"), [(8, 3), (10, 2)])
def test_large_tables(size, adjacency):
    # A sum of k disjoint circuits has gauge k at most; here exactly, because its l1 norm is k times that of a vertex.
    invariants, blocks = both_margins(size, size), size // adjacency
    hull, table = sensitivity_hull(invariants, adjacency), np.zeros((size, size))
    circuit = np.kron(np.diag(np.arange(blocks) + 1.0), np.eye(adjacency) - np.roll(np.eye(adjacency), 1, axis=1))
    table[: len(circuit), : len(circuit)] = circuit
    assert hull.gauge(invariants.coordinates(table)) == pytest.approx(blocks * (blocks + 1) / 2, rel=1e-9)
    point = np.random.default_rng(6).normal(size=hull.dimension)
    value, form = hull.subgradient(point)
    # The form, as a table of numbers, is at most 1 on all moves: an independent lower bound.
    rows = invariants.from_coordinates(form)
    differences = rows[:, None] - rows[None, :]
    assert np.max(np.abs(differences[..., :, None] - differences[..., None, :])) <= 1 + 1e-9
    assert form @ point == pytest.approx(value, rel=1e-9)


def totals(*sizes):
    groups = [name for name, size in zip("pqrs", sizes, strict=False) for _ in range(size)]
    return Invariants(Totals({"cell": range(len(groups)), "group": ("cell", groups)}, "group"))


TABLES = [(both_margins(*shape), k) for *shape, k in ((2, 2, 2), (2, 3, 3), (3, 2, 2), (3, 3, 2), (3, 3, 3))]


@pytest.mark.parametrize(("invariants", "adjacency"), [*TABLES, (totals(3), 1), (totals(2, 3), 2)])
def test_the_unit_ball_is_the_hull_of_the_definition(invariants, adjacency):
    own = SensitivityHull(invariants, adjacency)
    # All integer tables other than zero that change no invariant, and have an l1 norm of at most 2 adjacency.
    listed = lattice_points(invariants.matrix.toarray(), adjacency)
    listed = listed[(np.abs(listed).sum(axis=1) <= 2 * adjacency) & listed.any(axis=1)]
    space = invariants.coordinates(listed.reshape(-1, *invariants.frame.shape).astype(float))
    points = np.random.default_rng(1).normal(size=(20, own.dimension))
    assert own.gauge(points) == pytest.approx(Programs(space).gauge(points), rel=1e-9)
    assert own.count == len(own.vertices)
    # Vertices, reach and volume, and moments, of closed forms where the norm is an l1 norm, against Qhull on the list.
    tables = invariants.from_coordinates(own.vertices).reshape(own.count, -1)
    assert np.max(np.abs(tables).sum(axis=1)) == pytest.approx(own.reach, rel=1e-12)
    assert np.max(own.gauge(own.vertices)) == pytest.approx(1.0, rel=1e-9)
    facets = SymmetricHull(space)
    assert own.log_cone_mass == pytest.approx(facets.log_cone_mass, abs=1e-9)
    assert own.second_moment == pytest.approx(facets.second_moment, abs=1e-9)
    for point in points[:4]:
        value, form = own.subgradient(point)
        assert value == pytest.approx(form @ point, rel=1e-9)
        assert np.max(np.abs(space @ form)) <= 1 + 1e-9
    if invariants == both_margins(3, 3):
        assert len(listed) == 2 * own.count == {2: 18, 3: 30}[adjacency]
        assert (own.reach, own.is_l1) == (2 * adjacency, False)
        assert SensitivityHull(both_margins(10, 10), adjacency).count == {2: 2025, 3: 88_425}[adjacency]
        lengths = np.linalg.norm(own.vertices, axis=1)  # known sensitivities: 2 and sqrt(6)
        assert lengths.max() == pytest.approx({2: 2.0, 3: np.sqrt(6)}[adjacency], rel=1e-12)


PARTLY = Invariants(LinearQuery({"cell": range(3)}, [[1, 1, 0]], ["pair"]))
JUNCTION = Invariants(Margins({"a": range(2), "b": range(2), "c": range(2)}, ["a", "b"], ["b", "c"]))
test_what_is_not_known_or_no_hull_is_refused = refused(
    (lambda: SymmetricHull([[1, 0, 1], [0, 1, 1], [1, 1, 2]]), "span the space of dimension 3, but they span 2"),
    (lambda: SymmetricHull([1.0, 2.0]), "vertices must be a matrix with one vertex a row"),
    (lambda: SymmetricHull(np.zeros((0, 2))), "vertices must be a matrix"),
    (lambda: SymmetricHull([[np.nan]]), "vertices must be finite"),
    (lambda: SymmetricHull(np.eye(2)).gauge([1.0, 2.0, 3.0]), r"points must have shape \(\.\.\., 2\), got \(3,\)"),
    (lambda: sensitivity_hull(both_margins(3, 4), 2).gauge([1.0]), r"points must have shape \(\.\.\., 6\), got \(1,\)"),
    (lambda: SensitivityHull(both_margins(3, 3), 1), "adjacency must be at least 2 for both margins"),
    (lambda: SensitivityHull(both_margins(3, 3), 4), "adjacency must be 2 or 3 for both margins, got 4"),
    (lambda: SensitivityHull(both_margins(3, 3), 0), "adjacency must be an integer greater than 0"),
    (lambda: SensitivityHull(JUNCTION, 3), "give its vertices instead"),
    (lambda: SensitivityHull(PARTLY, 1), "every cell must be in a total, but cell=2 is in none"),
    (lambda: SensitivityHull(totals(1, 1), 1), "nothing can change"),
    error=(ValueError, NotImplementedError),
)

CELLS, TABLE, MARGINS = {"cell": range(6)}, {"row": range(3), "column": range(3)}, {"row": range(2), "column": range(3)}
AGES, LONG = {"age": range(8)}, {"cell": range(16)}
BELOW = bdp.LinearQuery(AGES, np.tril(np.ones((7, 8), dtype=int)), [f"up to {a}" for a in range(7)])
ROWS = np.vstack([np.full(16, 100), np.array(list(product([-1, 1], repeat=4))).T])
HUNDRED, BOTH_WAYS = bdp.LinearQuery(LONG, ROWS, list("habcd")), Margins(MARGINS, ["row"], ["column"])

SUBSTITUTION = "substitution"
BALLS = {
    "six cells": (Invariants(Totals(CELLS)), bdp.Identity(CELLS), SUBSTITUTION, (31.43, 60.00, 74.15, 3.40)),
    "3 x 3": (both_margins(3, 3), bdp.Identity(TABLE), SUBSTITUTION, (16.67, 26.67, 37.14, 2.27)),
    "margins": (Invariants(Totals(MARGINS)), BOTH_WAYS, SUBSTITUTION, (30.00, 46.63, 67.18, 4.17)),
    "running totals": (Invariants(Totals(AGES)), BELOW, SUBSTITUTION, (70.00, 139.74, 686.00, 5.58)),
    "hundredfold": (Invariants(None, LONG), HUNDRED, "add-remove", (140_056, 64_896, 108_160, 4_406)),
}
"""Invariants, query, neighbours; the errors of KNorm, ellipsoid, extended Laplace, and what no mechanism is below."""


@pytest.mark.parametrize("case", BALLS)
def test_the_figures_of_the_page(case):
    kept, query, neighbours, page = BALLS[case]
    vectors = neighbour_differences(query, kept, neighbours)
    k_norm, laplace = (kind(kept, 1.0, query=query, neighbours=neighbours).error for kind in (KNorm, ExtendedLaplace))
    pure = private_error_bound(vectors, 1e-3) * 1e-6
    # The error of noise of the norm of the ellipsoid with the least trace.
    ellipsoid = (vectors.shape[1] + 1) * float(np.trace(optimal_factorization(vectors, tolerance=1e-6).covariance))
    found = (k_norm, ellipsoid, laplace, pure)
    assert found == pytest.approx(page, rel=3e-4, abs=0.006)

"""Norms and volumes of symmetric polytopes, against closed forms and against published figures."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from bayesdp.polytopes import SymmetricHull
from bayesdp.polytopes.base import POINTS, boundary_of
from tests.polytopes.examples import Floats, Programs, cube, moves, substitutions

BOTH = (SymmetricHull, Programs)


def points(dimension: int, count: int = 25) -> Floats:
    return np.random.default_rng(dimension).normal(size=(count, dimension)) * 7.0


def volume(hull: SymmetricHull) -> float:
    assert hull.log_cone_mass is not None
    return math.exp(hull.log_cone_mass) / math.factorial(hull.dimension)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
def test_cross_polytope_and_cube(kind: type[SymmetricHull], dimension: int) -> None:
    v = points(dimension)
    cross, box = kind(np.eye(dimension)), kind(cube(dimension))
    assert cross.gauge(v) == pytest.approx(np.abs(v).sum(axis=1), rel=1e-13)
    assert box.gauge(v) == pytest.approx(np.abs(v).max(axis=1), rel=1e-13)
    if kind is SymmetricHull:
        assert volume(cross) == pytest.approx(2**dimension / math.factorial(dimension), rel=1e-12)
        assert volume(box) == pytest.approx(2**dimension, rel=1e-12)
        assert (len(cross.boundary.forms), len(box.boundary.forms)) == (2 ** (dimension - 1), dimension)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("cells", [2, 3, 5, 8])
def test_one_fixed_total_has_half_the_l1_norm(kind: type[SymmetricHull], cells: int) -> None:
    invariants, vertices = substitutions(cells)
    hull = kind(vertices)
    v = points(cells - 1)
    tables = invariants.from_coordinates(v)
    assert hull.gauge(v) == pytest.approx(0.5 * np.abs(tables).sum(axis=1), rel=1e-13)
    if kind is SymmetricHull:
        # The root polytope has C(2n, n) unimodular simplices and 2**(n+1) - 2 facets; the lattice has density 1/sqrt(n+1).
        n = cells - 1
        assert volume(hull) == pytest.approx(math.comb(2 * n, n) / math.factorial(n) * math.sqrt(cells), rel=1e-12)
        assert 2 * len(hull.boundary.forms) == 2**cells - 2
        # With z = s (D - D') of lattice-free l1 noise: E ||z||**2 = 4 (2d - 1)(d - 1) / (d + 1).
        expected = 4 * (2 * cells - 1) * n / (cells + 1)
        assert np.trace(hull.second_moment) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("size", "facets", "cones", "square"),
    [
        (3, 30, 66, 46.8),
        pytest.param(4, 866, 68048, 127.7, marks=pytest.mark.slow),  # Qhull needs seconds
    ],
)
def test_hull_of_the_moves_of_square_tables(size: int, facets: int, cones: int, square: float) -> None:
    # Figures of a separate computation: facets, n! vol K in a lattice basis (a star of moves), and mean squares from its
    # draws, to a few thousandths.
    _, vertices = moves(size, size)
    hull = SymmetricHull(vertices)
    n = (size - 1) ** 2
    assert (hull.dimension, len(vertices)) == (n, math.comb(size, 2) ** 2)
    assert 2 * len(hull.boundary.forms) == facets
    determinant = size ** (size - 1)  # of a lattice basis of tables with zero margins, in orthonormal coordinates
    assert volume(hull) / determinant * math.factorial(n) == pytest.approx(cones, rel=1e-9)
    assert np.trace(hull.second_moment) == pytest.approx(square, rel=4e-3)
    # The polar polytope is given by the moves: forms are at most 1 on each, and every facet holds n independent ones.
    heights = np.abs(hull.boundary.forms @ vertices.T)
    assert heights.max() == pytest.approx(1.0, abs=1e-9)
    assert np.all(np.sum(heights > 1 - 1e-9, axis=1) >= n)


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (3, 4)])
def test_programs_agree_with_facets(shape: tuple[int, int]) -> None:
    _, vertices = moves(*shape)
    facets, program = SymmetricHull(vertices), Programs(vertices)
    v = points(facets.dimension)
    assert program.boundary is None
    assert program.log_cone_mass is None
    assert program.second_moment is None
    assert program.gauge(v) == pytest.approx(facets.gauge(v), rel=1e-12)
    for hull in (facets, program):
        for point in v[:5]:
            value, form = hull.subgradient(point)
            assert value == pytest.approx(float(form @ point), rel=1e-12)
            assert value == pytest.approx(float(hull.gauge(point)), rel=1e-12)
            assert np.max(np.abs(vertices @ form)) <= 1 + 1e-9
        assert hull.gauge(np.zeros(hull.dimension)) == 0.0
        assert hull.subgradient(np.zeros(hull.dimension))[0] == 0.0


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_units_do_not_matter(kind: type[SymmetricHull], scale: float) -> None:
    _, vertices = moves(3, 3)
    v = points(4)
    base = kind(vertices)
    scaled = kind(vertices * scale)
    assert scaled.gauge(v) * scale == pytest.approx(base.gauge(v), rel=1e-11)
    assert scaled.gauge(v * 1e9) * scale == pytest.approx(base.gauge(v) * 1e9, rel=1e-11)
    if kind is SymmetricHull:
        assert volume(scaled) == pytest.approx(volume(base) * scale**4, rel=1e-10)


def test_every_ray_leaves_through_exactly_one_simplex() -> None:
    # So the simplices cover the boundary once: checked with directions, by solving for the weights in each cone.
    _, vertices = moves(3, 3)
    boundary = boundary_of(vertices)
    assert boundary is not None
    corners = np.concatenate([vertices, -vertices])[boundary.simplices]
    weights = np.linalg.solve(corners.swapaxes(1, 2)[None], points(4, 200)[:, None, :, None])[..., 0]
    assert np.array_equal(np.sum(np.all(weights > 0, axis=-1), axis=1), np.ones(200))


def test_generic_points_and_doubled_vertices() -> None:
    rng = np.random.default_rng(2)
    vertices = rng.normal(size=(40, 5))
    hull = SymmetricHull(vertices)
    doubled = SymmetricHull(np.concatenate([vertices, -vertices, 0.3 * vertices, np.zeros((1, 5))]))
    v = points(5)
    assert doubled.gauge(v) == pytest.approx(hull.gauge(v), rel=1e-12)
    assert volume(doubled) == pytest.approx(volume(hull), rel=1e-10)
    assert Programs(vertices).gauge(v) == pytest.approx(hull.gauge(v), rel=1e-10)
    # A gauge is a norm.
    assert np.all(hull.gauge(v[:-1] + v[1:]) <= hull.gauge(v[:-1]) + hull.gauge(v[1:]) + 1e-12)


def test_what_is_too_large_for_qhull_gets_programs() -> None:
    _, vertices = moves(4, 5)
    assert vertices.shape[1] not in POINTS
    hull = SymmetricHull(vertices)
    assert hull.boundary is None
    invariants, _ = moves(4, 5)
    assert hull.gauge(vertices[:3]) == pytest.approx([1.0] * 3, rel=1e-12)
    # ||v||_1 / 4 is a lower bound, and the sum of a table's moves an upper bound.
    table = invariants.from_coordinates(2 * vertices[0] + vertices[30])
    gauge = float(hull.gauge(2 * vertices[0] + vertices[30]))
    assert np.abs(table).sum() / 4 - 1e-12 <= gauge <= 3 + 1e-12


def test_hulls_compare_and_travel_by_their_vertices() -> None:
    _, vertices = moves(3, 3)
    hull = SymmetricHull(vertices)
    assert hull.log_cone_mass is not None
    other = pickle.loads(pickle.dumps(hull))
    assert other == hull
    assert hash(other) == hash(hull)
    assert "boundary" not in other.__dict__
    assert hull != SymmetricHull(2 * vertices)
    assert SymmetricHull([[0.0, 1.0], [1.0, -0.0]]) == SymmetricHull([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="read-only"):
        hull.vertices[0, 0] = 3.0


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="vertices must span the space of dimension 3, but they span 2"):
        SymmetricHull([[1, 0, 1], [0, 1, 1], [1, 1, 2]])
    with pytest.raises(ValueError, match="vertices must be a matrix with one vertex a row"):
        SymmetricHull([1.0, 2.0])
    with pytest.raises(ValueError, match="vertices must be a matrix"):
        SymmetricHull(np.zeros((0, 2)))
    with pytest.raises(ValueError, match="vertices must be finite"):
        SymmetricHull([[np.nan]])
    with pytest.raises(ValueError, match=r"points must have shape \(\.\.\., 2\), got \(3,\)"):
        SymmetricHull(np.eye(2)).gauge([1.0, 2.0, 3.0])

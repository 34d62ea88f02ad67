"""K-norm noise, of listed vertices and of Semi-DP: closed forms, quadrature, and what it promises neighbours."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, laplace

from bayesdp.invariants import Invariants
from bayesdp.noise import KNorm, SemiKNorm
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.comparison.means import assert_moments
from tests.lattices.polytopes.examples import both_margins, moves, substitutions
from tests.refusals import refused


def test_two_cells_are_one_laplace_variable():
    invariants, vertices = substitutions(2)
    law = KNorm(0.8, vertices)
    for shift in (0.0, 0.3, -4.0):
        # In the orthonormal coordinate sqrt(2) z of the pair (z, -z).
        expected = laplace.logpdf(shift, scale=1 / 0.8) - 0.5 * math.log(2)
        assert law.logp([5 + shift, 7 - shift], [5, 7], invariants) == pytest.approx(expected, rel=1e-12)
    assert law.variance((2,), invariants) == pytest.approx([2 / 0.8**2] * 2, rel=1e-12)


def test_one_total_has_the_l1_norm():
    # 12 cells: no volume is computed in 11 dimensions, so log(n! vol K) is left out.
    invariants, vertices = substitutions(12)
    law, table = KNorm(0.7, vertices), np.arange(12.0)
    other = np.roll(table, 3)
    assert law.log_normaliser is law.variance((12,), invariants) is None
    expected = 11 * math.log(0.7) - 0.7 * np.abs(other - table).sum() / 2
    assert law.logp(other, table, invariants) == pytest.approx(expected, rel=1e-12)
    # Drawn exactly all the same: the mean square is 4 (2d - 1)(d - 1) / (d + 1) / epsilon**2.
    draws = law.draw(np.random.default_rng(1), (12,), 600, invariants)
    squares = np.sum(draws**2, axis=1)
    assert np.max(np.abs(draws.sum(axis=1))) < 1e-10
    # 4.5 standard errors: below 1e-5.
    assert abs(squares.mean() - 4 * 23 * 11 / 13 / 0.49) < 4.5 * squares.std() / math.sqrt(600)


def test_draws_of_listed_vertices_around_a_table_and_what_a_vertex_costs():
    (own, vertices), at = moves(3, 4), np.arange(12.0).reshape(3, 4)
    law = KNorm(2.0, vertices)
    noise = law.draw(np.random.default_rng(2), (3, 4), 4000, own, at) - at
    # Twice epsilon times a gamma variable is chi-square; false-alarm rate 1e-4.
    radii = 4.0 * float(law.hull.gauge(own.coordinates(noise)).sum())
    assert 5e-5 < chi2.cdf(radii, 8000 * own.dimension) < 1 - 5e-5
    assert_moments(noise.reshape(4000, -1), np.zeros(12), law.variance((3, 4), own).reshape(-1), rate=1e-5)
    (own, vertices), zero = moves(4, 5), np.zeros((4, 5))  # too large for Qhull: by programs
    step, law = own.from_coordinates(vertices[0]), KNorm(0.4, vertices)
    assert law.logp(9 * step, zero, own) - law.logp(9 * step, -step, own) == pytest.approx(0.4, rel=1e-9)


MOVE = np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]])
CYCLE = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])


def test_the_same_law_as_with_listed_vertices():
    for shape, adjacency in [((3, 3), 2), ((3, 3), 3), ((3, 4), 3), ((2, 4), 2)]:
        margins, law, rng = both_margins(*shape), SemiKNorm(0.7, adjacency), np.random.default_rng(1)
        other, start = KNorm(0.7, law.hull(margins).vertices), rng.integers(0, 9, shape)
        for _ in range(5):
            values = start + margins.project(rng.normal(size=shape) * 4)
            assert law.logp(values, start, margins) == pytest.approx(other.logp(values, start, margins), rel=1e-9)
        assert law.log_normaliser(margins) == pytest.approx(other.log_normaliser, rel=1e-9)
        assert law.variance(shape, margins) == pytest.approx(other.variance(shape, margins), rel=1e-9)
        assert law.logp(start + 1.0, start, margins) == -math.inf


def test_disjoint_totals_have_the_l1_norm():
    totals = Invariants(Totals({"cell": range(5), "group": ("cell", ["p", "p", "p", "q", "q"])}, "group"))
    values, start = np.array([4.0, 1.5, -2.0, 3.0, 1.0]), np.array([1.0, 2.0, 0.5, 2.0, 2.0])
    law, size = SemiKNorm(1.2, 2), np.abs(values - start).sum()
    cones = (
        math.log(6 * math.sqrt(3)) + math.log(2 * math.sqrt(2)) + 3 * math.log(2.0)
    )  # root polytopes, twice as large
    assert law.logp(values, start, totals) == pytest.approx(3 * math.log(1.2) - cones - 1.2 * size / 4, rel=1e-12)
    draws = law.draw(np.random.default_rng(1), (5,), 10_000, totals)
    assert_moments(draws, np.zeros(5), law.variance((5,), totals), rate=1e-5)


@pytest.mark.parametrize("adjacency", [2, 3])
def test_what_it_promises(adjacency):
    # The loss between tables that differ by so many records is epsilon at most, and is attained.
    margins, law, start = both_margins(3, 3), SemiKNorm(0.6, adjacency), np.zeros((3, 3))
    tables = margins.project(np.random.default_rng(2).normal(size=(50, 3, 3)) * 8)
    for change, cost in [(MOVE, 1.0), (CYCLE, 1.0 if adjacency == 3 else 2.0)]:
        values = [*tables, -7 * change, 9 * change]
        losses = [law.logp(own, start, margins) - law.logp(own, change, margins) for own in values]
        assert max(losses) == pytest.approx(0.6 * cost, rel=1e-9)
        assert min(losses) == pytest.approx(-0.6 * cost, rel=1e-9)


def test_draws_of_large_tables_are_exact_and_said_to_be():
    margins, law, location = both_margins(8, 8), SemiKNorm(1.0, 3), np.arange(64).reshape(8, 8)
    assert law.sampler(margins).exact
    draws = law.draw(np.random.default_rng(3), (8, 8), 3, margins, location) - location
    assert np.max(np.abs(margins.matrix @ draws.reshape(3, -1).T)) < 1e-9
    # Coordinates may be those of other invariants.
    assert np.isfinite(KNorm(1.0, THREE_VERTICES, "echelon-1").logp(ZERO, ZERO, WEIGHTED))


THREE, THREE_VERTICES = substitutions(3)
WEIGHTED = Invariants(LinearQuery({"cell": range(3)}, [[1, 2, 3]], ["weighted"]))
CUBE = {"a": range(2), "b": range(2), "c": range(2)}
ZERO = np.zeros(3)
test_bad_arguments_are_named = refused(
    (lambda: KNorm(1.0, THREE_VERTICES).logp(ZERO, ZERO, WEIGHTED), ValueError, "'helmert-1', but .* 'echelon-1'"),
    (lambda: KNorm(1.0, THREE_VERTICES, "svd"), ValueError, "must be one of 'helmert-1', 'echelon-1', got 'svd'"),
    (lambda: KNorm(1.0, THREE_VERTICES).draw(None, (3, 3), 1, both_margins(3, 3)), ValueError, "have 2 coord.* leave 4 dim"),
    (lambda: KNorm(0.0, [[1.0]]), ValueError, "epsilon must be a finite number greater than 0"),
    (lambda: KNorm(1.0, [[1.0, 1.0]]), ValueError, "must span the space of dimension 2, but they span 1"),
    (lambda: KNorm(1.0, [[1.0]]).draw(None, (3,), 1, substitutions(2)[0]), ValueError, "shape must be that of the table"),
    (lambda: SemiKNorm(-1.0, 3), ValueError, "epsilon must be a finite number greater than 0"),
    (lambda: SemiKNorm(1.0, 2.5), TypeError, r"adjacency must be a positive integer, got 2\.5"),
    (lambda: SemiKNorm(1.0, 0), ValueError, "adjacency must be an integer greater than 0, got 0"),
    (
        lambda: SemiKNorm(1.0, 3).draw(None, (2, 2, 2), 1, Invariants(Margins(CUBE, ["a", "b"], ["b", "c"]))),
        NotImplementedError,
        "give its vertices instead",
    ),
)  # fmt: skip

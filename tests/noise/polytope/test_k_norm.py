"""The K-norm law, against closed forms, quadrature, and what it promises neighbours."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import chi2, laplace

from bayesdp.invariants import Invariants
from bayesdp.noise import KNorm, NoiseLaw
from bayesdp.queries import LinearQuery, Totals
from tests.polytopes.examples import both_margins, moves, substitutions


def test_two_cells_are_one_laplace_variable() -> None:
    invariants, vertices = substitutions(2)
    law = KNorm(0.8, vertices)
    for shift in (0.0, 0.3, -4.0):
        # In the orthonormal coordinate sqrt(2) z of the pair (z, -z).
        expected = laplace.logpdf(shift, scale=1 / 0.8) - 0.5 * math.log(2)
        assert law.logp([5 + shift, 7 - shift], [5, 7], invariants) == pytest.approx(expected, rel=1e-12)
    assert law.variance((2,), invariants) == pytest.approx([2 / 0.8**2] * 2, rel=1e-12)


def test_the_density_integrates_to_one() -> None:
    invariants, vertices = substitutions(3)
    law = KNorm(1.5, vertices * [1.0, 2.0])  # stretched, so that no symmetry helps
    grid = np.arange(-16.0, 16.01, 0.4)
    x, y = np.meshgrid(grid, grid)
    tables = invariants.from_coordinates(np.stack([x, y], axis=-1).reshape(-1, 2))
    total = sum(math.exp(law.logp(table, np.zeros(3), invariants)) for table in tables) * 0.4**2
    assert total == pytest.approx(1.0, abs=5e-3)  # the kinks leave an error of the square of the step
    assert law.log_normaliser == pytest.approx(law.hull.log_cone_mass - 2 * math.log(1.5), rel=1e-12)


def test_one_total_has_the_l1_norm() -> None:
    # 12 cells: no volume is computed in 11 dimensions, so log(n! vol K) is left out.
    invariants, vertices = substitutions(12)
    law = KNorm(0.7, vertices)
    table = np.arange(12.0)
    other = table + np.roll(table, 3) - table
    assert law.log_normaliser is None
    assert law.variance((12,), invariants) is None
    expected = 11 * math.log(0.7) - 0.7 * np.abs(other - table).sum() / 2
    assert law.logp(other, table, invariants) == pytest.approx(expected, rel=1e-12)
    # Drawn exactly all the same: the mean square is 4 (2d - 1)(d - 1) / (d + 1) / epsilon**2.
    draws = law.draw(np.random.default_rng(1), (12,), 600, invariants)
    assert np.max(np.abs(draws.sum(axis=1))) < 1e-10
    squares = np.sum(draws**2, axis=1)
    # 4.5 standard errors: below 1e-5.
    assert abs(squares.mean() - 4 * 23 * 11 / 13 / 0.49) < 4.5 * squares.std() / math.sqrt(600)


def test_draws_variance_and_location() -> None:
    invariants, vertices = moves(3, 4)
    law, size = KNorm(2.0, vertices), 4000
    location = np.arange(12.0).reshape(3, 4)
    draws = law.draw(np.random.default_rng(2), (3, 4), size, invariants, location)
    noise = draws - location
    assert draws.shape == (size, 3, 4)
    assert np.max(np.abs(noise.sum(axis=1))) < 1e-10
    assert np.max(np.abs(noise.sum(axis=2))) < 1e-10
    # Twice epsilon times a gamma variable is chi-square; false-alarm rate 1e-4.
    radii = 2 * 2.0 * float(law.hull.gauge(invariants.coordinates(noise)).sum())
    assert 5e-5 < chi2.cdf(radii, 2 * size * invariants.dimension) < 1 - 5e-5
    variance = law.variance((3, 4), invariants)
    assert variance is not None
    assert variance == pytest.approx(np.full((3, 4), variance[0, 0]), rel=1e-9)  # cells are exchangeable
    error = (noise**2).std(axis=0) / math.sqrt(size)
    assert np.max(np.abs((noise**2).mean(axis=0) - variance) / error) < 5.0  # 12 cells: below 1e-5
    single = law.draw(np.random.default_rng(2), (3, 4), None, invariants)
    assert single.shape == (3, 4)
    assert law.draw(np.random.default_rng(2), (3, 4), 0, invariants).shape == (0, 3, 4)


@pytest.mark.parametrize("shape", [(3, 3), (4, 5)])
def test_a_vertex_costs_epsilon(shape: tuple[int, int]) -> None:
    invariants, vertices = moves(*shape)
    law = KNorm(0.4, vertices)
    rng, start = np.random.default_rng(3), np.zeros(shape)
    step = invariants.from_coordinates(vertices[0])
    far = [law.logp(start + 9 * step, start, invariants) - law.logp(start + 9 * step, start - step, invariants)]
    for _ in range(20):
        values = invariants.project(rng.normal(size=shape) * 5)
        far.append(abs(law.logp(values, start, invariants) - law.logp(values, start + step, invariants)))
    assert max(far) == pytest.approx(0.4, rel=1e-9)


def test_description_round_trip() -> None:
    _, vertices = moves(3, 3)
    law = KNorm(0.4, vertices, "helmert-1")
    text = json.dumps(law.describe())
    again = NoiseLaw.from_description(json.loads(text))
    assert again == law
    assert hash(again) == hash(law)
    assert again != KNorm(0.4, vertices, "echelon-1")
    assert again != KNorm(0.4, vertices[::-1])
    assert str(law) == "k-norm epsilon=0.4 vertices=<9 pairs in 4 dimensions> coordinates=helmert-1"


def test_coordinates_must_be_those_of_the_invariants() -> None:
    _, vertices = substitutions(3)
    table = np.zeros(3)
    other = Invariants(LinearQuery({"cell": range(3)}, [[1, 2, 3]], ["weighted"]))
    with pytest.raises(
        ValueError, match="in coordinates 'helmert-1', but these invariants have coordinates 'echelon-1'"
    ):
        KNorm(1.0, vertices).logp(table, table, other)
    assert np.isfinite(KNorm(1.0, vertices, "echelon-1").logp(table, table, other))
    with pytest.raises(ValueError, match="vertices have 2 coordinates, but these invariants leave 4 dimensions free"):
        KNorm(1.0, vertices).draw(None, (3, 3), 1, both_margins(3, 3))
    with pytest.raises(ValueError, match="coordinates must be one of 'helmert-1', 'echelon-1', got 'svd'"):
        KNorm(1.0, vertices, "svd")


def test_off_the_subspace_there_is_no_density() -> None:
    invariants, vertices = substitutions(3)
    law = KNorm(1.0, vertices)
    assert law.logp([1.0, 1.0, 1.01], [1, 1, 1], invariants) == -math.inf
    assert np.isfinite(law.logp([1.0, 1.0, 1.0 + 1e-8], [1, 1, 1], invariants))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number greater than 0"):
        KNorm(0.0, [[1.0]])
    with pytest.raises(ValueError, match="vertices must span the space of dimension 2, but they span 1"):
        KNorm(1.0, [[1.0, 1.0]])
    with pytest.raises(TypeError, match="the law 'k-norm' needs invariants"):
        KNorm(1.0, [[1.0]]).logp([1.0], [1.0])
    with pytest.raises(ValueError, match="shape must be that of the table"):
        KNorm(1.0, [[1.0]]).draw(None, (3,), 1, Invariants(Totals({"cell": range(2)})))

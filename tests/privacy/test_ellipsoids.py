"""Shapes of Gaussian noise, against closed forms, a general optimiser in another parametrisation, and weak duality."""

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import helmert

from bayesdp.papers.subspace import base_decomposition, enclosing_ellipsoid
from bayesdp.privacy import optimal_factorization
from bayesdp.privacy.factorization import derivatives, optimal_design

CROSS = np.eye(4)
CUBE = np.array(list(itertools.product([1.0, -1.0], repeat=3)))[:4]
SIMPLEX = helmert(4).T  # the vertices of a regular simplex with edges of length root 2
ROOTS = np.array([SIMPLEX[i] - SIMPLEX[j] for i, j in itertools.combinations(range(4), 2)])


def prefix_sums(ages):
    """What one record that changes its cell changes in the cumulative counts below the last."""
    below = np.tril(np.ones((ages - 1, ages)))
    first, second = np.triu_indices(ages, 1)
    return (below[:, first] - below[:, second]).T


def peak(covariance, vectors):
    return float(np.max(np.sum(vectors * np.linalg.solve(covariance, vectors.T).T, axis=1)))


def radii(vectors, blocks):
    return [float(np.max(np.linalg.norm(vectors @ block, axis=1))) for block in blocks]


@pytest.mark.parametrize(("vectors", "square"), [(CROSS, 1.0), (CUBE, 3.0), (SIMPLEX, 3 / 4), (ROOTS, 2.0)])
def test_symmetric_bodies_have_balls(vectors, square):
    ball = square * np.eye(vectors.shape[1])
    np.testing.assert_allclose(enclosing_ellipsoid(vectors), ball, atol=1e-12)
    covariance, blocks = base_decomposition(vectors)
    np.testing.assert_allclose(covariance, ball, atol=1e-12)
    assert [block.shape for block in blocks] == [(vectors.shape[1],) * 2]
    factorization = optimal_factorization(vectors)
    np.testing.assert_allclose(factorization.covariance, ball, atol=1e-12)
    assert factorization.error == pytest.approx(square * vectors.shape[1])
    assert factorization.gap < 1e-12


def test_boxes_and_axes_in_closed_form():
    sides = np.array([5.0, 3.0, 1.0])
    # A box needs sum a_i**2 / s_i <= 1; by Cauchy and Schwarz the least sum of s_i is (sum a_i)**2.
    box = optimal_factorization(CUBE * sides, tolerance=1e-9)
    np.testing.assert_allclose(box.covariance, np.diag(sides) * sides.sum(), atol=1e-8)
    assert box.error == pytest.approx(81.0, rel=1e-9)
    # Orthogonal vectors: each is on the boundary.
    for found in (enclosing_ellipsoid(np.diag(sides)), optimal_factorization(np.diag(sides)).covariance):
        np.testing.assert_allclose(found, np.diag(sides**2), atol=1e-9)
    # The ellipsoid of a box has its axes. Two short ones (1, 3), then 5: blocks of radius root 10 and 5.
    covariance, blocks = base_decomposition(CUBE * sides, tolerance=1e-9)
    assert [block.shape for block in blocks] == [(3, 2), (3, 1)]
    np.testing.assert_allclose(np.abs(blocks[1]).ravel(), [1, 0, 0], atol=1e-6)
    assert radii(CUBE * sides, blocks) == pytest.approx([math.sqrt(10), 5.0], rel=1e-6)
    np.testing.assert_allclose(covariance, np.diag([50.0, 20.0, 20.0]), rtol=1e-6, atol=1e-4)
    # Equal axes stay in one block: the third shortest is as long as the longest.
    assert [block.shape[1] for block in base_decomposition(np.diag([7.0, 7.0, 7.0, 1.0, 7.0]))[1]] == [5]


@pytest.mark.parametrize(
    "vectors",
    [
        np.random.default_rng(2).normal(size=(300, 8)) * np.geomspace(1e-3, 1e3, 8),
        prefix_sums(14),
        np.random.default_rng(3).integers(-2, 3, size=(40, 4)).astype(float),  # some vectors twice, or zero
    ],
)
def test_primal_and_dual_meet(vectors):
    found = optimal_factorization(vectors, tolerance=1e-7)
    assert peak(found.covariance, vectors) == pytest.approx(1.0, rel=1e-9)  # feasible, and tight
    assert np.trace(found.covariance) == pytest.approx(found.error)
    assert 0.0 <= found.gap <= 1e-7
    assert found.error == pytest.approx(found.bound * (1 + found.gap))
    # Weak duality, from outside: any weights give a lower bound, and none beats the one that is stated.
    rng = np.random.default_rng(0)
    for weights in rng.dirichlet(np.full(len(vectors), 0.3), size=50):
        eigenvalues = np.linalg.eigvalsh((vectors.T * weights) @ vectors)
        assert np.sum(np.sqrt(np.maximum(eigenvalues, 0))) ** 2 <= found.bound * (1 + 1e-9)
    other, _ = base_decomposition(vectors, tolerance=1e-7)
    assert peak(other, vectors) == pytest.approx(1.0, rel=1e-9)
    assert np.trace(other) >= found.bound * (1 - 1e-9)
    ellipsoid = enclosing_ellipsoid(vectors, tolerance=1e-7)
    assert peak(ellipsoid, vectors) == pytest.approx(1.0, rel=1e-9)
    least = np.linalg.slogdet(ellipsoid)[1]
    assert all(np.linalg.slogdet(shape)[1] >= least - 1e-6 for shape in (found.covariance, other))


def test_base_decomposition_is_an_orthogonal_basis_with_the_stated_radii():
    vectors = prefix_sums(14)
    covariance, blocks = base_decomposition(vectors)
    basis = np.concatenate(blocks, axis=1)
    np.testing.assert_allclose(basis @ basis.T, np.eye(13), atol=1e-12)
    assert [block.shape[1] for block in blocks] == [7, 3, 2, 1]  # the shorter halves of 13, 6, 3, 1
    shape = np.zeros((13, 13))
    for block, radius in zip(blocks, radii(vectors, blocks), strict=True):
        shape += radius**2 * block @ block.T
    # The paper scales by the number of blocks; tight scaling is by less.
    ratio = covariance / np.where(np.abs(shape) > 1e-9, shape, np.nan)
    factor = float(np.nanmedian(ratio))
    np.testing.assert_allclose(covariance, factor * shape, atol=1e-9)
    assert 1.0 <= factor <= len(blocks)


def test_derivatives_by_finite_differences():
    rng = np.random.default_rng(6)
    vectors, weights = rng.normal(size=(7, 4)) * [1.0, 3.0, 0.1, 1.0], rng.uniform(0.2, 1.0, 7)
    gradient, curvature = derivatives(vectors, weights)

    def value(own):
        return float(2 * np.sqrt(np.linalg.eigvalsh((vectors.T * own) @ vectors)).sum())

    for i, unit in enumerate(np.eye(7)):
        expected = (value(weights + 1e-6 * unit) - value(weights - 1e-6 * unit)) / 2e-6
        assert gradient[i] == pytest.approx(expected, rel=1e-6)
        slope = (derivatives(vectors, weights + 1e-5 * unit)[0] - gradient) / 1e-5
        # The quadrature of the Hessian is good to 1e-4, finite differences to about the same.
        np.testing.assert_allclose(-curvature[i], slope, rtol=2e-3, atol=1e-3 * np.abs(slope).max())


def test_vectors_left_out_are_found_again(monkeypatch):
    # A small active set has to grow until no vector outside is violated, and multiplicative steps alone get there too.
    vectors = np.random.default_rng(7).normal(size=(400, 6))
    monkeypatch.setattr("bayesdp.privacy.factorization._WARM_STEPS", 3)
    exact = optimal_design(vectors, 1e-8)
    monkeypatch.setattr("bayesdp.privacy.factorization._ACTIVE", 5)
    slow = optimal_design(vectors, 1e-2)
    monkeypatch.setattr("bayesdp.privacy.factorization._ACTIVE", 200)
    grown = optimal_design(vectors, 1e-8)

    def level(found):
        return float(np.log(np.sqrt(np.linalg.eigvalsh((vectors.T * found.weights) @ vectors)).sum()))

    for found, tolerance in ((exact, 1e-8), (slow, 1e-2), (grown, 1e-8)):
        assert found.excess <= tolerance
        assert level(found) == pytest.approx(level(exact), abs=tolerance)
        assert found.weights.sum() == pytest.approx(1.0)
        assert found.weights.min() >= 0.0


@pytest.mark.parametrize("solve", [enclosing_ellipsoid, base_decomposition, optimal_factorization])
def test_what_is_refused(solve):
    for vectors, message in (
        ([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]], "must span the space of dimension 3, but they span 2 dimensions only"),
        ([[1.0, np.nan]], "vectors must be finite"),
        (np.ones((0, 2)), "vectors must be a matrix"),
        (np.ones((2, 301)), "at most 20000, of at most 300 dimensions, got 2 of 301"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(vectors)
    with pytest.raises(ValueError, match="tolerance must be a finite number greater than 0"):
        solve(np.eye(4), tolerance=0.0)


def test_a_gap_that_is_not_reached_is_an_error(monkeypatch):
    vectors = np.random.default_rng(8).normal(size=(50, 4))
    for name in ("_STEPS", "_WARM_STEPS"):
        monkeypatch.setattr(f"bayesdp.privacy.factorization.{name}", 5)
    with pytest.raises(ValueError, match=r"the relative gap is .* after 5 steps, more than tolerance=1e-06"):
        optimal_factorization(vectors, tolerance=1e-6)
    monkeypatch.setattr("bayesdp.papers.subspace._STEPS", 5)
    for shape in (enclosing_ellipsoid, base_decomposition):
        with pytest.raises(ValueError, match="was not found up to tolerance=1e-06 in 5 steps"):
            shape(vectors, tolerance=1e-6)

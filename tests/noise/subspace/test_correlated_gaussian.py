"""The correlated Gaussian law, against the normal law of scipy in coordinates."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2, multivariate_normal

from bayesdp.invariants import Invariants
from bayesdp.noise import CorrelatedGaussian, NoiseLaw, ProjectedGaussian
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import all_margins, frame_of

type Floats = npt.NDArray[np.float64]

WEIGHTED = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, 1, 0]], ["a", "b"]))
INVARIANTS = [
    all_margins(3, 4),
    Invariants(Totals(frame_of(5))),
    Invariants(Margins(frame_of(2, 3), ["d0"])),
    WEIGHTED,
    Invariants(None, frame_of(3)),
]


def covariance_of(dimension: int) -> Floats:
    root = np.random.default_rng(8).normal(size=(dimension, dimension))
    matrix = root @ root.T + 0.3 * np.eye(dimension)
    return np.asarray(0.5 * (matrix + matrix.T))


def law_for(invariants: Invariants) -> CorrelatedGaussian:
    return CorrelatedGaussian(covariance_of(invariants.dimension), invariants.coordinate_rule)


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_density_in_coordinates(invariants: Invariants) -> None:
    rng, shape = np.random.default_rng(3), invariants.frame.shape
    location = rng.integers(0, 30, shape)
    values = location + invariants.project(rng.normal(size=shape) * 3)
    law = law_for(invariants)
    expected = multivariate_normal.logpdf(invariants.coordinates(values - location), cov=law.covariance)
    assert law.logp(values, location, invariants) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_a_multiple_of_the_identity_is_the_projected_law(invariants: Invariants) -> None:
    shape = invariants.frame.shape
    law = CorrelatedGaussian(6.25 * np.eye(invariants.dimension), invariants.coordinate_rule)
    values = invariants.project(np.random.default_rng(4).normal(size=shape) * 3)
    zero, same = np.zeros(shape), ProjectedGaussian(2.5)
    assert law.logp(values, zero, invariants) == pytest.approx(same.logp(values, zero, invariants), rel=1e-12)
    assert law.variance(shape, invariants) == pytest.approx(same.variance(shape, invariants), rel=1e-12)


def test_density_integrates_to_one() -> None:
    invariants, zero = Invariants(Totals(frame_of(3))), np.zeros(3)
    law = CorrelatedGaussian([[2.0, 0.9], [0.9, 1.0]])

    # The trapezoidal rule, which is exact to rounding for a smooth function that vanishes at the ends.
    grid = np.linspace(-10.0, 10.0, 41)
    points = [(a, b) for a in grid for b in grid]
    values = [math.exp(law.logp(invariants.from_coordinates(point), zero, invariants)) for point in points]
    assert sum(values) * 0.25 == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_draws_and_variance(invariants: Invariants) -> None:
    shape, law, size, n = invariants.frame.shape, law_for(invariants), 4000, invariants.dimension
    noise = law.draw(np.random.default_rng(5), shape, size, invariants, location=np.full(shape, 10.0)) - 10.0
    assert noise.shape == (size, *shape)
    assert np.max(np.abs(invariants.matrix @ noise.reshape(size, -1).T), initial=0.0) < 1e-10
    coordinates = invariants.coordinates(noise)
    # False-alarm rate 1e-4: squared Mahalanobis lengths are chi-square, and so is their sum.
    length = np.sum(coordinates * np.linalg.solve(law.covariance, coordinates.T).T)
    assert 5e-5 < chi2.cdf(length, size * n) < 1 - 5e-5
    # Every entry of the covariance within five standard errors: below 1e-4 for all of at most 45 different ones.
    spread = np.sqrt(np.diagonal(law.covariance))
    error = np.sqrt((np.outer(spread, spread) ** 2 + law.covariance**2) / size)
    assert np.all(np.abs(coordinates.T @ coordinates / size - law.covariance) < 5 * error)
    basis = invariants.from_coordinates(np.eye(n)).reshape(n, -1)
    expected = np.diagonal(basis.T @ law.covariance @ basis)
    assert law.variance(shape, invariants).reshape(-1) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert law.draw(np.random.default_rng(1), shape, invariants=invariants).shape == shape


def test_descriptions_hold_the_matrix_to_the_last_bit() -> None:
    law = CorrelatedGaussian(covariance_of(5) / 3.0, "echelon-1")
    again = NoiseLaw.from_description(json.loads(json.dumps(law.describe())))
    assert isinstance(again, CorrelatedGaussian)
    assert again.covariance.tobytes() == law.covariance.tobytes()
    assert again == law == pickle.loads(pickle.dumps(law))
    assert hash(again) == hash(law)
    assert law != CorrelatedGaussian(law.covariance)
    assert law != CorrelatedGaussian(law.covariance * (1 + 1e-15), "echelon-1")
    assert str(CorrelatedGaussian([[4.0, 1.0], [1.0, 9.0]])) == (
        "correlated-gaussian covariance=<2 x 2, standard deviations from 2 to 3> coordinates=helmert-1"
    )
    with pytest.raises(ValueError, match="read-only"):
        law.covariance[0, 0] = 1.0


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "covariance must be positive definite, but its smallest eigenvalue is -1.0"),
        ([[1.0, 1.0], [1.0, 1.0]], "covariance must be positive definite, but its smallest eigenvalue is"),
        (np.zeros((2, 2)), "covariance must be positive definite, but its smallest eigenvalue is 0.0"),
        ([[1.0, 0.5], [0.4, 1.0]], r"covariance must be symmetric, but entry \(0, 1\) is 0.5 and \(1, 0\) is 0.4"),
        ([[1.0, np.nan], [np.nan, 1.0]], "covariance must be finite"),
        ([1.0, 2.0], "covariance must be a square matrix, got shape"),
        ([[1.0, 2.0]], "covariance must be a square matrix, got shape"),
        (np.eye(2001), "at most 2000 rows, got 2001"),
    ],
)
def test_covariances_that_are_refused(covariance: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CorrelatedGaussian(covariance)


def test_what_does_not_fit_is_refused() -> None:
    three = Invariants(Totals(frame_of(3)))
    law = CorrelatedGaussian(np.eye(2))
    assert law.logp([6.0, 4.1, 5.0], [5, 5, 5], three) == -math.inf
    with pytest.raises(ValueError, match="covariance has 2 rows, but the invariants leave 4 dimensions free"):
        law.logp(np.zeros(5), np.zeros(5), Invariants(Totals(frame_of(5))))
    with pytest.raises(ValueError, match=r"stated in coordinates 'helmert-1', but these invariants .* 'echelon-1'"):
        law.draw(None, (4,), invariants=WEIGHTED)
    with pytest.raises(ValueError, match="coordinates must be one of 'helmert-1', 'echelon-1', got 'own'"):
        CorrelatedGaussian(np.eye(2), "own")
    with pytest.raises(TypeError, match="needs invariants"):
        law.draw(None, (3,))

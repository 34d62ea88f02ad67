"""Laws that are normal, or products of Laplace laws, in published coordinates: against those of SciPy; the rules of coordinates."""

import json
import math

import numpy as np
import pytest
from scipy.stats import chi2, laplace, multivariate_normal

from bayesdp.invariants import Invariants
from bayesdp.noise import CorrelatedGaussian, ExtendedLaplace, NoiseLaw, ProjectedGaussian, ProjectedLaplace, parse_law
from bayesdp.noise.subspace.laws import TOLERANCE
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import all_margins, frame_of
from tests.refusals import refused

WEIGHTED = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, 1, 0]], ["a", "b"]))
INVARIANTS = [all_margins(3, 4), Invariants(Totals(frame_of(5))), WEIGHTED, Invariants(None, frame_of(3))]


def covariance_of(dimension):
    root = np.random.default_rng(8).normal(size=(dimension, dimension))
    return root @ root.T + 0.3 * np.eye(dimension)


LAWS = {
    "projected": lambda own: ProjectedGaussian(1.7),
    "correlated": lambda own: CorrelatedGaussian(covariance_of(own.dimension), own.coordinate_rule),
    "extended": lambda own: ExtendedLaplace(1.7, own.coordinate_rule),
    "projected laplace": lambda own: ProjectedLaplace(1.7),  # its density is in test_projected_laplace.py
}


@pytest.mark.parametrize("own", INVARIANTS, ids=repr)
@pytest.mark.parametrize("name", LAWS)
def test_density_draws_and_variance_in_coordinates(name, own):
    shape, law, size, n = own.frame.shape, LAWS[name](own), 10_000, own.dimension
    noise = law.draw(np.random.default_rng(5), shape, size, own, location=np.full(shape, 10.0)) - 10.0
    assert noise.shape == (size, *shape)
    assert np.max(np.abs(own.matrix @ noise.reshape(size, -1).T), initial=0.0) < 1e-10
    at, exact = own.coordinates(noise), (2.0 if "laplace" in law.name else 1.0) * 1.7**2 * np.eye(n)
    if name == "correlated":
        exact = covariance_of(n)
    # False-alarm rate 1e-4: squared Mahalanobis lengths are chi-square, and so are twice the absolute values over b of Laplace noise.
    length, degrees = np.sum(at * np.linalg.solve(exact, at.T).T), n
    density = multivariate_normal.logpdf(at[0], cov=exact)
    if name == "extended":
        length, degrees, density = 2.0 * np.abs(at).sum() / 1.7, 2 * n, laplace.logpdf(at[0], scale=1.7).sum()
    if name != "projected laplace":
        assert law.logp(noise[0] + 10.0, np.full(shape, 10.0), own) == pytest.approx(density, rel=1e-10)
        assert 5e-5 < chi2.cdf(length, size * degrees) < 1 - 5e-5
    # Every entry of the covariance within five standard errors (a fourth moment of Laplace noise is at most 6 squared variances).
    square, much = np.outer(np.diagonal(exact), np.diagonal(exact)), 5 if "laplace" in law.name else 1
    error = np.sqrt(((4 if name == "projected laplace" else 1) * square + much * exact**2) / size)
    assert np.all(np.abs(at.T @ at / size - exact) < 5 * error)
    basis = own.from_coordinates(np.eye(n)).reshape(n, -1)
    expected = np.diagonal(basis.T @ exact @ basis)
    assert law.variance(shape, own).reshape(-1) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_rounding_of_what_was_published_is_allowed_for():
    """Relative to the largest entry."""
    own = Invariants(Totals(frame_of(2)))
    for law in (ProjectedGaussian(1.0), CorrelatedGaussian([[1.0]])):
        assert law.logp([6.0, 4.1], [5, 5], own) == -math.inf
        assert np.isfinite(law.logp([6e6, 4e6 + TOLERANCE * 1e6], [5e6, 5e6], own))
        assert law.logp([6e6, 4e6 + TOLERANCE * 1e8], [5e6, 5e6], own) == -math.inf


def test_variances_of_large_tables():
    # design.md, 4.5: every cell of 14 x 24 x 20 with its 740 constraints has variance 0.8899, not sd 0.88.
    own = Invariants(Margins(frame_of(14, 24, 2), ["d0", "d2"], ["d1", "d2"]))
    variance = ProjectedGaussian(1.0).variance((14, 24, 2), own)
    assert variance == pytest.approx(np.full((14, 24, 2), (1 - 1 / 24) * (1 - 1 / 14)), rel=1e-12)
    total = Invariants(Totals(frame_of(3000)))
    assert ExtendedLaplace(1.0).variance((3000,), total) == pytest.approx(np.full(3000, 2.0 * (1 - 1 / 3000)))
    for law in (ProjectedGaussian(1.0), ExtendedLaplace(1.0)):
        assert law.variance((60, 60), all_margins(60, 60)) is None


def test_the_coordinates_are_part_of_the_law():
    # The move from the first of 2 x 2 cells to the second has length 0 + 1 + 1 by Helmert; by echelon it is the first axis, sqrt(2).
    total = Invariants(Totals(frame_of(2, 2)))
    same = Invariants(LinearQuery(frame_of(2, 2), [[1, 1, 1, 1]], ["total"]))
    law = ExtendedLaplace(b=2.0, coordinates="echelon-1")
    assert parse_law(str(law)) == law != ExtendedLaplace(b=2.0)
    move, zero = np.array([[-1.0, 1.0], [0.0, 0.0]]), np.zeros((2, 2))
    peak = -3 * math.log(4.0)  # three free dimensions of Laplace noise with b = 2
    assert law.logp(move, zero, same) == pytest.approx(peak - math.sqrt(2.0) / 2.0, abs=1e-12)
    assert ExtendedLaplace(2.0).logp(move, zero, total) == pytest.approx(peak - 1.0, abs=1e-12)


def test_descriptions_hold_the_matrix_to_the_last_bit():
    law = CorrelatedGaussian(covariance_of(5) / 3.0, "echelon-1")
    again = NoiseLaw.from_description(json.loads(json.dumps(law.describe())))
    assert (again, again.covariance.tobytes()) == (law, law.covariance.tobytes())
    others = CorrelatedGaussian(law.covariance), CorrelatedGaussian(law.covariance * (1 + 1e-15), "echelon-1")
    assert law not in others


OTHER = "stated in coordinates 'echelon-1', but these invariants .* 'helmert-1'"
WHOLE, ECHELON, PAIR = Invariants(Totals(frame_of(2, 2))), ExtendedLaplace(2.0, "echelon-1"), np.zeros((2, 2))
DEFINITE = "covariance must be positive definite, but its smallest eigenvalue is"
SQUARE = all_margins(2, 2)
test_what_does_not_fit_is_refused = refused(
    (lambda: ECHELON.logp(PAIR, PAIR, WHOLE), OTHER),
    (lambda: ECHELON.draw(None, (2, 2), invariants=WHOLE), OTHER),
    (lambda: ECHELON.variance((2, 2), WHOLE), OTHER),
    (lambda: CorrelatedGaussian(np.eye(3), "echelon-1").draw(None, (2, 2), invariants=WHOLE), OTHER),
    (lambda: CorrelatedGaussian([[1.0, 2.0], [2.0, 1.0]]), f"{DEFINITE} -1.0"),
    (lambda: CorrelatedGaussian([[1.0, 1.0], [1.0, 1.0]]), DEFINITE),
    (lambda: CorrelatedGaussian(np.zeros((2, 2))), f"{DEFINITE} 0.0"),
    (lambda: CorrelatedGaussian([[1.0, 0.5], [0.4, 1.0]]), r"symmetric, but entry \(0, 1\) is 0.5 and \(1, 0\) is 0.4"),
    (lambda: CorrelatedGaussian([[1.0, np.nan], [np.nan, 1.0]]), "covariance must be finite"),
    (lambda: CorrelatedGaussian([1.0, 2.0]), "covariance must be a square matrix, got shape"),
    (lambda: CorrelatedGaussian([[1.0, 2.0]]), "covariance must be a square matrix, got shape"),
    (lambda: CorrelatedGaussian(np.eye(2001)), "at most 2000 rows, got 2001"),
    (lambda: CorrelatedGaussian(np.eye(2), "own"), "must be one of 'helmert-1', 'echelon-1', got 'own'"),
    (lambda: CorrelatedGaussian(np.eye(2)).logp(np.zeros(5), np.zeros(5), INVARIANTS[1]), "2 rows, but .* leave 4 dim"),
    (lambda: ExtendedLaplace(1.0).draw(None, (4,), invariants=SQUARE), "shape must be that of the table"),
    (lambda: ProjectedGaussian(1.0).draw(None, (4,), invariants=SQUARE), "shape must be that of the table"),
    (lambda: ExtendedLaplace(0.0), "b must be a finite number greater than 0"),
    (lambda: ProjectedGaussian(-1.0), "sigma must be a finite number greater than 0"),
    error=ValueError,
)

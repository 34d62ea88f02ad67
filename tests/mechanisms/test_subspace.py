"""Mechanisms of subspace differential privacy: losses by brute force over neighbours, errors, Theorems 3.3 and 4.2."""

import math

import numpy as np
import pytest
from scipy import integrate

import bayesdp as bdp
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import CorrelatedGaussian, ExtendedGaussian, Mechanism, ProjectedGaussian
from bayesdp.papers.subspace import base_decomposition
from bayesdp.privacy import gaussian_delta, gaussian_epsilon, gaussian_sigma, neighbour_differences
from bayesdp.privacy import optimal_factorization as optimal
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from tests.lattices.oracles import labels, one_way
from tests.privacy.sensitivities.databases import neighbours_of
from tests.refusals import refused

LINE = {"county": ["p", "q", "r"], "state": ("county", ["N", "N", "S"])}
GRID = {"row": ["p", "q", "r"], "column": ["low", "high"]}
TABLE = np.array([[3, 1], [0, 4], [2, 2]])
GAUSSIAN = (ProjectedGaussian, ExtendedGaussian, CorrelatedGaussian)
PURE = (bdp.ProjectedLaplace, bdp.ExtendedLaplace, bdp.KNorm)
AGES = {"age": [str(a) for a in range(7)]}
BELOW = LinearQuery(AGES, np.tril(np.ones((6, 7), dtype=int)), [f"up to {a}" for a in range(6)])
SQUARE = labels(3, 3)
EVERY_CASE = pytest.mark.parametrize(
    ("invariants", "query", "neighbours"),
    [
        (Invariants(Totals(AGES)), BELOW, "substitution"),
        (Invariants(Totals(AGES)), BELOW, "add-remove"),
        (Invariants(None, AGES), BELOW, "add-remove"),
        (one_way(3, 3), None, "substitution"),
        (Invariants(Margins(SQUARE, ["b"])), Identity(SQUARE) + Margins(SQUARE, ["a"]), "substitution"),
        (Invariants(LinearQuery(AGES, [[1] * 7, [0, 1, 2, 3, 4, 5, 6]], ["records", "years"])), None, "substitution"),
    ],
)


def hidden(mechanism, tables):
    """What differences of tables change of the answers within the noise space."""
    shape = mechanism.answer_invariants.frame.shape
    moved = tables @ mechanism.released_query.matrix.toarray().T
    return mechanism.answer_invariants.project(moved.reshape(-1, *shape))


def lengths(mechanism, tables):
    """Of differences of tables, in the metric of normal noise."""
    moved = mechanism.answer_invariants.coordinates(hidden(mechanism, tables)).T
    if not isinstance(mechanism, CorrelatedGaussian):
        return np.linalg.norm(moved, axis=0) / mechanism.sigma
    return np.sqrt(np.sum(np.linalg.solve(mechanism.covariance, moved) * moved, axis=0))


@pytest.mark.parametrize("kind", GAUSSIAN)
@EVERY_CASE
def test_the_worst_neighbours_lose_what_is_stated(kind, invariants, query, neighbours):
    mechanism = kind(invariants, epsilon=0.8, delta=1e-7, query=query, neighbours=neighbours)
    # Noise of this covariance moved by v is as hard to tell from noise at 0 as N(|v|, 1) from N(0, 1).
    worst = gaussian_delta(
        0.8, 1.0, lengths(mechanism, neighbours_of(mechanism.frame.size, mechanism.neighbours)).max()
    )
    assert worst <= 1e-7 * (1 + 1e-6)
    if kind is not ProjectedGaussian:  # whose noise is for what the projection takes away, too
        assert worst == pytest.approx(1e-7, rel=1e-5)


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("invariants", [bdp.Totals(LINE), bdp.Totals(LINE, "state")])
def test_largest_log_ratio_of_neighbours_is_the_stated_one_at_most(kind, invariants):
    neighbours = "add-remove" if kind is bdp.KNorm and len(invariants.names) > 1 else "substitution"
    mechanism = kind(invariants, epsilon=0.6, neighbours=neighbours)
    law, relations = mechanism.law, mechanism.answer_invariants
    points = relations.project(np.random.default_rng(1).laplace(scale=6.0, size=(150, 3)))
    shifts = hidden(mechanism, neighbours_of(mechanism.frame.size, mechanism.neighbours))
    tops = [(y, law.logp(y, 0 * y, relations)) for y in points]
    ratios = [top - law.logp(y, u, relations) for y, top in tops for u in shifts]
    assert 0.55 < np.abs(ratios).max() <= 0.6 + 1e-9


def test_projected_laplace_noise_is_not_laplace_noise_given_the_invariants():
    # Two cells with a known sum. Projected: (e1 - e2) / 2 in the first cell. Given e1 + e2 = 0: density exp(-2 |z| / b) / b.
    relations, law = bdp.Invariants(bdp.Totals({"county": ["p", "q"]})), bdp.noise.ProjectedLaplace(b=1.0)

    def density(z):  # of the first cell; the orthonormal coordinate is the root of 2 times it
        return math.sqrt(2.0) * math.exp(law.logp([z, -z], [0.0, 0.0], relations))

    mass, variance = (integrate.quad(lambda z, k=k: z**k * density(z), -40, 40, points=[0])[0] for k in (0, 2))
    assert (mass, variance) == pytest.approx((1.0, 1.0), rel=1e-7)  # 2 b^2 times 2 / 4; given the total it is b^2 / 2
    assert abs(density(0.0) - 1.0) > 0.4  # exp(0) / b


def test_the_converse_by_enumeration():
    """Not additive: randomised response on the difference of two cells, their sum exact. Its null space part loses as much."""
    law = 0.1 + 0.6 * np.eye(4)  # P(M(a, 3 - a) = (y, 3 - y)), by a and y
    parts = [np.round(np.array([1.0, -1.0]) @ [y, 3 - y] / math.sqrt(2), 9) for y in range(4)]
    hat = np.array([[own[parts == value].sum() for value in np.unique(parts)] for own in law])
    losses = [np.log(own[:, None] / own).max() for own in (law, hat)]
    assert losses == pytest.approx([math.log(7)] * 2)


FOUND = [(ProjectedGaussian, "calibration", "analytic"), (CorrelatedGaussian, "method", "factorization")]


@pytest.mark.parametrize(("kind", "word", "known"), FOUND)
def test_files_may_say_how_the_noise_was_found(kind, word, known):
    mechanism = kind(bdp.Totals(LINE), mu=0.5)
    earlier = mechanism.describe() | {word: known}
    assert Mechanism.from_description(earlier, LINE) == mechanism
    with pytest.raises(ValueError, match=rf"{word} of the mechanism .* must be '{known}'"):
        Mechanism.from_description(earlier | {word: "other"}, LINE)


@pytest.mark.parametrize("stated", [{"mu": 0.5}, {"rho": 0.02}, {"epsilon": 1.0, "delta": 1e-6}], ids=str)
def test_all_ways_of_stating_the_loss(stated):
    mechanism = CorrelatedGaussian(Totals(AGES), query=BELOW, **stated)
    longest = float(lengths(mechanism, neighbours_of(mechanism.frame.size, mechanism.neighbours)).max())
    found = {"mu": longest, "rho": longest**2 / 2, "epsilon": gaussian_epsilon(1e-6, 1.0, longest), "delta": 1e-6}
    assert {name: found[name] for name in stated} == pytest.approx(stated, rel=1e-7)
    guarantee = mechanism.guarantee
    assert (guarantee.unit, guarantee.parameters) == ("Mahalanobis", {**stated, "sensitivity": 1.0})
    assert "in the metric of the noise" in str(guarantee).replace("\n    ", " ")


@EVERY_CASE
def test_errors_are_those_of_the_mechanisms_and_in_order(invariants, query, neighbours):
    common = {"epsilon": 1.0, "delta": 1e-6, "query": query, "neighbours": neighbours}
    one = CorrelatedGaussian(invariants, **common)
    projected, extended = (kind(invariants, **common).error for kind in (ProjectedGaussian, ExtendedGaussian))
    vectors, unit = neighbour_differences(one.released_query, invariants, neighbours), gaussian_sigma(1.0, 1e-6) ** 2
    bound = unit * optimal(vectors, tolerance=1e-6).bound
    assert bound <= one.error <= bound * (1 + 2e-6)
    blocks = unit * float(np.trace(base_decomposition(vectors)[0]))
    assert all(bound <= other * (1 + 1e-12) for other in (blocks, extended))
    assert extended <= projected * (1 + 1e-12)
    # The error is what the noise has: trace of the covariance over the cells.
    variance = one.law.variance(one.answer_invariants.frame.shape, one.answer_invariants)
    assert variance.sum() == pytest.approx(one.error)


def test_released_noise_has_the_covariance_and_substitutions_are_neighbours():
    by_delta = CorrelatedGaussian(Totals(AGES), epsilon=1.0, delta=1e-6, query=BELOW)
    neighbours, substituted = by_delta.guarantee.pairs
    assert substituted.size == pytest.approx(1.0)  # all neighbours keep the total
    assert substituted.loss["epsilon"] == pytest.approx(neighbours.loss["epsilon"]) == 1.0
    mechanism, size = CorrelatedGaussian(Totals(AGES), mu=0.5, query=BELOW), 4000
    covariance = mechanism.covariance
    noise = mechanism.answer_invariants.coordinates(mechanism.noise(np.random.default_rng(2), size))
    spread = np.sqrt(np.diagonal(covariance))
    error = np.sqrt((np.outer(spread, spread) ** 2 + covariance**2) / size)
    # Five standard errors for each of 21 entries: a false alarm in fewer than 2e-5.
    assert np.all(np.abs(noise.T @ noise / size - covariance) < 5 * error)


def moved_by_half():
    released = bdp.ProjectedLaplace(bdp.Totals(GRID), 1.0).release(TABLE, rng=np.random.default_rng(1))
    moved = bdp.Measured(bdp.Identity(GRID), released.values.values + 0.5, released.measurements[0].law)
    return bdp.Release.from_published(GRID, measured=[moved], exact=released.exact)


test_bad_arguments_are_named = refused(
    (lambda: bdp.ProjectedLaplace(bdp.Margins(GRID, ["row"]), 1.0, query=bdp.Totals(GRID)), "determine every answer"),
    (lambda: bdp.ExtendedLaplace(bdp.Totals(GRID), 1.0, query=bdp.Totals(LINE)), "about the table of the invariants"),
    (lambda: bdp.ExtendedGaussian(bdp.Totals(GRID), mu=1.0, query="row"), "query must be Identity"),
    (lambda: bdp.ExtendedGaussian(bdp.Totals(GRID), epsilon=1.0, delta=1.5), "delta"),
    (lambda: bdp.ProjectedLaplace(bdp.Totals(GRID), 0.0), "epsilon"),
    (lambda: bdp.ProjectedLaplace(bdp.Totals(GRID), 1.0, neighbours="friends"), "neighbours"),
    (lambda: CorrelatedGaussian(Totals(AGES)), "state the loss by"),
    (lambda: CorrelatedGaussian(Totals(AGES), epsilon=1.0, delta=0.0), "delta must lie strictly between"),
    (lambda: CorrelatedGaussian(Invariants(None, AGES), mu=1.0),
     "span 6 of the 7 dimensions of the noise.*add the total number of records to the invariants"),
    (lambda: CorrelatedGaussian(Totals(AGES), mu=1.0, query=Totals(AGES)), "invariants determine every answer"),
    (lambda: CorrelatedGaussian(Totals(labels(220)), mu=1.0),
     "query has 24090 differences of neighbours in 219 dimensions; .* at most 20000 in 300"),
    (moved_by_half, "keeps its invariants"),
)  # fmt: skip
CELLS = {"cell": range(4)}
TOTAL = Totals(CELLS)
HADAMARD = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # twice orthonormal coordinates of the null space
TURNED = LinearQuery(CELLS, HADAMARD, list("abc"))


@pytest.mark.parametrize("kind", [bdp.KNorm, ExtendedGaussian, CorrelatedGaussian])
def test_corollary_3_10_the_best_with_invariants_is_the_best_for_the_null_space_part(kind):
    """``opt^C(A) = opt(Pi_N A)``, within each class of mechanisms whose best is known.

    On one side the cells with an exact total, on the other no invariants, and Q^T x twice over as the query: four times the error.
    """
    loss = {"epsilon" if kind is bdp.KNorm else "mu": 0.6}
    with_invariants, without = kind(TOTAL, **loss), kind(bdp.Invariants(frame=CELLS), **loss, query=TURNED)
    assert without.error / 4 == pytest.approx(with_invariants.error, rel=1e-6)
    # And by the construction of the proof, draw by draw: the private answers of the one, put on the null space, are the other.
    noise = without.noise(np.random.default_rng(1), 30_000) @ HADAMARD / 4
    expected = with_invariants.error / 3 * (np.eye(4) - 0.25)
    assert np.abs(np.cov(noise.T) - expected).max() < 0.06 * expected[0, 0]

"""Mechanisms of subspace differential privacy: losses by brute force over neighbours, errors, Theorems 3.3 and 4.2."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import CorrelatedGaussian, ExtendedGaussian, Mechanism, ProjectedGaussian
from bayesdp.papers.subspace import base_decomposition
from bayesdp.privacy import (
    DIFFERENCES,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    neighbour_differences,
    optimal_factorization,
)
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from tests.lattices.oracles import labels, one_way
from tests.refusals import refused

LINE = {"county": ["p", "q", "r"], "state": ("county", ["N", "N", "S"])}
GRID = {"row": ["p", "q", "r"], "column": ["low", "high"]}
TABLE = np.array([[3, 1], [0, 4], [2, 2]])
GAUSSIAN = (ProjectedGaussian, ExtendedGaussian, CorrelatedGaussian)
PURE = (bdp.ProjectedLaplace, bdp.ExtendedLaplace, bdp.KNorm)
AGES = {"age": [str(a) for a in range(7)]}
BELOW = LinearQuery(AGES, np.tril(np.ones((6, 7), dtype=int)), [f"up to {a}" for a in range(6)])
SQUARE = labels(3, 3)
CASES = [
    (Invariants(Totals(AGES)), BELOW, "substitution"),
    (Invariants(Totals(AGES)), BELOW, "add-remove"),
    (Invariants(None, AGES), BELOW, "add-remove"),
    (one_way(3, 3), None, "substitution"),
    (Invariants(Margins(SQUARE, ["b"])), Identity(SQUARE) + Margins(SQUARE, ["a"]), "substitution"),
    (Invariants(LinearQuery(AGES, [[1] * 7, [0, 1, 2, 3, 4, 5, 6]], ["records", "years"])), None, "substitution"),
]


def of_neighbours(mechanism):
    """All differences of neighbouring tables, flat."""
    one = np.eye(mechanism.frame.size)
    pairs = itertools.permutations(range(len(one)), 2)
    return one if mechanism.neighbours == "add-remove" else np.array([one[i] - one[j] for i, j in pairs])


def hidden(mechanism, tables):
    """What differences of tables change of the answers within the noise space."""
    shape = mechanism.answer_invariants.frame.shape
    return mechanism.answer_invariants.project(
        (tables @ mechanism.released_query.matrix.toarray().T).reshape(-1, *shape)
    )


def lengths(mechanism, tables):
    """Of differences of tables, in the metric of normal noise."""
    moved = mechanism.answer_invariants.coordinates(hidden(mechanism, tables)).T
    if not isinstance(mechanism, CorrelatedGaussian):
        return np.linalg.norm(moved, axis=0) / mechanism.sigma
    return np.sqrt(np.sum(np.linalg.solve(mechanism.covariance, moved) * moved, axis=0))


@pytest.mark.parametrize("kind", GAUSSIAN)
@pytest.mark.parametrize(("invariants", "query", "neighbours"), CASES)
def test_the_worst_neighbours_lose_what_is_stated(kind, invariants, query, neighbours):
    mechanism = kind(invariants, epsilon=0.8, delta=1e-7, query=query, neighbours=neighbours)
    # Noise of this covariance moved by v is as hard to tell from noise at 0 as N(|v|, 1) from N(0, 1).
    worst = gaussian_delta(0.8, 1.0, lengths(mechanism, of_neighbours(mechanism)).max())
    assert worst <= 1e-7 * (1 + 1e-6)
    if kind is not ProjectedGaussian:  # whose noise is for what the projection takes away, too
        assert worst == pytest.approx(1e-7, rel=1e-5)


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("invariants", [bdp.Totals(LINE), bdp.Totals(LINE, "state")])
def test_largest_log_ratio_of_neighbours_is_the_stated_one_at_most(kind, invariants):
    neighbours = "add-remove" if kind is bdp.KNorm and len(invariants.names) > 1 else "substitution"
    mechanism = kind(invariants, epsilon=0.6, neighbours=neighbours)
    law, relations = mechanism.law, mechanism.answer_invariants
    points = relations.project(np.random.default_rng(1).laplace(scale=6.0, size=(60, 3)))
    shifts = hidden(mechanism, of_neighbours(mechanism))
    ratios = [
        top - law.logp(y, u, relations) for y in points for top in [law.logp(y, 0 * y, relations)] for u in shifts
    ]
    assert 0.55 < np.abs(ratios).max() <= 0.6 + 1e-9


def test_projected_laplace_noise_is_not_laplace_noise_given_the_invariants():
    # Two cells with a known sum. Projected: (e1 - e2) / 2 in the first cell. Given e1 + e2 = 0: density exp(-2 |z| / b) / b.
    relations, law = bdp.Invariants(bdp.Totals({"county": ["p", "q"]})), bdp.noise.ProjectedLaplace(b=1.0)

    def density(z):  # of the first cell; the orthonormal coordinate is the root of 2 times it
        return math.sqrt(2.0) * math.exp(law.logp([z, -z], [0.0, 0.0], relations))

    mass, variance = (integrate.quad(lambda z, k=k: z**k * density(z), -40, 40, points=[0])[0] for k in (0, 2))
    assert (mass, variance) == pytest.approx((1.0, 1.0), rel=1e-7)  # 2 b^2 times 2 / 4; given the total it is b^2 / 2
    assert abs(density(0.0) - 1.0) > 0.4  # exp(0) / b


@pytest.mark.parametrize(
    ("kind", "word", "known"),
    [(bdp.ProjectedGaussian, "calibration", "analytic"), (CorrelatedGaussian, "method", "factorization")],
)
def test_files_may_say_how_the_noise_was_found(kind, word, known):
    mechanism = kind(bdp.Totals(LINE), mu=0.5)
    earlier = mechanism.describe() | {word: known}
    assert Mechanism.from_description(earlier, LINE) == mechanism
    with pytest.raises(ValueError, match=rf"{word} of the mechanism .* must be '{known}'"):
        Mechanism.from_description(earlier | {word: "other"}, LINE)


@pytest.mark.parametrize(
    ("stated", "length"), [({"mu": 0.5}, 0.5), ({"rho": 0.02}, 0.2), ({"epsilon": 1.0, "delta": 1e-6}, None)]
)
def test_all_ways_of_stating_the_loss(stated, length):
    mechanism = CorrelatedGaussian(Totals(AGES), query=BELOW, **stated)
    longest = float(lengths(mechanism, of_neighbours(mechanism)).max())
    if length is None:
        assert gaussian_epsilon(1e-6, 1.0, longest) == pytest.approx(1.0, rel=1e-7)
    else:
        assert longest == pytest.approx(length, rel=1e-9)
    guarantee = mechanism.guarantee
    assert (guarantee.unit, guarantee.parameters) == ("Mahalanobis", {**stated, "sensitivity": 1.0})
    assert "in the metric of the noise" in str(guarantee).replace("\n    ", " ")


@pytest.mark.parametrize(("invariants", "query", "neighbours"), CASES)
def test_errors_are_those_of_the_mechanisms_and_in_order(invariants, query, neighbours):
    common = {"epsilon": 1.0, "delta": 1e-6, "query": query, "neighbours": neighbours}
    one = CorrelatedGaussian(invariants, **common)
    projected, extended = (kind(invariants, **common).error for kind in (ProjectedGaussian, ExtendedGaussian))
    vectors, unit = neighbour_differences(one.released_query, invariants, neighbours), gaussian_sigma(1.0, 1e-6) ** 2
    bound = unit * optimal_factorization(vectors, tolerance=1e-6).bound
    assert bound <= one.error <= bound * (1 + 2e-6)
    blocks = unit * float(np.trace(base_decomposition(vectors)[0]))
    assert all(bound <= other * (1 + 1e-12) for other in (blocks, extended))
    assert extended <= projected * (1 + 1e-12)
    # The error is what the noise has: trace of the covariance over the cells.
    variance = one.law.variance(one.answer_invariants.frame.shape, one.answer_invariants)
    assert variance.sum() == pytest.approx(one.error)


def test_losses_of_the_differences_that_are_kept():
    by_mu = CorrelatedGaussian(one_way(3, 3), mu=0.5)
    rows = {row.relation: row for row in by_mu.guarantee.pairs}
    for name, example in (("2x2 move", [1, -1, 0, -1, 1, 0, 0, 0, 0]), ("3-cycle", [1, -1, 0, 0, 1, -1, -1, 0, 1])):
        row = rows[DIFFERENCES[name].relation + " (the largest loss of all such pairs)"]
        assert row.loss["mu"] == pytest.approx(lengths(by_mu, np.array([example]))[0])
        assert row.size == pytest.approx(row.loss["mu"] / 0.5)
    assert len(rows) == 3  # the neighbours, the moves and the cycles
    by_delta = CorrelatedGaussian(Totals(AGES), epsilon=1.0, delta=1e-6, query=BELOW)
    neighbours, substituted = by_delta.guarantee.pairs
    assert substituted.size == pytest.approx(1.0)  # all neighbours keep the total
    assert substituted.loss["epsilon"] == pytest.approx(neighbours.loss["epsilon"]) == 1.0


def test_released_noise_has_the_covariance():
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
KEPT = [*(kind(TOTAL, mu=0.6) for kind in GAUSSIAN), *(kind(TOTAL, 0.6) for kind in PURE)]
KEPT += [m.LatticeLaplace(TOTAL, 0.6), m.LatticeGaussian(TOTAL, rho=0.1)]


@pytest.mark.parametrize("mechanism", KEPT, ids=repr)
def test_what_is_left_without_the_row_space_lies_in_the_null_space(mechanism):
    """``M(x) - Pi_R A(x)`` has no total, exactly, and lies around ``Pi_N A(x)``: the noise is M minus A, which sums to zero."""
    x = np.array([3.0, 0.0, 5.0, 2.0])
    released = np.asarray(mechanism.release(x, rng=3).values, dtype=np.float64)
    null = mechanism.answer_invariants.project
    hat = released - (x - null(x))
    assert abs(hat.sum()) < 1e-9
    np.testing.assert_allclose(hat, null(hat), atol=1e-9)


def test_the_converse_by_enumeration():
    """A mechanism that is not additive: randomised response on the difference of two cells, the sum of the pair exact.

    The loss of its null space part is its own, over all neighbours among tables of three records.
    """
    null = np.array([1.0, -1.0]) / math.sqrt(2)
    law = {a: np.full(4, 0.1) + 0.6 * (np.arange(4) == a) for a in range(4)}  # P(M(a, 3 - a) = (y, 3 - y))
    hat = {a: {round(float(null @ np.array([y, 3 - y])), 9): law[a][y] for y in range(4)} for a in law}
    loss_hat = max(math.log(hat[a][c] / hat[b][c]) for a, b in itertools.permutations(law, 2) for c in hat[a])
    loss = max(float(np.log(law[a] / law[b]).max()) for a, b in itertools.permutations(law, 2))
    assert loss_hat == pytest.approx(loss) == pytest.approx(math.log(7))


HADAMARD = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # twice orthonormal coordinates of the null space
TURNED = LinearQuery(CELLS, HADAMARD, list("abc"))


@pytest.mark.parametrize(
    ("kind", "loss"), [(bdp.KNorm, "epsilon"), (ExtendedGaussian, "mu"), (CorrelatedGaussian, "mu")]
)
def test_corollary_3_10_the_best_with_invariants_is_the_best_for_the_null_space_part(kind, loss):
    """``opt^C(A) = opt(Pi_N A)``, within each class of mechanisms whose best is known.

    On one side the cells with an exact total, on the other no invariants, and Q^T x twice over as the query: four times the error.
    """
    with_invariants, without = (
        kind(TOTAL, **{loss: 0.6}),
        kind(bdp.Invariants(frame=CELLS), **{loss: 0.6}, query=TURNED),
    )
    assert without.error / 4 == pytest.approx(with_invariants.error, rel=1e-6)
    # And by the construction of the proof, draw by draw: the private answers of the one, put on the null space, are the other.
    noise = without.noise(np.random.default_rng(1), 30_000) @ HADAMARD / 4
    expected = with_invariants.error / 3 * (np.eye(4) - 0.25)
    assert np.abs(np.cov(noise.T) - expected).max() < 0.06 * expected[0, 0]

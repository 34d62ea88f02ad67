"""The correlated Gaussian mechanism: its privacy by brute force over neighbours, its errors, what it publishes."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

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
from bayesdp.queries import Identity, LinearQuery, Margins, Query, Totals
from tests.lattices.oracles import labels, one_way

type Floats = npt.NDArray[np.float64]

AGES = {"age": [str(a) for a in range(7)]}
BELOW = LinearQuery(AGES, np.tril(np.ones((6, 7), dtype=int)), [f"up to {a}" for a in range(6)])
TABLE = labels(3, 3)
CELLS_AND_SUMS = Identity(TABLE) + Margins(TABLE, ["a"])

CASES = [
    (Invariants(Totals(AGES)), BELOW, "substitution"),
    (Invariants(Totals(AGES)), BELOW, "add-remove"),
    (Invariants(None, AGES), BELOW, "add-remove"),
    (one_way(3, 3), None, "substitution"),
    (Invariants(Margins(TABLE, ["b"])), CELLS_AND_SUMS, "substitution"),
    (Invariants(LinearQuery(AGES, [[1] * 7, [0, 1, 2, 3, 4, 5, 6]], ["records", "years"])), None, "substitution"),
]


def shifts(mechanism: CorrelatedGaussian) -> Floats:
    """By how much every pair of neighbours moves the answers within the noise space, as vectors there, by hand."""
    cells = mechanism.frame.size
    records = np.eye(cells)
    if mechanism.neighbours == "substitution":
        records = np.array([records[i] - records[j] for i, j in itertools.permutations(range(cells), 2)])
    answers = records @ mechanism.released_query.matrix.toarray().T
    relations = mechanism.answer_invariants
    return relations.project(answers.reshape(-1, *relations.frame.shape)).reshape(len(records), -1)


def mahalanobis(mechanism: CorrelatedGaussian, moved: Floats) -> Floats:
    """Lengths in the metric of the noise, from its covariance in cells and a pseudo-inverse: no coordinates."""
    relations = mechanism.answer_invariants
    basis = relations.from_coordinates(np.eye(relations.dimension)).reshape(relations.dimension, -1)
    inverse = np.linalg.pinv(basis.T @ mechanism.covariance @ basis)
    return np.sqrt(np.maximum(np.sum((moved @ inverse) * moved, axis=1), 0.0))


@pytest.mark.parametrize(("invariants", "query", "neighbours"), CASES)
def test_the_worst_neighbours_lose_exactly_what_is_stated(
    invariants: Invariants, query: Query | None, neighbours: str
) -> None:
    mechanism = CorrelatedGaussian(invariants, epsilon=0.8, delta=1e-7, query=query, neighbours=neighbours)
    lengths = mahalanobis(mechanism, shifts(mechanism))
    # Noise of this covariance moved by v is as hard to tell from noise at 0 as N(|v|, 1) from N(0, 1).
    deltas = [gaussian_delta(0.8, 1.0, length) for length in lengths if length > 1e-12]
    assert max(deltas) == pytest.approx(1e-7, rel=1e-6)


@pytest.mark.parametrize(
    ("stated", "length"),
    [({"mu": 0.5}, 0.5), ({"rho": 0.02}, 0.2), ({"epsilon": 1.0, "delta": 1e-6}, None)],
)
def test_all_ways_of_stating_the_loss(stated: dict[str, float], length: float | None) -> None:
    mechanism = CorrelatedGaussian(Totals(AGES), query=BELOW, **stated)
    longest = float(mahalanobis(mechanism, shifts(mechanism)).max())
    if length is None:
        assert gaussian_epsilon(1e-6, 1.0, longest) == pytest.approx(1.0, rel=1e-7)
    else:
        assert longest == pytest.approx(length, rel=1e-9)
    guarantee = mechanism.guarantee
    assert guarantee.unit == "Mahalanobis"
    assert guarantee.parameters == {**stated, "sensitivity": 1.0}
    assert "in the metric of the noise" in str(guarantee).replace("\n    ", " ")


@pytest.mark.parametrize(("invariants", "query", "neighbours"), CASES)
def test_errors_are_those_of_the_mechanisms_and_in_order(
    invariants: Invariants, query: Query | None, neighbours: str
) -> None:
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


def test_correlated_noise_is_less_noise_where_answers_overlap() -> None:
    mechanism = CorrelatedGaussian(Totals(AGES), mu=1.0, query=BELOW)
    vectors = neighbour_differences(BELOW, mechanism.invariants, "substitution")
    blocks = float(np.trace(base_decomposition(vectors)[0]))
    assert mechanism.error < 0.9 * blocks < 0.6 * ExtendedGaussian(Totals(AGES), mu=1.0, query=BELOW).error
    # On the cells of a table with both margins nothing can be gained: all neighbours are alike up to symmetry.
    correlated, extended = (kind(one_way(3, 3), mu=1.0).error for kind in (CorrelatedGaussian, ExtendedGaussian))
    assert correlated == pytest.approx(extended, rel=2e-6)


def test_losses_of_the_differences_that_are_kept() -> None:
    by_mu = CorrelatedGaussian(one_way(3, 3), mu=0.5)
    rows = {row.relation: row for row in by_mu.guarantee.pairs}
    move = rows[DIFFERENCES["2x2 move"].relation + " (the largest loss of all such pairs)"]
    example = np.array([[1, -1, 0, -1, 1, 0, 0, 0, 0.0]])
    assert move.loss["mu"] == pytest.approx(float(mahalanobis(by_mu, example)[0]))
    assert move.size == pytest.approx(move.loss["mu"] / 0.5)
    cycle = rows[DIFFERENCES["3-cycle"].relation + " (the largest loss of all such pairs)"]
    example = np.array([[1, -1, 0, 0, 1, -1, -1, 0, 1.0]])
    assert cycle.loss["mu"] == pytest.approx(float(mahalanobis(by_mu, example)[0]))
    assert len(rows) == 3  # the neighbours, the moves and the cycles
    by_delta = CorrelatedGaussian(Totals(AGES), epsilon=1.0, delta=1e-6, query=BELOW)
    neighbours, substituted = by_delta.guarantee.pairs
    assert substituted.size == pytest.approx(1.0)  # all neighbours keep the total
    assert substituted.loss["epsilon"] == pytest.approx(neighbours.loss["epsilon"]) == 1.0


def test_files_may_say_how_the_covariance_was_found() -> None:
    mechanism = CorrelatedGaussian(Totals(AGES), mu=0.5, query=BELOW)
    earlier = mechanism.describe() | {"method": "factorization"}
    assert Mechanism.from_description(earlier, AGES) == mechanism
    with pytest.raises(ValueError, match="method of the mechanism 'correlated-gaussian' must be 'factorization'"):
        Mechanism.from_description(earlier | {"method": "ellipsoid"}, AGES)


def test_released_noise_has_the_covariance() -> None:
    mechanism = CorrelatedGaussian(Totals(AGES), mu=0.5, query=BELOW)
    size, covariance = 4000, mechanism.covariance
    noise = mechanism.answer_invariants.coordinates(mechanism.noise(np.random.default_rng(2), size))
    spread = np.sqrt(np.diagonal(covariance))
    error = np.sqrt((np.outer(spread, spread) ** 2 + covariance**2) / size)
    # Five standard errors for each of 21 entries: a false alarm in fewer than 2e-5.
    assert np.all(np.abs(noise.T @ noise / size - covariance) < 5 * error)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CorrelatedGaussian(Totals(AGES)), ValueError, "state the loss by"),
        (
            lambda: CorrelatedGaussian(Totals(AGES), epsilon=1.0, delta=0.0),
            ValueError,
            "delta must lie strictly between",
        ),
        (
            lambda: CorrelatedGaussian(Invariants(None, AGES), mu=1.0),
            ValueError,
            "span 6 of the 7 dimensions of the noise.*add the total number of records to the invariants",
        ),
        (
            lambda: CorrelatedGaussian(Totals(AGES), mu=1.0, query=Totals(AGES)),
            ValueError,
            "invariants determine every answer",
        ),
        (
            lambda: CorrelatedGaussian(Totals(labels(220)), mu=1.0),
            ValueError,
            "query has 24090 differences of neighbours in 219 dimensions; .* at most 20000 in 300",
        ),
    ],
)
def test_bad_arguments_are_named(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()

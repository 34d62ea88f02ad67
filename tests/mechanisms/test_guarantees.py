"""What a mechanism says that it protects, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.mechanisms import LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.privacy import SamplerStatement, gaussian_delta, rho_to_delta
from bayesdp.queries import LinearQuery, Margins, Totals
from bayesdp.sensitivities.kept import kept_differences
from tests.lattices.oracles import BLOCKS, GENERAL, LOOSE, labels, lattice_points, law_on, one_way, two_way_margins
from tests.moves.test_basis import NESTED

SQUARE, CYCLE, MOVED = (4.0, 2.0), (6.0, math.sqrt(6)), (2.0, math.sqrt(2))


@pytest.mark.parametrize(
    ("invariants", "sizes"),
    [
        (one_way(2, 2), [SQUARE]),
        (one_way(2, 5), [SQUARE]),
        (one_way(3, 3), [SQUARE, CYCLE]),
        (one_way(4, 4), [SQUARE, CYCLE]),
        (one_way(2, 2, 2), [SQUARE]),  # a factor of two labels in every split, so no 3-cycle along it
        (two_way_margins(3, 3, 3), [(8.0, math.sqrt(8))]),
        (BLOCKS, [MOVED]),
        (Invariants(Totals(labels(3))), [MOVED]),
        (Invariants(Margins(labels(3, 4), ["a"])), [MOVED]),
        (Invariants([Totals(NESTED, by=["state", "sex"]), Margins(NESTED, ["county"])]), [SQUARE, CYCLE]),
        (LOOSE, [MOVED, (1.0, 1.0)]),
        (Invariants(None, labels(3)), [(1.0, 1.0), MOVED]),
        (Invariants(LinearQuery(labels(3), [[1, 2, 3]], ["weighted"])), [(3.0, math.sqrt(3))]),
    ],
    ids=repr,
)
def test_the_differences_that_the_invariants_let_happen(invariants, sizes):
    found = kept_differences(invariants)
    np.testing.assert_allclose(sorted((d.l1, d.l2) for d in found), sorted(sizes))
    # The smallest is the smallest vector of the lattice, by enumeration.
    points = lattice_points(invariants.matrix.toarray(), 1 if invariants.dimension > 5 else 3)
    lengths = np.abs(points).sum(axis=1)
    assert min(d.l1 for d in found) == lengths[lengths > 0].min()


def test_large_general_invariants_state_no_pairs():
    frame = labels(500)
    weights = np.arange(1, 501)[None, :]
    assert kept_differences(Invariants(LinearQuery(frame, weights, ["weighted"]))) == ()


def test_general_invariants_with_distinct_columns_have_a_smallest_change():
    (found,) = kept_differences(GENERAL)
    assert "smallest change found" in found.relation


def test_lattice_laplace_states_the_loss_of_each_pair():
    guarantee = LatticeLaplace(one_way(3, 3), epsilon=0.25).guarantee
    assert guarantee.kind == "pure"
    assert guarantee.parameters == {"epsilon": 0.25}
    assert guarantee.unit == "l1"
    assert [row.loss["epsilon"] for row in guarantee.pairs] == [1.0, 1.5]
    assert guarantee.sampler == "exact"
    large = LatticeLaplace(one_way(14, 14), epsilon=0.25).guarantee  # hardly a try would be kept
    assert large.sampler == SamplerStatement("Gibbs", 1000)
    assert not guarantee.simulated
    text = str(guarantee)
    assert "binary64" in text
    assert "not a cryptographic one" in text.replace("\n", " ").replace("    ", "")


def test_sensitivity_rescales_the_noise_and_is_stated():
    mechanism = LatticeLaplace(one_way(2, 2), epsilon=1.0, sensitivity=4.0)
    assert mechanism.rate == 0.25
    assert mechanism.law.epsilon == 0.25
    assert mechanism.guarantee.parameters == {"epsilon": 1.0, "sensitivity": 4.0}
    assert [row.loss["epsilon"] for row in mechanism.guarantee.pairs] == [1.0]
    gaussian = LatticeGaussian(one_way(2, 2), rho=0.5, sensitivity=2.0)
    assert gaussian.sigma == 2.0
    assert [row.loss["rho"] for row in gaussian.guarantee.pairs] == [0.5]


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_pair_of_outcomes_loses_more_than_stated(norm):
    """Pure privacy by enumeration: the log ratio of the law and the law moved by a difference."""
    invariants = one_way(2, 3)
    mechanism = LatticeLaplace(invariants, epsilon=0.4, norm=norm)
    points = lattice_points(invariants.matrix.toarray(), 6)
    shift = np.array([1, -1, 0, -1, 1, 0])
    stay, move = (0.4 * np.linalg.norm(points - s, ord=1 if norm == "l1" else 2, axis=1) for s in (0, shift))
    stated = mechanism.guarantee.pairs[0].loss["epsilon"]
    assert np.abs(move - stay).max() == pytest.approx(stated)


def test_lattice_gaussian_keeps_its_approximate_promise():
    """The exact profile of the law on the lattice is within the (epsilon, delta) that was asked for."""
    invariants = one_way(2, 3)
    mechanism = LatticeGaussian(invariants, epsilon=1.0, delta=1e-3, sensitivity=2.0)
    points = lattice_points(invariants.matrix.toarray(), 40)
    mass = law_on(points, "gaussian", mechanism.sigma)
    square = np.array([1, -1, 0, -1, 1, 0])
    moved = {tuple(p): m for p, m in zip((points + square).tolist(), mass, strict=True)}
    delta = sum(max(m - math.e * moved.get(tuple(p), 0.0), 0.0) for p, m in zip(points.tolist(), mass, strict=True))
    assert 1e-5 < delta < 1e-3
    guarantee = mechanism.guarantee
    assert guarantee.kind == "approximate"
    assert guarantee.parameters == {"epsilon": 1.0, "delta": 1e-3, "sensitivity": 2.0}
    row = guarantee.pairs[0]
    assert rho_to_delta(row.loss["rho"], 1.0) == pytest.approx(1e-3)
    # The row states the exact profile: at its epsilon the enumerated delta is the one that was asked for.
    epsilon = row.loss["epsilon"]
    assert epsilon < 0.9
    pairs = [(m, moved.get(tuple(p), 0.0)) for p, m in zip(points.tolist(), mass, strict=True)]
    assert sum(max(m - math.exp(epsilon) * other, 0.0) for m, other in pairs) == pytest.approx(1e-3, rel=1e-6)


@pytest.mark.parametrize(("neighbours", "distance"), [("substitution", math.sqrt(2)), ("add-remove", 1.0)])
def test_projected_gaussian_is_calibrated_for_its_neighbours(neighbours, distance):
    by_delta = ProjectedGaussian(BLOCKS, epsilon=1.0, delta=1e-10, neighbours=neighbours)
    assert gaussian_delta(1.0, by_delta.sigma, distance) == pytest.approx(1e-10, rel=1e-6)
    assert by_delta.guarantee.kind == "approximate"
    by_rho = ProjectedGaussian(BLOCKS, rho=0.5, neighbours=neighbours)
    assert by_rho.sigma == pytest.approx(distance)
    assert by_rho.guarantee.kind == "zcdp"
    by_mu = ProjectedGaussian(BLOCKS, mu=2.0, neighbours=neighbours)
    assert by_mu.sigma == pytest.approx(distance / 2.0)
    assert by_mu.guarantee.kind == "gdp"
    assert by_mu.guarantee.parameters == pytest.approx({"mu": 2.0, "sensitivity": distance})
    neighbours_row, row = by_mu.guarantee.pairs
    # The noise lies in what the totals leave free, and hides no more of a neighbour than lies there: by dense algebra.
    a = BLOCKS.matrix.toarray().astype(float)
    free = np.eye(a.shape[1]) - np.linalg.pinv(a) @ a
    steps = free if neighbours == "add-remove" else (free[:, None] - free[None]).reshape(-1, len(free))
    left = np.linalg.norm(steps, axis=1).max()
    assert neighbours_row.size == pytest.approx(left)
    assert neighbours_row.loss == pytest.approx({"mu": 2.0 * left / distance})
    assert row.loss["mu"] == pytest.approx(math.sqrt(2) / by_mu.sigma)
    assert "subspace differential privacy" in str(by_mu.guarantee).replace("\n    ", " ")
    assert by_mu.guarantee.sampler == "exact"


STATE = "state the loss by rho= or epsilon= and delta=, and by one of these only; got "


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: LatticeLaplace(BLOCKS, epsilon=0),
            ValueError,
            "epsilon must be a finite number greater than 0, got 0",
        ),
        (lambda: LatticeLaplace(BLOCKS, epsilon=float("nan")), ValueError, "epsilon must be a finite number"),
        (lambda: LatticeLaplace(BLOCKS, epsilon="1"), TypeError, "epsilon must be a positive real number, got '1'"),
        (
            lambda: LatticeLaplace(BLOCKS, epsilon=1.0, norm="l3"),
            ValueError,
            "norm must be one of 'l1', 'l2', got 'l3'",
        ),
        (
            lambda: LatticeLaplace(BLOCKS, epsilon=1.0, sensitivity=-1),
            ValueError,
            "sensitivity must be a finite number",
        ),
        (lambda: LatticeLaplace(BLOCKS, epsilon=1.0, sweeps=0), ValueError, "sweeps must be an integer greater than 0"),
        (lambda: LatticeGaussian(BLOCKS), ValueError, STATE + "none"),
        (lambda: LatticeGaussian(BLOCKS, epsilon=1.0), ValueError, STATE + "epsilon"),
        (lambda: LatticeGaussian(BLOCKS, rho=0.1, epsilon=1.0, delta=0.1), ValueError, STATE + "rho, epsilon, delta"),
        (lambda: LatticeGaussian(BLOCKS, rho=-0.1), ValueError, "rho must be a finite number greater than 0"),
        (
            lambda: LatticeGaussian(BLOCKS, epsilon=1.0, delta=1.0),
            ValueError,
            "delta must lie strictly between 0 and 1",
        ),
        (lambda: ProjectedGaussian(BLOCKS, mu=1.0, rho=1.0), ValueError, "state the loss by .* or mu=, .* got rho, mu"),
        (lambda: ProjectedGaussian(BLOCKS, mu=float("inf")), ValueError, "mu must be a finite number"),
        (
            lambda: ProjectedGaussian(BLOCKS, mu=1.0, neighbours="swap"),
            ValueError,
            "neighbours must be one of 'substitution', 'add-remove', got 'swap'",
        ),
    ],
)
def test_bad_privacy_parameters_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()

"""Mechanisms of integer noise: what they protect, worked out from the masses; unbiasedness and exact tails.

Masses on lattices are enumerated over boxes that leave out less than 1e-12; draws are 40,000 from a fixed seed; chi-squares reject
a correct sampler with probability 1e-5 each."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats
from scipy.special import logsumexp

import bayesdp as bdp
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import DiscreteGaussian, DiscreteLaplace, LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.moves.basis import kernel_basis
from bayesdp.noise.secure import statement
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    SamplerStatement,
    discrete_gaussian_delta,
    gaussian_delta,
    rho_to_delta,
)
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


TABLE = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
X = np.array([[20, 10], [5, 1]])
COUNTY = Margins(TABLE, ["county"])
BOTH = Margins(TABLE, ["county"], ["education"])
WEIGHTED = LinearQuery(TABLE, [[1, 2, 0, 0]], ["weighted"])

MECHANISMS = [
    DiscreteLaplace(TABLE, 0.5),
    DiscreteLaplace(COUNTY, 0.5, neighbours="add-remove"),
    DiscreteLaplace(WEIGHTED, 0.3),
    DiscreteGaussian(BOTH, rho=0.1),
    DiscreteGaussian(TABLE, epsilon=1.0, delta=1e-6, neighbours="add-remove"),
    DiscreteGaussian(COUNTY, epsilon=1.0, delta=1e-6),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_what_is_said_of_a_release_and_of_a_simulation(mechanism):
    release, simulated = mechanism.release(X), mechanism.release(X, rng=1)
    assert release.exact == ()
    assert release.guarantee.certified
    assert release.guarantee.determined_cells == ()
    assert statement() in release.guarantee.caveats
    assert FLOATING_POINT_CAVEAT not in release.guarantee.caveats
    assert FLOATING_POINT_CAVEAT in simulated.guarantee.caveats
    # Before a release nothing is recorded of determined cells; without exact answers there are none.
    assert release.guarantee == replace(mechanism.guarantee, determined_complete=True)
    with pytest.raises(ValueError, match="always drawn exactly"):
        mechanism.release(X, method="mcmc")


def changes(query, neighbours: str) -> np.ndarray:
    """What neighbouring tables change of the answers, all of them."""
    unit = np.eye(4, dtype=np.int64)
    if neighbours == "add-remove":
        cells = [*unit, *-unit]
    else:
        cells = [a - b for a in unit for b in unit if (a != b).any()]
    return np.array([query.apply(u.reshape(2, 2)).ravel() for u in cells])


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("query", [Totals(TABLE), COUNTY, BOTH, WEIGHTED], ids=["total", "county", "both", "weighted"])
def test_laplace_keeps_its_epsilon_and_spends_all_of_it(query, neighbours):
    if query.rows == 1 and neighbours == "substitution" and query != WEIGHTED:
        with pytest.raises(ValueError, match="nothing for the noise to hide"):
            DiscreteLaplace(query, 0.7, neighbours=neighbours)
        return
    mechanism = DiscreteLaplace(query, 0.7, neighbours=neighbours)
    # The ratio of two such masses is largest far out on the side of the change: its logarithm is |u|_1 / b there.
    losses = [
        mechanism.law.logp(np.sign(u) * 50, np.zeros_like(u)) - mechanism.law.logp(np.sign(u) * 50, -u)
        for u in changes(query, neighbours)
    ]
    assert max(losses) == pytest.approx(0.7, abs=1e-12)
    assert Fraction(mechanism.law.b) * Fraction(0.7) >= Fraction(mechanism.sensitivity)  # exactly, not up to rounding


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1 / 3, 0.7, 1e-3, 3.3])
def test_the_scale_is_never_rounded_down(epsilon):
    b = DiscreteLaplace(TABLE, epsilon).law.b
    assert Fraction(2) <= Fraction(b) * Fraction(epsilon) <= Fraction(2) * (1 + Fraction(1, 2**51))


def renyi(sigma: float, u: np.ndarray, order: float) -> float:
    """Renyi divergence of two discrete Gaussian vectors shifted by u, by summation."""
    k = np.arange(-100, 101)
    normaliser = logsumexp(-(k**2) / (2 * sigma**2))
    total = 0.0
    for shift in u:
        own, other = -(k**2) / (2 * sigma**2) - normaliser, -((k - shift) ** 2) / (2 * sigma**2) - normaliser
        total += float(logsumexp(order * own + (1 - order) * other)) / (order - 1)
    return total


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("query", [COUNTY, BOTH, WEIGHTED], ids=["county", "both", "weighted"])
def test_gaussian_meets_its_renyi_divergences(query, neighbours):
    mechanism = DiscreteGaussian(query, rho=0.2, neighbours=neighbours)
    found = [renyi(mechanism.sigma, u, order) / order for u in changes(query, neighbours) for order in (1.5, 2.0, 4.0)]
    assert max(found) == pytest.approx(0.2, rel=1e-6)


def test_gaussian_with_the_exact_profile():
    mechanism = DiscreteGaussian(COUNTY, epsilon=1.0, delta=0.0072487768, neighbours="add-remove")
    assert mechanism.sigma == pytest.approx(2.0, abs=1e-8)  # checks.md
    assert discrete_gaussian_delta(1.0, mechanism.sigma) <= 0.0072487768 * (1.0 + 1e-14)  # up to rounding of the sums
    (row,) = mechanism.guarantee.pairs
    assert row.loss["epsilon"] <= 1.0
    assert row.loss["epsilon"] == pytest.approx(1.0)
    converted = DiscreteGaussian(COUNTY, epsilon=1.0, delta=1e-6)  # two answers change: by way of zCDP
    assert converted.guarantee.pairs[0].loss["epsilon"] <= 1.0 + 1e-9
    assert (
        converted.sigma
        > math.sqrt(2.0) * DiscreteGaussian(COUNTY, epsilon=1.0, delta=1e-6, neighbours="add-remove").sigma
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DiscreteLaplace(TABLE, 0.0), ValueError, "epsilon must be a finite number greater than 0"),
        (lambda: DiscreteLaplace(TABLE, 1.0, neighbours="swap"), ValueError, "neighbours must be"),
        (lambda: DiscreteLaplace(COUNTY, 1.0, query=BOTH), ValueError, "give the query once"),
        (lambda: DiscreteLaplace(TABLE, 1.0, query="county"), TypeError, "query must be Identity"),
        (lambda: DiscreteLaplace(TABLE, 1.0, query=Totals({"a": [1, 2]})), ValueError, "about the same table"),
        (lambda: DiscreteLaplace(Invariants(COUNTY), 1.0), ValueError, "for invariants there is LatticeLaplace"),
        (lambda: DiscreteGaussian(Invariants(COUNTY), 1.0), ValueError, "for invariants there is LatticeGaussian"),
        (lambda: DiscreteGaussian(TABLE, rho=1.0, delta=0.1), ValueError, "state the loss by rho"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_labels_may_come_from_anything_that_has_them():
    assert (
        DiscreteLaplace(Frame.of(TABLE), 0.5)
        == DiscreteLaplace(TABLE, 0.5)
        == DiscreteLaplace(Frame.of(TABLE).data_array(X), 0.5)
    )


LINE = {"cell": list("abc")}
PAIRS = {"row": ["p", "q"], "column": ["x", "y", "z"]}
OVERLAP = bdp.LinearQuery({"cell": list("abcd")}, [[1, 1, 0, 0], [0, 1, 1, 1]], ["ab", "bcd"])
CASES = {
    "total": (bdp.Totals(LINE), 46),
    "both margins": (bdp.Margins(PAIRS, ["row"], ["column"]), 26),
    "overlapping totals": (OVERLAP, 26),
}
LEVEL = 1e-5
DRAWS = 40_000


def lattice(query, reach):
    """All integer vectors with entries up to `reach` that the query does not see."""
    invariants = bdp.Invariants(query)
    basis = kernel_basis(invariants).toarray()
    found = []
    for coefficients in itertools.product(range(-2 * reach, 2 * reach + 1), repeat=len(basis)):
        z = np.asarray(coefficients) @ basis
        if np.max(np.abs(z)) <= reach:
            found.append(z)
    return np.unique(np.array(found), axis=0)


def steps(points):
    """The shortest differences between tables: up to six moves of a record."""
    size = np.abs(points).sum(axis=1)
    return points[(size > 0) & (size <= 8)]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", CASES)
def test_the_largest_log_ratio_is_epsilon_times_the_distance(name, norm):
    query, reach = CASES[name]
    mechanism = bdp.LatticeLaplace(query, epsilon=0.9, norm=norm)
    points = lattice(query, min(reach, 14))
    order = 1 if norm == "l1" else 2

    def log_mass(z):
        return -mechanism.law.epsilon * np.linalg.norm(z, ord=order, axis=-1)

    shape = mechanism.frame.shape
    some = points[:: max(len(points) // 20, 1)]
    for z in some:  # the same differences as the library's own log-mass
        theirs = mechanism.logp(z.reshape(shape) + 20, np.full(shape, 20)) - mechanism.logp(
            np.full(shape, 20), np.full(shape, 20)
        )
        assert theirs == pytest.approx(float(log_mass(z)), abs=1e-9)
    for u in steps(points):
        ratios = log_mass(points) - log_mass(points - u)
        assert ratios.max() == pytest.approx(0.9 * np.linalg.norm(u, ord=order), abs=1e-9)
    for row in mechanism.guarantee.pairs:
        assert row.loss["epsilon"] == pytest.approx(0.9 * row.size)


@pytest.mark.parametrize("name", CASES)
def test_gaussian_noise_meets_its_renyi_divergences(name):
    query, reach = CASES[name]
    mechanism = bdp.LatticeGaussian(query, rho=0.125)
    sigma = mechanism.law.sigma
    points = lattice(query, reach)
    log_weight = -(points**2).sum(axis=1) / (2 * sigma**2)
    log_mass = log_weight - special.logsumexp(log_weight)
    total = special.logsumexp(log_weight)
    for u in steps(points)[::7]:
        moved = -((points - u) ** 2).sum(axis=1) / (2 * sigma**2) - total
        for order in (1.25, 2.0, 5.0):
            divergence = special.logsumexp(order * log_mass + (1 - order) * moved) / (order - 1)
            assert divergence <= order * (u @ u) / (2 * sigma**2) + 1e-9
    smallest = min(steps(points), key=lambda u: u @ u)
    moved = -((points - smallest) ** 2).sum(axis=1) / (2 * sigma**2) - total
    divergence = special.logsumexp(2.0 * log_mass - moved)
    assert divergence > 0.9 * (smallest @ smallest) / sigma**2


@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian"])
@pytest.mark.parametrize("name", CASES)
def test_unbiased_with_the_exact_tails(name, kind):
    query, reach = CASES[name]
    mechanism = (
        bdp.LatticeGaussian(query, rho=0.125)
        if kind == "gaussian"
        else bdp.LatticeLaplace(query, epsilon=0.9, norm=kind)
    )
    points = lattice(query, reach)
    order = 1 if kind == "l1" else 2
    size = np.linalg.norm(points, ord=order, axis=1)
    mass = special.softmax(-(size**2) / (2 * mechanism.law.sigma**2) if kind == "gaussian" else -0.9 * size)
    draws = mechanism.noise(np.random.default_rng(5), size=DRAWS).reshape(DRAWS, -1)
    sd = np.sqrt(mass @ points.astype(float) ** 2)
    z = draws.mean(axis=0) / (sd / np.sqrt(DRAWS))
    assert np.max(np.abs(z)) < stats.norm.isf(LEVEL / (2 * len(z)))
    drawn = np.linalg.norm(draws, ord=order, axis=1)
    for quantile in (0.5, 0.1, 0.01):
        edge = np.sort(size)[np.searchsorted(np.cumsum(mass[np.argsort(size)]), 1 - quantile)] + 1e-9
        tail = float(mass[size > edge].sum())
        seen = int((drawn > edge).sum())
        assert stats.binomtest(seen, DRAWS, tail).pvalue > LEVEL

"""Mechanisms of integer noise: what they protect, worked out from the masses; noise by the law at the stated scale."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import DiscreteGaussian, DiscreteLaplace, LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.noise.secure import statement
from bayesdp.privacy import FLOATING_POINT_CAVEAT, SamplerStatement, gaussian_delta, rho_to_delta, smooth_gaussian_delta
from bayesdp.privacy import discrete_gaussian_delta as exact_delta
from bayesdp.privacy.caveats import Smooth
from bayesdp.privacy.sensitivities.kept import kept_differences
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.fibers.moves.test_basis import NESTED
from tests.lattices import oracles
from tests.lattices.oracles import BLOCKS, GENERAL, LOOSE, labels, lattice_points, law_on, one_way
from tests.privacy.sensitivities.databases import neighbours_of
from tests.refusals import refused

OVERLAP = Invariants(LinearQuery({"cell": list("abcd")}, [[1, 1, 0, 0], [0, 1, 1, 1]], ["ab", "bcd"]))
SQUARE, CYCLE, MOVED = (4.0, 2.0), (6.0, math.sqrt(6)), (2.0, math.sqrt(2))


@pytest.mark.parametrize(
    ("invariants", "sizes"),
    [
        (one_way(2, 2), [SQUARE]),
        (one_way(3, 3), [SQUARE, CYCLE]),
        (one_way(2, 2, 2), [SQUARE]),  # a factor of two labels in every split, so no 3-cycle along it
        (oracles.two_way_margins(3, 3, 3), [(8.0, math.sqrt(8))]),
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


def test_general_invariants_have_a_smallest_change_where_they_are_small():
    assert ["smallest change found" in own.relation for own in kept_differences(GENERAL)] == [True]
    assert kept_differences(Invariants(LinearQuery(labels(500), [range(1, 501)], ["weighted"]))) == ()


def test_lattice_laplace_states_the_loss_of_each_pair_and_the_sensitivity():
    guarantee = LatticeLaplace(one_way(3, 3), epsilon=0.25).guarantee
    assert (guarantee.kind, guarantee.parameters, guarantee.unit) == ("pure", {"epsilon": 0.25}, "l1")
    assert [row.loss["epsilon"] for row in guarantee.pairs] == [1.0, 1.5]
    assert (guarantee.sampler, guarantee.simulated) == ("exact", False)
    large = LatticeLaplace(one_way(14, 14), epsilon=0.25).guarantee  # hardly a try would be kept
    assert large.sampler == SamplerStatement("Gibbs", 1000)
    text = " ".join(str(guarantee).split())
    assert "binary64" in text
    assert "not a cryptographic one" in text
    # The sensitivity rescales the noise and is stated.
    mechanism = LatticeLaplace(one_way(2, 2), epsilon=1.0, sensitivity=4.0)
    assert (mechanism.rate, mechanism.law.epsilon) == (0.25, 0.25)
    assert mechanism.guarantee.parameters == {"epsilon": 1.0, "sensitivity": 4.0}
    assert [row.loss["epsilon"] for row in mechanism.guarantee.pairs] == [1.0]
    gaussian = LatticeGaussian(one_way(2, 2), rho=0.5, sensitivity=2.0)
    assert (gaussian.sigma, [row.loss["rho"] for row in gaussian.guarantee.pairs]) == (2.0, [0.5])


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("invariants", [one_way(2, 3), OVERLAP], ids=["margins", "overlapping totals"])
def test_the_largest_log_ratio_is_that_of_the_stated_pairs(invariants, norm):
    mechanism, order = LatticeLaplace(invariants, epsilon=0.9, norm=norm), {"l1": 1, "l2": 2}[norm]
    points = lattice_points(invariants.matrix.toarray(), 8)
    shape, log_mass = mechanism.frame.shape, -0.9 * np.linalg.norm(points, ord=order, axis=1)
    at_zero = mechanism.logp(np.full(shape, 20), np.full(shape, 20))
    for z, own in list(zip(points, log_mass, strict=True))[:: len(points) // 20]:
        assert mechanism.logp(z.reshape(shape) + 20, np.full(shape, 20)) - at_zero == pytest.approx(own, abs=1e-9)
    for row, kept in zip(mechanism.guarantee.pairs, kept_differences(invariants), strict=True):
        u = next(z for z in points if np.abs(z).sum() == kept.l1 and z @ z == pytest.approx(kept.l2**2))
        moved = -0.9 * np.linalg.norm(points - u, ord=order, axis=1)
        assert row.loss["epsilon"] == pytest.approx(np.abs(moved - log_mass).max())


def test_lattice_gaussian_keeps_its_approximate_promise():
    """The exact profile of the law on the lattice is within the (epsilon, delta) that was asked for."""
    invariants = one_way(2, 3)
    mechanism = LatticeGaussian(invariants, epsilon=1.0, delta=1e-3, sensitivity=2.0)
    [smooth] = [
        own for own in mechanism.guarantee.caveats if isinstance(own, Smooth)
    ]  # epsilon for each unit of the distance
    assert (smooth.epsilon, smooth.delta) == (0.5, pytest.approx(smooth_gaussian_delta(0.5, mechanism.sigma)))
    points = lattice_points(invariants.matrix.toarray(), 40)
    mass = law_on(points, "gaussian", mechanism.sigma)
    moved = {tuple(p): m for p, m in zip((points + np.array([1, -1, 0, -1, 1, 0])).tolist(), mass, strict=True)}
    other = np.array([moved.get(tuple(p), 0.0) for p in points.tolist()])
    assert 1e-5 < np.maximum(mass - math.e * other, 0.0).sum() < 1e-3
    guarantee = mechanism.guarantee
    assert guarantee.kind == "approximate"
    assert guarantee.parameters == {"epsilon": 1.0, "delta": 1e-3, "sensitivity": 2.0}
    loss = guarantee.pairs[0].loss
    assert rho_to_delta(loss["rho"], 1.0) == pytest.approx(1e-3)
    # The row states the exact profile: at its epsilon the enumerated delta is the one that was asked for.
    assert loss["epsilon"] < 0.9
    assert np.maximum(mass - math.exp(loss["epsilon"]) * other, 0.0).sum() == pytest.approx(1e-3, rel=1e-6)


@pytest.mark.parametrize(("neighbours", "distance"), [("substitution", math.sqrt(2)), ("add-remove", 1.0)])
def test_projected_gaussian_is_calibrated_for_its_neighbours(neighbours, distance):
    by_delta = ProjectedGaussian(BLOCKS, epsilon=1.0, delta=1e-10, neighbours=neighbours)
    by_rho, by_mu = (ProjectedGaussian(BLOCKS, **own, neighbours=neighbours) for own in ({"rho": 0.5}, {"mu": 2.0}))
    assert gaussian_delta(1.0, by_delta.sigma, distance) == pytest.approx(1e-10, rel=1e-6)
    assert (by_rho.sigma, by_mu.sigma) == pytest.approx((distance, distance / 2.0))
    assert [own.guarantee.kind for own in (by_delta, by_rho, by_mu)] == ["approximate", "zcdp", "gdp"]
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


TABLE = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
X = np.array([[20, 10], [5, 1]])
COUNTY, BOTH = Margins(TABLE, ["county"]), Margins(TABLE, ["county"], ["education"])
WEIGHTED = LinearQuery(TABLE, [[1, 2, 0, 0]], ["weighted"])
NORMAL = DiscreteGaussian(TABLE, epsilon=1.0, delta=1e-6, neighbours="add-remove")


@pytest.mark.parametrize("mechanism", [DiscreteLaplace(COUNTY, 0.5), NORMAL], ids=repr)
def test_what_is_said_of_a_release_and_of_a_simulation(mechanism):
    release, simulated = mechanism.release(X), mechanism.release(X, rng=1)
    assert (release.exact, release.guarantee.certified) == ((), True)
    assert statement() in release.guarantee.caveats
    assert FLOATING_POINT_CAVEAT not in release.guarantee.caveats
    assert FLOATING_POINT_CAVEAT in simulated.guarantee.caveats
    # Before a release nothing is recorded of determined cells; without exact answers there are none.
    assert release.guarantee == replace(mechanism.guarantee, determined_complete=True)


def changes(query, neighbours):
    """What neighbouring tables change of the answers, all of them."""
    return np.array([query.apply(u.reshape(2, 2)).ravel() for u in neighbours_of(4, neighbours)])


WAYS = list(product([COUNTY, BOTH, WEIGHTED], ["substitution", "add-remove"]))


@pytest.mark.parametrize(("query", "neighbours"), WAYS)
def test_laplace_keeps_its_epsilon_and_spends_all_of_it(query, neighbours):
    mechanism = DiscreteLaplace(query, 0.7, neighbours=neighbours)
    # The ratio of two such masses is largest far out on the side of the change: its logarithm is |u|_1 / b there.
    far = [(50 * np.sign(u), u) for u in changes(query, neighbours)]
    losses = [mechanism.law.logp(y, 0 * u) - mechanism.law.logp(y, -u) for y, u in far]
    assert max(losses) == pytest.approx(0.7, abs=1e-12)
    # The scale is exactly enough, not up to rounding, and hardly more.
    for epsilon in (0.7, 0.1, 0.3, 1 / 3, 1e-3, 3.3):
        b = Fraction(DiscreteLaplace(query, epsilon, neighbours=neighbours).law.b)
        spent = b * Fraction(epsilon) / Fraction(mechanism.sensitivity)
        assert 1 <= spent <= 1 + Fraction(1, 2**51)


def renyi(sigma, u, order):
    """Renyi divergence of two discrete Gaussian vectors shifted by u, by summation."""
    k = np.arange(-100, 101)
    own = log_softmax(-(k**2) / (2 * sigma**2))
    each = [order * own + (1 - order) * log_softmax(-((k - shift) ** 2) / (2 * sigma**2)) for shift in u]
    return sum(logsumexp(one) for one in each) / (order - 1)


@pytest.mark.parametrize(("query", "neighbours"), WAYS)
def test_gaussian_meets_its_renyi_divergences(query, neighbours):
    mechanism = DiscreteGaussian(query, rho=0.2, neighbours=neighbours)
    found = [renyi(mechanism.sigma, u, order) / order for u in changes(query, neighbours) for order in (1.5, 2.0, 4.0)]
    assert max(found) == pytest.approx(0.2, rel=1e-6)


def test_gaussian_with_the_exact_profile():
    mechanism = DiscreteGaussian(COUNTY, epsilon=1.0, delta=0.0072487768, neighbours="add-remove")
    assert mechanism.sigma == pytest.approx(2.0, abs=1e-8)  # checks.md
    assert exact_delta(1.0, mechanism.sigma) <= 0.0072487768 * (1.0 + 1e-14)  # up to rounding of the sums
    (row,) = mechanism.guarantee.pairs
    assert row.loss["epsilon"] <= 1.0
    assert row.loss["epsilon"] == pytest.approx(1.0)
    one, two = (DiscreteGaussian(COUNTY, epsilon=1.0, delta=1e-6, neighbours=n) for n in ("add-remove", "substitution"))
    assert two.guarantee.pairs[0].loss["epsilon"] <= 1.0 + 1e-9  # two answers change: by way of zCDP
    assert two.sigma > math.sqrt(2.0) * one.sigma
    # Labels may come from anything that has them.
    own, frame = DiscreteLaplace(TABLE, 0.5), Frame.of(TABLE)
    assert DiscreteLaplace(frame, 0.5) == own == DiscreteLaplace(frame.data_array(X), 0.5)


@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian"])
def test_noise_follows_the_law_at_the_stated_scale(kind, make_rng):
    """Chi-square of 8,000 draws against the lattice, of which less than 1e-9 is left out."""
    mechanism, scale = LatticeGaussian(OVERLAP, rho=0.5, sensitivity=2.0), 2.0
    if kind != "gaussian":
        mechanism, scale = LatticeLaplace(OVERLAP, epsilon=2.7, norm=kind, sensitivity=2.0), 1.35
    points = lattice_points(OVERLAP.matrix.toarray(), 18)
    draws = mechanism.noise(make_rng(5), size=8_000).reshape(8_000, -1)
    assert oracles.pvalue(draws, points, law_on(points, kind, scale)) > 1e-5


STATE = "state the loss by rho= or epsilon= and delta=, and by one of these only; got "
test_bad_arguments_are_named = refused(
    (lambda: LatticeLaplace(BLOCKS, epsilon=0), "epsilon must be a finite number greater than 0, got 0"),
    (lambda: LatticeLaplace(BLOCKS, epsilon=float("nan")), "epsilon must be a finite number"),
    (lambda: LatticeLaplace(BLOCKS, epsilon="1"), "epsilon must be a positive real number, got '1'"),
    (lambda: LatticeLaplace(BLOCKS, epsilon=1.0, norm="l3"), "norm must be one of 'l1', 'l2', got 'l3'"),
    (lambda: LatticeLaplace(BLOCKS, epsilon=1.0, sensitivity=-1), "sensitivity must be a finite number"),
    (lambda: LatticeLaplace(BLOCKS, epsilon=1.0, sweeps=0), "sweeps must be an integer greater than 0"),
    (lambda: LatticeGaussian(BLOCKS), STATE + "none"),
    (lambda: LatticeGaussian(BLOCKS, epsilon=1.0), STATE + "epsilon"),
    (lambda: LatticeGaussian(BLOCKS, rho=0.1, epsilon=1.0, delta=0.1), STATE + "rho, epsilon, delta"),
    (lambda: LatticeGaussian(BLOCKS, rho=-0.1), "rho must be a finite number greater than 0"),
    (lambda: LatticeGaussian(BLOCKS, epsilon=1.0, delta=1.0), "delta must lie strictly between 0 and 1"),
    (lambda: ProjectedGaussian(BLOCKS, mu=1.0, rho=1.0), "state the loss by .* or mu=, .* got rho, mu"),
    (lambda: ProjectedGaussian(BLOCKS, mu=float("inf")), "mu must be a finite number"),
    (lambda: ProjectedGaussian(BLOCKS, mu=1.0, neighbours="swap"), "must be one of 'substitution', 'add-remove', got 'swap'"),
    (lambda: DiscreteLaplace(TABLE, 0.0), "epsilon must be a finite number greater than 0"),
    (lambda: DiscreteLaplace(TABLE, 1.0, neighbours="swap"), "neighbours must be"),
    (lambda: DiscreteLaplace(Totals(TABLE), 0.7), "nothing for the noise to hide"),
    (lambda: DiscreteLaplace(COUNTY, 1.0, query=BOTH), "give the query once"),
    (lambda: DiscreteLaplace(TABLE, 1.0, query="county"), "query must be Identity"),
    (lambda: DiscreteLaplace(TABLE, 1.0, query=Totals({"a": [1, 2]})), "about the same table"),
    (lambda: DiscreteLaplace(Invariants(COUNTY), 1.0), "for invariants there is LatticeLaplace"),
    (lambda: DiscreteGaussian(Invariants(COUNTY), 1.0), "for invariants there is LatticeGaussian"),
    (lambda: DiscreteGaussian(TABLE, rho=1.0, delta=0.1), "state the loss by rho"),
    (lambda: DiscreteLaplace(TABLE, 1.0).release(X, method="mcmc"), "always drawn exactly"),
)  # fmt: skip

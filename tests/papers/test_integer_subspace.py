"""The sampler of integer subspace differential privacy: steps along a basis, coupled chains, certificates, against true distances."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom

from bayesdp._numba import seed_state
from bayesdp.mechanisms import LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.papers import integer_subspace as s
from bayesdp.papers.integer_subspace import BasisLaw, certify, couple, draw_basis_gibbs, upper_limits
from bayesdp.privacy import rho_to_epsilon
from bayesdp.queries import LinearQuery, Totals
from tests.lattices.oracles import CASES, LEVEL, labels, lattice_points, law_on, one_way, pvalue
from tests.papers.coupled_chains import Plane
from tests.refusals import refused

LAWS = [("l1", 1.0), ("l2", 1.7), ("gaussian", 1.1)]


def described(target, z):
    """The law of the step along the one vector of a basis, and what the kernels need to be told again."""
    pieces = s.new_pieces(target.widest)
    s.describe(target.arrays, 0, z, int(z @ z), pieces)
    return target.arrays, 0, z, pieces


@pytest.mark.parametrize("law", ["l1", "l2", "gaussian"])
def test_masses_of_steps_are_those_of_the_plain_sum(law, make_rng):
    rng, k = make_rng(1), np.arange(-400, 401)
    for trial in range(20):
        size = int(rng.integers(1, 7))
        # Ties, repeated knots, knots that are no integers, and vectors whose entries have a common sign.
        b = rng.integers(1, 5, size) * (rng.choice([-1, 1], size) if trial % 3 else 1)
        z = rng.integers(-12, 13, size)
        scale = float(rng.choice([0.3, 1.0, 4.0, 20.0] if law == "gaussian" else [0.15, 0.6, 1.5]))
        told = described(BasisLaw(sp.csr_array(b[None]), law, scale), z)
        moved = z + k[:, None] * b
        expected = law_on(moved, law, scale)
        found = np.exp([s.log_mass(int(j), *told) for j in k])
        if law == "gaussian":
            found /= found.sum()  # known up to a constant
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)
    # Two chains are compared by Gaussian masses: the constant must not depend on where the chain is.
    own, totals = BasisLaw(sp.csr_array([[1, -2]]), "gaussian", 0.9), []
    for z in ([0, 0], [1, 0], [2, 1], [7, -4]):
        totals.append(np.exp([s.log_mass(j, *described(own, np.array(z))) for j in range(-60, 61)]).sum())
    np.testing.assert_allclose(totals, totals[0], rtol=1e-12)


# 5 tests at the level LEVEL. Autocorrelation times are below 6 sweeps here, so that 40 sweeps from zero leave less than
# the tests can see.
@pytest.mark.parametrize(("case", "law"), [("3x3", 0), ("totals", 1), ("general", 2), ("3x3", 2), ("general", 1)])
def test_noise_follows_its_law(case, law, make_rng):
    (invariants, reach), (law, scale) = CASES[case], LAWS[law]
    points = lattice_points(invariants.matrix.toarray(), reach)
    draws = draw_basis_gibbs(BasisLaw.of(invariants, law, scale), make_rng(len(case)), chains=1000, thin=40)[:, 0]
    assert not np.any(invariants.matrix @ draws.T)
    assert pvalue(draws, points, law_on(points, law, scale)) > LEVEL


def test_one_long_chain_is_thinned_after_its_burn_in_and_extreme_scales(make_rng):
    target = BasisLaw.of(one_way(2, 3), "l1", 0.5)
    whole = draw_basis_gibbs(target, make_rng(3), draws=40)[0]
    thinned = draw_basis_gibbs(target, make_rng(3), draws=5, burn_in=10, thin=6)[0]
    np.testing.assert_array_equal(thinned, whole[15::6])
    for scale, size in ((1e-5, 4e5), (1e4, 0.0)):
        draws = draw_basis_gibbs(BasisLaw.of(one_way(3, 3), "l1", scale), make_rng(3), chains=400, thin=60)[:, 0]
        # Nearly continuous: ||z||_1 is Gamma(4, scale), mean 4 / scale and standard deviation 2 / scale.
        assert abs(np.abs(draws).sum(axis=1).mean() - size) <= 5 * 2 / scale / 20


COUPLED = pytest.mark.parametrize(("law", "scale"), [("l1", 0.8), ("l2", 1.0), ("gaussian", 1.3)])


class Pair:
    """Two coupled chains, as the kernel sees them."""

    def __init__(self, target, coordinates, rng):
        self.c = np.array(coordinates, dtype=np.int64)
        self.z = self.c @ target.basis.toarray()
        self.norms, self.arrays = (self.z**2).sum(axis=1), target.arrays
        self.pieces, self.generator = np.stack([s.new_pieces(target.widest)] * 2), seed_state(rng)

    def sweep(self):
        s.coupled_sweep(self.arrays, self.z, self.c, self.norms, self.pieces, self.generator)
        assert (self.norms == (self.z**2).sum(axis=1)).all()


# 6 tests at the level LEVEL.
@COUPLED
def test_each_of_two_coupled_chains_moves_as_it_would_alone(law, scale, make_rng):
    plane, rng = Plane(law, scale, 10), make_rng(3)
    target = BasisLaw(plane.basis, law, scale)
    starts, ends = np.array([[1, -1], [-1, 1]]), []
    for _ in range(2500):
        pair = Pair(target, starts, rng)
        pair.sweep()
        pair.sweep()
        ends.append(pair.z)
    assert (pair.z == pair.c @ target.basis.toarray()).all()
    two = np.linalg.matrix_power(plane.sweep(), 2)
    for i in range(2):
        at = int(np.flatnonzero((plane.coordinates == starts[i]).all(axis=1))[0])
        assert pvalue(np.array(ends)[:, i], plane.points, two[at]) > LEVEL


@pytest.mark.parametrize(("law", "scale"), [("l1", 0.3), ("l2", 0.4), ("gaussian", 3.0)])
def test_chains_that_have_met_stay_together(law, scale, make_rng):
    pair = Pair(BasisLaw.of(one_way(3, 4), law, scale), np.tile(np.arange(6), (2, 1)), make_rng(5))
    start = pair.z.copy()
    for _ in range(300):
        pair.sweep()
        assert (pair.z[0] == pair.z[1]).all()
    assert (pair.z != start).any()


@pytest.mark.parametrize("lag", [1, 15])
@COUPLED
def test_the_bound_is_above_the_true_distance(law, scale, lag, make_rng):
    plane = Plane(law, scale, 12)
    found = couple(BasisLaw(plane.basis, law, scale), make_rng(6), pairs=2000, lag=lag)
    truth = plane.distances(plane.sweep(), int(found.times[-1]) + 1)[found.times]
    assert min(truth[0], found.bound[0]) > 0.3
    # Five standard errors at every time; where no pair is apart any more, the true distance is small.
    assert (truth <= found.bound + 5 * found.standard_error + 5 / 2000).all()
    assert (np.minimum(found.bound, 1.0) <= found.upper).all()
    assert (np.diff(found.upper) <= 0).all()
    if lag == 15:
        # And not far above: the bound says something.
        assert found.sweeps_to(0.05) <= 3 * int(np.flatnonzero(truth <= 0.05)[0]) + 3


def test_the_bound_is_the_mean_of_its_definition_and_unknown_if_pairs_do_not_meet(make_rng):
    found = couple(BasisLaw.of(one_way(3, 3), "l1", 0.5), make_rng(7), pairs=500, lag=3)
    for i in (0, 1, len(found.times) // 2, -1):
        t = found.times[i]
        terms = np.array([max(0, math.ceil((int(tau) - 3 - int(t)) / 3)) for tau in found.meetings])
        assert found.bound[i] == pytest.approx(terms.mean())
        assert found.standard_error[i] == pytest.approx(terms.std() / math.sqrt(500))
    assert found.bound[-1] == 0 < found.bound[-2]
    assert found.sweeps_to(0.0) == found.meetings.max() - 3
    target = BasisLaw.of(one_way(4, 4), "l1", 0.25)
    found = couple(target, make_rng(10), pairs=300, lag=20, horizon=30)
    assert 0 < found.censored == (found.meetings == 0).sum() < len(found.meetings) == 300
    assert np.isnan([found.bound, found.standard_error]).all()
    assert (found.upper >= found.censored / 300).all()
    assert found.sweeps_to(0.5) is None


def test_meeting_times_in_one_dimension_and_of_a_4x4_table(make_rng):
    found = couple(BasisLaw.of(one_way(2, 2), "l1", 0.25), make_rng(8), pairs=1000, lag=2)
    assert set(found.meetings.tolist()) == {2, 3}
    assert found.times.tolist() == [0, 1]
    # At zero with probability tanh(2 * 0.25), so that this part of the pairs has met at once.
    assert abs((found.meetings == 2).mean() - 0.4621171573) < 4 * 0.5 / math.sqrt(1000)
    # Lattice notes, epsilon 0.25: a median of 7 sweeps, and 50 to 55 to a bound below 0.01; ranges are four standard errors wider.
    found = couple(BasisLaw.of(one_way(4, 4), "l1", 0.25), make_rng(9), pairs=1500, lag=50)
    assert 5 <= np.median(found.meetings - 50) <= 8
    assert 40 <= found.sweeps_to(0.01) <= 62


@pytest.mark.parametrize(("r", "lag"), [(0.5, 1), (0.9, 10), (0.99, 300)])
def test_upper_limits_fail_no_more_often_than_stated(r, lag, make_rng):
    # Geometric meeting times, for which the assumption holds and the bound is known. 150 experiments at 90%
    # confidence: more than `most` failures would be seen once in a thousand times at the stated rate.
    rng, experiments = make_rng(11), 150
    most = int(binom.ppf(0.999, experiments, 0.1))
    times = np.arange(0, 12 * math.ceil(-1 / math.log(r)), max(1, math.ceil(-0.2 / math.log(r))))
    # P(tau > t) = r ** (t - lag), so the bound at t is the sum over j of r ** (t + j lag - lag).
    truth = np.minimum(r**times / (1 - r**lag), 1.0)
    fails, early = np.zeros(len(times)), 0
    for _ in range(experiments):
        limits = upper_limits(lag + rng.geometric(1 - r, size=400), lag, 10**9, times, 0.9)
        fails += limits < truth
        below = np.flatnonzero(limits <= 0.05)
        early += bool(below.size) and truth[below[0]] > 0.05
    assert fails.max() <= most
    assert early <= most


def test_upper_limits_at_the_edges_and_that_they_never_increase():
    assert float(s.clopper_pearson(0, 50, 0.95)) == pytest.approx(1 - 0.05 ** (1 / 50))
    assert float(s.clopper_pearson(50, 50, 0.95)) == 1.0
    assert binom.cdf(3, 50, float(s.clopper_pearson(3, 50, 0.95))) == pytest.approx(0.05)
    assert s.least_limit(1000, 0.99) == pytest.approx(1 - 0.005 ** (1 / 800))
    # Nothing can be said from pairs that all were given up, or from very few.
    assert (upper_limits(np.zeros(100, dtype=np.int64), 5, 50, np.arange(9), 0.99) == 1).all()
    assert (upper_limits(np.array([6, 7]), 5, 50, np.arange(9), 0.99) == 1).all()
    # Without the running maximum these increase, where the last summand changes: at 22 and at 27 and 47.
    for rate in (0.05, 0.1):
        meetings = 20 + np.random.default_rng(20).geometric(rate, size=200)
        limits = upper_limits(meetings, 20, 10_000, np.arange(150), 0.99)
        assert np.all(np.diff(limits) <= 0)
        assert limits[0] > 0.8
        assert 0.0 < limits[-1] < 0.1


COUNTIES = {"county": ["Alpha", "Beta", "Gamma"]}


@pytest.mark.parametrize(("norm", "epsilon"), [("l1", 0.7), ("l2", 0.9)])
def test_the_true_distance_is_within_the_tolerance(norm, epsilon, make_rng):
    mechanism = LatticeLaplace(Totals(COUNTIES), epsilon=epsilon, norm=norm)
    certificate = certify(mechanism, 0.01, chains=5000, rng=make_rng(1))
    plane = Plane(norm, epsilon, 12)
    truth = plane.distances(plane.sweep(), certificate.sweeps + 1)
    assert truth[certificate.sweeps] <= certificate.tv_upper <= 0.01
    assert truth[1] > 0.01  # one sweep is not enough, and it does not say so
    assert certificate.tv_estimate <= certificate.tv_upper
    assert certificate.sweeps < 40
    # Noise of the certified chain, against the law after so many sweeps: 2 tests at LEVEL.
    draws = certificate.noise(make_rng(2), size=4000)
    law = np.linalg.matrix_power(plane.sweep(), certificate.sweeps)[plane.zero]
    assert pvalue(draws, plane.points, law) > LEVEL


def test_noise_has_as_many_sweeps_as_certified_and_the_certificate_says_that_it_is_an_estimate(make_rng):
    certificate = certify(LatticeLaplace(one_way(2, 3), epsilon=0.5), 0.05, chains=500, rng=make_rng(1))
    noise = certificate.noise(make_rng(2), size=7)
    assert noise.shape == (7, 2, 3)
    assert not noise.sum(axis=1).any() | noise.sum(axis=2).any()
    assert certificate.noise(size=0).shape == (0, 2, 3)
    (here,) = np.flatnonzero(certificate.bound.times == certificate.sweeps)
    assert certificate.bound.upper[here] == certificate.tv_upper
    assert here == 1 or certificate.bound.upper[here - 1] > 0.05
    mechanism = LatticeLaplace(Totals(COUNTIES), epsilon=0.7)
    own, wide, far = (certify(mechanism, 0.05, chains=500, largest=x, rng=make_rng(1)) for x in (None, 100.0, 1e6))
    assert str(own) == own.text
    assert own.text.startswith(f"Estimate, not a proof: after {own.sweeps} sweeps of Gibbs from zero")
    assert "99% confidence" in own.text
    assert "on top of 0;" in own.text
    assert "protects nothing" in wide.text
    assert math.isinf(far.delta_charge)


def test_charges_of_laplace_and_gaussian_noise(make_rng):
    mechanism = LatticeLaplace(one_way(3, 3), epsilon=0.5, sensitivity=2.0)
    own = certify(mechanism, 0.05, chains=1000, rng=make_rng(1))
    assert (own.largest, own.delta) == (6.0, 0.0)  # a 3-cycle
    assert own.epsilon == pytest.approx(0.25 * 6)
    assert own.delta_charge == pytest.approx((1 + math.exp(1.5)) * own.tv_upper)
    named = certify(mechanism, 0.05, chains=1000, largest=10.0, rng=make_rng(1))
    assert named.tv_upper == own.tv_upper
    assert named.delta_charge == pytest.approx((1 + math.exp(2.5)) * own.tv_upper)
    l2 = certify(LatticeLaplace(one_way(3, 3), epsilon=0.5, norm="l2"), 0.05, chains=1000, rng=make_rng(1))
    assert l2.epsilon == pytest.approx(0.5 * math.sqrt(6))
    stated = certify(LatticeGaussian(one_way(2, 3), rho=0.02), 0.05, chains=1000, delta=1e-5, rng=make_rng(1))
    assert (stated.largest, stated.delta) == (2.0, 1e-5)
    assert stated.epsilon == pytest.approx(rho_to_epsilon(0.02 * 4, 1e-5))
    assert stated.delta_charge == pytest.approx((1 + math.exp(stated.epsilon)) * stated.tv_upper)
    assert certify(BY_DELTA, 0.05, chains=1000, rng=make_rng(1)).delta == 1e-6


def test_tolerances_that_the_pairs_cannot_support_are_refused(make_rng):
    mechanism = LatticeLaplace(one_way(3, 3), epsilon=0.5)
    message = r"even if none stayed apart, the upper limit would be 0\.0066; use at least chains=(\d+)"
    with pytest.raises(ValueError, match=message) as caught:
        certify(mechanism, 0.001, chains=1000)
    needed = int(str(caught.value).rsplit("=", 1)[1])
    assert certify(mechanism, 0.0015, chains=needed, rng=make_rng(1)).tv_upper <= 0.0015


BASIS = sp.csr_array([[1, -1]])
SMALL = BasisLaw.of(one_way(2, 3), "l1", 0.5)
LAPLACE = LatticeLaplace(Totals(COUNTIES), epsilon=0.5)
BY_RHO, BY_DELTA = LatticeGaussian(one_way(2, 3), rho=0.02), LatticeGaussian(one_way(2, 3), epsilon=0.5, delta=1e-6)
WEIGHTED = LinearQuery(labels(450), [range(1, 451)], ["weighted"])
RNG = np.random.default_rng
test_bad_arguments_are_named = refused(
    (lambda: BasisLaw(BASIS, "l3", 1.0), "'l1', 'l2', 'gaussian', got 'l3'"),
    (lambda: BasisLaw(BASIS.astype(float), "l1", 1.0), "basis must hold integers"),
    (lambda: BasisLaw(sp.csr_array([[1, -1], [0, 0]]), "l1", 1.0), "no vector that is zero"),
    (lambda: BasisLaw(BASIS, "l1", 1e-9), r"below 2\*\*29, got 1e-09"),
    (lambda: BasisLaw(BASIS, "l2", 1e-4), r"at least 0\.0012 for 'l2' noise on 2 cells"),
    (lambda: draw_basis_gibbs(BasisLaw(BASIS, "l1", 1.0), RNG(1), chains=0), "chains"),
    (lambda: s.meeting_times(SMALL, RNG(1), pairs=10, lag=9, horizon=9), "more sweeps than the lag of 9, got 9"),
    (lambda: couple(SMALL, RNG(1), pairs=10, lag=2, confidence=1.0), "confidence must lie strictly between 0 and 1"),
    (lambda: s.suggest_lag(BasisLaw.of(one_way(4, 4), "l1", 0.25), RNG(10), horizon=5),
     "of 200 pairs of chains have not met within 5 sweeps"),
    (lambda: certify(ProjectedGaussian(Totals(COUNTIES), rho=0.1), 0.05), "LatticeLaplace or LatticeGaussian.*got Projected"),
    (lambda: certify(LAPLACE, 0.0), "tolerance must lie strictly between 0 and 1"),
    (lambda: certify(LAPLACE, 0.05, delta=1e-6), "delta must not be given for Laplace noise"),
    (lambda: certify(LAPLACE, 0.05, largest=0.0), "largest must be a finite number greater than 0"),
    (lambda: certify(LatticeLaplace(WEIGHTED, epsilon=0.5), 0.05), "largest must be given"),
    (lambda: certify(BY_DELTA, 0.05, delta=1e-6), "Gaussian noise that is stated by rho, and only for that"),
    (lambda: certify(BY_RHO, 0.05), "delta must be given for Gaussian noise"),
    # Enough if all pairs met at once, but they do not.
    (lambda: certify(LatticeLaplace(one_way(3, 3), epsilon=0.5), 0.0067, chains=1000, rng=RNG(1)),
     r"does not fall below 0\.0.*; about \d+ pairs could"),
    (lambda: certify(LatticeLaplace(one_way(4, 4), epsilon=0.05), 0.05, chains=300, lag=1, confidence=0.999, rng=RNG(1)),
     "does not fall below 1; try a longer lag"),
    (lambda: certify(LatticeLaplace(one_way(4, 4), epsilon=0.25), 0.1, chains=300, lag=30, horizon=40, rng=RNG(1)),
     "of 300 pairs of chains have not met within 40 sweeps: the bound is unknown"),
)  # fmt: skip

"""Laws of whole lattices: profiles at kept differences, tails of the norm, against enumeration."""

import math

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.invariants import Invariants
from bayesdp.noise import LatticeGaussian, LatticeLaplace
from bayesdp.noise.lattice.linear import LatticeProfile, lattice_pairs, lattice_profiles
from bayesdp.privacy import DIFFERENCES, Difference, discrete_gaussian_delta, gaussian_delta, rho_to_epsilon
from bayesdp.privacy.sensitivities.kept import kept_differences
from bayesdp.queries import Totals
from tests.comparison.enumeration import lattice_points
from tests.lattices.oracles import BLOCKS, CASES, GENERAL, law_on, one_way, two_way_margins

MOVE = np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]]).ravel()
CYCLE = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]]).ravel()
PROFILES = [
    (one_way(3, 3), "2x2 move", MOVE, 6, [1.0, 1.3]),
    (one_way(3, 3), "3-cycle", CYCLE, 6, [1.0, 1.3]),
    (one_way(2, 3), "2x2 move", np.array([1, -1, 0, -1, 1, 0]), 26, [1.0, 2.0, 3.0]),
    (bdp.Invariants(bdp.Totals({"c": list("abc")})), "substitution", np.array([1, -1, 0]), 30, [0.6, 1.0, 1.5, 3.0]),
    (bdp.Invariants(bdp.Totals({"c": list("abcd")})), "substitution", np.array([1, 0, -1, 0]), 16, [1.0, 1.8]),
]


@pytest.mark.parametrize(("invariants", "name", "u", "reach", "sigmas"), PROFILES)
def test_profiles_hold_what_enumeration_gives(invariants, name, u, reach, sigmas):
    points = lattice_points(invariants.matrix.toarray(), reach)
    for sigma in sigmas:
        mass, rho = law_on(points, "gaussian", sigma), 0.5 * (u @ u) / sigma**2
        [profile] = lattice_profiles(invariants, DIFFERENCES[name], sigma)
        loss = rho + points @ u / sigma**2
        for e in (0.0, 0.5, 1.5):
            exact = float((mass * np.maximum(-np.expm1(np.minimum(e - loss, 1.0)), 0.0)).sum())
            near = discrete_gaussian_delta(e, profile.scale, profile.shift)
            assert near * profile.spread <= exact * (1 + 1e-6) + 1e-9
            assert exact * profile.spread <= near * (1 + 1e-6) + 1e-9
        assert sigma < 3.0 or profile.spread > 0.9995
        epsilon = profile.epsilon(1e-3)
        assert epsilon <= rho_to_epsilon(rho, 1e-3) * (1 + 1e-12)
        assert float((mass * np.maximum(-np.expm1(np.minimum(epsilon - loss, 1.0)), 0.0)).sum()) <= 1e-3 * (1 + 1e-6)


@pytest.mark.parametrize(("invariants", "reach"), [CASES["2x3"], CASES["3x3"], CASES["totals"], (one_way(2, 2), 30)])
def test_the_stated_rho_is_kept_at_every_renyi_order_and_nearly_spent(invariants, reach):
    mechanism = bdp.LatticeGaussian(invariants, rho=0.125)
    points = lattice_points(invariants.matrix.toarray(), reach)
    mass = law_on(points, "gaussian", mechanism.law.sigma)
    for row, kept in zip(mechanism.guarantee.pairs, kept_differences(invariants), strict=True):
        u = next(z for z in points if np.abs(z).sum() == kept.l1 and z @ z == pytest.approx(kept.l2**2))
        loss = (u @ u + 2 * (points @ u)) / (2 * mechanism.law.sigma**2)  # the log-ratio of the masses of z and z + u
        for order in (1.25, 2.0, 5.0):
            divergence = np.log(mass @ np.exp((order - 1) * loss)) / (order - 1)
            assert 0.9 * order * row.loss["rho"] < divergence <= order * row.loss["rho"] * (1 + 1e-6)


def test_each_part_has_its_profile_a_line_that_of_its_discrete_gaussian_and_the_row_states_the_largest():
    [profile] = lattice_profiles(one_way(2, 2), DIFFERENCES["2x2 move"], 3.0)
    assert profile == LatticeProfile(1.5, 1, 1.0)
    assert discrete_gaussian_delta(profile.epsilon(1e-4), 1.5) == pytest.approx(1e-4)
    found = lattice_profiles(BLOCKS, DIFFERENCES["substitution"], 2.0)
    assert sorted(own.shift for own in found) == [1, 2]  # a pair of cells, and three cells
    [row] = lattice_pairs(BLOCKS, 2.0, kept_differences(BLOCKS), 1e-4)
    assert row.loss["epsilon"] == max(own.epsilon(1e-4) for own in found)
    assert row.loss["epsilon"] < rho_to_epsilon(row.loss["rho"], 1e-4)


def test_large_tables_and_three_ways():
    """From a scale of a few counts on, the profile in large tables is that of the discrete Gaussian, near the continuous one."""
    for invariants, sigma in ((one_way(60, 50), 5.0), (two_way_margins(3, 3, 3), 8.0)):
        for kind in kept_differences(invariants):
            [profile] = lattice_profiles(invariants, kind, sigma)
            assert profile.spread == pytest.approx(1.0, rel=1e-6)
            delta = discrete_gaussian_delta(1.0, profile.scale, profile.shift)
            assert delta == pytest.approx(gaussian_delta(1.0, sigma, kind.l2), rel=0.05)


def test_where_it_is_not_known_the_conversion_stays():
    assert lattice_profiles(GENERAL, DIFFERENCES["substitution"], 2.0) is None
    assert lattice_profiles(BLOCKS, DIFFERENCES["2x2 move"], 2.0) is None  # may be two substitutions in two blocks
    assert lattice_profiles(one_way(5, 5), Difference("eight cells", 8.0, math.sqrt(8.0)), 2.0) is None
    rows = lattice_pairs(GENERAL, 2.0, kept_differences(GENERAL), 1e-4)
    assert [row.loss["epsilon"] for row in rows] == [rho_to_epsilon(row.loss["rho"], 1e-4) for row in rows]


LAWS = {"l1": (LatticeLaplace(1.5), 1), "l2": (LatticeLaplace(2.5, "l2"), 2), "gaussian": (LatticeGaussian(0.9), 2)}


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("name", ["3x3", "totals", "loose", "general"])
def test_tails_of_the_norm_are_those_of_enumerated_noise(name, kind):
    (law, order), (invariants, reach) = LAWS[kind], CASES[name]
    points = lattice_points(invariants.matrix.toarray(), min(reach, 15 if name != "3x3" else 6))
    mass, norms = law_on(points, kind, getattr(law, law.scale_name)), np.linalg.norm(points, ord=order, axis=1)
    for t in (0.0, 1.0, math.sqrt(6.0), 4.0, 5.0):
        low, high = law.tail(t, invariants)
        own = mass[norms >= t * (1 - 1e-12)].sum()
        assert low <= own * (1 + 1e-6) + 1e-9
        assert own <= high * (1 + 1e-6) + 1e-9
        assert high - low <= 1e-9


def test_far_tails_keep_their_digits():
    """A pair of cells: geometric, by hand; 60 of them: the sum of 60 such sizes, by its generating function."""
    pair = Invariants(Totals({"c": ["a", "b"]}))
    low, high = LatticeLaplace(0.5).tail(600, pair)
    assert low == pytest.approx(2.0 * math.exp(-300.0) / (1.0 + math.exp(-1.0)), rel=1e-9, abs=0.0)
    assert high == pytest.approx(low, rel=1e-9, abs=0.0)
    wave, x = np.exp(2j * np.pi * np.arange(4096) / 4096), math.exp(-1.0)
    masses = np.fft.fft(((1 - x) / (1 + x) * (1 + x * wave) / (1 - x * wave)) ** 60).real / 4096
    sums = masses[(-np.arange(4096)) % 4096] if masses[1] < 0 else masses
    many = Invariants(Totals({"c": list(range(120)), "g": ("c", [i // 2 for i in range(120)])}, by="g"))
    for t in (100, 140):
        own = max(sums[t // 2 : 2000].sum(), masses[t // 2 : 2000].sum())
        assert LatticeLaplace(0.5).tail(t, many)[1] == pytest.approx(own, rel=1e-6)


def test_where_vectors_cannot_be_counted_the_bound_holds():
    """4 x 4 tables at sigma = 6: nine dimensions; 1000 exact draws, each comparison wrong with probability 1e-6."""
    invariants, law = one_way(4, 4), LatticeGaussian(6.0)
    draws = np.linalg.norm(law.noise(np.random.default_rng(5), 1000, invariants).reshape(1000, -1), axis=1)
    for t in (15.0, 20.0, 25.0, 30.0):
        low, high = law.tail(t, invariants)
        seen = int((draws >= t).sum())
        assert stats.binom.cdf(seen, 1000, low) > 1e-6
        assert stats.binom.sf(seen - 1, 1000, high) > 1e-6
    # Noise so wide is that of nine normal variables: the bound is within a factor of it that Theorem 12 leaves open.
    exact = stats.chi2.sf((45.0 / 6.0) ** 2, 9)
    assert exact < law.tail(45.0, invariants)[1] < 40.0 * exact
    with pytest.raises(ValueError, match="t must"):
        law.tail(-1.0, invariants)
    with pytest.raises(NotImplementedError, match="normaliser"):
        law.tail(3.0, one_way(9, 9))

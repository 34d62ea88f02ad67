"""Exact profiles of lattice Gaussian noise at kept differences, against the masses of enumerated lattices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.noise.lattice.linear import LatticeProfile, lattice_pairs, lattice_profiles
from bayesdp.privacy import (
    DIFFERENCES,
    Difference,
    discrete_gaussian_delta,
    gaussian_delta,
    rho_to_epsilon,
)
from bayesdp.sensitivities.kept import kept_differences
from tests.comparison.enumeration import lattice_points
from tests.lattices.oracles import BLOCKS, GENERAL, law_on, one_way, two_way_margins

MOVE = np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]]).ravel()
CYCLE = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]]).ravel()
CASES = [
    (one_way(3, 3), "2x2 move", MOVE, 6, [1.0, 1.3]),
    (one_way(3, 3), "3-cycle", CYCLE, 6, [1.0, 1.3]),
    (one_way(2, 3), "2x2 move", np.array([1, -1, 0, -1, 1, 0]), 26, [1.0, 2.0, 3.0]),
    (bdp.Invariants(bdp.Totals({"c": list("abc")})), "substitution", np.array([1, -1, 0]), 30, [0.6, 1.0, 1.5, 3.0]),
    (bdp.Invariants(bdp.Totals({"c": list("abcd")})), "substitution", np.array([1, 0, -1, 0]), 16, [1.0, 1.8]),
]


@pytest.mark.parametrize(("invariants", "name", "u", "reach", "sigmas"), CASES)
def test_profiles_hold_what_enumeration_gives(invariants, name, u, reach, sigmas) -> None:
    points = lattice_points(invariants.matrix.toarray(), reach)
    for sigma in sigmas:
        mass = law_on(points, "gaussian", sigma)
        [profile] = lattice_profiles(invariants, DIFFERENCES[name], sigma)
        loss = (u @ u + 2 * (points @ u)) / (2 * sigma**2)
        own = [float((mass * np.maximum(-np.expm1(np.minimum(e - loss, 1.0)), 0.0)).sum()) for e in (0.0, 0.5, 1.5)]
        discrete = [discrete_gaussian_delta(e, profile.scale, profile.shift) for e in (0.0, 0.5, 1.5)]
        for exact, near in zip(own, discrete, strict=True):
            assert near * profile.spread <= exact * (1 + 1e-6) + 1e-9
            assert exact * profile.spread <= near * (1 + 1e-6) + 1e-9
        assert sigma < 3.0 or profile.spread > 0.9995
        epsilon = profile.epsilon(1e-3)
        assert epsilon <= rho_to_epsilon(0.5 * (u @ u) / sigma**2, 1e-3) * (1 + 1e-12)
        assert float((mass * np.maximum(-np.expm1(np.minimum(epsilon - loss, 1.0)), 0.0)).sum()) <= 1e-3 * (1 + 1e-6)


def test_a_line_has_the_profile_of_its_discrete_gaussian() -> None:
    [profile] = lattice_profiles(one_way(2, 2), DIFFERENCES["2x2 move"], 3.0)
    assert profile == LatticeProfile(1.5, 1, 1.0)
    assert discrete_gaussian_delta(profile.epsilon(1e-4), 1.5) == pytest.approx(1e-4)


def test_each_part_has_its_profile_and_the_row_states_the_largest() -> None:
    found = lattice_profiles(BLOCKS, DIFFERENCES["substitution"], 2.0)
    assert sorted(own.shift for own in found) == [1, 2]  # a pair of cells, and three cells
    [row] = lattice_pairs(BLOCKS, 2.0, kept_differences(BLOCKS), 1e-4)
    assert row.loss["epsilon"] == max(own.epsilon(1e-4) for own in found)
    assert row.loss["epsilon"] < rho_to_epsilon(row.loss["rho"], 1e-4)


def test_large_tables_and_three_ways() -> None:
    """From a scale of a few counts on, the profile in large tables is that of the discrete Gaussian, near the continuous one."""
    large = one_way(60, 50)
    for kind in kept_differences(large):
        [profile] = lattice_profiles(large, kind, 5.0)
        assert profile.spread == pytest.approx(1.0, rel=1e-6)
        assert discrete_gaussian_delta(1.0, profile.scale, profile.shift) == pytest.approx(
            gaussian_delta(1.0, 5.0, kind.l2), rel=0.05
        )
    [kind] = kept_differences(two_way_margins(3, 3, 3))
    [profile] = lattice_profiles(two_way_margins(3, 3, 3), kind, 8.0)
    assert profile.spread == pytest.approx(1.0, rel=1e-6)
    assert discrete_gaussian_delta(1.0, profile.scale, profile.shift) == pytest.approx(
        gaussian_delta(1.0, 8.0, math.sqrt(8.0)), rel=0.05
    )


def test_where_it_is_not_known_the_conversion_stays() -> None:
    assert lattice_profiles(GENERAL, DIFFERENCES["substitution"], 2.0) is None
    assert lattice_profiles(BLOCKS, DIFFERENCES["2x2 move"], 2.0) is None  # may be two substitutions in two blocks
    assert lattice_profiles(one_way(5, 5), Difference("eight cells", 8.0, math.sqrt(8.0)), 2.0) is None
    rows = lattice_pairs(GENERAL, 2.0, kept_differences(GENERAL), 1e-4)
    assert [row.loss["epsilon"] for row in rows] == [rho_to_epsilon(row.loss["rho"], 1e-4) for row in rows]

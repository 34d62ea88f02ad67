"""Gram and Schmidt, nearest planes and Klein's sampler against enumeration, closed forms and another program."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp._random import seed_state
from bayesdp.invariants import Invariants
from bayesdp.lattices.gram_schmidt import (
    GramSchmidt,
    centred_gaussian,
    draw_klein,
    draw_nearest_plane,
    gram_schmidt,
    klein_acceptance,
    mass_ratio,
    nearest_plane_acceptance,
    normal,
)
from bayesdp.moves.basis import kernel_basis
from bayesdp.queries import LinearQuery, Totals
from tests.lattices.oracles import CASES, LEVEL, labels, lattice_points, law_on, one_way, pvalue, two_way_margins

SKEWED = Invariants(LinearQuery(labels(3), [[3, 5, 7]], ["weighted"]))


def orthogonalised(invariants: Invariants) -> GramSchmidt:
    found = gram_schmidt(invariants)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "invariants",
    [
        *(case for case, _ in CASES.values()),
        one_way(3, 5),
        one_way(2, 2, 3),
        two_way_margins(3, 4, 5),
        two_way_margins(2, 3, 4),
        SKEWED,
    ],
    ids=repr,
)
def test_the_triangle_orthogonalises_a_basis_of_the_lattice(invariants):
    found = orthogonalised(invariants)
    basis = found.basis.toarray().astype(float)
    lower = found.triangle.toarray() + np.eye(len(basis))
    assert not np.any(np.triu(found.triangle.toarray()))
    orthogonal = np.linalg.solve(lower, basis)
    np.testing.assert_allclose(orthogonal @ orthogonal.T, np.diag(found.lengths**2), atol=1e-10)
    # A basis of the whole lattice, not of a part of it: it changes no invariant, and has the right volume.
    assert not (invariants.matrix @ found.basis.T).toarray().any()
    other = kernel_basis(invariants).toarray().astype(float)
    assert np.log(found.lengths).sum() == pytest.approx(0.5 * np.linalg.slogdet(other @ other.T)[1], abs=1e-9)
    across = np.searchsorted(found.pieces, np.array(found.triangle.nonzero()), side="right")
    assert np.all(across[0] == across[1])


def test_squared_lengths_of_margins_in_closed_form():
    harmonic = np.cumsum(1 / np.arange(1, 20))
    found = orthogonalised(one_way(6, 4))
    assert (found.lengths**2).sum() == pytest.approx((5 + harmonic[4]) * (3 + harmonic[2]))
    assert orthogonalised(one_way(4, 4)).reach == pytest.approx(2.417, abs=5e-4)


# Eight tests at LEVEL: small scales by inversion, larger ones by rejection, centres on and off the integers.
@pytest.mark.parametrize("sigma", [0.2, 0.6, 1.4, 9.0])
@pytest.mark.parametrize("centre", [-3.0, 11.37])
def test_gaussian_around_a_centre(centre, sigma, make_rng):
    state = seed_state(make_rng(1))
    draws = np.array([[centred_gaussian(state, centre, sigma)] for _ in range(20000)])
    line = np.arange(-70, 90)
    mass = np.exp(-0.5 * ((line - centre) / sigma) ** 2)
    if (sigma, centre) == (0.2, -3.0):  # all but 7e-6 of the mass on one integer
        assert np.mean(draws == -3) > 0.999
    else:
        assert pvalue(draws, line[:, None], mass / mass.sum()) > LEVEL


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.4999, 0.5, 0.9, 1.4999, 1.5, 3.0])
def test_the_mass_around_a_centre(sigma):
    line = np.arange(-60, 61)
    for centre in [0.0, 0.2, 0.5, -0.77, 4.3]:
        ratio = np.exp(-0.5 * ((line - centre) / sigma) ** 2).sum() / np.exp(-0.5 * (line / sigma) ** 2).sum()
        assert mass_ratio(centre, sigma, np.exp(-2 * (np.pi * sigma) ** 2)) == pytest.approx(
            ratio, abs=1e-15, rel=1e-12
        )


def test_normal_draws_are_normal(make_rng):
    state = seed_state(make_rng(1))
    draws = np.array([normal(state) for _ in range(40000)])
    edges = [-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5]
    shares = np.diff([0, 0.0062096653, 0.0668072013, 0.3085375387, 0.5, 0.6914624613, 0.9331927987, 0.9937903347, 1])
    bins = np.searchsorted(edges, draws)[:, None]
    assert pvalue(bins, np.arange(8)[:, None], shares) > LEVEL


# Sixteen tests at LEVEL. Small scales, at which a tenth of Klein's draws is rejected.
@pytest.mark.parametrize("case", [*CASES, "skewed"])
@pytest.mark.parametrize("sigma", [0.6, 1.1])
def test_klein_follows_the_law(case, sigma, make_rng):
    invariants, reach = CASES.get(case, (SKEWED, 16))
    lattice, size = orthogonalised(invariants), 12000
    sigma = 3 * sigma if case == "skewed" else 0.8 if (case, sigma) == ("3x3x3", 0.6) else sigma
    draws, tries = draw_klein(lattice, sigma, make_rng(2), size)
    points = lattice_points(invariants.matrix.toarray(), reach)
    assert pvalue(draws, points, law_on(points, "gaussian", sigma)) > LEVEL
    # The bound is on the worst piece; tries count all pieces.
    assert size * (len(lattice.pieces) - 1) / tries > klein_acceptance(lattice, sigma) - 0.02


def test_klein_on_larger_tables(make_rng):
    # Another program: .977 of the vectors are kept at sigma 1; variances 2.25 and 9 at sigma 2 and 4.
    lattice = orthogonalised(one_way(4, 4))
    assert klein_acceptance(lattice, 1.0) == pytest.approx(0.977, abs=1e-3)
    for sigma, variance in [(2.0, 2.25), (4.0, 9.0)]:
        draws = draw_klein(lattice, sigma, make_rng(3), 40000)[0].astype(float)
        assert (draws**2).mean() == pytest.approx(variance, rel=0.01)  # standard error about .003


# Six tests at LEVEL.
@pytest.mark.parametrize("case", [case for case in CASES if case != "3x3x3"])
def test_nearest_planes_follow_the_law(case, make_rng):
    invariants, reach = CASES[case]
    lattice, size = orthogonalised(invariants), 12000
    draws, tries = draw_nearest_plane(lattice, 1.7, make_rng(4), size)
    points = lattice_points(invariants.matrix.toarray(), reach)
    assert pvalue(draws, points, law_on(points, "l2", 1.7)) > LEVEL
    assert size / tries > nearest_plane_acceptance(lattice, 1.7) * 0.95


# One test at LEVEL. Vectors of squared length 18 or less have no entry beyond 2: one of 3 has 24 at least.
def test_nearest_planes_in_eight_dimensions(make_rng):
    invariants, _ = CASES["3x3x3"]
    draws, _ = draw_nearest_plane(orthogonalised(invariants), 1.2, make_rng(5), 60000)
    points = lattice_points(invariants.matrix.toarray(), 2)
    points = points[(points**2).sum(axis=1) <= 18]
    near = draws[(draws**2).sum(axis=1) <= 18]
    assert len(near) > 2000
    assert pvalue(near, points, law_on(points, "l2", 1.2)) > LEVEL


# The share that is kept is exp(-epsilon reach) where the lattice is fine: measured by another program, too.
@pytest.mark.parametrize(("size", "share"), [(4, 0.547), (6, 0.406), (10, 0.228)])
def test_the_share_that_nearest_planes_keep(size, share, make_rng):
    lattice = orthogonalised(one_way(size, size))
    assert nearest_plane_acceptance(lattice, 0.25) == pytest.approx(share, abs=0.005)
    _, tries = draw_nearest_plane(lattice, 0.25, make_rng(1), 4000)
    assert 4000 / tries == pytest.approx(share, abs=0.02)


# E||z||_2 = n / epsilon for continuous noise; at this rate the lattice is fine. Four standard errors.
def test_the_length_of_wide_noise(make_rng):
    lattice = orthogonalised(Invariants(Totals(labels(40))))
    draws, _ = draw_nearest_plane(lattice, 0.02, make_rng(1), 4000)
    assert not draws.sum(axis=1).any()
    lengths = np.linalg.norm(draws, axis=1)
    assert abs(lengths.mean() - 39 / 0.02) < 4 * np.sqrt(39) / 0.02 / np.sqrt(4000)


def test_what_is_too_large_has_no_orthogonal_basis():
    matrix = np.random.default_rng(1).integers(1, 4, (2, 300))
    assert gram_schmidt(Invariants(LinearQuery(labels(300), matrix, ["one", "two"]))) is None

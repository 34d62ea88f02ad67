"""Gibbs steps along basis vectors: each conditional law against its plain sum, and the noise against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from bayesdp._random import seed_state
from bayesdp.papers.integer_subspace import BasisLaw, describe, draw, draw_basis_gibbs, log_mass, new_pieces
from tests.lattices.oracles import CASES, LEVEL, lattice_points, law_on, one_way, pvalue

LAWS = [("l1", 1.0), ("l2", 1.7), ("gaussian", 1.1)]


def described(target: BasisLaw, z: np.ndarray):
    """The law of the step along the one vector of a basis, and what the kernels need to be told again."""
    pieces = new_pieces(target.widest)
    describe(target.arrays, 0, z, int(z @ z), pieces)
    return target.arrays, 0, z, pieces


@pytest.mark.parametrize("law", ["l1", "l2", "gaussian"])
def test_masses_of_steps_are_those_of_the_plain_sum(law, make_rng):
    rng, k = make_rng(1), np.arange(-400, 401)
    for trial in range(60):
        size = int(rng.integers(1, 7))
        # Ties, repeated knots, knots that are no integers, and vectors whose entries have a common sign.
        b = rng.integers(1, 5, size) * (rng.choice([-1, 1], size) if trial % 3 else 1)
        z = rng.integers(-12, 13, size)
        scale = float(rng.choice([0.15, 0.6, 1.5])) if law != "gaussian" else float(rng.choice([0.3, 1.0, 4.0, 20.0]))
        told = described(BasisLaw(sp.csr_array(b[None]), law, scale), z)
        moved = z + k[:, None] * b
        norm = {"l1": np.abs(moved).sum(axis=1), "l2": np.sqrt((moved**2).sum(axis=1))}
        energy = scale * norm[law] if law in norm else (moved**2).sum(axis=1) / (2 * scale**2)
        expected = softmax(-energy)
        found = np.exp([log_mass(int(j), *told) for j in k])
        if law == "gaussian":
            found /= found.sum()  # known up to a constant
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


def test_masses_of_gaussian_steps_differ_by_the_same_constant_around_every_centre():
    # Two chains are compared by these masses: the constant must not depend on where the chain is.
    totals, k = [], np.arange(-60, 61)
    for z in ([0, 0], [1, 0], [2, 1], [7, -4]):
        told = described(BasisLaw(sp.csr_array([[1, -2]]), "gaussian", 0.9), np.array(z))
        totals.append(np.exp([log_mass(int(j), *told) for j in k]).sum())
    np.testing.assert_allclose(totals, totals[0], rtol=1e-12)


# 9 tests at the level LEVEL.
@pytest.mark.parametrize("law", ["l1", "l2", "gaussian"])
@pytest.mark.parametrize("b", [[1, -1, 1, -1], [2, -3, 1], [1, 1]])
def test_steps_are_drawn_from_these_masses(law, b, make_rng):
    z, k = np.array([4, -3, 0, 7])[: len(b)], np.arange(-200, 201)
    target = BasisLaw(sp.csr_array([b]), law, 3.0 if law == "gaussian" else 0.3)
    lines, j, z, pieces = described(target, z)
    mass = np.exp([log_mass(int(step), lines, j, z, pieces) for step in k])
    generator = seed_state(make_rng(4))
    draws = np.array([draw(lines, j, pieces, generator) for _ in range(5000)])
    assert pvalue(draws[:, None], k[:, None], mass / mass.sum()) > LEVEL


# 21 tests at the level LEVEL: a correct sampler with other seeds fails one of them in 480 runs. Autocorrelation times
# are below 6 sweeps here, so that 40 sweeps from zero leave less than the tests can see.
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("law", "scale"), LAWS)
def test_noise_follows_its_law(case, law, scale, make_rng):
    invariants, reach = CASES[case]
    if (case, law) == ("3x3x3", "l1"):
        scale = 0.8  # the shortest vectors have length 8
    elif (case, law) == ("3x3x3", "l2"):
        scale = 3.0  # beyond the enumeration otherwise
    points = lattice_points(invariants.matrix.toarray(), reach)
    draws = draw_basis_gibbs(BasisLaw.of(invariants, law, scale), make_rng(len(case)), chains=1500, thin=40)[:, 0]
    assert not np.any(invariants.matrix @ draws.T)
    assert pvalue(draws, points, law_on(points, law, scale)) > LEVEL


def test_published_numbers_of_a_3x3_table(make_rng):
    draws = draw_basis_gibbs(BasisLaw.of(one_way(3, 3), "l1", 1.0), make_rng(2), chains=20_000, thin=15)[:, 0]
    # 5 standard errors of each: wrong in less than 2e-6 of runs.
    for values, expected in [
        (draws[:, 0] ** 2, 0.156180318), (draws[:, 0] * draws[:, 1], -0.078090159), (~draws.any(axis=1), 0.716986545)
    ]:  # fmt: skip
        assert abs(values.mean() - expected) < 5 * values.std() / np.sqrt(len(draws))


def test_one_long_chain_is_thinned_after_its_burn_in(make_rng):
    target = BasisLaw.of(one_way(2, 3), "l1", 0.5)
    whole = draw_basis_gibbs(target, make_rng(3), draws=40)[0]
    thinned = draw_basis_gibbs(target, make_rng(3), draws=5, burn_in=10, thin=6)[0]
    np.testing.assert_array_equal(thinned, whole[15::6])


@pytest.mark.parametrize(("scale", "size"), [(1e-5, 4e5), (1e4, 0.0)])
def test_extreme_scales(scale, size, make_rng):
    draws = draw_basis_gibbs(BasisLaw.of(one_way(3, 3), "l1", scale), make_rng(3), chains=400, thin=60)[:, 0]
    # Nearly continuous: ||z||_1 is Gamma(4, scale), mean 4 / scale and standard deviation 2 / scale.
    assert abs(np.abs(draws).sum(axis=1).mean() - size) <= 5 * 2 / scale / 20


def test_wrong_arguments():
    basis = sp.csr_array([[1, -1]])
    with pytest.raises(ValueError, match="'l1', 'l2', 'gaussian', got 'l3'"):
        BasisLaw(basis, "l3", 1.0)
    with pytest.raises(TypeError, match="basis must hold integers"):
        BasisLaw(basis.astype(float), "l1", 1.0)
    with pytest.raises(ValueError, match="no vector that is zero"):
        BasisLaw(sp.csr_array([[1, -1], [0, 0]]), "l1", 1.0)
    with pytest.raises(ValueError, match=r"below 2\*\*29, got 1e-09"):
        BasisLaw(basis, "l1", 1e-9)
    with pytest.raises(ValueError, match=r"at least 0\.0012 for 'l2' noise on 2 cells"):
        BasisLaw(basis, "l2", 1e-4)
    with pytest.raises(ValueError, match="chains"):
        draw_basis_gibbs(BasisLaw(basis, "l1", 1.0), np.random.default_rng(1), chains=0)

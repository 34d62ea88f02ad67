"""Lattice mechanisms on small lattices: privacy worked out from the masses, unbiasedness and exact tails.

Masses are enumerated over all integer vectors of a box that change no invariant; the box leaves out less than 1e-12.
Draws are 40,000 from a fixed seed; chi-square tests reject a correct sampler with probability 1e-5 each.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special, stats

import bayesdp as bdp
from bayesdp.moves.basis import kernel_basis

LINE = {"cell": list("abc")}
TABLE = {"row": ["p", "q"], "column": ["x", "y", "z"]}
OVERLAP = bdp.LinearQuery({"cell": list("abcd")}, [[1, 1, 0, 0], [0, 1, 1, 1]], ["ab", "bcd"])
CASES = {
    "total": (bdp.Totals(LINE), 46),
    "both margins": (bdp.Margins(TABLE, ["row"], ["column"]), 26),
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

"""Exchangeable groups: laws of sums, cells given their sum, and whole draws against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp._random import seed_state
from bayesdp.invariants import Invariants
from bayesdp.lattices import sample_noise
from bayesdp.lattices.fixed_sum import (
    Groups,
    draw_groups,
    exchangeable_groups,
    groups_acceptance,
    log_sum_mass,
    pair_given_sum,
    scratch,
    split_sum,
    sum_ratios,
)
from bayesdp.lattices.parts import General
from bayesdp.queries import LinearQuery
from tests.lattices.oracles import LEVEL, labels, lattice_points, law_on, pvalue

VENN = np.array([[s >> i & 1 for s in range(1, 8) for _ in range(2)] for i in range(3)])
"""Three overlapping sets: the seven regions of their Venn diagram, two cells each."""


def groups_of(matrix: np.ndarray) -> Groups:
    groups = exchangeable_groups(General(np.arange(matrix.shape[1]), sp.csr_array(matrix)))
    assert groups is not None
    return groups


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_the_law_of_a_sum_is_a_convolution(count, epsilon):
    one = np.exp(-epsilon * np.abs(np.arange(-300, 301)))
    law = one
    for _ in range(count - 1):
        law = np.convolve(law, one)
    zero = len(law) // 2
    expected = law[zero : zero + 60] / law[zero]
    found = np.exp([log_sum_mass(count, -s, epsilon) - log_sum_mass(count, 0, epsilon) for s in range(60)])
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    table = sum_ratios(count, epsilon)
    shared = min(len(table), 60)
    np.testing.assert_allclose(table[:shared], expected[:shared], rtol=1e-11)
    assert len(table) == 65536 or table[-1] < 1e-11


# Eight tests at LEVEL: both signs, sums beyond the number of cells, and none.
@pytest.mark.parametrize("total", [0, 1, -3, 7])
@pytest.mark.parametrize("count", [2, 3])
def test_cells_given_their_sum(count, total, make_rng):
    epsilon, reach = 0.6, 16
    state = seed_state(make_rng(10 * count + total))
    draws = np.zeros((6000, count), dtype=np.int64)
    for row in draws:
        split_sum(state, total, epsilon, np.arange(count)[::-1].copy(), row, scratch(count))
    assert np.all(draws.sum(axis=1) == total)
    points = lattice_points(np.ones((1, count), dtype=np.int64), reach)
    points[:, 0] += total
    assert pvalue(draws, points, law_on(points, "l1", epsilon)) > LEVEL


# Two tests at LEVEL.
@pytest.mark.parametrize("total", [4, -1])
def test_one_of_a_pair(total, make_rng):
    state = seed_state(make_rng(total + 5))
    draws = np.array([[pair_given_sum(state, total, 0.4)] for _ in range(8000)])
    line = np.arange(-40, 41)
    mass = np.exp(-0.4 * (np.abs(line) + np.abs(total - line)))
    assert pvalue(draws, line[:, None], mass / mass.sum()) > LEVEL


SMALL = {
    "two sets": ([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], 12),
    "not unimodular": ([[2, 3, 2, 5]], 14),
    "no whole pivot": ([[2, 2, 3, 3]], 14),
    "opposite signs": ([[1, -1, 1, 1, 0], [0, 0, 2, -2, 1]], 12),
    "table 2 x 3": ([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]], 14),
}


# Five tests at LEVEL.
@pytest.mark.parametrize("name", SMALL)
def test_draws_follow_the_law(name, make_rng):
    matrix, reach = np.array(SMALL[name][0]), SMALL[name][1]
    epsilon, size = 0.8, 12000
    groups = groups_of(matrix)
    draws, tries = draw_groups(groups, epsilon, make_rng(11), size)
    assert not np.any(matrix @ draws.T)
    points = lattice_points(matrix, reach)
    assert pvalue(draws, points, law_on(points, "l1", epsilon)) > LEVEL
    # The estimate and the share that is kept, each with a relative error of a few percent.
    assert groups_acceptance(groups, epsilon, make_rng(12), 4000) == pytest.approx(size / tries, rel=0.15)


def test_the_share_that_is_kept_is_a_ratio_of_sums(make_rng):
    # The sum over the lattice, divided by those over the free fifth cell and over the pivots, two pairs with sum zero.
    matrix, epsilon = np.array(SMALL["two sets"][0]), 0.8
    points = lattice_points(matrix, 14)
    whole = np.exp(-epsilon * np.abs(points).sum(axis=1)).sum()
    expected = whole * np.tanh(epsilon / 2) * np.tanh(epsilon) ** 2
    assert groups_acceptance(groups_of(matrix), epsilon, make_rng(3), 100_000) == pytest.approx(expected, rel=0.02)


def test_venn_regions_have_the_known_size_and_share(make_rng):
    # An independent program: E||z||_1 = 43.33 +- .03, acceptance .113 (lattice-notes: 14 cells, 3 constraints).
    groups = groups_of(VENN)
    draws, tries = draw_groups(groups, 0.25, make_rng(1), 40000)
    assert not np.any(VENN @ draws.T)
    assert 40000 / tries == pytest.approx(0.1130, abs=0.003)
    sizes = np.abs(draws).sum(axis=1)
    assert abs(sizes.mean() - 43.33) < 4 * np.hypot(sizes.std() / 200, 0.03)


# Fourteen means against a chain, each within 4.5 standard errors: one false alarm in 10,000.
def test_venn_regions_agree_with_the_chain(make_rng):
    invariants = Invariants(LinearQuery(labels(14), VENN, ["first", "second", "third"]))
    exact = np.abs(sample_noise(invariants, "l1", 0.25, make_rng(2), 20000, "exact"))
    chain = np.abs(sample_noise(invariants, "l1", 0.25, make_rng(3), 1000, "mcmc", 60))
    error = np.hypot(exact.std(axis=0) / np.sqrt(20000), chain.std(axis=0) / np.sqrt(1000))
    assert np.all(np.abs(exact.mean(axis=0) - chain.mean(axis=0)) < 4.5 * error)


def test_wide_relations_are_refused():
    assert exchangeable_groups(General(np.arange(2), sp.csr_array(np.array([[1 << 21, (1 << 21) + 1]])))) is None

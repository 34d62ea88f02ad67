"""Exact noise with fixed totals: compositions, whole draws, closed forms."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.special import eval_legendre

from bayesdp._random import seed_state
from bayesdp.lattices import fixed_sum
from bayesdp.lattices.fixed_sum import draw_fixed_sums, log_normaliser
from tests.lattices.oracles import LEVEL, lattice_points, law_on, pvalue


def test_log_normaliser_is_the_legendre_polynomial():
    assert log_normaliser(102, 0.192) == pytest.approx(234.1172, abs=5e-5)
    for cells, epsilon in [(1, 0.3), (2, 0.3), (4, 0.5), (9, 2.0)]:
        legendre = eval_legendre(cells - 1, 1 / np.tanh(epsilon))
        assert log_normaliser(cells, epsilon) == pytest.approx(np.log(legendre), rel=1e-13, abs=1e-14)


def test_log_normaliser_is_the_sum_over_the_lattice():
    points = lattice_points(np.ones((1, 4), dtype=np.int64), 30)
    assert log_normaliser(4, 0.5) == pytest.approx(np.log(np.exp(-0.5 * np.abs(points).sum(axis=1)).sum()), abs=1e-9)


def compositions(mass: int, cells: int) -> np.ndarray:
    listed = [c for c in product(range(mass + 1), repeat=cells) if sum(c) == mass]
    assert len(listed) == comb(mass + cells - 1, cells - 1)
    return np.array(listed)


# Five tests at LEVEL. Marked are the bars in the first two, the units in the next two, and nothing in the last.
@pytest.mark.parametrize(("mass", "cells"), [(5, 3), (4, 4), (2, 5), (1, 4), (0, 3)])
def test_compositions_are_uniform(mass, cells, make_rng):
    state = seed_state(make_rng(mass))
    draws = np.zeros((4000, cells), dtype=np.int64)
    for row in draws:
        fixed_sum.compose(state, mass, np.arange(cells), 1, row, fixed_sum.scratch(cells))
    listed = compositions(mass, cells)
    uniform = np.full(len(listed), 1 / len(listed))
    assert np.all(draws == 0) if mass == 0 else pvalue(draws, listed, uniform) > LEVEL


# Three tests at LEVEL, among them more bars than distinct places, so that draws have to be repeated.
@pytest.mark.parametrize(("mass", "cells"), [(5, 3), (2, 5), (7, 2)])
def test_sparse_compositions_are_uniform(mass, cells, make_rng):
    state = seed_state(make_rng(mass))
    draws = np.zeros((4000, cells), dtype=np.int64)
    for row in draws:
        fixed_sum._compose_sparse(state, mass + cells - 1, np.arange(cells), 1, row)
    listed = compositions(mass, cells)
    assert pvalue(draws, listed, np.full(len(listed), 1 / len(listed))) > LEVEL


# Three tests at LEVEL. Large bit maps: places beyond the first word, and the last word half full.
@pytest.mark.parametrize("mass", [61, 62, 200])
def test_a_composition_of_a_large_mass_is_uniform_in_each_part(mass, make_rng):
    state = seed_state(make_rng(mass))
    draws = np.zeros((5000, 3), dtype=np.int64)
    for row in draws:
        fixed_sum.compose(state, mass, np.array([2, 0, 1]), -1, row, fixed_sum.scratch(3))
    assert np.all(draws.sum(axis=1) == -mass)
    first = np.arange(mass + 1)
    assert pvalue(-draws[:, [1]], first[:, None], (mass - first + 1) / comb(mass + 2, 2)) > LEVEL


# Two tests at LEVEL: small and large rates, blocks in disorder, a block of one cell and a free cell.
@pytest.mark.parametrize("epsilon", [0.4, 1.5])
def test_blocks_and_free_cells_are_independent(epsilon, make_rng):
    blocks = np.array([1, -1, 0, 1, 2, 0, 1])
    draws = draw_fixed_sums(blocks, epsilon, make_rng(4), 20000)
    assert not draws[:, 4].any()
    matrix = np.array([blocks == b for b in (0, 1)]).astype(np.int64)[:, [0, 1, 2, 3, 5, 6]]
    kept = np.delete(draws, 4, axis=1)
    points = lattice_points(matrix, 6 if epsilon < 1 else 4)
    mass = np.exp(-epsilon * np.abs(points).sum(axis=1) - log_normaliser(3, epsilon) - log_normaliser(2, epsilon))
    assert pvalue(kept, points, mass * np.tanh(epsilon / 2)) > LEVEL


# Each mean is within four standard errors (one false alarm in 16,000): at the paper's size, and where bars are sparse.
@pytest.mark.parametrize(("cells", "epsilon", "size"), [(102, 0.192, 4000), (30, 1e-5, 1000), (2000, 0.05, 50)])
def test_mean_size_is_minus_the_derivative_of_the_log_normaliser(cells, epsilon, size, make_rng):
    step = 1e-5 * epsilon
    mean = -(log_normaliser(cells, epsilon + step) - log_normaliser(cells, epsilon - step)) / (2 * step)
    if cells == 102:
        assert mean == pytest.approx(522.78, abs=0.005)
    draws = draw_fixed_sums(np.zeros(cells, dtype=np.int64), epsilon, make_rng(7), size)
    assert not draws.sum(axis=1).any()
    sizes = np.abs(draws).sum(axis=1)
    assert abs(sizes.mean() - mean) < 4 * sizes.std() / np.sqrt(size)


def test_two_cells_are_discrete_laplace(make_rng):
    draws = draw_fixed_sums(np.zeros(2, dtype=np.int64), 0.7, make_rng(2), 10000)
    points = lattice_points(np.ones((1, 2), dtype=np.int64), 30)
    assert pvalue(draws, points, law_on(points, "l1", 0.7)) > LEVEL  # one test at LEVEL


def test_no_cells_and_no_draws(make_rng):
    assert draw_fixed_sums(np.array([-1, -1]), 1.0, make_rng(1), 3).shape == (3, 2)
    assert draw_fixed_sums(np.array([0, 0]), 1.0, make_rng(1), 0).shape == (0, 2)

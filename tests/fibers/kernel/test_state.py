"""The columns of the kernel's state are consistent with one another."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp._random import seed_state
from bayesdp.fibers import Chain, Fiber, NoiseTerm, Target
from bayesdp.fibers.kernel import state
from bayesdp.fibers.kernel.state import add_gaussian, clear_noise, new_state, set_counts, set_laplace, set_prior
from bayesdp.fibers.kernel.sweep import move_once, sweep, take_back
from bayesdp.lattices import moves_for
from bayesdp.measurements import Exact
from bayesdp.queries import Identity, Totals
from tests.lattices.oracles import one_way

MATRIX = sp.csr_array(np.array([[1, 0, 2, 0], [0, -1, 0, 3], [0, 0, 0, 0]]))


@pytest.fixture
def packed() -> state.State:
    return new_state(4, moves_for(one_way(2, 2)), MATRIX, 2)


def test_counts_go_into_rows_and_groups(packed):
    packed.rows[:, state.NOISY] = [4.0, -2.0, 1.5]
    packed.rows[:, state.GROUP] = [1, 1, 0]
    set_counts(packed, [1, 5, 2, 3])
    np.testing.assert_array_equal(packed.counts, [1, 5, 2, 3])
    np.testing.assert_array_equal(packed.rows[:, state.VALUE], [5.0, 4.0, 0.0])
    np.testing.assert_array_equal(packed.groups[:, state.SQUARED], [1.5**2, 1.0 + 36.0])
    set_counts(packed, 0)
    np.testing.assert_array_equal(packed.rows[:, state.VALUE], 0.0)
    np.testing.assert_array_equal(packed.groups[:, state.SQUARED], [1.5**2, 16.0 + 4.0])


def test_counts_of_a_state_without_rows():
    packed = new_state(4, moves_for(one_way(2, 2)), None, 0)
    set_counts(packed, [3, 0, 0, 3])
    np.testing.assert_array_equal(packed.counts, [3, 0, 0, 3])


def test_prior_weights_come_with_their_exponentials(packed):
    assert set_prior(packed, "poisson", np.log([1.0, 2.0, 3.0, 4.0]))
    cells = packed.cells_float
    np.testing.assert_allclose(cells[:, state.EXP_THETA], [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(cells[:, state.EXP_MINUS_THETA] * cells[:, state.EXP_THETA], 1.0)
    assert set_prior(packed, "binomial", 0.0, 7)
    np.testing.assert_array_equal(cells[:, state.SHAPE], 7.0)
    assert set_prior(packed, "negbin", -1.0, [1.0, 2.0, 1.5, 9.0])
    assert not set_prior(packed, "negbin", -1.0, [1.0, 2.0, 0.99, 9.0])  # not log-concave
    set_prior(packed, "flat", 1000.0)  # overflows without a warning
    assert np.all(np.isinf(cells[:, state.EXP_THETA]))


def test_laplace_noise_replaces_and_gaussian_noise_adds_up(packed):
    cells = packed.cells_float
    set_laplace(packed, [0.0, 0.5, 0.5, 2.0], [0.0, 3.0, 3.5, -1.0])
    set_laplace(packed, [0.0, 0.5, 0.25, 1.0], [0.0, 3.0, 3.5, -1.0])
    np.testing.assert_array_equal(cells[:, state.RATE], [0.0, 0.5, 0.25, 1.0])
    np.testing.assert_allclose(np.log(cells[:, state.EXP_RATE]), cells[:, state.RATE])
    np.testing.assert_allclose(np.log(cells[:, state.EXP_MINUS_RATE]), -cells[:, state.RATE])
    np.testing.assert_array_equal(cells[:, state.FRACTIONAL], [0, 0, 1, 0])
    add_gaussian(packed, 0.25, [1.0, 2.0, 3.0, 4.0])
    add_gaussian(packed, [0.0, 1.0, 0.0, 0.5], [9.0, -1.0, 9.0, 2.0])
    x = 1.7  # the two terms at x, up to a constant in x
    terms = (
        -0.5 * 0.25 * (x - np.array([1, 2, 3, 4])) ** 2
        - 0.5 * np.array([0, 1, 0, 0.5]) * (x - np.array([9, -1, 9, 2])) ** 2
    )
    terms += 0.5 * 0.25 * np.array([1, 2, 3, 4]) ** 2 + 0.5 * np.array([0, 1, 0, 0.5]) * np.array([9, -1, 9, 2]) ** 2
    np.testing.assert_allclose(-0.5 * cells[:, state.PRECISION] * x**2 + cells[:, state.LINEAR] * x, terms)
    clear_noise(packed)
    for column in (state.RATE, state.LOCATION, state.FRACTIONAL, state.PRECISION, state.LINEAR):
        assert not cells[:, column].any()
    np.testing.assert_array_equal(cells[:, [state.EXP_RATE, state.EXP_MINUS_RATE]], 1.0)


@pytest.mark.parametrize("way", ["short", "rows"])
def test_the_kernel_writes_to_what_its_state_says_and_to_nothing_else(way):
    moves = moves_for(one_way(3, 3))
    matrix = sp.csr_array(np.eye(9, dtype=np.int64)) if way == "rows" else None
    packed = new_state(9, moves, matrix, int(way == "rows"))
    packed.cells_int[:, [state.LOWER, state.UPPER]] = 0, 40
    set_prior(packed, "poisson", np.log(5.0))
    if way == "rows":
        packed.rows[:, [state.GROUP, state.NOISY]] = 0, 4.5
        packed.groups[:, state.GROUP_RATE] = 0.3
    else:
        set_laplace(packed, 0.3, 4.0)
    set_counts(packed, 5)
    packed.generator[:] = seed_state(np.random.default_rng(1))
    before = state.State(*(a.copy() if isinstance(a, np.ndarray) else a for a in packed))
    family = state.FAMILIES["poisson"]
    assert sweep(np.empty((0, 9), dtype=np.int64), 200, family, True, packed) > 0
    count, step = 0, 0
    while not step:
        count, step = move_once(family, True, packed)
    moved = packed.counts.copy()
    take_back(count, step, packed)
    assert np.abs(moved - packed.counts).sum() == count * abs(step)
    written = {
        "cells_int": [state.X],
        "rows": [state.VALUE],
        "groups": [state.SQUARED, state.ALONG, state.ACROSS],
        "generator": [],
        "scratch_int": [],
        "scratch_float": [],
    }
    for name, old, new in zip(state.State._fields, before, packed, strict=True):
        same = np.asarray(old) == np.asarray(new)
        if name not in written:
            assert np.all(same), name
        elif written[name]:
            assert np.all(np.delete(same, written[name], axis=1)), name
    for name in ("cells_int", "generator", *(("rows", "groups") if way == "rows" else ())):
        assert np.any(getattr(before, name) != getattr(packed, name)), name
    np.testing.assert_array_equal(packed.counts.reshape(3, 3).sum(axis=0), 15)
    if way == "rows":
        np.testing.assert_array_equal(packed.rows[:, state.VALUE], packed.counts)
        assert packed.groups[0, state.SQUARED] == pytest.approx(((packed.counts - 4.5) ** 2).sum())


def test_draws_in_one_call_equal_sweeps_one_by_one():
    frame = {"county": list("abcd")}
    fiber = Fiber.of([Exact(Totals(frame), 20)])
    term = NoiseTerm(Identity(frame), np.array([3.0, 9.0, 4.0, 6.0]), "l1", np.array(0.4), np.ones(4, dtype=bool))
    target = Target(fiber, (term,), "flat")
    one, many = (Chain(target, np.random.default_rng(7)) for _ in range(2))
    for chain in (one, many):
        chain.load(fiber.find_point())
    drawn = np.empty((50, 4), dtype=np.int64)
    sweep(drawn, 8, state.FAMILIES[target.family], one.concave, one.state)
    for row in drawn:
        many.sweep(8)
        assert np.array_equal(row, many.counts)
    assert len(np.unique(drawn, axis=0)) > 10
    assert np.all(drawn.sum(axis=1) == 20)

"""The columns of the kernel's state are consistent with one another."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp._random import seed_state
from bayesdp.fibers import Chain, Fiber, NoiseTerm, Target
from bayesdp.fibers.kernel import state
from bayesdp.fibers.kernel.state import new_state, set_counts, set_laplace, set_prior
from bayesdp.fibers.kernel.sweep import move_once, sweep, take_back
from bayesdp.lattices import moves_for
from bayesdp.measurements import Exact
from bayesdp.queries import Identity, Totals
from tests.lattices.oracles import one_way


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
    drawn = one.draw(50, 8)
    for row in drawn:
        many.sweep(8)
        assert np.array_equal(row, many.counts)
    assert len(np.unique(drawn, axis=0)) > 10
    assert np.all(drawn.sum(axis=1) == 20)

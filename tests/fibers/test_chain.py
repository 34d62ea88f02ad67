"""A chain's draws in one kernel call are those of many."""

from __future__ import annotations

import numpy as np

from bayesdp.fibers import Chain, Fiber, NoiseTerm, Target
from bayesdp.measurements import Exact
from bayesdp.queries import Identity, Totals


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

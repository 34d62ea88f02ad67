"""Gathering the counts of tied groups: as many as the limits of cells and of sums allow, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.hierarchies.kernel.sweeps import gather
from tests.hierarchies.cases import Case

ROOMY = {
    "limits of sums": Case((3, 2, 3), "AAB", 60, limits=True),
    "exact total": Case((3, 2, 3), "AAB", 60),
}
"""Sums of tract and age may be anything from 1 to one more than in truth: what goes out of one cell is too much for the other age."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ROOMY)
def test_as_much_as_is_allowed(name, seed):
    case, rng = ROOMY[name], np.random.default_rng(seed)
    chain = case.chain(1)
    chain.load(case.target.fiber.find_point().reshape(-1))
    chain.sweep(3)
    state = chain.state
    before = state.counts.copy()
    lower, upper = (np.maximum(before + side * rng.integers(0, 6, before.shape), 0) for side in (-1, 1))
    groups = state.group_start.shape[1] - 1
    assert (np.diff(state.group_start, axis=1) == 2).all()  # the two ages of a race
    end = rng.integers(0, 2, (len(before), groups))
    gather(state, end, lower, upper)
    after, sums = state.counts.copy(), state.sums.copy()
    chain.renew()
    assert state.limited == case.limits
    if case.limits:  # if not, sums are not kept up to date
        np.testing.assert_array_equal(sums, state.sums)
    assert case.target.fiber.contains(chain.counts.reshape(case.target.fiber.frame.shape))
    assert ((after >= lower) & (after <= upper)).all()
    # Against the definition, pair after pair, with the sums by age worked out anew each time.
    expected = before.copy()
    for t in range(len(before)):
        least, most = state.sum_lower[state.path[t, 0]], state.sum_upper[state.path[t, 0]]
        for g in range(groups):
            pair = state.group_cell[state.group_start[t, g] : state.group_start[t, g + 1]]
            to, own = pair[end[t, g]], pair[1 - end[t, g]]
            while expected[t, own] > lower[t, own] and expected[t, to] < upper[t, to]:
                one = expected[t].copy()
                one[own] -= 1
                one[to] += 1
                sums = np.bincount(state.sum_class, weights=one)
                if case.limits and ((sums < least) | (sums > most)).any():
                    break
                expected[t] = one
    np.testing.assert_array_equal(after, expected)
    assert (after != before).any()

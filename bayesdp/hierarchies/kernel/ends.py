"""Tables at the ends of tied groups: as much of the sum of a group in one of its cells as is allowed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp.hierarchies.kernel.state import State

type Ints = npt.NDArray[np.int64]


@nb.njit(cache=True, error_model="numpy")
def _within_limits(state: State, t: int, up: int, down: int, k: int) -> int:
    """How many of k counts of leaf t the limits of sums let go from the class `down` to the class `up`."""
    for level in range(state.path.shape[1]):
        node = state.path[t, level]
        k = min(
            k, state.sum_upper[node, up] - state.sums[node, up], state.sums[node, down] - state.sum_lower[node, down]
        )
    return k


@nb.njit(cache=True, nogil=True, error_model="numpy")
def gather(state: State, end: Ints, lower: Ints, upper: Ints) -> None:
    """Move the counts of every tied group to one of its cells. Residuals are not brought up to date: renew them afterwards."""
    # `end`, shape (T, groups): which cell of the group, from 0; of groups with fewer than two cells it is not looked at. `lower`,
    # `upper`, shape (T, C): no cell is moved beyond these; one that is beyond them already is not moved further.
    counts = state.counts
    for t in range(len(counts)):
        for g in range(end.shape[1]):
            start, size = state.group_start[t, g], state.group_start[t, g + 1] - state.group_start[t, g]
            if size < 2:
                continue
            to = state.group_cell[start + end[t, g]]
            for i in range(start, start + size):
                own = state.group_cell[i]
                if own == to:
                    continue
                k = min(counts[t, own] - lower[t, own], upper[t, to] - counts[t, to])
                up, down = state.sum_class[to], state.sum_class[own]
                if state.limited and up != down:
                    k = _within_limits(state, t, up, down, k)
                if k <= 0:
                    continue
                counts[t, own] -= k
                counts[t, to] += k
                if up != down:
                    for level in range(state.path.shape[1]):
                        state.sums[state.path[t, level], up] += k
                        state.sums[state.path[t, level], down] -= k

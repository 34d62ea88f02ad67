"""Sweeps: every leaf in turn, and in it every group of tied cells, every free cell, and some exchanges with other leaves.

Which line is taken next depends on what the moves leave unchanged, on the random generator and on nothing else, but for
pairs in groups of
more than two cells, where it depends on which cells are 0, and the draw is corrected for it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import compiled, inlined, inside
from bayesdp._random import below, uniform
from bayesdp.hierarchies.kernel.moves import move_between_leaves, move_in_leaf, move_single, move_square
from bayesdp.hierarchies.kernel.state import State

type Ints = npt.NDArray[np.int64]

IN_GROUP, FEW, DONORS, CROSS_DONORS, CROSS_CELLS, GROUP_SQUARES, SQUARES, SINGLE, SUMS, NEAR, CROSSING, KEEPING = range(
    12
)
MIX = (1, 3, 1, 20, 0, 2, 0, 0, 0, 0, 300, 100)
"""Moves of a sweep. Pairs in a group of tied cells, times its size (once for groups with fewer counts than `FEW`);
exchanges of each cell with donors of its leaf, times `State.visits`; exchanges of donor cells with another leaf, a leaf; of every
cell, in percent; squares in a group; squares of any cell and a donor, in percent of the cells; single cells, in percent; sums of
lines (`sums`), in percent of the cells; exchanges of each cell with a leaf near by (`near_leaf`), in percent, times
`State.visits`; moves along several axes (`crossing`), in percent of the cells, and directions that keep precise answers
(`keeping`), in percent of the free cells, where there are any."""


@inlined
def other_leaf(state: State, t: int) -> int:
    """Another leaf under the node of leaf t at a level that is drawn at random; -1 if there is none."""
    levels = state.path.shape[1]
    if levels < 2:
        return -1
    node = state.path[t, 1 + below(state.generator, levels - 1)]
    leaves = state.last[node] - state.first[node]
    if leaves < 2:
        return -1
    s = state.first[node] + below(state.generator, leaves - 1)
    return int(s + 1) if s >= t else int(s)


@inlined
def near_leaf(state: State, t: int) -> int:
    """Another leaf under the lowest node of leaf t that has others; -1 if there is none."""
    for level in range(1, state.path.shape[1]):
        node = state.path[t, level]
        leaves = state.last[node] - state.first[node]
        if leaves >= 2:
            s = state.first[node] + below(state.generator, leaves - 1)
            return int(s + 1) if s >= t else int(s)
    return -1


@inlined
def _often(state: State, percent: int) -> int:
    """A whole number that is `percent` / 100 on average."""
    times, rest = percent // 100, percent % 100
    if rest > 0 and below(state.generator, 100) < rest:
        times += 1
    return int(times)


@inlined
def _donor(state: State, t: int, cell: int) -> int:
    """A donor of leaf t that `cell` may exchange counts with; -1 if there is none."""
    kind = state.pair_class[cell]
    start = state.donor_start[t, kind]
    n = state.donor_start[t, kind + 1] - start
    return -1 if n == 0 else int(state.donor_cell[start + below(state.generator, n)])


@inlined
def _pairs_of_two(state: State, t: int, start: int, repeats: int) -> int:
    changed = 0
    for _ in range(repeats):
        changed += move_in_leaf(state, t, state.group_cell[start + 1], state.group_cell[start], 1.0) != 0
    return changed


@inlined
def _pairs_of_many(state: State, t: int, start: int, size: int, repeats: int) -> int:
    """Pairs of a group of tied cells, most of which are 0.

    The first cell i is uniform among the cells that are not 0; the second, with probability 1/2, among the others that are
    not 0, and else
    (always, if there is none) among all others. With u further cells that are not 0, the line through i and j is chosen with
    probability ``2 / (u + 2) (1 / (2 (u + 1)) + 1 / (2 (m - 1)))`` where both are positive, and with ``(1/2 if u else 1) /
    ((u + 1)
    (m - 1))`` where one of them is 0. The draw along the line has the law of the table times this probability (`end`), which
    makes
    the pair of line and table a Gibbs step: the law of the table stays.
    """
    counts, cells, occupied = state.counts, state.group_cell, state.occupied
    changed = 0
    for _ in range(repeats):
        positive = 0
        for i in range(size):
            if counts[t, cells[start + i]] > 0:
                occupied[positive] = i
                positive += 1
        one = below(state.generator, positive)
        i = occupied[one]
        if positive > 1 and uniform(state.generator) < 0.5:
            two = below(state.generator, positive - 1)
            j = occupied[two + 1 if two >= one else two]
        else:
            j = below(state.generator, size - 1)
            if j >= i:
                j += 1
        further = positive - 1
        if counts[t, cells[start + j]] > 0:
            further -= 1
        both = 2.0 / (further + 2) * (0.5 / (further + 1) + 0.5 / (size - 1))
        one_empty = (0.5 if further > 0 else 1.0) / ((further + 1) * (size - 1))
        changed += move_in_leaf(state, t, cells[start + j], cells[start + i], one_empty / both) != 0
    return changed


@inside
def _groups(state: State, t: int, mix: Ints) -> int:
    """Pairs in each group of tied cells. How many depends on the sum of the group, which they do not change."""
    changed = 0
    for g in range(state.group_start.shape[1] - 1):
        start = state.group_start[t, g]
        size = state.group_start[t, g + 1] - start
        if size < 2:
            continue
        total = 0
        for i in range(size):
            total += state.counts[t, state.group_cell[start + i]]
        if total == 0:
            continue
        many = total >= mix[FEW]
        if size == 2:
            changed += _pairs_of_two(state, t, start, mix[IN_GROUP] if many else min(mix[IN_GROUP], 1))
        else:
            repeats = mix[IN_GROUP] * size if many else min(mix[IN_GROUP], 1) * ((size + 1) // 2)
            changed += _pairs_of_many(state, t, start, size, repeats)
        if many:
            for _ in range(mix[GROUP_SQUARES] * (1 if size == 2 else size // 2)):
                s = other_leaf(state, t)
                i = below(state.generator, size)
                j = below(state.generator, size - 1)
                if j >= i:
                    j += 1
                if s >= 0:
                    changed += move_square(state, t, s, state.group_cell[start + i], state.group_cell[start + j]) != 0
    return changed


@inside
def _cells(state: State, t: int, mix: Ints) -> int:
    """Each free cell of a leaf against donors, against other leaves, and by itself."""
    changed = 0
    for v in range(state.free_start[t], state.free_start[t + 1]):
        cell = state.free_cell[v]
        for _ in range(mix[DONORS] * state.visits[v]):
            donor = _donor(state, t, cell)
            if donor >= 0 and donor != cell:
                changed += move_in_leaf(state, t, cell, donor, 1.0) != 0
        near = _often(state, mix[NEAR] * state.visits[v]) if mix[NEAR] > 0 else 0
        more = 1 if mix[CROSS_CELLS] > 0 and below(state.generator, 100) < mix[CROSS_CELLS] else 0
        for i in range(near + more):
            s = near_leaf(state, t) if i < near else other_leaf(state, t)
            if s >= 0:
                changed += move_between_leaves(state, s, t, cell) != 0
        if mix[SQUARES] > 0 and below(state.generator, 100) < mix[SQUARES]:
            s = other_leaf(state, t)
            other = state.free_cell[
                state.free_start[t] + below(state.generator, state.free_start[t + 1] - state.free_start[t])
            ]
            if s >= 0 and other != cell:
                changed += move_square(state, t, s, cell, other) != 0
        if mix[SINGLE] > 0 and below(state.generator, 100) < mix[SINGLE]:
            changed += move_single(state, t, cell) != 0
    donors = state.donor_start[t, -1] - state.donor_start[t, 0]
    if donors > 0:
        for _ in range(mix[CROSS_DONORS]):
            s = other_leaf(state, t)
            cell = state.donor_cell[state.donor_start[t, 0] + below(state.generator, donors)]
            if s >= 0:
                changed += move_between_leaves(state, s, t, cell) != 0
    return changed


@compiled
def sweep(state: State, mix: Ints, sweeps: int, kept: Ints) -> int:
    """Sweep, and keep a table after each `sweeps` sweeps while there is room; the number of moves that changed the table."""
    # `mix`, shape (12,): see `MIX`. `sweeps`: from one kept table to the next. `kept`, shape (draws, T, C): the tables are written
    # into it.
    changed = 0
    for draw in range(max(len(kept), 1)):
        for _ in range(sweeps):
            for t in range(len(state.counts)):
                changed += _groups(state, t, mix)
                changed += _cells(state, t, mix)
        if len(kept) > 0:
            for t in range(kept.shape[1]):
                for cell in range(kept.shape[2]):
                    kept[draw, t, cell] = state.counts[t, cell]
    return changed

"""Moves along directions that keep precise answers, of a leaf and of nodes above it, all at once.

They are those of tables in general (`bayesdp.moves`): differences along every set of axes and levels that the answers leave, closed
walks through leaves and cells where cells are known to be 0, and lists for small tables. They are drawn without looking at the
table, and the step along them from its exact law.

Some are exchanges instead: cells that would fall and cells that would rise, in pairs of one leaf or of one cell, change
their counts. (By a step all falling cells get near 0 only where their counts are about the same.) Exchanges undo themselves, and
are accepted with probability min(1, ratio of the law): that leaves it as it is (Metropolis).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._numba import compiled, inlined, inside
from bayesdp._random import below, uniform
from bayesdp.hierarchies.kernel.moves import meeting_level
from bayesdp.hierarchies.kernel.state import ONE, State
from bayesdp.hierarchies.kernel.sums import draw_along, fall_of, take_step
from bayesdp.moves.direction import draw_direction

type Ints = npt.NDArray[np.int64]


class Directions(NamedTuple):
    """Directions of a table, and where its cells are in the tree."""

    meta: Ints  # with `cumulative`, `pool`: see `bayesdp.moves.moves.Moves`
    cumulative: npt.NDArray[np.float64]
    pool: Ints
    leaf: Ints  # with `cell`: the place of each cell of the frame, shape (cells,)
    cell: Ints
    cells: Ints  # with `steps`, `touched`: work space of a direction, shape (width of `State.scratch`,)
    steps: Ints
    touched: Ints
    dense: Ints  # work space, all zero, shape (cells,)


@inside
def _height(state: State, t: int, cell: int, x: int) -> float:
    """The log weight of a count: ``theta x + log h(x)``, up to a constant of the cell."""
    alpha = state.alpha[state.alpha_row[t], cell]
    own = math.lgamma(x + alpha) if state.beta > 0.0 else x * math.log(alpha)
    return float(state.theta[state.theta_row[t], cell] * x + own - math.lgamma(x + 1.0))


@inlined
def _may(state: State, t: int, cell: int, s: int, other: int) -> bool:
    """Whether counts may go from one cell to another by what is exact."""
    meet = meeting_level(state.path, t, s)
    for level in range(state.path.shape[1]):
        one, two = state.exact_class[level, cell], state.exact_class[level, other]
        if one != two if level >= meet else max(one, two) >= 0:
            return False
    return True


@inside
def _exchange(state: State, n: int, kind: int) -> int:
    """Exchange the counts of pairs of a direction: of one leaf, of one cell, or neighbours in its list; whether it was accepted."""
    leaves, cells, entries, partner = state.scratch[0], state.scratch[1], state.scratch[2], state.scratch[3]
    for i in range(n):
        partner[i] = -1
    for i in range(n):
        if abs(entries[i]) != 1:
            return 0
        for j in range(i):
            alike = leaves[i] == leaves[j] if kind == 0 else cells[i] == cells[j] if kind == 1 else j == i - 1
            if partner[j] < 0 and entries[i] != entries[j] and alike:
                partner[i], partner[j] = j, i
                break
    rise, moved = 0.0, False
    for i in range(n):
        t, j = leaves[i], partner[i]
        if j < 0 or not _may(state, t, cells[i], leaves[j], cells[j]):
            return 0
        old, new = state.counts[t, cells[i]], state.counts[leaves[j], cells[j]]
        rise += _height(state, t, cells[i], new) - _height(state, t, cells[i], old)
        entries[i] = new - old
        moved = moved or new != old
    if not moved or uniform(state.generator) >= math.exp(min(rise - fall_of(state, n), 0.0)):
        return 0
    take_step(state, n, ONE)
    return 1


@compiled
def keep(state: State, directions: Directions, times: int, exchanges: float) -> int:
    """So many steps along such directions, of which a share are exchanges; the number that changed the table."""
    own, changed = directions, 0
    leaves, cells, entries = state.scratch[0], state.scratch[1], state.scratch[2]
    for _ in range(times):
        state.tried[0] += 1
        n = draw_direction(
            own.meta, own.cumulative, own.pool, state.generator, own.cells, own.steps, own.dense, own.touched
        )
        for i in range(n):
            t, c = own.leaf[own.cells[i]], own.cell[own.cells[i]]
            if not state.free[t, c]:
                n = 0
                break
            leaves[i], cells[i], entries[i] = t, c, own.steps[i]
        if uniform(state.generator) < exchanges:
            changed += _exchange(state, n, below(state.generator, 3))
        else:
            changed += draw_along(state, n) != 0
    return changed

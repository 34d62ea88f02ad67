"""Sweeps: every leaf in turn, and in it every group of tied cells, every free cell, and some exchanges with other leaves.

Which line is taken next depends on what the moves leave unchanged, on the random generator and on nothing else, but for pairs in
groups of more than two cells, where it depends on which cells are 0, and the draw is corrected for it.

Where sums of cells have limits, or cells are known, the lines of `moves` need not reach every table. A sum of 2, 3, ... of them (how
many is geometric) is a direction like any other, which changes more cells at once: it is drawn without looking at the table, and the
step along it from its exact law.
"""

from __future__ import annotations

import numpy as np

from bayesdp._arrays import Ints
from bayesdp._numba import below, compiled, inlined, inside, nb, part, uniform
from bayesdp.hierarchies.kernel.moves import (
    ONE,
    PRECISION,
    RESIDUAL,
    TWO,
    UNBOUNDED,
    ZERO,
    State,
    draw_many,
    meeting_level,
    move_between_leaves,
    move_in_leaf,
    move_single,
    move_square,
)

IN_GROUP, FEW, DONORS, CROSS_DONORS, CROSS_CELLS, GROUP_SQUARES = range(6)
SQUARES, SINGLE, SUMS, NEAR, CROSSING, KEEPING = range(6, 12)
MIX = (1, 3, 1, 20, 0, 2, 0, 0, 0, 0, 300, 100)
"""Moves of a sweep. Pairs in a group of tied cells, times its size (once for groups with fewer counts than `FEW`);
exchanges of each cell with donors of its leaf, times `State.visits`; exchanges of donor cells with another leaf, a leaf; of every
cell, in percent; squares in a group; squares of any cell and a donor, in percent of the cells; single cells, in percent; sums of
lines (`add_lines`), in percent of the cells; exchanges of each cell with a leaf near by (`near_leaf`), in percent, times
`State.visits`; moves along several axes (`crossing.cross`), in percent of the cells, and directions that keep precise answers
(`crossing.keep`), in percent of the free cells, where there are any."""


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


@part
def _often(state: State, percent: int) -> int:
    """A whole number that is `percent` / 100 on average."""
    times, rest = percent // 100, percent % 100
    if rest > 0 and below(state.generator, 100) < rest:
        times += 1
    return int(times)


@part
def _donor(state: State, t: int, cell: int) -> int:
    """A donor of leaf t that `cell` may exchange counts with; -1 if there is none."""
    kind = state.pair_class[cell]
    start = state.donor_start[t, kind]
    n = state.donor_start[t, kind + 1] - start
    return -1 if n == 0 else int(state.donor_cell[start + below(state.generator, n)])


@part
def _pairs_of_two(state: State, t: int, start: int, repeats: int) -> int:
    changed = 0
    for _ in range(repeats):
        changed += move_in_leaf(state, t, state.group_cell[start + 1], state.group_cell[start], 1.0) != 0
    return changed


@part
def _pairs_of_many(state: State, t: int, start: int, size: int, repeats: int) -> int:
    """Pairs of a group of tied cells, most of which are 0.

    The first cell i is uniform among the cells that are not 0; the second, with probability 1/2, among the others that are not 0, and
    else (always, if there is none) among all others. With u further cells that are not 0, the line through i and j is chosen with
    probability ``2 / (u + 2) (1 / (2 (u + 1)) + 1 / (2 (m - 1)))`` where both are positive, and with ``(1/2 if u else 1) / ((u + 1)
    (m - 1))`` where one of them is 0. The draw along the line has the law of the table times this probability (`end`), which makes
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


@part
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


@part
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
def sweep(state: State, mix: Ints, sweeps: int) -> int:
    """Sweep by these moves (`MIX`); the number of moves that changed the table."""
    changed = 0
    for _ in range(sweeps):
        for t in range(len(state.counts)):
            changed += _groups(state, t, mix)
            changed += _cells(state, t, mix)
    return changed


@inlined
def _add(state: State, n: int, t: int, cell: int, sign: int) -> int:
    """Add `sign` in a cell to the direction; the number of its cells, -1 where there is no room."""
    leaves, cells, entries = state.scratch[0], state.scratch[1], state.scratch[2]
    for i in range(n):
        if leaves[i] == t and cells[i] == cell:
            entries[i] += sign
            return n
    if n == state.scratch.shape[1]:
        return -1
    leaves[n], cells[n], entries[n] = t, cell, sign
    return n + 1


@inside
def _line(state: State, n: int) -> int:
    """Add a random line to the direction: a pair in a leaf, a cell in two leaves, or a square. The number of cells, -1 for no room."""
    generator = state.generator
    t = below(generator, len(state.counts))
    start, size = state.free_start[t], state.free_start[t + 1] - state.free_start[t]
    if size == 0:
        return n
    c, d = state.free_cell[start + below(generator, size)], state.free_cell[start + below(generator, size)]
    s = below(generator, len(state.counts))
    kind = below(generator, 3)
    if kind == 0:
        if c == d or state.pair_class[c] != state.pair_class[d]:
            return n
        n = _add(state, n, t, c, 1)
        return n if n < 0 else _add(state, n, t, d, -1)
    if s == t:
        return n
    levels = meeting_level(state.path, s, t)
    if kind == 1:
        for level in range(levels):
            if state.exact_class[level, c] >= 0:
                return n
        if levels == state.path.shape[1] or not state.free[s, c]:
            return n
        n = _add(state, n, s, c, 1)
        return n if n < 0 else _add(state, n, t, c, -1)
    if c == d or not (state.free[s, c] and state.free[s, d]):
        return n
    for level in range(levels):
        if state.exact_class[level, c] != state.exact_class[level, d]:
            return n
    n = _add(state, n, s, c, 1)
    n = n if n < 0 else _add(state, n, s, d, -1)
    n = n if n < 0 else _add(state, n, t, c, -1)
    return n if n < 0 else _add(state, n, t, d, 1)


@inlined
def _apply(state: State, n: int, k: int) -> float:
    """Change the residuals by k steps; by how much the log-density of the noise falls."""
    fall = 0.0
    for i in range(n):
        t, cell, step = state.scratch[0, i], state.scratch[1, i], float(k * state.scratch[2, i])
        for level in range(state.path.shape[1]):
            node = state.path[t, level]
            for q in range(state.answer_of.shape[1]):
                own = state.answer_of[cell, q]
                residual = state.answers[node, own, RESIDUAL]
                fall += state.answers[node, own, PRECISION] * step * (0.5 * step - residual)
                state.answers[node, own, RESIDUAL] = residual - step
    return fall


@inside
def _shift(state: State, n: int, k: int) -> bool:
    """Change the sums with limits by k steps; whether they stay within them."""
    for i in range(n):
        nodes, kind = state.path[state.scratch[0, i]], state.sum_class[state.scratch[1, i]]
        for level in range(len(nodes)):
            state.sums[nodes[level], kind] += k * state.scratch[2, i]
    for i in range(n):
        nodes, kind = state.path[state.scratch[0, i]], state.sum_class[state.scratch[1, i]]
        for level in range(len(nodes)):
            total = state.sums[nodes[level], kind]
            if total < state.sum_lower[nodes[level], kind] or total > state.sum_upper[nodes[level], kind]:
                return False
    return True


@inside
def fall_of(state: State, n: int) -> float:
    """By how much the log-density of noise and limits falls over one step along the direction."""
    if state.limited:
        allowed = _shift(state, n, ONE)
        _shift(state, n, -ONE)
        if not allowed:
            return np.inf
    fall = _apply(state, n, ONE)
    _apply(state, n, -ONE)
    return fall


@inside
def _reach(state: State, n: int, sign: int, far: int) -> int:
    """How many steps, at most `far`, the limits of sums allow in one direction, by halving."""
    near = 0
    far += 1
    while far - near > 1:
        middle = (near + far) // 2
        allowed = _shift(state, n, sign * middle)
        _shift(state, n, -sign * middle)
        if allowed:
            near = middle
        else:
            far = middle
    return near


@inside
def draw_along(state: State, m: int) -> int:
    """Draw a step from the exact law along the direction in the first m columns of `State.scratch`, and take it."""
    leaves, cells, entries, counts = state.scratch[0], state.scratch[1], state.scratch[2], state.scratch[3]
    low, high, slope = -UNBOUNDED, UNBOUNDED, 0.0
    for i in range(m):
        counts[i] = state.counts[leaves[i], cells[i]]
        state.alphas[i] = state.alpha[state.alpha_row[leaves[i]], cells[i]]
        slope += entries[i] * state.theta[state.theta_row[leaves[i]], cells[i]]
        if entries[i] > 0:
            low = max(low, -(counts[i] // entries[i]))
        else:
            high = min(high, counts[i] // -entries[i])
    if m == 0 or low >= high:
        return 0
    if state.limited:
        # Both ends of the line, however far: an end that moved with the table would make windows depend on it.
        low, high = -_reach(state, m, -ONE, -low), _reach(state, m, ONE, high)
        if low >= high:
            return 0
    # The fall over one step is e + a / 2, over the next e + 3 a / 2.
    first = _apply(state, m, ONE)
    second = _apply(state, m, ONE)
    a = max(second - first, 0.0)
    b = slope - (first - 0.5 * a)
    k = draw_many(state.generator, state.weights, counts, entries, state.alphas, m, state.beta, low, high, a, b)
    _apply(state, m, -TWO)
    take_step(state, m, k)
    return k


@inside
def take_step(state: State, m: int, k: int) -> None:
    """Take k steps along the direction in the first m columns of `State.scratch`, or take them back."""
    if k == 0:
        return
    _apply(state, m, k)
    for i in range(m):
        state.counts[state.scratch[0, i], state.scratch[1, i]] += k * state.scratch[2, i]
    if state.limited:
        _shift(state, m, k)


@part
def _move_sum(state: State) -> int:
    """Draw a sum of lines, and a step along it."""
    state.tried[0] += 1
    n = _line(state, _line(state, ZERO))
    while n >= 0 and uniform(state.generator) < 0.5:
        n = _line(state, n)
    if n < 0:
        return 0
    m = ZERO
    for i in range(n):  # lines may have cancelled
        if state.scratch[2, i] != 0:
            for row in range(3):
                state.scratch[row, m] = state.scratch[row, i]
            m += 1
    return draw_along(state, m)


@compiled
def add_lines(state: State, percent: int) -> int:
    """Sums of lines, as many as `percent` of the free cells on average; the number of moves that changed the table."""
    changed = 0
    if percent <= 0:
        return 0
    for _ in range(len(state.free_cell)):
        if below(state.generator, 100) < percent:
            changed += _move_sum(state) != 0
    return changed


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
    """Move as many counts of every tied group to one of its cells as is allowed; residuals must be renewed afterwards."""
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

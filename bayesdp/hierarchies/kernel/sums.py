"""Sums of several lines: directions that change more cells at once, for tables that single lines do not connect.

Where sums of cells have limits, or cells are known, the lines of `moves` need not reach every table. A sum of 2, 3, ... of
them (how many
is geometric) is a direction like any other: it is drawn without looking at the table, and the step along it from its exact law.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import compiled, inlined, inside
from bayesdp._random import below, uniform
from bayesdp.hierarchies.kernel.lines import draw_many
from bayesdp.hierarchies.kernel.moves import meeting_level
from bayesdp.hierarchies.kernel.state import ONE, PRECISION, RESIDUAL, TWO, UNBOUNDED, ZERO, State

type Ints = npt.NDArray[np.int64]


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


@inside
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
    """Sums of lines, as many as `percent` of the free cells on average; the number of moves that changed the table.

    A sweep of its own, which is compiled only for tables that need it: it costs as much to compile as a third of the others.
    """
    changed = 0
    if percent <= 0:
        return 0
    for _ in range(len(state.free_cell)):
        if below(state.generator, 100) < percent:
            changed += _move_sum(state) != 0
    return changed

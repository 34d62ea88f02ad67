"""Moves along single lines: which cells change by how much, and the noise along the line.

Each function is given its line, by cells that were chosen without looking at what the move changes, and draws the step from
the exact
law along it (`lines`): every law of the form in `state` is left as it is, and no proposal is refused.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import inlined
from bayesdp.hierarchies.kernel.lines import draw_many, draw_pair, draw_square
from bayesdp.hierarchies.kernel.state import ONE, PRECISION, RESIDUAL, UNBOUNDED, State

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@inlined
def meeting_level(path: Ints, t: int, s: int) -> int:
    """The lowest level at which two leaves stand under the same node; the number of levels where there is none."""
    level = 0
    while level < path.shape[1] and path[t, level] != path[s, level]:
        level += 1
    return level


@inlined
def _exchange(state: State, t: int, levels: int, up: int, down: int, a: float, b: float) -> tuple[float, float]:
    """Curvature and slope of the noise for +1 in the cell `up` and -1 in the cell `down` of one leaf, added to a and b."""
    # Sums in which both cells count do not change, and cancel.
    answers, answer_of = state.answers, state.answer_of
    for level in range(levels):
        node = state.path[t, level]
        for q in range(answer_of.shape[1]):
            i, j = answer_of[up, q], answer_of[down, q]
            if i != j:
                p, o = answers[node, i, PRECISION], answers[node, j, PRECISION]
                a += p + o
                b += p * answers[node, i, RESIDUAL] - o * answers[node, j, RESIDUAL]
    return a, b


@inlined
def _write_exchange(state: State, t: int, levels: int, up: int, down: int, k: float) -> None:
    answers, answer_of = state.answers, state.answer_of
    for level in range(levels):
        node = state.path[t, level]
        for q in range(answer_of.shape[1]):
            i, j = answer_of[up, q], answer_of[down, q]
            if i != j:
                answers[node, i, RESIDUAL] -= k
                answers[node, j, RESIDUAL] += k


@inlined
def _change(state: State, t: int, levels: int, cell: int, sign: float, a: float, b: float) -> tuple[float, float]:
    """Curvature and slope of the noise for `sign` in one cell of one leaf, at the levels below `levels`."""
    answers, answer_of = state.answers, state.answer_of
    for level in range(levels):
        node = state.path[t, level]
        for q in range(answer_of.shape[1]):
            i = answer_of[cell, q]
            p = answers[node, i, PRECISION]
            a += p
            b += sign * p * answers[node, i, RESIDUAL]
    return a, b


@inlined
def _write_change(state: State, t: int, levels: int, cell: int, k: float) -> None:
    for level in range(levels):
        node = state.path[t, level]
        for q in range(state.answer_of.shape[1]):
            state.answers[node, state.answer_of[cell, q], RESIDUAL] -= k


@inlined
def _limits(state: State, t: int, levels: int, up: int, down: int, low: int, high: int) -> tuple[int, int]:
    """What the limits of sums leave of the steps low .. high, for +1 in the class `up` of a leaf and -1 in `down`; -1 is no class."""
    sums, lower, upper = state.sums, state.sum_lower, state.sum_upper
    for level in range(levels):
        node = state.path[t, level]
        if up >= 0:
            high = min(high, upper[node, up] - sums[node, up])
            low = max(low, lower[node, up] - sums[node, up])
        if down >= 0:
            high = min(high, sums[node, down] - lower[node, down])
            low = max(low, sums[node, down] - upper[node, down])
    return low, high


@inlined
def _write_sums(state: State, t: int, levels: int, up: int, down: int, k: int) -> None:
    for level in range(levels):
        node = state.path[t, level]
        if up >= 0:
            state.sums[node, up] += k
        if down >= 0:
            state.sums[node, down] -= k


@inlined
def move_in_leaf(state: State, t: int, up: int, down: int, end: float) -> int:
    """Move k counts of leaf t from the cell `down` to the cell `up`; for `end` see `draw_pair`."""
    state.tried[0] += 1
    x = state.counts
    low, high = -x[t, up], x[t, down]
    if low >= high:
        return 0
    row, rates, levels = state.theta_row[t], state.alpha_row[t], state.path.shape[1]
    i, j = state.sum_class[up], state.sum_class[down]
    limited = state.limited and i != j
    if limited:
        low, high = _limits(state, t, levels, i, j, low, high)
        if low >= high:
            return 0
    slope = state.theta[row, up] - state.theta[row, down]
    a, b = _exchange(state, t, levels, up, down, 0.0, slope)
    k = draw_pair(
        state.generator,
        state.weights,
        x[t, up],
        state.alpha[rates, up],
        x[t, down],
        state.alpha[rates, down],
        state.beta,
        low,
        high,
        a,
        b,
        end,
    )
    if k != 0:
        x[t, up] += k
        x[t, down] -= k
        if limited:
            _write_sums(state, t, levels, i, j, k)
        _write_exchange(state, t, levels, up, down, float(k))
    return k


@inlined
def move_between_leaves(state: State, s: int, t: int, cell: int) -> int:
    """Move k counts of one cell from leaf t to leaf s. Sums at their common node and above do not change."""
    state.tried[0] += 1
    x = state.counts
    low, high = -x[s, cell], x[t, cell]
    if low >= high or not (state.free[s, cell] and state.free[t, cell]):
        return 0
    levels = meeting_level(state.path, s, t)
    for level in range(levels):
        if state.exact_class[level, cell] >= 0:
            return 0
    i = state.sum_class[cell]
    if state.limited:
        low, high = _limits(state, s, levels, i, -1, low, high)
        low, high = _limits(state, t, levels, -1, i, low, high)
        if low >= high:
            return 0
    b = state.theta[state.theta_row[s], cell] - state.theta[state.theta_row[t], cell]
    a, b = _change(state, s, levels, cell, 1.0, 0.0, b)
    a, b = _change(state, t, levels, cell, -1.0, a, b)
    k = draw_pair(
        state.generator,
        state.weights,
        x[s, cell],
        state.alpha[state.alpha_row[s], cell],
        x[t, cell],
        state.alpha[state.alpha_row[t], cell],
        state.beta,
        low,
        high,
        a,
        b,
        1.0,
    )
    if k != 0:
        x[s, cell] += k
        x[t, cell] -= k
        if state.limited:
            _write_sums(state, s, levels, i, -1, k)
            _write_sums(state, t, levels, -1, i, k)
        _write_change(state, s, levels, cell, float(k))
        _write_change(state, t, levels, cell, -float(k))
    return k


@inlined
def move_square(state: State, s: int, t: int, c: int, d: int) -> int:
    """Move k counts from cell d to cell c in leaf s, and from c to d in leaf t.

    Sums at their common node and above do not change, and below it only those that tell c and d apart.
    """
    state.tried[0] += 1
    x, free = state.counts, state.free
    low, high = -min(x[s, c], x[t, d]), min(x[s, d], x[t, c])
    if low >= high or not (free[s, c] and free[s, d] and free[t, c] and free[t, d]):
        return 0
    levels = meeting_level(state.path, s, t)
    for level in range(levels):
        if state.exact_class[level, c] != state.exact_class[level, d]:
            return 0
    i, j = state.sum_class[c], state.sum_class[d]
    limited = state.limited and i != j
    if limited:
        low, high = _limits(state, s, levels, i, j, low, high)
        low, high = _limits(state, t, levels, j, i, low, high)
        if low >= high:
            return 0
    row, other = state.theta_row[s], state.theta_row[t]
    theta = state.theta
    b = (theta[row, c] - theta[row, d]) - (theta[other, c] - theta[other, d])
    a, b = _exchange(state, s, levels, c, d, 0.0, b)
    a, b = _exchange(state, t, levels, d, c, a, b)
    scratch, alphas, alpha = state.scratch, state.alphas, state.alpha
    scratch[3, 0], scratch[3, 1], scratch[3, 2], scratch[3, 3] = x[s, c], x[s, d], x[t, c], x[t, d]
    scratch[2, 0], scratch[2, 1], scratch[2, 2], scratch[2, 3] = 1, -1, -1, 1
    one, two = state.alpha_row[s], state.alpha_row[t]
    alphas[0], alphas[1], alphas[2], alphas[3] = alpha[one, c], alpha[one, d], alpha[two, c], alpha[two, d]
    k = draw_square(state.generator, state.weights, scratch[3], scratch[2], alphas, state.beta, low, high, a, b)
    if k != 0:
        x[s, c] += k
        x[s, d] -= k
        x[t, c] -= k
        x[t, d] += k
        if limited:
            _write_sums(state, s, levels, i, j, k)
            _write_sums(state, t, levels, j, i, k)
        _write_exchange(state, s, levels, c, d, float(k))
        _write_exchange(state, t, levels, d, c, float(k))
    return k


@inlined
def move_single(state: State, t: int, cell: int) -> int:
    """Add k counts to one cell of leaf t, where nothing exact counts it."""
    state.tried[0] += 1
    for level in range(state.path.shape[1]):
        if state.exact_class[level, cell] >= 0:
            return 0
    x, i, levels = state.counts, state.sum_class[cell], state.path.shape[1]
    low, high = -x[t, cell], UNBOUNDED - x[t, cell]
    if state.limited:
        low, high = _limits(state, t, levels, i, -1, low, high)
    if low >= high:
        return 0
    a, b = _change(state, t, levels, cell, 1.0, 0.0, state.theta[state.theta_row[t], cell])
    state.scratch[3, 0], state.scratch[2, 0] = x[t, cell], 1
    state.alphas[0] = state.alpha[state.alpha_row[t], cell]
    k = draw_many(
        state.generator,
        state.weights,
        state.scratch[3],
        state.scratch[2],
        state.alphas,
        ONE,
        state.beta,
        low,
        high,
        a,
        b,
    )
    if k != 0:
        x[t, cell] += k
        if state.limited:
            _write_sums(state, t, levels, i, -1, k)
        _write_change(state, t, levels, cell, float(k))
    return k

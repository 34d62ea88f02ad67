"""Moves of a hierarchy along single lines, and the arrays that they work on.

A table has T leaves of C cells. Leaves stand under nodes, one at each of L levels; a leaf is a node itself, at level 0. At every
node the same A sums of cells may have been published with noise: column q of `answer_of` says in which of them a cell counts. For
each node and sum there is a residual r (published minus current value) and a precision p, and the noise contributes ``-p r^2 / 2``
to the log-density. A cell with count x contributes ``theta x + log h(x)``, with ``h(x + 1) / h(x) = (alpha + beta x) / (x + 1)``:

=================  =======  ======  =====================
prior of a cell    alpha    beta    h(x)
=================  =======  ======  =====================
flat               1        1       1
Poisson            1        0       1 / x!
negative binomial  shape r  1       Gamma(x + r) / x!
=================  =======  ======  =====================

Along a line, k steps of a direction, the log-density is ``B k - A k^2 / 2`` from the noise and the log weights, plus the logarithm
of the prior's h of every cell that the line changes. k = 0 is the table as it stands, and k goes from `low` to `high`. Each move is
given its line, by cells that were chosen without looking at what the move changes, and draws the step from the exact law along it:
every law of this form is left as it is, and no proposal is refused.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bayesdp._arrays import Floats, Ints, Mask, Words
from bayesdp._numba import below, compiled, inlined, inside, part, uniform

RESIDUAL, PRECISION = 0, 1
"""Last axis of `State.answers`."""

ROOM = 4096
"""Points of a line that are tabulated at most."""

ZERO: Any = np.int64(0)
ONE: Any = np.int64(1)
TWO: Any = np.int64(2)
"""Arguments of compiled functions: for a 1 that it can read, Numba compiles a function once more."""

UNBOUNDED = 2**53
"""Stands for no upper limit of a sum; also the largest count."""


class State(NamedTuple):
    """What the moves read and write; the tuple is fixed, its arrays are not."""

    generator: Words  # shape (4,)
    counts: Ints  # the table, shape (T, C)
    answers: Floats  # residual and precision of each sum at each node, shape (nodes, A, 2)
    answer_of: Ints  # the sums in which a cell counts, shape (C, queries)
    path: Ints  # the nodes of a leaf, from the leaf up to the root, shape (T, L)
    first: Ints  # with `last`: the leaves of a node are ``first .. last - 1``, shape (nodes,)
    last: Ints
    theta: Floats  # log weights of the prior, shape (rows, C)
    theta_row: Ints  # which row of `theta` holds for a leaf, shape (T,)
    alpha: Floats  # shape (rows, C)
    alpha_row: Ints  # which row of `alpha` holds for a leaf, shape (T,)
    beta: float  # see the table above
    free: Mask  # cells that may move; the others keep their counts, shape (T, C)
    # Cells of one class count in the same exact sums of a node at this level; -1: in none, shape (L, C).
    exact_class: Ints
    limited: bool  # whether any sum has limits; if not, the next four are not looked at
    sum_class: Ints  # the class of cells whose sums have limits, shape (C,)
    sums: Ints  # with `sum_lower`, `sum_upper`: current values of these sums at each node, and limits, shape (nodes, classes)
    sum_lower: Ints
    sum_upper: Ints
    group_start: Ints  # shape (T, groups + 1)
    group_cell: Ints  # cells that a precise answer ties: ``group_start[t, g] .. group_start[t, g + 1] - 1`` of leaf t and group g
    free_start: Ints  # shape (T + 1,)
    free_cell: Ints  # free cells of each leaf, shape (entries,)
    visits: Ints  # how often each of them is visited, in units of `kernel.sweeps.MIX`, shape (entries,)
    donor_start: Ints  # shape (T, pair classes + 1)
    donor_cell: Ints  # cells of a leaf that other cells of their pair class are moved against, shape (entries,)
    pair_class: Ints  # cells of one class may exchange counts: they are in one exact class at every level, shape (C,)
    weights: Floats  # work space: the weights of the points of a line, shape (ROOM,)
    scratch: Ints  # work space of directions with several cells: leaf, cell, entry, count, shape (4, 64)
    alphas: Floats  # work space of the same, shape (64,)
    occupied: Ints  # work space: the cells of a group that are not 0, shape (C,)
    tried: Ints  # how many moves were tried, shape (1,)


_FIXED_SHARE = 15.0 / 16.0
"""How often a long line is cut at places that do not depend on where the table is."""

_TOO_LARGE = 1e290
"""Weights that add up to more are worked out again by their logarithms."""


@inlined
def _window(generator: Words, low: int, high: int, a: float, b: float, room: int) -> tuple[int, int]:
    """The points of the line among which k is drawn.

    All of them, if there are not many more than the noise leaves likely. Otherwise a coin that does not look at the table decides
    between two windows. The fixed one is a function of the line alone: 4.5 standard deviations about the peak of the noise, up to an
    end of the line that is within 9; a table outside of it stays where it is. The other has a fixed length, and its offset from the
    table is uniform. Given the window, k has the law of the line cut to it. With the first, all tables of the line have the same
    window or stay; with the second, a window is as likely to be drawn from each of its points. Both leave the law of the line as it
    is, whatever the prior, and the second reaches all of it.
    """
    n = high - low + 1
    if n <= 4:
        return low, high
    length = room
    sd = 0.0
    if a > 0.0:
        sd = 1.0 / math.sqrt(a)
        if 8.0 * sd + 3.0 < room:
            length = int(8.0 * sd) + 3
    if n <= length + length // 2 and n <= room:
        return low, high
    if a > 0.0 and uniform(generator) < _FIXED_SHARE:
        peak = min(max(b / a, float(low)), float(high))
        near, far = 4.5 * sd + 1.0, 9.0 * sd + 1.0
        start = low if peak - far <= low else math.floor(peak - near)
        end = high if peak + far >= high else math.ceil(peak + near)
        if end - start < room:
            if start <= 0 <= end:
                return int(start), int(end)
            return 0, 0
    offset = below(generator, length)
    return max(low, -offset), min(high, length - 1 - offset)


@inlined
def _pick(sums: Floats, n: int, u: float) -> int:
    """The first of n points whose sum of weights, with those before it, is above u; the last one where rounding leaves none."""
    # Counting them all takes no guess of where to stop, and a processor guesses worse than it counts.
    found = 0
    for i in range(n - 1):
        found += sums[i] <= u
    return found


@compiled
def draw_pair(generator: Words, weights: Floats, up: int, up_alpha: float, down: int, down_alpha: float,
              beta: float, low: int, high: int, a: float, b: float, end: float) -> int:  # fmt: skip
    """Draw k for a line that adds k to one cell, with count `up`, and takes it from another, with count `down`.

    Where one of the two cells would be 0 the weight is multiplied by `end`: the chance of this line there, in units of its
    chance elsewhere, where lines are chosen by which cells are 0.
    """
    lo, hi = _window(generator, low, high, a, b, len(weights))
    if lo >= hi:
        return 0
    # Sums of weights, in units of the weight of the first point. Windows begin at most some 12 standard deviations below the peak of
    # the noise, so that few lines need logarithms. Counts as floats, and one quotient a point: conversions and quotients are slow.
    weights[0] = total = w = 1.0
    factor, step = math.exp(b - a * (lo + 0.5)), math.exp(-a)
    x, y = float(up + lo), float(down - lo)
    for i in range(1, hi - lo + 1):
        w *= factor * (((up_alpha + beta * x) * y) / ((x + 1.0) * (down_alpha + beta * (y - 1.0))))
        factor *= step
        total += w
        weights[i] = total
        x += 1.0
        y -= 1.0
    if not total < _TOO_LARGE:
        w, total = _pair_by_logarithms(weights, up, up_alpha, down, down_alpha, beta, lo, hi, a, b)
    first = last = 0.0
    if end != 1.0:
        if lo == -up:
            first = (end - 1.0) * weights[0]
        if hi == down:
            last = (end - 1.0) * w
    u = uniform(generator) * (total + first + last)
    return lo + _pick(weights, hi - lo + 1, u - first)


@inside
def _pair_by_logarithms(weights: Floats, up: int, up_alpha: float, down: int, down_alpha: float, beta: float,
                        lo: int, hi: int, a: float, b: float) -> tuple[float, float]:  # fmt: skip
    height = largest = 0.0
    weights[0] = 0.0
    for k in range(lo, hi):
        x, y = float(up + k), float(down - k)
        height += b - a * (k + 0.5)
        height += math.log(((up_alpha + beta * x) * y) / ((x + 1.0) * (down_alpha + beta * (y - 1.0))))
        weights[k + 1 - lo] = height
        largest = max(largest, height)
    return _exponentials(weights, hi - lo + 1, largest)


@compiled
def draw_square(generator: Words, weights: Floats, counts: Ints, entries: Ints, alphas: Floats, beta: float,
                low: int, high: int, a: float, b: float) -> int:  # fmt: skip
    """Draw k for a line that adds k to the first and the last of four cells, and takes it from the two between them."""
    lo, hi = _window(generator, low, high, a, b, len(weights))
    if lo >= hi:
        return 0
    weights[0] = total = w = 1.0  # as in `draw_pair`
    factor, step = math.exp(b - a * (lo + 0.5)), math.exp(-a)
    alpha, beside, across, far = alphas[0], alphas[1], alphas[2], alphas[3]
    x, y, z, v = float(counts[0] + lo), float(counts[1] - lo), float(counts[2] - lo), float(counts[3] + lo)
    for i in range(1, hi - lo + 1):
        rise = ((alpha + beta * x) * y) * (z * (far + beta * v))
        fall = ((x + 1.0) * (beside + beta * (y - 1.0))) * ((across + beta * (z - 1.0)) * (v + 1.0))
        w *= factor * (rise / fall)
        factor *= step
        total += w
        weights[i] = total
        x += 1.0
        y -= 1.0
        z -= 1.0
        v += 1.0
    if not total < _TOO_LARGE:
        w, total = _by_logarithms(weights, counts, entries, alphas, 4, beta, lo, hi, a, b)
    return lo + _pick(weights, hi - lo + 1, uniform(generator) * total)


@inlined
def _exponentials(weights: Floats, n: int, largest: float) -> tuple[float, float]:
    """Sums of weights from their logarithms; the last weight, and the sum of all."""
    total = w = 0.0
    for i in range(n):
        w = math.exp(weights[i] - largest)
        total += w
        weights[i] = total
    return w, total


@compiled
def draw_many(generator: Words, weights: Floats, counts: Ints, entries: Ints, alphas: Floats, n: int,
              beta: float, low: int, high: int, a: float, b: float) -> int:  # fmt: skip
    """Draw k for a line that adds ``entries[i] k`` to the cell with ``counts[i]``, for n cells; entries are not 0."""
    lo, hi = _window(generator, low, high, a, b, len(weights))
    if lo >= hi:
        return 0
    _, total = _by_logarithms(weights, counts, entries, alphas, n, beta, lo, hi, a, b)
    return lo + _pick(weights, hi - lo + 1, uniform(generator) * total)


@inside
def _by_logarithms(weights: Floats, counts: Ints, entries: Ints, alphas: Floats, n: int, beta: float, lo: int,
                   hi: int, a: float, b: float) -> tuple[float, float]:  # fmt: skip
    height = largest = 0.0
    weights[0] = 0.0
    for k in range(lo, hi):
        height += b - a * (k + 0.5)
        for i in range(n):
            x, e = counts[i] + k * entries[i], entries[i]
            while e > 0:
                height += math.log((alphas[i] + beta * x) / (x + 1))
                x, e = x + 1, e - 1
            while e < 0:
                height += math.log(x / (alphas[i] + beta * (x - 1)))
                x, e = x - 1, e + 1
        weights[k + 1 - lo] = height
        largest = max(largest, height)
    return _exponentials(weights, hi - lo + 1, largest)


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
    one, two = state.alpha[rates, up], state.alpha[rates, down]
    k = draw_pair(state.generator, state.weights, x[t, up], one, x[t, down], two, state.beta, low, high, a, b, end)
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
    one, two = state.alpha[state.alpha_row[s], cell], state.alpha[state.alpha_row[t], cell]
    k = draw_pair(state.generator, state.weights, x[s, cell], one, x[t, cell], two, state.beta, low, high, a, b, 1.0)
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


@part
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
    scratch, alphas = state.scratch, state.alphas
    scratch[3, 0], scratch[2, 0], alphas[0] = x[t, cell], 1, state.alpha[state.alpha_row[t], cell]
    k = draw_many(state.generator, state.weights, scratch[3], scratch[2], alphas, ONE, state.beta, low, high, a, b)
    if k != 0:
        x[t, cell] += k
        if state.limited:
            _write_sums(state, t, levels, i, -1, k)
        _write_change(state, t, levels, cell, float(k))
    return k

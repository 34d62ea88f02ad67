"""Moves of a hierarchy all of whose numbers were perturbed by little: walls on every side.

A move takes two labels along each axis of a set, and one label along each other; of one leaf, or of two leaves under one node. The
cells change by alternating signs. So sums over an axis of the set stay as they are, and with two leaves all sums of nodes above both;
of each other published sum, a few answers of a node change by the step. The step is drawn among all whole numbers that keep these
answers within what their laws allow; where the first few leave no room, the others are not looked at.

A row is an answer of a node: where it is in the window of its law, the last place there, and where log-masses of that begin, -1 where
all are alike. Sets, leaves and labels are drawn without looking at the table, and the law of steps is reversible, so that all laws
that have this table as their posterior stay as they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Mask, Words
from bayesdp._numba import below, compiled, exponential, inlined, inside, uniform
from bayesdp.fibers.kernel.state import IMPOSSIBLE, NEGBIN, POISSON

LONGEST = 255
"""Steps of one sign that are looked at: more than any window is long."""

SUMMED = 32
"""Most moves that are added up."""

_SELDOM = 8
"""A sum of moves is tried once in a sweep of so many leaves."""

_ROOM, _GAP, _SHORT = 12, 3.0, 3
"""While laws have a price: how far beyond a window an answer may go, how many units one in a gap costs, and the longest step."""


class Walls(NamedTuple):
    """A table of leaves by cells, its prior, and what was published of its nodes; changed by moves."""

    counts: Ints  # shape (T, C)
    free: Mask  # cells that may move
    weight: Floats  # of the prior, as in `bayesdp.fibers.kernel.state`, shape (T, C)
    shape: Floats
    path: Ints  # nodes of a leaf, shape (T, L)
    leaves: Ints  # the first leaf of a node, and the one after its last, shape (nodes, 2)
    sizes: Ints  # labels of each axis of the cells
    answer_of: Ints  # the answer that a cell counts in, of each query, shape (C, queries)
    recoded: Mask  # queries that take several labels of an axis as one, but not all
    # Which queries change at a level if a set of axes does: how many, and which, shape (L, sets, 1 + queries).
    asked: Ints
    rows: npt.NDArray[np.int32]  # answers of a node follow one another, shape (nodes * answers, 3)
    answers: int  # of a node
    masses: Floats
    charges: Floats  # what log-masses, and prices, of a row are multiplied by, shape (nodes * answers,)
    generator: Words
    # Work space: another leaf under the node of each level, and how many levels change with it, shape (L, 2).
    others: Ints
    cells: Ints  # the cells of a move, and their signs
    signs: Ints
    touched: Ints  # numbers of rows, flat, and how they change
    by: Ints
    law: Floats  # weights of steps, shape (2, 2 * LONGEST + 1)


@inlined
def _meet(t: int, walls: Walls) -> None:
    """Draw the other leaf of each relation, and how many levels change with it: none where there is no other."""
    walls.others[0, 0], walls.others[0, 1] = -1, walls.path.shape[1]
    for relation in range(1, walls.path.shape[1]):
        first, leaves = 0, 1
        for level in range(relation, walls.path.shape[1]):
            if leaves < 2:  # where a node has no other leaf, one of the first above that has
                node = walls.path[t, level]
                first, leaves = walls.leaves[node, 0], walls.leaves[node, 1] - walls.leaves[node, 0]
        levels = 0
        if leaves > 1:
            other = first + below(walls.generator, leaves - 1)
            other += other >= t
            while walls.path[t, levels] != walls.path[other, levels]:
                levels += 1
            walls.others[relation, 0] = other
        walls.others[relation, 1] = levels


@inlined
def _drawn(t: int, walls: Walls) -> tuple[int, int, int, int]:
    """Draw a move: how many cells of the leaf change (0: none), the set of axes, the other leaf or -1, and how many levels change."""
    # One leaf is as likely as two under one node of each level, and so is each set of axes but the empty one, which alone changes
    # totals and is twice as likely. Of 16 other shares none made cells of an Australian state mix much faster.
    axes = len(walls.sizes)
    relation, chosen = below(walls.generator, walls.path.shape[1]), below(walls.generator, (1 << axes) + 1)
    chosen &= (1 << axes) - 1
    other, levels = walls.others[relation, 0], walls.others[relation, 1]
    if levels == 0:
        return 0, 0, 0, 0
    count = 1
    walls.cells[0], walls.signs[0] = 0, 1
    for axis in range(axes):
        size = walls.sizes[axis]
        label = below(walls.generator, size)
        for i in range(count):
            walls.cells[i] = walls.cells[i] * size + label
        if chosen >> axis & 1:
            if size < 2:
                return 0, 0, 0, 0
            second = below(walls.generator, size - 1)
            second += second >= label
            for i in range(count):
                walls.cells[count + i] = walls.cells[i] + second - label
                walls.signs[count + i] = -walls.signs[i]
            count *= 2
    for i in range(count):
        if not walls.free[t, walls.cells[i]] or (other >= 0 and not walls.free[other, walls.cells[i]]):
            return 0, 0, 0, 0
    return count, chosen, other, levels


@inlined
def _met(t: int, other: int, levels: int, chosen: int, count: int, price: float,
         walls: Walls) -> tuple[int, int, int, int]:  # fmt: skip
    """List the rows that change: how many, whether they leave room, and for which steps. Below a price of 0 they limit nothing."""
    longest = _SHORT if price > 0.0 else LONGEST
    found, low, high = 0, -longest, longest
    for side in range(1 if other < 0 else 2):
        leaf, sign = (t, 1) if side == 0 else (other, -1)
        if price > 0.0:
            for i in range(count):
                x = walls.counts[leaf, walls.cells[i]]
                if sign * walls.signs[i] > 0:
                    low = max(low, -x)
                else:
                    high = min(high, x)
        for level in range(levels):
            node = walls.path[leaf, level]
            for at in range(1, walls.asked[level, chosen, 0] + 1):
                query = walls.asked[level, chosen, at]
                if walls.recoded[query]:  # labels that a query takes as one change nothing
                    alike, step = False, 1
                    while step < count:
                        alike |= walls.answer_of[walls.cells[0], query] == walls.answer_of[walls.cells[step], query]
                        step *= 2
                    if alike:
                        continue
                for i in range(count):
                    row = node * walls.answers + walls.answer_of[walls.cells[i], query]
                    down, way = int(walls.rows[row, 0]), sign * walls.signs[i]
                    up = int(walls.rows[row, 1]) - down
                    if price > 0.0:
                        down, up = max(down + _ROOM, 0), max(up + _ROOM, 0)
                    walls.touched[found], walls.by[found] = row, way
                    if way > 0:
                        low, high = max(low, -down), min(high, up)
                    else:
                        low, high = max(low, -up), min(high, down)
                    found += 1
                    if low >= high and price >= 0.0:
                        return found, 0, 0, 0
    return found, 1, low, high


@inlined
def _mass(row: int, place: int, price: float, walls: Walls) -> float:
    """Log-mass of a row at a place of its window, or what it costs beyond."""
    last, start = int(walls.rows[row, 1]), int(walls.rows[row, 2])
    inside = min(max(place, 0), last)
    found = walls.masses[start + inside] if start >= 0 else 0.0
    if price > 0.0:
        if found <= IMPOSSIBLE / 2.0:
            found = -_GAP * price
        found -= price * abs(place - inside)
    return float(found * walls.charges[row])


@inlined
def _weigh(t: int, other: int, count: int, found: int, low: int, high: int, price: float, family: int,
           walls: Walls) -> float:  # fmt: skip
    """Weights of the steps from `low` to `high`, that of no step not above 1; their sum."""
    rows, law = walls.rows, walls.law
    bent = False
    for i in range(found):
        bent |= price > 0.0 or rows[walls.touched[i], 2] >= 0
    law[0, LONGEST] = 1.0
    for sign in (-1, 1):
        value, most = 1.0, high if sign > 0 else -low
        for k in range(most):
            above, under = 1.0, 1.0
            for i in range(count if other < 0 else 2 * count):
                leaf, s = (t, 1) if i < count else (other, -1)
                cell = walls.cells[i if i < count else i - count]
                s *= sign * walls.signs[i if i < count else i - count]
                x = walls.counts[leaf, cell] + s * k
                if s > 0:
                    above *= walls.weight[leaf, cell]
                    if family >= POISSON:
                        under *= x + 1.0
                    if family == NEGBIN:
                        above *= x + walls.shape[leaf, cell]
                else:
                    under *= walls.weight[leaf, cell]
                    if family >= POISSON:
                        above *= x
                    if family == NEGBIN:
                        under *= x - 1.0 + walls.shape[leaf, cell]
            value *= above / under
            law[0, LONGEST + sign * (k + 1)] = value
    total, top = 0.0, 0.0
    if bent:
        top = -np.inf
        for k in range(low, high + 1):
            height = 0.0
            for i in range(found):
                row = walls.touched[i]
                if price > 0.0 or rows[row, 2] >= 0:
                    height += _mass(row, rows[row, 0] + k * walls.by[i], price, walls)
            law[1, LONGEST + k] = height
            top = max(top, height + math.log(max(law[0, LONGEST + k], 1e-300)))
    for k in range(low, high + 1):
        if bent:
            law[0, LONGEST + k] = math.exp(law[1, LONGEST + k] + math.log(max(law[0, LONGEST + k], 1e-300)) - top)
        total += law[0, LONGEST + k]
    return total


@inlined
def _change(t: int, other: int, count: int, found: int, k: int, walls: Walls) -> None:
    """Change cells and rows by a step."""
    for i in range(count):
        walls.counts[t, walls.cells[i]] += k * walls.signs[i]
        if other >= 0:
            walls.counts[other, walls.cells[i]] -= k * walls.signs[i]
    for i in range(found):
        walls.rows[walls.touched[i], 0] += k * walls.by[i]


@inlined
def _move(t: int, price: float, family: int, walls: Walls) -> None:
    """One move of a leaf, with another or alone."""
    count, chosen, other, levels = _drawn(t, walls)
    if count == 0:
        return
    found, room, low, high = _met(t, other, levels, chosen, count, price, walls)
    if room == 0:
        return
    # To any other step by its weight; taken or not so that it is reversible. It stays less often than a draw among all would.
    total, stay = _weigh(t, other, count, found, low, high, price, family, walls), walls.law[0, LONGEST]
    rest = uniform(walls.generator) * (total - stay)
    k, step = low, 0
    while k <= high:
        if k != 0 and walls.law[0, LONGEST + k] > 0.0:
            step = k
            rest -= walls.law[0, LONGEST + k]
            if rest < 0.0:
                break
        k += 1
    if step == 0:
        return
    back = total - walls.law[0, LONGEST + step]
    if back > 0.0 and uniform(walls.generator) * back >= total - stay:
        return
    _change(t, other, count, found, step, walls)


@inside
def _prior(leaf: int, cell: int, family: int, walls: Walls) -> float:
    """Log-weight of a count under its prior; 0 for negative ones."""
    x = walls.counts[leaf, cell]
    if x < 0:
        return 0.0
    found = x * math.log(walls.weight[leaf, cell])
    if family >= POISSON:
        found -= math.lgamma(x + 1.0)
    if family == NEGBIN:
        found += math.lgamma(x + walls.shape[leaf, cell])
    return float(found)


@inside
def _sum(family: int, walls: Walls) -> None:
    """Two moves or more at once, each by one: what single steps cannot reach, some sum does."""
    # Tried, and taken or taken back by its ratio. To take it back the same numbers are drawn again, and each move goes the other way.
    g, parts = walls.generator, 2
    while parts < SUMMED and uniform(g) < 0.5:
        parts += 1
    begin_0, begin_1, begin_2, begin_3 = g[0], g[1], g[2], g[3]
    outside, ratio = 0, 0.0
    for way in (1, -1):
        for _ in range(parts):
            t, step = below(g, len(walls.counts)), 2 * below(g, 2) - 1
            _meet(t, walls)
            count, chosen, other, levels = _drawn(t, walls)
            if count == 0:
                continue
            found, _, _, _ = _met(t, other, levels, chosen, count, -1.0, walls)
            for time in (-1, 1):
                if way > 0:
                    for i in range(found):
                        place = walls.rows[walls.touched[i], 0]
                        if place < 0 or place > walls.rows[walls.touched[i], 1]:
                            outside += time
                        else:
                            ratio += time * _mass(walls.touched[i], place, 0.0, walls)
                    for i in range(count):
                        ratio += time * _prior(t, walls.cells[i], family, walls)
                        if other >= 0:
                            ratio += time * _prior(other, walls.cells[i], family, walls)
                if time < 0:
                    _change(t, other, count, found, way * step, walls)
        if way > 0:
            if outside == 0 and -exponential(g) < ratio:
                return
            end_0, end_1, end_2, end_3 = g[0], g[1], g[2], g[3]
            g[0], g[1], g[2], g[3] = begin_0, begin_1, begin_2, begin_3
    g[0], g[1], g[2], g[3] = end_0, end_1, end_2, end_3


@compiled
def sweep(moves: int, price: float, family: int, walls: Walls) -> None:
    """So many moves of each leaf, leaf after leaf: what belongs to it stays near."""
    for t in range(len(walls.counts)):
        _meet(t, walls)
        for _ in range(moves):
            _move(t, price, family, walls)
        if price == 0.0 and t % _SELDOM == 0:
            _sum(family, walls)


@compiled
def charge(more: float, walls: Walls) -> float:
    """Add to what rows that are forbidden cost; how many units the table costs, but for the price."""
    total = 0.0
    for row in range(len(walls.rows)):
        place, last, start = walls.rows[row]
        beyond = float(max(max(-place, place - last), 0))
        if start >= 0 and walls.masses[start + min(max(place, 0), last)] <= IMPOSSIBLE / 2.0:
            beyond += _GAP
        if beyond > 0.0:
            walls.charges[row] += more
        total += beyond
    return total

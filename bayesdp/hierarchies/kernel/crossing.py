"""Moves along several axes of a leaf at once, and along directions that keep precise answers of a leaf and of nodes above it.

Precise answers may cut the cells of a leaf across each other. A difference along two axes, a rectangle, keeps every sum that does
not keep both of them: a leaf by age and its sums by race, if both are precise. Three margins by two axes each are kept by
differences along three axes. Where most cells are 0 nearly all of these are blocked, as four cells have to fall; so they are
replaced by closed walks across two layers, whose falling cells are not 0: `bayesdp.fibers.kernel.occupied_moves` has their steps, and
the proof that they leave the law as it is. The layers are two labels of one axis, or the same cells of two leaves, either of which is
the first with probability 1/2.

Rectangles, and the cell at which a walk begins, are drawn without looking at the table; a walk goes no further if this cell is 0. So
a table x draws a walk with a probability proportional to g(x), the chance of its steps plus that of the same labels begun in the
other layer, which is the opposite direction. A table y is drawn from the law along the line, and accepted with probability
min(1, g(y) / g(x)).

Directions that keep all precise answers at once are those of tables in general (`bayesdp.fibers.moves`): differences along every set
of axes and levels that the answers leave, closed walks through leaves and cells where cells are known to be 0, and lists for small
tables. They are drawn without looking at the table, and the step along them from its exact law.

Some are exchanges instead: cells that would fall and cells that would rise, in pairs of one leaf or of one cell, change
their counts. (By a step all falling cells get near 0 only where their counts are about the same.) Exchanges undo themselves, and
are accepted with probability min(1, ratio of the law): that leaves it as it is (Metropolis).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import below, compiled, inlined, inside, part, uniform
from bayesdp.fibers.moves.direction import draw_direction
from bayesdp.hierarchies.kernel.moves import ONE, State, meeting_level
from bayesdp.hierarchies.kernel.sweeps import draw_along, fall_of, near_leaf, other_leaf, take_step

RECTANGLE, LAYERS, LEAVES = range(3)
"""Kinds of families: rectangles, walks across two labels of an axis, and walks across two leaves."""

LABELS = 12
"""Labels of a walk at most, of both axes together."""


@inlined
def _place(cell: int, stride: int, labels: int) -> int:
    """The label of a cell on an axis."""
    return (cell // stride) % labels


@inside
def _walk(
    state: State, t: int, s: int, base: int, across: int, family: Ints, nodes: Ints, length: int
) -> tuple[int, float]:
    """Walk from leaf t of the first layer and s of the second, or work out the chance of a walk of `length` labels that is given."""
    # `base` is the cell of the first layer with the first label of both axes, and `base + across` that of the second. The first two
    # of the labels `nodes` are given, the others are written, or read if `length` is positive. Returns the number of labels, 0 if the
    # walk does not close, and the chance of its steps.
    x, generator = state.counts, state.generator
    given = length > 0
    if x[t, base + nodes[0] * family[2] + nodes[1] * family[4]] == 0:
        return 0, 0.0
    done, chance = 2, 1.0
    while done <= LABELS:
        even = done % 2 == 0
        # Where the next falling cell is: in the second layer, with a new label of the first axis, or the other way round.
        leaf = s if even else t
        own = (base + across if even else base) + nodes[done - 1] * (family[4] if even else family[2])
        stride, labels = (family[2], family[3]) if even else (family[4], family[5])
        choices, wanted = 0, -1
        if done < LABELS:
            for label in range(labels):
                if x[leaf, own + label * stride] == 0:
                    continue
                taken = False
                for i in range(done % 2, done, 2):
                    if nodes[i] == label:
                        taken = True
                if taken:
                    continue
                choices += 1
                if not given:
                    # Each of those seen so far is kept with the same probability.
                    if below(generator, choices) == 0:
                        wanted = label
                elif done < length and nodes[done] == label:
                    wanted = label
        if even and done >= 4 and x[leaf, own + nodes[0] * stride] > 0:
            stop = 1.0 if choices == 0 else 0.5
            closes = done == length if given else stop == 1.0 or uniform(generator) < 0.5
            if closes:
                return done, chance * stop
            chance *= 1.0 - stop
        if wanted < 0:
            return 0, 0.0
        nodes[done] = wanted
        chance /= choices
        done += 1
    return 0, 0.0


@inlined
def _put(state: State, n: int, t: int, cell: int, entry: int) -> int:
    """Write a cell of a direction; how many there are, -1 where it cannot move."""
    if n < 0 or not state.free[t, cell]:
        return -1
    state.scratch[0, n], state.scratch[1, n], state.scratch[2, n] = t, cell, entry
    return n + 1


@inside
def _written(state: State, t: int, s: int, base: int, across: int, family: Ints, nodes: Ints, length: int) -> int:
    """The direction of a closed walk, into `State.scratch`; the number of its cells, -1 where one of them cannot move."""
    n = 0
    for i in range(length):
        # From each label to the next: the cells of both layers, one of which falls and one of which rises.
        a, c = (nodes[i], nodes[i + 1]) if i % 2 == 0 else (nodes[(i + 1) % length], nodes[i])
        cell, entry = base + a * family[2] + c * family[4], -1 if i % 2 == 0 else 1
        n = _put(state, n, t, cell, entry)
        n = _put(state, n, s, cell + across, -entry)
    return n


@inside
def _move_walk(state: State, t: int, family: Ints, nodes: Ints, p: int) -> int:
    s, across = t, 0
    if family[0] == LAYERS:
        layer = _place(p, family[6], family[7])
        other = below(state.generator, family[7] - 1)
        across = (other + 1 if other >= layer else other) * family[6] - layer * family[6]
    else:
        s = near_leaf(state, t) if uniform(state.generator) < 0.5 else other_leaf(state, t)
        if s < 0 or meeting_level(state.path, s, t) > family[1]:
            return 0
        if uniform(state.generator) < 0.5:
            s, t = t, s
    if state.counts[t, p] == 0:
        return 0
    nodes[0], nodes[1] = _place(p, family[2], family[3]), _place(p, family[4], family[5])
    base = p - nodes[0] * family[2] - nodes[1] * family[4]
    length, ahead = _walk(state, t, s, base, across, family, nodes, 0)
    if length == 0:
        return 0
    back = _walk(state, s, t, base + across, -across, family, nodes, length)[1]
    n = _written(state, t, s, base, across, family, nodes, length)
    k = draw_along(state, n) if n > 0 else 0
    if k == 0:
        return 0
    new = _walk(state, t, s, base, across, family, nodes, length)[1]
    new += _walk(state, s, t, base + across, -across, family, nodes, length)[1]
    if uniform(state.generator) * (ahead + back) >= new:
        take_step(state, n, -k)
        return 0
    return k


@inside
def _move_rectangle(state: State, t: int, family: Ints, p: int) -> int:
    a, c = _place(p, family[2], family[3]), _place(p, family[4], family[5])
    one, two = below(state.generator, family[3] - 1), below(state.generator, family[5] - 1)
    beside = p + ((one + 1 if one >= a else one) - a) * family[2]
    shift = ((two + 1 if two >= c else two) - c) * family[4]
    x = state.counts[t]
    if (x[p] == 0 or x[beside + shift] == 0) and (x[beside] == 0 or x[p + shift] == 0):
        return 0
    n = _put(state, 0, t, p, 1)
    n = _put(state, n, t, beside, -1)
    n = _put(state, n, t, p + shift, -1)
    n = _put(state, n, t, beside + shift, 1)
    return draw_along(state, n) if n > 0 else 0


@compiled
def cross(state: State, families: Ints, percent: int, nodes: Ints) -> int:
    """In every leaf, so many moves of the families as cells, in percent; the number of moves that changed the table."""
    # `families`, shape (families, 8): the kind; the level at which two leaves meet at most; and of each axis, in the numbers of
    # cells, from one label to the next and how many labels there are: of the two along which it walks, and of that of the layers.
    # `nodes`, shape (LABELS,): work space.
    changed = 0
    cells = state.counts.shape[1]
    for t in range(len(state.counts)):
        for _ in range(cells * percent // 100):
            state.tried[0] += 1
            family = families[below(state.generator, len(families))]
            p = below(state.generator, cells)
            if family[0] == RECTANGLE:
                changed += _move_rectangle(state, t, family, p) != 0
            else:
                changed += _move_walk(state, t, family, nodes, p) != 0
    return changed


class Directions(NamedTuple):
    """Directions of a table, and where its cells are in the tree."""

    meta: Ints  # with `cumulative`, `pool`: see `bayesdp.fibers.moves.moves.Moves`
    cumulative: Floats
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


@part
def _may(state: State, t: int, cell: int, s: int, other: int) -> bool:
    """Whether counts may go from one cell to another by what is exact."""
    meet = meeting_level(state.path, t, s)
    for level in range(state.path.shape[1]):
        one, two = state.exact_class[level, cell], state.exact_class[level, other]
        if one != two if level >= meet else max(one, two) >= 0:
            return False
    return True


@part
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

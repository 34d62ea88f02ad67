"""Directions whose falling cells are not 0: moves that keep precise sums of sparse tables.

Along a pair one cell falls, along a square of a two-way table two, along a cube of a three-way table four, and none of these may
be 0. In a table where one cell in six is not 0 that is so of one square in eighteen, and of one cube in 600, if they are drawn
without looking at the table. Here they are drawn by looking at which cells are not 0, and the draw is corrected for it.

With N occupied cells (those above their lower bounds), the direction is

* of a pair (one factor): from p, uniform among the occupied cells, to another label, uniform;
* of a square (two factors): from p and q, uniform among the ordered pairs of occupied cells. If they differ in both factors they
  are its diagonal, and fall; otherwise no move is made;
* of three factors: a closed walk across two layers (`walks`), from p, uniform among the occupied cells. Which factor has the
  layers is uniform, and so is the other layer.

What is drawn, A, is a direction up to its sign, and for three factors the labels of the walk in turn besides. A table x draws it
with a probability proportional to

    g(x) = w(F) + w(R),

F and R its falling and its rising cells; w is 0 where one of them is not occupied, and else 1 / N for a pair, 2 / (N (N - 1)) for
a square, and 1 / N times the chance of the steps of the walk. A table y is drawn from the law of the posterior along the line, and
accepted with probability min(1, g(y) / g(x)).

Proof that the posterior pi is left as it is. Given A, whose line has the weight pi(A), the flow from x to y is
g(x) pi(x) (pi(y) / pi(A)) min(1, g(y) / g(x)) = pi(x) pi(y) min(g(x), g(y)) / pi(A). It is the same from y to x: the step is
reversible for each A, and so for all together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._jit import compiled, inside
from bayesdp._random import below, uniform
from bayesdp.fibers.kernel.line import draw_step
from bayesdp.fibers.kernel.occupied import Donors
from bayesdp.fibers.kernel.state import LOWER, State, X
from bayesdp.fibers.kernel.sweep import line_of, take_back
from bayesdp.fibers.kernel.walks import walk, write_walk
from bayesdp.fibers.kernel.wide import IMPROPER

type Ints = npt.NDArray[np.int64]


@inside
def _note(donors: Donors, cells_int: Ints, cell: int, occupied: int) -> int:
    """Bring the list of occupied cells up to date for one cell; the length of the list, which was `occupied`."""
    at = donors.where[cell]
    if cells_int[cell, X] > cells_int[cell, LOWER]:
        if at < 0:
            donors.occupied[occupied] = cell
            donors.where[cell] = occupied
            occupied += 1
    elif at >= 0:
        occupied -= 1
        end = donors.occupied[occupied]
        donors.occupied[at] = end
        donors.where[end] = at
        donors.where[cell] = -1
    return occupied


@inside
def _apart(donors: Donors, family: int, factor: int, p: int, q: int) -> bool:
    """Whether two cells have different labels of a factor, which may be exchanged."""
    one, two = donors.place[family, factor, p], donors.place[family, factor, q]
    start = donors.start[family, factor]
    return bool(one != two and donors.first[start + one] == donors.first[start + two])


@inside
def _shift(donors: Donors, family: int, factor: int, p: int, q: int) -> int:
    """What is added to the number of a cell where the label of p is replaced by that of q."""
    start = donors.start[family, factor]
    return int(
        donors.offset[start + donors.place[family, factor, q]] - donors.offset[start + donors.place[family, factor, p]]
    )


@inside
def _chance_of_half(donors: Donors, factors: int, cells: Ints, half: int, occupied: int) -> float:
    """w(H) of a pair or square, of the cells ``half, half + 1, ..`` of its direction; 0 if one is not occupied."""
    for i in range(half, half + factors):
        if donors.where[cells[i]] < 0:
            return 0.0
    return 1.0 / occupied if factors == 1 else 2.0 / (float(occupied) * (occupied - 1.0))


@inside
def _another(donors: Donors, family: int, factor: int, p: int, generator: npt.NDArray[np.uint64]) -> int:
    """A cell with another label of a factor, uniform among those that the label may be exchanged with."""
    start, own = donors.start[family, factor], donors.place[family, factor, p]
    first = donors.first[start + own]
    label = first + below(generator, donors.last[start + own] - first - 1)
    if label >= own:
        label += 1
    return int(p + donors.offset[start + label] - donors.offset[start + own])


@inside
def _draw(
    donors: Donors, family: int, generator: npt.NDArray[np.uint64], occupied: int, cells: Ints, steps: Ints
) -> int:
    """Draw a direction: the cells that fall come first. The number of its cells, 0 for none."""
    factors = donors.factors[family]
    p = donors.occupied[below(generator, occupied)]
    if donors.place[family, 0, p] < 0:
        return 0
    if factors == 1:
        cells[0], cells[1] = p, _another(donors, family, 0, p, generator)
        steps[0], steps[1] = -1, 1
        return 2
    if occupied < 2:
        return 0
    other = below(generator, occupied - 1)
    q = donors.occupied[other + 1 if other >= donors.where[p] else other]
    if donors.place[family, 0, q] < 0:
        return 0
    if not (_apart(donors, family, 0, p, q) and _apart(donors, family, 1, p, q)):
        return 0
    shift = _shift(donors, family, 0, p, q)
    cells[0], cells[1], cells[2], cells[3] = p, q, p + shift, q - shift
    steps[0], steps[1], steps[2], steps[3] = -1, -1, 1, 1
    return 4


@compiled
def move_donors(moves: int, family: int, concave: bool, state: State, donors: Donors) -> int:
    """Take `moves` steps, of families in turn."""
    # Changes the same parts of the state as `sweep`, and the work space of the donors. `family`: prior family, see `FAMILIES`.
    # `concave`: whether the law is log-concave but for tabulated rows, which say so themselves. Returns how many steps changed the
    # table; -1 if the law has no finite mass along a direction.
    line, cells_int, generator = line_of(state), state.cells_int, state.generator
    cells, steps = line.cells, line.steps
    nodes = donors.nodes
    occupied, before = 0, 0.0
    donors.where[:] = -1
    for cell in range(len(cells_int)):
        occupied = _note(donors, cells_int, cell, occupied)
    changed = 0
    families = len(donors.factors)
    for done in range(moves):
        which = done // 2 % donors.whole[0] if done % 2 == 0 else done // 2 % families
        factors = donors.factors[which]
        if occupied == 0:
            continue
        p, layer, across, length = 0, 0, 0, 0
        if factors == 3:
            layer = below(generator, 3)
            p = donors.occupied[below(generator, occupied)]
            count = 0
            if donors.place[which, 0, p] >= 0:
                across = _another(donors, which, layer, p, generator) - p
                length, ahead = walk(donors, which, layer, p, across, nodes, 0, generator)
                if length > 0:
                    count = write_walk(donors, which, layer, p, across, nodes, length, cells, steps)
                    _, back = walk(donors, which, layer, p + across, -across, nodes, length, generator)
                    before = (ahead + back) / occupied
        else:
            count = _draw(donors, which, generator, occupied, cells, steps)
            if count > 0:
                before = _chance_of_half(donors, factors, cells, 0, occupied)
                before += _chance_of_half(donors, factors, cells, factors, occupied)
        if count == 0:
            continue
        k = draw_step(family, concave, state, line, count)
        if k == IMPROPER:
            return -1
        if k == 0:
            continue
        for i in range(count):
            occupied = _note(donors, cells_int, cells[i], occupied)
        if factors == 3:
            _, ahead = walk(donors, which, layer, p, across, nodes, length, generator)
            _, back = walk(donors, which, layer, p + across, -across, nodes, length, generator)
            after = (ahead + back) / occupied
        else:
            after = _chance_of_half(donors, factors, cells, 0, occupied)
            after += _chance_of_half(donors, factors, cells, factors, occupied)
        if uniform(generator) * before < after:
            changed += 1
            continue
        take_back(count, k, state)
        for i in range(count):
            occupied = _note(donors, cells_int, cells[i], occupied)
    return changed

"""Directions whose falling cells are not 0, drawn by looking at the table: moves that keep precise sums of sparse tables.

Along a pair one cell falls, along a square of a two-way table two, along a cube of a three-way table four, and none of these may
be 0: in sparse tables few are possible. So these are drawn by looking at which cells are not 0, and the draw is corrected for it.

With N occupied cells (those above their lower bounds), the direction is

* of a pair (one factor): from p, uniform among the occupied cells, to another label, uniform;
* of a square (two factors): from p and q, uniform among the ordered pairs of occupied cells. If they differ in both factors they
  are its diagonal, and fall; otherwise no move is made;
* of three factors: a closed walk across two layers, from p, uniform among the occupied cells. Which factor has the layers is
  uniform, and so is the other layer.

What is drawn, A, is a direction up to its sign, and for three factors the labels of the walk in turn besides. A table x draws it
with a probability proportional to

    g(x) = w(F) + w(R),

F and R its falling and its rising cells; w is 0 where one of them is not occupied, and else 1 / N for a pair, 2 / (N (N - 1)) for
a square, and 1 / N times the chance of the steps of the walk. A table y is drawn from the law of the posterior along the line, and
accepted with probability min(1, g(y) / g(x)).

Proof that the posterior pi is left as it is. Given A, whose line has the weight pi(A), the flow from x to y is
g(x) pi(x) (pi(y) / pi(A)) min(1, g(y) / g(x)) = pi(x) pi(y) min(g(x), g(y)) / pi(A). It is the same from y to x: the step is
reversible for each A, and so for all together.

Walks. A cube keeps all two-way margins of a three-way table. It is a square in one layer and its opposite in another. So is, with any
closed walk of rows and columns in the place of the square, every direction of three factors here: with labels a0, c0, a1, c1, .. in
turn, the cells (a0, c0), (a1, c1), .. of the first layer and (a1, c0), (a2, c1), .., (a0, c_last) of the second fall, and the
others of the walk rise. Tables with few cells above 0 are often joined by longer walks only: sums of cubes, none of which is
possible by itself, since some of its falling cells are 0.

A walk begins at a cell p of the first layer and goes on to labels for which the next falling cell is occupied, uniform among
those it has not had. Where its last falling cell is occupied too it closes: with probability 1/2, or with certainty where it
cannot go on. Every label is chosen by the cells that fall. The opposite of the direction is the walk with the same labels in the
same order that begins in the other layer. So the chance of both, in any table, is worked out by walking them again.
"""

from __future__ import annotations

from bayesdp._arrays import Ints, Words
from bayesdp._numba import below, compiled, inside, uniform
from bayesdp.fibers.kernel.state import LONGEST, LOWER, OccupiedMoves, State, X
from bayesdp.fibers.kernel.sweep import draw_step, line_of, take_back
from bayesdp.fibers.kernel.weights import IMPROPER


@inside
def _next(
    occupancy: OccupiedMoves, family: int, factor: int, at: int, wanted: int, nodes: Ints, length: int
) -> tuple[float, int]:
    """One step of the walk, to another label of a factor, or the chance of a given one."""
    # `at` is the cell that would fall if its label were kept. Of a label `wanted` the chance is returned; if negative, it is minus
    # one and minus the number of a choice, whose label is returned with the number of choices: where the walk may close, that where
    # it began. Of `nodes`, labels of both factors in turn, the first `length` are taken.
    start = occupancy.start[family, factor]
    place = occupancy.place[family, factor, at]
    choices, found = 0, -1
    for label in range(occupancy.first[start + place], occupancy.last[start + place]):
        if occupancy.where[at + occupancy.offset[start + label] - occupancy.offset[start + place]] < 0:
            continue
        taken = False
        for i in range(length % 2, length, 2):
            if nodes[i] == label:
                taken = True
        if taken:
            continue
        if label == wanted or choices == -1 - wanted:
            found = label
        choices += 1
    return float(choices), found


@inside
def _moved(occupancy: OccupiedMoves, family: int, factor: int, cell: int, label: int) -> int:
    """The cell that has another label of a factor."""
    start = occupancy.start[family, factor]
    return int(cell + occupancy.offset[start + label] - occupancy.offset[start + occupancy.place[family, factor, cell]])


@compiled
def walk(occupancy: OccupiedMoves, family: int, layer: int, p: int, across: int, nodes: Ints, length: int,
          generator: Words) -> tuple[int, float]:  # fmt: skip
    """Walk from the cell p, or work out the chance of a walk that is given."""
    # `layer`: the factor of which there are two labels. `across`: what is added to the number of a cell of the layer of p to get that
    # of the other layer. `nodes`: labels of the two other factors in turn: written, or read if `length`, their number, is positive.
    # Returns the number of labels, 0 if the walk does not close, and the chance of its steps.
    one, two = (layer + 1) % 3, (layer + 2) % 3
    given = length > 0
    if occupancy.where[p] < 0:
        return 0, 0.0
    if not given:
        nodes[0], nodes[1] = occupancy.place[family, one, p], occupancy.place[family, two, p]
    cell, done, chance = p, 2, 1.0
    while done < 2 * LONGEST + 1:
        # In the other layer, along the second label: can the walk close there?
        if done % 2 == 0:
            cell += across
            home = _moved(occupancy, family, one, cell, nodes[0])
            closes = done >= 4 and occupancy.where[home] >= 0
            factor = one
        else:
            cell -= across
            closes = False
            factor = two
        wanted = nodes[done] if given and done < length else -1
        choices, label = 0.0, -1
        if done < 2 * LONGEST:
            choices, label = _next(occupancy, family, factor, cell, wanted if wanted >= 0 else -(2**40), nodes, done)
        if closes:
            stop = 1.0 if choices == 0.0 else 0.5
            if given:
                close = done == length
            else:
                close = stop == 1.0 or uniform(generator) < 0.5
            if close:
                return done, chance * stop
            chance *= 0.5
        if choices == 0.0 or (given and (done == length or label < 0)):
            return 0, 0.0
        if not given:
            _, label = _next(occupancy, family, factor, cell, -1 - below(generator, int(choices)), nodes, done)
            nodes[done] = label
        chance /= choices
        cell = _moved(occupancy, family, factor, cell, label)
        done += 1
    return 0, 0.0


@inside
def write_walk(occupancy: OccupiedMoves, family: int, layer: int, p: int, across: int, nodes: Ints, length: int, cells: Ints,
                steps: Ints) -> int:  # fmt: skip
    """The direction of a closed walk; the number of its cells."""
    one, two = (layer + 1) % 3, (layer + 2) % 3
    for i in range(length):
        here = _moved(occupancy, family, one, p, nodes[i if i % 2 == 0 else (i + 1) % length])
        here = _moved(occupancy, family, two, here, nodes[i + 1 if i % 2 == 0 else i])
        sign = -1 if i % 2 == 0 else 1
        cells[2 * i], cells[2 * i + 1] = here, here + across
        steps[2 * i], steps[2 * i + 1] = sign, -sign
    return 2 * length


@inside
def _note(occupancy: OccupiedMoves, cells_int: Ints, cell: int, occupied: int) -> int:
    """Bring the list of occupied cells up to date for one cell; the length of the list, which was `occupied`."""
    at = occupancy.where[cell]
    if cells_int[cell, X] > cells_int[cell, LOWER]:
        if at < 0:
            occupancy.occupied[occupied] = cell
            occupancy.where[cell] = occupied
            occupied += 1
    elif at >= 0:
        occupied -= 1
        end = occupancy.occupied[occupied]
        occupancy.occupied[at] = end
        occupancy.where[end] = at
        occupancy.where[cell] = -1
    return occupied


@inside
def _apart(occupancy: OccupiedMoves, family: int, factor: int, p: int, q: int) -> bool:
    """Whether two cells have different labels of a factor, which may be exchanged."""
    one, two = occupancy.place[family, factor, p], occupancy.place[family, factor, q]
    start = occupancy.start[family, factor]
    return bool(one != two and occupancy.first[start + one] == occupancy.first[start + two])


@inside
def _chance_of_half(occupancy: OccupiedMoves, factors: int, cells: Ints, half: int, occupied: int) -> float:
    """w(H) of a pair or square, of the cells ``half, half + 1, ..`` of its direction; 0 if one is not occupied."""
    for i in range(half, half + factors):
        if occupancy.where[cells[i]] < 0:
            return 0.0
    return 1.0 / occupied if factors == 1 else 2.0 / (float(occupied) * (occupied - 1.0))


@inside
def _another(occupancy: OccupiedMoves, family: int, factor: int, p: int, generator: Words) -> int:
    """A cell with another label of a factor, uniform among those that the label may be exchanged with."""
    start, place = occupancy.start[family, factor], occupancy.place[family, factor, p]
    first = occupancy.first[start + place]
    label = first + below(generator, occupancy.last[start + place] - first - 1)
    if label >= place:
        label += 1
    return _moved(occupancy, family, factor, p, label)


@inside
def _draw(occupancy: OccupiedMoves, family: int, generator: Words, occupied: int, cells: Ints, steps: Ints) -> int:
    """Draw a direction: the cells that fall come first. The number of its cells, 0 for none."""
    factors = occupancy.factors[family]
    p = occupancy.occupied[below(generator, occupied)]
    if occupancy.place[family, 0, p] < 0:
        return 0
    if factors == 1:
        cells[0], cells[1] = p, _another(occupancy, family, 0, p, generator)
        steps[0], steps[1] = -1, 1
        return 2
    if occupied < 2:
        return 0
    other = below(generator, occupied - 1)
    q = occupancy.occupied[other + 1 if other >= occupancy.where[p] else other]
    if occupancy.place[family, 0, q] < 0:
        return 0
    if not (_apart(occupancy, family, 0, p, q) and _apart(occupancy, family, 1, p, q)):
        return 0
    other = _moved(occupancy, family, 0, p, occupancy.place[family, 0, q])
    cells[0], cells[1], cells[2], cells[3] = p, q, other, p + q - other
    steps[0], steps[1], steps[2], steps[3] = -1, -1, 1, 1
    return 4


@compiled
def take_occupied_moves(moves: int, family: int, concave: bool, state: State, occupancy: OccupiedMoves) -> int:
    """Take `moves` steps, of families in turn; arguments and what is returned are as in `sweep`."""
    line, cells_int, generator = line_of(state), state.cells_int, state.generator
    cells, steps, nodes = line.cells, line.steps, occupancy.nodes
    occupied, before = 0, 0.0
    occupancy.where[:] = -1
    for cell in range(len(cells_int)):
        occupied = _note(occupancy, cells_int, cell, occupied)
    changed, families = 0, len(occupancy.factors)
    for done in range(moves):
        which = done // 2 % occupancy.whole[0] if done % 2 == 0 else done // 2 % families
        factors = occupancy.factors[which]
        if occupied == 0:
            continue
        p, layer, across, length = 0, 0, 0, 0
        if factors == 3:
            layer = below(generator, 3)
            p = occupancy.occupied[below(generator, occupied)]
            count = 0
            if occupancy.place[which, 0, p] >= 0:
                across = _another(occupancy, which, layer, p, generator) - p
                length, ahead = walk(occupancy, which, layer, p, across, nodes, 0, generator)
                if length > 0:
                    count = write_walk(occupancy, which, layer, p, across, nodes, length, cells, steps)
                    _, back = walk(occupancy, which, layer, p + across, -across, nodes, length, generator)
                    before = (ahead + back) / occupied
        else:
            count = _draw(occupancy, which, generator, occupied, cells, steps)
            if count > 0:
                before = _chance_of_half(occupancy, factors, cells, 0, occupied)
                before += _chance_of_half(occupancy, factors, cells, factors, occupied)
        if count == 0:
            continue
        k = draw_step(family, concave, state, line, count)
        if k == IMPROPER:
            return -1
        if k == 0:
            continue
        for i in range(count):
            occupied = _note(occupancy, cells_int, cells[i], occupied)
        if factors == 3:
            _, ahead = walk(occupancy, which, layer, p, across, nodes, length, generator)
            _, back = walk(occupancy, which, layer, p + across, -across, nodes, length, generator)
            after = (ahead + back) / occupied
        else:
            after = _chance_of_half(occupancy, factors, cells, 0, occupied)
            after += _chance_of_half(occupancy, factors, cells, factors, occupied)
        if uniform(generator) * before < after:
            changed += 1
            continue
        take_back(count, k, state)
        for i in range(count):
            occupied = _note(occupancy, cells_int, cells[i], occupied)
    return changed

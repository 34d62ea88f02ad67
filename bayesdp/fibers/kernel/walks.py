"""Directions of three-way tables that keep all two-way margins: two layers of the table, and a closed walk across them.

A cube keeps all two-way margins of a three-way table. It is a square in one layer and its opposite in another. So is, with any
closed walk of rows and columns in the place of the square, every direction of this file: with labels a0, c0, a1, c1, .. in
turn, the cells (a0, c0), (a1, c1), .. of the first layer and (a1, c0), (a2, c1), .., (a0, c_last) of the second fall, and the
others of the walk rise. Tables with few cells above 0 are often joined by longer walks only: sums of cubes, none of which is
possible by itself, since some of its falling cells are 0.

A walk begins at a cell p of the first layer and goes on to labels for which the next falling cell is occupied, uniform among
those it has not had. Where its last falling cell is occupied too it closes: with probability 1/2, or with certainty where it
cannot go on.

Every label is chosen by the cells that fall. The opposite of the direction is the walk with the same labels in the same order
that begins in the other layer. So the chance of both, in any table, is worked out by walking them again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._jit import compiled, inside
from bayesdp._random import below, uniform
from bayesdp.fibers.kernel.occupied import LONGEST, Donors

type Ints = npt.NDArray[np.int64]


@inside
def _next(
    donors: Donors, family: int, factor: int, at: int, wanted: int, nodes: Ints, length: int
) -> tuple[float, int]:
    """One step of the walk, to another label of a factor, or the chance of a given one."""
    # `at` is the cell that would fall if its label were kept. Of a label `wanted` the chance is returned; if negative, it is minus
    # one and minus the number of a choice, whose label is returned with the number of choices: where the walk may close, that where
    # it began. Of `nodes`, labels of both factors in turn, the first `length` are taken.
    start = donors.start[family, factor]
    own = donors.place[family, factor, at]
    choices, found = 0, -1
    for label in range(donors.first[start + own], donors.last[start + own]):
        if donors.where[at + donors.offset[start + label] - donors.offset[start + own]] < 0:
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
def _moved(donors: Donors, family: int, factor: int, cell: int, label: int) -> int:
    """The cell that has another label of a factor."""
    start = donors.start[family, factor]
    return int(cell + donors.offset[start + label] - donors.offset[start + donors.place[family, factor, cell]])


@compiled
def walk(donors: Donors, family: int, layer: int, p: int, across: int, nodes: Ints, length: int,
          generator: npt.NDArray[np.uint64]) -> tuple[int, float]:  # fmt: skip
    """Walk from the cell p, or work out the chance of a walk that is given."""
    # `layer`: the factor of which there are two labels. `p`: the first cell that falls. `across`: what is added to the number of a
    # cell of the layer of p to get that of the other layer. `nodes`: labels of the factors after `layer`, and after that, in turn:
    # written, or read if `length` is positive. `length`: number of labels of a walk that is given; 0 to draw one. Returns the
    # number of labels, 0 if the walk does not close, and the chance of its steps.
    one, two = (layer + 1) % 3, (layer + 2) % 3
    given = length > 0
    if donors.where[p] < 0:
        return 0, 0.0
    if not given:
        nodes[0], nodes[1] = donors.place[family, one, p], donors.place[family, two, p]
    cell, done, chance = p, 2, 1.0
    while done < 2 * LONGEST + 1:
        # In the other layer, along the second label: can the walk close there?
        if done % 2 == 0:
            cell += across
            home = _moved(donors, family, one, cell, nodes[0])
            closes = done >= 4 and donors.where[home] >= 0
            factor = one
        else:
            cell -= across
            closes = False
            factor = two
        wanted = nodes[done] if given and done < length else -1
        room = done < 2 * LONGEST
        choices = 0.0
        label = -1
        if room:
            choices, label = _next(donors, family, factor, cell, wanted if wanted >= 0 else -(2**40), nodes, done)
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
            _, label = _next(donors, family, factor, cell, -1 - below(generator, int(choices)), nodes, done)
            nodes[done] = label
        chance /= choices
        cell = _moved(donors, family, factor, cell, label)
        done += 1
    return 0, 0.0


@inside
def write_walk(donors: Donors, family: int, layer: int, p: int, across: int, nodes: Ints, length: int, cells: Ints,
                steps: Ints) -> int:  # fmt: skip
    """The direction of a closed walk; the number of its cells."""
    one, two = (layer + 1) % 3, (layer + 2) % 3
    for i in range(length):
        here = _moved(donors, family, one, p, nodes[i if i % 2 == 0 else (i + 1) % length])
        here = _moved(donors, family, two, here, nodes[i + 1 if i % 2 == 0 else i])
        sign = -1 if i % 2 == 0 else 1
        cells[2 * i], cells[2 * i + 1] = here, here + across
        steps[2 * i], steps[2 * i + 1] = sign, -sign
    return 2 * length

"""Many moves in one kernel call."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._jit import compiled, inlined, inside
from bayesdp.fibers.kernel.classes import turn_cell
from bayesdp.fibers.kernel.line import draw_step
from bayesdp.fibers.kernel.short import short_moves
from bayesdp.fibers.kernel.state import ACROSS, ALONG, GROUP, NOISY, SQUARED, UNIT_CELLS, VALUE, WINDOW, Line, State, X
from bayesdp.fibers.kernel.wide import IMPROPER
from bayesdp.moves.direction import draw_direction
from bayesdp.moves.moves import PRODUCT

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@inside
def add_up_squares(rows: Floats, groups: Floats) -> None:
    """Squared lengths of the residuals of l2 laws, from scratch.

    Steps update them by differences. That loses digits for good when a chain comes in from far away, so every sweep
    begins with this.
    """
    if len(groups) == 0:
        return
    groups[:, SQUARED] = 0.0
    for j in range(len(rows)):
        g = int(rows[j, GROUP])
        if g >= 0:
            groups[g, SQUARED] += (rows[j, NOISY] - rows[j, VALUE]) ** 2


@inlined
def line_of(state: State) -> Line:
    """The work space, cut up once a call: making a view costs as much as drawing a number."""
    support, ints, floats = state.support, state.scratch_int, state.scratch_float
    most = len(ints) - 4 * support - len(state.rows)
    rest = floats[2 * WINDOW + 5 * UNIT_CELLS :]
    return Line(
        ints[:support],
        ints[support : 2 * support],
        ints[2 * support : 3 * support],
        ints[3 * support : 4 * support],
        ints[4 * support : 4 * support + most],
        rest[most:],
        ints[4 * support + most :],
        rest[:most],
        floats[: 2 * WINDOW],
        floats[2 * WINDOW : 2 * WINDOW + 5 * UNIT_CELLS],
    )


@compiled
def sweep(tables: Ints, moves: int, family: int, concave: bool, state: State) -> int:
    """For each row of `tables`, take `moves` exact-conditional steps along random directions, and write the table to the row."""
    # Without rows, `moves` steps are taken once. Changes `tables`, and of the state the table, the values of the rows, the l2
    # residuals, the generator and the work space. `tables`, shape (draws, cells). `family`: prior family, see `FAMILIES`.
    # `concave`: whether the law is log-concave; `set_prior` says so of the prior. Noise is, but for tabulated rows, which say so
    # themselves. Returns how many steps changed the table; -1 if the law has no finite mass along a direction.
    changed = 0
    line, meta = line_of(state), state.meta
    short = concave and len(state.rows) == 0 and len(meta) > 0
    for which in range(len(meta)):  # in a loop: numpy would make arrays
        short = short and meta[which, 0] == PRODUCT and 2 ** meta[which, 1] <= UNIT_CELLS
    for draw in range(max(len(tables), 1)):
        add_up_squares(state.rows, state.groups)
        done = 0
        while done < moves:
            if short:
                taken, moved, count = short_moves(moves - done, family, state, line)
                done += taken
                changed += moved
                if count == 0:
                    break
            else:
                count = draw_direction(meta, state.cumulative, state.pool, state.generator, line.cells, line.steps,
                                       state.dense, line.touched)  # fmt: skip
            done += 1
            if count > 0:
                k = draw_step(family, concave, state, line, count)
                if k == IMPROPER:
                    return -1
                changed += k != 0
        if draw < len(tables):
            for cell in range(tables.shape[1]):  # a loop compiles in less time than a slice
                tables[draw, cell] = state.cells_int[cell, X]
    return changed


@compiled
def move_once(family: int, concave: bool, state: State) -> tuple[int, int]:
    """One direction and one step, to be accepted or taken back; changes the same parts of the state as `sweep`."""
    # Returns the number of cells of the direction (left in the scratch arrays) and the step, or `IMPROPER`.
    line = line_of(state)
    count = draw_direction(state.meta, state.cumulative, state.pool, state.generator, line.cells, line.steps, state.dense,
                           line.touched)  # fmt: skip
    if count == 0:
        return 0, 0
    return count, draw_step(family, concave, state, line, count)


@compiled
def take_back(count: int, k: int, state: State) -> None:
    """Undo the step of the last `move_once`, whose direction still stands in the scratch arrays."""
    groups, rows, cells_int = state.groups, state.rows, state.cells_int
    indptr, indices, entries = state.indptr, state.indices, state.entries
    cells, steps = state.scratch_int[: state.support], state.scratch_int[state.support : 2 * state.support]
    for g in range(len(groups)):
        # The squared length after the step, minus what the step did to it.
        before = groups[g, SQUARED] + 2.0 * k * groups[g, ALONG] - groups[g, ACROSS] * float(k) * k
        groups[g, SQUARED] = max(before, 0.0)
    for i in range(count):
        c = cells[i]
        held = cells_int[c, X] != 0
        cells_int[c, X] -= k * steps[i]
        if len(state.laws) > 0 and held != (cells_int[c, X] != 0):
            turn_cell(c, not held, rows, indptr, indices, state.codes, state.laws, state.classes, state.slots)
        for at in range(indptr[c], indptr[c + 1]):
            rows[indices[at], VALUE] -= float(k * steps[i] * entries[at])

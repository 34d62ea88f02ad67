"""Many moves in one kernel call."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from bayesdp.fibers.kernel.line import draw_step
from bayesdp.fibers.kernel.short import short_moves
from bayesdp.fibers.kernel.state import ACROSS, ALONG, GROUP, NOISY, SQUARED, UNIT_CELLS, VALUE, WINDOW, State, X
from bayesdp.fibers.kernel.wide import IMPROPER
from bayesdp.moves.direction import draw_direction
from bayesdp.moves.moves import PRODUCT, Moves

__all__ = ["add_up_squares", "move_once", "sweep", "sweep_arguments", "take_back"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@nb.njit(cache=True, nogil=True, error_model="numpy")
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


@nb.njit(cache=True, nogil=True, error_model="numpy")
def sweep(kept: Ints, moves: int, family: int, concave: bool, meta: Ints, cumulative: Floats, pool: Ints, cells_int: Ints,
          cells_float: Floats, indptr: Ints, indices: Ints, entries: Floats, rows: Floats, groups: Floats,
          generator: npt.NDArray[np.uint64], scratch_int: Ints, scratch_float: Floats, dense: Ints,
          support: int) -> int:  # fmt: skip
    """Draw `moves` directions and take an exact-conditional step along each; so often as `kept` has rows, once if none.

    Each row of `kept` is filled with the table as it then stands.

    Returns
    -------
    int
        How many steps changed the table; -1 if the law has no finite mass along a direction.
    """
    changed = 0
    # The work space, cut up once: making a view costs as much as drawing a number.
    cells, steps = scratch_int[:support], scratch_int[support : 2 * support]
    touched, moving = scratch_int[2 * support : 3 * support], scratch_int[3 * support : 4 * support]
    most = len(scratch_int) - 4 * support - len(rows)
    met, mark = scratch_int[4 * support : 4 * support + most], scratch_int[4 * support + most :]
    weights = scratch_float[: 2 * WINDOW]
    near = scratch_float[2 * WINDOW : 2 * WINDOW + 5 * UNIT_CELLS]
    rest = scratch_float[2 * WINDOW + 5 * UNIT_CELLS :]
    residuals, met_steps = rest[:most], rest[most:]
    short = (
        concave
        and len(rows) == 0
        and len(meta) > 0
        and np.all(meta[:, 0] == PRODUCT)
        and 2 ** np.max(meta[:, 1]) <= UNIT_CELLS
    )
    for draw in range(max(len(kept), 1)):
        add_up_squares(rows, groups)
        done = 0
        while done < moves:
            if short:
                taken, moved, count = short_moves(moves - done, family, meta, cumulative, pool, cells_int, cells_float,
                                                  generator, cells, steps, weights, near)  # fmt: skip
                done += taken
                changed += moved
                if count == 0:
                    break
            else:
                count = draw_direction(meta, cumulative, pool, generator, cells, steps, dense, touched)
            done += 1
            if count > 0:
                k = draw_step(family, concave, cells_int, cells_float, indptr, indices, entries, rows, groups, generator,
                              cells, steps, count, moving, met, met_steps, mark, weights, near, residuals)  # fmt: skip
                if k == IMPROPER:
                    return -1
                changed += k != 0
        if draw < len(kept):
            kept[draw] = cells_int[:, X]
    return changed


@nb.njit(cache=True, nogil=True, error_model="numpy")
def move_once(family: int, concave: bool, meta: Ints, cumulative: Floats, pool: Ints, cells_int: Ints, cells_float: Floats,
              indptr: Ints, indices: Ints, entries: Floats, rows: Floats, groups: Floats, generator: npt.NDArray[np.uint64],
              scratch_int: Ints, scratch_float: Floats, dense: Ints, support: int) -> tuple[int, int]:  # fmt: skip
    """One direction and one step, to be accepted or taken back.

    Returns
    -------
    int, int
        The number of cells of the direction (left in the scratch arrays) and the step, or `IMPROPER`.
    """
    cells, steps = scratch_int[:support], scratch_int[support : 2 * support]
    touched, moving = scratch_int[2 * support : 3 * support], scratch_int[3 * support : 4 * support]
    most = len(scratch_int) - 4 * support - len(rows)
    met, mark = scratch_int[4 * support : 4 * support + most], scratch_int[4 * support + most :]
    rest = scratch_float[2 * WINDOW + 5 * UNIT_CELLS :]
    count = draw_direction(meta, cumulative, pool, generator, cells, steps, dense, touched)
    if count == 0:
        return 0, 0
    k = draw_step(family, concave, cells_int, cells_float, indptr, indices, entries, rows, groups, generator, cells, steps,
                  count, moving, met, rest[most:], mark, scratch_float[: 2 * WINDOW],
                  scratch_float[2 * WINDOW : 2 * WINDOW + 5 * UNIT_CELLS], rest[:most])  # fmt: skip
    return count, k


@nb.njit(cache=True, nogil=True, error_model="numpy")
def take_back(count: int, k: int, meta: Ints, cumulative: Floats, pool: Ints, cells_int: Ints, cells_float: Floats, indptr: Ints,
              indices: Ints, entries: Floats, rows: Floats, groups: Floats, generator: npt.NDArray[np.uint64],
              scratch_int: Ints, scratch_float: Floats, dense: Ints, support: int) -> None:  # fmt: skip
    """Undo the step of the last `move_once`, whose direction still stands in the scratch arrays."""
    cells, steps = scratch_int[:support], scratch_int[support : 2 * support]
    for g in range(len(groups)):
        # The squared length after the step, minus what the step did to it.
        before = groups[g, SQUARED] + 2.0 * k * groups[g, ALONG] - groups[g, ACROSS] * float(k) * k
        groups[g, SQUARED] = max(before, 0.0)
    for i in range(count):
        c = cells[i]
        cells_int[c, X] -= k * steps[i]
        for at in range(indptr[c], indptr[c + 1]):
            rows[indices[at], VALUE] -= float(k * steps[i] * entries[at])


def sweep_arguments(moves: Moves, state: State) -> tuple[Any, ...]:
    """The arguments of `sweep` after the first four, in order."""
    return (
        moves.meta,
        moves.cumulative,
        moves.pool,
        state.cells_int,
        state.cells_float,
        state.indptr,
        state.indices,
        state.entries,
        state.rows,
        state.groups,
        state.generator,
        state.scratch_int,
        state.scratch_float,
        state.dense,
        max(64 * moves.longest, 256),
    )

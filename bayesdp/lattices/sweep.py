"""Many moves in one kernel call."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from bayesdp.lattices.direction import draw_direction
from bayesdp.lattices.line import IMPROPER, draw_step
from bayesdp.lattices.moves import Moves
from bayesdp.lattices.state import UNIT_CELLS, WINDOW, State

__all__ = ["sweep", "sweep_arguments"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def sweep(moves: int, family: int, concave: bool, meta: Ints, cumulative: Floats, pool: Ints, cells_int: Ints, cells_float: Floats,
          indptr: Ints, indices: Ints, entries: Ints, rows: Floats, groups: Floats, generator: npt.NDArray[np.uint64],
          scratch_int: Ints, scratch_float: Floats, dense: Ints, support: int) -> int:  # fmt: skip
    """Draw `moves` directions and take an exact-conditional step along each.

    Returns
    -------
    int
        How many steps changed the table; -1 if the law has no finite mass along a direction.
    """
    changed = 0
    # The work space, cut up once: making a view costs as much as drawing a number.
    cells, steps = scratch_int[:support], scratch_int[support : 2 * support]
    touched, moving = scratch_int[2 * support : 3 * support], scratch_int[3 * support : 4 * support]
    most = (len(scratch_int) - 4 * support - len(rows)) // 2
    met = scratch_int[4 * support : 4 * support + most]
    met_steps = scratch_int[4 * support + most : 4 * support + 2 * most]
    mark = scratch_int[4 * support + 2 * most :]
    weights = scratch_float[: 2 * WINDOW]
    near = scratch_float[2 * WINDOW : 2 * WINDOW + 5 * UNIT_CELLS]
    residuals = scratch_float[2 * WINDOW + 5 * UNIT_CELLS :]
    for _ in range(moves):
        count = draw_direction(meta, cumulative, pool, generator, cells, steps, dense, touched)
        if count == 0:
            continue
        k = draw_step(family, concave, cells_int, cells_float, indptr, indices, entries, rows, groups, generator,
                      cells, steps, count, moving, met, met_steps, mark, weights, near, residuals)  # fmt: skip
        if k == IMPROPER:
            return -1
        if k != 0:
            changed += 1
    return changed


def sweep_arguments(moves: Moves, state: State) -> tuple[npt.NDArray[np.generic] | int, ...]:
    """The arguments of `sweep` after the first three, in order."""
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

"""The smallest and largest value that each cell can have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdp.fibers.determined import determined_cells
from bayesdp.fibers.feasible import is_two_way, two_way_margins
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import System
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

EXACT_CELLS = 150
"""Up to this many cells, limits without a closed form are found by two integer programs a cell."""

_PROGRAM_ENTRIES = 250_000
"""Entries of sums with limits up to which linear programs look for determined cells: with 3 million one took more than minutes."""


def cell_bounds(system: System, invariants: Invariants) -> tuple[Ints, Ints, bool, bool]:
    """Limits of every cell over the fiber (flat arrays; -1 above where unbounded)."""
    # Propagation through single rows gives limits that hold always; they are attained for disjoint totals. Both margins of a
    # two-way table: Fréchet's bounds. Sums with limits that nest or are disjoint: limits from the top down (`Laminar`). Other small
    # tables: integer programs. Other large tables: what propagation gives, and one limit for cells that are determined (see
    # `determined_cells`), unless limits are of too many sums. Returns `lower, upper`, shape (cells,); `exact`, whether they are
    # attained; `complete`, whether no other cell than those with `lower == upper` has one possible count only.
    if system.laminar is not None and system.laminar.empty < 0:
        least, most = system.laminar.bounds()
        return least, np.where(most >= UNBOUNDED, -1, most), True, True
    lower, upper = propagated_bounds(system)
    exact = complete = False
    simple = not len(system.limit_names)
    if simple and invariants.blocks is not None:
        exact = True
    elif simple and not system.fixed.any() and is_two_way(invariants):
        lower = np.maximum(lower, _frechet(system))
        exact = True
    elif system.frame.size <= EXACT_CELLS:
        lower, upper, exact = _programs(system, lower, upper)
    elif system.limit_matrix.nnz <= _PROGRAM_ENTRIES:
        determined, values, complete = determined_cells(system, lower, upper)
        lower, upper = np.where(determined, values, lower), np.where(determined, values, upper)
    return (lower.astype(np.int64), np.where(np.isinf(upper), -1, upper).astype(np.int64), exact, exact or complete)


def propagated_bounds(system: System) -> tuple[Floats, Floats]:
    """Shrink limits of cells through every row until nothing changes; infinite where there is none.

    Floats hold these integers exactly, and sums of them below 2**53; what larger sums may be rounded by is left to the cells.
    """
    lower = system.lower.astype(np.float64)
    upper = np.where(system.upper == UNBOUNDED, np.inf, system.upper.astype(np.float64))
    rows, low, high = system.limited_rows()
    if not rows.shape[0]:
        return lower, upper
    entries = rows.tocoo()
    row, cell, a = entries.row, entries.col, entries.data
    for _ in range(100):
        least = np.where(a > 0, a * lower[cell], a * upper[cell])
        most = np.where(a > 0, a * upper[cell], a * lower[cell])
        # What the other cells of the row contribute at least and at most (infinite if one of them is unbounded).
        others_least = _others(least, row, rows.shape[0])
        others_most = _others(most, row, rows.shape[0])
        room_high, room_low = high[row] - others_least, low[row] - others_most
        slack = 1e-9 + _rounding(least, most, np.maximum(*_sizes(low, high)), row) / np.abs(a)
        with np.errstate(invalid="ignore"):
            new_upper = np.floor(np.where(a > 0, room_high, room_low) / a + slack)
            new_lower = np.ceil(np.where(a > 0, room_low, room_high) / a - slack)
        before = (lower.copy(), upper.copy())
        np.minimum.at(upper, cell, np.where(np.isnan(new_upper), np.inf, new_upper))
        np.maximum.at(lower, cell, np.where(np.isnan(new_lower), -np.inf, new_lower))
        if np.array_equal(before[0], lower) and np.array_equal(before[1], upper):
            break
    return lower, upper


def _sizes(*limits: Floats) -> list[Floats]:
    """Absolute values, 0 for infinite ones."""
    return [np.where(np.isinf(limit), 0.0, np.abs(limit)) for limit in limits]


def _rounding(least: Floats, most: Floats, totals: Floats, row: Ints) -> Floats:
    """For each entry, what float64 may have rounded the room in its row by: nothing, as long as all sums are below 2**53."""
    terms = np.bincount(row, minlength=len(totals))
    size = totals + np.bincount(row, weights=np.maximum(*_sizes(least, most)), minlength=len(totals))
    return np.asarray(np.where(size < UNBOUNDED, 0.0, size * (terms + 2) * 2.0**-52)[row])


def _others(values: Floats, row: Ints, rows: int) -> Floats:
    """For each entry, the sum of the other entries of its row, with infinities counted rather than added."""
    finite = np.where(np.isinf(values), 0.0, values)
    infinite = np.isinf(values).astype(np.int64)
    sums = np.bincount(row, weights=finite, minlength=rows)
    counts = np.bincount(row, weights=infinite, minlength=rows)
    sign = np.sign(np.bincount(row, weights=np.where(np.isinf(values), np.sign(values), 0.0), minlength=rows))
    unbounded = counts[row] - infinite > 0
    return np.where(unbounded, np.where(sign[row] > 0, np.inf, -np.inf), sums[row] - finite)


def _frechet(system: System) -> Floats:
    """max(0, row total + column total - grand total)."""
    rows, columns = two_way_margins(system)  # int64: sums of two totals may be 2**53 or more, which float64 rounds
    return np.asarray(np.maximum(rows[:, None] + columns - rows.sum(), 0).reshape(-1), dtype=np.float64)


def _programs(system: System, lower: Floats, upper: Floats) -> tuple[Floats, Floats, bool]:
    """Limits by two integer programs a cell, and whether all of these were solved."""
    cells = system.frame.size
    rows, low, high = system.limited_rows()
    constraints = [LinearConstraint(rows, low, high)] if rows.shape[0] else []
    lower, upper = lower.copy(), upper.copy()
    box, solved = Bounds(lower.copy(), upper.copy()), True
    for cell in np.flatnonzero(lower < upper):
        cost = np.zeros(cells)
        cost[cell] = 1.0
        least = milp(cost, integrality=np.ones(cells), bounds=box, constraints=constraints)
        if least.status == 0:
            lower[cell] = np.rint(least.fun)
        most = milp(-cost, integrality=np.ones(cells), bounds=box, constraints=constraints)
        if most.status == 0:
            upper[cell] = np.rint(-most.fun)
        solved = solved and 1 not in (least.status, most.status)  # 1: given up at a limit of the solver
    return lower, upper, solved

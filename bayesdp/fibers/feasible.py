"""Find a table of a fiber, close to a given one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdp._validate import exact_total
from bayesdp.fibers.conflict import conflict
from bayesdp.fibers.gaps import Gaps
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import System, cells_of, is_two_way, two_way_margins
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

LONGEST = 300.0
"""Seconds after which a program that asks for integers is stopped."""

_LARGE = 5_000
"""Cells of a table whose program is solved without asking for integers first."""

_NEAR = 0.5
"""Where there are gaps, how far from the least sum of differences a table may be, relative to it: a start need not be nearest."""

_WHOLE = 1e-6
"""How far from whole numbers a solution may be that is looked upon as one; it is then checked exactly."""

_ROUNDED = 2**40
"""Shares of larger totals are not looked upon as exact in float64."""


def find_point(system: System, invariants: Invariants, guide: Floats, gaps: Gaps | None = None) -> Ints:
    """A table of the fiber close to `guide` (flat arrays), outside of all gaps.

    Disjoint totals: the guide scaled to each total and rounded by largest remainders. Two-way margins: the guide fitted
    to the margins, rounded down, and the rest put back by the north-west corner rule. Sums with limits that nest or are
    disjoint, with zeros: from the top down (`Laminar`). Everything else: an integer program (HiGHS) that minimises the sum of
    absolute differences to the guide; of a large table first without asking for integers, since most have a solution of whole
    numbers even so, which is found ten times as fast. Of each gap the program chooses a side, and then ends near its optimum;
    it is solved again while answers about the same records have different numbers.
    """
    point = _directly(system, invariants, guide)
    if point is None or (gaps is not None and gaps.met(point).size):
        point = _integer_program(system, guide, gaps)
    while gaps is not None and (further := gaps.further(point)) is not None:
        gaps = further
        point = _integer_program(system, guide, gaps)
    return point


def _directly(system: System, invariants: Invariants, guide: Floats) -> Ints | None:
    """Without regard to gaps; None where that takes an integer program."""
    plain = (
        not len(system.limit_names)
        and not np.any(system.lower[~system.fixed])
        and np.all(system.upper[~system.fixed] == UNBOUNDED)
    )
    blocks = invariants.blocks
    if plain and blocks is not None:
        return _fill_blocks(system, blocks, guide)
    if plain and not system.fixed.any() and is_two_way(invariants):
        return _fill_two_way(system, guide)
    if system.laminar is not None:
        if system.laminar.empty >= 0:
            raise ValueError(conflict(system))
        return _checked(system, system.laminar.point(guide))
    return None


def _fill_blocks(system: System, blocks: Ints, guide: Floats) -> Ints:
    point = np.where(system.fixed, system.lower, 0)
    free = np.flatnonzero(~system.fixed)
    loose = free[blocks[free] < 0]
    point[loose] = np.rint(np.maximum(guide[loose], 0)).astype(np.int64)
    members = free[blocks[free] >= 0]
    if not len(system.totals):
        return point
    block = blocks[members]
    count = int(blocks.max()) + 1
    # The rows of the system may repeat a block (state totals and the grand total): the finest say what is left.
    left = np.zeros(count, dtype=np.int64)
    rest = system.free_totals()
    for row in range(len(rest)):
        summed = np.unique(blocks[cells_of(system, row)])
        if len(summed) == 1:
            left[summed[0]] = rest[row]
    sizes = np.bincount(block, minlength=count)
    if np.any((left < 0) | ((sizes == 0) & (left != 0))):
        raise ValueError(conflict(system))
    weight = np.maximum(guide[members], 0.0)
    sums = np.bincount(block, weights=weight, minlength=count)
    weight = np.where(sums[block] > 0, weight, 1.0)
    sums = np.bincount(block, weights=weight, minlength=count)
    share = weight * (left[block] / sums[block])
    # Large shares are rounded by whole counts: a little less than them never adds up to more than the total.
    share = np.where(left[block] > _ROUNDED, share * (1.0 - 1e-12), share)
    down = np.floor(share).astype(np.int64)
    missing = left.copy()
    np.subtract.at(missing, block, down)
    order = np.lexsort((-(share - down), block))
    rank = np.arange(len(order)) - np.searchsorted(block[order], block[order])
    each, more = np.divmod(missing, np.maximum(sizes, 1))
    down[order] += each[block[order]] + (rank < more[block[order]])
    point[members] = down
    return _checked(system, point)


def _fill_two_way(system: System, guide: Floats) -> Ints:
    rows, columns = system.frame.shape
    row_total, column_total = two_way_margins(system)
    if exact_total(row_total) != exact_total(column_total) or row_total.min() < 0 or column_total.min() < 0:
        raise ValueError(conflict(system))
    fitted = np.maximum(guide.reshape(rows, columns), 0.5)
    for _ in range(50):
        fitted *= (row_total / fitted.sum(axis=1).clip(1e-300))[:, None]
        fitted *= (column_total / fitted.sum(axis=0).clip(1e-300))[None, :]
    # Rounding in the fit may exceed a margin by a hair: the floor of a slightly smaller number never does.
    point = np.floor(fitted * (1 - 1e-9)).astype(np.int64)
    point[point.sum(axis=1) > row_total] = 0
    point[:, point.sum(axis=0) > column_total] = 0
    left, right = row_total - point.sum(axis=1), column_total - point.sum(axis=0)
    i = j = 0
    while i < rows and j < columns:
        amount = min(left[i], right[j])
        point[i, j] += amount
        left[i] -= amount
        right[j] -= amount
        if left[i] == 0:
            i += 1
        else:
            j += 1
    return _checked(system, point.reshape(-1))


def _integer_program(system: System, guide: Floats, gaps: Gaps | None = None) -> Ints:
    cells, choices = system.frame.size, 0 if gaps is None else len(gaps.first)
    lower, upper = system.lower.astype(np.float64), np.where(system.upper == UNBOUNDED, np.inf, system.upper)
    aim = np.rint(np.clip(guide, lower, upper))
    rows, low, high = system.limited_rows()
    # x = aim + up - down; minimise sum(up + down).
    at_aim = rows @ aim
    sums = sp.hstack([rows, -rows, sp.csr_array((rows.shape[0], choices))], format="csr")
    constraints = [LinearConstraint(sums, low - at_aim, high - at_aim)] if rows.shape[0] else []
    cost = np.repeat([1.0, 0.0], [2 * cells, choices])
    bounds, options = Bounds(0, np.concatenate([upper - aim, aim - lower, np.ones(choices)])), {"time_limit": LONGEST}
    if gaps is not None and choices:
        constraints, options["mip_rel_gap"] = [*constraints, gaps.constraint(aim)], _NEAR
    elif cells >= _LARGE:
        relaxed = milp(cost, integrality=0 * cost, bounds=bounds, constraints=constraints)
        if relaxed.x is not None and np.all(np.abs(relaxed.x - np.rint(relaxed.x)) < _WHOLE):
            moved = np.rint(relaxed.x).astype(np.int64)
            point: Ints = aim.astype(np.int64) + moved[:cells] - moved[cells:]
            if _allowed(system, point):
                return point
    result = milp(cost, integrality=np.ones_like(cost), bounds=bounds, constraints=constraints, options=options)
    if result.status == 2:
        raise ValueError(
            gaps.conflict(_integer_program(system, guide)) if gaps is not None and choices else conflict(system)
        )
    if result.x is None:
        raise TimeoutError(
            f"no table was found in {LONGEST:g} s by an integer program, nor was shown that there is none; fewer exact or "
            "bounded answers that cross, or a smaller table, take less"
        )
    up, down = np.rint(result.x[: 2 * cells]).astype(np.int64).reshape(2, cells)
    return _checked(system, aim.astype(np.int64) + up - down)


def _allowed(system: System, point: Ints) -> bool:
    """An exact check by integers (solvers work in floating point)."""
    return bool(
        np.array_equal(system.sums(point), system.totals)
        and np.all(point >= system.lower)
        and np.all(point <= system.upper)
        and np.all(system.limit_sums(point) >= system.limit_lower)
        and np.all(system.limit_sums(point) <= system.limit_upper)
    )


def _checked(system: System, point: Ints) -> Ints:
    """The point, after an exact check."""
    if not _allowed(system, point):
        raise ValueError(conflict(system))
    return point

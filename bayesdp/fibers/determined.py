"""What exact answers say of single cells: their limits, and which have one possible count only.

A cell is called determined on evidence only, and free on evidence only:

* determined: a combination ``y`` of the exact answers that leaves a whole number no room. For any ``y`` at all, ``c x = y b +
  (c - A^T y) x`` lies in an interval that follows from the limits of the cells, so rounding errors in ``y``, which comes from a
  linear program or a least-squares fit, can make a proof fail, but not hold wrongly (Neumaier and Shcherbina 2004, "Safe bounds in
  linear and mixed-integer linear programming"). In small tables also: integer programs for the least and largest count;
* free: two tables of whole numbers that agree with all exact answers, checked in integers, and differ there.

Linear programs decide the first wherever their solutions are whole numbers (totally unimodular systems, and many others); what is
open then is asked of integer programs if the table is small. If anything remains open, the list is not complete, and says so.
"""

from __future__ import annotations

import numpy as np
import scipy
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import System, is_two_way, propagated_bounds, two_way_margins
from bayesdp.invariants import Invariants

EXACT_CELLS = 150
"""Up to this many cells, limits without a closed form are found by two integer programs a cell."""

_PROGRAM_ENTRIES = 250_000
"""Entries of sums with limits up to which linear programs look for determined cells: with 3 million one took more than minutes."""

PROGRAM_CELLS = 300
"""Up to this many cells that may move, integer programs are asked about cells which linear programs leave open."""

_NODES = 2000
"""Nodes of the tree of one such program: a number, so that the answer does not depend on the speed of a machine."""

_ROUNDS = 60
"""Linear programs at most; a dozen is usual."""

_DENSE_ROWS = 3000
"""Above this many exact answers, the sums of cells that determine a cell in between its limits are not looked for."""

_MOVED = 1e-6
"""Solutions of linear programs that differ by less count as equal."""

_GRID = 720_720 * 1024
"""Weights of combinations are multiples of one over this: halves, thirds, ... sixteenths are exact."""

_SPARE = 1e-3
"""What a proof must leave over, against rounding errors of the sums that check it."""


def determined_cells(system: System, lower: Floats, upper: Floats) -> tuple[Mask, Floats, bool]:
    """Cells with one possible count, their counts (anything elsewhere), and whether every other cell is known to have several."""
    # `lower`, `upper`: limits that hold for every table, infinite where there is none; the fiber must not be empty.
    search = _Search(system, lower, upper)
    if search.moving.size:
        search.run()
    return search.answer()


class _Search:
    """The exact answers as equations over the cells that are not fixed, and the limits found so far of these."""

    # Limits of sums become equations with the sum as one more unknown, which has limits.

    def __init__(self, system: System, lower: Floats, upper: Floats) -> None:
        limits = system.limit_matrix.shape[0]
        least, most = range_of_sums(system.limit_matrix, lower, upper)
        self._cells = len(lower)
        self.low = np.concatenate([lower, np.maximum(system.limit_lower, least)])
        self.high = np.concatenate([upper, np.minimum(system.limit_upper, most)])
        none = sp.csr_array((system.matrix.shape[0], limits), dtype=np.int64)
        minus = -sp.eye_array(limits, dtype=np.int64, format="csr")
        blocks = [sp.hstack([system.matrix, none]), sp.hstack([system.limit_matrix, minus])]
        whole = sp.csr_array(sp.vstack(blocks, format="csr"))
        totals = np.concatenate([system.totals, np.zeros(limits, dtype=np.int64)])
        closed = self.low >= self.high
        asked = np.diff(whole.tocsc().indptr) > 0
        # A cell in no sum can have any count between its limits.
        self.moving = np.flatnonzero(~closed & asked)
        self._open = np.zeros(len(closed), dtype=np.bool_)
        self._open[self.moving] = True
        self.matrix = sp.csr_array(whole[:, self.moving]).astype(np.float64)
        self.totals = totals - whole @ np.where(closed, self.low, 0.0)
        # Tables of whole numbers, and solutions of linear programs: the smallest and largest value of each cell so far.
        self._members = (np.full(len(self.moving), np.inf), np.full(len(self.moving), -np.inf))
        self._seen = (self._members[0].copy(), self._members[1].copy())
        self._rng = np.random.default_rng(0)

    def answer(self) -> tuple[Mask, Floats, bool]:
        """What `determined_cells` returns."""
        cells = slice(0, self._cells)
        determined = np.asarray(self.low >= self.high)[cells]
        return determined, self.low[cells].copy(), not self._open[cells].any()

    def run(self) -> None:
        """Linear programs, sums that determine cells, then integer programs."""
        first = self._solve(-self._rng.random(len(self.moving)), *self._limits())
        if first is None:
            return
        self._centre, self._solved = first[0], 1
        self._lift()
        self._sums()
        while self._open[self.moving].any() and self._whole and self._solved < _ROUNDS:
            before = self._open.sum()
            self._vary()
            if self._open.sum() == before:
                break
        if np.count_nonzero(self.low[self.moving] < self.high[self.moving]) <= PROGRAM_CELLS:
            self._programs()

    def _limits(self) -> tuple[Floats, Floats]:
        return self.low[self.moving].copy(), self.high[self.moving].copy()

    @property
    def _whole(self) -> bool:
        """Whether linear programs have led to tables of whole numbers."""
        return bool(np.isfinite(self._members[0]).any())

    def _solve(self, weights: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats] | None:
        """The largest value of a weighted sum: where it is attained, and weights of the exact answers that prove it."""
        box = np.stack([low, high], axis=1)
        for method in ("highs-ipm", "highs-ds"):
            found = scipy.optimize.linprog(-weights, A_eq=self.matrix, b_eq=self.totals, bounds=box, method=method)
            if found.status == 0:
                self._record(found.x)
                return found.x, -found.eqlin.marginals
        return None

    def _record(self, point: Floats) -> None:
        """Remember a solution, and the table it is if it is one."""
        np.minimum(self._seen[0], point, out=self._seen[0])
        np.maximum(self._seen[1], point, out=self._seen[1])
        whole = np.rint(point)
        low, high = self._limits()
        # Whole numbers below 2**53 add up exactly in float64; of larger sums nothing is said.
        exact = np.all(np.abs(self.matrix) @ np.abs(whole) < 2.0**53)
        if exact and np.array_equal(self.matrix @ whole, self.totals) and np.all((low <= whole) & (whole <= high)):
            np.minimum(self._members[0], whole, out=self._members[0])
            np.maximum(self._members[1], whole, out=self._members[1])
            self._open[self.moving[self._members[0] < self._members[1]]] = False

    def _close(self, which: Ints, values: Floats) -> None:
        cells = self.moving[which]
        self.low[cells] = self.high[cells] = values
        self._open[cells] = False

    def _lift(self) -> None:
        """Find the cells that are at one of their limits in every table."""
        # One program asks how far all cells that have always been at a limit can leave it together, by at most 1 each: so many leave
        # it at once, and corners stay whole numbers where they were. Two tables of whole numbers that differ there have a point
        # between them where the sum is 1 or more; if less is proved, there are none.
        while self._solved < _ROUNDS:
            low, high = self._limits()
            at_low = (low < high) & (self._seen[1] <= low + _MOVED)
            at_high = (low < high) & (self._seen[0] >= high - _MOVED) & ~at_low
            if not (at_low | at_high).any():
                return
            weights = at_low.astype(np.float64) - at_high
            high[at_low] = np.minimum(high[at_low], low[at_low] + 1.0)
            low[at_high] = np.maximum(low[at_high], high[at_high] - 1.0)
            found = self._solve(weights, low, high)
            if found is None:
                return
            point, proof = found
            self._solved += 1
            self._centre += (point - self._centre) / self._solved
            at = np.flatnonzero(at_low | at_high)
            stay = np.where(at_low, low, high)[at]
            if float(weights[at] @ (point[at] - stay)) < 0.5:
                _, largest = self._interval(weights[:, None], proof[:, None], low, high)
                if largest[0] < float(weights[at] @ stay) + 1.0:
                    self._close(at, stay)
                return

    def _interval(self, weights: Floats, proofs: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Limits of weighted sums, shape (sums,), that follow from combinations of the exact answers."""
        # Whole `weights`, shape (cells that may move, sums); `proofs`, shape (answers, sums): weights of the answers, any will do.
        grid = np.rint(proofs * _GRID)
        # Whole numbers in float64, exact as long as they are below 2**53; larger ones prove nothing.
        rest = weights * _GRID - self.matrix.T @ grid
        exact = np.abs(self.matrix).T @ np.abs(grid) < 2.0**52
        at_low, at_high = _times(rest, low[:, None]), _times(rest, high[:, None])
        answers = self.totals @ grid
        size = np.abs(self.totals) @ np.abs(grid) + np.maximum(np.abs(at_low), np.abs(at_high)).sum(axis=0)
        error = size * np.finfo(np.float64).eps * (sum(self.matrix.shape) + 4)
        least = (answers + np.minimum(at_low, at_high).sum(axis=0) - error) / _GRID - _SPARE
        most = (answers + np.maximum(at_low, at_high).sum(axis=0) + error) / _GRID + _SPARE
        good = exact.all(axis=0) & np.isfinite(error)
        return np.where(good, least, -np.inf), np.where(good, most, np.inf)

    def _sums(self) -> None:
        """Find the cells between their limits that are a combination of the exact answers and of closed cells."""
        low, high = self._limits()
        same = (self._seen[1] - self._seen[0] < _MOVED) & (np.abs(self._centre - np.rint(self._centre)) < _MOVED)
        asked = np.flatnonzero((low < high) & same)
        if not asked.size or self.matrix.shape[0] > _DENSE_ROWS:
            return
        free = sp.csr_array(self.matrix[:, np.flatnonzero(low < high)])
        inverse = np.linalg.pinv((free @ free.T).toarray(), hermitian=True)
        for cells in np.array_split(asked, asked.size // 256 + 1):
            weights = np.zeros((len(self.moving), cells.size))
            weights[cells, np.arange(cells.size)] = 1.0
            least, most = self._interval(weights, inverse @ self.matrix[:, cells].toarray(), low, high)
            value = np.rint(self._centre[cells])
            proved = (least > value - 1.0) & (most < value + 1.0)
            self._close(cells[proved], value[proved])

    def _vary(self) -> None:
        """Two opposite corners, in a direction drawn at random, look for tables that differ in open cells."""
        low, high = self._limits()
        weights = np.where(self._open[self.moving], self._rng.normal(size=len(self.moving)), 0.0)
        # Room for every cell to move, and a bounded sum.
        high = np.minimum(high, np.ceil(self._seen[1]) + 1.0)
        for sign in (1.0, -1.0):
            self._solve(sign * weights, low, high)
            self._solved += 1

    def _programs(self) -> None:
        """Ask integer programs about the cells that are still open."""
        low, high = self._limits()
        rows, box = (self.matrix, self.totals, self.totals), (low, high)
        for i in range(len(self.moving)):
            ends = []
            for sign in (1.0, -1.0):
                if self.moving[i] >= self._cells or not self._open[self.moving[i]]:
                    break
                weights = np.zeros(len(self.moving))
                weights[i] = sign
                found = scipy.optimize.milp(
                    weights, integrality=1, bounds=box, constraints=rows, options={"node_limit": _NODES}
                )
                if found.status != 0:
                    break
                self._record(found.x)
                ends.append(round(float(found.x[i])))
            if len(ends) == 2 and ends[0] == ends[1]:
                self._close(np.array([i]), np.array([float(ends[0])]))


def _times(weights: Floats, limits: Floats) -> Floats:
    """Products in which 0 times infinity is 0."""
    with np.errstate(invalid="ignore"):
        return np.where(weights == 0.0, 0.0, weights * limits)


def range_of_sums(rows: sp.csr_array, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The smallest and largest value of each sum that the limits of its cells allow; infinite where there is none."""
    up, down = rows.maximum(0).astype(np.float64), (-rows.minimum(0)).astype(np.float64)
    open_above = np.isinf(upper)
    finite = np.where(open_above, 0.0, upper)
    least = np.where(down @ open_above.astype(np.float64) > 0, -np.inf, up @ lower - down @ finite)
    most = np.where(up @ open_above.astype(np.float64) > 0, np.inf, up @ finite - down @ lower)
    return least, most


def cell_bounds(system: System, invariants: Invariants) -> tuple[Ints, Ints, bool, bool]:
    """Limits of every cell over the fiber (flat arrays; -1 above where unbounded)."""
    # Propagation through single rows gives limits that hold always; they are attained for disjoint totals. Both margins of a two-way
    # table: Fréchet's bounds. Returns `lower, upper`, shape (cells,); `exact`, whether they are attained; `complete`, whether no other
    # cell than those with `lower == upper` has one possible count only.
    if system.laminar is not None and system.laminar.empty < 0:
        least, most = system.laminar.bounds()
        return least, np.where(most >= UNBOUNDED, -1, most), True, True
    lower, upper = propagated_bounds(system)
    exact = complete = False
    simple = not len(system.limit_names)
    if simple and invariants.blocks is not None:
        exact = True
    elif simple and not system.fixed.any() and is_two_way(invariants):
        # In int64: sums of two totals may be 2**53 or more, which float64 rounds.
        rows, columns = two_way_margins(system)
        lower = np.maximum(lower, (rows[:, None] + columns - rows.sum()).reshape(-1))
        exact = True
    elif system.frame.size <= EXACT_CELLS:
        lower, upper, exact = _programs(system, lower, upper)
    elif system.limit_matrix.nnz <= _PROGRAM_ENTRIES:
        determined, values, complete = determined_cells(system, lower, upper)
        lower, upper = np.where(determined, values, lower), np.where(determined, values, upper)
    return (lower.astype(np.int64), np.where(np.isinf(upper), -1, upper).astype(np.int64), exact, exact or complete)


def _programs(system: System, lower: Floats, upper: Floats) -> tuple[Floats, Floats, bool]:
    """Limits by two integer programs a cell, and whether all of these were solved."""
    cells = system.frame.size
    rows, low, high = system.limited_rows()
    constraints = [(rows, low, high)] if rows.shape[0] else []
    lower, upper = lower.copy(), upper.copy()
    box, solved = (lower.copy(), upper.copy()), True
    for cell in np.flatnonzero(lower < upper):
        for sign, limits in ((1.0, lower), (-1.0, upper)):
            cost = np.zeros(cells)
            cost[cell] = sign
            found = scipy.optimize.milp(cost, integrality=1, bounds=box, constraints=constraints)
            if found.status == 0:
                limits[cell] = np.rint(sign * found.fun)
            solved = solved and found.status != 1  # given up at a limit of the solver
    return lower, upper, solved

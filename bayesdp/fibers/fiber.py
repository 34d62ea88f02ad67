"""The fiber: all tables of whole numbers >= 0 with the published exact answers; what each cell can be, and a table near by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdp._validate import exact_total
from bayesdp.fibers.conflict import conflict
from bayesdp.fibers.determined import determined_cells
from bayesdp.fibers.gaps import Gaps
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import System, cells_of, is_two_way, two_way_margins
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.moves.choosing import moves_for
from bayesdp.moves.moves import Kept, Moves
from bayesdp.queries import LinearQuery, MatrixPart, Query, cell_list

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


_IN_USE: WeakValueDictionary[tuple[Any, ...], Fiber] = WeakValueDictionary()
"""The fibers that are referred to, by their frame and exact answers. A release keeps its fiber, so that the model, the step
methods and the posterior, which read the same answers again from the model, neither work it out nor hold it a second time."""


class ExactAnswers(Protocol):
    """What a fiber needs of an exact part: a query, its answers, and whether they are equal or bounds."""

    @property
    def query(self) -> Query:
        """What was asked."""

    @property
    def values(self) -> Ints:
        """The answers, of shape ``query.shape``."""

    @property
    def sign(self) -> str:
        """``=``, ``>=`` or ``<=``."""


@dataclass(frozen=True, eq=False)
class Fiber:
    """All tables ``x >= 0`` of whole numbers with the published exact answers.

    Build one with `Fiber.of`.

    Parameters
    ----------
    frame : Frame
        Labels of the table.
    equalities : tuple of (Query, int64 array)
        Exact answers.
    bounds_below, bounds_above : tuple of (Query, int64 array)
        Answers that are at least, at most, the given values.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> margins = [Exact(Margins(table, ["county"]), [3, 0]), Exact(Margins(table, ["education"]), [1, 2])]
    >>> fiber = Fiber.of(margins)
    >>> fiber.find_point()
    array([[1, 2],
           [0, 0]])
    >>> bool(fiber.determined().all())
    True
    """

    frame: Frame
    equalities: tuple[tuple[Query, Ints], ...]
    bounds_below: tuple[tuple[Query, Ints], ...] = ()
    bounds_above: tuple[tuple[Query, Ints], ...] = ()

    @classmethod
    def of(cls, exact: Iterable[ExactAnswers], frame: Any = None) -> Fiber:
        """The fiber of some exact answers; `frame` is needed only where there are none.

        Equal answers in the same order give the same object, as long as there is a reference to it.
        """
        listed = list(exact)
        if frame is None and not listed:
            raise ValueError("a fiber without exact answers needs the frame of the table")
        frame = Frame.of(frame) if frame is not None else listed[0].query.frame
        by_sign: dict[str, list[tuple[Query, Ints]]] = {"=": [], ">=": [], "<=": []}
        for part in listed:
            if not part.query.frame.same_cells(frame):
                raise ValueError("all exact answers must be about the same table (same dimensions and labels)")
            values = np.array(part.values, dtype=np.int64)  # a copy, which nobody can change while others use the fiber
            values.flags.writeable = False
            by_sign[part.sign].append((part.query, values))
        stated = ((sign, query, v.tobytes()) for sign, parts in by_sign.items() for query, v in parts)
        # Labels as text besides, since 1 == 1.0: names of cells are made from them.
        key = (frame, *stated, *(repr(own.labels) for own in (frame, *(part.query.frame for part in listed))))
        fiber = _IN_USE.get(key)
        if fiber is None:
            fiber = _IN_USE[key] = cls(frame, *(tuple(parts) for parts in by_sign.values()))
        return fiber

    @cached_property
    def invariants(self) -> Invariants:
        """The equalities as one linear map."""
        return Invariants([query for query, _ in self.equalities], self.frame)

    @cached_property
    def system(self) -> System:
        """The equalities and bounds as sparse rows with limits, single cells taken out as cell limits."""
        return System.of(self.frame, self.equalities, self.bounds_below, self.bounds_above)

    @cached_property
    def moving_invariants(self) -> Invariants:
        """The equalities without those that only say what a single cell is: these cells do not move at all.

        Structural zeros stated beside margins leave the structure of the margins intact this way.
        """
        queries: list[Query] = []
        for query, _ in self.equalities:
            for part in query.parts:
                if not isinstance(part, MatrixPart):
                    queries.append(Query(self.frame, (part,)))
                    continue
                several = np.flatnonzero(np.diff(part.matrix.indptr) > 1)
                if several.size:
                    names = [part.name(int(i)) for i in several]
                    queries.append(LinearQuery(self.frame, part.matrix[several], names))
        return Invariants(queries, self.frame)

    @cached_property
    def moves(self) -> Moves:
        """Random directions inside the fiber, and what is known of their connectivity."""
        return self.moves_beside((), bounded=False, unknown=False)

    @cached_property
    def bounded_moves(self) -> Moves:
        """The same for tables whose cells have upper bounds besides, as under a binomial prior."""
        return self.moves_beside((), bounded=True, unknown=False)

    @cached_property
    def open_moves(self) -> Moves:
        """The same where tables of the fiber are forbidden in ways that are not known: random sums are mixed in."""
        return self.moves_beside((), bounded=False, unknown=True)

    @property
    def connected_within_limits(self) -> bool:
        """Whether moves are known that connect the tables of the fiber whatever further limits single cells have."""
        return self._any_limits or self.bounded_moves.proved

    @property
    def _any_limits(self) -> bool:
        """The same by the form of the exact answers alone."""
        moving = self.moving_invariants
        simple = not moving.rank or moving.blocks is not None or is_two_way(moving)
        return simple and not len(self.system.limit_names)

    def moves_beside(self, kept: Sequence[Kept], *, bounded: bool, unknown: bool) -> Moves:
        """Random directions, of which a share keeps noisy answers besides.

        Parameters
        ----------
        kept : sequence of Kept
            What these directions keep, the exact answers included.
        bounded : bool
            Whether cells have upper bounds beside those of the fiber.
        unknown : bool
            Whether tables of the fiber are forbidden in ways that are not known.
        """
        system = self.system
        limits = ~system.fixed & (system.upper < UNBOUNDED)
        fixed = system.fixed if system.fixed.any() else None
        # Lower bounds above zero are as good as zero: subtract them. Upper bounds and bounded sums are not.
        return moves_for(
            self.moving_invariants,
            fixed,
            bounded=limits | (self._any_limits if unknown else bounded),
            limited_rows=unknown or system.limit_matrix,
            kept=kept,
        )

    def with_cells_at_most(self, upper: Ints) -> Fiber:
        """The part of the fiber whose cells are at most `upper`, shape ``(cells,)``; zeros become structural zeros."""
        return self.with_cells_between(np.zeros_like(upper), upper)

    def with_cells_between(self, lower: Ints, upper: Ints) -> Fiber:
        """The part of the fiber whose cells are between `lower` and `upper`, shape ``(cells,)`` each."""
        extra: dict[str, list[tuple[Query, Ints]]] = {"zero": [], "least": [], "limit": []}
        for kind, which, values in (
            ("zero", upper == 0, upper),
            ("least", lower > 0, lower),
            ("limit", (upper > 0) & (upper < UNBOUNDED), upper),
        ):
            cells = np.flatnonzero(which)
            if cells.size:
                extra[kind].append((cell_list(self.frame, cells), values[cells]))
        return Fiber(
            self.frame,
            (*self.equalities, *extra["zero"]),
            (*self.bounds_below, *extra["least"]),
            (*self.bounds_above, *extra["limit"]),
        )

    @property
    def proved(self) -> bool:
        """Whether the moves are proved to connect all tables of the fiber."""
        return self.moves.proved

    @property
    def claim(self) -> str:
        """What is known of the connectivity of the moves, in words."""
        return self.moves.claim

    def find_point(self, near: npt.ArrayLike | None = None, gaps: Gaps | None = None) -> Ints:
        """A table of the fiber.

        Parameters
        ----------
        near : array_like, shape ``(*table)``, optional
            Real numbers, for example a noisy table: the point is chosen close to them.
        gaps : Gaps, optional
            Answers that must not be in the gaps of their laws (`Target.gaps`).

        Returns
        -------
        int64 array, shape ``(*table)``
        """
        guide = np.zeros(self.frame.size) if near is None else np.asarray(near, dtype=np.float64).reshape(-1)
        return find_point(self.system, self.moving_invariants, guide, gaps).reshape(self.frame.shape)

    @cached_property
    def _bounds(self) -> tuple[Ints, Ints, bool, bool]:
        found = cell_bounds(self.system, self.moving_invariants)
        found[0].flags.writeable = found[1].flags.writeable = False  # views of them are returned, and fibers are shared
        return found

    def bounds(self) -> tuple[Ints, Ints]:
        """The smallest and largest value of each cell over the fiber, shape ``(*table)``; -1 where unbounded.

        Exact for disjoint totals, two-way margins and tables of up to `EXACT_CELLS` cells; elsewhere limits that
        every table satisfies, but that need not be attained (see `bounds_are_exact`). They are equal for cells that are
        shown to be determined.
        """
        lower, upper, _, _ = self._bounds
        return lower.reshape(self.frame.shape), upper.reshape(self.frame.shape)

    @property
    def bounds_are_exact(self) -> bool:
        """Whether every limit of `bounds` is attained."""
        return self._bounds[2]

    def determined(self) -> npt.NDArray[np.bool_]:
        """Which cells have one possible value only, shape ``(*table)``: nothing protects them.

        Each of them is proved to; `determined_is_complete` says whether these are all.
        """
        lower, upper = self.bounds()
        return np.asarray(lower == upper)

    @property
    def determined_is_complete(self) -> bool:
        """Whether every cell outside `determined` is known to have several possible values."""
        return self._bounds[3]

    def determined_names(self) -> tuple[str, ...]:
        """Labels of the cells in `determined`."""
        return tuple(self.frame.exact_cell_name(int(cell)) for cell in np.flatnonzero(self.determined()))

    def contains(self, table: npt.ArrayLike) -> bool:
        """Whether an integer table is a member."""
        array = np.asarray(table)
        return array.shape == self.frame.shape and array.dtype.kind in "iu" and bool(self.members(array))

    def members(self, tables: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which integer tables are members: shape ``(..., *table)`` to ``(...)``. Counts of 2**53 or more are no counts."""
        good = np.all((tables >= 0) & (tables < UNBOUNDED), axis=self._cell_axes)
        if not np.all(good):  # others are not added up: int64 might not hold their sums
            tables = np.where(np.expand_dims(good, self._cell_axes), tables, 0)
        compare: tuple[tuple[Any, tuple[tuple[Query, Ints], ...]], ...] = (
            (np.equal, self.equalities),
            (np.greater_equal, self.bounds_below),
            (np.less_equal, self.bounds_above),
        )
        for holds, parts in compare:
            for query, values in parts:
                fits = holds(query.apply(tables), values)
                good &= np.all(fits, axis=tuple(range(-len(query.shape), 0)))
        return np.asarray(good)

    @property
    def _cell_axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.frame.shape), 0))

    def limit_rows(self) -> tuple[sp.csr_array, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Inequality rows over several cells, with their lower and upper limits."""
        return self.system.limit_matrix, self.system.limit_lower, self.system.limit_upper


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

"""The fiber: all tables of whole numbers >= 0 with the published exact answers; one of them near by, the nearest, or all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from operator import eq, ge, le
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import scipy
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import exact_total, finite_array, instance
from bayesdp.fibers.determined import cell_bounds
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.moves.moves import Moves, Preserved, moves_for
from bayesdp.fibers.system import System, cells_of, conflict, is_two_way, two_way_margins
from bayesdp.fibers.windows import Gaps
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.queries import LinearQuery, MatrixPart, Query, cell_list

_IN_USE: WeakValueDictionary[tuple[Any, ...], Fiber] = WeakValueDictionary()
"""The fibers that are referred to, by their frame and exact answers, so that none is worked out or held a second time."""


class ExactAnswers(Protocol):
    """What a fiber needs of an exact part: a query, its answers of shape ``query.shape``, and ``=``, ``>=`` or ``<=``."""

    @property
    def query(self) -> Query:
        """What was asked."""

    @property
    def values(self) -> Ints:
        """The answers."""

    @property
    def sign(self) -> str:
        """How the values relate to the answers."""


@dataclass(frozen=True, eq=False)
class Fiber:
    """All tables ``x >= 0`` of whole numbers with the published exact answers.

    Build one with `Fiber.of`.

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
    bounds_below: tuple[tuple[Query, Ints], ...] = ()  # answers that are at least, at most, the given values
    bounds_above: tuple[tuple[Query, Ints], ...] = ()

    @classmethod
    def of(cls, exact: Iterable[ExactAnswers], frame: Any = None) -> Fiber:
        """The fiber of some exact answers; `frame` is needed only where there are none."""
        # Equal answers in the same order give the same object, as long as there is a reference to it.
        listed = list(exact)
        if frame is None and not listed:
            raise ValueError("a fiber without exact answers needs the frame of the table")
        frame = listed[0].query.frame if frame is None else Frame.of(frame)
        by_sign: dict[str, list[tuple[Query, Ints]]] = {"=": [], ">=": [], "<=": []}
        for part in listed:
            if not part.query.frame.same_cells(frame):
                raise ValueError("all exact answers must be about the same table (same dimensions and labels)")
            values = np.array(part.values, dtype=np.int64)  # a copy, which nobody can change while others use the fiber
            values.flags.writeable = False
            by_sign[part.sign].append((part.query, values))
        stated = ((sign, query, v.tobytes()) for sign, parts in by_sign.items() for query, v in parts)
        # Labels as text besides, since 1 == 1.0: names of cells are made from them.
        frames = (frame, *(part.query.frame for part in listed))
        key = (frame, *stated, *(repr(each.labels) for each in frames))
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
        """The equalities without those of single cells, which do not move: beside zeros, margins keep their structure this way."""
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

    def moves_beside(self, kept: Sequence[Preserved], *, bounded: bool, unknown: bool) -> Moves:
        """Random directions, of which a share keeps noisy answers besides, those of `kept`."""
        # `bounded`: whether cells have upper bounds beside those of the fiber; `unknown`: whether tables of it are forbidden in ways
        # that are not known.
        system = self.system
        limits = ~system.fixed & (system.upper < UNBOUNDED)
        # Lower bounds above zero are as good as zero: subtract them. Upper bounds and bounded sums are not.
        return moves_for(
            self.moving_invariants,
            system.fixed,
            bounded=limits | (self._any_limits if unknown else bounded),
            limited_rows=unknown or system.limit_matrix,
            kept=kept,
        )

    def with_cells_between(self, lower: Ints | int, upper: Ints) -> Fiber:
        """The part of the fiber whose cells are between two limits, shape ``(cells,)``; zeros become structural zeros."""
        lower = np.broadcast_to(np.asarray(lower), upper.shape)

        def stated(which: Mask, values: Ints) -> list[tuple[Query, Ints]]:
            cells = np.flatnonzero(which)
            return [(cell_list(self.frame, cells), values[cells])] if cells.size else []

        return Fiber(
            self.frame,
            (*self.equalities, *stated(upper == 0, upper)),
            (*self.bounds_below, *stated(lower > 0, lower)),
            (*self.bounds_above, *stated((upper > 0) & (upper < UNBOUNDED), upper)),
        )

    @property
    def claim(self) -> str:
        """What is known of the connectivity of the moves, in words."""
        return self.moves.claim

    def find_point(self, near: npt.ArrayLike | None = None, gaps: Gaps | None = None) -> Ints:
        """A table of the fiber, close to real numbers `near` (a noisy table), outside of the gaps of laws (`Target.gaps`)."""
        guide = np.zeros(self.frame.size) if near is None else np.asarray(near, dtype=np.float64).reshape(-1)
        return find_point(self.system, self.moving_invariants, guide, gaps).reshape(self.frame.shape)

    @cached_property
    def _bounds(self) -> tuple[Ints, Ints, bool, bool]:
        found = cell_bounds(self.system, self.moving_invariants)
        found[0].flags.writeable = found[1].flags.writeable = False  # views of them are returned, and fibers are shared
        return found

    def bounds(self) -> tuple[Ints, Ints]:
        """The smallest and largest value of each cell over the fiber, shape ``(*table)``; -1 where unbounded.

        Every table satisfies them, but they need not be attained (see `bounds_are_exact`); equal for determined cells.
        """
        lower, upper, _, _ = self._bounds
        return lower.reshape(self.frame.shape), upper.reshape(self.frame.shape)

    @property
    def bounds_are_exact(self) -> bool:
        """Whether every limit of `bounds` is attained."""
        return self._bounds[2]

    def determined(self) -> Mask:
        """Which cells are proved to have one possible value only, shape ``(*table)``: nothing protects them."""
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

    def members(self, tables: npt.NDArray[Any]) -> Mask:
        """Which integer tables are members: shape ``(..., *table)`` to ``(...)``. Counts of 2**53 or more are no counts."""
        axes = tuple(range(-len(self.frame.shape), 0))
        good = np.all((tables >= 0) & (tables < UNBOUNDED), axis=axes)
        if not np.all(good):  # others are not added up: int64 might not hold their sums
            tables = np.where(np.expand_dims(good, axes), tables, 0)
        for holds, parts in ((eq, self.equalities), (ge, self.bounds_below), (le, self.bounds_above)):
            for query, values in parts:
                fits = holds(query.apply(tables), values)
                good &= np.all(fits, axis=tuple(range(-len(query.shape), 0)))
        return np.asarray(good)


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
    """A table of the fiber close to `guide` (flat arrays), outside of all gaps."""
    # Of each gap the program chooses a side; it is solved again while answers about the same records have different numbers.
    point = _directly(system, invariants, guide)
    if point is None or (gaps is not None and gaps.met(point).size):
        point = _integer_program(system, guide, gaps)
    while gaps is not None and (further := gaps.further(point)) is not None:
        gaps = further
        point = _integer_program(system, guide, gaps)
    return point


def _directly(system: System, invariants: Invariants, guide: Floats) -> Ints | None:
    """Without regard to gaps; None where that takes an integer program."""
    lower, upper = system.lower[~system.fixed], system.upper[~system.fixed]
    plain = not len(system.limit_names) and not np.any(lower) and np.all(upper == UNBOUNDED)
    blocks = invariants.blocks
    if plain and blocks is not None:
        return _fill_blocks(system, blocks, guide)
    if plain and not system.fixed.any() and is_two_way(invariants):
        return _fill_two_way(system, guide)
    if system.laminar is not None:
        if system.laminar.empty >= 0:
            raise ValueError(conflict(system))
        return system.checked(system.laminar.point(guide))
    return None


def _fill_blocks(system: System, blocks: Ints, guide: Floats) -> Ints:
    """Disjoint totals: the guide scaled to each total and rounded by largest remainders."""
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
    return system.checked(point)


def _fill_two_way(system: System, guide: Floats) -> Ints:
    """The guide fitted to two margins, rounded down, and the rest put back by the north-west corner rule."""
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
    # The rule lays the rests of the rows side by side, and those of the columns below: cells have what overlaps.
    left, right = row_total - point.sum(axis=1), column_total - point.sum(axis=0)
    ends, edges = np.cumsum(left), np.cumsum(right)
    point += np.maximum(np.minimum.outer(ends, edges) - np.maximum.outer(ends - left, edges - right), 0)
    return system.checked(point.reshape(-1))


def _integer_program(system: System, guide: Floats, gaps: Gaps | None = None) -> Ints:
    """The nearest table; a large one first without asking for integers, which is ten times as fast; with gaps, one near by."""
    cells, choices = system.frame.size, 0 if gaps is None else len(gaps.first)
    lower, upper = system.lower.astype(np.float64), np.where(system.upper == UNBOUNDED, np.inf, system.upper)
    aim = np.rint(np.clip(guide, lower, upper))
    rows, low, high = system.limited_rows()
    # x = aim + up - down; minimise sum(up + down).
    at_aim = rows @ aim
    sums = sp.hstack([rows, -rows, sp.csr_array((rows.shape[0], choices))], format="csr")
    constraints = [(sums, low - at_aim, high - at_aim)] if rows.shape[0] else []
    cost = np.repeat([1.0, 0.0], [2 * cells, choices])
    bounds, options = (0, np.concatenate([upper - aim, aim - lower, np.ones(choices)])), {"time_limit": LONGEST}
    if gaps is not None and choices:
        constraints, options["mip_rel_gap"] = [*constraints, gaps.constraint(aim)], _NEAR
    elif cells >= _LARGE:
        relaxed = scipy.optimize.milp(cost, integrality=0 * cost, bounds=bounds, constraints=constraints)
        if relaxed.x is not None and np.all(np.abs(relaxed.x - np.rint(relaxed.x)) < _WHOLE):
            moved = np.rint(relaxed.x).astype(np.int64)
            point: Ints = aim.astype(np.int64) + moved[:cells] - moved[cells:]
            if system.allows(point):
                return point
    result = scipy.optimize.milp(cost, integrality=1, bounds=bounds, constraints=constraints, options=options)
    if result.status == 2:
        message = gaps.conflict(_integer_program(system, guide)) if gaps is not None and choices else conflict(system)
        raise ValueError(message)
    if result.x is None:
        raise TimeoutError(
            f"no table was found in {LONGEST:g} s by an integer program, nor was shown that there is none; fewer exact or "
            "bounded answers that cross, or a smaller table, take less"
        )
    up, down = np.rint(result.x[: 2 * cells]).astype(np.int64).reshape(2, cells)
    return system.checked(aim.astype(np.int64) + up - down)


def enumerate_fiber(fiber: Fiber, limit: int = 1_000_000, *, work: int | None = None) -> Ints:
    """All tables of a fiber, shape ``(tables, *table)``; every cell must be bounded.

    Independent of moves and lattice bases, so it can judge them. An error if there are more than `limit`, or if more than `work`
    partial tables have to be looked at, many of which may lead nowhere.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Totals
    >>> fiber = Fiber.of([Exact(Totals({"county": ["Alpha", "Beta"]}), 2)])
    >>> enumerate_fiber(fiber).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    lower, upper = (bound.reshape(-1) for bound in fiber.bounds())
    if np.any(upper < 0):
        cell = int(np.argmax(upper < 0))
        raise ValueError(f"cell {fiber.frame.cell_name(cell)} is unbounded: the fiber is infinite")
    rows, low, high = fiber.system.limited_rows()
    matrix = rows.toarray()
    least = np.where(matrix > 0, matrix * lower, matrix * upper)
    most = np.where(matrix > 0, matrix * upper, matrix * lower)
    # What the cells from position i on can still contribute to each row.
    added = (np.cumsum(part[:, ::-1], axis=1)[:, ::-1] for part in (least, most))
    rest_least, rest_most = (np.pad(part, ((0, 0), (0, 1))) for part in added)
    looked_at = 0

    def fill(position: int, partial: Floats, table: list[int]) -> Iterator[list[int]]:
        nonlocal looked_at
        looked_at += 1
        if work is not None and looked_at > work:
            raise ValueError(f"listing the fiber takes more than {work} partial tables")
        if np.any((partial + rest_least[:, position] > high + 1e-9) | (partial + rest_most[:, position] < low - 1e-9)):
            return
        if position == len(lower):
            yield table
            return
        for value in range(int(lower[position]), int(upper[position]) + 1):
            yield from fill(position + 1, partial + matrix[:, position] * value, [*table, value])

    tables = list(islice(fill(0, np.zeros(len(matrix)), []), int(limit) + 1))
    if len(tables) > limit:
        raise ValueError(f"the fiber has more than {limit} tables")
    return np.array(tables, dtype=np.int64).reshape(len(tables), *fiber.frame.shape)


_NODES = 10_000


def nearest_table(fiber: Fiber, values: npt.ArrayLike) -> Ints:
    """The table of nonnegative whole numbers with the exact answers that is nearest to noisy counts (Cho and Awan, Remark 33).

    A member of the fiber with the least sum of distances ``|x - values|`` from `values`, shape ``(*table)``, whole or real, which
    may be negative; of several such tables, the one that the program meets first. It is post-processing, for tables that are to look
    like tables: give a model the noisy counts and not these, which no longer follow the law of the noise.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins
    >>> margins = Margins({"row": ["a", "b"], "column": ["c", "d"]}, ["row"], ["column"])
    >>> fiber = Fiber.of([Exact(margins, [5, 3, 2, 6])])
    >>> nearest_table(fiber, [[-1.4, 6.4], [3.4, -0.4]])
    array([[0, 5],
           [2, 1]])
    """
    instance(fiber, Fiber, "fiber must be a Fiber")
    noisy = np.asarray(finite_array(values, "values", fiber.frame.exact_cell_name), dtype=np.float64)
    if noisy.shape != fiber.frame.shape:
        raise ValueError(f"values must have shape {fiber.frame.shape}, got {noisy.shape}")
    # Each count is written as what lies below ``floor(values)``, up to one between the two neighbouring whole numbers, and what lies
    # above; the cost is linear in each, so that the linear program of two-way margins or nested totals has a whole solution already.
    fiber.find_point()  # an empty fiber is an error that names the answers
    flat, system = noisy.reshape(-1), fiber.system
    lower, upper = system.lower.astype(np.float64), np.where(system.upper < UNBOUNDED, system.upper, np.inf)
    # x = base - down + middle + up, base the floor of the number, or the limit of the cell that is nearest to it.
    base = np.clip(np.floor(flat), lower, upper)
    part = np.where((base == np.floor(flat)) & (base < upper), flat - base, 0.0)
    above = np.where(flat < base, 1.0, 1.0 - 2.0 * part)  # cost of the first step up
    rows, low, high = system.limited_rows()
    start, signed = rows @ base, sp.hstack([-rows, rows, rows], format="csr")
    room = np.concatenate([base - lower, np.minimum(upper - base, 1.0), np.maximum(upper - base - 1.0, 0.0)])
    found = scipy.optimize.milp(
        np.concatenate([np.ones(len(flat)), above, np.ones(len(flat))]),
        integrality=np.ones(len(room)),
        bounds=(0, room),
        constraints=[(signed, low - start, high - start)] if rows.shape[0] else [],
        options={"node_limit": _NODES, "mip_rel_gap": 0.0},
    )
    if found.status != 0:
        raise ArithmeticError(f"the nearest table was not found: {found.message}")
    down, middle, up = np.rint(found.x).reshape(3, -1)
    table: Ints = (base - down + middle + up).astype(np.int64).reshape(fiber.frame.shape)
    if not fiber.contains(table):
        raise ArithmeticError("the nearest table was not found: the program's solution does not have the exact answers")
    return table

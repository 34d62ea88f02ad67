"""The fiber: all tables of nonnegative whole numbers that agree with what is published exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.fibers.bounds import cell_bounds
from bayesdp.fibers.feasible import find_point, is_two_way
from bayesdp.fibers.gaps import Gaps
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import System
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.moves.choosing import moves_for
from bayesdp.moves.moves import Kept, Moves
from bayesdp.queries import LinearQuery, MatrixPart, Query, cell_list

type Ints = npt.NDArray[np.int64]

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

        Exact for disjoint totals, two-way margins and tables of up to `bounds.EXACT_CELLS` cells; elsewhere limits that
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

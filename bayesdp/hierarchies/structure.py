"""Which tables are hierarchies: leaves by cells, with noise and exact sums at the levels of a tree above the leaves.

One dimension of the table holds the leaves, and what is published keeps its labels, group labels that nest, or nothing of
it: these are the levels
of a tree. The other dimensions are the cells of a leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.fibers import Target
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.frames import Frame
from bayesdp.queries import Query, SumPart

__all__ = ["NoStructure", "Structure", "structure_of"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


class NoStructure(ValueError):
    """A table is no hierarchy of the kind that the moves know; the message says why."""


@dataclass(frozen=True, eq=False)
class Structure:
    """A hierarchy, in the order of its own: leaves of one node follow one another.

    Parameters
    ----------
    frame : Frame
    axis : int
        The dimension of the leaves.
    order : int64 array, shape (T,)
        The leaves in the frame, in the order of the tree.
    levels : tuple of str
        What the levels are called, from the leaves up; the last one has one node, ``"all"`` where nothing names it.
    path : int64 array, shape (T, L)
        The nodes of each leaf, numbered from the leaves up.
    answer_of : int64 array, shape (C, queries)
        The sums in which each cell counts.
    query_start : int64 array, shape (queries + 1,)
        Sums of query q are numbered ``query_start[q] .. query_start[q + 1] - 1``.
    free : bool array, shape (T, C)
        Cells that may move.
    exact_class : int64 array, shape (L, C)
        Cells of one class count in the same exact sums of a node; -1 for those that count in none.
    sum_class : int64 array, shape (C,)
        Classes of cells whose sums have limits.
    sum_lower, sum_upper : int64 arrays, shape (nodes, classes)
    """

    frame: Frame
    axis: int
    order: Ints
    levels: tuple[str, ...]
    path: Ints
    answer_of: Ints
    query_start: Ints
    free: Mask
    exact_class: Ints
    sum_class: Ints
    sum_lower: Ints
    sum_upper: Ints

    @property
    def nodes(self) -> int:
        """Number of nodes, leaves among them."""
        return int(self.path[:, -1].max()) + 1

    @cached_property
    def node_range(self) -> tuple[Ints, Ints]:
        """The first leaf of each node, and the one after its last."""
        first, last = np.zeros(self.nodes, dtype=np.int64), np.zeros(self.nodes, dtype=np.int64)
        leaves = np.arange(len(self.path))
        for nodes in self.path.T:
            first[nodes[::-1]] = leaves[::-1]
            last[nodes] = leaves + 1
        return first, last

    @cached_property
    def pair_class(self) -> Ints:
        """Cells that may exchange counts within a leaf have the same number: they are in one class at every level."""
        return np.unique(self.exact_class, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)

    @cached_property
    def sums_of_cells(self) -> sp.csr_array:
        """The sums as a matrix, cells by sums."""
        cells, queries = self.answer_of.shape
        rows = np.repeat(np.arange(cells), queries)
        size = int(self.query_start[-1])
        return sp.csr_array((np.ones(cells * queries), (rows, self.answer_of.reshape(-1))), shape=(cells, size))

    def leaves_by_cells(self, table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """A flat table of the frame as leaves by cells, shape (T, C)."""
        return np.moveaxis(table.reshape(self.frame.shape), self.axis, 0)[self.order].reshape(len(self.order), -1)

    def in_frame(self, table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Leaves by cells as a flat table of the frame."""
        shape = [n for axis, n in enumerate(self.frame.shape) if axis != self.axis]
        back = np.empty((len(self.order), *shape), dtype=table.dtype)
        back[self.order] = table.reshape(len(self.order), *shape)
        return np.moveaxis(back, 0, self.axis).reshape(-1)

    def node_tables(self, counts: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Sums of the leaves of each node, cell by cell: shape (T, C) to (nodes, C)."""
        first, last = self.node_range
        running = np.concatenate([np.zeros((1, counts.shape[1]), dtype=counts.dtype), np.cumsum(counts, axis=0)])
        return np.asarray(running[last] - running[first])

    def where(self, part: SumPart) -> tuple[int, int, Ints]:
        """Where the answers of a part are: its level, its query, and its row for each node and sum, shape (nodes of it, sums)."""
        level = _level_index(self, part)
        nodes = np.unique(self.path[:, level])
        rows = np.asarray(self.leaves_by_cells(part.row_of_cell), dtype=np.int64)[self.node_range[0][nodes]]
        mine = _cell_codes(rows[0])
        for q, (start, end) in enumerate(zip(self.query_start[:-1], self.query_start[1:], strict=True)):
            own = self.answer_of[:, q] - start
            if end - start == mine.max() + 1 and np.array_equal(own, mine):
                return level, q, rows[:, np.unique(own, return_index=True)[1]]
        raise NoStructure(f"the sums of {part.keep} are none of the hierarchy")


def _cell_codes(rows: Ints) -> Ints:
    """Numbers 0, 1, ... for the answers that the cells of a leaf count in, in the order of their first cells."""
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(rank[inverse.reshape(-1)])


def _leaf_codes(part: SumPart, axis: int) -> Ints:
    codes = part.codes[axis]
    return np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _level_index(structure: Structure, part: SumPart) -> int:
    codes = _leaf_codes(part, structure.axis)[structure.order]
    for level, nodes in enumerate(structure.path.T):
        if _same_partition(codes, nodes):
            return level
    raise NoStructure(f"the groups of {part.keep} are no level of the tree")


def _same_partition(one: Ints, other: Ints) -> bool:
    pairs = len(np.unique(np.stack([one, other]), axis=1).T)
    return bool(pairs == len(np.unique(one)) == len(np.unique(other)))


def _sum_parts(queries: Sequence[Query]) -> list[SumPart]:
    parts = [part for query in queries for part in query.parts]
    if any(not isinstance(part, SumPart) for part in parts):
        raise NoStructure("a query with weights is no sum of cells")
    return [part for part in parts if isinstance(part, SumPart)]


def structure_of(target: Target, leaves: str | None = None) -> Structure:
    """Find the hierarchy in a target.

    Parameters
    ----------
    target : Target
        Fiber, noisy terms and prior family.
    leaves : str, optional
        The dimension of the leaves. If left out, the one with the most levels; of several, one with group labels, and then the
        one with the most labels.

    Raises
    ------
    NoStructure
        If there is none; it says why.
    """
    if target.family == "binomial" or target.bounded or target.open:
        raise NoStructure("cells have limits that the prior, or the rest of the model, gives them")
    for term in target.terms:
        if term.kind != "gaussian" or term.coordinates is not None:
            raise NoStructure("noise that is not normal, or not independent")
    frame = target.fiber.frame
    noisy = _sum_parts([term.query for term in target.terms])
    exact = _sum_parts([target.fiber.moving_invariants.query] if target.fiber.moving_invariants.rank else [])
    limits = _limit_parts(target)
    parts = [*noisy, *exact, *(part for part, _, _ in limits)]
    axes = [frame.dims.index(leaves)] if leaves is not None else list(range(len(frame.dims)))
    grouped = {dim for _, dim, _ in frame.groups}
    found: list[tuple[tuple[int, bool, int, int], list[tuple[str, Ints]]]] = []
    why = ""
    for axis in axes:
        try:
            levels = _levels(frame, axis, parts)
        except NoStructure as reason:
            why = why or str(reason)
            continue
        found.append(((len(levels), frame.dims[axis] in grouped, frame.shape[axis], -axis), levels))
    if not found:
        raise NoStructure(why)
    rank, levels = max(found, key=lambda own: own[0])
    return _build(target, -rank[-1], levels, noisy, exact, limits)


def _levels(frame: Frame, axis: int, parts: Sequence[SumPart]) -> list[tuple[str, Ints]]:
    """The partitions of the leaves that are used, from the leaves up; each must refine the next."""
    size = frame.shape[axis]
    named: list[tuple[str, Ints]] = [(frame.dims[axis], np.arange(size, dtype=np.int64))]
    for part in parts:
        codes = _leaf_codes(part, axis)
        if not any(_same_partition(codes, own) for _, own in named):
            named.append((part.levels[axis] or "all", codes))
    if len(np.unique(named[-1][1])) > 1 and not any(own.max() == 0 for _, own in named):
        named.append(("all", np.zeros(size, dtype=np.int64)))
    named.sort(key=lambda own: -len(np.unique(own[1])))
    for (fine, below), (coarse, above) in zip(named[:-1], named[1:], strict=True):
        if len(np.unique(np.stack([below, above]), axis=1).T) != len(np.unique(below)):
            raise NoStructure(f"the groups {fine!r} and {coarse!r} of {frame.dims[axis]!r} do not nest")
    return named


def _limit_parts(target: Target) -> list[tuple[SumPart, Ints, bool]]:
    """Limits of sums over several cells: the part, the values, and whether they are upper limits."""
    fiber = target.fiber
    found = []
    for queries, above in ((fiber.bounds_below, False), (fiber.bounds_above, True)):
        for query, values in queries:
            if _only_single_cells(query):
                continue
            parts = _sum_parts([query])
            ends = np.cumsum([part.rows for part in parts])[:-1]
            for part, own in zip(parts, np.split(np.asarray(values).reshape(-1), ends), strict=True):
                found.append((part, own.astype(np.int64), above))
    return found


def _only_single_cells(query: Query) -> bool:
    return bool(np.all(np.diff(query.matrix.indptr) <= 1))


def _build(
    target: Target,
    axis: int,
    levels: list[tuple[str, Ints]],
    noisy: list[SumPart],
    exact: list[SumPart],
    limits: list[tuple[SumPart, Ints, bool]],
) -> Structure:
    frame, system = target.fiber.frame, target.fiber.system
    order = np.lexsort([codes for _, codes in levels]).astype(np.int64)
    path = np.empty((len(order), len(levels)), dtype=np.int64)
    start = 0
    for level, (_, codes) in enumerate(levels):
        own = codes[order]
        path[:, level] = start + np.concatenate([[0], np.cumsum(own[1:] != own[:-1])])
        start = int(path[-1, level]) + 1
    movable = np.asarray(system.upper > system.lower)
    odd = movable & ((system.lower > 0) | (system.upper < UNBOUNDED))
    if odd.any():
        raise NoStructure(f"the cell {frame.cell_name(int(np.flatnonzero(odd)[0]))} has limits of its own")

    def cells_of(part: SumPart) -> Ints:
        rows = np.moveaxis(part.row_of_cell.reshape(frame.shape), axis, 0)[order[0]].reshape(-1)
        return _cell_codes(rows)

    columns: list[Ints] = []
    for part in noisy:
        codes = cells_of(part)
        if not any(np.array_equal(codes, own) for own in columns):
            columns.append(codes)
    cells = frame.size // frame.shape[axis]
    columns.sort(key=lambda own: int(own.max()))
    query_start = np.concatenate([[0], np.cumsum([int(own.max()) + 1 for own in columns])]).astype(np.int64)
    answer_of = np.zeros((cells, len(columns)), dtype=np.int64)
    for q, own in enumerate(columns):
        answer_of[:, q] = own + query_start[q]
    exact_class = np.full((len(levels), cells), -1, dtype=np.int64)
    for part in exact:
        leaf = _leaf_codes(part, axis)
        level = next(i for i, (_, codes) in enumerate(levels) if _same_partition(codes, leaf))
        both = np.stack([exact_class[level], cells_of(part)])
        exact_class[level] = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    sum_class = np.zeros(cells, dtype=np.int64)
    classes = [cells_of(part) for part, _, _ in limits]
    if classes:
        sum_class = classes[0]
        if any(not np.array_equal(own, sum_class) for own in classes):
            raise NoStructure("limits are stated of sums that are cut in different ways")
    nodes = int(path[:, -1].max()) + 1
    lower = np.full((nodes, int(sum_class.max()) + 1), -UNBOUNDED, dtype=np.int64)
    upper = np.full(lower.shape, UNBOUNDED, dtype=np.int64)
    free = np.moveaxis(movable.reshape(frame.shape), axis, 0)[order].reshape(len(order), cells)
    built = Structure(
        frame,
        axis,
        order,
        tuple(name for name, _ in levels),
        path,
        answer_of,
        query_start,
        np.ascontiguousarray(free),
        exact_class,
        sum_class,
        lower,
        upper,
    )
    for part, values, above in limits:
        level = _level_index(built, part)
        own_nodes = np.unique(path[:, level])
        rows = np.asarray(built.leaves_by_cells(part.row_of_cell), dtype=np.int64)[built.node_range[0][own_nodes]]
        one_cell = np.unique(sum_class, return_index=True)[1]
        own = values[rows[:, one_cell]]
        side = upper if above else lower
        side[own_nodes] = np.minimum(side[own_nodes], own) if above else np.maximum(side[own_nodes], own)
    return built

"""Which tables are hierarchies: leaves by cells, with noise and exact sums at the levels of a tree above the leaves.

One dimension of the table holds the leaves, and what is published keeps its labels, group labels that nest, or nothing of
it: these are the levels of a tree. The other dimensions are the cells of a leaf.
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
from bayesdp.hierarchies.connectivity import connection, exact_classes
from bayesdp.hierarchies.tree import Levels, NoStructure, Tree, levels_of, tree_of
from bayesdp.queries import Query, SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Structure(Tree):
    """A hierarchy: a tree, and what is published of the cells at its nodes."""

    answer_of: Ints  # the sums in which each cell counts, shape (C, queries)
    query_start: Ints  # sums of query q are numbered query_start[q] .. query_start[q + 1] - 1, shape (queries + 1,)
    free: Mask  # cells that may move, shape (T, C)
    exact_class: Ints  # cells of one class count in the same exact sums of a node, -1: in none, shape (L, C)
    sum_class: Ints  # classes of cells whose sums have limits, shape (C,)
    sum_lower: Ints  # with `sum_upper`: these limits, shape (nodes, classes)
    sum_upper: Ints
    proved: bool  # whether the moves are proved to connect every table
    claim: str  # what is known of that, in words

    @property
    def limited(self) -> bool:
        """Whether any sum has limits."""
        return bool((self.sum_upper < UNBOUNDED).any() or (self.sum_lower > -UNBOUNDED).any())

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

    def where(self, part: SumPart) -> tuple[int, int, Ints]:
        """Where the answers of a part are: its level, its query, and its row for each node and sum, shape (nodes of it, sums)."""
        codes, rows = self.sums_of(part)
        for q, start in enumerate(self.query_start[:-1]):
            if np.array_equal(self.answer_of[:, q] - start, codes):
                return self.level_of(part), q, rows
        raise NoStructure(f"the sums of {part.keep} are none of the hierarchy")


def sum_parts(queries: Sequence[Query]) -> list[SumPart]:
    """The parts of queries, all of which must be sums of cells that share labels."""
    parts = [part for query in queries for part in query.parts]
    if any(not isinstance(part, SumPart) for part in parts):
        raise NoStructure("a query with weights is no sum of cells")
    return [part for part in parts if isinstance(part, SumPart)]


def structure_of(target: Target, leaves: str | None = None) -> Structure:
    """Find the hierarchy in a target."""
    # `leaves`: the dimension of the leaves. If left out, one of which every answer keeps the label or that of a group (where there
    # are both); of several, or if there is none, the one of which the most queries keep labels, then the one with the most levels,
    # then one with group labels, and then the one with the most labels. The next one is tried where the first is none.
    if target.family == "binomial" or target.bounded or target.open:
        raise NoStructure("cells have limits that the prior, or the rest of the model, gives them")
    for term in target.terms:
        if term.kind != "gaussian" or term.coordinates is not None:
            raise NoStructure("noise that is not normal, or not independent")
    frame = target.fiber.frame
    noisy = sum_parts([term.query for term in target.terms])
    exact = sum_parts([target.fiber.moving_invariants.query] if target.fiber.moving_invariants.rank else [])
    limits = _limit_parts(target)
    parts = [*noisy, *exact, *(part for part, _, _ in limits)]
    reasons = []
    for axis, levels in _axes(frame, parts, leaves):
        try:
            return _build(target, tree_of(frame, axis, levels), noisy, exact, limits)
        except NoStructure as reason:
            reasons.append(reason)
    raise reasons[0]


def best_axis(frame: Frame, parts: Sequence[SumPart], leaves: str | None) -> tuple[int, Levels]:
    """The dimension of the leaves, and its levels: see `structure_of`."""
    return _axes(frame, parts, leaves)[0]


def _axes(frame: Frame, parts: Sequence[SumPart], leaves: str | None) -> list[tuple[int, Levels]]:
    """The dimensions that may be that of the leaves, the best first, with their levels; `NoStructure` if there is none."""
    axes = [frame.dims.index(leaves)] if leaves is not None else list(range(len(frame.dims)))
    grouped = {dim for _, dim, _ in frame.groups}
    found: list[tuple[tuple[bool, int, int, bool, int, int], Levels]] = []
    why = ""
    for axis in axes:
        try:
            levels = levels_of(frame, axis, parts)
        except NoStructure as reason:
            why = why or str(reason)
            continue
        named = {part.levels[axis] for part in parts}
        # Releases of geography say of every answer where it is, by the label of the unit or of its group. Levels alone do not tell:
        # within one county tracts have fewer than an axis that is cut by a recode.
        everywhere = None not in named and len(named) > 1
        kept = sum(part.levels[axis] is not None for part in parts)  # fewer queries ask for a dimension of the cells
        rank = (everywhere, kept, len(levels), frame.dims[axis] in grouped, frame.shape[axis], -axis)
        found.append((rank, levels))
    if not found:
        raise NoStructure(why)
    return [(-rank[-1], levels) for rank, levels in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _limit_parts(target: Target) -> list[tuple[SumPart, Ints, bool]]:
    """Limits of sums over several cells: the part, the values, and whether they are upper limits."""
    fiber = target.fiber
    found = []
    for queries, above in ((fiber.bounds_below, False), (fiber.bounds_above, True)):
        for query, values in queries:
            if _cell_by_cell(query):
                continue
            flat = np.asarray(values).reshape(-1).astype(np.int64)
            for part, (_, rows) in zip(sum_parts([query]), query.placed_parts, strict=True):
                found.append((part, flat[rows], above))
    return found


def _cell_by_cell(query: Query) -> bool:
    """Whether a query is a list of single cells: zeros, and limits that the prior gives. `System` has them."""
    return not any(isinstance(part, SumPart) for part in query.parts) and bool(
        np.all(np.diff(query.matrix.indptr) <= 1)
    )


def _build(
    target: Target, tree: Tree, noisy: list[SumPart], exact: list[SumPart], limits: list[tuple[SumPart, Ints, bool]]
) -> Structure:
    columns = list({codes.tobytes(): codes for codes in (tree.sums_of(part)[0] for part in noisy)}.values())
    columns.sort(key=lambda codes: int(codes.max()))
    query_start = np.concatenate([[0], np.cumsum([int(codes.max()) + 1 for codes in columns])]).astype(np.int64)
    answer_of = np.zeros((tree.cells, len(columns)), dtype=np.int64)
    for q, codes in enumerate(columns):
        answer_of[:, q] = codes + query_start[q]
    exact_class = exact_classes(
        len(tree.levels), tree.cells, [(tree.level_of(part), tree.sums_of(part)[0]) for part in exact]
    )
    stated = [tree.sums_of(part) for part, _, _ in limits]
    sum_class = stated[0][0] if stated else np.zeros(tree.cells, dtype=np.int64)
    odd = [part for (part, _, _), (own, _) in zip(limits, stated, strict=True) if not np.array_equal(own, sum_class)]
    if odd:
        first, other = (" x ".join(part.keep) or "nothing" for part in (limits[0][0], odd[0]))
        raise NoStructure(f"limits are stated of sums that are cut in different ways: by {first} and by {other}")
    lower = np.full((tree.nodes, int(sum_class.max()) + 1), -UNBOUNDED, dtype=np.int64)
    upper = np.full(lower.shape, UNBOUNDED, dtype=np.int64)
    for (part, values, above), (_, rows) in zip(limits, stated, strict=True):
        nodes, side = tree.nodes_of(tree.level_of(part)), upper if above else lower
        side[nodes] = (np.minimum if above else np.maximum)(side[nodes], values[rows])
    free = _free_cells(target, tree, sum_class, lower, upper)
    proved, claim = connection(tree, exact_class, free, limited=bool(limits))
    return Structure(
        tree.frame, tree.axis, tree.order, tree.levels, tree.path,
        answer_of, query_start, free, exact_class, sum_class, lower, upper, proved, claim,
    )  # fmt: skip


def _free_cells(target: Target, tree: Tree, sum_class: Ints, lower: Ints, upper: Ints) -> Mask:
    """Cells that may move. Limits of single cells must be among those of sums that have one cell, in one leaf."""
    system = target.fiber.system
    least = np.asarray(tree.leaves_by_cells(system.lower), dtype=np.int64)
    most = np.asarray(tree.leaves_by_cells(system.upper), dtype=np.int64)
    free = np.ascontiguousarray(most > least)
    for nodes in tree.path.T:  # where a sum is at most 0, all of its cells are 0
        free &= (upper > 0)[nodes][:, sum_class]
    alone = np.bincount(sum_class)[sum_class] == 1
    known = np.zeros(free.shape, dtype=np.bool_)
    first, last = tree.node_range
    for nodes in tree.path.T:
        kept = (lower[nodes][:, sum_class] >= least) & (upper[nodes][:, sum_class] <= most)
        known |= kept & alone & ((last - first)[nodes] == 1)[:, None]
    odd = tree.in_frame(free & ((least > 0) | (most < UNBOUNDED)) & ~known)
    if odd.any():
        raise NoStructure(f"the cell {tree.frame.cell_name(int(np.flatnonzero(odd)[0]))} has limits of its own")
    return free

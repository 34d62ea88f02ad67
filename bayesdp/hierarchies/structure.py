"""Which tables are hierarchies: leaves by cells, with noise and exact sums at the levels of a tree above the leaves.

One dimension of the table holds the leaves, and what is published keeps its labels, group labels that nest, or nothing of
it: these are the levels of a tree. The other dimensions are the cells of a leaf.

Whether the moves of a hierarchy reach every table, and which hierarchies they are refused for because they do not: what is exact at
a level cuts the cells into classes, whose sums at every node are known (`exact_classes`). Classes that unite those of a lower level
say nothing new: their sums are sums over children. What is left must get finer from level to level (`effective_levels`): the sums of
a leaf by age, say, and those of its county by age and sex. Each argument below is about nonnegative tables without other limits;
every move may take all counts of a cell that it takes some from.

Nothing exact
    Every free cell moves on its own: to 0, and from 0 to any other count.
Exact sums at one level
    The tables of one node and class have one total. Its places are the free cells of the class in the leaves of the node. Counts go
    from place to place within a leaf, by its donors, and in the same cell between two leaves where it is free. Places that are linked
    in this way can all give their counts to one of them, and take them back in any other division. All are linked where every cell is
    free. With cells that are known the links are checked; a table of which they leave parts apart is refused.
Exact sums at several levels, every cell free
    Let L0 < L1 < ... be these levels, each node N of L0 lying in one of L1, and so on, and B0, B1, ... the class of a cell at each,
    where B1 determines B0 and so on. The tables (N0, B0), (N1, B1), ... are known, and so are their sums. They are margins of a
    decomposable model, with the cliques {N0, B0}, {N1, B1}, ... and the separators {N1, B0}, {N2, B1}, ..., which follow one another
    as N1 is a function of N0 and B0 one of B1. (Labels of a node with fewer children than others, or of a class with fewer cells,
    make cells that do not exist: zeros of a known margin.) Its tables are connected by the moves that swap N0 between two counts that
    agree in a separator, or everything above it (Dobra, 2003, Bernoulli 9(6), 1093-1108): exchanges of two cells between two leaves,
    `kernel.moves.move_square`, whose cells are in one class at every level below the node where the leaves meet. Cells of one class
    in leaves of one node of L0 are linked as above: counts to be swapped can be brought to one pair of cells and of leaves. Leaves
    of which every cell is known are taken out of the tree: the sums of the others are known as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from bayesdp._arrays import Ints, Mask
from bayesdp.fibers import Target
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.frames import Frame
from bayesdp.queries import Query, SumPart

type Levels = list[tuple[str, Ints]]


class NoStructure(ValueError):
    """A table is no hierarchy of the kind that the moves know; the message says why."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree whose leaves are the labels of one dimension, in an order in which the leaves of a node follow one another."""

    frame: Frame
    axis: int  # the dimension of the leaves
    order: Ints  # the leaves in the frame, in the order of the tree, shape (T,)
    levels: tuple[str, ...]  # names, from the leaves up; the last one has one node, "all" where nothing names it
    path: Ints  # the nodes of each leaf, numbered from the leaves up, shape (T, L)

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

    def leaves_by_cells(self, table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """A flat table of the frame as leaves by cells, shape (T, C)."""
        return np.moveaxis(table.reshape(self.frame.shape), self.axis, 0)[self.order].reshape(len(self.order), -1)

    def in_frame(self, table: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Leaves by cells as a flat table of the frame."""
        back = np.empty((len(self.order), *self.cell_shape), dtype=table.dtype)
        back[self.order] = table.reshape(back.shape)
        return np.moveaxis(back, 0, self.axis).reshape(-1)

    @property
    def cells(self) -> int:
        """Number of cells of a leaf."""
        return self.frame.size // len(self.order)

    @property
    def cell_shape(self) -> tuple[int, ...]:
        """The shape of a leaf: that of the frame without its leaves."""
        return tuple(n for axis, n in enumerate(self.frame.shape) if axis != self.axis)

    def tables_by_level(
        self, counts: npt.NDArray[np.generic], most: int = 256
    ) -> Iterator[tuple[Ints, npt.NDArray[np.generic]]]:
        """Nodes and sums of their leaves, shape (T, C) to (nodes, C), level by level from the leaves up, in blocks."""
        tables = counts  # no second table of the leaves
        for level in range(len(self.levels)):
            nodes = self.nodes_of(level)
            if level:
                first = np.flatnonzero(np.diff(self.parents(level - 1), prepend=-1))
                tables = np.add.reduceat(tables, first, axis=0)
            for start in range(0, len(nodes), most):
                block = slice(start, start + most)
                yield nodes[block], tables[block]

    def nodes_of(self, level: int) -> Ints:
        """The nodes of a level."""
        return np.unique(self.path[:, level])

    def first_leaves(self, level: int) -> Ints:
        """The first leaf of each node of a level, as it is numbered in the frame."""
        return self.order[self.node_range[0][self.nodes_of(level)]]

    def parents(self, level: int) -> Ints:
        """For each node of a level, the place of the node above it among those of the next level."""
        first = self.node_range[0][self.nodes_of(level)]
        above = self.path[first, level + 1]
        return np.asarray(above - above[0])

    def level_of(self, part: SumPart) -> int:
        """The level whose nodes a part keeps."""
        codes = part.codes[self.axis][self.order]
        for level, nodes in enumerate(self.path.T):
            if same_partition(codes, nodes):
                return level
        raise NoStructure(f"the groups of {part.keep} are no level of the tree")

    def by_node(self, part: SumPart, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Answers of a part, shape (rows,), as shape ``(nodes of its level, *sums)``, 1 where a dimension is summed over."""
        # Without `part.row_of_cell`, which is a whole table, and which the part would keep.
        sizes = [int(codes.max()) + 1 for codes in part.codes]
        first = self.first_leaves(self.level_of(part))
        found = np.moveaxis(values.reshape(sizes), self.axis, 0)[part.codes[self.axis][first]]
        return found if found.ndim > 1 else found[:, None]

    def answers(self, part: SumPart) -> Ints:
        """The answer of a part that is about each node of its level and each sum, shape (nodes of the level, sums)."""
        found = self.by_node(part, np.arange(part.rows))
        return found.reshape(len(found), -1)

    def cell_codes(self, part: SumPart) -> Ints:
        """The sum of a part in which each cell of a node counts, numbered in the order of their first cells, shape (C,)."""
        codes = np.zeros((), dtype=np.int64)
        for axis, own in enumerate(part.codes):
            if axis != self.axis:
                codes = codes[..., None] * (int(own.max()) + 1) + own
        return codes.reshape(-1)


def refines(fine: Ints, coarse: Ints) -> bool:
    """Whether those of one class of `fine` are in one class of `coarse`."""
    return bool(np.unique(np.stack([fine, coarse]), axis=1).shape[1] == len(np.unique(fine)))


def same_partition(one: Ints, other: Ints) -> bool:
    """Whether two numberings have the same classes."""
    return len(np.unique(one)) == len(np.unique(other)) and refines(one, other)


def levels_of(frame: Frame, axis: int, parts: Sequence[SumPart]) -> Levels:
    """The partitions of the leaves that are used, from the leaves up; each must refine the next."""
    size = frame.shape[axis]
    named: Levels = [(frame.dims[axis], np.arange(size, dtype=np.int64))]
    for part in parts:
        codes = part.codes[axis]
        if not any(same_partition(codes, known) for _, known in named):
            named.append((part.levels[axis] or "all", codes))
    if not any(own.max() == 0 for _, own in named):
        named.append(("all", np.zeros(size, dtype=np.int64)))
    named.sort(key=lambda own: -len(np.unique(own[1])))
    for (fine, below), (coarse, above) in itertools.pairwise(named):
        if not refines(below, above):
            raise NoStructure(f"the groups {fine!r} and {coarse!r} of {frame.dims[axis]!r} do not nest")
    return named


def tree_of(frame: Frame, axis: int, levels: Levels) -> Tree:
    """The tree of partitions of the leaves, from the leaves up, each of which refines the next (`levels_of`)."""
    order = np.lexsort([codes for _, codes in levels]).astype(np.int64)
    path = np.empty((len(order), len(levels)), dtype=np.int64)
    start = 0
    for level, (_, codes) in enumerate(levels):
        own = codes[order]
        path[:, level] = start + np.concatenate([[0], np.cumsum(own[1:] != own[:-1])])
        start = int(path[-1, level]) + 1
    return Tree(frame, axis, order, tuple(name for name, _ in levels), path)


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
        codes = self.cell_codes(part)
        for q, start in enumerate(self.query_start[:-1]):
            if np.array_equal(self.answer_of[:, q] - start, codes):
                return self.level_of(part), q, self.answers(part)
        raise NoStructure(f"the sums of {part.keep} are none of the hierarchy")


def sum_parts(queries: Sequence[Query]) -> list[SumPart]:
    """The parts of queries, all of which must be sums of cells that share labels."""
    parts = [part for query in queries for part in query.parts]
    if any(not isinstance(part, SumPart) for part in parts):
        raise NoStructure("a query with weights is no sum of cells")
    return [part for part in parts if isinstance(part, SumPart)]


def structure_of(target: Target, leaves: str | None = None) -> Structure:
    """Find the hierarchy in a target: with these leaves, or those of the first of `leaf_axes` that has one."""
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
    for axis, levels in leaf_axes(frame, parts, leaves):
        try:
            return _build(target, tree_of(frame, axis, levels), noisy, exact, limits)
        except NoStructure as reason:
            reasons.append(reason)
    raise reasons[0]


def leaf_axes(frame: Frame, parts: Sequence[SumPart], leaves: str | None) -> list[tuple[int, Levels]]:
    """The dimensions that may be that of the leaves, the best first, with their levels; or `NoStructure`."""
    # First one of which every answer keeps the label or that of a group (where there are both), then the one of which the most queries
    # keep labels, with the most levels, with group labels, with the most labels.
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
            # A list of single cells: zeros, and limits that the prior gives. `System` has them.
            sums = any(isinstance(part, SumPart) for part in query.parts)
            if not sums and np.all(np.diff(query.matrix.indptr) <= 1):
                continue
            flat = np.asarray(values).reshape(-1).astype(np.int64)
            for part, (_, rows) in zip(sum_parts([query]), query.placed_parts, strict=True):
                found.append((part, flat[rows], above))
    return found


def _build(
    target: Target, tree: Tree, noisy: list[SumPart], exact: list[SumPart], limits: list[tuple[SumPart, Ints, bool]]
) -> Structure:
    columns = list({codes.tobytes(): codes for codes in map(tree.cell_codes, noisy)}.values())
    columns.sort(key=lambda codes: int(codes.max()))
    query_start = np.concatenate([[0], np.cumsum([int(codes.max()) + 1 for codes in columns])]).astype(np.int64)
    answer_of = np.zeros((tree.cells, len(columns)), dtype=np.int64)
    for q, codes in enumerate(columns):
        answer_of[:, q] = codes + query_start[q]
    placed = [(tree.level_of(part), tree.cell_codes(part)) for part in exact]
    exact_class = exact_classes(len(tree.levels), tree.cells, placed)
    sum_class = tree.cell_codes(limits[0][0]) if limits else np.zeros(tree.cells, dtype=np.int64)
    odd = [part for part, _, _ in limits if not np.array_equal(tree.cell_codes(part), sum_class)]
    if odd:
        first, other = (" x ".join(part.keep) or "nothing" for part in (limits[0][0], odd[0]))
        raise NoStructure(f"limits are stated of sums that are cut in different ways: by {first} and by {other}")
    lower = np.full((tree.nodes, int(sum_class.max()) + 1), -UNBOUNDED, dtype=np.int64)
    upper = np.full(lower.shape, UNBOUNDED, dtype=np.int64)
    for part, values, above in limits:
        nodes, side = tree.nodes_of(tree.level_of(part)), upper if above else lower
        side[nodes] = (np.minimum if above else np.maximum)(side[nodes], values[tree.answers(part)])
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


_SINGLE = "proved: every cell of a hierarchy moves on its own"
_LINKED = "proved: exchanges of counts within leaves and between them connect every table with these sums of the nodes"
_SQUARES = (
    "proved: exchanges within leaves and 2x2 exchanges between them connect every table with these sums of the nodes, which are "
    "margins of a decomposable model (Dobra 2003)"
)
LIMITED = (
    "nothing is proved where sums of cells have limits: the moves of the hierarchy are mixed with random sums of them, of up to 64 "
    "cells at once"
)
"""What is known of the moves where sums of cells have limits."""


def exact_classes(levels: int, cells: int, parts: Sequence[tuple[int, Ints]]) -> Ints:
    """Classes of cells at each level, shape (levels, cells): cells of one class count in the same exact sums of a node."""
    # `parts`: the level of each exact query, and the sum in which each cell counts. NoStructure if two queries of one level cut the
    # cells across each other: their sums are not those of classes.
    classes = np.full((levels, cells), -1, dtype=np.int64)
    for level, codes in parts:
        if (classes[level] < 0).all() or refines(codes, classes[level]):
            classes[level] = np.unique(codes, return_inverse=True)[1].reshape(-1)
        elif not refines(classes[level], codes):
            raise NoStructure("exact sums at one level of the tree cut the cells across each other")
    return classes


def effective_levels(classes: Ints) -> list[int]:
    """The levels whose exact sums do not follow from those of lower levels, from the leaves up."""
    # NoStructure if classes at two levels cut the cells across each other.
    found: list[int] = []
    for level, own in enumerate(classes):
        if own[0] < 0 or (found and refines(classes[found[-1]], own)):
            continue
        if found and not refines(own, classes[found[-1]]):
            raise NoStructure("exact sums at two levels of the tree cut the cells across each other")
        found.append(level)
    return found


def connection(tree: Tree, classes: Ints, free: Mask, *, limited: bool) -> tuple[bool, str]:
    """Whether the moves are proved to connect every table, and what is known in words."""
    # `classes`, shape (levels, cells): see `exact_classes`. `free`, shape (T, C): cells that may move. `limited`: whether sums of
    # cells have limits. NoStructure if not even sums of the moves reach every table.
    levels = effective_levels(classes)
    if len(levels) > 1 and not (free.all(axis=1) | ~free.any(axis=1)).all():
        raise NoStructure("exact sums at several levels of the tree, beside cells that are known")
    single = levels[0] if len(levels) == 1 else 0  # at the leaves every place is in a table of its own
    if single and not (free.all() or _linked(tree.path[:, single], classes[single], free)):
        raise NoStructure("cells that are known leave no way between some leaves under an exact sum")
    return (False, LIMITED) if limited else (True, (_SINGLE, _LINKED, _SQUARES)[min(len(levels), 2)])


def _linked(node: Ints, kind: Ints, free: Mask) -> bool:
    """Whether the free cells of each class under each node are linked by common leaves and common cells."""
    # They are the edges of a graph between leaves and cells, with vertices of its own for each node and class.
    leaf, cell = np.nonzero(free)
    kinds, leaves, cells = int(kind.max()) + 1, *free.shape
    table = np.unique(node[leaf], return_inverse=True)[1].reshape(-1) * kinds + kind[cell]
    ends = np.concatenate([leaf * kinds + kind[cell], leaves * kinds + table // kinds * cells + cell])
    vertices = leaves * kinds + (int(table.max(initial=0)) // kinds + 1) * cells
    graph = sp.csr_array((np.ones(len(leaf)), tuple(ends.reshape(2, -1))), shape=(vertices, vertices))
    part = connected_components(graph, directed=False)[1][ends[: len(leaf)]]
    return refines(table, part)

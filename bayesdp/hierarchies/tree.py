"""Trees of geography: the labels of one dimension of a table, and groups of them that nest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp.frames import Frame
from bayesdp.queries import SumPart

type Ints = npt.NDArray[np.int64]
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
        """Sums of the leaves of each node, shape (T, C) to (nodes, C), level by level from the leaves up, in blocks."""
        # Yields nodes, and their tables. It takes no second table of the leaves.
        tables = counts
        for level in range(len(self.levels)):
            nodes = self.nodes_of(level)
            if level:
                first = np.flatnonzero(np.diff(self.parents(level - 1), prepend=-1))
                tables = np.add.reduceat(tables, first, axis=0)
            for start in range(0, len(nodes), most):
                own = slice(start, start + most)
                yield nodes[own], tables[own]

    def nodes_of(self, level: int) -> Ints:
        """The nodes of a level."""
        return np.unique(self.path[:, level])

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

    def rows(self, part: SumPart) -> Ints:
        """The answer of a part in which each cell of each node of its level counts, shape (nodes of the level, C)."""
        leaves = self.order[self.node_range[0][self.nodes_of(self.level_of(part))]]
        # Worked out for these leaves alone: `part.row_of_cell` is a whole table, and the part would keep it.
        codes = [code[leaves] if axis == self.axis else code for axis, code in enumerate(part.codes)]
        row = np.zeros([len(code) for code in codes], dtype=np.int64)
        for axis, (own, code) in enumerate(zip(part.codes, codes, strict=True)):
            row *= int(own.max()) + 1
            row += code.reshape([-1 if i == axis else 1 for i in range(row.ndim)])
        return np.moveaxis(row, self.axis, 0).reshape(len(leaves), -1)

    def sums_of(self, part: SumPart) -> tuple[Ints, Ints]:
        """The sum in which each cell of a node counts, shape (C,), and the answer of each node and sum, shape (nodes, sums)."""
        rows = self.rows(part)
        codes = cell_codes(rows[0])
        return codes, rows[:, np.unique(codes, return_index=True)[1]]


def cell_codes(rows: Ints) -> Ints:
    """Numbers 0, 1, ... for the answers that the cells of a leaf count in, in the order of their first cells."""
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(rank[inverse.reshape(-1)])


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
        if not any(same_partition(codes, own) for _, own in named):
            named.append((part.levels[axis] or "all", codes))
    if len(np.unique(named[-1][1])) > 1 and not any(own.max() == 0 for _, own in named):
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

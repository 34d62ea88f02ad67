"""The linear estimate of a hierarchy: generalised least squares in two passes over the tree, with its covariances.

All that is published, noisy sums at every level and exact ones, is a linear model with known variances. Its best linear
unbiased estimate is worked out up the tree and down again (a Kalman smoother on a tree), in coordinates in which the
covariance of a node is a few small blocks, each the same for all contrasts of a kind. Nonnegativity, limits and zeros are not
looked at.

Up, with precision p and answers y of each query M: ``b = sum p M^T y``, ``L = sum p M^T M``; at a leaf ``V = L^-1``, ``z = V b``; from
the children, with z and V of each, ``s = sum z``, ``W = sum V``, and then ``V = (1 + W L)^-1 W``, ``z = s + V (b - L s)``. Exact sums
``A x = c`` of a node: ``z += V A^T (A V A^T)^+ (c - A z)``, ``V -= V A^T (A V A^T)^+ A V``; at a leaf, where V need not exist without
them, ``V = N (N^T L N)^-1 N^T`` with N a basis of what they leave open. Down, for a child of a node with estimate x and
covariance C: ``K = V W^+``, ``x_child = z + K (x - s)``, ``C_child = V - K (W - C) K^T``.

Coordinates of one dimension of n cells, which is summed over, kept, or recoded into groups: let k be the number of groups of the
common refinement of all recodes (1 without any). The first k coordinates of a vector are the sums of these groups, each divided by
the square root of its size; the other n - k are contrasts within groups. A sum over everything, or over the groups of a recode, is a
k x k matrix on the first and 0 on the others; what keeps the dimension is the identity on both. For the product of several
dimensions the matrices multiply (Kronecker). So a table of a node, an array with one dimension an axis, falls into blocks, one for
each choice of dimensions whose contrasts are meant; in a block precisions and covariances are one K x K matrix of the groups of the
other dimensions, the same for all contrasts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import helmert, null_space

from bayesdp._arrays import Floats, Ints, Mask


@dataclass(frozen=True, eq=False)
class LevelData:
    """What is published of the nodes of one level."""

    nodes: int  # how many there are
    parent: Ints | None  # the node above each, in order: children of one follow one another. None at the top
    # Codes; precisions, shape (nodes,), 0 where a node has no answers, or one an answer where cells are groups of one axis; answers,
    # shape (nodes, sums of the first dimension, of the second, ...).
    queries: Sequence[tuple[Codes, Floats, Floats]]
    # Codes, and exact answers of the same shape; NaN at nodes that have none.
    exact: Sequence[tuple[Codes, Floats]] = ()


@dataclass(frozen=True, eq=False)
class LevelEstimate:
    """Estimates of the nodes of one level."""

    space: Coordinates
    tables: Floats  # in coordinates, shape (nodes, *cells)
    blocks: dict[Block, Floats]  # for each block the covariance of its groups, shape (nodes, K, K)

    @cached_property
    def cells(self) -> Floats:
        """Estimates of the cells, shape (nodes, cells)."""
        return self.sums(tuple(np.arange(n) for n in self.space.shape)).reshape(len(self.tables), -1)

    def sums(self, codes: Codes) -> Floats:
        """Estimates of the sums of the cells with equal codes, shape ``(nodes, *sums)``."""
        return self.space.sums(codes, self.tables)

    def variance(self, codes: Codes) -> Floats:
        """Their variances, of the same shape."""
        return np.maximum(self.space.variance(codes, self.blocks), 0.0)

    def variance_of(self, weights: Floats, node: int) -> float:
        """The variance of a weighted sum of the cells, weights of shape (cells,), at one node."""
        space = self.space
        table = np.zeros((1, *space.shape))
        space.spread(tuple(np.arange(n) for n in space.shape), weights.reshape(1, *space.shape), table)
        total = 0.0
        for block, own in self.blocks.items():
            sides = space.fold(space.part(table, block), block)[0]
            total += float((own[node] * (sides @ sides.T)).sum())
        return max(total, 0.0)

    def covariance(self, codes: Codes, node: int) -> Floats:
        """Covariances of the sums of one node, shape (sums, sums)."""
        return self.space.covariance(codes, self.blocks, node)


@dataclass(eq=False)
class _Level:
    """z and V of the nodes, s and W of their children, and how large V was before exact sums."""

    z: Floats
    v: dict[Block, Floats]
    s: Floats | None
    w: dict[Block, Floats]
    size: dict[Block, Floats]


def _information(space: Coordinates, level: LevelData, block: Block) -> Floats:
    groups = space.groups(block)
    found = np.zeros((level.nodes, groups, groups))
    for codes, precision, _ in level.queries:
        rows = space.rows(codes, block)
        if rows is None:
            continue
        if precision.ndim > 1:  # one axis, each cell a group of its own: M^T M says which cells are in one sum
            assert codes[0] is not None
            precision = precision[:, codes[0]]
        else:
            precision = precision[:, None]
        found += precision[:, :, None] * (rows.T @ rows)
    return found


def _right_side(space: Coordinates, level: LevelData) -> Floats:
    found = np.zeros((level.nodes, *space.shape))
    for codes, precision, answers in level.queries:
        weight = precision.reshape(*precision.shape, *(1 for _ in range(answers.ndim - precision.ndim)))
        space.spread(codes, weight * answers, found)
    return found


def _exact_tables(space: Coordinates, level: LevelData) -> list[tuple[Codes, Mask, Floats]]:
    """For each exact query: which nodes have it, and the table with these sums whose cells are alike, in coordinates."""
    found = []
    for codes, answers in level.exact:
        known = ~np.isnan(answers).reshape(level.nodes, -1).any(axis=1)
        sizes = np.ones(1)
        for axis, own in zip(space.axes, codes, strict=True):
            sizes = np.multiply.outer(sizes, axis.sums_of(own))
        table = np.zeros((level.nodes, *space.shape))
        space.spread(codes, np.where(np.isnan(answers), 0.0, answers) / sizes, table)
        found.append((codes, known, table))
    return found


def _up(space: Coordinates, level: LevelData, below: _Level | None, parent: Ints | None, number: int) -> _Level:
    z = _right_side(space, level)
    exact = _exact_tables(space, level)
    s: Floats | None = None
    w: dict[Block, Floats] = {}
    v: dict[Block, Floats] = {}
    size: dict[Block, Floats] = {}
    if below is not None and parent is not None:
        first = np.flatnonzero(np.r_[True, np.diff(parent) != 0])
        s = np.add.reduceat(below.z, first, axis=0)
        w = {block: np.add.reduceat(own, first, axis=0) for block, own in below.v.items()}
        size = {block: np.add.reduceat(own, first) for block, own in below.size.items()}
    for block in space.blocks:
        information, part = _information(space, level, block), space.part(z, block)
        known = [
            (rows, own, space.part(table, block))
            for codes, own, table in exact
            if (rows := space.rows(codes, block)) is not None
        ]
        if s is None:
            v[block] = at_leaves(space, block, information, part, known)
            size[block] = np.trace(v[block], axis1=1, axis2=2)
            continue
        above = space.part(s, block)
        v[block] = inverse(np.eye(information.shape[1]) + w[block] @ information) @ w[block]
        v[block] = 0.5 * (v[block] + np.swapaxes(v[block], 1, 2))
        part[:] = above + space.times(block, v[block], part - space.times(block, information, above))
        condition(space, block, v[block], part, size[block], known, number)
    return _Level(z, v, s, w, size)


def _down(space: Coordinates, node: _Level, above: _Level, parent: Ints) -> None:
    """Take into account what is known above; `above` holds the final estimates of the parents, in place."""
    place = np.cumsum(np.r_[0, np.diff(parent) != 0])
    assert above.s is not None
    change = above.z - above.s
    for block in space.blocks:
        v, w = node.v[block], above.w[block]
        gain = v @ pseudo_inverse(w, above.size[block])[place]
        part = space.part(node.z, block)
        part += space.times(block, gain, space.part(change, block)[place])
        v -= gain @ (w - above.v[block])[place] @ np.swapaxes(gain, 1, 2)


def tree_estimate(axes: Sequence[Axis], levels: Sequence[LevelData]) -> list[LevelEstimate]:
    """The linear estimate of all nodes, from the leaves up to the top."""
    # Time and memory are linear in the number of cells: about three arrays of float64 of the size of the leaves by cells.
    space = Coordinates(axes)
    done: list[_Level] = []
    for number, level in enumerate(levels):
        below = done[-1] if done else None
        done.append(_up(space, level, below, levels[number - 1].parent if done else None, number))
    for level, node, above in zip(reversed(levels[:-1]), reversed(done[:-1]), reversed(done[1:]), strict=True):
        assert level.parent is not None
        _down(space, node, above, level.parent)
    return [LevelEstimate(space, own.z, own.v) for own in done]


@dataclass(frozen=True, eq=False)
class Axis:
    """One dimension of the cells."""

    group: Ints  # the group of each cell, of the common refinement of all recodes, shape (n,)

    @classmethod
    def of(cls, size: int, recodes: Sequence[Ints]) -> Axis:
        """The dimension of `size` cells that these codes recode."""
        if not recodes:
            return cls(np.zeros(size, dtype=np.int64))
        return cls(np.unique(np.stack(recodes), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64))

    @property
    def cells(self) -> int:
        """Number of cells n."""
        return len(self.group)

    @cached_property
    def sizes(self) -> Ints:
        """Number of cells of each group."""
        return np.bincount(self.group)

    @property
    def groups(self) -> int:
        """Number of groups k."""
        return len(self.sizes)

    @cached_property
    def basis(self) -> Floats:
        """The coordinates as an orthonormal matrix, shape (n, n): a row each."""
        rows = [(self.group == g) / np.sqrt(size) for g, size in enumerate(self.sizes)]
        for g, size in enumerate(self.sizes):
            cells = np.flatnonzero(self.group == g)
            contrasts = np.zeros((size - 1, self.cells))
            contrasts[:, cells] = helmert(size)  # the mean of the first j cells against the next one
            rows.extend(contrasts)
        return np.array(rows)

    def coordinates(self, codes: Ints | None) -> Floats:
        """The sums of the cells with codes 0, 1, ... in these coordinates, a row each; None is one sum of everything."""
        codes = np.zeros(self.cells, dtype=np.int64) if codes is None else codes
        found = (np.arange(int(codes.max()) + 1)[:, None] == codes).astype(np.float64) @ self.basis.T
        # Contrasts within a sum are 0: very precise answers must not be seen there.
        return np.where(np.abs(found) < 1e-12, 0.0, found)

    def sums_of(self, codes: Ints | None) -> Ints:
        """How many cells each of the sums adds up."""
        return np.array([self.cells]) if codes is None else np.bincount(codes)

    def rows(self, codes: Ints | None) -> tuple[Floats, bool]:
        """Rows that span sums on the groups, shape (sums or k, k), and whether the sums see the contrasts."""
        # `codes`, shape (n,): a recode that the axis was made for, or one that keeps every cell. None sums over everything.
        if codes is not None and len(np.unique(codes)) == self.cells:
            return np.eye(self.groups), True
        root = np.sqrt(self.sizes.astype(np.float64))
        if codes is None:
            return root[None, :], False
        label = np.zeros(self.groups, dtype=np.int64)
        label[self.group] = codes
        return np.where(np.arange(int(codes.max()) + 1)[:, None] == label[None, :], root, 0.0), False


type Codes = tuple[Ints | None, ...]
"""Codes 0, 1, ... for each dimension of the cells, None where it is summed over."""

type Block = tuple[bool, ...]

_SMALL = 8
"""Blocks of at most so many groups are multiplied out in pairs."""


def along(tables: Floats, axis: int, matrix: Floats) -> Floats:
    """Apply a matrix, shape (m, n), to one dimension of an array."""
    shape = tables.shape
    if matrix.shape == (1, 1):
        return tables if matrix[0, 0] == 1.0 else tables * matrix[0, 0]
    lead, rest = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if rest == 1:
        found = tables.reshape(lead, shape[axis]) @ matrix.T
    else:
        found = np.matmul(matrix, tables.reshape(lead, shape[axis], rest))
    return np.asarray(found.reshape(*shape[:axis], len(matrix), *shape[axis + 1 :]))


class Coordinates:
    """The coordinates of a product of axes, the dimensions of the cells."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.shape = tuple(axis.cells for axis in axes)
        choices = itertools.product(*[(False, True) if axis.cells > axis.groups else (False,) for axis in axes])
        self.blocks: list[Block] = list(choices)

    def spread(self, codes: Codes, answers: Floats, into: Floats) -> None:
        """Add to tables in coordinates, shape ``(nodes, *shape)``, what each answer puts on all its cells: ``(nodes, *sums)``."""
        matrices, used = self._matrices(codes)
        for i, matrix in enumerate(matrices):
            answers = along(answers, i + 1, matrix.T)
        into[used] += answers

    def sums(self, codes: Codes, tables: Floats) -> Floats:
        """Sums of tables in coordinates: shape ``(nodes, *sums)``."""
        matrices, used = self._matrices(codes)
        found = tables[used]
        for i in np.argsort([len(own) for own in matrices], kind="stable"):  # the sums that are fewest first
            found = along(found, int(i) + 1, matrices[i])
        return np.ascontiguousarray(found)

    def _matrices(self, codes: Codes) -> tuple[list[Floats], tuple[slice, ...]]:
        """The sums in the coordinates of each axis that they see, and where these are."""
        used = [axis.groups if own is None else axis.cells for axis, own in zip(self.axes, codes, strict=True)]
        every = zip(self.axes, codes, used, strict=True)
        return [axis.coordinates(own)[:, :n] for axis, own, n in every], (slice(None), *(slice(0, n) for n in used))

    def part(self, tables: Floats, block: Block) -> Floats:
        """A block of tables in coordinates: a view."""
        cuts = zip(self.axes, block, strict=True)
        return tables[(slice(None), *(slice(a.groups, None) if own else slice(0, a.groups) for a, own in cuts))]

    def fold(self, part: Floats, block: Block) -> Floats:
        """A block as an array of shape (nodes, K, contrasts)."""
        moved = part.transpose(self._order(block))
        return moved.reshape(len(part), self.groups(block), -1)

    def unfold(self, folded: Floats, block: Block) -> Floats:
        """The block of such an array."""
        order = self._order(block)
        sizes = (1, *(a.cells - a.groups if own else a.groups for a, own in zip(self.axes, block, strict=True)))
        return folded.reshape(len(folded), *(sizes[i] for i in order[1:])).transpose(np.argsort(order))

    @staticmethod
    def _order(block: Block) -> list[int]:
        """The nodes, then dimensions of groups, then those of contrasts."""
        return [0, *(i + 1 for i, own in enumerate(block) if not own), *(i + 1 for i, own in enumerate(block) if own)]

    def times(self, block: Block, matrices: Floats, part: Floats) -> Floats:
        """Matrices, shape (nodes, K, K), applied to the groups of a block."""
        if matrices.shape[1] == 1:
            return np.asarray(part * matrices.reshape(-1, *(1 for _ in self.shape)))
        return self.unfold(matrices @ self.fold(part, block), block)

    def groups(self, block: Block) -> int:
        """The number K of groups of a block."""
        return math.prod(axis.groups for axis, own in zip(self.axes, block, strict=True) if not own)

    def rows(self, codes: Codes, block: Block) -> Floats | None:
        """Rows that span sums on a block, shape (rows, K); None where they do not see its contrasts."""
        found: npt.NDArray[Any] = np.ones((1, 1))
        for axis, own, contrast in zip(self.axes, codes, block, strict=True):
            groups, rest = axis.rows(own)
            if contrast and not rest:
                return None
            found = found if contrast else np.kron(found, groups)
        return found

    def covariance(self, codes: Codes, blocks: dict[Block, Floats], node: int) -> Floats:
        """Covariances of the sums of one node: shape (sums, sums)."""
        sizes = [len(axis.sums_of(own)) for axis, own in zip(self.axes, codes, strict=True)]
        total = np.zeros((*sizes, *sizes))
        for block, vector, rest in self._sides(codes):
            shape = [1 if own else n for own, n in zip(block, sizes, strict=True)]
            found = (vector @ blocks[block][node] @ vector.T).reshape(*shape, *shape)
            for i, contrasts in enumerate(rest):
                if contrasts is not None:
                    at = [n if j in (i, i + len(sizes)) else 1 for j, n in enumerate([*sizes, *sizes])]
                    found = found * (contrasts @ contrasts.T).reshape(at)
            total += found
        return total.reshape(math.prod(sizes), -1)

    def variance(self, codes: Codes, blocks: dict[Block, Floats]) -> Floats:
        """Variances of sums, shape ``(nodes, *sums)``."""
        sizes = [len(axis.sums_of(own)) for axis, own in zip(self.axes, codes, strict=True)]
        nodes = len(next(iter(blocks.values())))
        total = np.zeros((nodes, math.prod(sizes)))
        small: list[tuple[Floats, Floats]] = []
        for block, vector, rest in self._sides(codes):
            shape = [1 if own else n for own, n in zip(block, sizes, strict=True)]
            weight = np.ones(sizes)
            for i, contrasts in enumerate(rest):
                if contrasts is not None:
                    weight = weight * np.square(contrasts).sum(axis=1).reshape(
                        [n if j == i else 1 for j, n in enumerate(sizes)]
                    )
            if vector.shape[1] <= _SMALL:  # linear in the covariances: one product of matrices for all blocks
                pairs = np.einsum("sk,sl->kls", vector, vector).reshape(-1, *shape) * weight
                small.append((blocks[block].reshape(nodes, -1), pairs.reshape(len(pairs), -1)))
            else:
                found = ((vector @ blocks[block]) * vector).sum(axis=-1).reshape(-1, *shape) * weight
                total += found.reshape(nodes, -1)
        if small:
            own, pairs = zip(*small, strict=True)
            total += np.concatenate(own, axis=1) @ np.concatenate(pairs)
        return total.reshape(nodes, *sizes)

    def _sides(self, codes: Codes) -> list[tuple[Block, Floats, list[Floats | None]]]:
        """Of each block that sums see: the sums on the groups, shape (sums, K), and on the contrasts of each axis."""
        found = []
        for block in self.blocks:
            vector: npt.NDArray[Any] = np.ones((1, 1))
            rest: list[Floats | None] = []
            for axis, own, contrast in zip(self.axes, codes, block, strict=True):
                matrix = axis.coordinates(own)
                rest.append(matrix[:, axis.groups :] if contrast else None)
                vector = vector if contrast else np.kron(vector, matrix[:, : axis.groups])
            if all(own is None or np.abs(own).max() > 1e-12 for own in rest):
                found.append((block, vector, rest))
        return found


type Exact = tuple[Floats, Mask, Floats]
"""Rows A, shape (rows, K); which nodes have them; tables in coordinates whose sums by A are right."""

_OPEN = 1e-13
"""Eigenvalues below this share of the largest are looked upon as 0: rounding leaves about 1e-16."""

_AGREE = 1e-6
"""Exact sums that differ by less than this share of their size agree."""


class Unidentified(ValueError):
    """A leaf whose answers leave a sum of its cells open."""

    def __init__(self, leaf: int) -> None:
        super().__init__(
            "the linear estimate needs answers at every leaf that fix every cell: a query of all cells, or several that do "
            f"together; leaf {leaf} has none"
        )
        self.leaf = leaf


class Contradiction(ValueError):
    """Exact sums of a node that contradict those below it, or one another."""


def inverse(matrices: Floats) -> Floats:
    """Inverses of matrices, shape (nodes, K, K); those of 1 x 1 matrices by division."""
    return 1.0 / matrices if matrices.shape[1] == 1 else np.linalg.inv(matrices)


def pseudo_inverse(matrices: Floats, size: Floats) -> Floats:
    """The same of positive semidefinite matrices, on what is above rounding errors of numbers of these sizes, shape (nodes,)."""
    if matrices.shape[1] == 1:
        above = matrices > _OPEN * size[:, None, None]
        return np.divide(1.0, matrices, out=np.zeros_like(matrices), where=above)
    values, vectors = np.linalg.eigh(matrices)
    scale = np.divide(1.0, values, out=np.zeros_like(values), where=values > _OPEN * size[:, None])
    return np.asarray((vectors * scale[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def at_leaves(space: Coordinates, block: Block, information: Floats, part: Floats, exact: Sequence[Exact]) -> Floats:
    """V of leaves with information L; `part` holds b, and then z."""
    if not exact:
        variance = _definite_inverse(information, np.arange(len(part)))
        part[:] = space.times(block, variance, part)
        return variance
    variance, folded = np.zeros_like(information), np.array(space.fold(part, block))
    for nodes, rows, target in _stacked(space, block, exact, 0):
        own, b = information[nodes], folded[nodes]
        left = np.eye(information.shape[1]) if rows is None else null_space(rows)
        start = np.zeros_like(b) if rows is None else rows.T @ target
        if left.shape[1]:
            variance[nodes] = left @ _definite_inverse(left.T @ own @ left, nodes) @ left.T
        folded[nodes] = start + variance[nodes] @ (b - own @ start)
    part[:] = space.unfold(folded, block)
    return variance


def condition(
    space: Coordinates, block: Block, variance: Floats, part: Floats, size: Floats, exact: Sequence[Exact], level: int
) -> None:
    """Take exact sums into account in V and z, in place; `size` says how large V was before there were any."""
    if not exact:
        return
    folded = np.array(space.fold(part, block))
    for nodes, rows, target in _stacked(space, block, exact, level):
        if rows is None:
            continue
        z, v = folded[nodes], variance[nodes]
        across = v @ rows.T
        gain = across @ pseudo_inverse(rows @ across, size[nodes])
        folded[nodes] = z = z + gain @ (target - rows @ z)
        _check(rows @ z, target, nodes, level)
        v = v - gain @ np.swapaxes(across, 1, 2)
        keep = np.eye(len(rows.T)) - rows.T @ rows  # what is exact has variance 0 without rounding errors
        variance[nodes] = keep @ (0.5 * (v + np.swapaxes(v, 1, 2))) @ keep
    part[:] = space.unfold(folded, block)


def _definite_inverse(matrices: Floats, nodes: Ints) -> Floats:
    if matrices.shape[1] == 1:
        smallest, largest = matrices[:, 0, 0], np.zeros(len(matrices))
    else:
        values = np.linalg.eigvalsh(matrices)
        smallest, largest = values[:, 0], values[:, -1]
    open_ = np.flatnonzero(smallest <= _OPEN * largest)
    if open_.size:
        raise Unidentified(int(nodes[open_[0]]))
    return inverse(matrices)


def _stacked(
    space: Coordinates, block: Block, exact: Sequence[Exact], level: int
) -> Iterator[tuple[Ints, Floats | None, Floats]]:
    """Nodes with the same exact queries: orthonormal rows that span their sums, and what these rows are."""
    kinds, kind_of = np.unique(np.stack([known for _, known, _ in exact]), axis=1, return_inverse=True)
    for kind, chosen in enumerate(kinds.T):
        nodes = np.flatnonzero(kind_of.reshape(-1) == kind)
        if not chosen.any():
            yield nodes, None, np.zeros(0)
            continue
        used = [own for own, here in zip(exact, chosen, strict=True) if here]
        stacked = np.concatenate([rows for rows, _, _ in used])
        right = np.concatenate([rows @ space.fold(table[nodes], block) for rows, _, table in used], axis=1)
        left, values, rows = np.linalg.svd(stacked, full_matrices=False)
        rank = int((values > _OPEN * values[0]).sum())
        rows, target = rows[:rank], (left[:, :rank] / values[:rank]).T @ right
        _check(stacked @ (rows.T @ target), right, nodes, level)
        yield nodes, rows, target


def _check(found: Floats, target: Floats, nodes: Ints, level: int) -> None:
    wrong = np.abs(found - target) > _AGREE * np.maximum(np.abs(target), 1.0)
    if wrong.any():
        node = int(nodes[np.flatnonzero(wrong.reshape(len(nodes), -1).any(axis=1))[0]])
        raise Contradiction(
            f"the exact sums of node {node} of level {level} contradict those of the nodes below it, or one another"
        )

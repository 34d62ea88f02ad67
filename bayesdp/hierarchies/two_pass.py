"""The linear estimate of a hierarchy: generalised least squares in two passes over the tree, with its covariances.

All that is published, noisy sums at every level and exact ones, is a linear model with known variances. Its best linear
unbiased estimate is worked out up the tree and down again (a Kalman smoother on a tree), in `coordinates` in which the
covariance of a node is a few small blocks, each the same for all contrasts of a kind. Nonnegativity, limits and zeros are not
looked at.

Up, with precision p and answers y of each query M: ``b = sum p M^T y``, ``L = sum p M^T M``; at a leaf ``V = L^-1``, ``z = V b``; from
the children, with z and V of each, ``s = sum z``, ``W = sum V``, and then ``V = (1 + W L)^-1 W``, ``z = s + V (b - L s)``. Exact sums
``A x = c`` of a node: ``z += V A^T (A V A^T)^+ (c - A z)``, ``V -= V A^T (A V A^T)^+ A V``; at a leaf, where V need not exist without
them, ``V = N (N^T L N)^-1 N^T`` with N a basis of what they leave open. Down, for a child of a node with estimate x and
covariance C: ``K = V W^+``, ``x_child = z + K (x - s)``, ``C_child = V - K (W - C) K^T``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.axes import Axis
from bayesdp.hierarchies.blocks import Contradiction, Unidentified, at_leaves, condition, inverse, pseudo_inverse
from bayesdp.hierarchies.coordinates import Block, Codes, Coordinates

__all__ = ["Contradiction", "LevelData", "LevelEstimate", "Unidentified", "tree_estimate"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LevelData:
    """What is published of the nodes of one level.

    Parameters
    ----------
    nodes : int
        How many there are.
    parent : int64 array, shape (nodes,), optional
        The node above each node, in order: children of one node follow one another. None at the top.
    queries : sequence of (codes, precision, answers)
        Codes 0, 1, ... for each dimension of the cells, None where it is summed over. Precisions, shape (nodes,), 0 where a node
        has no answers; for cells of one axis each of which is a group of its own, also one an answer. Answers, shape
        (nodes, sums of the first dimension, of the second, ...), one where it is summed over.
    exact : sequence of (codes, answers)
        Exact answers of the same shape; NaN at nodes that have none.
    """

    nodes: int
    parent: Ints | None
    queries: Sequence[tuple[Codes, Floats, Floats]]
    exact: Sequence[tuple[Codes, Floats]] = ()


@dataclass(frozen=True, eq=False)
class LevelEstimate:
    """Estimates of the nodes of one level.

    Parameters
    ----------
    space : Coordinates
    tables : float64 array, shape ``(nodes, *cells)``
        In coordinates.
    blocks : dict
        For each choice of dimensions whose contrasts are meant, the covariance of the groups of the others, shape (nodes, K, K).
    """

    space: Coordinates
    tables: Floats
    blocks: dict[Block, Floats]

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

    def variance_of(self, weights: Floats) -> Floats:
        """The variances of one weighted sum of the cells, weights of shape (cells,), at each node."""
        space = self.space
        table = np.zeros((1, *space.shape))
        space.spread(tuple(np.arange(n) for n in space.shape), weights.reshape(1, *space.shape), table)
        total = np.zeros(len(self.tables))
        for block, own in self.blocks.items():
            sides = space.fold(space.part(table, block), block)[0]
            total += np.tensordot(own, sides @ sides.T, axes=2)
        return np.maximum(total, 0.0)

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
        own = space.matrix(codes, block)
        if own is None:
            continue
        if precision.ndim > 1:  # one axis, each cell a group of its own: M^T M says which cells are in one sum
            assert codes[0] is not None
            found += precision[:, codes[0], None] * own
        else:
            found += precision[:, None, None] * own
    return found


def _right_side(space: Coordinates, level: LevelData) -> Floats:
    found = np.zeros((level.nodes, *space.shape))
    for codes, precision, answers in level.queries:
        weight = precision.reshape(*precision.shape, *(1 for _ in range(answers.ndim - precision.ndim)))
        space.spread(codes, weight * answers, found)
    return found


def _exact_tables(space: Coordinates, level: LevelData) -> list[tuple[Codes, npt.NDArray[np.bool_], Floats]]:
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
    """The linear estimate of all nodes.

    Parameters
    ----------
    axes : sequence of Axis
        The dimensions of the cells.
    levels : sequence of LevelData
        From the leaves up to the top.

    Returns
    -------
    list of LevelEstimate
        In the same order.


    Notes
    -----
    Time and memory are linear in the number of cells: about three arrays of float64 of the size of the leaves by cells.
    """
    space = Coordinates(axes)
    done: list[_Level] = []
    for number, level in enumerate(levels):
        below = done[-1] if done else None
        done.append(_up(space, level, below, levels[number - 1].parent if done else None, number))
    for level, node, above in zip(reversed(levels[:-1]), reversed(done[:-1]), reversed(done[1:]), strict=True):
        assert level.parent is not None
        _down(space, node, above, level.parent)
    return [LevelEstimate(space, own.z, own.v) for own in done]

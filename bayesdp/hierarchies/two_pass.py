"""The linear estimate of a hierarchy: generalised least squares in two passes over the tree, with its covariances.

All that is published, sums at every level and exact totals of nodes, is a linear model with known variances. Its best linear
unbiased estimate is worked out up the tree and down again (a Kalman smoother on a tree), in coordinates (`axes`) in which the
covariance of a node is a few small blocks, each the same for all contrasts of a kind. Nonnegativity, limits and zeros are not
looked at.

Up, with precision p and answers y of each query M: ``b = sum p M^T y``, ``L = sum p M^T M``; from the children, with z and V of each,
``s = sum z``, ``W = sum V``; then ``V = (1 + W L)^-1 W``, ``z = s + V (b - L s)``. An exact total ``a^T x = N`` of a node:
``z += V a (N - a^T z) / a^T V a``, ``V -= V a a^T V / a^T V a``. Down, for a child of a node with estimate x and covariance C:
``K = V W^-1``, ``x_child = z + K (x - s)``, ``C_child = V - K (W - C) K^T``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.axes import Axis

__all__ = ["LevelData", "LevelEstimate", "tree_estimate"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Codes = tuple[Ints | None, ...]
type Block = tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class LevelData:
    """What is published of the nodes of one level.

    Parameters
    ----------
    parent : int64 array, shape (nodes,), optional
        The node above each node; children of one node follow one another. None at the top.
    queries : sequence of (codes, precision, answers)
        Codes for each dimension of the cells, None where it is summed over. Precisions, shape (nodes,), 0 where a node has no
        answers. Answers, shape (nodes, cells): the answer that each cell counts in.
    totals : float64 array, shape (nodes,), optional
        Exact totals; NaN where there is none.
    """

    parent: Ints | None
    queries: Sequence[tuple[Codes, Floats, Floats]]
    totals: Floats | None = None


@dataclass(frozen=True, eq=False)
class LevelEstimate:
    """Estimates of the nodes of one level.

    Parameters
    ----------
    axes : tuple of Axis
    cells : float64 array, shape (nodes, cells)
    blocks : dict
        For each choice of dimensions whose contrasts are meant, the covariance of the groups of the others, shape (nodes, K, K).
    """

    axes: tuple[Axis, ...]
    cells: Floats
    blocks: dict[Block, Floats]

    def variance(self, codes: Codes) -> Floats:
        """Variances of the sums of the cells with equal codes, shape (nodes, cells): of the sum that each cell counts in."""
        nodes = len(self.cells)
        shape = tuple(axis.cells for axis in self.axes)
        total = np.zeros((nodes, *shape))
        for block, covariance in self.blocks.items():
            side = [_side(axis, own, contrast) for axis, own, contrast in zip(self.axes, codes, block, strict=True)]
            if any(own is None for own in side):
                continue
            # Per cell, a vector over the groups of the dimensions that are not contrasts, and a weight for those that are.
            vector = np.ones((1,) * len(shape) + (1,))
            weight = np.ones((1,) * len(shape))
            for i, (own, contrast) in enumerate(zip(side, block, strict=True)):
                assert own is not None
                spread = own.reshape(
                    [-1 if j == i else 1 for j in range(len(shape))] + ([] if contrast else [own.shape[1]])
                )
                if contrast:
                    weight = weight * spread
                else:
                    vector = (vector[..., :, None] * spread[..., None, :]).reshape(
                        (*np.broadcast_shapes(vector.shape[:-1], spread.shape[:-1]), -1)
                    )
            flat = np.broadcast_to(vector, (*shape, vector.shape[-1])).reshape(-1, vector.shape[-1])
            found = np.einsum("ck,nkl,cl->nc", flat, covariance, flat, optimize=True)
            total += found.reshape(nodes, *shape) * weight
        return total.reshape(nodes, -1)


def _side(axis: Axis, codes: Ints | None, contrast: bool) -> Floats | None:
    """For each cell: the coordinates of the sum that it counts in on the groups, or its squared length on the contrasts."""
    groups = axis.groups
    if codes is not None and len(np.unique(codes)) == axis.cells:
        member = np.eye(axis.cells)
    elif contrast:
        return None
    else:
        own = np.zeros(axis.cells, dtype=np.int64) if codes is None else codes
        member = (own[:, None] == own[None, :]).astype(np.float64)
    coordinates = member @ axis.basis.T
    return np.square(coordinates[:, groups:]).sum(axis=1) if contrast else coordinates[:, :groups]


class _Coordinates:
    """Tables in the coordinates of their axes, block by block."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.shape = tuple(axis.cells for axis in axes)
        choices = itertools.product(*[(False, True) if axis.cells > axis.groups else (False,) for axis in axes])
        self.blocks: list[Block] = list(choices)

    def forward(self, tables: Floats) -> dict[Block, Floats]:
        """Tables, shape (nodes, cells), as blocks of shape (nodes, K, contrasts)."""
        moved = tables.reshape(-1, *self.shape)
        for i, axis in enumerate(self.axes):
            moved = np.moveaxis(np.tensordot(moved, axis.basis, ([i + 1], [1])), -1, i + 1)
        return {block: self._cut(moved, block) for block in self.blocks}

    def back(self, blocks: dict[Block, Floats]) -> Floats:
        """The tables of blocks."""
        nodes = len(next(iter(blocks.values())))
        moved = np.empty((nodes, *self.shape))
        for block, own in blocks.items():
            order = self._order(block)
            inner = [self._sizes(block)[i] for i in order]
            part = own.reshape(nodes, *inner)
            moved[self._slices(block)] = np.moveaxis(part, range(1, len(order) + 1), [i + 1 for i in order])
        for i, axis in enumerate(self.axes):
            moved = np.moveaxis(np.tensordot(moved, axis.basis, ([i + 1], [0])), -1, i + 1)
        return moved.reshape(nodes, -1)

    def _order(self, block: Block) -> list[int]:
        """Dimensions of groups first, then those of contrasts."""
        return [i for i, own in enumerate(block) if not own] + [i for i, own in enumerate(block) if own]

    def _sizes(self, block: Block) -> list[int]:
        return [axis.cells - axis.groups if own else axis.groups for axis, own in zip(self.axes, block, strict=True)]

    def _slices(self, block: Block) -> tuple[slice, ...]:
        return (
            slice(None),
            *(
                slice(axis.groups, None) if own else slice(0, axis.groups)
                for axis, own in zip(self.axes, block, strict=True)
            ),
        )

    def _cut(self, moved: Floats, block: Block) -> Floats:
        part = moved[self._slices(block)]
        order = self._order(block)
        part = np.moveaxis(part, [i + 1 for i in order], range(1, len(order) + 1))
        groups = int(np.prod([self._sizes(block)[i] for i, own in enumerate(block) if not own], dtype=np.int64))
        return np.ascontiguousarray(part).reshape(len(moved), groups, -1)

    def matrix(self, codes: Codes, block: Block) -> Floats | None:
        """``M^T M`` of a query on a block, shape (K, K); None where it is 0."""
        found: npt.NDArray[Any] = np.ones((1, 1))
        for axis, own, contrast in zip(self.axes, codes, block, strict=True):
            groups, rest = axis.factor(own)
            if contrast:
                if rest == 0.0:
                    return None
            else:
                found = np.kron(found, groups)
        return found

    @property
    def ones(self) -> Floats:
        """The coordinates of the table of ones on the block of groups: those of the total."""
        found: npt.NDArray[Any] = np.ones(1)
        for axis in self.axes:
            found = np.kron(found, np.sqrt(axis.sizes.astype(np.float64)))
        return found


@dataclass(eq=False)
class _Node:
    z: dict[Block, Floats]
    v: dict[Block, Floats]
    s: dict[Block, Floats] | None
    inverse: dict[Block, Floats] | None
    w: dict[Block, Floats] | None


def _add(tables: Floats, first: Ints) -> Floats:
    return np.asarray(np.add.reduceat(tables, first, axis=0))


def _condition(z: Floats, v: Floats, ones: Floats, totals: Floats) -> None:
    """Take exact totals of nodes into account, in place."""
    along = v @ ones
    spread, gap = along @ ones, totals - z[:, :, 0] @ ones
    open_ = spread > 1e-9 * np.trace(v, axis1=1, axis2=2) * (ones @ ones)
    known = ~np.isnan(totals)
    wrong = np.flatnonzero(known & ~open_ & (np.abs(gap) > 1e-6 * np.maximum(np.abs(totals), 1.0)))
    if wrong.size:
        node = int(wrong[0])
        raise ValueError(
            f"the exact total {totals[node]:.12g} of node {node} contradicts those of the nodes below it, which add up to "
            f"{totals[node] - gap[node]:.12g}"
        )
    which = np.flatnonzero(known & open_)
    share = along[which] / spread[which, None]
    z[which, :, 0] += share * gap[which, None]
    v[which] -= share[:, :, None] * along[which, None, :]


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

    Raises
    ------
    ValueError
        If the answers of a leaf, and of no node above, leave a sum of cells open: it has no linear estimate.
    """
    space = _Coordinates(axes)
    total_block = space.blocks[0]
    ones = space.ones
    done: list[_Node] = []
    s = w = inverse = None
    for level in levels:
        nodes = len(level.queries[0][1]) if level.queries else len(next(iter(s.values()))) if s else 0
        right = np.zeros((nodes, int(np.prod(space.shape))))
        for _, precision, answers in level.queries:
            right += precision[:, None] * answers
        b = space.forward(right)
        z: dict[Block, Floats] = {}
        v: dict[Block, Floats] = {}
        for block in space.blocks:
            information = np.zeros((nodes, b[block].shape[1], b[block].shape[1]))
            for codes, precision, _ in level.queries:
                own = space.matrix(codes, block)
                if own is not None:
                    information += precision[:, None, None] * own
            if s is None or w is None:
                if np.linalg.matrix_rank(information, hermitian=True).min() < information.shape[1]:
                    raise ValueError(
                        "the linear estimate needs answers at every leaf that fix every cell: a query of all cells, or several "
                        "that do together"
                    )
                v[block] = np.linalg.inv(information)
                z[block] = v[block] @ b[block]
            else:  # W may be singular: children with exact totals
                v[block] = np.linalg.solve(np.eye(information.shape[1]) + w[block] @ information, w[block])
                z[block] = s[block] + v[block] @ (b[block] - information @ s[block])
        if level.totals is not None:
            _condition(z[total_block], v[total_block], ones, level.totals)
        done.append(_Node(z, v, s, inverse, w))
        if level.parent is not None:
            first = np.flatnonzero(np.r_[True, np.diff(level.parent) != 0])
            s = {block: _add(own, first) for block, own in z.items()}
            w = {block: _add(own, first) for block, own in v.items()}
            inverse = {block: np.linalg.pinv(own, hermitian=True) for block, own in w.items()}
    found = [done[-1]]
    for level, node, above in zip(reversed(levels[:-1]), reversed(done[:-1]), reversed(done[1:]), strict=True):
        assert level.parent is not None
        assert above.s is not None
        assert above.inverse is not None
        assert above.w is not None
        top = found[-1]
        place = np.concatenate([[0], np.cumsum(np.diff(level.parent) != 0)])
        z, v = {}, {}
        for block in space.blocks:
            gain = node.v[block] @ above.inverse[block][place]
            z[block] = node.z[block] + gain @ (top.z[block] - above.s[block])[place]
            v[block] = node.v[block] - gain @ (above.w[block] - top.v[block])[place] @ np.swapaxes(gain, 1, 2)
        found.append(_Node(z, v, None, None, None))
    return [LevelEstimate(space.axes, space.back(own.z), own.v) for own in reversed(found)]

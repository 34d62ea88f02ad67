"""Tables in the coordinates of their axes, in which what is published of a node is a few small blocks.

A table of a node is an array with one dimension an axis. In the coordinates of `axes` each dimension begins with the groups and
goes on with the contrasts; for each choice of dimensions whose contrasts are meant, a block of the array, precisions and
covariances are one K x K matrix of the groups of the other dimensions, the same for all contrasts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.axes import Axis

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Codes = tuple[Ints | None, ...]
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
    """The coordinates of a product of axes.

    Parameters
    ----------
    axes : sequence of Axis
        The dimensions of the cells.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.shape = tuple(axis.cells for axis in axes)
        choices = itertools.product(*[(False, True) if axis.cells > axis.groups else (False,) for axis in axes])
        self.blocks: list[Block] = list(choices)

    def spread(self, codes: Codes, answers: Floats, into: Floats) -> None:
        """Add to tables in coordinates, shape ``(nodes, *shape)``, what each answer puts on all its cells: ``(nodes, *sums)``."""
        where: list[slice] = [slice(None)]
        for i, (axis, own) in enumerate(zip(self.axes, codes, strict=True)):
            matrix = axis.coordinates(own)
            used = axis.groups if own is None else axis.cells
            answers = along(answers, i + 1, matrix[:, :used].T)
            where.append(slice(0, used))
        into[tuple(where)] += answers

    def sums(self, codes: Codes, tables: Floats) -> Floats:
        """Sums of tables in coordinates: shape ``(nodes, *sums)``."""
        matrices = [axis.coordinates(own) for axis, own in zip(self.axes, codes, strict=True)]
        used = [axis.groups if own is None else axis.cells for axis, own in zip(self.axes, codes, strict=True)]
        found = tables[(slice(None), *(slice(0, n) for n in used))]
        for i in np.argsort([len(own) for own in matrices], kind="stable"):  # the sums that are fewest first
            found = along(found, int(i) + 1, matrices[i][:, : used[i]])
        return np.ascontiguousarray(found)

    def part(self, tables: Floats, block: Block) -> Floats:
        """A block of tables in coordinates: a view."""
        cuts = (
            slice(axis.groups, None) if own else slice(0, axis.groups)
            for axis, own in zip(self.axes, block, strict=True)
        )
        return tables[(slice(None), *cuts)]

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

    def matrix(self, codes: Codes, block: Block) -> Floats | None:
        """``M^T M`` of sums on a block, shape (K, K); None where it is 0."""
        rows = self.rows(codes, block)
        return None if rows is None else rows.T @ rows

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

"""Orthonormal coordinates of one dimension of the cells, in which sums over it are simple.

A dimension of n cells is summed over, kept, or recoded into groups. Let k be the number of groups of the common refinement of all
recodes (1 without any). The first k coordinates of a vector are the sums of these groups, each divided by the square root of its
size; the other n - k are contrasts within groups. A sum over everything, or over the groups of a recode, is a k x k matrix on the
first and 0 on the others; what keeps the dimension is the identity on both. For the product of several dimensions the matrices
multiply (Kronecker).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Axis:
    """One dimension of the cells.

    Parameters
    ----------
    group : int64 array, shape (n,)
        The group of each cell, of the common refinement of all recodes.
    """

    group: Ints

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
            for j in range(1, size):  # Helmert: the mean of the first j cells against the next one
                row = np.zeros(self.cells)
                row[cells[:j]], row[cells[j]] = 1.0, -float(j)
                rows.append(row / np.sqrt(j * (j + 1.0)))
        return np.array(rows)

    def keeps(self, codes: Ints | None) -> bool:
        """Whether sums of the cells with equal codes are the cells themselves."""
        return codes is not None and len(np.unique(codes)) == self.cells

    def coordinates(self, codes: Ints | None) -> Floats:
        """The sums of the cells with codes 0, 1, ... in these coordinates, a row each; None is one sum of everything."""
        codes = np.zeros(self.cells, dtype=np.int64) if codes is None else codes
        found = (np.arange(int(codes.max()) + 1)[:, None] == codes).astype(np.float64) @ self.basis.T
        return np.where(
            np.abs(found) < 1e-12, 0.0, found
        )  # contrasts within a sum: very precise answers must not be seen there

    def sums_of(self, codes: Ints | None) -> Ints:
        """How many cells each of the sums adds up."""
        return np.array([self.cells]) if codes is None else np.bincount(codes)

    def factor(self, codes: Ints | None) -> tuple[Floats, float]:
        """``M^T M`` in these coordinates for the sums M of the cells with equal codes: on the groups, and on the contrasts."""
        # `codes`, shape (n,): a recode that the axis was made for, or one that keeps every cell. None sums over everything. Returns
        # shape (k, k).
        rows, rest = self.rows(codes)
        return rows.T @ rows, float(rest)

    def rows(self, codes: Ints | None) -> tuple[Floats, bool]:
        """Rows that span such sums on the groups, shape (sums or k, k), and whether the sums see the contrasts."""
        if self.keeps(codes):
            return np.eye(self.groups), True
        root = np.sqrt(self.sizes.astype(np.float64))
        if codes is None:
            return root[None, :], False
        label = np.zeros(self.groups, dtype=np.int64)
        label[self.group] = codes
        return np.where(np.arange(int(codes.max()) + 1)[:, None] == label[None, :], root, 0.0), False

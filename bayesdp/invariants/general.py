"""Linear algebra of an integer matrix without structure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpz_mat

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_DENSE_CELLS = 4000
"""Above this many cells, orthonormal coordinates (a dense matrix) are refused."""


def independent_rows(matrix: sp.csr_array) -> Ints:
    """Rows of a matrix that form a basis of its row space, by exact integer arithmetic.

    The pivots of the reduced echelon form of the transpose are the first rows not spanned by earlier ones.
    """
    used = np.flatnonzero(np.diff(matrix.tocsc().indptr))
    # Cells with equal columns add nothing to the rank: one of each is enough.
    columns = np.unique(matrix[:, used].toarray(), axis=1) if used.size else np.zeros((matrix.shape[0], 0))
    if columns.shape[1] == 0:
        return np.zeros(0, dtype=np.int64)
    reduced, _, rank = fmpz_mat(columns.T.astype(int).tolist()).rref()
    return np.array(echelon_pivots(reduced, rank), dtype=np.int64)


def echelon_pivots(echelon: fmpz_mat, rank: int) -> list[int]:
    """The pivots of a reduced row echelon form: the first columns that do not depend on earlier ones."""
    pivots: list[int] = []
    for row in range(rank):
        start = pivots[-1] + 1 if pivots else 0
        pivots.append(next(j for j in range(start, echelon.ncols()) if echelon[row, j] != 0))
    return pivots


def check_dense(cells: int) -> None:
    """Refuse a dense matrix for a table of too many cells, before any work."""
    if cells > _DENSE_CELLS:
        raise ValueError(
            f"orthonormal coordinates of general invariants need a dense matrix; the table has {cells} cells, "
            f"more than {_DENSE_CELLS}. State the invariants as Margins or Totals, which need none"
        )


def echelon_basis(matrix: sp.csr_array, independent: Ints) -> Floats:
    """Orthonormal basis of the null space by the rule ``echelon-1`` of `Invariants.coordinate_rule`, shape (cells, n)."""
    # `matrix`, shape (rows, cells). `independent`: rows that form a basis of its row space.
    cells = matrix.shape[1]
    if not len(independent):
        return np.eye(cells)
    echelon, denominator, rank = fmpz_mat(matrix[independent].toarray().astype(int).tolist()).rref()
    reduced = np.array([[int(v) for v in row] for row in echelon.tolist()], dtype=object) / int(denominator)
    pivots = echelon_pivots(echelon, rank)
    free = np.setdiff1d(np.arange(cells), pivots)
    kernel = np.zeros((cells, len(free)))
    kernel[free, np.arange(len(free))] = 1.0
    kernel[pivots] = -reduced[:, free].astype(np.float64)
    basis, triangle = np.linalg.qr(kernel)
    # The sign that Gram and Schmidt would give: unique, whatever the linear algebra library.
    return np.asarray(basis * np.sign(np.diag(triangle)))

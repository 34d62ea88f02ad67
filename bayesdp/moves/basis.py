"""Bases of the integer null space ``{z integer : A z = 0}``."""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpz_mat

from bayesdp._nested import NestedAxis
from bayesdp.invariants import Invariants

_FLINT_CELLS = 2000
"""General matrices: above this many cells the dense Hermite form is refused."""


def integer_kernel(matrix: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """LLL-reduced basis of the integer vectors that a matrix sends to zero.

    The rows of the Hermite normal form of ``[A^T | I]`` whose first part vanishes carry, in their second
    part, a basis of the whole integer kernel (not only of a sublattice of it), because the transform is
    unimodular. Redundant rows of ``A`` do no harm.

    Parameters
    ----------
    matrix : int64 array, shape (rows, cells)

    Returns
    -------
    int64 array, shape (cells - rank, cells)

    Examples
    --------
    >>> integer_kernel(np.array([[2, 4]]))
    array([[ 2, -1]])
    """
    rows, cells = matrix.shape
    if cells > _FLINT_CELLS:
        raise ValueError(
            f"a basis for general invariants is computed densely; {cells} free cells are more than "
            f"{_FLINT_CELLS}. State the invariants as Margins or Totals, which have a closed form"
        )
    augmented = np.concatenate([matrix.T, np.eye(cells, dtype=np.int64)], axis=1)
    hermite = np.array(fmpz_mat(augmented.astype(int).tolist()).hnf().tolist(), dtype=object)
    kernel = hermite[[not any(row[:rows]) for row in hermite], rows:]
    if len(kernel) == 0:
        return np.zeros((0, cells), dtype=np.int64)
    reduced = fmpz_mat([[int(v) for v in row] for row in kernel]).lll()
    basis = np.array([[int(v) for v in row] for row in reduced.tolist()], dtype=np.int64)
    return basis * leading_signs(basis)[:, None]


def leading_signs(vectors: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sign of the first entry of each row that is not zero; 0 for a row of zeros.

    Examples
    --------
    >>> leading_signs(np.array([[0, -2, 1], [3, 0, -1], [0, 0, 0]]))
    array([-1,  1,  0])
    """
    first = np.argmax(vectors != 0, axis=1)
    return np.asarray(np.sign(vectors[np.arange(len(vectors)), first]), dtype=np.int64)


def _difference_rows(axis: NestedAxis) -> sp.csr_array:
    """Unimodular rows for one dimension: a unit vector, then differences within the classes of each level."""
    # The rows are in the order of the orthonormal coordinates of `NestedAxis`: for each level, the later classes of each parent,
    # each against the class before it (first labels stand for their class).
    order = np.lexsort(axis.codes[::-1])
    rows, columns, entries = [0], [int(order[0])], [1]
    count = 1
    for level in range(1, len(axis.codes)):
        starts = np.flatnonzero(np.diff(axis.codes[level][order], prepend=-1))
        parent = axis.codes[level - 1][order[starts]]
        for k in np.flatnonzero(parent[1:] == parent[:-1]) + 1:
            rows += [count, count]
            columns += [int(order[starts[k - 1]]), int(order[starts[k]])]
            entries += [1, -1]
            count += 1
    return sp.csr_array((np.array(entries, dtype=np.int64), (rows, columns)), shape=(axis.size, axis.size))


def kernel_basis(invariants: Invariants) -> sp.csr_array:
    """A basis of the integer vectors that change no invariant, one a row.

    Margins and totals: products of differences of neighbouring labels, in closed form and sparse. General
    matrices: Hermite form, then LLL.

    Parameters
    ----------
    invariants : Invariants

    Returns
    -------
    scipy.sparse.csr_array of int64, shape (dimension, cells)

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> kernel_basis(Invariants(Margins(table, ["county"], ["education"]))).toarray()
    array([[ 1, -1, -1,  1]])
    """
    cells = invariants.frame.size
    if invariants.rank == 0:
        return sp.csr_array(sp.eye_array(cells, dtype=np.int64, format="csr"))
    if invariants.nested is None:
        return sp.csr_array(integer_kernel(invariants.matrix.toarray()))
    factors = [_difference_rows(axis) for axis in invariants.nested.axes]
    full = sp.csr_array(reduce(lambda a, b: sp.kron(a, b, format="csr"), factors))
    return sp.csr_array(full[np.flatnonzero(invariants.nested.free)])

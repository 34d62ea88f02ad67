"""Normal forms of integer matrices, and the volume of a lattice, in exact integer arithmetic.

Entries are Python integers in arrays of objects: transforms of small matrices can outgrow 64 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat

__all__ = ["HermiteForm", "SmithForm", "gram_determinant", "hermite_form", "log_covolume", "smith_form"]

type Integers = npt.NDArray[np.object_]

_LARGEST = 400
"""Matrices with more rows or columns are refused: elimination with transforms takes the cube of that."""


@dataclass(frozen=True, eq=False)
class SmithForm:
    """``left @ matrix @ right == diagonal``, with unimodular transforms and each invariant factor dividing the next.

    Parameters
    ----------
    left : object array of int, shape (rows, rows)
        U.
    diagonal : object array of int, shape (rows, cells)
        D; zero off its diagonal.
    right : object array of int, shape (cells, cells)
        V.
    """

    left: Integers
    diagonal: Integers
    right: Integers

    @property
    def factors(self) -> tuple[int, ...]:
        """The positive entries of the diagonal; there are as many as the rank of the matrix."""
        return tuple(int(v) for v in np.diagonal(self.diagonal) if v)

    @property
    def kernel(self) -> Integers:
        """The last *columns* of V, one a row: a basis of the integer vectors that the matrix sends to zero.

        Dharangutte, Gao, Gong and Yu (2023), Proposition 8, where they are called the bottom rows of V; here as many
        as the rank leaves, so that redundant rows of the matrix do no harm.
        """
        return self.right[:, len(self.factors) :].T.copy()


@dataclass(frozen=True, eq=False)
class HermiteForm:
    """``left @ matrix == echelon``, with a unimodular transform.

    Parameters
    ----------
    left : object array of int, shape (rows, rows)
    echelon : object array of int, shape (rows, cells)
        Pivots are positive, entries above a pivot lie between zero and the pivot, zero rows come last.
    """

    left: Integers
    echelon: Integers


def _integers(matrix: npt.ArrayLike, argument: str) -> Integers:
    given = np.asarray(matrix)
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(f"{argument} must be a matrix with at least one row and one column, got shape {given.shape}")
    if given.dtype != object and not np.issubdtype(given.dtype, np.integer):
        raise TypeError(f"{argument} must hold integers, got {given.dtype}")
    for position, value in np.ndenumerate(given):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{argument} must hold integers, got {value!r} at {position}")
    if max(given.shape) > _LARGEST:
        raise ValueError(f"{argument} must have at most {_LARGEST} rows and columns, got shape {given.shape}")
    return np.array([[int(v) for v in row] for row in given], dtype=object)


def _identity(size: int) -> Integers:
    return np.array([[int(i == j) for j in range(size)] for i in range(size)], dtype=object)


def smith_form(matrix: npt.ArrayLike) -> SmithForm:
    """Smith normal form with both transforms.

    Parameters
    ----------
    matrix : array_like of int, shape (rows, cells)

    Returns
    -------
    SmithForm

    Raises
    ------
    TypeError, ValueError
        If it is not a matrix of integers, or larger than 400 in one direction.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Equation (4).

    Examples
    --------
    >>> form = smith_form([[2, 4, 4], [-6, 6, 12], [10, 4, 16]])
    >>> form.factors
    (2, 2, 156)
    >>> smith_form([[2, 4]]).kernel.tolist() in ([[-2, 1]], [[2, -1]])
    True
    """
    given = _integers(matrix, "matrix")
    rows, cells = given.shape
    d, left, right = given.copy(), _identity(rows), _identity(cells)
    for at in range(min(rows, cells)):
        if not _clear_cross(d, left, right, at):
            break
    return SmithForm(left, d, right)


def _clear_cross(d: Integers, left: Integers, right: Integers, at: int) -> bool:
    """Make row and column `at` zero but for a pivot that divides all that follows; False if nothing follows."""
    while True:
        remaining = np.abs(d[at:, at:])
        if not remaining.any():
            return False
        # The smallest entry as the pivot: every remainder is smaller still, so this ends, and entries stay small.
        i, j = min(zip(*np.nonzero(remaining), strict=True), key=lambda place: remaining[place])
        _swap(d, left, at, at + int(i))
        _swap(d.T, right.T, at, at + int(j))
        if d[at, at] < 0:
            d[at] *= -1
            left[at] *= -1
        _reduce(d, left, at)
        _reduce(d.T, right.T, at)
        if d[at + 1 :, at].any() or d[at, at + 1 :].any():
            continue
        bad = np.flatnonzero((d[at + 1 :, at + 1 :] % d[at, at]).any(axis=1))
        if not bad.size:
            return True
        # A row that the pivot does not divide, added to the pivot's row, gives smaller remainders.
        d[at] += d[at + 1 + int(bad[0])]
        left[at] += left[at + 1 + int(bad[0])]


def _swap(d: Integers, transform: Integers, a: int, b: int) -> None:
    for array in (d, transform):
        array[[a, b]] = array[[b, a]]


def _reduce(d: Integers, transform: Integers, at: int) -> None:
    """Subtract multiples of row `at` from the rows below, so that remainders are left under the pivot."""
    quotients = d[at + 1 :, at] // d[at, at]
    for k in np.flatnonzero(quotients):
        d[at + 1 + k] -= quotients[k] * d[at]
        transform[at + 1 + k] -= quotients[k] * transform[at]


def hermite_form(matrix: npt.ArrayLike) -> HermiteForm:
    """Hermite normal form of the rows, with its transform.

    Parameters
    ----------
    matrix : array_like of int, shape (rows, cells)

    Returns
    -------
    HermiteForm

    Raises
    ------
    TypeError, ValueError
        If it is not a matrix of integers, or larger than 400 in one direction.

    Examples
    --------
    >>> hermite_form([[4, 2], [6, 8]]).echelon.tolist()
    [[2, 6], [0, 10]]
    """
    given = _integers(matrix, "matrix")
    # The form of [A | I] is U [A | I] for the U that is wanted, because its rows are the form of A first.
    both = _objects(fmpz_mat(np.concatenate([given, _identity(len(given))], axis=1).tolist()).hnf())
    return HermiteForm(both[:, given.shape[1] :], both[:, : given.shape[1]])


def _objects(matrix: Any) -> Integers:
    return np.array([[int(v) for v in row] for row in matrix.tolist()], dtype=object)


def gram_determinant(basis: npt.ArrayLike) -> int:
    """Determinant of ``B B^T``, the square of the lattice's volume, exactly.

    Parameters
    ----------
    basis : array_like of int, shape (n, cells)
        Vectors of the lattice, one a row.

    Returns
    -------
    int
        Zero if the vectors are linearly dependent.

    Examples
    --------
    >>> gram_determinant([[1, -1, 0], [0, 1, -1]])  # three cells with a fixed sum
    3
    """
    given = fmpz_mat(_integers(basis, "basis").tolist())
    return int((given * given.transpose()).det())


def log_covolume(basis: npt.ArrayLike) -> float:
    """Logarithm of the volume of the lattice's cells, from the exact `gram_determinant`.

    Raises
    ------
    TypeError, ValueError
        If the vectors are no integers, or linearly dependent.

    Examples
    --------
    >>> log_covolume([[1, -1, -1, 1]]) == math.log(2)
    True
    """
    square = gram_determinant(basis)
    if not square:
        raise ValueError("basis must be linearly independent vectors, one a row")
    return 0.5 * math.log(square)

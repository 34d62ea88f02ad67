"""Moves that are proved to connect by computing a Markov basis, for invariants that are small once equal cells are one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.moves.listed import distinct_up_to_sign
from bayesdp.moves.toric import markov_basis

type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

type Computed = tuple[sp.csr_array, Ints]
"""A list of directions, and for each cell that may move the class of cells with which it may be exchanged besides."""

COMPUTED_CELLS = 1_000
"""Most cells for which a basis is looked for; far fewer must be left once equal ones are one."""


def computed_moves(matrix: sp.csr_array, allowed: Mask, limited_cells: Mask, limited: sp.csr_array) -> Computed | None:
    """Directions that connect all tables with the same exact answers, within any limits of some cells and sums.

    Cells that are in the same sums, as often, are one to the Markov basis: counts of such cells are first brought together
    in one of them by exchanges, and moves of the sums are moves of that cell. All of them take part in moves, so that chains
    need no detour.

    Parameters
    ----------
    matrix : sparse int array, shape (rows, cells)
    allowed : bool array, shape (cells,)
        Cells that may move.
    limited_cells : bool array, shape (cells,)
        Cells that may have upper limits.
    limited : sparse int array, shape (limits, cells)
        Sums of cells that may have lower and upper limits.

    Returns
    -------
    pair of sparse int64 array, shape (directions, cells), and int64 array, shape (free cells,); or None
        None where the computation is too large.

    Examples
    --------
    >>> none = np.zeros(3, dtype=np.bool_)
    >>> moves, classes = computed_moves(sp.csr_array([[1, 1, 2]]), ~none, none, sp.csr_array((0, 3), dtype=np.int64))
    >>> moves.toarray()
    array([[ 0,  2, -1],
           [ 2,  0, -1]])
    >>> classes
    array([0, 0, 1])
    """
    free = np.flatnonzero(allowed)
    if not 0 < free.size <= COMPUTED_CELLS:
        return None
    rows = matrix[:, free].toarray().astype(np.int64)
    single = np.eye(free.size, dtype=np.int64)[limited_cells[free]]
    limits = np.concatenate([single, limited[:, free].toarray().astype(np.int64)])
    columns, classes = np.unique(np.concatenate([rows, limits]), axis=1, return_inverse=True)
    found = markov_basis(columns[: len(rows)], columns[len(rows) :])
    if found is None:
        return None
    wide = np.zeros((0, len(allowed)), dtype=np.int64)
    members = [free[classes == k] for k in range(columns.shape[1])]
    listed = [wide, *(_written_out(move, members, len(allowed)) for move in found)]
    return sp.csr_array(distinct_up_to_sign(np.concatenate(listed))), classes


def largest_primitive_norm(matrix: sp.csr_array, allowed: Mask, limited: sp.csr_array) -> int | None:
    """The largest l1 norm in the Graver basis of some exact answers; None where its computation is too large.

    Between two tables of a fiber there is a sum of vectors of that basis, none of which has an entry of the other sign than
    another: each of them alone leads from either table to one of the fiber, within all limits that the two are within. Equal cells
    are one here: with them, the basis has the same vectors, written out in ways of the same norm, and exchanges of norm 2.

    Parameters
    ----------
    matrix, allowed, limited
        As in `computed_moves`.

    Examples
    --------
    >>> largest_primitive_norm(sp.csr_array([[1, 2, 3]]), np.ones(3, dtype=np.bool_), sp.csr_array((0, 3), dtype=np.int64))
    5
    """
    free = np.flatnonzero(allowed)
    if not 0 < free.size <= COMPUTED_CELLS:
        return None
    stacked = np.concatenate([own[:, free].toarray().astype(np.int64) for own in (matrix, limited)])
    columns = np.unique(stacked, axis=1) if len(stacked) else stacked[:, :1]
    rows, kinds = int(matrix.shape[0]), int(columns.shape[1])
    found = markov_basis(columns[:rows], np.concatenate([np.eye(kinds, dtype=np.int64), columns[rows:]]))
    if found is None:
        return None
    exchange = 2 if kinds < free.size else 0
    return max(exchange, int(np.abs(found).sum(axis=1).max(initial=0)))


def _written_out(move: Ints, members: list[Ints], cells: int) -> Ints:
    """A move of classes as moves of their cells: the first by their first cells, and so many that each cell has a turn."""
    moving = np.flatnonzero(move)
    wide = np.zeros((max(members[k].size for k in moving), cells), dtype=np.int64)
    turns = np.arange(len(wide))
    for k in moving:
        wide[turns, members[k][turns % members[k].size]] = move[k]
    return wide

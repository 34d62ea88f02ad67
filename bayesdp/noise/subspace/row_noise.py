"""Exact Gibbs steps for the part of Laplace noise that a projection has removed.

Projected noise ``u = P e`` and ``R^T w``, the part of e in the row space of the invariants (R a basis of it, see
`bayesdp.noise.subspace.projected_laplace.row_basis`), have the joint density ``prod_i Lap((u + R^T w)_i) sqrt(det R R^T)``. Along any
direction of the row space it is the exponential of a piecewise linear function, from which a step is drawn exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from bayesdp._numba import nb
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_laplace import draw_on_line, row_basis

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_AT_ONCE = 256  # rows whose coordinates are held densely at a time


@dataclass(frozen=True, eq=False)
class RowDirections:
    """Directions in the row space, as tables and as coordinates w; each a sparse matrix in parts (pointers, places, entries).

    All rows of the invariants, redundant ones too: without those, steps are short where rows and columns could rise and
    fall against each other.
    """

    cell_starts: Ints
    cells: Ints
    cell_entries: Floats
    w_starts: Ints
    places: Ints
    w_entries: Floats


@lru_cache(maxsize=16)
def _gram_factor(invariants: Invariants) -> spl.SuperLU:
    rows = row_basis(invariants)
    return spl.splu(sp.csc_matrix(rows @ rows.T))


def row_coordinates(invariants: Invariants, values: Floats | sp.csr_array) -> Floats:
    """Coordinates w of the part of tables that the invariants see: ``R^T w`` is that part."""
    # `invariants`: of rank 1 at least. `values`, shape (n, cells). Returns shape (n, rank).
    rows = row_basis(invariants)
    seen = rows @ values.T
    return np.asarray(_gram_factor(invariants).solve(seen.toarray() if sp.issparse(seen) else seen).T)


@lru_cache(maxsize=16)
def directions_of(invariants: Invariants) -> RowDirections:
    """Directions for `sweep`."""
    tables = sp.csr_array(invariants.matrix[np.diff(invariants.matrix.indptr) > 0]).astype(np.float64)
    found = []
    for first in range(0, tables.shape[0], _AT_ONCE):
        w = row_coordinates(invariants, tables[first : first + _AT_ONCE])
        # In a basis of rows most coordinates of a row are zero, but for rounding.
        found.append(sp.csr_array(np.where(np.abs(w) > 1e-9 * np.max(np.abs(w), axis=1, keepdims=True), w, 0.0)))
    coordinates = sp.csr_array(sp.vstack(found))
    return RowDirections(
        tables.indptr.astype(np.int64),
        tables.indices.astype(np.int64),
        tables.data,
        coordinates.indptr.astype(np.int64),
        coordinates.indices.astype(np.int64),
        coordinates.data,
    )


@nb.njit(cache=True, error_model="numpy")
def sweep(
    noise: Floats,
    w: Floats,
    b: float,
    cell_starts: Ints,
    cells: Ints,
    cell_entries: Floats,
    w_starts: Ints,
    places: Ints,
    w_entries: Floats,
    sweeps: int,
    generator: npt.NDArray[np.uint64],
) -> None:
    """Draw a step along every direction in turn, `sweeps` times over.

    Parameters
    ----------
    noise : float array, shape (cells,)
        ``u + R^T w``; changed.
    w : float array, shape (rank,)
        Changed.
    b : float
        Scale.
    cell_starts, cells, cell_entries, w_starts, places, w_entries
        The fields of `RowDirections`.
    sweeps : int
    generator : uint64 array, shape (4,)
        State of the random generator; changed.
    """
    longest = 0
    for k in range(len(cell_starts) - 1):
        longest = max(longest, cell_starts[k + 1] - cell_starts[k])
    knots, weights, masses = np.empty(longest), np.empty(longest), np.empty(longest + 1)
    for _ in range(sweeps):
        for k in range(len(cell_starts) - 1):
            first = cell_starts[k]
            count = cell_starts[k + 1] - first
            for i in range(count):
                entry = cell_entries[first + i]
                knots[i] = -noise[cells[first + i]] / entry
                weights[i] = abs(entry)
            step = draw_on_line(knots[:count], weights[:count], b, masses, generator)
            for i in range(count):
                noise[cells[first + i]] += step * cell_entries[first + i]
            for i in range(w_starts[k], w_starts[k + 1]):
                w[places[i]] += step * w_entries[i]

"""Gram and Schmidt's orthogonal vectors of a lattice basis, in closed form for tables.

Neighbouring differences ``b_i = e_i - e_{i+1}`` have ``b*_i = (1/(i+1)) (e_0 + ... + e_i) - e_{i+1}``, of
squared length ``(i+2) / (i+1)``, and ``b_{i+1} = b*_{i+1} - (i+1)/(i+2) b*_i``: the triangle has one diagonal
below the main one. Triangles and lengths of product bases are products, in lexicographic order, so that a table
with k ways needs fewer than 2**k numbers a cell, and never a matrix of cells by cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import General, Line, Table, lattice_parts
from bayesdp.moves.basis import integer_kernel, kernel_basis

__all__ = ["GramSchmidt", "gram_schmidt"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_REDUCED_CELLS = 250
"""General parts with more cells get no LLL-reduced basis: it would take minutes."""

_DENSE = 1500
"""Other triangles with more rows are not computed: they are dense."""

_ZERO = 1e-13
"""Entries of a computed triangle below this are rounding errors of zero."""


@dataclass(frozen=True, eq=False)
class GramSchmidt:
    """A lattice basis ``b_i = b*_i + sum_{l < i} mu[i, l] b*_l`` with orthogonal ``b*_i``."""

    basis: sp.csr_array  # shape (n, cells)
    lengths: Floats  # Euclidean lengths of the orthogonal vectors, shape (n,)
    triangle: sp.csr_array  # ``mu`` below the diagonal, shape (n, n)
    pieces: Ints  # where sets of basis vectors start that are orthogonal to all others, shape (pieces + 1,)

    @property
    def reach(self) -> float:
        """Largest distance of a point of the space from the lattice point that nearest planes find for it."""
        return 0.5 * float(np.sqrt(np.square(self.lengths).sum()))


@lru_cache(maxsize=16)
def gram_schmidt(invariants: Invariants) -> GramSchmidt | None:
    """Orthogonalise a basis of the integer vectors that change no invariant; None if it would take too long.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> gram_schmidt(Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]}))).lengths ** 2
    array([2. , 1.5])
    """
    found, bases = [], []
    for part in lattice_parts(invariants):
        piece = _of_general(part, invariants) if isinstance(part, General) else _of_simple(part)
        if piece is None:
            return None
        found.append(piece)
        bases.append(_placed(piece[0], part.cells.ravel(), invariants.frame.size))
    if not found:
        return None
    lengths = [lengths for _, lengths, _ in found]
    return GramSchmidt(
        sp.csr_array(sp.vstack(bases, format="csr")),
        np.concatenate(lengths),
        sp.csr_array(sp.block_diag([triangle for _, _, triangle in found], format="csr")),
        np.cumsum([0, *map(len, lengths)]).astype(np.int64),
    )


type _Piece = tuple[sp.csr_array, Floats, sp.csr_array]
"""Basis, lengths and triangle of one part, see `GramSchmidt`."""


def _placed(basis: sp.csr_array, cells: Ints, size: int) -> sp.csr_array:
    """Basis vectors on some cells as vectors on all of them."""
    return sp.csr_array((basis.data, cells[basis.indices], basis.indptr), shape=(basis.shape[0], size))


def _of_simple(part: Line | Table) -> _Piece:
    if isinstance(part, Line):
        length = np.sqrt(np.square(part.entries).sum(keepdims=True).astype(np.float64))
        return sp.csr_array(part.entries[None]), length, sp.csr_array((1, 1))
    ones = [np.ones(size - 1, dtype=np.int64) for size in part.shape]
    rows = [sp.diags_array([o, -o], offsets=[0, 1], shape=(o.size, o.size + 1), dtype=np.int64) for o in ones]
    one = sp.csr_array(reduce(lambda a, b: sp.kron(a, b, format="csr"), rows))
    basis = sp.csr_array(sp.hstack([one] * part.copies, format="csr"))
    basis.data *= part.signs.ravel()[basis.indices]
    shares = [np.arange(1.0, size - 1) / np.arange(2.0, size) for size in part.shape]
    lower = [sp.diags_array([np.ones(s.size + 1), -s], offsets=[0, -1], format="csr") for s in shares]
    triangle = sp.csr_array(reduce(lambda a, b: sp.kron(a, b, format="csr"), lower))
    squares = reduce(np.kron, [np.arange(2.0, size + 1) / np.arange(1.0, size) for size in part.shape])
    return basis, np.sqrt(part.copies * squares), sp.csr_array(sp.tril(triangle, -1, format="csr"))


def _of_general(part: General, invariants: Invariants) -> _Piece | None:
    basis = _general_basis(part, invariants)
    if basis is None or basis.shape[0] > _DENSE:
        return None
    lower = np.linalg.cholesky((basis @ basis.T).toarray().astype(np.float64))
    lengths = np.diag(lower).copy()
    triangle = np.tril(lower / lengths, -1)
    return basis, lengths, sp.csr_array(np.where(np.abs(triangle) > _ZERO, triangle, 0.0))


def _general_basis(part: General, invariants: Invariants) -> sp.csr_array | None:
    if part.cells.size <= _REDUCED_CELLS:
        return sp.csr_array(integer_kernel(part.matrix.toarray()))
    if invariants.nested is None or len(lattice_parts(invariants)) > 1:
        return None
    return sp.csr_array(kernel_basis(invariants)[:, part.cells])

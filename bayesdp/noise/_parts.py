"""Lattices that fall into independent parts with a closed form.

The integer vectors that change no invariant form a lattice. Where it is an orthogonal sum of simple
lattices, sums over it factorise. Two simple kinds cover disjoint totals, free cells, 2 x 2 and 2 x c tables
and many small cases:

line
    the multiples of one integer vector u: a free cell, a pair of cells with a fixed sum, a 2 x 2 table.
zero sum
    m integers that sum to zero, each written into `copies` cells up to sign: a fixed total over m cells
    (one copy), a 2 x c table with both margins (m = c, two copies).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse.csgraph import connected_components

from bayesdp.invariants import Invariants
from bayesdp.lattices.basis import integer_kernel, kernel_basis
from bayesdp.noise.base import Ints

__all__ = ["Line", "ZeroSum", "parts"]

_GENERAL_CELLS = 64
"""General matrices with more cells are not searched for parts: their bases are dense and slow to compute."""

_NESTED_CELLS = 400
"""Margins of larger tables are not searched either: it takes seconds, and is rarely of use."""


@dataclass(frozen=True, eq=False)
class Line:
    """The integer multiples of a vector with these nonzero `entries` in these flat `cells`."""

    cells: Ints
    entries: Ints


@dataclass(frozen=True, eq=False)
class ZeroSum:
    """`count` integers that sum to zero, each standing in `copies` of the flat `cells`, up to sign."""

    cells: Ints
    count: int
    copies: int


@lru_cache(maxsize=64)
def parts(invariants: Invariants) -> tuple[Line | ZeroSum, ...] | None:
    """Split the lattice of the invariants into parts; None where that is not known to be possible.

    Parameters
    ----------
    invariants : Invariants

    Returns
    -------
    tuple of Line or ZeroSum, or None
        Together they have the dimension of the lattice; cells in none of them carry no noise.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "Mid", "High"]}
    >>> [(part.count, part.copies) for part in parts(Invariants(Margins(table, ["county"], ["education"])))]
    [(3, 2)]
    """
    blocks = invariants.blocks
    if blocks is not None:
        return _of_totals(blocks)
    if invariants.frame.size > (_GENERAL_CELLS if invariants.nested is None else _NESTED_CELLS):
        return None
    # Vectors of a basis that share no cell are orthogonal, so the connected pieces of a basis are parts.
    basis = kernel_basis(invariants)
    pieces, label = connected_components(abs(basis) @ abs(basis).T, directed=False)
    found: list[Line | ZeroSum] = []
    for piece in range(pieces):
        rows = basis[np.flatnonzero(label == piece)]
        cells = np.unique(rows.indices).astype(np.int64)
        dense = rows[:, cells].toarray()
        part = Line(cells, dense[0]) if len(dense) == 1 else _zero_sum(cells, dense)
        if part is None:
            return None
        found.append(part)
    return tuple(found)


def _of_totals(blocks: Ints) -> tuple[Line | ZeroSum, ...]:
    """Parts of disjoint totals: lines for free cells (block -1) and pairs, zero sums for larger blocks."""
    one, pair = np.ones(1, dtype=np.int64), np.array([1, -1])
    order = np.argsort(blocks, kind="stable")
    found: list[Line | ZeroSum] = []
    for cells in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
        if cells.size and blocks[cells[0]] < 0:
            found.extend(Line(cells[i : i + 1], one) for i in range(cells.size))
        elif cells.size == 2:
            found.append(Line(cells, pair))
        elif cells.size > 2:
            found.append(ZeroSum(cells, cells.size, 1))
    return tuple(found)


def _zero_sum(cells: Ints, basis: Ints) -> ZeroSum | None:
    """Recognise a zero sum from a basis (rows) of a saturated lattice on these cells."""
    leading = np.take_along_axis(basis, np.argmax(basis != 0, axis=0)[None, :], axis=0)
    columns, copies = np.unique(basis * np.sign(leading), axis=1, return_counts=True)
    if columns.shape[1] != len(basis) + 1 or np.any(copies != copies[0]):
        return None
    # One relation is left among the distinct columns. With coefficients +1 and -1 it is a zero sum.
    relation = integer_kernel(columns)
    return ZeroSum(cells, columns.shape[1], int(copies[0])) if np.all(np.abs(relation) == 1) else None

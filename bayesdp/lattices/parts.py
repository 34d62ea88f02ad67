"""The lattice of integer vectors that change no invariant, as an orthogonal sum of known lattices.

Parts share no cell, so that noise that is a product of laws of its cells (the l1 norm, the Gaussian) is
independent from part to part, and sums over the lattice are products. There are three kinds of part.

line
    the multiples of one integer vector: a free cell, a pair of cells with a fixed sum, a 2 x 2 table.
table
    a table with one, two or three ways, all of whose sums over one way are zero, written into the cells one
    or more times, up to signs: a fixed total (one way), both margins (two ways), all two-way margins of a
    three-way table. A way with two labels says everything twice: a 2 x c table is a fixed total over c cells,
    written twice.
general
    the integer kernel of a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from bayesdp._arrays import Ints
from bayesdp.fibers.moves.basis import integer_kernel, leading_signs
from bayesdp.invariants import Invariants
from bayesdp.queries import SumPart

type Part = Line | Table | General

_SEARCHED_CELLS = 64
"""General matrices with more cells are not searched for simpler parts: their bases are dense and slow."""


@dataclass(frozen=True, eq=False)
class Line:
    """The integer multiples of a vector with these nonzero `entries` in these flat `cells`."""

    cells: Ints
    entries: Ints


@dataclass(frozen=True, eq=False)
class Table:
    """Tables y whose sums over each one of their ways are zero: ``z[cells[copy]] = signs[copy] * y``."""

    cells: Ints  # flat cells, shape ``(copies, *shape)``; three labels or more a way
    signs: Ints  # +1 or -1, of the same shape

    @property
    def copies(self) -> int:
        """How many times y is written."""
        return len(self.cells)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels of each way."""
        return self.cells.shape[1:]


@dataclass(frozen=True, eq=False)
class General:
    """The integer vectors on some `cells` that `matrix` (sparse, rows by these cells) sends to zero."""

    cells: Ints
    matrix: sp.csr_array


@lru_cache(maxsize=64)
def lattice_parts(invariants: Invariants) -> tuple[Part, ...]:
    """Split the lattice of the invariants into parts."""
    blocks = invariants.blocks
    if blocks is not None:
        return tuple(_of_totals(blocks))
    sums = [part for part in invariants.query.parts if isinstance(part, SumPart)]
    if len(sums) < len(invariants.query.parts):
        return tuple(_of_matrix(invariants.matrix))
    return tuple(_of_partitions(_finest([np.unique(part.row_of_cell, return_inverse=True)[1] for part in sums])))


def _of_totals(blocks: Ints) -> Iterator[Part]:
    """Lines for free cells (block -1) and pairs, tables of one way for larger blocks."""
    order = np.argsort(blocks, kind="stable")
    for cells in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
        if cells.size and blocks[cells[0]] < 0:
            yield from (Line(cells[i : i + 1], np.ones(1, dtype=np.int64)) for i in range(cells.size))
        else:
            yield from _table(cells[None], np.ones_like(cells[None]))


def _table(cells: Ints, signs: Ints) -> Iterator[Part]:
    """A table of the given shape; ways with one or two labels are written out."""
    # The first axis of the arguments counts the copies.
    for axis, size in enumerate(cells.shape[1:], start=1):
        if size == 1:
            return  # a sum of one cell: all of them are zero
        if size == 2:
            flip = np.concatenate([np.take(signs, 0, axis), -np.take(signs, 1, axis)])
            yield from _table(np.concatenate([np.take(cells, 0, axis), np.take(cells, 1, axis)]), flip)
            return
    if cells.ndim == 1:
        order = np.argsort(cells)
        yield Line(cells[order], signs[order] * signs[order[0]])
    else:
        yield Table(cells, signs)


def _finest(codes: list[Ints]) -> Ints:
    """Sums as partitions of the cells, without those that are sums of another: shape (sums, cells)."""
    kept: list[Ints] = []
    for code in sorted(codes, key=lambda code: -int(code.max())):
        if not any(_refines(finer, code) for finer in kept):
            kept.append(code)
    return np.array(kept, dtype=np.int64)


def _refines(fine: Ints, coarse: Ints) -> bool:
    first = np.zeros(int(fine.max()) + 1, dtype=np.int64)
    first[fine] = coarse
    return bool(np.array_equal(first[fine], coarse))


def _of_partitions(codes: Ints) -> Iterator[Part]:
    cells = np.arange(codes.shape[1])
    while True:  # a sum of one cell fixes it, and that may leave others alone
        free = np.ones(cells.size, dtype=np.bool_)
        for code in codes[:, cells]:
            free &= np.bincount(code)[code] > 1
        if free.all():
            break
        cells = cells[free]
    if cells.size == 0:
        return
    for piece in _pieces(_indicators(codes[:, cells]), cells):
        code = _finest([np.unique(code, return_inverse=True)[1] for code in codes[:, piece]])
        grid = _grid(code)
        if grid is not None:
            yield from _table(piece[grid][None], np.ones((1, *grid.shape), dtype=np.int64))
        else:
            yield from _general(piece, _indicators(code))


def _indicators(codes: Ints) -> sp.csr_array:
    """The sums as rows of zeros and ones."""
    cells = codes.shape[1]
    starts = np.cumsum([0, *(codes.max(axis=1) + 1)])
    rows = (codes + starts[:-1, None]).ravel()
    entries = np.ones(rows.size, dtype=np.int64)
    return sp.csr_array((entries, (rows, np.tile(np.arange(cells), len(codes)))), shape=(starts[-1], cells))


def _pieces(matrix: sp.csr_array, cells: Ints) -> list[Ints]:
    """Sets of cells that no row connects; columns of the matrix are the given cells."""
    rows = matrix.shape[0]
    found = matrix.tocoo()
    graph = sp.coo_array((np.ones(found.nnz), (found.row, found.col + rows)), shape=(rows + cells.size,) * 2)
    label = connected_components(graph, directed=False)[1][rows:]
    order = np.argsort(label, kind="stable")
    return np.split(cells[order], np.flatnonzero(np.diff(label[order])) + 1)


def _grid(codes: Ints) -> Ints | None:
    """Arrange cells as a table whose sums over each one way are the given partitions, if they can be."""
    # What is left when way k is summed over is a code of the other ways; two of them have in common, of a table with three ways,
    # just one way.
    if len(codes) > 3:
        return None
    classes = codes.max(axis=1) + 1
    if len(codes) == 3:
        codes = np.array([_join(codes[0], codes[1]), _join(codes[1], codes[2]), _join(codes[2], codes[0])])
    shape = tuple(int(size) for size in codes.max(axis=1) + 1)
    if int(np.prod(shape)) != codes.shape[1]:
        return None
    if len(codes) == 3 and [shape[2] * shape[0], shape[0] * shape[1], shape[1] * shape[2]] != classes.tolist():
        return None
    place = np.ravel_multi_index(tuple(codes), shape)
    if np.unique(place).size < place.size:
        return None
    grid = np.empty(shape, dtype=np.int64)
    grid.flat[place] = np.arange(place.size)
    return grid


def _join(one: Ints, other: Ints) -> Ints:
    """The finest partition that both refine."""
    classes = int(one.max()) + 1, int(other.max()) + 1
    graph = sp.coo_array((np.ones(one.size), (one, other + classes[0])), shape=(sum(classes),) * 2)
    return np.asarray(connected_components(graph, directed=False)[1][one], dtype=np.int64)


def _of_matrix(matrix: sp.csr_array) -> Iterator[Part]:
    for piece in _pieces(matrix, np.arange(matrix.shape[1])):
        rows = sp.csr_array(matrix[:, piece])
        if rows.nnz == 0:
            yield from (Line(piece[i : i + 1], np.ones(1, dtype=np.int64)) for i in range(piece.size))
        else:
            yield from _general(piece, sp.csr_array(rows[np.flatnonzero(np.diff(rows.indptr))]))


def _general(cells: Ints, matrix: sp.csr_array) -> Iterator[Part]:
    """Look for simpler parts in the basis of a small kernel."""
    if cells.size > _SEARCHED_CELLS:
        yield General(cells, matrix)
        return
    basis = sp.csr_array(integer_kernel(matrix.toarray()))
    # Vectors of a basis that share no cell are orthogonal, so the connected pieces of a basis are parts.
    label = connected_components(abs(basis) @ abs(basis).T, directed=False)[1]
    for piece in range(int(label.max(initial=-1)) + 1):
        rows = basis[np.flatnonzero(label == piece)]
        places = np.unique(rows.indices).astype(np.int64)
        dense = rows[:, places].toarray()
        if len(dense) == 1:
            yield Line(cells[places], dense[0])
            continue
        found = _zero_sum(cells[places], dense)
        yield General(cells[places], sp.csr_array(matrix[:, places])) if found is None else found


def _zero_sum(cells: Ints, basis: Ints) -> Table | None:
    """Recognise a fixed total, written any number of times, from a basis (rows) of its lattice."""
    leading = leading_signs(basis.T)
    columns, which, copies = np.unique(basis * leading, axis=1, return_inverse=True, return_counts=True)
    if columns.shape[1] != len(basis) + 1 or np.any(copies != copies[0]):
        return None
    # One relation is left among the distinct columns. With coefficients +1 and -1 it is a zero sum.
    relation = integer_kernel(columns)[0]
    if np.any(np.abs(relation) != 1):
        return None
    order = np.argsort(which.ravel(), kind="stable").reshape(len(relation), -1).T
    return Table(cells[order], leading[order] * relation[which.ravel()[order]])

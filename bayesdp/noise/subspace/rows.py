"""The row space of invariants: a sparse basis of it, and how it falls apart into components."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from flint import fmpz_mat
from scipy.sparse.csgraph import connected_components

from bayesdp._nested import NestedAxis, NestedSums
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Component:
    """A connected set of m cells (`cells`) with the invariants that meet it (`rows`, independent, shape (rank, m))."""

    cells: Ints
    rows: sp.csr_array


@dataclass(frozen=True, eq=False)
class Components:
    """The row space of invariants as a direct sum over disjoint sets of cells.

    Parameters
    ----------
    starts : int array, shape (blocks + 1,)
        Where the components of rank 1 start in `cells`; from ``starts[-1]`` on there are cells in no invariant.
    cells, entries : arrays
        The cells, and their entries in the row of their block.
    log_volume : float
        Sum of the logarithms of the lengths of these rows.
    wide : tuple of Component
        The components of higher rank.
    """

    starts: Ints
    cells: Ints
    entries: Floats
    log_volume: float
    wide: tuple[Component, ...]


@lru_cache(maxsize=16)
def components_of(invariants: Invariants) -> Components:
    """Split the row space of invariants into components: sets of cells that no basis row joins.

    For disjoint totals and for general matrices no finer splitting exists: two rows of the reduced echelon form share cells
    only within one indecomposable summand of the row space.
    """
    size = invariants.frame.size
    if invariants.blocks is not None:
        order = np.argsort(invariants.blocks, kind="stable").astype(np.int64)
        order = np.roll(order, -int(np.sum(invariants.blocks < 0)))  # cells in no block last
        used = order[: int(np.sum(invariants.blocks >= 0))]
        starts = np.flatnonzero(np.diff(invariants.blocks[used], prepend=-1, append=size)).astype(np.int64)
        sizes = np.diff(starts)
        return Components(starts, order, np.ones(size), 0.5 * float(np.sum(np.log(sizes))), ())
    rows = row_basis(invariants) if invariants.nested is not None else _echelon_rows(invariants)
    count = rows.shape[0]
    _, label = connected_components(sp.bmat([[None, rows], [rows.T, None]]), directed=False)
    rank = np.bincount(label[:count], minlength=label.max() + 1)
    label_of_cell = label[count:]
    narrow = np.flatnonzero(rank == 1)
    lists = [np.flatnonzero(label_of_cell == k).astype(np.int64) for k in narrow]
    row_of = {int(label[i]): i for i in range(count)}
    found = [rows[[row_of[int(k)]]].toarray()[0, cells] for k, cells in zip(narrow, lists, strict=True)]
    free = np.flatnonzero(rank[label_of_cell] == 0).astype(np.int64)
    wide = []
    for k in np.flatnonzero(rank > 1):
        cells = np.flatnonzero(label_of_cell == k).astype(np.int64)
        wide.append(Component(cells, sp.csr_array(rows[np.flatnonzero(label[:count] == k)][:, cells])))
    return Components(
        np.cumsum([0, *map(len, lists)], dtype=np.int64),
        np.concatenate([*lists, free]).astype(np.int64),
        np.concatenate([*found, np.ones(len(free))]),
        sum(math.log(float(np.linalg.norm(row))) for row in found),
        tuple(wide),
    )


def _echelon_rows(invariants: Invariants) -> sp.csr_array:
    """The reduced echelon form of a general matrix, its rows scaled to coprime integers."""
    # Cells with equal columns have equal columns in the echelon form too: one of each is enough.
    columns, back = np.unique(invariants.matrix.toarray(), axis=1, return_inverse=True)
    reduced, _, rank = fmpz_mat(columns.astype(int).tolist()).rref()
    rows = [[int(v) for v in row] for row in reduced.tolist()[:rank]]
    coprime = np.array([[v // math.gcd(*row) for v in row] for row in rows], dtype=np.float64)
    return sp.csr_array(coprime.reshape(rank, columns.shape[1])[:, back.reshape(-1)])


@lru_cache(maxsize=16)
def row_basis(invariants: Invariants) -> sp.csr_array:
    """Linearly independent, sparse rows that span the row space; float64, shape (rank, cells).

    For margins and totals they are chosen by structure. Along each dimension every class has a *birth level*: its own
    level, or if it is the first class within its parent, the birth level of the parent. For a total (level 0) and three
    labels (level 1) the labels have birth levels 0, 1, 1: given the total, the sums of the second and the third label
    determine that of the first. With several dimensions the sum over a product of classes is left out if an earlier query
    has, in every dimension, at least the birth level of its class: it follows from that query and the sums that are in
    the basis. As many sums are left as the rank.
    """
    nested = invariants.nested
    if nested is None:
        return sp.csr_array(invariants.matrix[invariants.independent_rows]).astype(np.float64)
    births = [_births(axis) for axis in nested.axes]
    rows: list[sp.csr_array] = []
    earlier: list[tuple[int, ...]] = []
    for top in nested.generators:
        shape = tuple(axis.classes[level] for axis, level in zip(nested.axes, top, strict=True))
        birth = np.meshgrid(*(b[level] for b, level in zip(births, top, strict=True)), indexing="ij")
        chosen = np.ones(shape, dtype=np.bool_)
        for other in earlier:
            chosen &= ~np.all([b <= level for b, level in zip(birth, other, strict=True)], axis=0)
        codes = np.meshgrid(*(axis.codes[level] for axis, level in zip(nested.axes, top, strict=True)), indexing="ij")
        row_of_cell = np.ravel_multi_index(tuple(code.reshape(-1) for code in codes), shape)
        number = np.full(chosen.size, -1, dtype=np.int64)
        number[chosen.reshape(-1)] = np.arange(int(chosen.sum()))
        cells = np.flatnonzero(number[row_of_cell] >= 0)
        entries = (np.ones(len(cells)), (number[row_of_cell[cells]], cells))
        rows.append(sp.csr_array(entries, shape=(int(chosen.sum()), len(row_of_cell))))
        earlier.append(top)
    return sp.csr_array(sp.vstack(rows))


@lru_cache(maxsize=16)
def rows_of_cells(invariants: Invariants) -> tuple[Ints, Floats]:
    """The rows of `row_basis` that meet each cell, and their entries; shape (cells, most rows that meet a cell).

    Cells that fewer rows meet have entries 0 at the end.
    """
    columns = row_basis(invariants).tocsc()
    counts = np.diff(columns.indptr)
    places = np.zeros((len(counts), int(counts.max(initial=0))), dtype=np.int64)
    entries = np.zeros(places.shape)
    cell = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(cell)) - columns.indptr[cell]
    places[cell, rank], entries[cell, rank] = columns.indices, columns.data
    return places, entries


def _births(axis: NestedAxis) -> list[Ints]:
    """For each level of a dimension, the birth level of each of its classes (see `row_basis`)."""
    births = [np.zeros(1, dtype=np.int64)]
    for level in range(1, len(axis.codes)):
        parent = np.empty(axis.classes[level], dtype=np.int64)
        parent[axis.codes[level]] = axis.codes[level - 1]
        first = np.zeros(len(parent), dtype=np.bool_)
        first[np.unique(parent, return_index=True)[1]] = True
        births.append(np.where(first, births[-1][parent], level))
    return births


@lru_cache(maxsize=16)
def log_gram(invariants: Invariants) -> float:
    """Logarithm of ``det(R R^T)`` for the rows R of `row_basis`."""
    if invariants.nested is not None:
        return _nested_log_gram(invariants.nested)
    rows = row_basis(invariants)
    if not rows.shape[0]:
        return 0.0
    return float(np.sum(np.log(np.abs(spl.splu(sp.csc_matrix(rows @ rows.T)).U.diagonal()))))


def _nested_log_gram(nested: NestedSums) -> float:
    """Logarithm of ``det(R R^T)`` in closed form, for margins and totals.

    The rows R are an integer basis of the lattice that the sums span. Another one is, for each component of the row space (a
    level in each dimension), the indicators of the products of classes with these birth levels; two integer bases of one
    lattice have the same determinant. Against orthonormal contrasts the second basis is triangular in the components, with
    Kronecker products on the diagonal. One dimension and level, with classes of sizes n_k and their parents of sizes N_p,
    contribute the factor ``prod n_k / prod N_p``.
    """
    ratios = []
    for axis in nested.axes:
        logs = [float(np.sum(np.log(np.bincount(code)))) for code in axis.codes]
        ratios.append(np.diff(logs, prepend=0.0))
    total = 0.0
    for component in nested.components:
        size = nested.component_size(component)
        for axis, ratio, level in zip(nested.axes, ratios, component, strict=True):
            if size:
                total += size / (axis.classes[level] - (axis.classes[level - 1] if level else 0)) * float(ratio[level])
    return total

"""The integer null space ``{z integer : A z = 0}``: bases, lists of directions, and all of its vectors up to a given norm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from itertools import product

import numpy as np
import scipy.sparse as sp
from flint import fmpz_mat

from bayesdp._arrays import Ints, Mask, Words
from bayesdp._nested import NestedAxis
from bayesdp.invariants import Invariants

_FLINT_CELLS = 2000
"""General matrices: above this many cells the dense Hermite form is refused."""

_ALL_SIGNED_SUMS = 9
"""Up to this many basis vectors, all their combinations with weights -1, 0, 1 are looked at (3**9 = 19683)."""

_LONGER = 1.5
"""Combinations may be this much longer (l1) than the longest vector of a small basis; longer ones are rarely needed."""

_MOST_MULTISETS = 3_000_000
_MOST_PAIRS = 20_000_000
_BATCH = 1 << 20


def integer_kernel(matrix: Ints) -> Ints:
    """LLL-reduced basis of the integer vectors that a matrix, shape (rows, cells), sends to zero, shape (cells - rank, cells).

    The rows of the Hermite normal form of ``[A^T | I]`` whose first part vanishes carry, in their second part, a basis of the whole
    kernel (not only of a sublattice of it), because the transform is unimodular. Redundant rows of ``A`` do no harm.

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


def leading_signs(vectors: Ints) -> Ints:
    """The sign of the first entry of each row that is not zero; 0 for a row of zeros."""
    first = np.argmax(vectors != 0, axis=1)
    return np.asarray(np.sign(vectors[np.arange(len(vectors)), first]), dtype=np.int64)


def _difference_rows(axis: NestedAxis) -> sp.csr_array:
    """Unimodular rows for one dimension: a unit vector, then differences within the classes of each level."""
    # The rows are in the order of the orthonormal coordinates of `NestedAxis`: for each level, the later classes of each parent,
    # each against the class before it (first labels stand for their class).
    order = axis.order
    rows, columns, entries, count = [0], [int(order[0])], [1], 1
    for level in range(1, len(axis.codes)):
        starts = axis.starts[level]
        parent = axis.codes[level - 1][order[starts]]
        for k in np.flatnonzero(parent[1:] == parent[:-1]) + 1:
            rows += [count, count]
            columns += [int(order[starts[k - 1]]), int(order[starts[k]])]
            entries += [1, -1]
            count += 1
    return sp.csr_array((np.array(entries, dtype=np.int64), (rows, columns)), shape=(axis.size, axis.size))


def kernel_basis(invariants: Invariants) -> sp.csr_array:
    """A basis of the integer vectors that change no invariant, one a row, shape (dimension, cells); sparse.

    Margins and totals: products of differences of neighbouring labels, in closed form. General matrices: Hermite form, then LLL.

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


def single_cells(free: Ints, cells: int) -> sp.csr_array:
    """One direction for each of the cells in `free`."""
    ones = np.ones(len(free), dtype=np.int64)
    return sp.csr_array((ones, (np.arange(len(free)), free)), shape=(len(free), cells))


def directions_on(invariants: Invariants, allowed: Mask) -> sp.csr_array:
    """A redundant list of directions that change no invariant and leave the cells outside `allowed` alone; generates all such."""
    free = np.flatnonzero(allowed)
    short = short_combinations(integer_kernel(invariants.matrix[:, free].toarray()))
    wide = np.zeros((len(short), len(allowed)), dtype=np.int64)
    wide[:, free] = short
    return sp.csr_array(wide)


def short_combinations(basis: Ints) -> Ints:
    """A reduced basis with short combinations of its vectors."""
    # A basis alone mixes slowly and gets stuck at zeros. Small kernels: short combinations with weights -1, 0, 1 that are primitive
    # among themselves (no other one lies inside, sign by sign). Larger ones: sums and differences of pairs that share a cell.
    n, cells = basis.shape
    if n > _ALL_SIGNED_SUMS:
        sharing = [(i, j) for i in range(n) for j in range(i) if np.any(basis[i] * basis[j])]
        pairs = [basis[i] + s * basis[j] for i, j in sharing for s in (1, -1)]
        combined = np.array(pairs, dtype=np.int64).reshape(-1, cells)
        limit = 2 * int(np.abs(basis).sum(axis=1).max())
        return distinct_up_to_sign(np.concatenate([basis, combined[np.abs(combined).sum(axis=1) <= limit]]))
    weights = np.array(list(product((-1, 0, 1), repeat=n)), dtype=np.int64).reshape(3**n, n)
    vectors = distinct_up_to_sign(weights[len(weights) // 2 + 1 :] @ basis)  # one of each pair of opposite combinations
    lengths = np.abs(vectors).sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    vectors = vectors[order[lengths[order] <= _LONGER * np.abs(basis).sum(axis=1).max(initial=0)]]
    kept: list[Ints] = []
    # Positive and negative parts side by side: "inside, sign by sign" is then "smaller in every entry".
    parts = np.zeros((0, 2 * cells), dtype=np.int64)
    for v in vectors:
        up, down = np.maximum(v, 0), np.maximum(-v, 0)
        if not np.any(np.all(parts <= np.concatenate([up, down]), axis=1)):
            kept.append(v)
            parts = np.concatenate([parts, [np.concatenate([up, down])], [np.concatenate([down, up])]])
    return distinct_up_to_sign(np.concatenate([basis, np.array(kept, dtype=np.int64).reshape(-1, cells)]))


def distinct_up_to_sign(vectors: Ints) -> Ints:
    """The different vectors, one of each pair u, -u (the first entry other than zero is positive), without zero."""
    moving = vectors[np.any(vectors != 0, axis=1)]
    return np.asarray(np.unique(moving * leading_signs(moving)[:, None], axis=0)) if len(moving) else moving


def bounded_kernel(matrix: sp.csr_array, radius: int, *, balanced: bool, most: int = 25_000_000) -> Ints:
    """All ``z`` with ``A z = 0`` and few entries that are not 0, one of each pair z, -z, without zero, in ascending order."""
    # Of balanced ones, whose entries add up to zero, the positive part adds up to at most the radius; else the radius is of the l1
    # norm. `most`: the largest number of entries of the answer. Each z is the difference of its positive and negative parts: two
    # multisets of cells without a common cell, with the same image. All multisets up to the size in question are sorted by that.
    cells = matrix.shape[1]
    count = sum(math.comb(cells + size - 1, size) for size in range(radius + 1))
    if count > _MOST_MULTISETS:
        raise ValueError(
            f"{count} choices of up to {radius} of {cells} cells are more than {_MOST_MULTISETS}: too many to list the "
            "differences of tables"
        )
    weights = _weights(matrix)
    found = [np.zeros((0, cells), dtype=np.int64)]
    entries = 0
    for up, down in _pairs(weights, cells, radius, balanced):
        differences = np.zeros((len(up), cells + 1), dtype=np.int64)  # the last column takes the padding
        np.add.at(differences, (np.arange(len(up))[:, None], up), 1)
        np.subtract.at(differences, (np.arange(len(up))[:, None], down), 1)
        differences = differences[:, :cells]
        if matrix.shape[0]:
            # Equal hashes need not be equal images.
            differences = differences[~np.any(np.asarray((matrix @ differences.T) != 0), axis=0)]
        entries += differences.size
        if entries > most:
            raise ValueError(f"more than {most // cells} differences of tables of {cells} cells: too many to list")
        found.append(differences)
    vectors = np.concatenate(found)
    vectors *= leading_signs(vectors)[:, None]
    return np.asarray(vectors[np.lexsort(vectors.T[::-1])])


def _weights(matrix: sp.csr_array) -> Words:
    """A 64-bit hash for each cell, so that multisets of cells with equal images have equal sums of hashes (modulo 2**64)."""
    # With probability 2**-64 others have, too: the caller compares the images.
    entries = matrix.tocoo()
    random = np.random.default_rng(0).integers(1, 2**63, size=matrix.shape[0], dtype=np.uint64)
    words = np.zeros(matrix.shape[1], dtype=np.uint64)
    np.add.at(words, entries.col, random[entries.row] * entries.data.astype(np.int64).astype(np.uint64))
    return words


def _pairs(weights: Words, cells: int, radius: int, balanced: bool) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of multisets with equal hashes and no common cell, padded with `cells`, each pair once."""
    chosen, words = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.uint64)
    levels = [(chosen, words)]
    for _ in range(radius):
        # Multisets as ascending lists: append every cell that is not smaller than the last.
        last = chosen[:, -1] if chosen.shape[1] else np.zeros(len(chosen), dtype=np.int64)
        room = cells - last
        rows = np.repeat(np.arange(len(chosen)), room)
        added = np.arange(len(rows)) - np.repeat(np.cumsum(room) - room, room) + last[rows]
        chosen = np.column_stack([chosen[rows], added])
        words = words[rows] + weights[added]
        levels.append((chosen, words))
    if balanced:
        for chosen, words in levels[1:]:
            yield from _equal(chosen, words, np.zeros(len(chosen), dtype=np.int64), radius)
        return
    padded = [np.pad(chosen, ((0, 0), (0, radius - chosen.shape[1])), constant_values=cells) for chosen, _ in levels]
    sizes = np.repeat(np.arange(len(padded)), [len(chosen) for chosen in padded])
    yield from _equal(np.concatenate(padded), np.concatenate([word for _, word in levels]), sizes, radius, cells)


def _equal(chosen: Ints, words: Words, sizes: Ints, radius: int, empty: int = -1) -> Iterator[tuple[Ints, Ints]]:
    order = np.argsort(words, kind="stable")
    chosen, words, sizes = chosen[order], words[order], sizes[order]
    runs = np.diff(np.flatnonzero(np.diff(words, prepend=words[:1] + np.uint64(1))), append=len(words))
    pairs = int(np.sum(runs * (runs - 1) // 2))
    if pairs > _MOST_PAIRS:
        raise ValueError(
            f"{pairs} pairs of choices of cells have the same exact answers, more than {_MOST_PAIRS}: too many to list the "
            "differences of tables"
        )
    for shift in range(1, len(words)):
        low = np.flatnonzero(words[shift:] == words[:-shift])
        if not low.size:
            return
        for start in range(0, low.size, _BATCH):
            a = low[start : start + _BATCH]
            a = a[sizes[a] + sizes[a + shift] <= radius] if empty >= 0 else a
            up, down = chosen[a], chosen[a + shift]
            same = (up[:, :, None] == down[:, None, :]) & (up[:, :, None] != empty)
            apart = ~np.any(same, axis=(1, 2))
            yield up[apart], down[apart]

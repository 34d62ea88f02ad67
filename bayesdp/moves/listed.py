"""Lists of integer directions for invariants without a closed form."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.invariants import Invariants
from bayesdp.moves.basis import integer_kernel, leading_signs

type Ints = npt.NDArray[np.int64]

_ALL_SIGNED_SUMS = 9
"""Up to this many basis vectors, all their combinations with weights -1, 0, 1 are looked at (3**9 =
19683)."""

_LONGER = 1.5
"""Combinations may be this much longer (l1) than the longest vector of a small basis; longer ones are rarely
needed."""


def single_cells(free: Ints, cells: int) -> sp.csr_array:
    """One direction for each of the cells in `free`."""
    ones = np.ones(len(free), dtype=np.int64)
    return sp.csr_array((ones, (np.arange(len(free)), free)), shape=(len(free), cells))


def directions_on(invariants: Invariants, allowed: npt.NDArray[np.bool_]) -> sp.csr_array:
    """A redundant list of directions that change no invariant and leave the cells outside `allowed` alone."""
    # `allowed`, shape (cells,). Returns shape (directions, cells): generates all such directions.
    free = np.flatnonzero(allowed)
    short = short_combinations(integer_kernel(invariants.matrix[:, free].toarray()))
    wide = np.zeros((len(short), len(allowed)), dtype=np.int64)
    wide[:, free] = short
    return sp.csr_array(wide)


def short_combinations(basis: Ints) -> Ints:
    """A reduced basis with short combinations of its vectors."""
    # A basis alone mixes slowly and gets stuck at zeros. Small kernels: short combinations with weights -1, 0, 1 that are primitive
    # among themselves (no other one lies inside, sign by sign); for 3x3x3 tables with all two-way margins these are the 27 + 54
    # moves of the Markov basis. Larger ones: sums and differences of pairs that share a cell. `basis`, shape (n, cells). Returns
    # shape (directions, cells): distinct up to sign. The basis is among them, so that they generate what it generates.
    n, cells = basis.shape
    if n > _ALL_SIGNED_SUMS:
        pairs = [
            basis[i] + s * basis[j] for i in range(n) for j in range(i) for s in (1, -1) if np.any(basis[i] * basis[j])
        ]
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

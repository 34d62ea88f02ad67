"""All integer vectors up to a given l1 norm that a matrix sends to zero: a complete search, not a sampler."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.moves.basis import leading_signs

type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

_MOST_MULTISETS = 3_000_000
_MOST_PAIRS = 20_000_000
_BATCH = 1 << 20


def bounded_kernel(matrix: sp.csr_array, radius: int, *, balanced: bool, most: int = 25_000_000) -> Ints:
    """All ``z`` with ``A z = 0`` whose positive and negative entries are few.

    Each z is the difference of its positive and negative parts: two multisets of cells without a common cell, which the
    matrix sends to the same vector. All multisets up to the size in question are listed and sorted by that vector, so
    that nothing is missed and only pairs that fit are looked at.

    Parameters
    ----------
    matrix : sparse int array, shape (rows, cells)
        ``A``; no rows are allowed.
    radius : int
        Balanced: the largest sum of the positive part. Else: the largest l1 norm.
    balanced : bool
        Only vectors whose entries add up to zero, whether or not the matrix asks for it.
    most : int
        Largest number of entries of the answer.

    Returns
    -------
    int64 array, shape (m, cells)
        One of each pair z, -z (the first entry other than zero is positive), without zero, in ascending order.


    Examples
    --------
    >>> bounded_kernel(sp.csr_array([[1, 1, 0], [0, 0, 1]]), 2, balanced=True)
    array([[ 1, -1,  0],
           [ 2, -2,  0]])
    """
    cells = matrix.shape[1]
    count = sum(math.comb(cells + size - 1, size) for size in range(radius + 1))
    if count > _MOST_MULTISETS:
        raise ValueError(
            f"{count} choices of up to {radius} of {cells} cells are more than {_MOST_MULTISETS}: too many to list the "
            "differences of tables"
        )
    weights = _weights(matrix)
    found: list[Ints] = []
    entries = 0
    for up, down in _pairs(weights, cells, radius, balanced):
        differences = _difference(up, down, cells)
        if matrix.shape[0]:
            differences = differences[
                ~np.any(np.asarray((matrix @ differences.T) != 0), axis=0)
            ]  # equal hashes need not be equal images
        entries += differences.size
        if entries > most:
            raise ValueError(f"more than {most // cells} differences of tables of {cells} cells: too many to list")
        found.append(differences)
    vectors = np.concatenate(found) if found else np.zeros((0, cells), dtype=np.int64)
    if not len(vectors):
        return vectors
    vectors *= leading_signs(vectors)[:, None]
    return np.asarray(vectors[np.lexsort(vectors.T[::-1])])


def _weights(matrix: sp.csr_array) -> Words:
    """A 64-bit hash for each cell, so that multisets of cells with equal images have equal sums of hashes (modulo 2**64)."""
    # Two multisets with different images have equal sums with probability 2**-64: the caller compares the images.
    entries = matrix.tocoo()
    random = np.random.default_rng(0).integers(1, 2**63, size=matrix.shape[0], dtype=np.uint64)
    words = np.zeros(matrix.shape[1], dtype=np.uint64)
    np.add.at(words, entries.col, random[entries.row] * entries.data.astype(np.int64).astype(np.uint64))
    return words


def _pairs(weights: Words, cells: int, radius: int, balanced: bool) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of multisets with equal hashes and no common cell, padded with `cells`, each pair once."""
    chosen = np.zeros((1, 0), dtype=np.int64)
    words = np.zeros(1, dtype=np.uint64)
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
        for own, word in levels[1:]:
            yield from _equal(own, word, np.full(len(own), 0), radius)
        return
    padded = [np.pad(own, ((0, 0), (0, radius - own.shape[1])), constant_values=cells) for own, _ in levels]
    sizes = np.concatenate([np.full(len(own), size) for size, own in enumerate(padded)])
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


def _difference(up: Ints, down: Ints, cells: int) -> Ints:
    rows = np.arange(len(up))[:, None]
    z = np.zeros((len(up), cells + 1), dtype=np.int64)  # the last column takes the padding
    np.add.at(z, (rows, up), 1)
    np.subtract.at(z, (rows, down), 1)
    return z[:, :cells]

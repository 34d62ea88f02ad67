"""The longest difference of a kind, where all differences of the kind can be listed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bayesdp._nested import NestedSums
from bayesdp.sensitivities.kept_moves import count_cycles, cycles, product_moves
from bayesdp.sensitivities.norms import MOST_PRODUCTS, DifferenceNorm

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_WORK = 150_000_000
"""The most numbers that are compared in a list of differences."""


def listed_length(norm: DifferenceNorm, nested: NestedSums, blocks: int, *, cycle: bool) -> float | None:
    """The longest of all differences of a kind, if they are few enough to be listed."""
    images = norm.cell_images()
    if images is None:
        return None
    ends = 6 if cycle else 2**blocks
    gram = images @ images.T if norm.kind == "l2" and len(images) ** 2 * images.shape[1] <= MOST_PRODUCTS else None
    most = _WORK // (ends * (ends + 1) // 2 if gram is not None else ends * images.shape[1])
    if cycle:
        signs = np.array([1, 1, 1, -1, -1, -1])
        moves: Iterator[Ints] | None = cycles(nested) if count_cycles(nested) <= most else None
    else:
        signs = np.array([(-1) ** bin(end).count("1") for end in range(ends)])
        moves = product_moves(nested, blocks, most)
    if moves is None:
        return None
    if gram is not None:
        return _longest_by_gram(images, gram, moves, signs)
    best, measured = 0.0, 0
    for cells in moves:
        step = max(4_000_000 // images.shape[1], 1)
        for start in range(0, len(cells), step):
            points = sum(sign * images[own] for sign, own in zip(signs, cells[start : start + step].T, strict=True))
            own = np.unique(np.asarray(points), axis=0) if norm.kind == "K" else np.asarray(points)
            measured += len(own)
            if norm.kind == "K" and measured > norm.most:
                return None
            best = max(best, float(norm.lengths(own).max(initial=0.0)))
    return best


def _longest_by_gram(images: Floats, gram: Floats, moves: Iterator[Ints], signs: Ints) -> float:
    """The largest ``|sum_i s_i x_i|_2`` over lists of cells, from the inner products: ``sum_ij s_i s_j gram_ij``."""
    best, where = -1.0, np.zeros(len(signs), dtype=np.int64)
    for cells in moves:
        if not len(cells):
            continue
        squares = np.zeros(len(cells))
        for i in range(len(signs)):
            squares += gram[cells[:, i], cells[:, i]]
            for j in range(i):
                squares += (2.0 * signs[i] * signs[j]) * gram[cells[:, i], cells[:, j]]
        top = int(np.argmax(squares))
        if squares[top] > best:
            best, where = float(squares[top]), cells[top]
    # Measured again: inner products cancel where the images are long and the difference is short.
    return float(np.linalg.norm(signs @ images[where])) if best >= 0.0 else 0.0

"""Which labels of one dimension tell partitions apart: a few labels that stand for all of them.

Whether two (or three) labels agree in a partition is all that a move on them depends on. Where partitions are nested,
labels of classes of equal shape are exchangeable, so that three of each shape show every way in which up to three labels
can agree: a dimension of a thousand labels without groups is as good as one of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

type Ints = npt.NDArray[np.int64]

TRIPLES = np.array([[0, 1, 2], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 0, 0]])
"""How three labels can agree: no two, the first two, the first and last, the last two, all."""

MERGED = np.zeros((5, 5), dtype=np.int64)
"""How three pairs of labels agree, of which one and the other agree as given: only where both do."""
for _pattern in range(5):
    MERGED[_pattern, _pattern] = MERGED[_pattern, 4] = MERGED[4, _pattern] = _pattern

_COPIES = 3

_MOST_LABELS = 150
"""Labels left to be compared three by three."""


def meet(first: Ints, second: Ints) -> Ints:
    """How combinations of labels agree, all of the first with all of the second; shapes ``(m, partitions)``."""
    both = MERGED[first[:, None, :], second[None, :, :]].reshape(-1, first.shape[1])
    return np.unique(both, axis=0)


def agreements(codes: Sequence[Ints]) -> Ints | None:
    """Every way in which three labels of a dimension agree in partitions of it, as rows of `TRIPLES`, shape (ways, partitions).

    `codes` has the class of each label, partition by partition; the last is one class a label. None if partitions cross in too many
    ways to be listed.
    """
    kept = _representatives(codes)
    if len(kept) > _MOST_LABELS:
        return None
    labels = np.stack([code[kept] for code in codes])
    i, j, k = (index.reshape(-1) for index in np.indices([len(kept)] * 3))
    first, outer, last = labels[:, i] == labels[:, j], labels[:, i] == labels[:, k], labels[:, j] == labels[:, k]
    pattern = np.select([first & last, first, outer, last], [4, 1, 2, 3], 0)
    return np.unique(pattern.T, axis=0)


def _representatives(codes: Sequence[Ints]) -> Ints:
    """Labels among which every way to agree occurs."""
    different = {code.tobytes(): code for code in codes}
    levels = sorted(different.values(), key=lambda code: int(code.max()))
    count = len(codes[0])
    if any(not _refines(fine, coarse) for coarse, fine in pairwise(levels)):
        return np.arange(count)
    labels = np.arange(count)
    item = np.arange(count)  # the class, at the level below, of each label that is left
    kind = np.zeros(count, dtype=np.int64)  # the shape of each of those classes
    for code in [*reversed(levels), np.zeros(count, dtype=np.int64)]:
        parent = np.zeros(len(kind), dtype=np.int64)
        parent[item] = code[labels]
        keep, kind = _few(parent, kind)
        left = keep[item]
        labels = labels[left]
        _, item = np.unique(code[labels], return_inverse=True)
    return labels


def _refines(fine: Ints, coarse: Ints) -> bool:
    return len(np.unique(fine * (int(coarse.max()) + 1) + coarse)) == int(fine.max()) + 1


def _few(parent: Ints, kind: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Of each shape a few classes of every parent, and the shapes of the parents then."""
    order = np.lexsort((kind, parent))
    own = np.stack([parent[order], kind[order]])
    fresh = np.any(np.diff(own, axis=1, prepend=-1) != 0, axis=0)
    position = np.arange(len(kind))
    rank = position - np.maximum.accumulate(np.where(fresh, position, 0))
    keep = np.zeros(len(kind), dtype=np.bool_)
    keep[order] = rank < _COPIES
    _, above = np.unique(parent[keep], return_inverse=True)
    shapes = np.zeros((int(above.max()) + 1, int(kind.max()) + 1), dtype=np.int64)
    np.add.at(shapes, (above, kind[keep]), 1)
    _, new = np.unique(shapes, axis=0, return_inverse=True)
    return keep, new.reshape(-1)

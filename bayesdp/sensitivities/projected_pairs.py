"""How far two cells are apart after projection: the l2 sensitivity under margins and totals, in closed form.

The projection onto what nested sums leave free is ``I - sum_g w_g M_g``, where ``M_g`` averages within the classes
of the levels ``g`` (`NestedSums.signed_levels`). An entry of ``M_g`` is a product, over the dimensions, of one over
the size of the class that both labels are in, or zero. So ``|P (e_a - e_b)|^2 = P_aa + P_bb - 2 P_ab`` depends, in each
dimension, only on the sizes of the classes of both labels and on the finest class that they share. Dimensions have few
such *types* of pairs, whatever their number of labels: two (the same label or not) where no group labels are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from bayesdp._nested import NestedAxis, NestedSums

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_MOST_TYPES = 200_000_000
"""Combinations of types over all dimensions."""

_CHUNK = 4_000_000


@dataclass(frozen=True, eq=False)
class _Types:
    """The types of pairs of labels of one dimension."""

    first: Floats  # one over the size of the class of each label, shape (types, levels)
    second: Floats
    shared: Floats  # the same where both labels are in one class, else 0
    same: Floats  # 1 where both are one label, shape (types,)

    def __len__(self) -> int:
        return len(self.same)


def projected_l2(nested: NestedSums, neighbours: str) -> float:
    """The largest ``|P u|_2`` over ``u = e_a - e_b`` (substitution) or ``u = e_a`` (add-remove).

    NotImplementedError if several dimensions have groups of many different sizes.
    """
    single = neighbours == "add-remove"
    axes = [_types(axis, single=single) for axis in nested.axes]
    total = math.prod(map(len, axes))
    if total > _MOST_TYPES:
        raise NotImplementedError(
            f"the exact l2 sensitivity compares {total} combinations of group sizes on {len(axes)} dimensions, more than "
            f"{_MOST_TYPES}; use fewer group labels in the invariants, or groups of fewer different sizes"
        )
    # The first dimension is cut so that no block is larger than a chunk.
    rest = max(total // len(axes[0]), 1)
    step = max(_CHUNK // rest, 1)
    best = 0.0
    for start in range(0, len(axes[0]), step):
        head, *tail = axes
        own = slice(start, start + step)
        block = _Types(head.first[own], head.second[own], head.shared[own], head.same[own])
        best = max(best, float(_squares([block, *tail], nested, single=single).max()))
    return math.sqrt(best)


def _squares(axes: list[_Types], nested: NestedSums, *, single: bool) -> Floats:
    """``|P u|^2`` for every combination of types."""

    def outer(vectors: list[Floats]) -> Floats:
        return np.asarray(reduce(np.multiply.outer, vectors))

    squares = np.ones([len(own) for own in axes]) if single else 2.0 - 2.0 * outer([own.same for own in axes])
    for weight, levels in nested.signed_levels:
        own = list(zip(axes, levels, strict=True))
        squares -= weight * outer([t.first[:, level] for t, level in own])
        if not single:
            squares -= weight * outer([t.second[:, level] for t, level in own])
            squares += 2 * weight * outer([t.shared[:, level] for t, level in own])
    return squares


def _types(axis: NestedAxis, *, single: bool) -> _Types:
    """All types of pairs of labels, or only those of a label with itself."""
    sizes = [np.bincount(code)[code] for code in axis.codes]
    profile = np.zeros(axis.size, dtype=np.int64)
    for size in sizes:  # labels with the same sizes at all levels; one number a label sorts faster than a row
        _, profile = np.unique(profile * (axis.size + 1) + size, return_inverse=True)
    _, example = np.unique(profile, return_index=True)
    inverse = 1.0 / np.stack([size[example] for size in sizes], axis=1)
    finest = len(axis.codes) - 1
    own = np.arange(len(example))
    pairs = [np.stack([own, own, np.full(len(own), finest)])]
    if not single:
        pairs += [_diverging(axis, profile, level) for level in range(finest)]
    first, second, common = np.concatenate(pairs, axis=1)
    together = np.arange(finest + 1) <= common[:, None]
    shared = np.where(together, inverse[first], 0.0)
    return _Types(inverse[first], inverse[second], shared, (common == finest).astype(np.float64))


def _diverging(axis: NestedAxis, profile: Ints, level: int) -> Ints:
    """Types of pairs that share a class of a level but none of the next: profile, profile, level; shape (3, types)."""
    parent, child = axis.codes[level], axis.codes[level + 1]
    count = int(profile.max()) + 1
    _, example = np.unique(child * count + profile, return_index=True)
    rows = np.stack([parent[example], profile[example], child[example]])
    rows = rows[:, np.lexsort(rows[::-1])]
    # Of each profile two classes are enough: then another profile always finds one that is not its own.
    change = np.any(np.diff(rows[:2], axis=1, prepend=-1), axis=0)
    start = np.maximum.accumulate(np.where(change, np.arange(rows.shape[1]), 0))
    rows = rows[:, np.arange(rows.shape[1]) - start < 2]
    found: set[tuple[int, int]] = set()
    for block in np.split(rows, np.flatnonzero(np.diff(rows[0])) + 1, axis=1):
        apart = block[2][:, None] != block[2]
        a, b = np.nonzero(apart)
        found.update(zip(block[1][a].tolist(), block[1][b].tolist(), strict=True))
    listed = np.array(sorted(found), dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([listed, np.full((1, listed.shape[1]), level)])

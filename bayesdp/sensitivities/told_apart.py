"""How many of a stack of sums change at most when one record changes its cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from bayesdp.queries import SumPart

type Ints = npt.NDArray[np.int64]

_MOST_COMPARED = 200_000_000
"""Label pairs times partitions looked at for one dimension."""


def most_told_apart(parts: Sequence[SumPart]) -> int:
    """The largest number of the sums that put two cells into different answers.

    Two cells differ in a sum when on some dimension their labels differ in what the sum keeps of it. So each
    dimension offers sets of sums that a pair of its labels can tell apart, the sets are joined over the dimensions,
    and the largest union counts. Nested labels, or two sets of labels that cross, always have a pair of labels that
    differ in all of them (a complete graph is no union of two equivalence relations); three that cross need not.
    """
    sets = [{0}]
    for axis in range(len(parts[0].frame.dims)):
        sets.append(_axis_sets([part.codes[axis] for part in parts]))
    joined = reduce(lambda a, b: _largest({one | other for one in a for other in b}), sets)
    return max(own.bit_count() for own in joined)


def _axis_sets(codes: Sequence[Ints]) -> set[int]:
    """The largest sets of sums, as bits, that two labels of one dimension can tell apart."""
    groups: dict[bytes, int] = {}
    different: list[Ints] = []
    for bit, code in enumerate(codes):
        if code.max() == 0:
            continue
        key = code.tobytes()
        if key not in groups:
            different.append(code)
        groups[key] = groups.get(key, 0) | 1 << bit
    if not different:
        return {0}
    bits = list(groups.values())
    full = reduce(int.__or__, bits)
    labels = np.stack(different)
    if np.any(np.all(labels != labels[:, [0]], axis=0)):
        return {full}  # always so for nested labels: one of another class of the coarsest partition
    labels = np.unique(labels, axis=1)
    count = labels.shape[1]
    found: set[int] = set()
    for label in range(count - 1):
        if (label + 1) * count * len(different) > _MOST_COMPARED:
            raise NotImplementedError(
                f"the exact sensitivity of a stack of sums by {len(different)} sets of labels that cross on one dimension is "
                f"found by comparing all pairs of labels; {count} different labels are too many"
            )
        apart = labels[:, label + 1 :] != labels[:, [label]]
        for pattern in np.unique(apart, axis=1).T:
            found.add(reduce(int.__or__, (own for own, yes in zip(bits, pattern.tolist(), strict=True) if yes), 0))
        if full in found:
            return {full}
    return _largest(found)


def _largest(sets: set[int]) -> set[int]:
    """The sets that are inside no other one."""
    return {own for own in sets if not any(own != other and own & other == own for other in sets)}

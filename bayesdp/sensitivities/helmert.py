"""The l1 sensitivity in Helmert coordinates, without the coordinates.

In the contrasts of a dimension (`NestedAxis`), a label is a vector with few different entries: in the contrast of
class k against the earlier classes of the same parent it has ``s_k`` if it is in an earlier class, ``-W_k s_k / n_k`` if
it is in class k, and 0 otherwise. For a pair of labels the contrasts of one level thus fall into three regions in
which both labels are multiples of the same numbers, and a region can be summed before dimensions are multiplied:
``|Q^T (e_a - e_b)|_1 = sum |prod X_r - prod Y_r|`` over free combinations of regions, one for each dimension.

Not all pairs of labels have to be tried. With everything else fixed, the sum is a nonnegative multiple of what a
choice between labels adds, so that the best label can be chosen alone:

- a label that is not the later one of its pair within its parent: the first of the parent (``sqrt(a/(a+1)) - S_a``,
  with ``S_a`` the sum of the first ``s_k``, is 0 for the first two and falls);
- a label with itself, or with one of another parent: again the first, which has the longest vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._nested import NestedAxis, NestedSums

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_MOST_TERMS = 3_000_000_000  # pairs of cells to be tried, times regions
_MOST_MOVED = 200_000_000  # the same for one block of a move, which is to be known in about a second
_MOST_PARENTS = 1500  # groups of labels of one dimension, all pairs of which are tried
_CHUNK = 4_000_000


def block_l1(sizes: Ints, free: int, neighbours: str) -> float:
    """The l1 sensitivity where the coordinates are Helmert contrasts within disjoint blocks of cells.

    Within a block of n cells, the cell at position k >= 1 (from 0) has the contrasts ``-sqrt(k / (k + 1))`` at k and
    ``s_j = 1 / sqrt(j (j + 1))`` at j > k. Two cells of one block differ most for the first and some later one:
    ``S_{k-1} + sqrt((k + 1) / k)``, with S the sums of s. `sizes` has the cells of each block; each of the `free` cells in no
    block is a coordinate of its own.
    """
    steps = np.arange(1, max(int(sizes.max(initial=1)), 2), dtype=np.float64)
    scales = 1.0 / np.sqrt(steps * (steps + 1))
    sums = np.concatenate([[0.0], np.cumsum(scales)])
    alone = sums[sizes - 1]
    longest = np.sort(np.concatenate([alone, np.ones(min(free, 2))]))[::-1]
    if neighbours == "add-remove":
        return float(longest[0])
    best = float(longest[:2].sum()) if len(longest) > 1 else 0.0
    if sizes.size and sizes.max() > 1:
        within = sums[:-1] + np.sqrt((steps + 1) / steps)
        best = max(best, float(within[: int(sizes.max()) - 1].max()))
    return best


class _Regions(NamedTuple):
    """Pairs of labels of one dimension, as sums over regions of contrasts."""

    first: Floats  # what the one label has there, shape (pairs, regions)
    second: Floats
    level: Ints  # that the contrasts of a region belong to, shape (regions,)


def helmert_l1(nested: NestedSums, neighbours: str) -> float:
    """The largest ``|Q^T u|_1`` over ``u = e_a - e_b`` (substitution) or ``u = e_a`` (add-remove).

    NotImplementedError if too many pairs of labels are left to be tried.
    """
    single = neighbours == "add-remove"
    listed = [_pairs(axis, single=single) for axis in nested.axes]
    levels = set(product(*(range(len(axis.codes)) for axis in nested.axes))) - nested.components
    # The longest dimension is the inner one.
    order = sorted(range(len(listed)), key=lambda i: len(listed[i][0]))
    counts = [len(listed[i][0]) for i in order]
    regions = [1 + (1 if single else 3) * (len(nested.axes[i].codes) - 1) for i in order]
    terms = math.prod(counts) * math.prod(regions)
    if terms > _MOST_TERMS:
        raise NotImplementedError(
            f"the exact l1 sensitivity of the coordinates would compare {math.prod(counts)} pairs of cells by "
            f"{math.prod(regions)} numbers, more than {_MOST_TERMS} in all; use noise that is scaled to the l2 sensitivity, "
            "or fewer group labels in the invariants"
        )
    axes = [_regions(nested.axes[i], *listed[i], single=single) for i in order]
    return _longest(axes, {tuple(level[i] for i in order) for level in levels}, single=single)


def move_l1(axes: Sequence[NestedAxis], classes: Sequence[Ints]) -> float:
    """The largest ``|Q^T (e_a - e_b)|_1`` in all coordinates, over cells of a block of dimensions whose labels agree in `classes`.

    What a product of differences is in coordinates is the product of what its factors are, so that this is the factor that
    one block of dimensions has in the length of a product move. `classes` has, for each dimension, the class of each label at one
    of the levels of its axis. NotImplementedError if too many pairs of labels are left to be tried.
    """
    chosen = []
    for axis, code in zip(axes, classes, strict=True):
        a, b = _pairs(axis, single=False)
        classes_of = code[axis._order]
        together = classes_of[a] == classes_of[b]
        chosen.append(_regions(axis, a[together], b[together], single=False))
    chosen.sort(key=lambda regions: len(regions.first))
    terms = math.prod(regions.first.size for regions in chosen)
    if terms > _MOST_MOVED:
        raise NotImplementedError(f"{terms} pairs of labels and regions are more than {_MOST_MOVED}")
    return _longest(chosen, None, single=False)


def _longest(axes: Sequence[_Regions], free: set[tuple[int, ...]] | None, *, single: bool) -> float:
    """The largest l1 norm over all products of pairs; of the regions those whose levels are in `free`, or all if it is None."""
    *outer, inner = axes
    best = 0.0
    tags = list(product(*(axis.level.tolist() for axis in outer)))
    for first, second in _blocks(outer, max(_CHUNK // len(inner.first), 1)):
        lengths = np.zeros((len(first), len(inner.first)))
        for head, x, y in zip(tags, first.T, second.T, strict=True):
            for region, level in enumerate(inner.level.tolist()):
                if free is not None and (*head, level) not in free:
                    continue
                terms = np.multiply.outer(x, inner.first[:, region])
                lengths += terms if single else np.abs(terms - np.multiply.outer(y, inner.second[:, region]))
        best = max(best, float(lengths.max()))
    return best


def _blocks(axes: Sequence[_Regions], step: int) -> Iterator[tuple[Floats, Floats]]:
    """Products over dimensions for every combination of pairs, a few at a time: ``(pairs, combinations of regions)``."""
    shape = tuple(len(axis.first) for axis in axes)
    for start in range(0, math.prod(shape), step):
        where = np.unravel_index(np.arange(start, min(start + step, math.prod(shape))), shape) if shape else ()
        first = second = np.ones((len(where[0]) if where else 1, 1))
        for axis, rows in zip(axes, where, strict=True):
            first = (first[:, :, None] * axis.first[rows][:, None, :]).reshape(len(rows), -1)
            second = (second[:, :, None] * axis.second[rows][:, None, :]).reshape(len(rows), -1)
        yield first, second


def _pairs(axis: NestedAxis, *, single: bool) -> tuple[Ints, Ints]:
    """Positions, among the sorted labels, of the pairs that have to be tried."""
    starts = axis.starts[-2] if axis.size > 1 else np.zeros(1, dtype=np.int64)
    if single or axis.size == 1:
        return starts, starts
    count = len(starts)
    if count > _MOST_PARENTS:
        raise NotImplementedError(
            f"the exact l1 sensitivity of the coordinates of a table of several dimensions compares all pairs of groups of one "
            f"of them, and {count} groups are more than {_MOST_PARENTS}"
        )
    a, b = np.divmod(np.arange(count * count), count)  # the first labels of any two parents, or of one
    later = np.setdiff1d(np.arange(axis.size), starts)
    first = starts[np.searchsorted(starts, later, side="right") - 1]
    return np.concatenate([starts[a], first, later]), np.concatenate([starts[b], later, first])


def _regions(axis: NestedAxis, a: Ints, b: Ints, *, single: bool) -> _Regions:
    """The regions of pairs of sorted labels: one for the mean, three for each level of contrasts."""
    mean = np.full((len(a), 1), 1.0 / math.sqrt(axis.size))
    firsts, seconds, tags = [mean], [mean], [0]
    for level in range(1, len(axis.codes)):
        _, ratio, scale, parent, _ = axis.contrasts(level)
        until = np.cumsum(scale)  # including the class itself
        last = np.searchsorted(parent, parent, side="right") - 1
        later = until[last] - until
        itself = -ratio * scale
        x, y = (np.searchsorted(axis.starts[level], position, side="right") - 1 for position in (a, b))
        kin, same = parent[x] == parent[y], x == y
        low, high = np.minimum(x, y), np.maximum(x, y)
        # Contrasts in which only one label is not zero; that of the later label of a parent; what both have alike.
        between = np.abs(itself[low]) + until[np.maximum(high - 1, low)] - until[low]
        both = np.where(kin, np.where(same, np.abs(itself[x]) + later[x], later[high]), 0.0)
        met = kin & ~same
        only_x = np.where(met & (x < y), between, np.where(kin, 0.0, np.abs(itself[x]) + later[x]))
        only_y = np.where(met & (y < x), between, np.where(kin, 0.0, np.abs(itself[y]) + later[y]))
        zero = np.zeros(len(a))
        at_x = np.where(met, np.where(x > y, itself[x], scale[y]), zero)
        at_y = np.where(met, np.where(y > x, itself[y], scale[x]), zero)
        if single:
            firsts.append(both[:, None])
            seconds.append(both[:, None])
        else:
            firsts.append(np.stack([only_x, at_x, both], axis=1))
            seconds.append(np.stack([np.where(kin, only_y, 0.0), np.where(kin, at_y, only_y), both], axis=1))
        tags += [level] * (firsts[-1].shape[1])
    return _Regions(np.concatenate(firsts, axis=1), np.concatenate(seconds, axis=1), np.array(tags, dtype=np.int64))

"""How many answers of sums change when records do: by which labels agree in which sum, in tables of any size.

A sum maps cells to answers dimension by dimension, so that a product move on k blocks of dimensions becomes one of ``2**k`` answers,
or zero where the sum takes the two labels of a block for one; a 3-cycle becomes a 3-cycle (6 answers), a 2x2 move (4) or zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from bayesdp._arrays import Ints
from bayesdp._nested import Partition, set_partitions
from bayesdp.queries import SumPart


def partitions(dims: int, blocks: int) -> list[Partition]:
    """The ways to split the dimensions 0, 1, ..., dims - 1 into this number of blocks."""
    return [split for split in set_partitions(range(dims)) if len(split) == blocks]


TRIPLES = np.array([[0, 1, 2], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 0, 0]])
"""How three labels can agree: no two, the first two, the first and last, the last two, all."""


def agreement(first: Ints, second: Ints, third: Ints) -> Ints:
    """How three labels agree, as rows of `TRIPLES`."""
    start, ends, end = first == second, first == third, second == third
    return np.select([start & end, start, ends, end], [4, 1, 2, 3], 0)


def _cycle_sizes() -> Ints:
    sizes = np.zeros((5, 5), dtype=np.int64)
    for (i, a), (j, c) in product(enumerate(TRIPLES), enumerate(TRIPLES)):
        answers = np.zeros((3, 3), dtype=np.int64)
        np.add.at(answers, (a, c), 1)
        np.add.at(answers, (a, c[[1, 2, 0]]), -1)
        sizes[i, j] = np.abs(answers).sum()
    return sizes


CYCLE_SIZES = _cycle_sizes()
"""How many answers a 3-cycle changes, by how its labels on both sides agree."""


_MOST_LABELS = (150, 4000)
"""Labels of partitions that cross, to be compared three by three, and two by two."""


def agreements(codes: Sequence[Ints], *, pairs: bool = False) -> Ints | None:
    """Every way in which three labels of a dimension agree in partitions of it, as rows of `TRIPLES`, shape (ways, partitions).

    Of `pairs` of labels only, all or none. `codes` has the class of each label, partition by partition; the last is one class a label.
    None if partitions cross in too many ways to be listed.
    """
    different = {code.tobytes(): code for code in [np.zeros_like(codes[-1]), *codes]}
    levels = sorted(different.values(), key=lambda code: int(code.max()))
    level_of = [next(i for i, level in enumerate(levels) if np.array_equal(level, code)) for code in codes]
    if all(_parts(coarse, fine).sum() == fine.max() + 1 for coarse, fine in pairwise(levels)):
        found = _nested_agreements(levels)[:, level_of]
    else:  # of labels that agree in all but the last partition, two or three say it all
        labels = np.stack(codes)
        group = np.unique(labels[:-1], axis=1, return_inverse=True)[1].reshape(-1)
        order = np.argsort(group, kind="stable")
        place = np.arange(len(order)) - np.searchsorted(group[order], group[order])
        labels = labels[:, order[place < (2 if pairs else 3)]]
        count = labels.shape[1]
        if count > _MOST_LABELS[pairs]:
            return None
        if pairs:
            same = [np.unique(labels[:, first:] == labels[:, [first]], axis=1) for first in range(count)]
            found = 4 * np.concatenate(same, axis=1).T.astype(np.int64)
        else:
            triples = np.indices([count] * 3).reshape(3, -1)
            found = agreement(*(labels[:, chosen] for chosen in triples)).T
    # Two labels agree or not as the first two of three do.
    return np.unique(np.where(np.isin(found, (1, 4)), 4, 0) if pairs else found, axis=0)


def _parts(coarse: Ints, fine: Ints) -> Ints:
    """Into how many classes of another partition the classes of one fall."""
    count = int(coarse.max()) + 1
    return np.bincount(np.unique(fine * count + coarse) % count)


def _nested_agreements(levels: list[Ints]) -> Ints:
    """The ways to agree in partitions each of which refines the one before, from one class to one class a label."""
    # Three labels are in one class down to some level. There they part in three, or in two and one; the two are in one class down
    # to a later level, the last one if they are one label.
    last = len(levels) - 1
    parts = [_parts(coarse, fine)[coarse] for coarse, fine in pairwise(levels)]
    ways = [[4] * (last + 1)]
    for level in range(last):
        ways += [[4] * (level + 1) + [0] * (last - level)] if parts[level].max() > 2 else []
        for later in range(level + 1, last + 1):
            if np.any((parts[level] > 1) & (later == last or parts[later] > 1)):
                rest = [0] * (last - later)
                ways += [[4] * (level + 1) + [pair] * (later - level) + rest for pair in (1, 2, 3)]
    return np.array(ways)


_MOST = 20_000_000  # combinations of ways to agree, times sums


def changed_answers(
    invariants: tuple[SumPart, ...], asked: tuple[SumPart, ...], blocks: int, *, cycle: bool
) -> int | None:
    """The largest number of answers that a kept move changes, each by 1 or -1.

    Moves are products on `blocks` blocks of dimensions, or, with `cycle`, 3-cycles on two. None if group labels cross in too many
    ways to be compared.
    """
    parts = (*invariants, *asked)
    axes: list[Ints] = []
    for d, size in enumerate(asked[0].frame.shape):
        found = agreements([part.codes[d] for part in parts] + [np.arange(size)], pairs=not cycle)
        if found is None:
            return None
        axes.append(found)
    best = 0
    for split in partitions(len(axes), blocks):
        ways = [_ways([axes[d] for d in block]) for block in split]
        known = [found for found in ways if found is not None]
        if len(known) < len(ways) or math.prod(map(len, known)) * len(parts) > _MOST:
            return None
        sizes = _changed_by(known, cycle=cycle)
        allowed = sizes[~sizes[:, : len(invariants)].any(axis=1), len(invariants) :]
        best = max(best, int(allowed.sum(axis=1).max(initial=0)))
    return best


def _ways(axes: list[Ints]) -> Ints | None:
    """How different combinations of the labels of several dimensions agree in each sum."""
    found = axes[0]
    for axis in axes[1:]:
        if len(found) * axis.size > _MOST:
            return None
        first, second = found[:, None, :], axis[None, :, :]
        both = np.where(first == 4, second, np.where((second == 4) | (first == second), first, 0))
        found = np.unique(both.reshape(-1, axis.shape[1]), axis=0)
    return np.asarray(found[found[:, -1] == 0, :-1])  # the last column says if they are different


def _changed_by(ways: list[Ints], *, cycle: bool) -> Ints:
    """How many answers of each sum a move changes, by how its labels agree, shape (combinations of ways, sums)."""
    if cycle:
        return CYCLE_SIZES[ways[0][:, None, :], ways[1][None, :, :]].reshape(-1, ways[0].shape[1])
    differ = np.ones((1, ways[0].shape[1]), dtype=np.bool_)
    for way in ways:
        differ = np.unique((differ[:, None, :] & (way == 0)).reshape(-1, way.shape[1]), axis=0)
    return np.asarray(differ * 2 ** len(ways))

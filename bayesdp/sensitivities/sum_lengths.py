"""How far moves change the answers of stacked sums: counted, whatever the size of the table.

A sum maps cells to answers dimension by dimension, so that what a move becomes in it depends only on which labels the sum
tells apart. A product move on k blocks becomes a product move of ``2**k`` answers, or zero where the sum takes the two
labels of a block for one; a 3-cycle becomes a 3-cycle (6 answers), a 2x2 move (4) or zero. All entries are 1 and -1.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import product

import numpy as np
import numpy.typing as npt

from bayesdp.queries import SumPart
from bayesdp.sensitivities.kept_moves import Block, partitions
from bayesdp.sensitivities.label_kinds import TRIPLES, agreements, meet

type Ints = npt.NDArray[np.int64]

_MOST = 20_000_000
"""Combinations of ways to agree, times sums."""


def changed_answers(
    invariants: tuple[SumPart, ...], asked: tuple[SumPart, ...], blocks: int, *, cycle: bool
) -> int | None:
    """The largest number of answers that a kept move changes, each by 1 or -1.

    `invariants` are the sums that are kept, `asked` those that are asked for, of one table. Moves are products on `blocks` blocks of
    dimensions, or, with `cycle`, 3-cycles on two. None if group labels cross in too many ways to be compared.

    Examples
    --------
    >>> from bayesdp.queries import Identity, Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> both = Margins(table, ["county"], ["education"])
    >>> changed_answers(both.parts, (Identity(table) + both).parts, 2, cycle=False)
    4
    """
    frame = asked[0].frame
    parts = (*invariants, *asked)
    axes: list[Ints] = []
    for d, size in enumerate(frame.shape):
        found = agreements([part.codes[d] for part in parts] + [np.arange(size)])
        if found is None:
            return None
        # Two labels agree (1) or not (0) as the first two of three do.
        axes.append(found if cycle else np.unique(np.isin(found, (1, 4)).astype(np.int64), axis=0))
    best = 0
    for split in partitions(len(axes), 2 if cycle else blocks):
        sides = [_ways(axes, block, cycle=cycle) for block in split]
        if any(own is None for own in sides):
            return None
        ways = [own for own in sides if own is not None]
        if math.prod(map(len, ways)) * len(parts) > _MOST:
            return None
        best = max(best, _most_changed(ways, len(invariants), cycle=cycle))
    return best


def _ways(axes: list[Ints], block: Block, *, cycle: bool) -> Ints | None:
    """How different combinations of the labels of a block agree in each sum; the last column says if they are different."""

    def joined(first: Ints, second: Ints) -> Ints:
        if cycle:
            return meet(first, second)
        return np.unique((first[:, None, :] & second[None, :, :]).reshape(-1, first.shape[1]), axis=0)

    found = axes[block[0]]
    for d in block[1:]:
        if len(found) * len(axes[d]) * found.shape[1] > _MOST:
            return None
        found = joined(found, axes[d])
    return np.asarray(found[found[:, -1] == 0, :-1])


def _most_changed(ways: list[Ints], kept: int, *, cycle: bool) -> int:
    if any(not len(own) for own in ways):
        return 0
    if cycle:
        sizes = _CYCLES[ways[0][:, None, :], ways[1][None, :, :]].reshape(-1, ways[0].shape[1])
    else:
        alike = reduce(lambda a, b: np.unique((a[:, None] | b[None]).reshape(-1, a.shape[1]), axis=0), ways)
        sizes = (1 - alike) * 2 ** len(ways)
    allowed = sizes[~sizes[:, :kept].any(axis=1), kept:]
    return int(allowed.sum(axis=1).max(initial=0))


def _cycle_sizes() -> Ints:
    """How many answers a 3-cycle changes, by how its labels on both sides agree."""
    sizes = np.zeros((5, 5), dtype=np.int64)
    for (i, a), (j, c) in product(enumerate(TRIPLES), enumerate(TRIPLES)):
        answers = np.zeros((3, 3), dtype=np.int64)
        np.add.at(answers, (a, c), 1)
        np.add.at(answers, (a, c[[1, 2, 0]]), -1)
        sizes[i, j] = np.abs(answers).sum()
    return sizes


_CYCLES = _cycle_sizes()

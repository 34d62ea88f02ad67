"""Which differences between two tables keep all the invariants: the rows of a guarantee.

And the moves that change no nested sum, listed: products of differences on blocks of dimensions, under the rules of
`bayesdp.moves.families`, and 3-cycles: +1 at the cells ``(a_i, c_i)`` and -1 at ``(a_i, c_{i+1})`` for labels ``a_1, a_2, a_3`` of
one block and ``c_1, c_2, c_3`` of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, permutations, product

import numpy as np
import numpy.typing as npt

from bayesdp._nested import NestedSums
from bayesdp.invariants import Invariants
from bayesdp.moves.basis import integer_kernel
from bayesdp.moves.families import Classes, Partition, block_classes, classes_of, family_sizes, rules, set_partitions
from bayesdp.moves.listed import short_combinations
from bayesdp.sensitivities.differences import DIFFERENCES, Difference
from bayesdp.sensitivities.norms import column_groups

ADDED = Difference("one record added to or removed from a cell that no invariant counts", 1.0, 1.0)
"""The difference of general invariants that leave cells out."""

type Ints = npt.NDArray[np.int64]

_GENERAL_CELLS = 400  # general invariants of larger tables: the search for short differences would take too long
_AT_ONCE = 1 << 18  # moves in one array


def kept_differences(invariants: Invariants) -> tuple[Difference, ...]:
    """The smallest kinds of difference that change no invariant: tables that differ by more are protected less.

    General invariants: a record substituted between cells that all of them treat alike, or the smallest change that was found.
    """
    if invariants.nested is not None:
        return _of_sums(invariants.nested)
    alike = np.bincount(column_groups(invariants.matrix), minlength=1)  # first the cells that nothing counts
    found = [ADDED] if alike[0] else []
    if np.any(alike > 1):
        found.append(DIFFERENCES["substitution"])
    changes = () if found else found_changes(invariants)
    if len(changes):
        found.append(
            smallest(changes, "the smallest change found that keeps every invariant (there may be smaller ones)")
        )
    return tuple(found)


def _of_sums(nested: NestedSums) -> tuple[Difference, ...]:
    """The kinds of product moves that nested sums let happen, with 3-cycles beside 2x2 moves of three labels."""
    found: list[Difference] = []
    for sizes in family_sizes(nested):
        blocks = len(sizes)
        if blocks == 1:
            found.append(DIFFERENCES["substitution"])
        elif blocks == 2:
            found.append(DIFFERENCES["2x2 move"])
            if min(sizes) >= 3:
                found.append(DIFFERENCES["3-cycle"])
        else:
            size, name = 2.0**blocks, "x".join("2" * blocks)
            found.append(
                Difference(
                    f"{2 ** (blocks - 1)} records exchange categories within a {name} subtable, all its "
                    f"margins of fewer dimensions kept ({name} move)",
                    size,
                    math.sqrt(size),
                )
            )
    return tuple(sorted(dict.fromkeys(found), key=lambda difference: difference.l1))


def smallest(changes: Ints, words: str) -> Difference:
    """The smallest of the changes that were found, as a kind of its own."""
    least = changes[np.argmin(np.abs(changes).sum(axis=1))].astype(np.float64)
    return Difference(words, float(np.abs(least).sum()), float(np.linalg.norm(least)), found=True)


@lru_cache(maxsize=8)
def found_changes(invariants: Invariants) -> Ints:
    """Short changes of a table that keep general invariants, shape (changes, cells); none where it is too large to search."""
    if invariants.frame.size > _GENERAL_CELLS:
        return np.zeros((0, invariants.frame.size), dtype=np.int64)
    return short_combinations(integer_kernel(invariants.matrix.toarray()))


def partitions(dims: int, blocks: int) -> list[Partition]:
    """The ways to split the dimensions 0, 1, ..., dims - 1 into this number of blocks."""
    return [split for split in set_partitions(range(dims)) if len(split) == blocks]


def product_moves(nested: NestedSums, blocks: int, most: int) -> Iterator[Ints] | None:
    """List the cells of all moves on this number k of blocks that change no sum, as arrays of shape ``(moves, 2**k)``.

    The last block runs fastest. A move may come twice. None if there are more than `most` moves.
    """
    listed: list[list[Classes]] = []
    count = 0
    for split in partitions(len(nested.axes), blocks):
        for rule in rules(split, nested.generators, len(nested.axes)):
            factors = [classes_of(*block_classes(nested, block, rule)) for block in split]
            pairs = [sum(math.comb(len(cells), 2) for cells in classes) for classes in factors]
            count += math.prod(pairs)
            if max(*pairs, count) > most:
                return None
            listed.append(factors)
    return (cells for factors in listed for cells in _products(factors))


def _products(factors: list[Classes]) -> Iterator[Ints]:
    """The cells of every product of one pair of each block, shape (moves, 2**blocks), at most `_AT_ONCE` moves at a time."""
    pairs = [
        np.concatenate([offsets[np.array(np.triu_indices(len(offsets), 1))] for offsets in classes], axis=1)
        for classes in factors
    ]
    sizes = [pair.shape[1] for pair in pairs]
    for start in range(0, math.prod(sizes), _AT_ONCE):
        where = np.unravel_index(np.arange(start, min(start + _AT_ONCE, math.prod(sizes))), sizes)
        cells = np.zeros((len(where[0]), 1), dtype=np.int64)
        for pair, chosen in zip(pairs, where, strict=True):
            cells = (cells[:, :, None] + pair[:, chosen].T[:, None, :]).reshape(len(cells), -1)
        yield cells


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


def count_cycles(nested: NestedSums) -> int:
    """How many 3-cycles there are on the labels of all pairs of blocks, whether or not they change a sum."""
    total = 0
    for split in partitions(len(nested.axes), 2):
        total += 6 * math.prod(math.comb(math.prod(nested.axes[d].size for d in block), 3) for block in split)
    return total


def cycles(nested: NestedSums) -> Iterator[Ints]:
    """List the cells of all 3-cycles that change no sum, shape (cycles, 6): +1 on the first three, -1 on the others.

    One of each cycle and its negative is listed.
    """
    tops = tuple(len(axis.codes) - 1 for axis in nested.axes)
    for split in partitions(len(nested.axes), 2):
        # The smaller block is run through one by one.
        one, other = sorted(split, key=lambda block: math.prod(nested.axes[d].size for d in block))
        left, right = block_classes(nested, one, tops)[1], block_classes(nested, other, tops)[1]
        second = np.array(list(permutations(range(len(right)), 3)), dtype=np.int64).reshape(-1, 3)
        sums = [
            (block_classes(nested, one, g)[0], agreement(*block_classes(nested, other, g)[0][second.T]))
            for g in nested.generators
        ]
        for chosen in combinations(range(len(left)), 3):
            a = list(chosen)
            keep = np.ones(len(second), dtype=np.bool_)
            for codes, agreeing in sums:
                keep &= CYCLE_SIZES[agreement(*codes[a]), agreeing] == 0
            c = second[keep]
            for start in range(0, len(c), _AT_ONCE):
                part = c[start : start + _AT_ONCE]
                yield np.concatenate([left[a] + right[part], left[a] + right[part[:, [1, 2, 0]]]], axis=1)

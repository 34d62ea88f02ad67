"""Which differences between two tables keep all the invariants: the rows of a guarantee; and how far they move the answers.

Moves that change no nested sum are listed here: products of differences on blocks of dimensions, under the rules of
`bayesdp._nested`, and 3-cycles: +1 at the cells ``(a_i, c_i)`` and -1 at ``(a_i, c_{i+1})`` for labels ``a_1, a_2, a_3`` of
one block and ``c_1, c_2, c_3`` of another.

A guarantee for neighbouring tables is about tables that the invariants may tell apart. Restated on the tables that conform
to the invariants (Gao, Gong and Yu, 2022, Section 2), it is about differences z with ``A z = 0``: for each kind of them, the
largest length, in the norm of a mechanism, of what z changes in the answers. Found, in this order,

- by counting, for sums, in tables of any size (`bayesdp.privacy.sensitivities.counted`);
- as products of what each block has, in Helmert coordinates;
- by listing all differences of the kind;
- else as an upper bound: of two moves that make a 3-cycle, or of as many neighbouring steps as the difference takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations, product

import numpy as np
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints
from bayesdp._nested import Classes, NestedSums, block_classes, classes_of, family_sizes, rules
from bayesdp.fibers.moves.basis import integer_kernel, short_combinations
from bayesdp.invariants import Invariants
from bayesdp.privacy.sensitivities.counted import CYCLE_SIZES, agreement, changed_answers, partitions
from bayesdp.privacy.sensitivities.norms import (
    CHUNK,
    DIFFERENCES,
    MOST_CELLS,
    MOST_NUMBERS,
    MOST_PRODUCTS,
    Difference,
    DifferenceLength,
    DifferenceNorm,
    column_groups,
    distinct_columns,
    largest_distance,
)
from bayesdp.privacy.sensitivities.queries import move_l1
from bayesdp.queries import SumPart

ADDED = Difference("one record added to or removed from a cell that no invariant counts", 1.0, 1.0)
"""The difference of general invariants that leave cells out."""


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
    if not found and len(changes := found_changes(invariants)):
        words = "the smallest change found that keeps every invariant (there may be smaller ones)"
        found.append(smallest(changes, words))
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


_WORK = 150_000_000  # the most numbers that are compared in a list of differences


def difference_lengths(norm: DifferenceNorm) -> tuple[DifferenceLength, ...]:
    """The largest length of each kind of difference that keeps the invariants, over all differences of the kind.

    Empty only where general invariants of a large table leave no kind that is known.
    """
    nested = norm.invariants.nested
    if nested is None:
        return _general_lengths(norm)
    found: dict[Difference, DifferenceLength] = {}
    alike = norm.query.is_identity and (norm.kind == "K" or norm.coordinates is None)
    for difference in kept_differences(norm.invariants):
        size = _exact(norm, nested, difference)
        if size is not None:
            found[difference] = DifferenceLength(difference, size, "" if alike else "largest")
            continue
        bound = norm.upper_length(difference.l1)
        move = found.get(DIFFERENCES["2x2 move"])
        if difference == DIFFERENCES["3-cycle"] and move is not None and _is_two_moves(nested):
            bound = min(bound, 2.0 * move.size)
        found[difference] = DifferenceLength(difference, bound, "upper")
    return tuple(found.values())


def _exact(norm: DifferenceNorm, nested: NestedSums, difference: Difference) -> float | None:
    """The largest length of a kind of move that keeps nested sums: by counting, as a product or by listing; else None."""
    cycle = difference == DIFFERENCES["3-cycle"]
    blocks = 2 if cycle else round(math.log2(difference.l1))
    if norm.sums:
        changed = changed_answers(nested.parts, norm.sums, blocks, cycle=cycle)
        if changed is not None:
            return norm.of_count(changed)
    if norm.helmert and not cycle and (size := _product_of_blocks(norm, nested, blocks)) is not None:
        return size
    if blocks == 1:
        return _substituted(norm)
    return _listed(norm, nested, blocks, cycle=cycle)


def _is_two_moves(nested: NestedSums) -> bool:
    """Whether every 3-cycle that changes no sum is two 2x2 moves that change none.

    It is if all labels of one side agree in each sum. The other way to cancel takes a sum in which two labels of a side agree
    and a third does not, on both sides.
    """

    def all_or_none(block: Sequence[int], levels: tuple[int, ...]) -> bool:
        classes = math.prod(nested.axes[d].classes[levels[d]] for d in block)
        return classes in (1, math.prod(nested.axes[d].size for d in block))

    return all(
        any(all_or_none(block, levels) for block in split)
        for split in partitions(len(nested.axes), 2)
        for levels in nested.generators
    )


def _product_of_blocks(norm: DifferenceNorm, nested: NestedSums, blocks: int) -> float | None:
    """Product moves in Helmert coordinates: the product of what each block has, 0 where the answers do not tell its labels apart."""
    answers = norm.invariants.through(norm.query).nested
    [part] = norm.query.parts
    if answers is None or not isinstance(part, SumPart):
        return None
    axis_of = dict(zip((d for d, level in enumerate(part.levels) if level is not None), answers.axes, strict=False))
    best = 0.0
    for split in partitions(len(nested.axes), blocks):
        for rule in rules(split, nested.generators, len(nested.axes)):
            size = 1.0
            for block in split:
                told = [d for d in block if d in axis_of]
                # The partitions are nested: the rule either joins whole answers, or takes labels of different answers for different.
                classes = [nested.axes[d].codes[rule[d]][np.unique(part.codes[d], return_index=True)[1]] for d in told]
                try:
                    size *= move_l1([axis_of[d] for d in told], classes) if told else 0.0
                except NotImplementedError:
                    return None
            best = max(best, size)
    return best


def _listed(norm: DifferenceNorm, nested: NestedSums, blocks: int, *, cycle: bool) -> float | None:
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
        signs = np.array([(-1) ** end.bit_count() for end in range(ends)])
        moves = product_moves(nested, blocks, most)
    if moves is None:
        return None
    if gram is not None:
        return _longest_by_gram(images, gram, moves, signs)
    best, measured = 0.0, 0
    for cells in moves:
        step = max(CHUNK // images.shape[1], 1)
        for start in range(0, len(cells), step):
            terms = zip(signs, cells[start : start + step].T, strict=True)
            points = np.asarray(sum(sign * images[end] for sign, end in terms))
            points = np.unique(points, axis=0) if norm.kind == "K" else points
            measured += len(points)
            if norm.kind == "K" and measured > norm.most:
                return None
            best = max(best, float(norm.lengths(points).max(initial=0.0)))
    return best


def _longest_by_gram(images: Floats, gram: Floats, moves: Iterator[Ints], signs: Ints) -> float:
    """The largest ``|sum_i s_i x_i|_2`` over lists of cells, from the inner products: ``sum_ij s_i s_j gram_ij``."""
    best, where = -1.0, np.zeros(len(signs), dtype=np.int64)
    for cells in filter(len, moves):
        squares = np.zeros(len(cells))
        for i, j in product(range(len(signs)), repeat=2):
            squares += (signs[i] * signs[j]) * gram[cells[:, i], cells[:, j]]
        top = int(np.argmax(squares))
        if squares[top] > best:
            best, where = float(squares[top]), cells[top]
    # Measured again: inner products cancel where the images are long and the difference is short.
    return float(np.linalg.norm(signs @ images[where])) if best >= 0.0 else 0.0


def _general_lengths(norm: DifferenceNorm) -> tuple[DifferenceLength, ...]:
    """The lengths of one record that changes its cell, or comes or goes; without these, of the smallest change that was found."""
    found = []
    for difference in kept_differences(norm.invariants):
        if difference.found:
            found.append(_longest_found(norm, difference))
            continue
        size = _substituted(norm) if difference == DIFFERENCES["substitution"] else _added(norm)
        if size is None:
            found.append(DifferenceLength(difference, norm.upper_length(difference.l1), "upper"))
        else:
            found.append(DifferenceLength(difference, size, "largest"))
    if found and not any(length.size for length in found):
        changes = found_changes(norm.invariants)
        changes = changes[_changed(norm, changes).toarray().any(axis=0)]
        if len(changes):
            words = (
                "the smallest change found that keeps every invariant and changes an answer (there may be smaller ones)"
            )
            found.append(_longest_found(norm, smallest(changes, words)))
    return tuple(found)


def _substituted(norm: DifferenceNorm) -> float | None:
    """One record changes between two cells that all invariants treat alike."""
    if len(norm.sums) == 1:
        [part] = norm.sums
        group, answer = column_groups(norm.invariants.matrix), part.row_of_cell
        apart = len(np.unique(group * part.rows + answer)) > len(np.unique(group))
        return norm.of_count(2) if apart else 0.0
    columns = sp.csc_array(norm.query.matrix)
    cells = distinct_columns(sp.csc_array(sp.vstack([norm.invariants.matrix, columns])))
    groups = [alike for alike in classes_of(column_groups(norm.invariants.matrix[:, cells]), cells) if alike.size > 1]
    pairs = sum(math.comb(alike.size, 2) for alike in groups)
    wide = max((alike.size for alike in groups), default=0)
    if wide > MOST_CELLS or wide * norm.query.rows > MOST_NUMBERS or pairs * norm.query.rows > MOST_PRODUCTS:
        return None
    if norm.kind == "K" and pairs > norm.most:
        return None
    best = 0.0
    for alike in groups:
        images = norm.images(sp.csc_array(columns[:, alike]))
        if norm.kind == "K":
            i, j = np.triu_indices(alike.size, 1)
            best = max(best, float(norm.lengths(images[i] - images[j]).max()))
        else:
            best = max(best, largest_distance(images, norm.kind, "cells"))
    return best


def _added(norm: DifferenceNorm) -> float | None:
    """One record in a cell that no invariant counts."""
    if len(norm.sums) == 1 and (norm.kind != "K" or norm.neighbours == "add-remove"):
        return norm.of_count(1)
    columns = sp.csc_array(norm.query.matrix)[:, column_groups(norm.invariants.matrix) == 0]
    columns = sp.csc_array(columns[:, distinct_columns(columns)])
    if norm.kind == "K" and norm.neighbours == "add-remove" and columns.shape[1] > norm.most:
        return None  # it is a neighbouring step
    step = max(CHUNK // norm.query.rows, 1)
    points = (norm.images(columns[:, start : start + step]) for start in range(0, columns.shape[1], step))
    return max(float(norm.lengths(block).max()) for block in points)


def _changed(norm: DifferenceNorm, changes: Ints) -> sp.csc_array:
    """The answers to changes of a table, shape (m, cells), as the m columns of a sparse matrix."""
    return sp.csc_array(norm.query.matrix @ sp.csc_array(changes.T))


def _longest_found(norm: DifferenceNorm, difference: Difference) -> DifferenceLength:
    """The longest of the changes that were found and are as small as the difference."""
    changes = found_changes(norm.invariants)
    changes = changes[np.abs(changes).sum(axis=1) == round(difference.l1)]
    return DifferenceLength(difference, float(norm.lengths(norm.images(_changed(norm, changes))).max()), "")

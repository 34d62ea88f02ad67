"""How far the smallest differences that change no invariant move the answers, in the norm of a mechanism.

A guarantee for neighbouring tables is about tables that the invariants may tell apart. Restated on the tables that conform
to the invariants (Gao, Gong and Yu, 2022, Section 2), it is about differences z with ``A z = 0``: for each kind of them, the
largest length of what z changes in the answers. Found, in this order,

- by counting, for sums (`bayesdp.sensitivities.difference_lengths`), and as products, in Helmert coordinates: tables of any size;
- by listing all differences of the kind;
- else as an upper bound: of two moves that make a 3-cycle, or of as many neighbouring steps as the difference takes.

Which labels of one dimension tell partitions apart: a few labels that stand for all of them.

Whether two (or three) labels agree in a partition is all that a move on them depends on. Where partitions are nested,
labels of classes of equal shape are exchangeable, so that three of each shape show every way in which up to three labels
can agree: a dimension of a thousand labels without groups is as good as one of three.

How far moves change the answers of stacked sums: counted, whatever the size of the table.

A sum maps cells to answers dimension by dimension, so that what a move becomes in it depends only on which labels the sum
tells apart. A product move on k blocks becomes a product move of ``2**k`` answers, or zero where the sum takes the two
labels of a block for one; a 3-cycle becomes a 3-cycle (6 answers), a 2x2 move (4) or zero. All entries are 1 and -1.

The longest difference of a kind, where all differences of the kind can be listed.
The lengths of differences that keep general invariants, which are known by their matrix only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import NestedSums
from bayesdp.queries import SumPart
from bayesdp.sensitivities.differences import DIFFERENCES, Difference, DifferenceLength
from bayesdp.sensitivities.helmert import move_l1
from bayesdp.sensitivities.kept import (
    Block,
    block_codes,
    column_groups,
    count_cycles,
    cycles,
    found_changes,
    kept_differences,
    partitions,
    product_moves,
    rules,
)
from bayesdp.sensitivities.norms import (
    MOST_CELLS,
    MOST_NUMBERS,
    MOST_PRODUCTS,
    DifferenceNorm,
    distinct_columns,
    largest_distance,
)

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


def general_lengths(norm: DifferenceNorm) -> tuple[DifferenceLength, ...]:
    """The lengths of one record that changes its cell, or comes or goes; without these, of the smallest change that was found."""
    found = []
    for difference in kept_differences(norm.invariants):
        if difference == DIFFERENCES["substitution"]:
            size = substituted_length(norm)
        elif difference.l1 == 1.0:
            size = _added(norm)
        else:
            found.append(_smallest(norm, difference))
            continue
        if size is None:
            found.append(DifferenceLength(difference, norm.upper_length(difference.l1), "upper"))
        else:
            found.append(DifferenceLength(difference, size, "largest"))
    if found and not any(own.size for own in found):
        found += _smallest_that_shows(norm)
    return tuple(found)


def substituted_length(norm: DifferenceNorm) -> float | None:
    """One record changes between two cells that all invariants treat alike."""
    if len(norm.sums) == 1:
        [part] = norm.sums
        group, answer = column_groups(norm.invariants.matrix), part.row_of_cell
        apart = len(np.unique(group * part.rows + answer)) > len(np.unique(group))
        return norm.of_count(2) if apart else 0.0
    columns = sp.csc_array(norm.query.matrix)
    reps = distinct_columns(sp.csc_array(sp.vstack([norm.invariants.matrix, columns])))
    group = column_groups(sp.csr_array(norm.invariants.matrix[:, reps]))
    order = np.argsort(group, kind="stable")
    groups = [reps[own] for own in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if own.size > 1]
    pairs = sum(own.size * (own.size - 1) // 2 for own in groups)
    wide = max((own.size for own in groups), default=0)
    if wide > MOST_CELLS or wide * norm.query.rows > MOST_NUMBERS or pairs * norm.query.rows > MOST_PRODUCTS:
        return None
    if norm.kind == "K" and pairs > norm.most:
        return None
    best = 0.0
    for own in groups:
        images = norm.images(sp.csc_array(columns[:, own]))
        if norm.kind == "K":
            i, j = np.triu_indices(own.size, 1)
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
    step = max(4_000_000 // norm.query.rows, 1)
    points = (norm.images(columns[:, start : start + step]) for start in range(0, columns.shape[1], step))
    return max(float(norm.lengths(own).max()) for own in points)


def _changed(norm: DifferenceNorm, changes: Ints) -> sp.csc_array:
    """The answers to changes of a table, shape (m, cells), as the m columns of a sparse matrix."""
    return sp.csc_array(norm.query.matrix @ sp.csc_array(changes.T))


def _smallest(norm: DifferenceNorm, difference: Difference) -> DifferenceLength:
    """The longest of the smallest changes that were found."""
    changes = found_changes(norm.invariants)
    changes = changes[np.abs(changes).sum(axis=1) == round(difference.l1)]
    return DifferenceLength(difference, float(norm.lengths(norm.images(_changed(norm, changes))).max()), "")


def _smallest_that_shows(norm: DifferenceNorm) -> list[DifferenceLength]:
    """Where no listed difference changes an answer: the smallest change found that does."""
    changes = found_changes(norm.invariants)
    shows = np.abs(_changed(norm, changes).toarray()).any(axis=0)
    changes = changes[shows]
    if not len(changes):
        return []
    sizes = np.abs(changes).sum(axis=1)
    changes = changes[sizes == sizes.min()]
    difference = Difference(
        "the smallest change found that keeps every invariant and changes an answer (there may be smaller ones)",
        float(sizes.min()),
        float(np.linalg.norm(changes[0])),
        found=True,
    )
    return [_smallest(norm, difference)]


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


def difference_lengths(norm: DifferenceNorm) -> tuple[DifferenceLength, ...]:
    """The largest length of each kind of difference that keeps the invariants, over all differences of the kind.

    Empty only where general invariants of a large table leave no kind that is known.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Identity, Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> both = Invariants(Margins(table, ["county"], ["education"]))
    >>> stack = Identity(table) + Identity(table)
    >>> [(own.difference.l1, own.size) for own in difference_lengths(DifferenceNorm(stack, both, "substitution", 4.0, "l1"))]
    [(4.0, 8.0)]
    """
    nested = norm.invariants.nested
    if nested is None:
        return general_lengths(norm)
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
        return substituted_length(norm)
    return listed_length(norm, nested, blocks, cycle=cycle)


def _is_two_moves(nested: NestedSums) -> bool:
    """Whether every 3-cycle that changes no sum is two 2x2 moves that change none.

    It is if all labels of one side agree in each sum. The other way to cancel takes a sum in which two labels of a side agree
    and a third does not, on both sides.
    """

    def all_or_none(block: tuple[int, ...], levels: tuple[int, ...]) -> bool:
        code, _ = block_codes(nested, block, levels)
        return len(np.unique(code)) in (1, len(code))

    return all(
        any(all_or_none(block, levels) for block in split)
        for split in partitions(len(nested.axes), 2)
        for levels in nested.generators
    )


def _product_of_blocks(norm: DifferenceNorm, nested: NestedSums, blocks: int) -> float | None:
    """Product moves in Helmert coordinates: the product of what each block has."""
    answers = norm.invariants.through(norm.query).nested
    [part] = norm.query.parts
    if answers is None or not isinstance(part, SumPart):
        return None
    axis_of = {d: i for i, d in enumerate(d for d, level in enumerate(part.levels) if level is not None)}
    best = 0.0
    for split in partitions(len(nested.axes), blocks):
        for rule in rules(nested, split):
            size = 1.0
            for block in split:
                own = [d for d in block if d in axis_of]
                if not own:  # the answers do not tell the labels of this block apart
                    size = 0.0
                    break
                classes = [_answer_classes(part.codes[d], nested.axes[d].codes[rule[d]]) for d in own]
                try:
                    size *= move_l1([answers.axes[axis_of[d]] for d in own], classes)
                except NotImplementedError:
                    return None
            best = max(best, size)
    return best


def _answer_classes(answer: Ints, rule: Ints) -> Ints:
    """Classes of the labels of an answer: of one class if labels of the table that agree under the rule lead to both.

    The partitions are nested: the rule either joins whole answers, or takes labels of different answers for different.
    """
    return np.asarray(rule[np.unique(answer, return_index=True)[1]])

"""How far the smallest differences that change no invariant move the answers, in the norm of a mechanism.

A guarantee for neighbouring tables is about tables that the invariants may tell apart. Restated on the tables that conform
to the invariants (Gao, Gong and Yu, 2022, Section 2), it is about differences z with ``A z = 0``: for each kind of them, the
largest length of what z changes in the answers. Found, in this order,

- by counting, for sums (`bayesdp.sensitivities.sum_lengths`), and as products, in Helmert coordinates: tables of any size;
- by listing all differences of the kind;
- else as an upper bound: of two moves that make a 3-cycle, or of as many neighbouring steps as the difference takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import NestedSums
from bayesdp.queries import SumPart
from bayesdp.sensitivities.differences import DIFFERENCES, Difference
from bayesdp.sensitivities.farthest import distinct_columns, largest_distance
from bayesdp.sensitivities.helmert import move_l1
from bayesdp.sensitivities.kept import column_groups, found_changes, kept_differences
from bayesdp.sensitivities.kept_moves import block_codes, count_cycles, cycles, partitions, product_moves, rules
from bayesdp.sensitivities.norms import RECORDS, DifferenceNorm
from bayesdp.sensitivities.sum_lengths import changed_answers

__all__ = ["DifferenceLength", "difference_lengths"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_CELLS = 3000
"""Cells whose answers are written out."""

_NUMBERS = 30_000_000
"""Cells times coordinates that are written out."""

_WORK = 150_000_000
"""Numbers looked at in a list of differences."""

_PRODUCTS = 2_000_000_000
"""Pairs of cells times coordinates: about a second."""


@dataclass(frozen=True)
class DifferenceLength:
    """One kind of difference that keeps the invariants, and how long it gets.

    Attributes
    ----------
    difference : Difference
    size : float
        The largest length of all differences of the kind, or an upper bound of it.
    bound : {"", "largest", "upper"}
        Whether all differences of the kind are equally long, or the size is the largest of them, or an upper bound of it.
    """

    difference: Difference
    size: float
    bound: str


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
        return _general(norm)
    found: dict[Difference, DifferenceLength] = {}
    alike = norm.query.is_identity and (norm.kind == "K" or norm.coordinates is None)
    for difference in kept_differences(norm.invariants):
        size = _exact(norm, nested, difference)
        if size is not None:
            found[difference] = DifferenceLength(difference, size, "" if alike else "largest")
            continue
        bound = _steps(norm, difference.l1)
        move = found.get(DIFFERENCES["2x2 move"])
        if difference == DIFFERENCES["3-cycle"] and move is not None and _is_two_moves(nested):
            bound = min(bound, 2.0 * move.size)
        found[difference] = DifferenceLength(difference, bound, "upper")
    return tuple(found.values())


def _steps(norm: DifferenceNorm, l1: float) -> float:
    """At most: as many neighbouring steps as lead from one table to the other, if they have the same number of records."""
    return l1 / RECORDS[norm.neighbours] * norm.step


def _exact(norm: DifferenceNorm, nested: NestedSums, difference: Difference) -> float | None:
    """The largest length of a kind of move on nested sums; None where it is neither counted nor listed."""
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


def _listed(norm: DifferenceNorm, nested: NestedSums, blocks: int, *, cycle: bool) -> float | None:
    """The longest of all differences of a kind, if they are few enough to be listed."""
    images = _cell_images(norm)
    if images is None:
        return None
    ends = 6 if cycle else 2**blocks
    gram = images @ images.T if norm.kind == "l2" and len(images) ** 2 * images.shape[1] <= _PRODUCTS else None
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


def _cell_images(norm: DifferenceNorm) -> Floats | None:
    """What a record in each cell adds to the coordinates, shape (cells, n); None for large tables."""
    cells = norm.invariants.frame.size
    if cells > _CELLS or cells * norm.query.rows > _NUMBERS:
        return None
    return norm.images(sp.csc_array(norm.query.matrix))


def _general(norm: DifferenceNorm) -> tuple[DifferenceLength, ...]:
    """General invariants: a record that comes or goes or changes its cell, or the smallest change that was found."""
    found = []
    for difference in kept_differences(norm.invariants):
        if difference == DIFFERENCES["substitution"]:
            size = _substituted(norm)
            bound = _steps(norm, difference.l1)
            found.append(
                DifferenceLength(difference, bound, "upper")
                if size is None
                else DifferenceLength(difference, size, "largest")
            )
        elif difference.l1 == 1.0:
            size = _added(norm)
            bound = _steps(norm, difference.l1)
            found.append(
                DifferenceLength(difference, bound, "upper")
                if size is None
                else DifferenceLength(difference, size, "largest")
            )
        else:
            found.append(_smallest(norm, difference))
    if found and not any(own.size for own in found):
        found += _smallest_that_shows(norm)
    return tuple(found)


def _substituted(norm: DifferenceNorm) -> float | None:
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
    if wide > _CELLS or wide * norm.query.rows > _NUMBERS or pairs * norm.query.rows > _PRODUCTS:
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

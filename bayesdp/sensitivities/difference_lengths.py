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

import numpy as np
import numpy.typing as npt

from bayesdp._nested import NestedSums
from bayesdp.queries import SumPart
from bayesdp.sensitivities.differences import DIFFERENCES, Difference, DifferenceLength
from bayesdp.sensitivities.general_lengths import general_lengths, substituted_length
from bayesdp.sensitivities.helmert import move_l1
from bayesdp.sensitivities.kept import kept_differences
from bayesdp.sensitivities.kept_moves import block_codes, partitions, rules
from bayesdp.sensitivities.listed_lengths import listed_length
from bayesdp.sensitivities.norms import DifferenceNorm
from bayesdp.sensitivities.sum_lengths import changed_answers

type Ints = npt.NDArray[np.int64]


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

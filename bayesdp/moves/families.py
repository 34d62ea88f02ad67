"""Product moves of nested sums, and which sets of moves are known to connect every table.

A product move is a product of differences. The dimensions of the table are split into blocks; in each block
two (combinations of) labels are drawn, and the move is the product of the differences of their indicators: +1
and -1 on ``2**blocks`` cells. One block gives the pair moves ``e_a - e_b`` of totals, two give the 2x2 moves
of two-way margins, three the basic moves of a three-way table with all two-way margins.

A sum is a product of maps, one for each dimension, so a product move leaves it alone just when, in some
block, the two labels agree in everything that the sum keeps of that block. Requiring this for every sum
gives, for each dimension, a level of the nested partitions at which the two labels must agree: the *rule* of
a family.

That the families kept here generate every integer vector that changes no sum:
`bayesdp.moves.basis.kernel_basis` consists of products of differences on the dimensions D where the
component is not a mean. Pick for each sum one dimension of D that it averages out; written out over the other
dimensions, the vector is a signed sum of product moves whose blocks hold one picked dimension each. Families
are only left out where another one generates their moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bayesdp._nested import NestedSums

type Ints = npt.NDArray[np.int64]
type Levels = tuple[int, ...]
type Partition = list[list[int]]

type Classes = list[Ints]
"""Offsets of a block's label combinations, class by class: two of one class may be exchanged."""


def classes_of(codes: Ints, offsets: Ints) -> Classes:
    """Group offsets by their codes."""
    order = np.argsort(codes, kind="stable")
    return np.split(offsets[order], np.flatnonzero(np.diff(codes[order])) + 1)


def set_partitions(items: Sequence[int]) -> Iterator[Partition]:
    """All ways to split some items into blocks."""
    if not items:
        yield []
        return
    head, *rest = items
    for smaller in set_partitions(rest):
        yield [[head], *smaller]
        for i, block in enumerate(smaller):
            yield [*smaller[:i], [head, *block], *smaller[i + 1 :]]


def _at_most(a: Levels, b: Levels) -> bool:
    return all(i <= j for i, j in zip(a, b, strict=True))


def rules(partition: Partition, generators: Sequence[Levels], dims: int) -> list[Levels]:
    """The least strict rules under which the product moves of a partition change no sum."""
    # Each sum is assigned to the block that takes care of it. Only the least strict rules are kept after each sum: a stricter rule
    # stays stricter whatever is added to both.
    found: set[Levels] = {(0,) * dims}
    for generator in generators:
        added = [tuple(generator[dim] if dim in block else 0 for dim in range(dims)) for block in partition]
        longer = {tuple(map(max, rule, more)) for rule in found for more in added}
        found = {rule for rule in longer if not any(other != rule and _at_most(other, rule) for other in longer)}
    return sorted(found)


def _every_block_counts(partition: Partition, rule: Levels, generators: Sequence[Levels]) -> bool:
    """Whether each block takes care of a sum that no other block does."""
    # If one does not, its difference can be written out: the move is a difference of two product moves of fewer blocks, which
    # another family has.

    def cares(block: list[int], generator: Levels) -> bool:
        return all(rule[dim] >= generator[dim] for dim in block)

    alone = [[b for b in partition if cares(b, g)] for g in generators]
    return all(any(found == [block] for found in alone) for block in partition)


def _generated(partition: Partition, rule: Levels, coarse: Partition, lax: Levels) -> bool:
    """Whether a family's moves are sums of moves of one with unions of its blocks and no stricter a rule.

    Writing out one of two blocks that the other family has as one: (a - b)(c - d) = (ac - bc) - (ad - bd). No
    cell cancels, so that the parts can be taken one after the other wherever the whole can: connectivity is
    kept too.
    """
    return all(any(set(b) <= set(c) for c in coarse) for b in partition) and _at_most(lax, rule)


def block_classes(nested: NestedSums, block: list[int], rule: Levels) -> tuple[Ints, Ints]:
    """Class and cell offset of every combination of the labels of a block."""
    shape = tuple(axis.size for axis in nested.axes)
    grid = np.indices([shape[dim] for dim in block]).reshape(len(block), -1)
    codes = np.zeros(grid.shape[1], dtype=np.int64)
    offsets = np.zeros(grid.shape[1], dtype=np.int64)
    for dim, labels in zip(block, grid, strict=True):
        code = nested.axes[dim].codes[rule[dim]]
        codes = codes * (int(code.max()) + 1) + code[labels]
        offsets += labels * int(np.prod(shape[dim + 1 :], dtype=np.int64))
    return codes, offsets


def row_of_cell(nested: NestedSums, levels: Levels) -> Ints:
    """For each cell, which of the sums at some levels it counts in."""
    codes, offsets = block_classes(nested, list(range(len(nested.axes))), levels)
    return codes[np.argsort(offsets)]


def product_families(nested: NestedSums, allowed: npt.NDArray[np.bool_]) -> list[list[Classes]]:
    """The families of product moves that generate every integer vector that changes no sum."""
    # `nested`: the sums. `allowed`, shape (cells,): cells that may move. Pair moves keep to them. Products of more blocks do not
    # look at them: the bounds of the cells that must not move block such a direction. For each family, for each block, the classes
    # of offsets; those of fewer blocks first.
    kept: list[tuple[Partition, Levels]] = []
    families: list[list[Classes]] = []
    for partition in sorted(set_partitions(range(len(nested.axes))), key=len):
        if len(partition) > len(nested.generators):
            break  # a block for each sum is enough
        for rule in rules(partition, nested.generators, len(nested.axes)):
            if not _every_block_counts(partition, rule, nested.generators):
                continue
            if any(_generated(partition, rule, coarse, lax) for coarse, lax in kept):
                continue
            factors = []
            for block in partition:
                codes, offsets = block_classes(nested, block, rule)
                if len(partition) == 1:
                    codes, offsets = codes[allowed[offsets]], offsets[allowed[offsets]]
                factors.append(classes_of(codes, offsets))
            if all(any(len(own) > 1 for own in classes) for classes in factors):
                kept.append((partition, rule))
                families.append(factors)
    return families


def family_sizes(nested: NestedSums) -> list[list[int]]:
    """For each family of product moves, for each block, how many combinations of labels its largest class has.

    The families of `product_families` where every cell may move, without writing any of them out: a class of a block is a
    product of classes of its dimensions.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Margins
    >>> table = {"a": range(1000), "b": range(500)}
    >>> family_sizes(Invariants(Margins(table, ["a"], ["b"])).nested)
    [[1000, 500]]
    """
    kept: list[tuple[Partition, Levels]] = []
    sizes: list[list[int]] = []
    largest = [[int(np.bincount(code).max()) for code in axis.codes] for axis in nested.axes]
    for partition in sorted(set_partitions(range(len(nested.axes))), key=len):
        if len(partition) > len(nested.generators):
            break  # as in product_families
        for rule in rules(partition, nested.generators, len(nested.axes)):
            block_sizes = [math.prod(largest[dim][rule[dim]] for dim in block) for block in partition]
            if min(block_sizes) < 2 or not _every_block_counts(partition, rule, nested.generators):
                continue
            if not any(_generated(partition, rule, coarse, lax) for coarse, lax in kept):
                kept.append((partition, rule))
                sizes.append(block_sizes)
    return sizes


def is_decomposable(nested: NestedSums) -> bool:
    """Whether the sums are margins (no group totals) that form a decomposable set.

    Graham's reduction (`is_junction_tree`): drop what only one margin keeps and drop margins inside others, as long as that is
    possible; the set is decomposable if nothing is left.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Margins
    >>> table = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
    >>> is_decomposable(Invariants(Margins(table, ["a", "b"], ["b", "c"])).nested)
    True
    >>> is_decomposable(Invariants(Margins(table, ["a", "b"], ["b", "c"], ["a", "c"])).nested)
    False
    """
    tops = tuple(len(axis.codes) - 1 for axis in nested.axes)
    if not all(level in (0, top) for g in nested.generators for level, top in zip(g, tops, strict=True)):
        return False
    return is_junction_tree([{dim for dim, level in enumerate(g) if level} for g in nested.generators])


def is_junction_tree(sets: Sequence[set[int]]) -> bool:
    """Whether sets of dimensions can be put into a junction tree, by Graham's reduction."""
    while sets:
        alone = {v for dims in sets for v in dims if sum(v in other for other in sets) == 1}
        smaller = [dims - alone for dims in sets]
        inside = {i if a <= b else j for (i, a), (j, b) in combinations(enumerate(smaller), 2) if a <= b or b <= a}
        remaining = [dims for i, dims in enumerate(smaller) if dims and i not in inside]
        if remaining == sets:
            return False
        sets = remaining
    return True

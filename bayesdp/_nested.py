"""Sums over nested labels, and the orthogonal structure that they share.

Margins and totals ask for sums over labels that are nested: the grand total, sums by state, sums by county. For
such queries the space of tables splits into orthogonal components, one for each combination of levels (as in an analysis of
variance), and everything that is needed (rank, projection, orthonormal coordinates) has a closed form without a matrix.

Product moves. The dimensions of the table are split into blocks; in each block two (combinations of) labels are drawn, and the move
is the product of the differences of their indicators: +1 and -1 on ``2**blocks`` cells. One block gives the pair moves ``e_a -
e_b`` of totals, two give the 2x2 moves of two-way margins, three the basic moves of a three-way table with all two-way margins.

A sum is a product of maps, one for each dimension, so a product move leaves it alone just when, in some block, the two labels agree
in everything that the sum keeps of that block. Requiring this for every sum gives, for each dimension, a level of the nested
partitions at which the two labels must agree: the *rule* of a family.

That the families kept here generate every integer vector that changes no sum: `bayesdp.fibers.moves.basis.kernel_basis` consists of
products of differences on the dimensions D where the component is not a mean. Pick for each sum one dimension of D that it averages
out; written out over the other dimensions, the vector is a signed sum of product moves whose blocks hold one picked dimension each.
Families are only left out where another one generates their moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product

import numpy as np

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.queries import SumPart

type Levels = tuple[int, ...]
type Partition = list[list[int]]

type Classes = list[Ints]
"""Offsets of a block's label combinations, class by class: two of one class may be exchanged."""


def _at_most(a: Levels, b: Levels) -> bool:
    return all(i <= j for i, j in zip(a, b, strict=True))


@dataclass(frozen=True, eq=False)
class NestedAxis:
    """One dimension of a table with partitions of its labels, from one class to one class a label."""

    codes: tuple[Ints, ...]  # of each level the class of each label, shape (n,); each level refines the one before

    @property
    def size(self) -> int:
        """Number of labels."""
        return len(self.codes[0])

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """Number of classes at each level."""
        return tuple(int(code.max()) + 1 for code in self.codes)

    @cached_property
    def order(self) -> Ints:
        """The labels sorted so that the classes of every level are contiguous."""
        return np.lexsort(self.codes[::-1]).astype(np.int64)

    @cached_property
    def starts(self) -> tuple[Ints, ...]:
        """For each level, where its classes start among the sorted labels."""
        return tuple(np.flatnonzero(np.diff(code[self.order], prepend=-1)).astype(np.int64) for code in self.codes)

    @cached_property
    def dimensions(self) -> Ints:
        """Number of orthonormal coordinates of each level."""
        return np.diff(np.array(self.classes), prepend=0)

    @cached_property
    def level_of_coordinate(self) -> Ints:
        """For each orthonormal coordinate, the level that it varies between."""
        return np.repeat(np.arange(len(self.classes)), self.dimensions).astype(np.int64)

    def contrasts(self, level: int) -> tuple[Floats, Floats, Ints, Mask]:
        """Weighted Helmert contrasts of the classes of a level within the classes of the level above."""
        # Class k against the mean of the classes before it in the same parent: weights n_k, W_k = sum of the earlier n; contrast (1 on
        # the earlier classes, -W_k / n_k on class k), squared length W_k (W_k + n_k) / n_k.
        starts, parents = self.starts[level], self.starts[level - 1]
        sizes = np.diff(starts, append=self.size).astype(np.float64)
        parent = (np.searchsorted(parents, starts, side="right") - 1).astype(np.int64)
        before = starts - parents[parent]
        used = before > 0
        safe = np.where(used, before, 1).astype(np.float64)
        ratio = np.where(used, safe / sizes, 0.0)
        scale = np.where(used, 1.0 / np.sqrt(safe * (safe + sizes) / sizes), 0.0)
        return ratio, scale, parent, used

    def forward(self, values: Floats) -> Floats:
        """Orthonormal coordinates along the last axis, coarse levels first."""
        ordered = np.take(values, self.order, axis=-1)
        pieces = [ordered.sum(axis=-1, keepdims=True) / np.sqrt(self.size)]
        for level in range(1, len(self.codes)):
            ratio, scale, parent, used = self.contrasts(level)
            sums = np.add.reduceat(ordered, self.starts[level], axis=-1)
            running = np.cumsum(sums, axis=-1) - sums
            first = np.searchsorted(parent, np.arange(self.classes[level - 1]))
            earlier = running - np.take(running, first, axis=-1)[..., parent]
            pieces.append(((earlier - ratio * sums) * scale)[..., used])
        return np.concatenate(pieces, axis=-1)

    def backward(self, coordinates: Floats) -> Floats:
        """The transpose (and inverse) of `forward`."""
        ordered = np.repeat(coordinates[..., :1] / np.sqrt(self.size), self.size, axis=-1)
        taken = 1
        for level in range(1, len(self.codes)):
            ratio, scale, parent, used = self.contrasts(level)
            count = int(used.sum())
            part = np.zeros((*coordinates.shape[:-1], len(used)))
            part[..., used] = coordinates[..., taken : taken + count]
            taken += count
            part = part * scale
            # Class k receives the contrasts of the later classes of its parent, and minus its own ratio times its own.
            running = np.cumsum(part, axis=-1)
            last = np.searchsorted(parent, np.arange(self.classes[level - 1]), side="right") - 1
            later = np.take(running, last, axis=-1)[..., parent] - running
            members = np.diff(self.starts[level], append=self.size)
            ordered = ordered + np.repeat(later - ratio * part, members, axis=-1)
        values = np.empty_like(ordered)
        values[..., self.order] = ordered
        return values


def _axis(parts: Sequence[SumPart], position: int) -> NestedAxis | None:
    """The nested partitions that the parts use on one dimension, or None where two of them cross."""
    size = parts[0].frame.shape[position]
    found = {tuple(part.codes[position].tolist()) for part in parts}
    found |= {tuple([0] * size), tuple(range(size))}
    levels = sorted((np.array(code, dtype=np.int64) for code in found), key=lambda code: int(code.max()))
    for coarse, fine in pairwise(levels):
        if len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) != int(fine.max()) + 1:
            return None
    return NestedAxis(tuple(levels))


@dataclass(frozen=True, eq=False)
class NestedSums:
    """A stack of sums whose labels are nested on every dimension."""

    parts: tuple[SumPart, ...]
    axes: tuple[NestedAxis, ...]  # the partitions of each dimension

    @classmethod
    def of(cls, parts: Sequence[SumPart]) -> NestedSums | None:
        """The structure of a stack of sums; None where two group labels of one dimension cross."""
        axes = [_axis(parts, position) for position in range(len(parts[0].frame.dims))]
        known = tuple(axis for axis in axes if axis is not None)
        return cls(tuple(parts), known) if len(known) == len(axes) else None

    def level_of(self, part: SumPart) -> Levels:
        """The level of each dimension that a part keeps."""
        return tuple(
            next(i for i, code in enumerate(axis.codes) if np.array_equal(code, labels))
            for axis, labels in zip(self.axes, part.codes, strict=True)
        )

    @cached_property
    def generators(self) -> tuple[Levels, ...]:
        """The levels of the parts that are not sums of another part."""
        levels = {self.level_of(part) for part in self.parts}
        return tuple(sorted(g for g in levels if not any(g != h and _at_most(g, h) for h in levels)))

    @cached_property
    def components(self) -> frozenset[Levels]:
        """The components of the table that the sums determine."""
        return frozenset(s for g in self.generators for s in product(*(range(top + 1) for top in g)))

    def component_size(self, component: Levels) -> int:
        """Dimension of one component."""
        return math.prod(int(axis.dimensions[level]) for axis, level in zip(self.axes, component, strict=True))

    @property
    def rank(self) -> int:
        """Number of linearly independent sums."""
        return sum(self.component_size(s) for s in self.components)

    @cached_property
    def is_two_way(self) -> bool:
        """Whether the sums are the two one-way margins of a two-way table."""
        tops = tuple(len(axis.codes) - 1 for axis in self.axes)
        return len(tops) == 2 and set(self.generators) == {(tops[0], 0), (0, tops[1])}

    @cached_property
    def log_gram(self) -> float:
        """Logarithm of ``det(R R^T)`` for sums R whose integer combinations are those of all sums, without redundant ones."""
        # Of a class with n labels and children of n_k labels, the sums of all children but one, without their projection on that of
        # the class, have a Gram matrix of determinant prod n_k / n. Along a dimension those of a level are orthogonal, and so are the
        # components, each of which is a product of levels.
        logs = [np.diff([np.log(np.bincount(code)).sum() for code in axis.codes], prepend=0.0) for axis in self.axes]
        found = 0.0
        for s in self.components:
            if size := self.component_size(s):
                found += size * sum(logs[i][level] / self.axes[i].dimensions[level] for i, level in enumerate(s))
        return float(found)

    @cached_property
    def signed_levels(self) -> tuple[tuple[int, Levels], ...]:
        """The projection onto the sums as a signed combination of group means (inclusion and exclusion)."""
        # Averaging within the classes of level g keeps the components s <= g: each that is determined is to count once.
        weights: dict[Levels, int] = {}
        for s in sorted(self.components, key=sum, reverse=True):
            weights[s] = 1 - sum(w for g, w in weights.items() if _at_most(s, g))
        return tuple((w, s) for s, w in weights.items() if w)

    def _class_means(self, values: Floats, levels: Levels) -> Floats:
        lead = values.ndim - len(self.axes)
        for position, (axis, level) in enumerate(zip(self.axes, levels, strict=True)):
            where = lead + position
            if level == 0:
                values = values.mean(axis=where, keepdims=True)
            elif axis.classes[level] < axis.size:
                order, starts = axis.order, axis.starts[level]
                sums = np.add.reduceat(np.take(values, order, axis=where), starts, axis=where)
                sizes = np.diff(starts, append=axis.size)
                means = sums / sizes.reshape([-1 if a == where else 1 for a in range(values.ndim)])
                place = np.empty(axis.size, dtype=np.int64)
                place[order] = np.repeat(np.arange(len(starts)), sizes)
                values = np.take(means, place, axis=where)
        return values

    def project_null(self, values: Floats) -> Floats:
        """Remove from values of shape ``(..., *table)`` everything that the sums see."""
        residual = values.copy()
        for weight, levels in self.signed_levels:
            means = self._class_means(values, levels)
            residual -= means if weight == 1 else weight * means
        return residual

    @cached_property
    def free(self) -> Mask:
        """Which of the orthonormal coordinates (C order of the axes' coordinates) the sums leave free."""
        free = np.ones([axis.size for axis in self.axes], dtype=np.bool_)
        for s in self.components:
            free[np.ix_(*(axis.level_of_coordinate == level for axis, level in zip(self.axes, s, strict=True)))] = False
        return free.reshape(-1)

    def coordinates(self, values: Floats) -> Floats:
        """Orthonormal coordinates of the part that the sums leave free, shape ``(..., dimension)``."""
        lead = values.ndim - len(self.axes)
        for position, axis in enumerate(self.axes):
            values = np.moveaxis(axis.forward(np.moveaxis(values, lead + position, -1)), -1, lead + position)
        return values.reshape(*values.shape[:lead], -1)[..., self.free]

    def from_coordinates(self, coordinates: Floats) -> Floats:
        """The table with the given free coordinates and none of the others; the transpose of `coordinates`."""
        shape = tuple(axis.size for axis in self.axes)
        full = np.zeros((*coordinates.shape[:-1], len(self.free)))
        full[..., self.free] = coordinates
        values = full.reshape(*coordinates.shape[:-1], *shape)
        lead = values.ndim - len(shape)
        for position, axis in enumerate(self.axes):
            values = np.moveaxis(axis.backward(np.moveaxis(values, lead + position, -1)), -1, lead + position)
        return values


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
    """Whether each block takes care of a sum that no other block does: else the moves are differences of another family's."""

    def cares(block: list[int], generator: Levels) -> bool:
        return all(rule[dim] >= generator[dim] for dim in block)

    alone = [[b for b in partition if cares(b, g)] for g in generators]
    return all(any(found == [block] for found in alone) for block in partition)


def _generated(partition: Partition, rule: Levels, coarse: Partition, lax: Levels) -> bool:
    """Whether a family's moves are sums of moves of one with unions of its blocks and no stricter a rule."""
    # Writing out one of two blocks that the other family has as one: (a - b)(c - d) = (ac - bc) - (ad - bd). No cell cancels, so that
    # the parts can be taken one after the other wherever the whole can: connectivity is kept too.
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


def _families[T](nested: NestedSums, family: Callable[[Partition, Levels], T | None]) -> list[T]:
    """What `family` makes of the partitions and rules that are needed, those of fewer blocks first; None: it has no moves."""
    kept: list[tuple[Partition, Levels]] = []
    found: list[T] = []
    for partition in sorted(set_partitions(range(len(nested.axes))), key=len):
        if len(partition) > len(nested.generators):
            break  # a block for each sum is enough
        for rule in rules(partition, nested.generators, len(nested.axes)):
            if not _every_block_counts(partition, rule, nested.generators):
                continue
            if any(_generated(partition, rule, coarse, lax) for coarse, lax in kept):
                continue
            made = family(partition, rule)
            if made is not None:
                kept.append((partition, rule))
                found.append(made)
    return found


def product_families(nested: NestedSums, allowed: Mask) -> list[list[Classes]]:
    """The families of product moves that generate every integer vector that changes no sum: for each block the classes of offsets."""
    # `allowed`, shape (cells,): cells that may move. Pair moves keep to them. Products of more blocks do not look at them: the bounds
    # of the cells that must not move block such a direction.

    def family(partition: Partition, rule: Levels) -> list[Classes] | None:
        factors = []
        for block in partition:
            codes, offsets = block_classes(nested, block, rule)
            if len(partition) == 1:
                codes, offsets = codes[allowed[offsets]], offsets[allowed[offsets]]
            factors.append(classes_of(codes, offsets))
        several = all(any(len(members) > 1 for members in classes) for classes in factors)
        return factors if several else None

    return _families(nested, family)


def family_sizes(nested: NestedSums) -> list[list[int]]:
    """For each family of product moves, for each block, how many combinations of labels its largest class has."""
    # The families of `product_families` where every cell may move, not written out: a class of a block is a product of classes.
    largest = [[int(np.bincount(code).max()) for code in axis.codes] for axis in nested.axes]

    def family(partition: Partition, rule: Levels) -> list[int] | None:
        sizes = [math.prod(largest[dim][rule[dim]] for dim in block) for block in partition]
        return sizes if min(sizes) > 1 else None

    return _families(nested, family)


def is_decomposable(nested: NestedSums) -> bool:
    """Whether the sums are margins (no group totals) that form a decomposable set."""
    tops = tuple(len(axis.codes) - 1 for axis in nested.axes)
    if not all(level in (0, top) for g in nested.generators for level, top in zip(g, tops, strict=True)):
        return False
    return is_junction_tree([{dim for dim, level in enumerate(g) if level} for g in nested.generators])


def is_junction_tree(sets: Sequence[set[int]]) -> bool:
    """Whether sets of dimensions can be put into a junction tree."""
    # Graham's reduction: what only one set has is dropped, and sets inside others, as long as that is possible.
    while sets:
        alone = {v for dims in sets for v in dims if sum(v in other for other in sets) == 1}
        smaller = [dims - alone for dims in sets]
        inside = {i if a <= b else j for (i, a), (j, b) in combinations(enumerate(smaller), 2) if a <= b or b <= a}
        remaining = [dims for i, dims in enumerate(smaller) if dims and i not in inside]
        if remaining == sets:
            return False
        sets = remaining
    return True

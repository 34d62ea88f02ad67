"""Sums over nested labels, and the orthogonal structure that they share.

Margins and totals ask for sums over labels that are nested: the grand total, sums by state, sums by county. For
such queries the space of tables splits into orthogonal components, one for each combination of levels (as in an
analysis of variance), and everything that is needed (rank, projection, orthonormal coordinates) has a closed form
that never looks at a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from bayesdp.queries import SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


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
    def _order(self) -> Ints:
        """The labels sorted so that the classes of every level are contiguous."""
        return np.lexsort(self.codes[::-1]).astype(np.int64)

    @cached_property
    def starts(self) -> tuple[Ints, ...]:
        """For each level, where its classes start among the sorted labels."""
        return tuple(np.flatnonzero(np.diff(code[self._order], prepend=-1)).astype(np.int64) for code in self.codes)

    @cached_property
    def level_of_coordinate(self) -> Ints:
        """For each orthonormal coordinate, the level that it varies between."""
        sizes = np.diff(np.array(self.classes), prepend=0)
        return np.repeat(np.arange(len(self.classes)), sizes).astype(np.int64)

    def contrasts(self, level: int) -> tuple[Floats, Floats, Floats, Ints, npt.NDArray[np.bool_]]:
        """Weighted Helmert contrasts of the classes of a level within the classes of the level above.

        Class k against the mean of the classes before it in the same parent: weights n_k, W_k = sum of the earlier
        n; contrast (1 on the earlier classes, -W_k / n_k on class k), squared length W_k (W_k + n_k) / n_k.
        """
        starts, parents = self.starts[level], self.starts[level - 1]
        sizes = np.diff(starts, append=self.size).astype(np.float64)
        parent = (np.searchsorted(parents, starts, side="right") - 1).astype(np.int64)
        before = starts - parents[parent]
        used = before > 0
        safe = np.where(used, before, 1).astype(np.float64)
        ratio = np.where(used, safe / sizes, 0.0)
        scale = np.where(used, 1.0 / np.sqrt(safe * (safe + sizes) / sizes), 0.0)
        return sizes, ratio, scale, parent, used

    def forward(self, values: Floats) -> Floats:
        """Orthonormal coordinates along the last axis, coarse levels first."""
        ordered = np.take(values, self._order, axis=-1)
        pieces = [ordered.sum(axis=-1, keepdims=True) / np.sqrt(self.size)]
        for level in range(1, len(self.codes)):
            _, ratio, scale, parent, used = self.contrasts(level)
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
            _, ratio, scale, parent, used = self.contrasts(level)
            count = int(used.sum())
            own = np.zeros((*coordinates.shape[:-1], len(used)))
            own[..., used] = coordinates[..., taken : taken + count]
            taken += count
            own = own * scale
            # Class k receives the contrasts of the later classes of its parent, and minus its own ratio times its own.
            running = np.cumsum(own, axis=-1)
            last = np.searchsorted(parent, np.arange(self.classes[level - 1]), side="right") - 1
            later = np.take(running, last, axis=-1)[..., parent] - running
            members = np.diff(self.starts[level], append=self.size)
            ordered = ordered + np.repeat(later - ratio * own, members, axis=-1)
        values = np.empty_like(ordered)
        values[..., self._order] = ordered
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

    def level_of(self, part: SumPart) -> tuple[int, ...]:
        """The level of each dimension that a part keeps."""
        return tuple(
            next(i for i, code in enumerate(axis.codes) if np.array_equal(code, own))
            for axis, own in zip(self.axes, part.codes, strict=True)
        )

    @cached_property
    def generators(self) -> tuple[tuple[int, ...], ...]:
        """The levels of the parts that are not sums of another part."""
        levels = {self.level_of(part) for part in self.parts}
        return tuple(
            sorted(
                g for g in levels if not any(g != h and all(a <= b for a, b in zip(g, h, strict=True)) for h in levels)
            )
        )

    @cached_property
    def components(self) -> frozenset[tuple[int, ...]]:
        """The components of the table that the sums determine."""
        return frozenset(s for g in self.generators for s in product(*(range(top + 1) for top in g)))

    def component_size(self, component: tuple[int, ...]) -> int:
        """Dimension of one component."""
        sizes = (
            a.classes[level] - (a.classes[level - 1] if level else 0)
            for a, level in zip(self.axes, component, strict=True)
        )
        return int(np.prod(list(sizes), dtype=np.int64))

    @property
    def rank(self) -> int:
        """Number of linearly independent sums."""
        return sum(self.component_size(s) for s in self.components)

    @property
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
        sizes = [np.diff(axis.classes, prepend=0) for axis in self.axes]
        found = 0.0
        for s in self.components:
            if self.component_size(s):
                found += self.component_size(s) * sum(logs[i][level] / sizes[i][level] for i, level in enumerate(s))
        return float(found)

    @cached_property
    def signed_levels(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The projection onto the sums as a signed combination of group means (inclusion and exclusion).

        Averaging within the classes of level g keeps the components s <= g; the integer weights make every
        determined component count exactly once.
        """
        weights: dict[tuple[int, ...], int] = {}
        for s in sorted(self.components, key=sum, reverse=True):
            above = sum(w for g, w in weights.items() if g != s and all(a <= b for a, b in zip(s, g, strict=True)))
            weights[s] = 1 - above
        return tuple((w, s) for s, w in weights.items() if w)

    def _class_means(self, values: Floats, levels: tuple[int, ...]) -> Floats:
        lead = values.ndim - len(self.axes)
        for position, (axis, level) in enumerate(zip(self.axes, levels, strict=True)):
            where = lead + position
            if level == 0:
                values = values.mean(axis=where, keepdims=True)
            elif axis.classes[level] < axis.size:
                order, starts = axis._order, axis.starts[level]
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
            if weight == 1:
                residual -= means
            else:
                residual -= weight * means
        return residual

    @cached_property
    def free(self) -> npt.NDArray[np.bool_]:
        """Which of the orthonormal coordinates (C order of the axes' coordinates) the sums leave free."""
        shape = tuple(axis.size for axis in self.axes)
        free = np.ones(shape, dtype=np.bool_)
        for s in self.components:
            selected = [
                np.flatnonzero(axis.level_of_coordinate == level) for axis, level in zip(self.axes, s, strict=True)
            ]
            free[np.ix_(*selected)] = False
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

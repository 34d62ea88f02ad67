"""Which precise answers of a leaf cut its cells across each other, and the moves that keep them.

Along a direction that changes the sums of a query with precision P by +-1 in n places, the noise contributes n P to the curvature of
the log-density: steps are about as long as one over its root. A difference along the axes F of a leaf has 2^|F| cells, and
changes a query only if that tells the labels of every one of these axes apart; the same difference taken across two leaves has
twice as many, and changes nothing at the node where they meet, and above. So the curvature of each kind of move follows from
the published variances alone. Pairs of cells, and exchanges between leaves, are moves of every hierarchy
(`bayesdp.hierarchies.kernel.sweeps`). Others are taken where they are far less held than these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.kernel.crossing import LAYERS, LEAVES, RECTANGLE
from bayesdp.hierarchies.structure import Structure

__all__ = ["Crossing", "mean_precisions", "spread_of_cells"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

FREER = 10.0
"""Moves are taken, or missed, whose curvature is smaller than that of all others by this factor: they go three times as far."""


WIDE = 4.0
"""Noise holds a move whose steps are at most half as long as a cell varies."""


def mean_precisions(structure: Structure, precision: Floats) -> Floats:
    """The mean precision of the sums of each query at each level, shape (levels, queries), of that of all nodes and sums."""
    starts = structure.query_start
    found = np.zeros((len(structure.levels), len(starts) - 1))
    for level in range(len(found)):
        own = precision[structure.nodes_of(level)]
        found[level] = np.add.reduceat(own.mean(axis=0), starts[:-1]) / np.diff(starts)
    return found


def spread_of_cells(structure: Structure, noisy: Floats, precision: Floats) -> float:
    """How widely a cell varies if its law is about geometric, with the mean that noisy answers show, and 1 for what they hide."""
    # `noisy`, `precision`, shape (nodes, A): noisy answers, and their inverse variances. The coarsest query of those that were
    # published of every node of a level is taken, of the lowest level that has one; if there is none, the mean is 0.
    for level in range(len(structure.levels)):
        nodes = structure.nodes_of(level)
        for start, end in zip(structure.query_start[:-1], structure.query_start[1:], strict=True):
            if (precision[nodes, start:end] > 0.0).all():
                mean = max(float(noisy[nodes, start:end].sum()) / structure.free.size, 0.0)
                return 1.0 + mean + mean * mean
    return 1.0


@dataclass(frozen=True, eq=False)
class Crossing:
    """The differences along axes of a leaf, and which queries tell their cells apart.

    Parameters
    ----------
    structure : Structure
    """

    structure: Structure

    @cached_property
    def axes(self) -> list[tuple[int, int]]:
        """Of each axis of a leaf with several labels: how far apart cells of two labels in turn are, and how many labels there are."""
        shape = [n for axis, n in enumerate(self.structure.frame.shape) if axis != self.structure.axis]
        return [(int(np.prod(shape[i + 1 :])), n) for i, n in enumerate(shape) if n > 1]

    @property
    def possible(self) -> bool:
        """Whether there may be anything to choose: two axes, and two queries that each tell some cells apart, and not all."""
        sums = np.diff(self.structure.query_start)
        return len(self.axes) > 1 and int(((sums > 1) & (sums < len(self.structure.answer_of))).sum()) > 1

    @cached_property
    def _told(self) -> list[Mask]:
        """Of each axis, which queries tell two of its labels apart, shape (kinds of pairs of labels, queries)."""
        codes = self.structure.answer_of
        return [_told_of(codes, stride, labels) for stride, labels in self.axes]

    @cached_property
    def _exact(self) -> list[Mask]:
        """Of each axis, at which levels some of its labels are in different classes of exact sums, shape (levels,)."""
        classes = self.structure.exact_class.T
        return [_told_of(classes, stride, labels).any(axis=0) for stride, labels in self.axes]

    @cached_property
    def _meeting(self) -> int:
        """The lowest level at which any two leaves meet; the number of levels where there is one leaf."""
        first, last = self.structure.node_range
        several = (last - first)[self.structure.path].max(axis=0) > 1
        return int(several.argmax()) if several.any() else len(several)

    def _may(self, factors: Sequence[int], levels: int) -> bool:
        """Whether a difference along these axes keeps the exact sums of the levels below `levels`."""
        exact = self.structure.exact_class[:levels, 0] >= 0
        return not any(
            exact[level] and all(self._exact[factor][level] for factor in factors) for level in range(levels)
        )

    def _held(self, precision: Floats) -> float:
        """The smallest curvature of a move that every hierarchy has."""
        levels, meeting = len(precision), self._meeting
        single = [(factor, told) for factor in range(len(self.axes)) for told in self._told[factor]]
        held = [
            2.0 * float(precision.sum(axis=0)[told].sum()) for factor, told in single if self._may([factor], levels)
        ]
        if meeting < levels:
            below = precision[:meeting].sum(axis=0)
            held += [4.0 * float(below[told].sum()) for factor, told in single if self._may([factor], meeting)]
            held += [2.0 * float(below.sum())] if self._may([], meeting) else []
        return min(held, default=np.inf)

    def _candidates(self, precision: Floats) -> list[tuple[tuple[int, ...], int, float]]:
        """Moves along several axes: the axes, the level at which leaves meet at most (0 within a leaf), and the curvature."""
        found = []
        levels = len(precision)
        for size in (2, 3):
            for factors in combinations(range(len(self.axes)), size):
                told = np.all([self._told[factor].any(axis=0) for factor in factors], axis=0)
                for meeting in (0, *range(self._meeting, levels)) if size == 2 else (0,):
                    below = meeting or levels
                    if self._may(factors, below):
                        cells = 2.0 ** (size + (meeting > 0))
                        found.append((factors, meeting, cells * float(precision[:below, told].sum())))
        return found

    def families(self, precision: Floats, spread: float) -> Ints:
        """The moves along several axes that are far less held than others, where noise is what holds these."""
        # `precision`, shape (levels, queries): see `mean_precisions`. `spread`: how widely a cell varies, its variance, by anything
        # but the noisy answers (`spread_of_cells`). Returns shape (families, 8): see `bayesdp.hierarchies.kernel.crossing.cross`.
        # Of directions that are as free as one along some of their axes, none.
        held = self._held(precision)
        free: dict[tuple[tuple[int, ...], bool], int] = {}
        for factors, meeting, curvature in self._candidates(precision) if held * spread >= WIDE else ():
            inside = [own for own, across in free if not across and set(own) <= set(factors)]
            if curvature * FREER < held and not inside:
                free[factors, meeting > 0] = meeting  # the last is the highest
        rows = [row for (factors, _), meeting in free.items() for row in self._rows(factors, meeting)]
        return np.array(rows, dtype=np.int64).reshape(-1, 8)

    def _rows(self, factors: Sequence[int], meeting: int) -> list[list[int]]:
        axes = [self.axes[factor] for factor in factors]
        if len(axes) == 2:
            return [[LEAVES if meeting else RECTANGLE, meeting, *axes[0], *axes[1], 0, 1]]
        return [[LAYERS, 0, *axes[i - 2], *axes[i - 1], *axes[i]] for i in range(3)]

    def missed(self, precision: Floats, spread: float) -> tuple[str, ...]:
        """Queries that the moves do not keep all at once, though differences along axes of a leaf do; the most precise ones."""
        # `precision`, `spread`: see `families`. Such as `"age x race by tract"`; empty where the moves keep them.
        held = self._held(precision)
        held = min([held, *(own for _, _, own in self._candidates(precision) if own * FREER < held)])
        if held * spread < WIDE:
            return ()
        levels = len(precision)
        least = np.inf
        for across in (False, True):
            below = self._meeting if across else levels
            if across and below == levels:
                continue
            total = precision[:below].sum(axis=0)
            # Each axis is left out, or two labels of it are chosen, which some queries tell apart.
            for chosen in product(*([None, *told] for told in self._told)):
                factors = [factor for factor, told in enumerate(chosen) if told is not None]
                if (factors or across) and self._may(factors, below):
                    told = np.all([own for own in chosen if own is not None], axis=0) if factors else np.array(True)
                    cells = 2.0 ** (len(factors) + across)
                    least = min(least, cells * float((total * told).sum()))
        if least * FREER >= held:
            return ()
        largest = precision.max()
        return tuple(
            self._name(level, query) for level, query in zip(*np.nonzero(precision * FREER >= largest), strict=True)
        )

    def _name(self, level: int, query: int) -> str:
        structure = self.structure
        dims = [dim for axis, dim in enumerate(structure.frame.dims) if axis != structure.axis]
        sizes = [n for axis, n in enumerate(structure.frame.shape) if axis != structure.axis]
        several = [dim for dim, n in zip(dims, sizes, strict=True) if n > 1]
        told = [dim for dim, own in zip(several, self._told, strict=True) if own[:, query].any()]
        kept = " x ".join(told) or "total"
        return f"{kept} by {structure.levels[level]}"


def _told_of(codes: Ints, stride: int, labels: int) -> Mask:
    """Which columns of `codes`, shape (C, n), differ between two labels of an axis: all kinds of pairs of labels there are."""
    cells = codes.reshape(-1, labels, stride, codes.shape[1])
    pairs = np.zeros((0, codes.shape[1]), dtype=np.bool_)
    for label in range(1, labels):
        differ = (cells[:, :label] != cells[:, [label]]).any(axis=(0, 2))
        pairs = np.unique(np.concatenate([pairs, differ]), axis=0)
    return pairs

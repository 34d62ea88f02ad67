"""One-way margins in general: exact sums over features of a record that have no dimension in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Fiber
from bayesdp.queries import SumPart

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Features:
    """Features of a record whose margins are published: one-way margins, sums by group labels, disjoint totals.

    Margins that keep several dimensions count as one feature (Cho and Awan, Remark 17), as long as no two margins share a
    dimension. Every combination of labels of different features is then possible, cell or cells of its own.

    Parameters
    ----------
    codes : tuple of int64 arrays, each (cells,)
        The label of each cell, feature by feature.
    margins : tuple of int64 arrays
        Number of records with each label.
    """

    codes: tuple[Ints, ...]
    margins: tuple[Ints, ...]

    @classmethod
    def of(cls, fiber: Fiber) -> Features | None:
        """The features of a fiber, or None where its exact answers are of another kind.

        Bounds and structural zeros are of another kind, and so is a fiber without exact answers: its databases
        have no fixed number of records.

        Raises
        ------
        ValueError
            If the answers contradict one another: no table has them.
        """
        if fiber.bounds_below or fiber.bounds_above or not fiber.equalities:
            return None
        invariants = fiber.invariants
        if invariants.nested is None:
            return cls._of_blocks(fiber)
        nested = invariants.nested
        kept = [[axis for axis, level in enumerate(own) if level] for own in nested.generators]
        if len({axis for own in kept for axis in own}) < sum(map(len, kept)):
            return None
        published: dict[tuple[int, ...], tuple[Ints, Ints]] = {}
        for query, values in fiber.equalities:
            flat, start = values.reshape(-1), 0
            for part in query.parts:
                if isinstance(part, SumPart):
                    published[nested.level_of(part)] = part.row_of_cell, flat[start : start + part.rows]
                start += part.rows
        codes, margins = zip(*(published[own] for own in nested.generators), strict=True)
        return cls(codes, margins)._checked(fiber)

    @classmethod
    def _of_blocks(cls, fiber: Fiber) -> Features | None:
        """Totals that are given as a matrix, where every cell is in one of them."""
        blocks = fiber.invariants.blocks
        if blocks is None or np.any(blocks < 0):
            return None
        margin = np.zeros(int(blocks.max()) + 1, dtype=np.int64)
        for query, values in fiber.equalities:
            entries = query.matrix.tocoo()
            margin[blocks[entries.col]] = values.reshape(-1)[entries.row]
        return cls((np.asarray(blocks),), (margin,))._checked(fiber)

    def _checked(self, fiber: Fiber) -> Features:
        """These features, after one table with their margins was held against all exact answers."""
        if any(np.any(own < 0) for own in self.margins) or len({int(own.sum()) for own in self.margins}) > 1:
            raise ValueError(
                "no nonnegative integer table satisfies the exact values: margins must be at least 0, with one and the same total"
            )
        if not fiber.contains(self.table().reshape(fiber.frame.shape)):
            raise ValueError("no nonnegative integer table satisfies the exact values: they contradict one another")
        return self

    @property
    def records(self) -> int:
        """Number of records."""
        return int(self.margins[0].sum())

    @property
    def labels(self) -> tuple[int, ...]:
        """For each feature, how many labels some record has."""
        return tuple(int(np.count_nonzero(own)) for own in self.margins)

    @cached_property
    def _combination(self) -> Ints:
        """A number for the labels of each cell; every combination has a cell, so that the numbers are not large."""
        return np.asarray(np.ravel_multi_index(self.codes, [len(own) for own in self.margins]), dtype=np.int64)

    def table(self) -> Ints:
        """A table with these margins: records sorted by each feature and put side by side, shape ``(cells,)``."""
        ends = [np.cumsum(own) for own in self.margins]
        stops = np.unique(np.concatenate([[0], *ends]))
        labels = tuple(np.searchsorted(own, stops[:-1], side="right") for own in ends)
        wanted = np.ravel_multi_index(labels, [len(own) for own in self.margins])
        combinations, first_cell = np.unique(self._combination, return_index=True)
        table = np.zeros(len(self._combination), dtype=np.int64)
        table[first_cell[np.searchsorted(combinations, wanted)]] = np.diff(stops)
        return table

    @property
    def has_twins(self) -> bool:
        """Whether a record can change its cell and keep all its labels."""
        possible = np.all([own[codes] > 0 for codes, own in zip(self.codes, self.margins, strict=True)], axis=0)
        return bool(np.any(np.bincount(self._combination)[self._combination[possible]] > 1))

    @property
    def rarest(self) -> tuple[int, ...]:
        """The smallest positive margin of each feature with two labels or more."""
        return tuple(
            int(own[own > 0].min()) for own, labels in zip(self.margins, self.labels, strict=True) if labels > 1
        )

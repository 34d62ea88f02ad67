"""Adjacency: in how many records two databases differ, seen from their tables of counts; and features whose margins are published.

A database is a list of records, one a person. Two metrics are in use (Cho and Awan, Example 1): the Hamming distance, the number of
records that were substituted, for databases of one (public) size; and the symmetric difference, the number of records that were
added or removed. Two *tables* are as far apart as the closest two databases that have these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Ints, Mask
from bayesdp._nested import NestedSums
from bayesdp._validate import choice, instance, integer_array, nonnegative_integer
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.privacy.sensitivities.norms import NEIGHBOURS
from bayesdp.queries import SumPart


def block_totals(fiber: Fiber, blocks: npt.ArrayLike) -> Ints:
    """The published totals of disjoint blocks of cells, by the block of each cell (-1 for none)."""
    block_of = np.asarray(blocks)
    totals = np.zeros(int(block_of.max(initial=-1)) + 1, dtype=np.int64)
    for query, values in fiber.equalities:
        entries = query.matrix.tocoo()
        totals[block_of[entries.col]] = values.reshape(-1)[entries.row]
    return totals


@dataclass(frozen=True, eq=False)
class PublishedMargins:
    """Margins that are published exactly and are no sums of one another."""

    codes: tuple[Ints, ...]  # the label of each cell, margin by margin, each (cells,)
    margins: tuple[Ints, ...]  # number of records with each label

    @classmethod
    def of_sums(cls, fiber: Fiber, nested: NestedSums) -> Self:
        """The margins of a fiber with sums over nested labels, one for each of `NestedSums.generators`."""
        published: dict[tuple[int, ...], tuple[Ints, Ints]] = {}
        for query, values in fiber.equalities:
            for part, rows in query.placed_parts:
                if isinstance(part, SumPart):
                    published[nested.level_of(part)] = part.row_of_cell, values.reshape(-1)[rows]
        codes, margins = zip(*(published[levels] for levels in nested.generators), strict=True)
        return cls(codes, margins)

    @property
    def records(self) -> int:
        """Number of records."""
        return int(self.margins[0].sum())

    @property
    def rarest(self) -> tuple[int, ...]:
        """The smallest positive number of each margin that has records with two labels or more."""
        held = (margin[margin > 0] for margin in self.margins)
        return tuple(int(counts.min()) for counts in held if len(counts) > 1)

    @property
    def possible(self) -> Mask:
        """Cells whose labels some records have, shape (cells,)."""
        held = (margin[codes] > 0 for codes, margin in zip(self.codes, self.margins, strict=True))
        return np.asarray(np.all(list(held), axis=0))


class Features(PublishedMargins):
    """Features of a record whose margins are published: one-way margins, sums by group labels, disjoint totals.

    Margins that keep several dimensions count as one feature (Cho and Awan, Remark 17), as long as no two margins share a
    dimension. Every combination of labels of different features is then possible, cell or cells of its own.
    """

    @classmethod
    def of(cls, fiber: Fiber) -> Features | None:
        """The features of a fiber, or None where its exact answers are of another kind; ValueError if no table has them.

        Bounds and structural zeros are of another kind, and so is a fiber without exact answers: its databases
        have no fixed number of records.
        """
        nested, blocks = fiber.invariants.nested, fiber.invariants.blocks
        if fiber.bounds_below or fiber.bounds_above or not fiber.equalities:
            return None
        if nested is not None:
            kept = [axis for levels in nested.generators for axis, level in enumerate(levels) if level]
            if len(set(kept)) < len(kept):
                return None
            features = cls.of_sums(fiber, nested)
        elif blocks is not None and np.all(blocks >= 0):
            features = cls((np.asarray(blocks),), (block_totals(fiber, blocks),))
        else:
            return None
        if any(np.any(margin < 0) for margin in features.margins) or len({int(m.sum()) for m in features.margins}) > 1:
            raise ValueError(
                "no nonnegative integer table satisfies the exact values: margins must be at least 0, with one and the same total"
            )
        if not fiber.contains(features.table().reshape(fiber.frame.shape)):
            raise ValueError("no nonnegative integer table satisfies the exact values: they contradict one another")
        return features

    @cached_property
    def _combination(self) -> Ints:
        """A number for the labels of each cell; every combination has a cell, so that the numbers are not large."""
        return np.asarray(np.ravel_multi_index(self.codes, [len(margin) for margin in self.margins]), dtype=np.int64)

    def table(self) -> Ints:
        """A table with these margins: records sorted by each feature and put side by side, shape ``(cells,)``."""
        ends = [np.cumsum(margin) for margin in self.margins]
        stops = np.unique(np.concatenate([[0], *ends]))
        labels = tuple(np.searchsorted(end, stops[:-1], side="right") for end in ends)
        wanted = np.ravel_multi_index(labels, [len(margin) for margin in self.margins])
        combinations, first_cell = np.unique(self._combination, return_index=True)
        table = np.zeros(len(self._combination), dtype=np.int64)
        table[first_cell[np.searchsorted(combinations, wanted)]] = np.diff(stops)
        return table

    @property
    def has_twins(self) -> bool:
        """Whether a record can change its cell and keep all its labels."""
        return bool(np.any(np.bincount(self._combination)[self._combination[self.possible]] > 1))


def record_distance(table: npt.ArrayLike, other: npt.ArrayLike, neighbours: str = "substitution") -> int | None:
    """The least number of records in which databases with these tables differ.

    Records that a database and the other share are matched cell by cell, as many as possible: ``||x - x'||_1`` records are
    left over. Substituting one takes away a record here and puts one there.

    Parameters
    ----------
    table, other : array_like of int, equal shapes
        Counts.
    neighbours : {"substitution", "add-remove"}
        Hamming distance, ``||x - x'||_1 / 2``; symmetric difference, ``||x - x'||_1``.

    Returns
    -------
    int or None
        None where no number of substitutions leads from one to the other: the totals differ.

    Examples
    --------
    >>> record_distance([[2, 0], [0, 1]], [[1, 1], [1, 0]])
    2
    >>> record_distance([2, 1], [2, 0]) is None, record_distance([2, 1], [2, 0], "add-remove")
    (True, 1)
    """
    choice(neighbours, tuple(NEIGHBOURS), "neighbours")
    x, y = integer_array(table, "table", minimum=0), integer_array(other, "other", minimum=0)
    if x.shape != y.shape:
        raise ValueError(f"both tables must have one shape, got {x.shape} and {y.shape}")
    apart = int(np.abs(x - y).sum())
    if neighbours == "add-remove":
        return apart
    return apart // 2 if x.sum() == y.sum() else None


def conforming_pairs(
    fiber: Fiber, adjacency: int, neighbours: str = "substitution", *, limit: int = 2000
) -> list[tuple[Ints, Ints]]:
    """The pairs of different tables that a Semi-DP guarantee is about: both conform to the invariants, and are adjacent.

    Parameters
    ----------
    fiber : Fiber
        Small enough to be listed.
    adjacency : int
        Largest distance, in records.
    neighbours : {"substitution", "add-remove"}
        The metric.
    limit : int
        Largest number of tables.

    Returns
    -------
    list of pairs of int64 arrays, each ``(*table)``
        Each pair once.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Definition 19.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Totals
    >>> fiber = Fiber.of([Exact(Totals({"county": ["Alpha", "Beta"]}), 2)])
    >>> [(x.tolist(), y.tolist()) for x, y in conforming_pairs(fiber, 1)]
    [([0, 2], [1, 1]), ([1, 1], [2, 0])]
    """
    instance(fiber, Fiber, "fiber must be a Fiber")
    most = nonnegative_integer(adjacency, "adjacency")
    choice(neighbours, tuple(NEIGHBOURS), "neighbours")
    tables = enumerate_fiber(fiber, limit)
    cells = tuple(range(1, tables.ndim))
    found = []
    for first, table in enumerate(tables):
        change = tables[first + 1 :] - table
        apart = np.abs(change).sum(axis=cells)
        good = apart <= most if neighbours == "add-remove" else (apart <= 2 * most) & (change.sum(axis=cells) == 0)
        found += [(table, other) for other in tables[first + 1 :][good]]
    return found

"""Margins that form a junction tree: how many records change when one does, from a given table.

How many records it can take to find a given label of every feature among them.

A set of n records has m_f records with a certain label of feature f. In the worst arrangement, the least number of
records that have all these labels among them is the largest hitting number of sets of sizes m_1 .. m_k in n points.
Two questions have a formula. It is k if the sets can be disjoint: ``m_1 + ... + m_k <= n``. It is at least 2 if no point has to be
in all of them: ``m_1 + ... + m_k <= (k - 1) n``. Between these it is the problem of covering designs, and there are limits only.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Fiber
from bayesdp.moves.families import is_junction_tree
from bayesdp.sensitivities.differences import Features, PublishedMargins

type Ints = npt.NDArray[np.int64]

IMPOSSIBLE = -1
"""In place of a distance where no database with the answers has such a record."""

_MOST = 8  # margins: the work grows with three to their number


class Cliques(PublishedMargins):
    """Margins of a junction tree, one-way margins included.

    Let record i have the cell x and say y, and let D be the margins in which x and y differ. From a given database, the least
    number of records that have to change is 1 plus the least number of *other* records that have among them the
    labels y_C of all margins C in D. No database has y if there are none.

    No fewer: afterwards y_C is once too often in each C of D, so that a record with y_C has to leave it. No more: let J be such
    records, and i where x_C = y_C; each margin has a witness of y_C among them. Go through the margins from the root of the tree
    on. If a record r has y in all margins so far, but not in C, take a witness s of C: r and s agree on the
    separator of C and its parent (both have y there), so that they can exchange all that lies beyond it; no margin changes, and
    neither does the set of labels that the records have among them, so that there are witnesses for the next margin. At last r has y.
    Its record is given to i, and the others are shared out among the rest: only J and i have changed. These are exchanges of degree
    two, as in the Markov basis of Dobra (2003). Dimensions in no margin can be changed at will.
    """

    @classmethod
    def of(cls, fiber: Fiber) -> Cliques | None:
        """The margins of a fiber; None where its exact answers are no junction tree (or are more than eight margins)."""
        features = Features.of(fiber)
        if features is not None:
            return cls(features.codes, features.margins) if len(features.codes) <= _MOST else None
        nested = fiber.invariants.nested
        if fiber.bounds_below or fiber.bounds_above or not fiber.equalities or nested is None:
            return None
        generators = nested.generators
        # A dimension must be summed to the same labels in all margins that keep it.
        if any(len({levels[axis] for levels in generators if levels[axis]}) > 1 for axis in range(len(nested.axes))):
            return None
        kept = [{axis for axis, level in enumerate(levels) if level} for levels in generators]
        return cls.of_sums(fiber, nested) if len(kept) <= _MOST and is_junction_tree(kept) else None

    @cached_property
    def _together(self) -> tuple[Ints, ...]:
        """For every set of margins (as bits), a number for the labels that a cell has in all of them."""
        found = [np.zeros(len(self.codes[0]), dtype=np.int64)]
        for bits in range(1, 1 << len(self.codes)):
            lowest = (bits & -bits).bit_length() - 1
            rest = found[bits & (bits - 1)]
            code = self.codes[lowest]
            found.append(np.unique(rest * (int(code.max()) + 1) + code, return_inverse=True)[1].astype(np.int64))
        return tuple(found)

    def distances(self, table: Ints, most: int | None = None) -> tuple[Ints, Ints]:
        """The number of records that change if a record of one cell says another, in the database of a table.

        Of the cells that hold records (at most `most` of them, evenly spaced), shape (held,), to all cells, shape (held, cells):
        `IMPOSSIBLE` where no database with the answers has a record there; 0 for the cell itself.
        """
        held = np.flatnonzero(table > 0)
        everything, far = 1 << len(self.codes), len(self.codes) + 1
        # Records of x differ from y in all of D, so that none of the sets below is found in record i itself.
        has = [np.bincount(code[held], minlength=int(code.max()) + 1)[code] > 0 for code in self._together]
        fewest = np.full((everything, len(table)), far, dtype=np.int64)
        fewest[0] = 0
        for bits in range(1, everything):
            lowest, one = bits & -bits, bits
            while one:  # all parts of these margins with the lowest: the labels that one record gives
                if one & lowest:
                    better = np.where(has[one], fewest[bits ^ one] + 1, far)
                    np.minimum(fewest[bits], better, out=fewest[bits])
                one = (one - 1) & bits
        if most is not None and most < len(held):
            held = held[np.linspace(0, len(held) - 1, most).astype(np.int64)]
        differ = np.zeros((len(held), len(table)), dtype=np.int64)
        for position, code in enumerate(self.codes):
            differ |= (code[held][:, None] != code[None, :]).astype(np.int64) << position
        found = fewest[differ, np.arange(len(table))]
        found = np.where(found >= far, IMPOSSIBLE, found + 1)
        found[np.arange(len(held)), held] = 0
        return held, found


def largest_hitting_number(sizes: tuple[int, ...], points: int) -> tuple[int, int]:
    """Limits of the largest hitting number of sets of the given sizes, each from 1 to `points`; equal for up to three sets.

    >>> largest_hitting_number((2, 2, 2), 4), largest_hitting_number((2, 2, 2), 6)
    ((2, 2), (3, 3))
    """
    k = len(sizes)
    if k <= 1 or sum(sizes) > (k - 1) * points:
        return min(k, 1), min(k, 1)
    # Disjoint sets among them need as many points as there are sets.
    disjoint = int(np.searchsorted(np.cumsum(sorted(sizes)), points, side="right"))
    return max(disjoint, 2), min(k if disjoint == k else k - 1, _greedy(sizes, points))


def _greedy(sizes: tuple[int, ...], points: int) -> int:
    """An upper bound of the hitting number: take the point that is in most sets, again and again."""
    # Some point is in at least `sum(sizes) / points` of the sets, rounded up. At worst the smallest sets are left over.
    left = sorted(sizes)
    used = 0
    while left:
        left = left[: len(left) + (-sum(left) // (points - used))]  # less the average, rounded up
        used += 1
    return used

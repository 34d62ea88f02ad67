"""Sums that nest or are disjoint, with limits: whether a table has them, one that does, and what every cell can be.

Totals of a tree of geography, limits of the sums of its nodes and cells that are 0 are such a family: any two of the sets of cells
that are added up are disjoint, or one holds the other (a laminar family), so that the sets are a forest. What a set can add up
to is an interval of whole numbers, found from the cells up: at least what its parts add up to at least, at most what they add up
to at most, within its own limits. Every number of the interval is attained, and numbers of the parts can be chosen one by one
from the top down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_OPEN = 2**53
"""Stands for no upper limit; counts are less."""

_MOST = 2.0**61
"""Sums stay below, so that int64 holds them."""


@dataclass(frozen=True, eq=False)
class Laminar:
    """A forest of sets of cells. Nodes are the sets and then the cells, and a last one above all that are in no set."""

    parent: Ints  # the smallest set that holds each node; ``sets + cells`` for none, shape (sets + cells,)
    # Nodes by the number of sets that hold them, those that are in none first, in the order of their parents.
    layers: tuple[Ints, ...]
    # `lower`, `upper`: what each node can be, given the nodes below it; `_OPEN` above where there is no limit, shape (sets +
    # cells,).
    lower: Ints
    upper: Ints
    cells: int
    empty: int  # a set or cell that can be nothing, or -1

    @classmethod
    def of(cls, rows: sp.csr_array, low: Floats, high: Floats, lower: Ints, upper: Ints) -> Laminar | None:
        """The forest of sums with limits; None where the rows have weights, or overlap without one holding the other.

        Parameters
        ----------
        rows : sparse array, shape (sets, cells)
        low, high : float64 arrays, shape (sets,)
            Limits of the sums; infinite where there is none.
        lower, upper : int64 arrays, shape (cells,)
            Limits of the cells; ``2**53`` above where there is none.
        """
        cells = rows.shape[1]
        if np.any(rows.data != 1) or not _adds_up(low, high, lower, upper):
            return None
        found = _forest(rows)
        if found is None:
            return None
        parent, layers = found
        least = np.concatenate([np.maximum(low, 0), lower]).astype(np.int64)
        most = np.concatenate([np.minimum(high, _OPEN), upper]).astype(np.int64)
        for nodes in layers[:0:-1]:
            above, starts = _families(parent, nodes)
            least[above] = np.maximum(least[above], np.add.reduceat(least[nodes], starts))
            most[above] = np.minimum(most[above], _most_of(most[nodes], starts))
        wrong = np.flatnonzero(least > most)
        return cls(parent, layers, least, most, cells, int(wrong[0]) if wrong.size else -1)

    def point(self, guide: Floats) -> Ints:
        """A table near `guide`, shape (cells,): its sums are as near as limits allow, from the top down.

        What the parts of a set have too much or too little is taken from or given to them alike, as far as each can go.
        """
        wanted = np.zeros(len(self.parent), dtype=np.int64)
        largest = min(float(_OPEN), _MOST / self.cells)
        near = np.rint(np.clip(guide, -largest, largest)).astype(np.int64)
        wanted[-self.cells :] = np.clip(near, self.lower[-self.cells :], self.upper[-self.cells :])
        for nodes in self.layers[:0:-1]:
            above, starts = _families(self.parent, nodes)
            sums = np.add.reduceat(wanted[nodes], starts)
            wanted[above] = np.clip(sums, self.lower[above], self.upper[above])
        for nodes in self.layers[1:]:
            above, starts = _families(self.parent, nodes)
            wanted[nodes] = _shared(wanted[nodes], self.lower[nodes], self.upper[nodes], starts, wanted[above])
        return wanted[-self.cells :].copy()

    def bounds(self) -> tuple[Ints, Ints]:
        """The least and the most that each cell can be, shape (cells,); ``2**53`` where there is no limit. All are attained."""
        least, most = self.lower.copy(), self.upper.copy()
        for nodes in self.layers[1:]:
            above, starts = _families(self.parent, nodes)
            sizes = np.diff(np.append(starts, len(nodes)))
            low, high = self.lower[nodes], self.upper[nodes]
            # What is left for a node when the others are as large, or as small, as they can be.
            open_ = high >= _OPEN
            others_open = np.repeat(np.add.reduceat(open_.astype(np.int64), starts), sizes) - open_
            finite = np.where(open_, 0, high)
            others_high = np.repeat(np.add.reduceat(finite, starts), sizes) - finite
            others_low = np.repeat(np.add.reduceat(low, starts), sizes) - low
            top, bottom = np.repeat(most[above], sizes), np.repeat(least[above], sizes)
            most[nodes] = np.where(top >= _OPEN, high, np.minimum(high, top - others_low))
            least[nodes] = np.where(others_open > 0, low, np.maximum(low, bottom - others_high))
        return least[-self.cells :], most[-self.cells :]


def _adds_up(*limits: Floats | Ints) -> bool:
    """Whether int64 holds all sums of finite limits, and float64 each of them."""
    largest = 0.0
    for own in limits:
        finite = np.abs(own[np.isfinite(own) & (np.abs(own) != _OPEN)])
        largest = max(largest, float(finite.max(initial=0)))
    return largest < _OPEN and largest * len(limits[-1]) < _MOST


def _most_of(most: Ints, starts: Ints) -> Ints:
    """What parts add up to at most, `_OPEN` where one of them has no limit."""
    open_ = most >= _OPEN
    sums = np.add.reduceat(np.where(open_, 0, most), starts)
    return np.where(np.logical_or.reduceat(open_, starts), _OPEN, np.minimum(sums, _OPEN))


def _forest(rows: sp.csr_array) -> tuple[Ints, tuple[Ints, ...]] | None:
    """The parent of each set and cell, and nodes by layers; None where sets overlap without one holding the other."""
    sets, cells = rows.shape
    size = np.diff(rows.indptr)
    set_of, cell_of = np.repeat(np.arange(sets), size), rows.indices
    # The sets of each cell, the largest first.
    order = np.lexsort((set_of, -size[set_of], cell_of))
    set_of, cell_of = set_of[order].astype(np.int64), cell_of[order].astype(np.int64)
    first = np.r_[True, cell_of[1:] != cell_of[:-1]] if len(cell_of) else np.zeros(0, dtype=np.bool_)
    above = np.where(first, sets + cells, np.r_[0, set_of[:-1]] if len(set_of) else set_of)
    parent = np.full(sets + cells, sets + cells, dtype=np.int64)
    parent[set_of] = above
    # If the next larger set is the same for all cells of a set, it holds them all, and so do those above it.
    if not np.array_equal(parent[set_of], above):
        return None
    last = np.r_[first[1:], True] if len(first) else first
    parent[sets + cell_of[last]] = set_of[last]
    depth = np.zeros(sets + cells + 1, dtype=np.int64)
    depth[-1] = -1
    place = np.arange(len(set_of)) - np.maximum.accumulate(np.where(first, np.arange(len(set_of)), 0))
    depth[set_of] = place
    depth[sets : sets + cells] = depth[parent[sets:]] + 1
    layers = []
    for layer in range(int(depth.max()) + 1):
        nodes = np.flatnonzero(depth[:-1] == layer)
        layers.append(nodes[np.argsort(parent[nodes], kind="stable")])
    return parent, tuple(layers)


def _families(parent: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """The parents of the nodes of a layer, each once, and where the children of each begin."""
    above = parent[nodes]
    starts = np.flatnonzero(np.r_[True, above[1:] != above[:-1]])
    return above[starts], starts


def _shared(wanted: Ints, lower: Ints, upper: Ints, starts: Ints, totals: Ints) -> Ints:
    """Numbers within limits with given sums: those that are wanted, all shifted alike, and ones more for the first that can."""
    sizes = np.diff(np.append(starts, len(wanted)))
    # None is more than the total of its family.
    high = np.minimum(upper, np.repeat(totals, sizes))

    def at(shift: Ints) -> Ints:
        return np.clip(wanted + np.repeat(shift, sizes), lower, high)

    # The largest shift for which the sum is at most the total, by bisection.
    low = np.minimum.reduceat(lower - wanted, starts)
    top = np.maximum.reduceat(high - wanted, starts) + 1
    while np.any(top - low > 1):
        middle = low + (top - low) // 2
        tried = at(middle)
        small = np.add.reduceat(tried.astype(np.float64), starts) < _MOST  # beyond that int64 might wrap
        fits = small & (np.add.reduceat(tried, starts) <= totals)
        low, top = np.where(fits, middle, low), np.where(fits, top, middle)
    found = at(low)
    missing = totals - np.add.reduceat(found, starts)
    more = at(low + 1) > found
    rank = np.cumsum(more) - more
    found += more & (rank - np.repeat(rank[starts], sizes) < np.repeat(missing, sizes))
    return found

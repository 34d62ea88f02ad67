"""Histograms in bounded memory whose bins widen when they must: quantiles of every cell, with a bound of their error.

A histogram has B bins of 2**s counts each, the first one from a multiple of 2**s on. A value outside moves the bins along, if
all values so far and the new one fit, and else joins them two by two. So while the largest and the smallest value differ by
less than B, every count has its own bin; and bins are never as wide as twice the range of the values over B - 1: bins of w are
joined only where B of them are too few for a range R, so that w < R / (B - 1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@nb.njit(cache=True, nogil=True, inline="always")
def _place(lowest: int, highest: int, bins: int) -> int:
    """The first of the bins, numbered from 0 up the counts, so that both ends are among them and the room is on both sides."""
    return max(0, lowest - (bins - 1 - (highest - lowest)) // 2)


@nb.njit(cache=True, nogil=True)
def _make_room(bins: npt.NDArray[np.uint32], low: int, shift: int, x: int) -> tuple[int, int]:
    """Move or join bins so that x is in one of them; the first bin's number and the new s."""
    size = len(bins)
    first, last = size, -1
    for i in range(size):
        if bins[i] > 0:
            first = min(first, i)
            last = i
    if last < 0:
        return _place(x, x, size), 0
    old = bins.copy()
    lowest, highest = low + first, low + last
    wider = 0
    while True:
        a, b, own = lowest >> wider, highest >> wider, x >> (shift + wider)
        a, b = min(a, own), max(b, own)
        if b - a < size:
            break
        wider += 1
    start = _place(a, b, size)
    bins[:] = 0
    for i in range(first, last + 1):
        bins[((low + i) >> wider) - start] += old[i]
    return start, shift + wider


@nb.njit(cache=True, nogil=True, inline="always")
def add_to(bins: npt.NDArray[np.uint32], grid: Ints, x: int) -> None:
    """Add a count x to a histogram; `grid` has the number of its first bin and s, and is written to."""
    i = (x >> grid[1]) - grid[0]
    if i < 0 or i >= len(bins):
        grid[0], grid[1] = _make_room(bins, grid[0], grid[1], x)
        i = (x >> grid[1]) - grid[0]
    bins[i] += 1


@nb.njit(cache=True, nogil=True)
def pooled_quantiles(bins: npt.NDArray[np.uint32], grids: Ints, ranks: Floats, quantiles: Ints, width: Ints) -> None:
    """Quantiles of histograms of several chains together."""
    # Bins are intervals `[i 2**s, (i + 1) 2**s)`, so that of two, one holds the other or they have nothing in common. At the ends
    # of the widest bins the distribution function is known; in between, counts are taken to be spread evenly in each bin. So
    # quantiles are right where the width is 1, and less than the width away elsewhere. `bins`, shape (chains, cells, B). `grids`,
    # shape (chains, cells, 2): number of the first bin, and s. `ranks`, shape (quantiles,): which quantiles: how many draws are at
    # or below, at least. `quantiles`, shape (quantiles, cells). `width`, shape (cells,): the width of the widest bin; both are
    # written.
    chains, cells, size = bins.shape
    running = np.zeros((chains, size + 1))
    for cell in range(cells):
        low, high, widest = np.int64(2**62), np.int64(0), np.int64(1)
        for chain in range(chains):
            start, shift = grids[chain, cell, 0], grids[chain, cell, 1]
            widest = max(widest, np.int64(1) << shift)
            for i in range(size):
                own = bins[chain, cell, i]
                running[chain, i + 1] = running[chain, i] + own
                if own > 0:
                    low = min(low, (start + i) << shift)
                    high = max(high, ((start + i + 1) << shift) - 1)
        width[cell] = widest
        for q in range(len(ranks)):
            a, b = low, high  # the smallest count with at least this rank
            while a < b:
                middle = (a + b) // 2
                below = 0.0
                for chain in range(chains):
                    start, shift = grids[chain, cell, 0], grids[chain, cell, 1]
                    i = (middle >> shift) - start
                    if i >= size:
                        below += running[chain, size]
                    elif i >= 0:
                        inside = (middle - ((start + i) << shift) + 1) / (np.int64(1) << shift)
                        below += running[chain, i] + inside * (running[chain, i + 1] - running[chain, i])
                if below >= ranks[q]:
                    b = middle
                else:
                    a = middle + 1
            quantiles[q, cell] = a

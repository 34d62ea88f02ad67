"""What is kept of every cell in the place of its draws: means, variances, small counts, bins for quantiles, sums of batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp.streaming.histograms import add_to

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


class Kept(NamedTuple):
    """What one chain keeps of the F cells that can move."""

    where: Ints  # their places in the table, leaves by cells; shared by the chains, shape (F,)
    first: Ints  # their counts in the first draw, shape (F,)
    # `mean`, `squares`: mean of the deviations from `first`, and sum of their squared deviations from it, by Welford's updates,
    # shape (F,).
    mean: Floats
    squares: Floats
    small: npt.NDArray[np.uint32]  # how often the count was 0, 1, ..., k, shape (F, k + 1)
    bins: npt.NDArray[np.uint32]  # shape (F, B)
    grids: Ints  # histograms, see `histograms`, shape (F, 2)
    # Sums of the deviations from `first` over batches of draws that follow one another. Whole numbers: exact below 2**24, and
    # beyond that each addition is rounded by less than 6e-8 of the sum, shape (F, batches).
    batches: npt.NDArray[np.float32]


def _counter(draws: int) -> type[np.unsignedinteger]:
    """The smallest type that counts draws."""
    return np.uint16 if draws < 2**16 else np.uint32


def batching(draws: int, batches: int) -> tuple[int, int]:
    """The length of a batch, and how many batches of that length there are, at most `batches`."""
    length = -(-draws // batches)
    return length, draws // length


def bytes_per_cell(draws: int, counts: int, bins: int, batches: int) -> int:
    """Bytes that a chain keeps of a cell that can move; they do not grow with the number of draws."""
    counter = np.dtype(_counter(draws)).itemsize
    return 24 + counter * (counts + 1 + bins) + 16 + 4 * batching(draws, batches)[1]


def new_kept(where: Ints, draws: int, counts: int, bins: int, batches: int) -> Kept:
    """Nothing yet of the cells at `where`, for a chain of so many draws."""
    cells, counter = len(where), _counter(draws)
    return Kept(
        where=where,
        first=np.zeros(cells, dtype=np.int64),
        mean=np.zeros(cells),
        squares=np.zeros(cells),
        small=np.zeros((cells, counts + 1), dtype=counter),
        bins=np.zeros((cells, bins), dtype=counter),
        grids=np.zeros((cells, 2), dtype=np.int64),
        batches=np.zeros((cells, batching(draws, batches)[1]), dtype=np.float32),
    )


@nb.njit(cache=True, nogil=True)
def take(counts: Ints, draw: int, length: int, kept: Kept) -> None:
    """Add a draw of the table, leaves by cells, to what is kept."""
    # `counts`, shape (T, C). `draw`: its number, from 0. `length`: of a batch.
    where, first, mean, squares, small = kept.where, kept.first, kept.mean, kept.squares, kept.small
    bins, grids, batches = kept.bins, kept.grids, kept.batches
    flat = counts.reshape(-1)
    batch = draw // length
    for i in range(len(where)):
        x = flat[where[i]]
        if draw == 0:
            first[i] = x
        away = x - first[i]
        gap = away - mean[i]
        mean[i] += gap / (draw + 1)
        squares[i] += gap * (away - mean[i])
        if x < small.shape[1]:
            small[i, x] += 1
        add_to(bins[i], grids[i], x)
        if batch < batches.shape[1]:
            batches[i, batch] += away

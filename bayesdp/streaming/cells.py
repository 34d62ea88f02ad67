"""What is kept of the draws of a table: answers of queries to each, and of every cell moments, small counts, bins and batches.

Bins are histograms in bounded memory that widen when they must, for quantiles of every cell, with a bound of their error. One has B
bins of 2**s counts each, the first one from a multiple of 2**s on. A value outside moves the bins along, if all values so far and
the new one fit, and else joins them two by two. So while the largest and the smallest value differ by less than B, every count has
its own bin; and bins are never as wide as twice the range of the values over B - 1: bins of w are joined only where B of them are
too few for a range R, so that w < R / (B - 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import nb
from bayesdp._validate import instance, shown
from bayesdp.frames import Frame
from bayesdp.hierarchies.structure import Tree
from bayesdp.queries import MatrixPart, Query, SumPart
from bayesdp.storage.posteriors import CELLS


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
    # Of two bins, one holds the other or they have nothing in common. At the ends of the widest the distribution function is known;
    # in between, counts are taken to be spread evenly in each bin: quantiles are less than the `width` of the widest bin away, and
    # right where that is 1. `ranks`: how many draws are at or below, at least.
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


class CellSummary(NamedTuple):
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


def batching(draws: int, batches: int) -> tuple[int, int]:
    """The length of a batch, and how many batches of that length there are, at most `batches`."""
    length = -(-draws // batches)
    return length, draws // length


def new_summary(where: Ints, draws: int, counts: int, bins: int, batches: int) -> CellSummary:
    """Nothing yet of the cells at `where`, for a chain of so many draws."""
    cells = len(where)
    counter: type[np.unsignedinteger] = np.uint16 if draws < 2**16 else np.uint32
    return CellSummary(
        where=where,
        first=np.zeros(cells, dtype=np.int64),
        mean=np.zeros(cells),
        squares=np.zeros(cells),
        small=np.zeros((cells, counts + 1), dtype=counter),
        bins=np.zeros((cells, bins), dtype=counter),
        grids=np.zeros((cells, 2), dtype=np.int64),
        batches=np.zeros((cells, batching(draws, batches)[1]), dtype=np.float32),
    )


def bytes_per_cell(draws: int, counts: int, bins: int, batches: int) -> int:
    """Bytes that a chain keeps of a cell that can move, beside its place; they do not grow with the number of draws."""
    counter = 2 if draws < 2**16 else 4
    return 24 + counter * (counts + 1 + bins) + 16 + 4 * batching(draws, batches)[1]


@nb.njit(cache=True, nogil=True)
def take(counts: Ints, draw: int, length: int, kept: CellSummary) -> None:
    """Add a draw of the table, leaves by cells, to what is kept; `length` is that of a batch."""
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


type Occupied = tuple[Ints, Ints, Ints]
"""Leaves, places in the leaf and counts of the cells of a table that are not zero."""


def named_queries(
    record: Query | Mapping[str, Query] | Iterable[Query], frame: Frame | None, taken: Iterable[str]
) -> dict[str, Query]:
    """The queries whose draws are kept, by name."""
    # `frame`: of the table that they must be about, by default that of the first. `taken`: names of hyperparameters.
    asked: Any = [record] if isinstance(record, Query) else record  # a caller without types may give anything
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise TypeError(f"record must be queries, in a list or by name, got {asked!r}")
    given: Any = asked.items() if isinstance(asked, Mapping) else [(None, query) for query in asked]
    found: dict[str, Query] = {}
    taken = [*taken, "chain", "draw", CELLS]
    for key, query in given:
        instance(query, Query, "record must hold queries (bdp.Margins, bdp.Totals, bdp.Identity)", quoted=True)
        frame = frame or query.frame
        if not query.frame.same_cells(frame):
            raise ValueError(
                f"record: {query!r} is about a table with the dimensions {shown(query.frame.dims)}, not about the release's "
                f"({shown(frame.dims)}) with its labels; build it with release.frame"
            )
        name = _name_of(query) if key is None else key
        if not isinstance(name, str) or not name:
            raise TypeError(f"record: names of queries must be strings that are not empty, got {name!r}")
        while name in (*frame.dims, *(group for group, _, _ in frame.groups)):
            name = f"by_{name}"  # the name itself is that of the labels in the result, which no variable can share
        if name in found:
            raise ValueError(
                f"record: two queries are called {name!r}; give them other names, record={{'first': ..., 'second': ...}}"
            )
        if name in taken:
            raise ValueError(
                f"record: the name {name!r} is that of a hyperparameter or the summaries of cells; choose another"
            )
        found[name] = query
    return found


def _name_of(query: Query) -> str:
    if len(query.parts) > 1 or not isinstance(query.parts[0], SumPart):
        return "answers"
    return "by_" + "_".join(query.dims) if query.dims else "total"


class Recorder:
    """Works out the answers of a query to tables, leaves by cells."""

    def __init__(self, query: Query, tree: Tree) -> None:
        self._tree = tree
        self._sums: list[tuple[slice, Ints, Ints]] = []
        self._rows: list[tuple[slice, MatrixPart]] = []
        for part, rows in query.placed_parts:
            if isinstance(part, SumPart):
                self._sums.append((rows, *_row_of(part, tree)))
            else:
                self._rows.append((rows, part))

    def take(self, counts: Ints, answers: Ints, cells: Occupied) -> None:
        """Add the answers for a table to zeros, shape (rows,); `cells` is `occupied(counts)`."""
        leaf, cell, count = cells
        for rows, of_leaf, of_cell in self._sums:
            _add_sums(leaf, cell, count, of_leaf, of_cell, answers[rows])
        for rows, part in self._rows:
            answers[rows] += part.matrix @ self._tree.in_frame(counts)


@nb.njit(cache=True, nogil=True)
def _add_sums(leaf: Ints, cell: Ints, count: Ints, of_leaf: Ints, of_cell: Ints, answers: Ints) -> None:
    for i in range(len(leaf)):
        answers[of_leaf[leaf[i]] + of_cell[cell[i]]] += count[i]


def _row_of(part: SumPart, tree: Tree) -> tuple[Ints, Ints]:
    """The answer that a cell counts in, as a sum of a number of its leaf and a number of its place in the leaf."""
    sizes = [int(codes.max()) + 1 for codes in part.codes]
    answers = np.moveaxis(np.arange(part.rows).reshape(sizes), tree.axis, 0).reshape(sizes[tree.axis], -1)
    return answers[part.codes[tree.axis][tree.order], 0], answers[0, tree.cell_codes(part)]


def occupied(counts: Ints) -> Occupied:
    """The cells that are not zero, found once for all queries: most cells of a large table are empty."""
    leaf, cell = np.nonzero(counts)
    return leaf, cell, counts[leaf, cell]


_FEWEST = 4
"""Batches of a chain below which nothing is said."""

_BLOCK = 2**11
"""Cells that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """The F cells that can move, all chains together."""

    mean: Floats  # with `sd`: of the draws; the variance is over their number minus 1, shape (F,)
    sd: Floats
    chain_mean: Floats  # with `chain_sd`: shape (chains, F)
    chain_sd: Floats
    probability: npt.NDArray[np.float32]  # shares of the draws with a count of 0, 1, ..., k, shape (k + 1, F)
    quantile: Ints  # with `width`: see `pooled_quantiles`, shape (quantiles, F), (F,)
    width: Ints
    ess: Floats  # with `rhat`, `times`: see `batch_diagnostics`, shape (F,)
    rhat: Floats
    times: Floats
    # Effective sample size of each chain by itself, at most 4 times the number of batches minus 1, shape (chains, F).
    chain_ess: Floats


def pooled(chains: Sequence[CellSummary], draws: Sequence[int], length: int, quantiles: Sequence[float]) -> Pooled:
    """Put together what chains kept of at least two draws each, in batches of a length."""
    number = np.array(draws, dtype=np.float64)[:, None]
    total = int(number.sum())
    means = np.stack([own.first + own.mean for own in chains])
    mean = (number * means).sum(axis=0) / total
    within = sum(own.squares for own in chains)
    squares = within + (number * np.square(means - mean)).sum(axis=0)  # Chan, Golub and LeVeque (1983)
    sds = np.sqrt(np.stack([own.squares for own in chains]) / (number - 1.0))
    small = np.zeros((chains[0].small.shape[1], len(mean)), dtype=np.float32)
    quantile = np.zeros((len(quantiles), len(mean)), dtype=np.int64)
    width = np.zeros(len(mean), dtype=np.int64)
    ess, rhat, times = np.full((3, len(mean)), np.nan)
    alone = np.zeros((len(chains), len(mean)))
    # At least this share of the draws; a share of a draw above by rounding does not ask for one more.
    ranks = np.array([max(1.0, np.ceil(q * total - 1e-6)) for q in quantiles])
    for start in range(0, len(mean), _BLOCK):
        part = slice(start, start + _BLOCK)
        small[:, part] = np.sum([own.small[part] for own in chains], axis=0, dtype=np.int64).T / total
        bins = np.stack([own.bins[part] for own in chains])
        grids = np.stack([own.grids[part] for own in chains])
        pooled_quantiles(bins, grids, ranks, quantile[:, part], width[part])
        offsets = np.stack([own.first[part] for own in chains]).astype(np.float64)
        sums = np.stack([own.batches[part] for own in chains]).astype(np.float64)
        deviations = np.stack([own.squares[part] for own in chains])
        ess[part], rhat[part], times[part] = batch_diagnostics(sums, offsets, deviations, draws, length)
        for i, number_of in enumerate(draws):
            one = slice(i, i + 1)
            own, _, _ = batch_diagnostics(sums[one], offsets[one], deviations[one], [number_of], length)
            alone[i, part] = np.minimum(np.nan_to_num(own), 4.0 * (min(number_of // length, sums.shape[2]) - 1))
    return Pooled(
        mean, np.sqrt(squares / max(total - 1, 1)), means, sds, small, quantile, width, ess, rhat, times, alone
    )


def batch_diagnostics(
    sums: Floats, offsets: Floats, squares: Floats, draws: Sequence[int], length: int
) -> tuple[Floats, Floats, Floats]:
    """Effective sample sizes of means, split R-hat, and autocorrelation times within halves of chains, from sums of batches."""
    # `sums`, shape (chains, cells, batches): of the deviations from `offsets`, shape (chains, cells). `squares`, of that shape:
    # squared deviations of all draws from the chain's mean. Results, of shape (cells,), are NaN with fewer than four batches a chain
    # and where a cell never moved, R-hat also with a single chain.
    # The effective size is draws times the variance of a draw in its chain, over the length times the variance of the means of
    # batches about the mean of all chains, so that chains that disagree have a small one. It is too large where batches are short:
    # of an autoregression by a share of half of the autocorrelation time over the length.
    # R-hat is as Vehtari et al. (2021), (4), of the halves of chains, without ranks and folding, up to a batch or two that are left
    # out. Times are the length times the variance of the means of batches about that of their half of a chain, over the variance of
    # draws there (chains that disagree do not look slow), times 1 + half of it over the length, which makes up for short batches.
    full = min(min(own // length for own in draws), sums.shape[2])
    cells = sums.shape[1]
    if full < _FEWEST:
        return np.full(cells, np.nan), np.full(cells, np.nan), np.full(cells, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Deviations from one number for all chains.
        means = sums[:, :, :full] / length + (offsets - offsets[:1])[:, :, None]
        number = np.array(draws, dtype=np.float64)[:, None]
        half = full // 2
        halves = np.stack([means[:, :, :half].mean(axis=2), means[:, :, half : 2 * half].mean(axis=2)], axis=1)
        n = half * length
        apart = np.square(halves[:, 0] - halves[:, 1]) * n / 2.0
        # Where draws are left out, their share of the squares is.
        inside = np.maximum(squares * (2 * n / number) - apart, 0.0)
        within = inside.sum(axis=0) / (2 * len(sums) * (n - 1))
        between = halves.reshape(-1, cells).var(axis=0, ddof=1)
        rhat = np.sqrt((n - 1) / n + between / within)
        about = [means[:, :, :half] - halves[:, 0, :, None], means[:, :, half : 2 * half] - halves[:, 1, :, None]]
        times = length * np.square(about).sum(axis=(0, 1, 3)) / (2 * len(sums) * (half - 1)) / within
        times *= 1.0 + times / (2.0 * length)
        total = float(number.sum())
        grand = means.mean(axis=(0, 2))
        slow = length * np.square(means - grand[:, None]).sum(axis=(0, 2)) / (len(sums) * full - 1)
        spread = squares.sum(axis=0) / (total - len(sums))
        ess = np.minimum(total * spread / slow, total * np.log10(total))  # the limit is that of ArviZ
    moved = squares.sum(axis=0) > 0.0
    moved |= np.ptp(offsets, axis=0) > 0
    if len(sums) < 2:
        rhat[:] = np.nan
    return np.where(moved, ess, np.nan), np.where(moved, rhat, np.nan), np.where(moved, times, np.nan)

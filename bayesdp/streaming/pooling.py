"""Summaries and diagnostics of every cell from what the chains kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.streaming.cells import Kept
from bayesdp.streaming.histograms import pooled_quantiles

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

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


def pooled(chains: Sequence[Kept], draws: Sequence[int], length: int, quantiles: Sequence[float]) -> Pooled:
    """Put together what chains kept."""
    # `draws`: how many draws each has taken, at least two. `length`: of a batch. `quantiles`: probabilities.
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
    # `sums`, shape (chains, cells, batches): of the deviations from `offsets`, shape (chains, cells). `squares`, shape (chains,
    # cells): squared deviations of all draws from the chain's mean. `length`: of a batch. All results have the shape (cells,), and
    # are NaN with fewer than four batches a chain and where a cell never moved, R-hat also with a single chain.
    # The effective size is draws times the variance of a draw in its chain, over the length times the variance of the means of
    # batches about the mean of all chains, so that chains that disagree have a small one. With b batches in all its relative
    # standard error is `sqrt(2 / (b - 1))`. Batches that are not long compared with how long draws stay alike make it too large: of
    # an autoregression by a share of half of the autocorrelation time over the length, a sixth where there are a hundred effective
    # draws a chain and 32 batches.
    # R-hat is as Vehtari et al. (2021), (4), of the halves of chains, without ranks and folding. It is that number where the
    # batches hold all draws and are even in number; up to a batch or two are left out where not.
    # Times are the length times the variance of the means of batches about that of their half of a chain, over the variance of
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

"""Effective sample sizes and R-hat of many quantities at once.

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), "Rank-normalization, folding, and localization: an improved R-hat",
Bayesian Analysis 16(2). The same estimators as ArviZ's, to rounding; ArviZ computes them one quantity after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.fft import next_fast_len
from scipy.special import ndtri
from scipy.stats import f as f_distribution

from bayesdp._integer_chains import LEAST_LENGTH, LONGEST, statistics_of_integers
from bayesdp._lag_sums import effective_sizes

type Floats = npt.NDArray[np.float64]
type Numbers = npt.NDArray[Any]

FEWEST_DRAWS = 4
"""Chains with fewer draws have no diagnostics (NaN), as in ArviZ."""

_BLOCK = 2**19
"""Draws that are worked on at a time; some ten arrays of that length, 4 MB each, are in memory."""

_MANY = 2**21
"""From so many draws of integers on, in all, compiled code is used: it is worth its compilation then."""

_TAILS = (0.05, 0.95)
_RESOLUTION = 1e-15
"""A quantity whose range is below this is constant, as in ArviZ."""


@dataclass(frozen=True, eq=False)
class ChainStatistics:
    """Diagnostics of the quantities, in their shape."""

    ess_bulk: Floats  # effective sample sizes of the rank-normalised draws
    ess_tail: Floats  # the smaller one of those of the 5% and 95% quantiles
    rhat: Floats  # split R-hat, rank-normalised, the larger one of the draws and of their distances from the median


def chain_statistics(draws: Numbers, progress: Callable[[int, int], None] | None = None) -> ChainStatistics:
    """ESS and R-hat of every quantity of draws of shape `(chains, draws, *quantities)`; integers are exact below 2**53, as float64."""
    # A quantity that never moved has the ESS of all draws and no R-hat (NaN); one with draws that are not finite has NaN only, and
    # so has everything with fewer than four draws a chain. R-hat is NaN for one chain, and infinite, or as large as rounding leaves
    # it, where chains stand still at different values. `progress` is called with the number of quantities that are done, and with
    # their number in all.
    chains, length, *shape = draws.shape
    flat = draws.reshape(chains, length, -1)
    total = flat.shape[2]
    found = np.full((3, total), np.nan)
    if length >= FEWEST_DRAWS:
        whole = (
            np.issubdtype(flat.dtype, np.integer) and flat.size >= _MANY and LEAST_LENGTH <= length <= LONGEST // chains
        )
        for part in _parts(flat):
            with np.errstate(all="ignore"):
                found[:, part] = _of_integers(flat[..., part]) if whole else _of_block(_moved(flat[..., part]))
            if progress is not None:
                progress(part.stop, total)
    bulk, tail, rhat = found.reshape(3, *shape)
    return ChainStatistics(bulk, tail, rhat)


def rhat_by_chance(draws: Numbers, rate: float, least: float, most: float) -> Floats:
    """The R-hat of each quantity that chains which agree exceed at a rate, given how fast each of them moves by itself.

    For draws of shape (chains, draws, quantities), shape (quantities,), between `least` and `most`; the limit of that one of the two
    R-hats (of the draws, and of their distances from the median) which exceeds its own, if one does.

    Notes
    -----
    With M halves of chains, of N draws each, ``N (R-hat^2 - 1) + 1`` is the variance of their means, times N, over that within. For
    draws with the autocorrelation time t it is t times an F variable with M - 1 degrees of freedom. The time is
    estimated about the mean of each half, so that chains which disagree do not look slow: from their S effective draws, all
    halves together, ``t = M N / S``. That estimate is a little short, and uncertain: F with (M - 1, S / 12) degrees
    has the tails of the ratio. Of 5,000 to 10,000 autoregressions with times from 1 to 39, in two or four chains of 100 effective
    draws or more, 0.4% to 1.2% exceeded the quantile of 1%, and at most 0.12% that of 0.1%.
    """
    chains, length, _ = draws.shape
    found = np.empty(draws.shape[2])
    for part in _parts(draws):
        halves = _halves(_moved(draws[..., part]))
        folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
        limits, ratios = [], []
        with np.errstate(all="ignore"):
            for scores in map(_normal_scores, (halves, folded)):
                size = _ess(scores - scores.mean(axis=2, keepdims=True))
                time = chains * 2 * (length // 2) / size
                beyond = f_distribution.isf(rate, 2 * chains - 1, size / 12.0)
                limits.append(np.clip(np.sqrt(1.0 + (time * beyond - 1.0) / (length // 2)), least, most))
                ratios.append(_rhat(scores))
        over = np.array(ratios) > np.array(limits)
        exceeded = np.where(over, limits, np.inf).min(axis=0)
        found[part] = np.where(over.any(axis=0), exceeded, np.max(limits, axis=0))
    return found


def ess_bulk(draws: Numbers) -> Floats:
    """Effective sample size of the rank-normalised draws, shape ``(*quantities)``; see `chain_statistics`."""
    return _alone(draws, lambda own: _ess(_normal_scores(_halves(own))))


def ess_mean(draws: Numbers) -> Floats:
    """Effective sample size for the mean, shape ``(*quantities)``; see `chain_statistics`."""
    quick = draws.size >= _MANY and draws.shape[1] >= LEAST_LENGTH
    return _alone(draws, lambda own: _ess_quickly(_halves(own)) if quick else _ess(_halves(own)))


def _alone(draws: Numbers, statistic: Callable[[Floats], Floats]) -> Floats:
    """One statistic of every quantity, shape ``(*quantities)``, block by block; NaN where draws are not finite or too few."""
    chains, length, *shape = draws.shape
    flat = draws.reshape(chains, length, -1)
    found = np.full(flat.shape[2], np.nan)
    if length >= FEWEST_DRAWS:
        for part in _parts(flat):
            own = _moved(flat[..., part])
            with np.errstate(all="ignore"):
                found[part] = np.where(np.isfinite(own).all(axis=(1, 2)), statistic(own), np.nan)
    return found.reshape(shape)


def _parts(flat: Numbers) -> Iterator[slice]:
    """Some quantities at a time."""
    chains, length, total = flat.shape
    step = max(1, _BLOCK // (chains * length))
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))


def _moved(draws: Numbers) -> Floats:
    """Draws in the shape (quantities, chains, draws), each quantity's side by side in memory."""
    return np.ascontiguousarray(np.moveaxis(draws, 2, 0), dtype=np.float64)


def _of_integers(draws: Numbers) -> Floats:
    """`_of_block` of integers, shape (chains, draws, quantities): compiled code, and Fourier transforms for what it leaves to them."""
    chains, length, quantities = draws.shape
    found, wide = np.empty((4, quantities)), np.zeros(quantities, dtype=np.bool_)
    table = _score_table(2 * chains * (length // 2))
    own = np.ascontiguousarray(draws, dtype=np.int64)
    statistics_of_integers(own, table, np.array(_TAILS), found, wide)
    left = np.isnan(found[:3]) & ~wide
    if left[0].any():
        found[0, left[0]] = _ess(_normal_scores(_halves(_moved(draws[..., left[0]]))))
    for tail, share in enumerate(_TAILS, start=1):
        if left[tail].any():
            some = _moved(draws[..., left[tail]])
            found[tail, left[tail]] = _ess_below(_halves(some), np.quantile(some, share, axis=(1, 2)))
    rhat = found[3] if chains > 1 else np.full(quantities, np.nan)
    result = np.stack([found[0], np.minimum(found[1], found[2]), rhat])
    if wide.any():
        result[:, wide] = _of_block(_moved(draws[..., wide]))
    return result


def _of_block(draws: Floats) -> Floats:
    """Bulk ESS, tail ESS and R-hat, shape (3, quantities)."""
    halves = _halves(draws)
    scores = _normal_scores(halves)
    low, high = np.quantile(draws, _TAILS, axis=(1, 2))
    tail = np.minimum(_ess_below(halves, low), _ess_below(halves, high))
    rhat = np.full(len(draws), np.nan)
    if draws.shape[1] > 1:
        folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
        rhat = _larger(_rhat(scores), _rhat(_normal_scores(folded)))
    return np.where(np.isfinite(draws).all(axis=(1, 2)), np.stack([_ess(scores), tail, rhat]), np.nan)


def _ess_below(halves: Floats, cut: Floats) -> Floats:
    """Effective sample size of being at most the cut of each quantity."""
    return _ess((halves <= cut[:, None, None]).astype(np.float64))


def _larger(bulk: Floats, folded: Floats) -> Floats:
    """The larger R-hat; that of the draws where the distances from the median are all equal, and so have none (two values)."""
    return np.where(np.isnan(folded), bulk, np.maximum(bulk, folded))


def _halves(draws: Floats) -> Floats:
    """Each chain as two; the middle draw of an odd number is left out."""
    half = draws.shape[2] // 2
    return np.concatenate([draws[..., :half], draws[..., -half:]], axis=1)


def _normal_scores(draws: Floats) -> Floats:
    """Normal quantiles of the ranks among all chains; ties share the mean of their ranks."""
    flat = draws.reshape(len(draws), -1)
    count = flat.shape[1]
    order = np.argsort(flat, axis=1)
    in_order = np.take_along_axis(flat, order, axis=1)
    # Where runs of ties begin and end, at each place of the order.
    places = np.arange(count)
    begins = np.ones(flat.shape, dtype=bool)
    np.not_equal(in_order[:, 1:], in_order[:, :-1], out=begins[:, 1:])
    ends = np.ones(flat.shape, dtype=bool)
    ends[:, :-1] = begins[:, 1:]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, places, count - 1)[:, ::-1], axis=1)[:, ::-1]
    table = _score_table(count)
    scores = np.empty(flat.shape)
    np.put_along_axis(scores, order, table[first + last], axis=1)
    return scores.reshape(draws.shape)


@lru_cache(maxsize=2)
def _score_table(count: int) -> Floats:
    """Normal quantiles of mean ranks (from 1) of so many draws; twice a mean rank is a whole number, from 2 on. Blom's offset 3/8."""
    return np.asarray(ndtri((np.arange(2, 2 * count + 1) / 2 - 3 / 8) / (count + 1 / 4)))


def _rhat(draws: Floats) -> Floats:
    """R-hat ``sqrt((N - 1 + B / W) / N)``, with B / N the variance of the means of chains, W the mean variance within chains."""
    length = draws.shape[2]
    between = length * draws.mean(axis=2).var(axis=1, ddof=1)
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    return np.asarray(np.sqrt((between / within + length - 1) / length))


def _ess(draws: Floats) -> Floats:
    """Effective sample size, shape (quantities,), by Geyer's initial monotone sequence; see Vehtari et al., Section 3.2.

    For split chains of length N, the sums of neighbouring autocorrelations P_0 = rho_0 + rho_1, P_1 = rho_2 + rho_3, ... are
    added while they are positive, no later one counting for more than an earlier one. The first rho after them is added
    once where it is positive. At most the first (N - 2) / 2 sums are looked at.

    Of rare events these sums can be zero, and whether rounding leaves them above zero decides where the series ends. So every
    number is computed by the operations, and in the order, of ArviZ.
    """
    _, chains, length = draws.shape
    size = chains * length
    covariances = _autocovariances(draws)
    variance = covariances[:, 0] * length / (length - 1.0)
    total = variance * (length - 1.0) / length + draws.mean(axis=2).var(axis=1, ddof=1)
    rho = 1.0 - (variance[:, None] - covariances) / total[:, None]
    rho[:, 0] = 1.0
    # Sums that may be looked at: lag 0 and 1, and from there while the second lag is at most N - 2 or N - 3.
    pairs = 1 + max(0, (length - 3) // 2)
    sums = rho[:, : 2 * pairs].reshape(len(rho), pairs, 2).sum(axis=2)
    positive = sums > 0.0
    # The sum at `last` is the first that is not positive, or the last that is looked at; only those before it are added.
    last = np.where(positive.all(axis=1), pairs - 1, np.argmin(positive, axis=1))
    falling = np.minimum.accumulate(sums, axis=1)
    added = np.where(np.arange(pairs) < last[:, None], falling, 0.0).sum(axis=1)
    even = rho[np.arange(len(rho)), 2 * last]
    here = sums[np.arange(len(rho)), last]
    # The last even lag counts once; a negative one only where its sum is not negative.
    once = np.where((last == 0) | (here >= 0.0) | (even > 0.0), even, 0.0)
    tau = np.maximum(-1.0 + 2.0 * added + once, 1.0 / np.log10(size))
    moved = draws.max(axis=(1, 2)) - draws.min(axis=(1, 2)) >= _RESOLUTION
    return np.where(moved, size / tau, float(size))


def _ess_quickly(halves: Floats) -> Floats:
    """`_ess` of many quantities, of which most are decided after a few lags."""
    found = np.empty(len(halves))
    effective_sizes(halves, found)
    left = np.isnan(found)
    if left.any():
        found[left] = _ess(halves[left])
    return found


def _autocovariances(draws: Floats) -> Floats:
    """Autocovariances of every lag, the mean over the chains, shape (quantities, draws)."""
    length = draws.shape[2]
    padded = next_fast_len(2 * length, real=True)
    spectrum = np.fft.rfft(draws - draws.mean(axis=2, keepdims=True), n=padded, axis=2)
    spectrum *= np.conjugate(spectrum)
    covariances = np.fft.irfft(spectrum, n=padded, axis=2)[..., :length]
    covariances /= length
    return np.asarray(covariances.mean(axis=1))

"""Effective sample sizes and R-hat of many quantities at once.

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), "Rank-normalization, folding, and localization: an improved R-hat",
Bayesian Analysis 16(2). The same estimators as ArviZ's, to rounding; ArviZ computes them one quantity after the other.

Of many draws of integers they are worked out in compiled code: ranks and R-hat come from tables of how often each value occurs, and
autocovariances lag by lag until Geyer's rule stops. Whether draws are in a tail is a bit each, 64 of them in a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.fft import next_fast_len
from scipy.special import fdtri, ndtri

from bayesdp._arrays import Floats, Ints, Mask, Words
from bayesdp._numba import nb

type Numbers = npt.NDArray[Any]
type Codes = npt.NDArray[np.uint16]

FEWEST_DRAWS = 4
"""Chains with fewer draws have no diagnostics (NaN), as in ArviZ."""

_BLOCK = 2**19
"""Draws that are worked on at a time; some ten arrays of that length, 4 MB each, are in memory."""

_MANY = 2**21
"""From so many draws of integers on, in all, compiled code is used: it is worth its compilation then."""

_TAILS = (0.05, 0.95)

_RESOLUTION = 1e-15
"""A quantity whose range is below this is constant, as in ArviZ."""

WIDEST = 4096
"""Quantities with a larger range of values are not worked on by compiled code."""

_REACH = 2**15 - 1
"""How far a draw may be from the first one, to be written in 16 bits; from there on the range is too large."""

LEAST_LENGTH, LONGEST = 8, 2**24
"""Draws of a chain at least, and of a quantity at most, for compiled code."""

_TILE, _ROWS = 64, 32
"""Quantities, and draws, that are copied at a time: the lines of cache that are read and written stay where they are."""

MOST_LAGS = 512
"""A sequence that Geyer's rule does not stop before this lag is left to a Fourier transform."""

GAP = 4
"""Zeros behind each chain: lags are worked on four at a time, and so reach three places beyond the end."""

WORD = 64
"""Draws in a word, a bit each."""

_ODD_BITS, _PAIRS, _FOURS, _BYTES = (
    np.uint64(bits) for bits in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x0101010101010101)
)

_UNSURE = 1e-12
"""A sum of autocorrelations this close to zero: its sign is a matter of rounding, and is left to the order of operations of ArviZ."""

_REASSOCIATE = {"reassoc", "nsz", "contract"}
"""Sums may be taken in any order, so that several terms are added at once."""


@nb.njit(cache=True, fastmath=_REASSOCIATE, error_model="numpy")
def _products(z: Floats, chains: int, length: int, lag: int, out: Floats) -> None:
    """Sums of products of centred chains with themselves, 0 .. 3 places beyond `lag`; behind each chain there are zeros."""
    a = b = c = d = 0.0
    for chain in range(chains):
        # Slices, since an index that might be negative keeps the loop from being vectorised.
        here = z[chain * (length + GAP) :]
        one, two, three, four = here[lag:], here[lag + 1 :], here[lag + 2 :], here[lag + 3 :]
        for i in range(length - lag):
            a += here[i] * one[i]
            b += here[i] * two[i]
            c += here[i] * three[i]
            d += here[i] * four[i]
    out[lag], out[lag + 1], out[lag + 2], out[lag + 3] = a, b, c, d


@nb.njit(cache=True, error_model="numpy")
def _bits_set(word: np.uint64) -> np.uint64:
    """How many bits of a word are set: those of pairs, of fours and of bytes are added side by side."""
    word = word - ((word >> np.uint64(1)) & _ODD_BITS)
    word = (word & _PAIRS) + ((word >> np.uint64(2)) & _PAIRS)
    word = (word + (word >> np.uint64(4))) & _FOURS
    return (word * _BYTES) >> np.uint64(56)


@nb.njit(cache=True, error_model="numpy")
def _joint(bits: Words, chains: int, length: int, lag: int, mean: Floats, ends: Floats, out: Floats) -> None:
    """What `_products` writes, for chains of zeros and ones that are packed into words: at how many places both are one.

    Sums of products of x - m with itself are those of x, less m times the sums of all but the last `lag` and of all but the first,
    and m * m for each of them. `ends` has these two sums together for each chain, for the lag that comes next, and is changed.
    """
    words = bits.shape[1] - 1
    for place in range(lag, lag + 4):
        out[place] = 0.0
        whole, rest = place // WORD, np.uint64(place % WORD)
        for chain in range(chains if place < length else 0):
            line = bits[chain]
            both = np.uint64(0)
            for w in range(words - whole):
                shifted = line[w + whole] >> rest
                if rest > np.uint64(0):
                    shifted |= line[w + whole + 1] << (np.uint64(WORD) - rest)
                both += _bits_set(line[w] & shifted)
            m = mean[chain]
            out[place] += float(both) - m * ends[chain] + (length - place) * m * m
            last = length - 1 - place
            ends[chain] -= float((line[place // WORD] >> np.uint64(place % WORD)) & np.uint64(1))
            ends[chain] -= float((line[last // WORD] >> np.uint64(last % WORD)) & np.uint64(1))


@nb.njit(cache=True, error_model="numpy")
def effective(z: Floats, bits: Words, packed: bool, chains: int, length: int, mean: Floats, ends: Floats, between: float,
              covariance: Floats) -> float:  # fmt: skip
    """Effective sample size of chains; NaN where it is left to a Fourier transform. See `_ess` for the rule."""
    # The chains are `z`, centred, each followed by zeros; or, where they are packed, `bits`, with their means and the sums of both
    # ends. `between` is the variance of the means of chains.
    scale = 1.0 / (chains * length)
    first = variance = total = 0.0
    smallest = np.inf
    added = 0.0
    pairs = 1 + (length - 3) // 2
    for pair in range(min(pairs, MOST_LAGS // 2)):
        lag = 2 * pair
        if lag % 4 == 0:
            if packed:
                _joint(bits, chains, length, lag, mean, ends, covariance)
            else:
                _products(z, chains, length, lag, covariance)
        if lag == 0:
            first = covariance[0] * scale
            variance = first * length / (length - 1.0)
            total = variance * (length - 1.0) / length + between
        even = 1.0 - (variance - covariance[lag] * scale) / total if lag > 0 else 1.0
        odd = 1.0 - (variance - covariance[lag + 1] * scale) / total
        here = even + odd
        if not abs(here) > _UNSURE:
            return np.nan
        if here < 0.0 or pair == pairs - 1:
            once = even if pair == 0 or here > 0.0 or even > 0.0 else 0.0
            return chains * length / max(-1.0 + 2.0 * added + once, 1.0 / math.log10(chains * length))
        smallest = min(smallest, here)
        added += smallest
    return np.nan


@nb.njit(cache=True, error_model="numpy")
def _ratio(often: Ints, values: Floats, width: int, chains: int, length: int, mean: Floats) -> tuple[float, float]:
    """R-hat of what a table says of how often each value occurs in each chain, and the variance of the means, which are written."""
    within = centre = 0.0
    for c in range(chains):
        total = 0.0
        for v in range(width):
            total += often[c, v] * values[v]
        mean[c] = total / length
        centre += mean[c] / chains
        squares = 0.0
        for v in range(width):
            squares += often[c, v] * (values[v] - mean[c]) ** 2
        within += squares / (length - 1.0) / chains
    between = 0.0
    for c in range(chains):
        between += (mean[c] - centre) ** 2 / (chains - 1.0)
    return math.sqrt((length * between / within + length - 1.0) / length), between


@nb.njit(cache=True, error_model="numpy")
def _scores(often: Ints, width: int, table: Floats, values: Floats) -> None:
    """Normal scores of the values 0 .. width - 1: the entry of the table for twice the mean rank."""
    before = 0
    for v in range(width):
        if often[v] > 0:
            values[v] = table[2 * before + often[v] - 1]
        before += often[v]


@nb.njit(cache=True, error_model="numpy")
def _value_at(often: Ints, place: int) -> int:
    """The value at a place, from 0, of the draws in order."""
    v, before = 0, often[0]
    while before <= place:
        v += 1
        before += often[v]
    return v


@nb.njit(cache=True, error_model="numpy")
def _last_below(often: Ints, size: int, share: float, smallest: int) -> int:
    """The largest value, counted from the smallest, that is not above the quantile, by NumPy's interpolation and rounding."""
    place = (size - 1) * share
    whole = math.floor(place)
    part = place - whole
    low = float(smallest + _value_at(often, int(whole)))
    high = float(smallest + _value_at(often, min(int(whole) + 1, size - 1)))
    cut = low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part)
    return math.floor(cut) - smallest


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _copy(draws: Ints, first: int, codes: Codes, wide: Mask) -> None:
    """Write how far the draws of some quantities are above the first one less `_REACH`; `wide` is set where one is further away."""
    # `draws`, shape (all draws, quantities); the quantities are those from `first` on, as many as `codes`, shape (., all draws), has.
    tile = len(wide)
    low, high = np.empty(tile, dtype=np.int64), np.empty(tile, dtype=np.int64)
    for b in range(tile):  # ends of 64 bits are ends here, too: differences are numbers of 64 bits
        start = draws[0, first + b]
        low[b] = max(start, np.iinfo(np.int64).min + _REACH) - _REACH
        high[b] = min(start, np.iinfo(np.int64).max - _REACH) + _REACH
        wide[b] = False
    for top in range(0, len(draws), _ROWS):
        rows = draws[top : top + _ROWS]
        for b in range(tile):
            start, least, most, column, far = draws[0, first + b], low[b], high[b], codes[b, top:], False
            for i in range(len(rows)):
                x = rows[i, first + b]
                far |= (x < least) | (x > most)
                column[i] = np.uint16(x - start + _REACH)
            wide[b] |= far


@nb.njit(cache=True, error_model="numpy")
def _fill_scores(z: Floats, codes: Codes, places: Ints, length: int, values: Floats, mean: Floats) -> None:
    for c in range(len(places)):
        out, mine, centre = z[c * (length + GAP) :], codes[places[c] :], mean[c]
        for i in range(length):
            out[i] = values[mine[i]] - centre


@nb.njit(cache=True, error_model="numpy")
def _fill_tail(bits: Words, codes: Codes, places: Ints, length: int, last: int) -> None:
    """Pack which draws are at most `last`, the first in the lowest bit; the words behind them are 0."""
    cut = np.uint16(last)
    for c in range(len(places)):
        mine = codes[places[c] :]
        for w in range(bits.shape[1] - 1):
            word = np.uint64(0)
            for i in range(min(WORD, length - w * WORD)):
                word |= np.uint64(mine[w * WORD + i] <= cut) << np.uint64(i)
            bits[c, w] = word


@nb.njit(cache=True, nogil=True, error_model="numpy")
def statistics_of_integers(
    draws: Ints, chains: int, start: int, table: Floats, shares: Floats, found: Floats, slow: Mask
) -> None:
    """Write bulk ESS, ESS of the lower and of the upper tail, and R-hat of quantities into `found`, shape (4, quantities)."""
    # Of int64 `draws`, shape (chains * draws, .), from the quantity `start` on, as many as `slow` has. `table` has normal scores by
    # twice the mean rank, from 2 on, of all draws of split chains; `shares` the two quantiles that cut off the tails. `slow` is set
    # where the range of values is too large: those are not written. An ESS that is left to a Fourier transform is NaN.
    draws_of, quantities = len(draws) // chains, len(slow)
    length = draws_of // 2
    split = 2 * chains
    places = np.empty(split, dtype=np.int64)
    for c in range(chains):
        places[2 * c], places[2 * c + 1] = c * draws_of, (c + 1) * draws_of - length
    codes, far_off = np.empty((_TILE, len(draws)), dtype=np.uint16), np.zeros(_TILE, dtype=np.bool_)
    often = np.zeros((split, WIDEST), dtype=np.int64)
    in_all, in_split = np.zeros(WIDEST, dtype=np.int64), np.zeros(WIDEST, dtype=np.int64)
    folded = np.zeros(WIDEST, dtype=np.int64)
    far = np.zeros((split, WIDEST), dtype=np.int64)
    values, mean = np.zeros(WIDEST), np.zeros(split)
    z = np.zeros(split * (length + GAP) + GAP)
    # One more word, so that there is one behind the last.
    bits, ends = np.zeros((split, (length - 1) // WORD + 2), dtype=np.uint64), np.zeros(split)
    covariance = np.zeros(MOST_LAGS + 4)
    for first in range(0, quantities, _TILE):
        tile = min(_TILE, quantities - first)
        _copy(draws, start + first, codes, far_off[:tile])
        for b in range(tile):
            k, line = first + b, codes[b]
            low = high = line[0]
            for i in range(len(line)):
                low, high = min(low, line[i]), max(high, line[i])
            width = int(high) - int(low) + 1
            if far_off[b] or width > WIDEST:
                slow[k] = True
                continue
            if width == 1:
                found[0, k] = found[1, k] = found[2, k] = chains * length * 2.0
                found[3, k] = np.nan
                continue
            line -= low
            often[:, :width] = 0
            for c in range(split):
                mine, own = line[places[c] :], often[c]
                for i in range(length):
                    own[mine[i]] += 1
            for v in range(width):
                count = 0
                for c in range(split):
                    count += often[c, v]
                in_split[v] = in_all[v] = count
            if draws_of % 2:
                for c in range(chains):
                    in_all[line[c * draws_of + length]] += 1
            _scores(in_split, width, table, values)
            rhat, between = _ratio(often, values, width, split, length, mean)
            _fill_scores(z, line, places, length, values, mean)
            found[0, k] = effective(z, bits, False, split, length, mean, ends, between, covariance)
            before = -1
            for tail in range(2):
                last = _last_below(in_all, len(draws), shares[tail], draws[0, start + k] - _REACH + int(low))
                if last == before:
                    found[1 + tail, k] = found[tail, k]
                    continue
                before = last
                inside, centre = 0.0, 0.0
                for c in range(split):
                    mean[c] = 0.0
                    for v in range(last + 1):
                        mean[c] += often[c, v]
                    inside += mean[c]
                    ends[c] = 2.0 * mean[c]
                    mean[c] /= length
                    centre += mean[c] / split
                if inside == split * length or inside == 0.0:
                    found[1 + tail, k] = split * length
                    continue
                between = 0.0
                for c in range(split):
                    between += (mean[c] - centre) ** 2 / (split - 1.0)
                _fill_tail(bits, line, places, length, last)
                found[1 + tail, k] = effective(z, bits, True, split, length, mean, ends, between, covariance)
            # Twice the distance from the median is a whole number.
            half = split * length // 2
            twice = _value_at(in_split, half - 1) + _value_at(in_split, half)
            reach = max(twice, 2 * (width - 1) - twice) + 1
            # The distances are all even or all odd.
            odd = twice % 2
            wide = (reach - 1 - odd) // 2 + 1
            folded[:wide] = 0
            far[:, :wide] = 0
            for v in range(width):
                away = (abs(2 * v - twice) - odd) // 2
                folded[away] += in_split[v]
                for c in range(split):
                    far[c, away] += often[c, v]
            _scores(folded, wide, table, values)
            fold, _ = _ratio(far, values, wide, split, length, mean)
            found[3, k] = rhat if np.isnan(fold) else max(rhat, fold)


class ChainStatistics(NamedTuple):
    """Diagnostics of the quantities, in their shape."""

    ess_bulk: Floats  # effective sample sizes of the rank-normalised draws
    ess_tail: Floats  # the smaller one of those of the 5% and 95% quantiles
    rhat: Floats  # split R-hat, rank-normalised, the larger one of the draws and of their distances from the median


def chain_statistics(draws: Numbers, progress: Callable[[int, int], None] | None = None) -> ChainStatistics:
    """ESS and R-hat of every quantity of draws of shape `(chains, draws, *quantities)`; integers are exact below 2**53, as float64."""
    # A quantity that never moved has the ESS of all draws and no R-hat (NaN); one with draws that are not finite has NaN only, and
    # so has everything with fewer than four draws a chain. R-hat is NaN for one chain, and infinite, or as large as rounding leaves
    # it, where chains stand still at different values. `progress` hears how many quantities are done, of how many.
    chains, length, *shape = draws.shape
    flat = draws.reshape(chains, length, -1)
    total = flat.shape[2]
    found = np.full((3, total), np.nan)
    if length >= FEWEST_DRAWS:
        fits = LEAST_LENGTH <= length <= LONGEST // chains
        whole = np.issubdtype(flat.dtype, np.integer) and flat.size >= _MANY and fits
        for part in _parts(flat):
            with np.errstate(all="ignore"):
                found[:, part] = _of_integers(flat, part) if whole else _of_block(_moved(flat[..., part]))
            if progress is not None:
                progress(part.stop, total)
    return ChainStatistics(*found.reshape(3, *shape))


def rhat_by_chance(draws: Numbers, rate: float, least: float, most: float) -> Floats:
    """The R-hat of each quantity that chains which agree exceed at a rate, given how fast each of them moves by itself.

    Between `least` and `most`; of that one of the two R-hats (of the draws, and of their distances from the median) which exceeds its
    limit, if one does. With M halves of chains, of N draws each, ``N (R-hat^2 - 1) + 1`` is the variance of their means, times N, over
    that within. For draws with the autocorrelation time t it is t times an F variable with M - 1 degrees of freedom. The time is
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
                beyond = fdtri(2 * chains - 1, size / 12.0, 1.0 - rate)
                limits.append(np.clip(np.sqrt(1.0 + (time * beyond - 1.0) / (length // 2)), least, most))
                ratios.append(_rhat(scores))
        over = np.array(ratios) > np.array(limits)
        exceeded = np.where(over, limits, np.inf).min(axis=0)
        found[part] = np.where(over.any(axis=0), exceeded, np.max(limits, axis=0))
    return found


def ess_bulk(draws: Numbers) -> Floats:
    """Effective sample size of the rank-normalised draws, shape ``(*quantities)``; see `chain_statistics`."""
    return _alone(draws, lambda draws: _ess(_normal_scores(_halves(draws))))


def ess_mean(draws: Numbers) -> Floats:
    """Effective sample size for the mean, shape ``(*quantities)``; see `chain_statistics`."""
    return _alone(draws, lambda draws: _ess(_halves(draws)))


def _alone(draws: Numbers, statistic: Callable[[Floats], Floats]) -> Floats:
    """One statistic of every quantity, shape ``(*quantities)``, block by block; NaN where draws are not finite or too few."""
    chains, length, *shape = draws.shape
    flat = draws.reshape(chains, length, -1)
    found = np.full(flat.shape[2], np.nan)
    if length >= FEWEST_DRAWS:
        for part in _parts(flat):
            moved = _moved(flat[..., part])
            with np.errstate(all="ignore"):
                found[part] = np.where(np.isfinite(moved).all(axis=(1, 2)), statistic(moved), np.nan)
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


def _of_integers(flat: Numbers, part: slice) -> Floats:
    """`_of_block` of a part of integers, shape (chains, draws, .): compiled code, and Fourier transforms for what that leaves."""
    draws = flat[..., part]
    chains, length, quantities = draws.shape
    found, wide = np.empty((4, quantities)), np.zeros(quantities, dtype=np.bool_)
    table = _score_table(2 * chains * (length // 2))
    ready = flat.dtype == np.int64 and flat.flags.c_contiguous
    rows = flat if ready else np.ascontiguousarray(draws, dtype=np.int64)
    rows, start = rows.reshape(chains * length, -1), part.start if ready else 0
    statistics_of_integers(rows, chains, start, table, np.array(_TAILS), found, wide)
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
        # That of the draws where the distances from the median are all equal, and so have none (two values).
        rhat = np.fmax(_rhat(scores), _rhat(_normal_scores(folded)))
    return np.where(np.isfinite(draws).all(axis=(1, 2)), np.stack([_ess(scores), tail, rhat]), np.nan)


def _ess_below(halves: Floats, cut: Floats) -> Floats:
    """Effective sample size of being at most the cut of each quantity."""
    return _ess((halves <= cut[:, None, None]).astype(np.float64))


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


def _autocovariances(draws: Floats) -> Floats:
    """Autocovariances of every lag, the mean over the chains, shape (quantities, draws)."""
    length = draws.shape[2]
    padded = next_fast_len(2 * length, real=True)
    spectrum = np.fft.rfft(draws - draws.mean(axis=2, keepdims=True), n=padded, axis=2)
    spectrum *= np.conjugate(spectrum)
    covariances = np.fft.irfft(spectrum, n=padded, axis=2)[..., :length]
    covariances /= length
    return np.asarray(covariances.mean(axis=1))

"""Effective sample sizes and R-hat of many integer quantities, one after the other in compiled code.

The same estimators as `bayesdp._chains`, whose functions say what is computed; this is the fast way there for counts. Ranks come
from a table of how often each value occurs, R-hat from such tables of each chain, and autocovariances from `bayesdp._lag_sums`.
Whether draws are in a tail is a bit each, 64 of them in a word.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._lag_sums import GAP, MOST_LAGS, WORD, effective
from bayesdp._numba import nb

__all__ = ["LEAST_LENGTH", "LONGEST", "statistics_of_integers"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

WIDEST = 4096
"""Quantities with a larger range of values are not worked on here."""

LEAST_LENGTH = 8
"""Draws of a chain, at least."""

LONGEST = 2**24
"""Draws of a quantity, at most."""

_TILE = 8
"""Quantities that are copied out of the draws at a time: a line of cache."""


@nb.njit(cache=True, error_model="numpy")
def _ratio(often: Ints, values: Floats, width: int, chains: int, length: int, mean: Floats) -> tuple[float, float]:
    """R-hat of what a table says of how often each value occurs in each chain, and the variance of the means, which are written."""
    within = centre = 0.0
    for c in range(chains):
        own = 0.0
        for v in range(width):
            own += often[c, v] * values[v]
        mean[c] = own / length
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


@nb.njit(cache=True, error_model="numpy")
def _fill_scores(
    z: Floats, codes: npt.NDArray[np.uint16], places: Ints, length: int, values: Floats, mean: Floats
) -> None:
    for c in range(len(places)):
        out, mine, own = z[c * (length + GAP) :], codes[places[c] :], mean[c]
        for i in range(length):
            out[i] = values[mine[i]] - own


@nb.njit(cache=True, error_model="numpy")
def _fill_tail(bits: Words, codes: npt.NDArray[np.uint16], places: Ints, length: int, last: int) -> None:
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
    draws: Ints,
    table: Floats,
    shares: Floats,
    found: Floats,
    slow: npt.NDArray[np.bool_],
) -> None:
    """Write bulk ESS, ESS of the lower and of the upper tail, and R-hat of every quantity into `found`, shape (4, quantities)."""
    # Of int64 `draws`, shape (chains, draws, quantities). `table` has normal scores by twice the mean rank, from 2 on, of all draws
    # of split chains; `shares` the two quantiles that cut off the tails. `slow` is set where the range of values is too large:
    # those are not written. An ESS that is left to a Fourier transform is NaN.
    chains, draws_of, quantities = draws.shape
    length = draws_of // 2
    split = 2 * chains
    places = np.empty(split, dtype=np.int64)
    for c in range(chains):
        places[2 * c], places[2 * c + 1] = c * draws_of, (c + 1) * draws_of - length
    codes = np.empty((_TILE, chains * draws_of), dtype=np.uint16)
    low, high = np.empty(_TILE, dtype=np.int64), np.empty(_TILE, dtype=np.int64)
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
        for b in range(tile):
            low[b] = high[b] = draws[0, 0, first + b]
        for c in range(chains):
            for i in range(draws_of):
                for b in range(tile):
                    low[b], high[b] = min(low[b], draws[c, i, first + b]), max(high[b], draws[c, i, first + b])
        for c in range(chains):
            for i in range(draws_of):
                for b in range(tile):
                    codes[b, c * draws_of + i] = np.uint16(draws[c, i, first + b] - low[b])
        for b in range(tile):
            k = first + b
            if float(high[b]) - float(low[b]) >= WIDEST:  # a difference of integers may be beyond 64 bits
                slow[k] = True
                continue
            width = int(high[b] - low[b]) + 1
            if width == 1:
                found[0, k] = found[1, k] = found[2, k] = chains * length * 2.0
                found[3, k] = np.nan
                continue
            own_codes = codes[b]
            often[:, :width] = 0
            for i in range(length):
                for c in range(split):
                    often[c, own_codes[places[c] + i]] += 1
            for v in range(width):
                count = 0
                for c in range(split):
                    count += often[c, v]
                in_split[v] = in_all[v] = count
            if draws_of % 2:
                for c in range(chains):
                    in_all[own_codes[c * draws_of + length]] += 1
            _scores(in_split, width, table, values)
            rhat, between = _ratio(often, values, width, split, length, mean)
            _fill_scores(z, own_codes, places, length, values, mean)
            found[0, k] = effective(z, bits, False, split, length, mean, ends, between, covariance)
            before = -1
            for tail in range(2):
                last = _last_below(in_all, chains * draws_of, shares[tail], low[b])
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
                _fill_tail(bits, own_codes, places, length, last)
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

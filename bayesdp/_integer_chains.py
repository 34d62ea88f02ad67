"""Effective sample sizes and R-hat of many integer quantities, one after the other in compiled code.

The same estimators as `bayesdp._chains`, whose functions say what is computed; this is the fast way there for counts. Ranks come
from a table of how often each value occurs, R-hat from such tables of each chain, and autocovariances are worked out lag by lag
until Geyer's rule stops, which most often is after a few lags. Whether draws are in a tail is a bit each, 64 of them in a word.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

__all__ = ["LEAST_LENGTH", "LONGEST", "effective_sizes", "statistics_of_integers"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

WIDEST = 4096
"""Quantities with a larger range of values are not worked on here."""

LEAST_LENGTH = 8
"""Draws of a chain, at least."""

LONGEST = 2**24
"""Draws of a quantity, at most."""

MOST_LAGS = 512
"""A sequence that Geyer's rule does not stop before this lag is left to a Fourier transform."""

_GAP = 4
"""Zeros behind each chain: lags are worked on four at a time, and so reach three places beyond the end."""

_WORD = 64
_ODD_BITS, _PAIRS, _FOURS, _BYTES = (
    np.uint64(own) for own in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x0101010101010101)
)

_UNSURE = 1e-12
"""A sum of autocorrelations this close to zero: its sign is a matter of rounding, and is left to the order of operations of ArviZ."""

_NO_RANGE = 1e-15
"""A quantity whose range is below this is constant, as in ArviZ."""

_TILE = 8
"""Quantities that are copied out of the draws at a time: a line of cache."""

_REASSOCIATE = {"reassoc", "nsz", "contract"}
"""Sums may be taken in any order, so that several terms are added at once."""


@nb.njit(cache=True, fastmath=_REASSOCIATE, error_model="numpy")
def _products(z: Floats, chains: int, length: int, lag: int, out: Floats) -> None:
    """Sums of products of centred chains with themselves, 0 .. 3 places beyond `lag`; behind each chain there are zeros."""
    a = b = c = d = 0.0
    for chain in range(chains):
        # Slices, since an index that might be negative keeps the loop from being vectorised.
        own = z[chain * (length + _GAP) :]
        one, two, three, four = own[lag:], own[lag + 1 :], own[lag + 2 :], own[lag + 3 :]
        for i in range(length - lag):
            a += own[i] * one[i]
            b += own[i] * two[i]
            c += own[i] * three[i]
            d += own[i] * four[i]
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
    for own in range(lag, lag + 4):
        out[own] = 0.0
        whole, rest = own // _WORD, np.uint64(own % _WORD)
        for chain in range(chains if own < length else 0):
            line = bits[chain]
            both = np.uint64(0)
            for w in range(words - whole):
                shifted = line[w + whole] >> rest
                if rest > np.uint64(0):
                    shifted |= line[w + whole + 1] << (np.uint64(_WORD) - rest)
                both += _bits_set(line[w] & shifted)
            m = mean[chain]
            out[own] += float(both) - m * ends[chain] + (length - own) * m * m
            last = length - 1 - own
            ends[chain] -= float((line[own // _WORD] >> np.uint64(own % _WORD)) & np.uint64(1))
            ends[chain] -= float((line[last // _WORD] >> np.uint64(last % _WORD)) & np.uint64(1))


@nb.njit(cache=True, error_model="numpy")
def _effective(
    z: Floats,
    bits: Words,
    packed: bool,
    chains: int,
    length: int,
    mean: Floats,
    ends: Floats,
    between: float,
    covariance: Floats,
) -> float:
    """Effective sample size of chains; NaN where it is left to a Fourier transform. See `bayesdp._chains._ess` for the rule.

    The chains are `z`, centred, each followed by zeros; or, where they are packed, `bits`, with their means and the sums of both ends.
    `between` is the variance of the means of chains.
    """
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


@nb.njit(cache=True, nogil=True, error_model="numpy")
def effective_sizes(halves: Floats, found: Floats) -> None:
    """Write the effective sample size for the mean of every quantity; NaN where it is left to a Fourier transform.

    Parameters
    ----------
    halves : float64 array, shape (quantities, chains, draws)
        Draws of split chains.
    found : float64 array, shape (quantities,)
    """
    quantities, chains, length = halves.shape
    z = np.zeros(chains * (length + _GAP) + _GAP)
    mean, ends, covariance = np.zeros(chains), np.zeros(chains), np.zeros(MOST_LAGS + 4)
    bits = np.zeros((1, 1), dtype=np.uint64)
    for k in range(quantities):
        centre, low, high = 0.0, halves[k, 0, 0], halves[k, 0, 0]
        for c in range(chains):
            own, out = halves[k, c], z[c * (length + _GAP) :]
            mean[c] = own.mean()
            centre += mean[c] / chains
            for i in range(length):
                low, high = min(low, own[i]), max(high, own[i])
                out[i] = own[i] - mean[c]
        between = 0.0
        for c in range(chains):
            between += (mean[c] - centre) ** 2 / (chains - 1.0)
        found[k] = chains * length
        if not high - low < _NO_RANGE:
            found[k] = _effective(z, bits, False, chains, length, mean, ends, between, covariance)


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
        out, mine, own = z[c * (length + _GAP) :], codes[places[c] :], mean[c]
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
            for i in range(min(_WORD, length - w * _WORD)):
                word |= np.uint64(mine[w * _WORD + i] <= cut) << np.uint64(i)
            bits[c, w] = word


@nb.njit(cache=True, nogil=True, error_model="numpy")
def statistics_of_integers(
    draws: Ints,
    table: Floats,
    shares: Floats,
    found: Floats,
    slow: npt.NDArray[np.bool_],
) -> None:
    """Write bulk ESS, tail ESS of both tails, and R-hat of every quantity.

    Parameters
    ----------
    draws : int64 array, shape (chains, draws, quantities)
    table : float64 array
        Normal scores by twice the mean rank, from 2 on, of all draws of split chains.
    shares : float64 array, shape (2,)
        The quantiles that cut off the tails.
    found : float64 array, shape (4, quantities)
        Bulk ESS, ESS of the lower and of the upper tail, R-hat. Those of `slow` quantities are not written, and an ESS that
        is left to a Fourier transform is NaN.
    slow : bool array, shape (quantities,)
        Is set where the range of values is too large.
    """
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
    z = np.zeros(split * (length + _GAP) + _GAP)
    # One more word, so that there is one behind the last.
    bits, ends = np.zeros((split, (length - 1) // _WORD + 2), dtype=np.uint64), np.zeros(split)
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
            found[0, k] = _effective(z, bits, False, split, length, mean, ends, between, covariance)
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
                found[1 + tail, k] = _effective(z, bits, True, split, length, mean, ends, between, covariance)
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

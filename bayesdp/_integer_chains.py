"""Effective sample sizes and R-hat of many integer quantities, one after the other in compiled code.

The same estimators as `bayesdp._chains`, whose functions say what is computed; this is the fast way there for counts. Ranks come
from a table of how often each value occurs, R-hat from such tables of each chain, and autocovariances are worked out lag by lag
until Geyer's rule stops, which most often is after a few lags.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

__all__ = ["LEAST_LENGTH", "LONGEST", "effective_sizes", "statistics_of_integers"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

WIDEST = 4096
"""Quantities with a larger range of values are not worked on here."""

LEAST_LENGTH = 8
"""Draws of a chain, at least."""

LONGEST = 2**24
"""Draws of a quantity, at most."""

MOST_LAGS = 64
"""A sequence that Geyer's rule does not stop before this lag is left to a Fourier transform."""

_UNSURE = 1e-12
"""A sum of autocorrelations this close to zero: its sign is a matter of rounding, and is left to the order of operations of ArviZ."""

_NO_RANGE = 1e-15
"""A quantity whose range is below this is constant, as in ArviZ."""

_TILE = 8
"""Quantities that are copied out of the draws at a time: a line of cache."""

_REASSOCIATE = {"reassoc", "nsz", "contract"}
"""Sums may be taken in any order, so that several terms are added at once."""


@nb.njit(cache=True, fastmath=_REASSOCIATE, error_model="numpy")
def _products(z: Floats, size: int, lag: int, out: Floats) -> None:
    """Sums of products of `z` with itself, 0 .. 3 places beyond `lag`; behind each chain there are zeros."""
    a = b = c = d = 0.0
    # Slices, since an index that might be negative keeps the loop from being vectorised.
    own, one, two, three, four = z[:size], z[lag:], z[lag + 1 :], z[lag + 2 :], z[lag + 3 :]
    for i in range(size):
        a += own[i] * one[i]
        b += own[i] * two[i]
        c += own[i] * three[i]
        d += own[i] * four[i]
    out[lag], out[lag + 1], out[lag + 2], out[lag + 3] = a, b, c, d


@nb.njit(cache=True, error_model="numpy")
def _effective(z: Floats, chains: int, length: int, between: float, covariance: Floats) -> float:
    """Effective sample size of centred chains, each followed by zeros; NaN where it is left to a Fourier transform.

    `between` is the variance of the means of chains. See `bayesdp._chains._ess` for the rule.
    """
    size = chains * (length + MOST_LAGS)
    _products(z, size, 0, covariance)
    scale = 1.0 / (chains * length)
    first = covariance[0] * scale
    variance = first * length / (length - 1.0)
    total = variance * (length - 1.0) / length + between
    smallest = np.inf
    added = 0.0
    pairs = 1 + (length - 3) // 2
    for pair in range(min(pairs, MOST_LAGS // 2)):
        lag = 2 * pair
        if lag > 0 and lag % 4 == 0:
            _products(z, size, lag, covariance)
        even = 1.0 - (variance - covariance[lag] * scale) / total if lag > 0 else 1.0
        odd = 1.0 - (variance - covariance[lag + 1] * scale) / total
        here = even + odd
        if not abs(here) > _UNSURE or pair == pairs - 1:
            return np.nan
        if here < 0.0:
            once = even if pair == 0 or even > 0.0 else 0.0
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
    z = np.zeros(chains * (length + MOST_LAGS) + MOST_LAGS + 4)
    mean, covariance = np.zeros(chains), np.zeros(MOST_LAGS + 4)
    for k in range(quantities):
        centre, low, high = 0.0, halves[k, 0, 0], halves[k, 0, 0]
        for c in range(chains):
            own, out = halves[k, c], z[c * (length + MOST_LAGS) :]
            mean[c] = own.mean()
            centre += mean[c] / chains
            for i in range(length):
                low, high = min(low, own[i]), max(high, own[i])
                out[i] = own[i] - mean[c]
        between = 0.0
        for c in range(chains):
            between += (mean[c] - centre) ** 2 / (chains - 1.0)
        found[k] = chains * length if high - low < _NO_RANGE else _effective(z, chains, length, between, covariance)


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
        out, mine, own = z[c * (length + MOST_LAGS) :], codes[places[c] :], mean[c]
        for i in range(length):
            out[i] = values[mine[i]] - own


@nb.njit(cache=True, error_model="numpy")
def _fill_tail(z: Floats, codes: npt.NDArray[np.uint16], places: Ints, length: int, last: int, mean: Floats) -> None:
    cut = np.uint16(last)
    for c in range(len(places)):
        out, mine = z[c * (length + MOST_LAGS) :], codes[places[c] :]
        inside, outside = 1.0 - mean[c], -mean[c]
        for i in range(length):
            out[i] = inside if mine[i] <= cut else outside


@nb.njit(cache=True, nogil=True, error_model="numpy")
def statistics_of_integers(
    draws: Ints,
    low: Ints,
    high: Ints,
    table: Floats,
    shares: Floats,
    found: Floats,
    slow: npt.NDArray[np.bool_],
) -> None:
    """Write bulk ESS, tail ESS of both tails, and R-hat of every quantity.

    Parameters
    ----------
    draws : int64 array, shape (chains, draws, quantities)
    low, high : int64 arrays, shape (quantities,)
        The smallest and the largest draw.
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
    often = np.zeros((split, WIDEST), dtype=np.int64)
    in_all, in_split = np.zeros(WIDEST, dtype=np.int64), np.zeros(WIDEST, dtype=np.int64)
    folded = np.zeros(WIDEST, dtype=np.int64)
    far = np.zeros((split, WIDEST), dtype=np.int64)
    values, mean = np.zeros(WIDEST), np.zeros(split)
    z = np.zeros(split * (length + MOST_LAGS) + MOST_LAGS + 4)
    covariance = np.zeros(MOST_LAGS + 4)
    for first in range(0, quantities, _TILE):
        tile = min(_TILE, quantities - first)
        for c in range(chains):
            for i in range(draws_of):
                for b in range(tile):
                    codes[b, c * draws_of + i] = np.uint16(draws[c, i, first + b] - low[first + b])
        for b in range(tile):
            k = first + b
            if high[k] - low[k] >= WIDEST:
                slow[k] = True
                continue
            width = int(high[k] - low[k]) + 1
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
            found[0, k] = _effective(z, split, length, between, covariance)
            before = -1
            for tail in range(2):
                last = _last_below(in_all, chains * draws_of, shares[tail], low[k])
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
                    mean[c] /= length
                    centre += mean[c] / split
                if inside == split * length or inside == 0.0:
                    found[1 + tail, k] = split * length
                    continue
                between = 0.0
                for c in range(split):
                    between += (mean[c] - centre) ** 2 / (split - 1.0)
                _fill_tail(z, own_codes, places, length, last, mean)
                found[1 + tail, k] = _effective(z, split, length, between, covariance)
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

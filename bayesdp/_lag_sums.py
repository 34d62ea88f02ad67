"""Sums of lagged products, and the effective sample sizes that Geyer's rule makes of them, in compiled code.

The same estimator as `bayesdp._chains`, whose functions say what is computed. Autocovariances are worked out lag by lag until the
rule stops, which most often is after a few lags. Chains of zeros and ones are packed, 64 draws in a word.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Floats = npt.NDArray[np.float64]
type Words = npt.NDArray[np.uint64]

MOST_LAGS = 512
"""A sequence that Geyer's rule does not stop before this lag is left to a Fourier transform."""

GAP = 4
"""Zeros behind each chain: lags are worked on four at a time, and so reach three places beyond the end."""

WORD = 64
"""Draws in a word, a bit each."""

_ODD_BITS, _PAIRS, _FOURS, _BYTES = (
    np.uint64(own) for own in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x0101010101010101)
)

_UNSURE = 1e-12
"""A sum of autocorrelations this close to zero: its sign is a matter of rounding, and is left to the order of operations of ArviZ."""

_NO_RANGE = 1e-15
"""A quantity whose range is below this is constant, as in ArviZ."""

_REASSOCIATE = {"reassoc", "nsz", "contract"}
"""Sums may be taken in any order, so that several terms are added at once."""


@nb.njit(cache=True, fastmath=_REASSOCIATE, error_model="numpy")
def _products(z: Floats, chains: int, length: int, lag: int, out: Floats) -> None:
    """Sums of products of centred chains with themselves, 0 .. 3 places beyond `lag`; behind each chain there are zeros."""
    a = b = c = d = 0.0
    for chain in range(chains):
        # Slices, since an index that might be negative keeps the loop from being vectorised.
        own = z[chain * (length + GAP) :]
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
        whole, rest = own // WORD, np.uint64(own % WORD)
        for chain in range(chains if own < length else 0):
            line = bits[chain]
            both = np.uint64(0)
            for w in range(words - whole):
                shifted = line[w + whole] >> rest
                if rest > np.uint64(0):
                    shifted |= line[w + whole + 1] << (np.uint64(WORD) - rest)
                both += _bits_set(line[w] & shifted)
            m = mean[chain]
            out[own] += float(both) - m * ends[chain] + (length - own) * m * m
            last = length - 1 - own
            ends[chain] -= float((line[own // WORD] >> np.uint64(own % WORD)) & np.uint64(1))
            ends[chain] -= float((line[last // WORD] >> np.uint64(last % WORD)) & np.uint64(1))


@nb.njit(cache=True, error_model="numpy")
def effective(
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
    """Effective sample size of chains; NaN where it is left to a Fourier transform. See `bayesdp._chains._ess` for the rule."""
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


@nb.njit(cache=True, nogil=True, error_model="numpy")
def effective_sizes(halves: Floats, found: Floats) -> None:
    """Write the effective sample size for the mean of every quantity; NaN where it is left to a Fourier transform."""
    # `halves` are draws of split chains, shape (quantities, chains, draws).
    quantities, chains, length = halves.shape
    z = np.zeros(chains * (length + GAP) + GAP)
    mean, ends, covariance = np.zeros(chains), np.zeros(chains), np.zeros(MOST_LAGS + 4)
    bits = np.zeros((1, 1), dtype=np.uint64)
    for k in range(quantities):
        centre, low, high = 0.0, halves[k, 0, 0], halves[k, 0, 0]
        for c in range(chains):
            own, out = halves[k, c], z[c * (length + GAP) :]
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
            found[k] = effective(z, bits, False, chains, length, mean, ends, between, covariance)

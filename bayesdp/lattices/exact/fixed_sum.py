"""Exact l1 noise for disjoint totals.

Over m cells with a fixed total, noise with mass proportional to ``exp(-epsilon ||z||_1)`` is the difference
of two vectors of independent geometric variables given that both have the same sum s. Given s, each vector is
a uniform weak composition of s into m parts, so that all there is to draw is

* the common mass s, with probability proportional to ``C(s+m-1, m-1)**2 x**s``, ``x = exp(-2 epsilon)``. By Euler's
  transformation of the hypergeometric function 2F1(m, m; 1; x) it is the sum of K, ``P(K = k)`` proportional
  to ``C(m-1, k)**2 x**k`` for k = 0, ..., m-1, and of a negative binomial variable (2m - 1 geometric ones);
* two compositions: m - 1 bars among s + m - 1 places, uniformly, with integer arithmetic only.

The cost is O(m) a draw, at any epsilon. Blocks are independent, and so are cells in no block (discrete
Laplace).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp.lattices.integers import discrete_laplace, geometric, spare_bits, uniform_below

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

_SPARSE = 4096
"""Above this many places a bar, bars are sorted instead of being marked in a bit map that is then read
through."""


def log_sum_exp(xp: Any, terms: Any) -> Any:
    """Logarithm of the sum of exponentials along the last axis; `xp` is NumPy or PyTensor, see `bayesdp.noise.namespace`."""
    return logsumexp(terms, axis=-1) if xp is np else xp.logsumexp(terms, axis=-1)


def both_sides(xp: Any, scale: Any, at: float) -> tuple[Any, Any, Any]:
    """Whether a scale is below a number, and what each side of an ``xp.where`` may use in either case."""
    small = scale < at
    return small, xp.where(small, scale, at), xp.where(small, at, scale)


def _log_weights(cells: int, epsilon: Any, xp: Any = np) -> Any:
    """``log(C(cells-1, k)**2 x**k)`` for k = 0, ..., cells - 1, along a new last axis."""
    k = np.arange(cells)
    return 2.0 * (gammaln(cells) - gammaln(k + 1.0) - gammaln(cells - k) - xp.expand_dims(epsilon, -1) * k)


def mass_table(cells: int, epsilon: float) -> Floats:
    """Cumulative probabilities of the finite part K of the common mass, shape (cells,)."""
    weights = _log_weights(cells, epsilon)
    return np.asarray(np.cumsum(np.exp(weights - logsumexp(weights))))


def log_normaliser(cells: int, epsilon: Any, xp: Any = np) -> Any:
    """Logarithm of the sum of ``exp(-epsilon ||z||_1)`` over integer vectors with sum zero.

    The sum is ``P_{cells-1}(coth epsilon)``, P the Legendre polynomial. It is computed as ``sum_k
    C(cells-1,k)**2 x**k / (1-x)**(cells-1)`` with ``x = exp(-2 epsilon)``, in which every term is positive.

    Parameters
    ----------
    cells : int
        Number of cells with a fixed sum.
    epsilon : float
        Rate per count.

    Examples
    --------
    >>> print(f"{log_normaliser(102, 0.192):.4f}")
    234.1172
    """
    return log_sum_exp(xp, _log_weights(cells, epsilon, xp)) - (cells - 1) * xp.log(-xp.expm1(-2.0 * epsilon))


def draw_fixed_sums(
    blocks: npt.NDArray[np.int64], epsilon: float, rng: np.random.Generator, size: int
) -> npt.NDArray[np.int64]:
    """Draw noise that changes no block total, with mass proportional to ``exp(-epsilon ||z||_1)``.

    Parameters
    ----------
    blocks : int64 array, shape (cells,)
        The block of each cell; -1 for cells in no block.
    epsilon : float
        Rate per count.
    rng : numpy.random.Generator
        Seeds the generator of the kernel.
    size : int
        Number of draws.

    Returns
    -------
    int64 array, shape (size, cells)

    Examples
    --------
    >>> noise = draw_fixed_sums(np.array([0, 0, 0, 1, 1]), 0.1, np.random.default_rng(1), 1000)
    >>> bool(np.any(noise[:, :3].sum(axis=1)))
    False
    """
    order = np.argsort(blocks, kind="stable").astype(np.int64)
    free = int(np.count_nonzero(blocks < 0))
    starts = np.append(free + np.flatnonzero(np.diff(blocks[order[free:]], prepend=-1)), len(blocks))
    # The law of K depends on the size of a block only: one table for each size.
    sizes, which = np.unique(np.diff(starts), return_inverse=True)
    tables = [mass_table(int(m), epsilon) for m in sizes]
    ends = np.cumsum([0, *(len(table) for table in tables)])
    out = np.zeros((size, len(blocks)), dtype=np.int64)
    _fill(seed_state(rng), order, starts, ends[which], np.concatenate([np.zeros(0), *tables]), epsilon, out)
    return out


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(state: Words, order: Ints, starts: Ints, tables: Ints, cumulative: Floats, epsilon: float, out: Ints) -> None:
    """Fill `out`: the cells before ``order[starts[0]]`` are free, then come the blocks."""
    bits = np.zeros(0, dtype=np.uint64)
    for draw in range(out.shape[0]):
        row = out[draw]
        for i in range(starts[0]):
            row[order[i]] = discrete_laplace(state, epsilon)
        for block in range(len(starts) - 1):
            cells = order[starts[block] : starts[block + 1]]
            if len(cells) > 1:
                table = cumulative[tables[block] : tables[block] + len(cells)]
                bits = add_fixed_sum(state, table, epsilon, cells, row, bits)


@nb.njit(cache=True, error_model="numpy")
def add_fixed_sum(state: Words, cumulative: Floats, epsilon: float, cells: Ints, row: Ints, bits: Words) -> Words:
    """Add noise with sum zero to some cells of a row."""
    # `state`, shape (4,). `cumulative`, shape (m,): `mass_table` of as many cells as there are. `cells`, shape (m,). `bits`:
    # scratch, all zero. Returns the scratch for the next call: a longer one if this one was too short.
    m = len(cells)
    # The last entry of the table may be rounded below one.
    mass = min(int(np.searchsorted(cumulative, uniform(state), side="right")), m - 1)
    for _ in range(2 * m - 1):
        mass += geometric(state, 2.0 * epsilon)
    bits = scratch(bits, mass, m)
    compose(state, mass, cells, 1, row, bits)
    compose(state, mass, cells, -1, row, bits)
    return bits


@nb.njit(cache=True, error_model="numpy")
def scratch(bits: Words, mass: int, cells: int) -> Words:
    """An array of 64-bit zeros, long enough as the bit map of `compose`: the given one if it is."""
    needed = min((mass + cells - 1) // 64 + 1, (_SPARSE * cells) // 64 + 1)
    return bits if len(bits) >= needed else np.zeros(2 * needed, dtype=np.uint64)


@nb.njit(cache=True, error_model="numpy")
def compose(state: Words, mass: int, cells: Ints, sign: int, row: Ints, bits: Words) -> None:
    """Add a uniform weak composition of `mass` to the cells, times `sign`; see `scratch` for `bits`."""
    bars = len(cells) - 1
    places = mass + bars
    if places > _SPARSE * len(cells):
        _compose_sparse(state, places, cells, sign, row)
        return
    # Mark whichever is fewer, bars or units: then at most half of the places are taken when one is tried.
    marked = min(bars, mass)
    spare = spare_bits(places)
    for _ in range(marked):
        while True:
            place = uniform_below(state, places, spare)
            bit = np.uint64(1) << np.uint64(place & 63)
            if bits[place >> 6] & bit == 0:
                bits[place >> 6] |= bit
                break
    cell, last = 0, -1  # the cell being filled, and the place of the bar before it
    for word in range((places + 63) >> 6):
        marks = bits[word]
        bits[word] = 0
        if marked < bars:  # units are marked: the bars are at the other places
            marks = ~marks
            left = places - (word << 6)
            if left < 64:
                marks &= (np.uint64(1) << np.uint64(left)) - np.uint64(1)
        while marks != 0:
            lowest = marks & (~marks + np.uint64(1))
            marks ^= lowest
            # The exponent of a power of two is exact.
            place = (word << 6) + math.frexp(float(lowest))[1] - 1
            row[cells[cell]] += sign * (place - last - 1)
            cell, last = cell + 1, place
    row[cells[cell]] += sign * (places - last - 1)


@nb.njit(cache=True, error_model="numpy")
def _compose_sparse(state: Words, places: int, cells: Ints, sign: int, row: Ints) -> None:
    """`compose` where bars are rare: draw places, sort, and draw again what was drawn twice."""
    # Adding uniform places one by one and passing over those already there gives a uniform set. A round adds no more than what is
    # missing, so it can only end at the right size.
    bars = len(cells) - 1
    spare = spare_bits(places)
    drawn = np.empty(bars, dtype=np.int64)
    kept = 0
    while kept < bars:
        for i in range(kept, bars):
            drawn[i] = uniform_below(state, places, spare)
        drawn.sort()
        kept = 0
        for i in range(bars):
            if i == 0 or drawn[i] != drawn[kept - 1]:
                drawn[kept] = drawn[i]
                kept += 1
    last = -1
    for i in range(bars):
        row[cells[i]] += sign * (drawn[i] - last - 1)
        last = drawn[i]
    row[cells[bars]] += sign * (places - last - 1)

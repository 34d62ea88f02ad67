"""Exact l1 noise of integers with a given sum: fixed totals, and exchangeable groups of cells under any invariants.

Over m cells with a fixed total, noise with mass proportional to ``exp(-epsilon ||z||_1)`` is the difference
of two vectors of independent geometric variables given that both have the same sum s. Given s, each vector is
a uniform weak composition of s into m parts, so that all there is to draw is

* the common mass s, with probability proportional to ``C(s+m-1, m-1)**2 x**s``, ``x = exp(-2 epsilon)``. By Euler's
  transformation of the hypergeometric function 2F1(m, m; 1; x) it is the sum of K, ``P(K = k)`` proportional
  to ``C(m-1, k)**2 x**k`` for k = 0, ..., m-1, and of a negative binomial variable (2m - 1 geometric ones);
* two compositions: m - 1 bars among s + m - 1 places, uniformly, with integer arithmetic only.

The cost is O(m) a draw, at any epsilon. Blocks are independent, and so are cells in no block (discrete Laplace).

For n independent variables with mass ``exp(-epsilon |z|)`` any sum s has mass proportional to

    w_n(s) = exp(-epsilon |s|) sum_t C(t + |s| + n - 1, n - 1) C(t + n - 1, n - 1) x**t,

because the two vectors have sums t + |s| and t (or the other way round). ``w_n`` is symmetric and falls from zero on.

Under any invariants, cells that these see in the same way, up to a common sign, are exchangeable, and only the sums of such
groups meet the invariants. As many groups as the matrix has rank are chosen as pivots, their columns independent:
the largest ones that are. All other cells are drawn independently. They determine the sums of the pivots; if
these are integers, the proposal is accepted with probability ``prod w_n(s) / w_n(0)``, and the cells of each pivot are
drawn given their sum. The share of tries that is kept is the probability that independent noise changes no invariant,
divided by ``prod w_n(0)`` over the pivots in proportion, so that it is largest with the largest groups as pivots.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from flint import fmpz_mat
from scipy.special import gammaln, logsumexp

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import nb, seed_state, uniform
from bayesdp.fibers.moves.basis import leading_signs
from bayesdp.invariants import echelon_pivots
from bayesdp.lattices.integers import discrete_laplace, geometric, spare_bits, uniform_below
from bayesdp.lattices.parts import General

_SPARSE = 4096
"""Above this many places a bar, bars are sorted instead of being marked in a bit map that is then read through."""


def log_sum_exp(xp: Any, terms: Any) -> Any:
    """Logarithm of the sum of exponentials along the last axis; `xp` is NumPy or PyTensor, see `bayesdp.noise.arrays`."""
    return logsumexp(terms, axis=-1) if xp is np else xp.logsumexp(terms, axis=-1)


def both_sides(xp: Any, scale: Any, at: float) -> tuple[Any, Any, Any]:
    """Whether a scale is below a number, and what each side of an ``xp.where`` may use in either case."""
    small = scale < at
    return small, xp.where(small, scale, at), xp.where(small, at, scale)


def log_weights(cells: int, epsilon: Any, xp: Any = np) -> Any:
    """``log(C(cells-1, k)**2 x**k)`` for k = 0, ..., cells - 1, along a new last axis."""
    k = np.arange(cells)
    return 2.0 * (gammaln(cells) - gammaln(k + 1.0) - gammaln(cells - k) - xp.expand_dims(epsilon, -1) * k)


def mass_table(cells: int, epsilon: float) -> Floats:
    """Cumulative probabilities of the finite part K of the common mass, shape (cells,)."""
    weights = log_weights(cells, epsilon)
    return np.asarray(np.cumsum(np.exp(weights - logsumexp(weights))))


def log_normaliser(cells: int, epsilon: Any, xp: Any = np) -> Any:
    """Logarithm of the sum of ``exp(-epsilon ||z||_1)`` over integer vectors with sum zero."""
    # The sum is P_{cells-1}(coth epsilon), P the Legendre polynomial. It is computed as sum_k C(cells-1,k)**2 x**k /
    # (1-x)**(cells-1), in which every term is positive.
    return log_sum_exp(xp, log_weights(cells, epsilon, xp)) - (cells - 1) * xp.log(-xp.expm1(-2.0 * epsilon))


def draw_fixed_sums(blocks: Ints, epsilon: float, rng: np.random.Generator, size: int) -> Ints:
    """Draw noise that changes no block total, shape (size, cells); `blocks` has the block of each cell, -1 for none."""
    order = np.argsort(blocks, kind="stable").astype(np.int64)
    free = int(np.count_nonzero(blocks < 0))
    starts = np.append(free + np.flatnonzero(np.diff(blocks[order[free:]], prepend=-1)), len(blocks))
    # The law of K depends on the size of a block only: one table for each size.
    sizes, which = np.unique(np.diff(starts), return_inverse=True)
    tables = [mass_table(int(m), epsilon) for m in sizes]
    ends = np.cumsum([0, *(len(table) for table in tables)])
    out = np.zeros((size, len(blocks)), dtype=np.int64)
    _fill_blocks(seed_state(rng), order, starts, ends[which], np.concatenate([np.zeros(0), *tables]), epsilon, out)
    return out


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_blocks(
    state: Words, order: Ints, starts: Ints, tables: Ints, cumulative: Floats, epsilon: float, out: Ints
) -> None:
    """Fill `out`: the cells before ``order[starts[0]]`` are free, then come the blocks."""
    bits = scratch(len(order))
    for row in out:
        for i in range(starts[0]):
            row[order[i]] = discrete_laplace(state, epsilon)
        for block in range(len(starts) - 1):
            cells = order[starts[block] : starts[block + 1]]
            if len(cells) > 1:
                table = cumulative[tables[block] : tables[block] + len(cells)]
                add_fixed_sum(state, table, epsilon, cells, row, bits)


@nb.njit(cache=True, error_model="numpy")
def scratch(cells: int) -> Words:
    """A bit map for `compose` of 64 places a cell, all zero, and left so: made once for many draws."""
    return np.zeros(cells + 1, dtype=np.uint64)


@nb.njit(cache=True, error_model="numpy")
def add_fixed_sum(state: Words, cumulative: Floats, epsilon: float, cells: Ints, row: Ints, bits: Words) -> None:
    """Add noise with sum zero to some cells of a row; `cumulative` is the `mass_table` of as many cells."""
    m = len(cells)
    # The last entry of the table may be rounded below one.
    mass = min(int(np.searchsorted(cumulative, uniform(state), side="right")), m - 1)
    for _ in range(2 * m - 1):
        mass += geometric(state, 2.0 * epsilon)
    compose(state, mass, cells, 1, row, bits)
    compose(state, mass, cells, -1, row, bits)


@nb.njit(cache=True, error_model="numpy")
def compose(state: Words, mass: int, cells: Ints, sign: int, row: Ints, bits: Words) -> None:
    """Add a uniform weak composition of `mass` to the cells, times `sign`; `bits` is a `scratch`."""
    bars = len(cells) - 1
    places = mass + bars
    if places > _SPARSE * len(cells):
        _compose_sparse(state, places, cells, sign, row)
        return
    # Mark whichever is fewer, bars or units: then at most half of the places are taken when one is tried.
    marked = min(bars, mass)
    spare = spare_bits(places)
    if places >> 6 >= len(bits):
        bits = np.zeros((places >> 6) + 1, dtype=np.uint64)
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


_NEGLIGIBLE = 1e-19  # terms of the series below this share of the largest one are left out: they fall faster and faster
_LONGEST = 1 << 16  # longest table of ratios


def sum_ratios(count: int, epsilon: float) -> Floats:
    """``w_n(s) / w_n(0)`` for s = 0, 1, ..., until it is below 1e-12 (or for 65536 values)."""
    zero = log_sum_mass(count, 0, epsilon)
    # Two thirds of the slope are reached soon; for larger s the kernel evaluates the series itself.
    longest = min(_LONGEST, math.ceil(30.0 * (1.0 + math.sqrt(count)) / epsilon) + 2)
    ratios = _ratios(count, epsilon, longest)
    return np.asarray(np.exp(ratios[ratios - zero > math.log(1e-12)] - zero))


@nb.njit(cache=True, error_model="numpy")
def _ratios(count: int, epsilon: float, longest: int) -> Floats:
    out = np.full(longest, -np.inf)
    for s in range(longest):
        out[s] = log_sum_mass(count, s, epsilon)
        if out[s] < out[0] - 30.0:
            break
    return out


@nb.njit(cache=True, error_model="numpy")
def _mode(count: int, s: int, x: float) -> int:
    """Where the terms of the series for ``w_n(s)``, s >= 0, are largest."""
    # x (t + s + n)(t + n) = (t + 1 + s)(t + 1), a quadratic equation in t.
    a = 1.0 - x
    b = (s + 2.0) - x * (s + 2.0 * count)
    c = (s + 1.0) - x * count * (s + count)
    inside = b * b - 4.0 * a * c
    if inside <= 0.0:
        return 0
    return max(0, int((-b + math.sqrt(inside)) / (2.0 * a)))


@nb.njit(cache=True, error_model="numpy")
def _up(count: int, s: int, x: float, t: int) -> float:
    """The term at t + 1 divided by the one at t."""
    return x * (t + s + count) * (t + count) / ((t + 1.0 + s) * (t + 1.0))


@nb.njit(cache=True, error_model="numpy")
def _walk(count: int, s: int, x: float, mode: int, until: float) -> tuple[int, float]:
    """Add the terms of the series for ``w_n(s)``, s >= 0, in units of the largest one and from that outwards, up to a number."""
    # Returns the index of the term at which that is passed, -1 where the whole series is less; and the sum.
    total, term, t = 1.0, 1.0, mode
    if total > until:
        return t, total
    while term > _NEGLIGIBLE:
        term *= _up(count, s, x, t)
        t += 1
        total += term
        if total > until:
            return t, total
    term, t = 1.0, mode
    while t > 0 and term > _NEGLIGIBLE:
        t -= 1
        term /= _up(count, s, x, t)
        total += term
        if total > until:
            return t, total
    return -1, total


@nb.njit(cache=True, error_model="numpy")
def log_sum_mass(count: int, s: int, epsilon: float) -> float:
    """``log w_n(s)``."""
    s = abs(s)
    x = math.exp(-2.0 * epsilon)
    if count == 1:
        return -epsilon * s - math.log1p(-x)
    if count == 2:
        return -epsilon * s + math.log(s + 1.0 + 2.0 * x / (1.0 - x)) - 2.0 * math.log1p(-x)
    mode = _mode(count, s, x)
    highest = (
        math.lgamma(mode + s + count) - math.lgamma(mode + s + 1.0)
        + math.lgamma(mode + count) - math.lgamma(mode + 1.0)
        - 2.0 * math.lgamma(count) - 2.0 * epsilon * mode
    )  # fmt: skip
    return highest + math.log(_walk(count, s, x, mode, math.inf)[1]) - epsilon * s


@nb.njit(cache=True, error_model="numpy")
def pair_given_sum(state: Words, s: int, epsilon: float) -> int:
    """An integer a with mass proportional to ``exp(-epsilon (|a| + |s - a|))``."""
    # The mass is flat from 0 to s, and falls by exp(-2 epsilon) with every step beyond.
    reach = abs(s)
    tail = 1.0 / math.expm1(2.0 * epsilon)
    u = uniform(state) * (reach + 1.0 + 2.0 * tail)
    if u < reach + 1.0:
        a = min(int(u), reach)
    else:
        a = 1 + geometric(state, 2.0 * epsilon)
        a = -a if u < reach + 1.0 + tail else reach + a
    return a if s >= 0 else -a


@nb.njit(cache=True, error_model="numpy")
def split_sum(state: Words, s: int, epsilon: float, cells: Ints, row: Ints, bits: Words) -> None:
    """Add independent discrete Laplace variables, given that their sum is s, to some cells of a row; `bits` is a `scratch`."""
    count = len(cells)
    if count == 1:
        row[cells[0]] += s
        return
    if count == 2:
        a = pair_given_sum(state, s, epsilon)
        row[cells[0]] += a
        row[cells[1]] += s - a
        return
    sign = 1 if s >= 0 else -1
    s = abs(s)
    mass = _smaller_mass(state, count, s, epsilon)
    compose(state, mass + s, cells, sign, row, bits)
    compose(state, mass, cells, -sign, row, bits)


@nb.njit(cache=True, error_model="numpy")
def _smaller_mass(state: Words, count: int, s: int, epsilon: float) -> int:
    """The index t of a term of the series, in proportion to its size: inversion, from the largest one outwards."""
    x = math.exp(-2.0 * epsilon)
    mode = _mode(count, s, x)
    whole = _walk(count, s, x, mode, math.inf)[1]
    found = _walk(count, s, x, mode, uniform(state) * whole)[0]
    return found if found >= 0 else mode  # none by rounding only


_MOST_GROUPS = 2000
"""More groups are refused: the echelon form would take minutes, and hardly a proposal would be accepted."""

_LARGEST_ENTRY = 1 << 20  # the pivots' relation to other groups must be in smaller integers


class Groups(NamedTuple):
    """Exchangeable groups of cells, pivots first, and how the others determine the sums of the pivots."""

    order: Ints  # cells (positions within the part) group by group, shape (cells,)
    starts: Ints  # where each group starts in `order`, shape (groups + 1,)
    signs: Ints  # +1 or -1 for each cell: the sums are of signed cells, shape (cells,)
    relation: Ints  # shape (pivots, groups - pivots)
    divisor: int  # ``divisor * sums[pivots] = -relation @ sums[others]``


class _Laws(NamedTuple):
    """Tables of ``w_n(s) / w_n(0)`` for the pivots."""

    epsilon: float
    bounds: Ints  # where the table of each pivot starts and ends in `ratios`, shape (pivots, 2)
    ratios: Floats


def exchangeable_groups(part: General) -> Groups | None:
    """Group the cells of a part and choose the pivots; None if there are too many groups or too large entries."""
    matrix = part.matrix.toarray()
    signs = leading_signs(matrix.T)
    columns, which, sizes = np.unique(matrix * signs, axis=1, return_inverse=True, return_counts=True)
    if len(sizes) > _MOST_GROUPS:
        return None
    first = np.full(len(sizes), len(signs))
    np.minimum.at(first, which.ravel(), np.arange(len(signs)))
    by_size = np.lexsort((first, -sizes))
    reduced, divisor, rank = fmpz_mat(columns[:, by_size].astype(int).tolist()).rref()
    pivots = echelon_pivots(reduced, rank)
    others = [j for j in range(len(sizes)) if j not in set(pivots)]
    entries = [[int(reduced[row, j]) for j in others] for row in range(rank)]
    common = math.gcd(int(divisor), *(entry for row in entries for entry in row)) or 1
    relation = np.array([[entry // common for entry in row] for row in entries], dtype=object).reshape(rank, -1)
    scale = int(divisor) // common
    if max(abs(scale), int(np.abs(relation).max(initial=0))) >= _LARGEST_ENTRY:
        return None
    members = [np.flatnonzero(which.ravel() == group) for group in by_size[pivots + others]]
    starts = np.cumsum([0, *map(len, members)]).astype(np.int64)
    return Groups(np.concatenate(members).astype(np.int64), starts, signs, relation.astype(np.int64), scale)


def _laws(groups: Groups, epsilon: float) -> _Laws:
    sizes = np.diff(groups.starts)[: len(groups.relation)]
    distinct, which = np.unique(sizes, return_inverse=True)
    tables = [sum_ratios(int(n), epsilon) for n in distinct]
    ends = np.cumsum([0, *map(len, tables)])
    bounds = np.stack([ends[:-1][which], ends[1:][which]], axis=1).astype(np.int64)
    return _Laws(epsilon, bounds, np.concatenate([np.ones(0), *tables]))


def groups_acceptance(groups: Groups, epsilon: float, rng: np.random.Generator, tries: int) -> float:
    """An estimate of the acceptance rate: the mean acceptance probability of simulated proposals."""
    return float(_mean_acceptance(seed_state(rng), groups, _laws(groups, epsilon), tries))


def draw_groups(groups: Groups, epsilon: float, rng: np.random.Generator, size: int) -> tuple[Ints, int]:
    """Draw noise on a part, shape (size, cells of the part), of rate epsilon; and how many tries were made."""
    out = np.zeros((size, len(groups.order)), dtype=np.int64)
    return out, int(_fill_groups(seed_state(rng), groups, _laws(groups, epsilon), out))


@nb.njit(cache=True, error_model="numpy")
def _try(state: Words, groups: Groups, laws: _Laws, sums: Ints, row: Ints) -> float:
    """Draw the cells of the other groups, set the sums of the pivots; returns the acceptance probability."""
    order, starts, relation, epsilon = groups.order, groups.starts, groups.relation, laws.epsilon
    pivots = len(relation)
    zero = math.tanh(0.5 * epsilon)  # the probability of zero
    for group in range(pivots, len(starts) - 1):
        total = 0
        for at in range(starts[group], starts[group + 1]):
            value = 0
            if uniform(state) >= zero:  # one logarithm, where the difference of two geometric ones takes two
                value = 1 + geometric(state, epsilon)
                value = value if uniform(state) < 0.5 else -value
            row[order[at]] = value
            total += value
        sums[group] = total
    probability = 1.0
    for p in range(pivots):
        against = 0
        for j in range(relation.shape[1]):
            against -= relation[p, j] * sums[pivots + j]
        if against % groups.divisor != 0:
            return 0.0
        total = against // groups.divisor
        sums[p] = total
        place = laws.bounds[p, 0] + abs(total)
        if place < laws.bounds[p, 1]:
            probability *= laws.ratios[place]
        else:
            n = starts[p + 1] - starts[p]
            probability *= math.exp(log_sum_mass(n, total, epsilon) - log_sum_mass(n, 0, epsilon))
    return probability


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _mean_acceptance(state: Words, groups: Groups, laws: _Laws, tries: int) -> float:
    sums, row = np.zeros(len(groups.starts) - 1, dtype=np.int64), np.zeros(len(groups.order), dtype=np.int64)
    total = 0.0
    for _ in range(tries):
        total += _try(state, groups, laws, sums, row)
    return total / tries


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_groups(state: Words, groups: Groups, laws: _Laws, out: Ints) -> int:
    sums, bits = np.zeros(len(groups.starts) - 1, dtype=np.int64), scratch(len(groups.order))
    tries = 0
    for row in out:
        tries += 1
        while uniform(state) >= _try(state, groups, laws, sums, row):
            tries += 1
        for p in range(len(groups.relation)):
            cells = groups.order[groups.starts[p] : groups.starts[p + 1]]
            split_sum(state, sums[p], laws.epsilon, cells, row, bits)
        row *= groups.signs
    return tries

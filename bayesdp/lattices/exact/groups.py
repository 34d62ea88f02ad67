"""Sums of independent discrete Laplace variables: their law, and the variables given their sum.

For n variables with mass ``exp(-epsilon |z|)`` the sum s has mass proportional to

    w_n(s) = exp(-epsilon |s|) sum_t C(t + |s| + n - 1, n - 1) C(t + n - 1, n - 1) x**t,   x = exp(-2 epsilon),

because z is the difference of two vectors of independent geometric variables, with sums t + |s| and t (or the
other way round), each, given its sum, a uniform weak composition. ``w_n`` is symmetric and falls from zero on.

l1 noise for any invariants: exchangeable groups, and rejection on the sums of as many groups as there are rows.

Cells that the invariants see in the same way, up to a common sign, are exchangeable, and only the sums of these
groups meet the invariants. As many groups as the matrix has rank are chosen as pivots, their columns independent:
the largest ones that are. All other cells are drawn independently. They determine the sums of the pivots; if
these are integers, the proposal is accepted with probability ``prod w_n(s) / w_n(0)``, w_n the law of a sum of n cells
(`bayesdp.lattices.exact.groups`), and the cells of each pivot are drawn given their sum. The share of tries that is
kept is the probability that independent noise changes no invariant, divided by ``prod w_n(0)`` over the pivots in
proportion, so that it is largest with the largest groups as pivots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp.invariants.general import echelon_pivots
from bayesdp.lattices.exact.fixed_sum import compose, scratch
from bayesdp.lattices.integers import geometric
from bayesdp.lattices.parts import General
from bayesdp.moves.basis import leading_signs

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

_NEGLIGIBLE = 1e-19
"""Terms of the series below this share of the largest one are left out: they fall faster and faster."""

_LONGEST = 1 << 16
"""Longest table of ratios."""


def sum_ratios(count: int, epsilon: float) -> Floats:
    """``w_n(s) / w_n(0)`` for s = 0, 1, ..., until it is below 1e-12 (or for 65536 values).

    Examples
    --------
    >>> sum_ratios(1, 1.0)[:3]
    array([1.        , 0.36787944, 0.13533528])
    """
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
def _series(count: int, s: int, x: float, mode: int) -> float:
    """The sum of the terms of the series for ``w_n(s)``, s >= 0, in units of the largest one."""
    total, term, t = 1.0, 1.0, mode
    while term > _NEGLIGIBLE:
        term *= _up(count, s, x, t)
        total += term
        t += 1
    term, t = 1.0, mode
    while t > 0 and term > _NEGLIGIBLE:
        t -= 1
        term /= _up(count, s, x, t)
        total += term
    return total


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
    return highest + math.log(_series(count, s, x, mode)) - epsilon * s


@nb.njit(cache=True, error_model="numpy")
def pair_given_sum(state: Words, s: int, epsilon: float) -> int:
    """An integer a with mass proportional to ``exp(-epsilon (|a| + |s - a|))``.

    The mass is flat from 0 to s, and falls by ``exp(-2 epsilon)`` with every step beyond.
    """
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
def split_sum(state: Words, s: int, epsilon: float, cells: Ints, row: Ints, bits: Words) -> Words:
    """Add independent discrete Laplace variables, given that their sum is s, to some cells of a row.

    `bits` is scratch, see `bayesdp.lattices.exact.fixed_sum.add_fixed_sum`; what is returned replaces it.
    """
    count = len(cells)
    if count == 1:
        row[cells[0]] += s
        return bits
    if count == 2:
        a = pair_given_sum(state, s, epsilon)
        row[cells[0]] += a
        row[cells[1]] += s - a
        return bits
    sign = 1 if s >= 0 else -1
    s = abs(s)
    mass = _smaller_mass(state, count, s, epsilon)
    bits = scratch(bits, mass + s, count)
    compose(state, mass + s, cells, sign, row, bits)
    compose(state, mass, cells, -sign, row, bits)
    return bits


@nb.njit(cache=True, error_model="numpy")
def _smaller_mass(state: Words, count: int, s: int, epsilon: float) -> int:
    """The index t of a term of the series, in proportion to its size: inversion, from the largest one outwards."""
    x = math.exp(-2.0 * epsilon)
    mode = _mode(count, s, x)
    total = _series(count, s, x, mode)
    left = uniform(state) * total - 1.0
    if left < 0.0:
        return mode
    term, t = 1.0, mode
    while term > _NEGLIGIBLE:
        term *= _up(count, s, x, t)
        t += 1
        left -= term
        if left < 0.0:
            return t
    term, t = 1.0, mode
    while t > 0 and term > _NEGLIGIBLE:
        t -= 1
        term /= _up(count, s, x, t)
        left -= term
        if left < 0.0:
            return t
    return mode  # by rounding only


_MOST_GROUPS = 2000
"""More groups are refused: the echelon form would take minutes, and hardly a proposal would be accepted."""

_LARGEST_ENTRY = 1 << 20
"""The pivots' relation to other groups must be in smaller integers."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Exchangeable groups of cells, pivots first, and how the others determine the sums of the pivots."""

    order: Ints  # cells (positions within the part) group by group, shape (cells,)
    starts: Ints  # where each group starts in `order`, shape (groups + 1,)
    signs: Ints  # +1 or -1 for each cell: the sums are of signed cells, shape (cells,)
    relation: Ints  # shape (pivots, groups - pivots)
    divisor: int  # ``divisor * sums[pivots] = -relation @ sums[others]``


def exchangeable_groups(part: General) -> Groups | None:
    """Group the cells of a part and choose the pivots; None if there are too many groups or too large entries.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> both = sp.csr_array(np.array([[1, 1, 1, 0], [0, 0, 1, 1]]))
    >>> groups = exchangeable_groups(General(np.arange(4), both))
    >>> groups.order.tolist(), groups.starts.tolist(), groups.relation.tolist()
    ([0, 1, 2, 3], [0, 2, 3, 4], [[-1], [1]])
    """
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
    return Groups(
        np.concatenate(members).astype(np.int64),
        np.cumsum([0, *map(len, members)]).astype(np.int64),
        signs,
        relation.astype(np.int64),
        scale,
    )


def _laws(groups: Groups, epsilon: float) -> tuple[Ints, Floats]:
    """Tables of ``w_n(s) / w_n(0)`` for the pivots: where the table of each starts, and all tables."""
    sizes = np.diff(groups.starts)[: len(groups.relation)]
    distinct, which = np.unique(sizes, return_inverse=True)
    tables = [sum_ratios(int(n), epsilon) for n in distinct]
    ends = np.cumsum([0, *map(len, tables)])
    bounds = np.stack([ends[:-1][which], ends[1:][which]], axis=1).astype(np.int64)
    return bounds, np.concatenate([np.ones(0), *tables])


def groups_acceptance(groups: Groups, epsilon: float, rng: np.random.Generator, tries: int) -> float:
    """An estimate of the acceptance rate: the mean acceptance probability of simulated proposals."""
    bounds, tables = _laws(groups, epsilon)
    return float(_trial(seed_state(rng), epsilon, *_arrays(groups), bounds, tables, tries))


def _arrays(groups: Groups) -> tuple[Ints, Ints, Ints, Ints, int]:
    return groups.order, groups.starts, groups.signs, groups.relation, groups.divisor


def draw_groups(
    groups: Groups, epsilon: float, rng: np.random.Generator, size: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Draw noise on a part with mass proportional to ``exp(-epsilon ||z||_1)``."""
    # `epsilon`: rate per count. Returns shape (size, cells of the part); how many tries were made.
    out = np.zeros((size, len(groups.order)), dtype=np.int64)
    bounds, tables = _laws(groups, epsilon)
    tries = _fill(seed_state(rng), epsilon, *_arrays(groups), bounds, tables, out)
    return out, int(tries)


@nb.njit(cache=True, error_model="numpy")
def _try(
    state: Words, epsilon: float, order: Ints, starts: Ints, relation: Ints, divisor: int,
    bounds: Ints, tables: Floats, sums: Ints, row: Ints,
) -> float:  # fmt: skip
    """Draw the cells of the other groups, set the sums of the pivots; returns the acceptance probability."""
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
        if against % divisor != 0:
            return 0.0
        total = against // divisor
        sums[p] = total
        place = bounds[p, 0] + abs(total)
        if place < bounds[p, 1]:
            probability *= tables[place]
        else:
            n = starts[p + 1] - starts[p]
            probability *= math.exp(log_sum_mass(n, total, epsilon) - log_sum_mass(n, 0, epsilon))
    return probability


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _trial(
    state: Words, epsilon: float, order: Ints, starts: Ints, signs: Ints, relation: Ints, divisor: int,
    bounds: Ints, tables: Floats, tries: int,
) -> float:  # fmt: skip
    sums, row = np.zeros(len(starts) - 1, dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    total = 0.0
    for _ in range(tries):
        total += _try(state, epsilon, order, starts, relation, divisor, bounds, tables, sums, row)
    return total / tries


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    state: Words, epsilon: float, order: Ints, starts: Ints, signs: Ints, relation: Ints, divisor: int,
    bounds: Ints, tables: Floats, out: Ints,
) -> int:  # fmt: skip
    sums = np.zeros(len(starts) - 1, dtype=np.int64)
    bits = np.zeros(8, dtype=np.uint64)
    tries = 0
    for draw in range(out.shape[0]):
        row = out[draw]
        kept = False
        while not kept:
            tries += 1
            kept = uniform(state) < _try(
                state, epsilon, order, starts, relation, divisor, bounds, tables, sums, row
            )  # fmt: skip
        for p in range(len(relation)):
            bits = split_sum(state, sums[p], epsilon, order[starts[p] : starts[p + 1]], row, bits)
        for cell in range(len(row)):
            row[cell] *= signs[cell]
    return tries

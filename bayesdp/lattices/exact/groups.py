"""l1 noise for any invariants: exchangeable groups, and rejection on the sums of as many groups as there are rows.

Cells that the invariants see in the same way, up to a common sign, are exchangeable, and only the sums of these
groups meet the invariants. As many groups as the matrix has rank are chosen as pivots, their columns independent:
the largest ones that are. All other cells are drawn independently. They determine the sums of the pivots; if
these are integers, the proposal is accepted with probability ``prod w_n(s) / w_n(0)``, w_n the law of a sum of n cells
(`bayesdp.lattices.exact.group_sums`), and the cells of each pivot are drawn given their sum. The share of tries that is
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
from bayesdp.lattices.exact.group_sums import log_sum_mass, split_sum, sum_ratios
from bayesdp.lattices.integers import geometric
from bayesdp.lattices.parts import General
from bayesdp.moves.basis import leading_signs

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

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

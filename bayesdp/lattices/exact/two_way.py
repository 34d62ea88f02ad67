"""l1 noise on two-way tables with both margins fixed: exact rows, and rejection on what the last rows must repair.

All rows but two are drawn as exact noise with sum zero (`bayesdp.lattices.exact.fixed_sum`). Their column sums S are kept
with probability q(S) / q(0), q(S) the mass of all pairs of rows that bring the column sums back to zero
(`bayesdp.lattices.exact.two_row`), and then the last two rows are drawn given S: one entry of each column has a mass that
is flat between two knots and falls geometrically beyond, whatever the other columns, but for the condition that
the row sums to zero, which is met by rejection on the column with the widest flat.

At rates so small that q(S) would take too many nodes, all rows but one are drawn and kept with probability
``exp(-epsilon ||S||_1)``; the last row is -S. The short side is the length of the rows, since about ``(2 / r)**((c -
1) / 2)`` of the tries are kept for r rows of c cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, seed_state
from bayesdp.lattices.exact.fixed_sum import add_fixed_sum, mass_table
from bayesdp.lattices.exact.group_sums import pair_given_sum
from bayesdp.lattices.exact.two_row import two_row, two_row_bound, two_row_ratio

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class TwoWay:
    """What a kernel needs to draw tables of `rows` rows, no shorter than they are long.

    `cumulative` is the `mass_table` of a row; the rest is a `TwoRow` (empty: one row is left instead of two).
    """

    rows: int
    epsilon: float
    cumulative: Floats
    sines: Floats
    cosines: Floats
    log_zero: float
    bounds: Floats

    @property
    def columns(self) -> int:
        """Length of a row."""
        return len(self.cumulative)

    @property
    def arguments(self) -> tuple[float, Floats, Floats, Floats, float, Floats]:
        """The fields for `add_two_way`."""
        return self.epsilon, self.cumulative, self.sines, self.cosines, self.log_zero, self.bounds


@lru_cache(maxsize=64)
def two_way(rows: int, columns: int, epsilon: float) -> TwoWay:
    """Prepare to draw tables of ``rows >= columns >= 2``, at least three rows."""
    tables = two_row(columns, epsilon)
    cumulative = mass_table(columns, epsilon)
    if tables is None:
        return TwoWay(rows, epsilon, cumulative, np.zeros(0), np.zeros(0), 0.0, np.zeros((0, 2)))
    return TwoWay(rows, epsilon, cumulative, tables.sines, tables.cosines, tables.log_zero, tables.bounds)


def two_way_acceptance(plan: TwoWay, rng: np.random.Generator, tries: int) -> float:
    """An estimate of the acceptance rate: the mean acceptance probability of simulated proposals."""
    return float(_trial(seed_state(rng), plan.rows, *plan.arguments, tries))


def draw_two_way(plan: TwoWay, rng: np.random.Generator, size: int) -> tuple[npt.NDArray[np.int64], int]:
    """Draw noise that changes no margin, with mass proportional to ``exp(-epsilon ||z||_1)``."""
    # Returns shape (size, rows, columns); how many tries were made.
    out = np.zeros((size, plan.rows, plan.columns), dtype=np.int64)
    return out, int(_fill(seed_state(rng), *plan.arguments, out))


@nb.njit(cache=True, error_model="numpy")
def _rows(
    state: Words, count: int, epsilon: float, cumulative: Floats, columns: Ints, table: Ints, sums: Ints, bits: Words
) -> Words:
    """Draw the first `count` rows, and add up their columns."""
    sums[:] = 0
    for i in range(count):
        row = table[i]
        row[:] = 0
        bits = add_fixed_sum(state, cumulative, epsilon, columns, row, bits)
        for j in range(len(sums)):
            sums[j] += row[j]
    return bits


@nb.njit(cache=True, error_model="numpy")
def _size(values: Ints) -> int:
    total = 0
    for value in values:
        total += abs(value)
    return total


@nb.njit(cache=True, error_model="numpy")
def add_two_way(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, columns: Ints, table: Ints, sums: Ints, products: Floats, bits: Words,
) -> tuple[int, Words]:  # fmt: skip
    """Overwrite a table with noise."""
    # `state`, `epsilon`, `cumulative`, `sines`, `cosines`, `log_zero`, `bounds`: the generator and a `TwoWay`. `columns`: 0, 1,
    # ..., columns - 1. `table`, shape (rows, columns). `sums`, `products`, `bits`: scratch: as long as a row, as half of `sines`,
    # and see `bayesdp.lattices.exact.fixed_sum.add_fixed_sum`. Returns how many tries were made; the scratch `bits` for the next
    # call.
    rows = len(table)
    left = 2 if len(sines) else 1
    tries = 0
    while True:
        tries += 1
        bits = _rows(state, rows - left, epsilon, cumulative, columns, table, sums, bits)
        spent = exponential(state)  # kept if the logarithm of the probability is above minus this
        size = _size(sums)
        if left == 1:
            if spent > epsilon * size:
                table[rows - 1] = -sums
                return tries, bits
        elif two_row_bound(size, bounds) > -spent:
            if two_row_ratio(sums, epsilon, sines, cosines, log_zero, products) > math.exp(-spent):
                _last_rows(state, epsilon, sums, table)
                return tries, bits


@nb.njit(cache=True, error_model="numpy")
def _last_rows(state: Words, epsilon: float, sums: Ints, table: Ints) -> None:
    """Two rows with sum zero, given their column sums ``-sums``."""
    one, other = table[len(table) - 2], table[len(table) - 1]
    widest = 0
    for j in range(len(sums)):
        if abs(sums[j]) > abs(sums[widest]):
            widest = j
    while True:
        rest = 0
        for j in range(len(sums)):
            if j != widest:
                one[j] = pair_given_sum(state, -sums[j], epsilon)
                rest -= one[j]
        one[widest] = rest
        excess = abs(rest) + abs(sums[widest] + rest) - abs(sums[widest])
        if exponential(state) > epsilon * excess:
            break
    for j in range(len(sums)):
        other[j] = -sums[j] - one[j]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, out: Ints,
) -> int:  # fmt: skip
    columns = np.arange(out.shape[2])
    sums, products = np.zeros(len(columns), dtype=np.int64), np.zeros(len(sines) // 2 + 1)
    bits = np.zeros(8, dtype=np.uint64)
    tries = 0
    for draw in range(len(out)):
        made, bits = add_two_way(
            state, epsilon, cumulative, sines, cosines, log_zero, bounds, columns, out[draw], sums, products, bits
        )
        tries += made
    return tries


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _trial(
    state: Words, rows: int, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, tries: int,
) -> float:  # fmt: skip
    columns = np.arange(len(cumulative))
    table = np.zeros((rows, len(columns)), dtype=np.int64)
    sums, products = np.zeros(len(columns), dtype=np.int64), np.zeros(len(sines) // 2 + 1)
    bits = np.zeros(8, dtype=np.uint64)
    total = 0.0
    for _ in range(tries):
        bits = _rows(state, rows - (2 if len(sines) else 1), epsilon, cumulative, columns, table, sums, bits)
        if len(sines):
            total += max(two_row_ratio(sums, epsilon, sines, cosines, log_zero, products), 0.0)
        else:
            total += math.exp(-epsilon * _size(sums))
    return total / tries

"""l1 noise on two-way tables with both margins fixed: exact rows, and rejection on what the last rows must repair.

All rows but two are drawn as exact noise with sum zero (`bayesdp.lattices.exact.fixed_sum`). Their column sums S are kept
with probability q(S) / q(0), q(S) the mass of all pairs of rows that bring the column sums back to zero
(below), and then the last two rows are drawn given S: one entry of each column has a mass that
is flat between two knots and falls geometrically beyond, whatever the other columns, but for the condition that
the row sums to zero, which is met by rejection on the column with the widest flat.

At rates so small that q(S) would take too many nodes, all rows but one are drawn and kept with probability
``exp(-epsilon ||S||_1)``; the last row is -S. The short side is the length of the rows, since about ``(2 / r)**((c -
1) / 2)`` of the tries are kept for r rows of c cells.

The probability that two rows of noise, each with sum zero, add up to given columns.

For two independent rows with mass ``exp(-epsilon ||a||_1)`` and sum zero, and column sums S,

    q(S) = sum over a with sum zero of exp(-epsilon (||a||_1 + ||S + a||_1))
         = (1 / 2 pi) integral over the circle of prod_j psi_{S_j}(t) dt,
    psi_s(t) = sum over a of exp(-epsilon (|a| + |s + a|) + i t (a + s/2)),

which has, with ``x = exp(-2 epsilon)`` and s >= 0, the closed form

    exp(-epsilon s) [ sin((s+1) t/2) / sin(t/2) + 2 x (cos((s/2 + 1) t) - x cos(s t/2)) / (1 - 2 x cos t + x**2) ].

The mean over M equal steps in place of the integral adds the a whose sum is another multiple of M. By the
inequality of Cauchy and Schwarz these have at most the mass that they have for S = 0, which `two_row` keeps
below 1e-17 of the whole. By the same inequality ``q(S) <= q(0)``; and because ``||a|| + ||S + a|| >= ||S||``,

    q(S) <= exp(-(1 - theta) epsilon ||S||_1) P_{c-1}(coth 2 theta epsilon)   for every theta in (0, 1],

P_{c-1}(coth 2 epsilon) = q(0), c the number of columns: a bound that saves most evaluations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, seed_state
from bayesdp.lattices.exact.fixed_sum import add_fixed_sum, log_normaliser, mass_table
from bayesdp.lattices.exact.groups import pair_given_sum

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

MOST_NODES = 1 << 13
"""Largest M."""

_ALIASED = 1e-17
"""Share of the mass that other multiples of M may have."""

_THETAS = np.array([0.15, 0.3, 0.45, 0.6, 0.75, 0.9])


@dataclass(frozen=True, eq=False)
class TwoRow:
    """Tables for `two_row_ratio`."""

    sines: Floats  # with `cosines`: of ``pi k / M``, shape (2 M,)
    cosines: Floats
    log_zero: float  # ``log q(0)``
    # Slope and offset of the bounds on ``log q(S) / q(0)`` as functions of ``||S||_1``, shape (thetas, 2).
    bounds: Floats


def two_row(columns: int, epsilon: float) -> TwoRow | None:
    """Prepare to evaluate q; None where more than `MOST_NODES` nodes would be needed.

    Examples
    --------
    >>> print(f"{two_row(4, 0.25).log_zero:.6f}")  # P_3(coth 0.5)
    3.094985
    """
    log_zero = log_normaliser(columns, 2.0 * epsilon)
    nodes = _nodes(columns, epsilon, log_zero)
    if nodes is None:
        return None
    angles = math.pi * np.arange(2 * nodes) / nodes
    offsets = [log_normaliser(columns, 2.0 * theta * epsilon) - log_zero for theta in _THETAS]
    bounds = np.stack([-(1.0 - _THETAS) * epsilon, np.array(offsets)], axis=1)
    return TwoRow(np.sin(angles), np.cos(angles), log_zero, bounds)


def _nodes(columns: int, epsilon: float, log_zero: float) -> int | None:
    """How many nodes keep the aliased mass small: by Markov's inequality, for the best of many slopes."""
    # Mass of sum(a) = m with S = 0 is below e**(-slope m) times the c-th power of the sum over a of
    # e**(-2 epsilon |a| + slope a) = sinh(2 epsilon) / (cosh 2 epsilon - cosh slope), for every slope < 2 epsilon.
    rate = 2.0 * epsilon
    slopes = rate * np.linspace(0.05, 0.999, 200)
    # cosh(rate) - cosh(slope) and sinh(rate), both divided by e**rate, so that nothing overflows
    gap = 0.5 * (1.0 + np.exp(-2.0 * rate) - np.exp(slopes - rate) - np.exp(-slopes - rate))
    masses = columns * (np.log(-0.5 * np.expm1(-2.0 * rate)) - np.log(gap))
    # Both signs and all multiples together are below four times the first.
    needed = (masses - log_zero - math.log(_ALIASED) + math.log(4.0)) / slopes
    nodes = max(8, math.ceil(float(needed.min())), math.ceil(1.0 / rate))
    return nodes if nodes <= MOST_NODES else None


@nb.njit(cache=True, error_model="numpy")
def two_row_bound(size: int, bounds: Floats) -> float:
    """An upper bound on ``log(q(S) / q(0))``, given ``||S||_1``."""
    best = 0.0
    for i in range(len(bounds)):
        best = min(best, bounds[i, 0] * size + bounds[i, 1])
    return best


@nb.njit(cache=True, error_model="numpy")
def two_row_ratio(
    sums: Ints, epsilon: float, sines: Floats, cosines: Floats, log_zero: float, products: Floats
) -> float:
    """``q(S) / q(0)`` for column sums S; `products` is scratch, as long as half of `sines`.

    The angles t/2 are the multiples of pi / M, so that every sine and cosine is in the tables. The product is the
    same at t and -t: the sum of all S is zero, hence even.
    """
    x = math.exp(-2.0 * epsilon)
    steps = len(sines)
    nodes = steps // 2
    half = nodes // 2
    products[: half + 1] = 1.0
    for j in range(len(sums)):
        s = abs(sums[j])
        flat, near = (s + 1) % steps, (s + 2) % steps
        middle_step = s % steps
        at_flat, at_near, at_own = 0, 0, 0
        decay = math.exp(-epsilon * s)
        for k in range(half + 1):
            middle = sines[at_flat] / sines[k] if k > 0 else s + 1.0
            tail = 2.0 * x * (cosines[at_near] - x * cosines[at_own]) / (1.0 - 2.0 * x * cosines[2 * k] + x * x)
            products[k] *= decay * (middle + tail)
            at_flat += flat
            at_flat -= steps if at_flat >= steps else 0
            at_near += near
            at_near -= steps if at_near >= steps else 0
            at_own += middle_step
            at_own -= steps if at_own >= steps else 0
    total = products[0]
    for k in range(1, half + 1):
        # Every node but the first stands for two, and the one opposite to it, if there is one, for itself.
        total += products[k] if 2 * k == nodes else 2.0 * products[k]
    return float(total / nodes * math.exp(-log_zero))


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

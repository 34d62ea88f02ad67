"""l1 noise on tables with two ways and both margins fixed, or with three ways and all two-way margins fixed.

Two ways: all rows but two are drawn as exact noise with sum zero (`bayesdp.lattices.fixed_sum`). Their column sums S are kept
with probability q(S) / q(0), q(S) the mass of all pairs of rows that bring the column sums back to zero
(below), and then the last two rows are drawn given S: one entry of each column has a mass that
is flat between two knots and falls geometrically beyond, whatever the other columns, but for the condition that
the row sums to zero, which is met by rejection on the column with the widest flat.

At rates so small that q(S) would take too many nodes, all rows but one are drawn and kept with probability
``exp(-epsilon ||S||_1)``; the last row is -S. The short side is the length of the rows, since about ``(2 / r)**((c -
1) / 2)`` of the tries are kept for r rows of c cells.

For two independent rows with mass ``exp(-epsilon ||a||_1)`` and sum zero, and column sums S,

    q(S) = sum over a with sum zero of exp(-epsilon (||a||_1 + ||S + a||_1))
         = (1 / 2 pi) integral over the circle of prod_j psi_{S_j}(t) dt,
    psi_s(t) = sum over a of exp(-epsilon (|a| + |s + a|) + i t (a + s/2)),

which has, with ``x = exp(-2 epsilon)`` and s >= 0, the closed form

    exp(-epsilon s) [ sin((s+1) t/2) / sin(t/2) + 2 x (cos((s/2 + 1) t) - x cos(s t/2)) / (1 - 2 x cos t + x**2) ].

The mean over M equal steps in place of the integral adds the a whose sum is another multiple of M. By the
inequality of Cauchy and Schwarz these have at most the mass that they have for S = 0, which `two_way` keeps
below 1e-17 of the whole. By the same inequality ``q(S) <= q(0)``; and because ``||a|| + ||S + a|| >= ||S||``,

    q(S) <= exp(-(1 - theta) epsilon ||S||_1) P_{c-1}(coth 2 theta epsilon)   for every theta in (0, 1],

``P_{c-1}(coth 2 epsilon) = q(0)``, c the number of columns: a bound that saves most evaluations.

Three ways: every slice along one way is a two-way table with both margins zero, and the slices add up to zero. All but the
last are drawn exactly and kept with probability ``exp(-epsilon ||S||_1)``, S their sum; the last is -S.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import exponential, nb, seed_state
from bayesdp.lattices.fixed_sum import add_fixed_sum, log_normaliser, mass_table, pair_given_sum, scratch

type Room = tuple[Ints, Floats, Words]
"""Column sums, products, and bits, made once for many draws."""

MOST_NODES = 1 << 13  # largest M
_ALIASED = 1e-17  # share of the mass that other multiples of M may have
_THETAS = np.array([0.15, 0.3, 0.45, 0.6, 0.75, 0.9])


class TwoWay(NamedTuple):
    """What a kernel needs to draw tables of `rows` rows, no shorter than they are long."""

    rows: int
    epsilon: float
    columns: Ints  # 0, 1, ...
    cumulative: Floats  # the `mass_table` of a row
    sines: Floats  # with `cosines`: of ``pi k / M``, shape (2 M,); empty where one row is left instead of two
    cosines: Floats
    log_zero: float  # ``log q(0)``
    bounds: Floats  # of ``log(q(S) / q(0))``: slopes in ``||S||_1`` and offsets, shape (bounds, 2)


@lru_cache(maxsize=64)
def two_way(rows: int, columns: int, epsilon: float) -> TwoWay:
    """Prepare to draw tables of ``rows >= columns >= 2``, at least three rows."""
    log_zero = log_normaliser(columns, 2.0 * epsilon)
    nodes = _nodes(columns, epsilon, log_zero)
    angles = math.pi * np.arange(2 * nodes) / max(nodes, 1)
    offsets = np.array([log_normaliser(columns, 2.0 * theta * epsilon) for theta in _THETAS]) - log_zero
    bounds = np.stack([(_THETAS - 1.0) * epsilon, offsets], axis=1)
    cumulative, tables = mass_table(columns, epsilon), (np.sin(angles), np.cos(angles))
    return TwoWay(rows, epsilon, np.arange(columns), cumulative, *tables, log_zero, bounds)


def _nodes(columns: int, epsilon: float, log_zero: float) -> int:
    """How many nodes keep the aliased mass small, by Markov's inequality for the best of many slopes; 0 for too many."""
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
    return nodes if nodes <= MOST_NODES else 0


@nb.njit(cache=True, error_model="numpy")
def two_row_ratio(plan: TwoWay, sums: Ints, products: Floats) -> float:
    """``q(S) / q(0)`` for column sums S; `products` is scratch, as long as half of `sines`."""
    # The angles t/2 are the multiples of pi / M, so that every sine and cosine is in the tables. The product is the same at t
    # and -t: the sum of all S is zero, hence even.
    x, sines, cosines = math.exp(-2.0 * plan.epsilon), plan.sines, plan.cosines
    steps = len(sines)
    nodes = steps // 2
    half = nodes // 2
    products[: half + 1] = 1.0
    for j in range(len(sums)):
        s = abs(sums[j])
        flat, near, middle_step = (s + 1) % steps, (s + 2) % steps, s % steps
        at_flat, at_near, at_middle = 0, 0, 0
        decay = math.exp(-plan.epsilon * s)
        for k in range(half + 1):
            middle = sines[at_flat] / sines[k] if k > 0 else s + 1.0
            tail = 2.0 * x * (cosines[at_near] - x * cosines[at_middle]) / (1.0 - 2.0 * x * cosines[2 * k] + x * x)
            products[k] *= decay * (middle + tail)
            at_flat += flat
            at_flat -= steps if at_flat >= steps else 0
            at_near += near
            at_near -= steps if at_near >= steps else 0
            at_middle += middle_step
            at_middle -= steps if at_middle >= steps else 0
    total = products[0]
    for k in range(1, half + 1):
        # Every node but the first stands for two, and the one opposite to it, if there is one, for itself.
        total += products[k] if 2 * k == nodes else 2.0 * products[k]
    return float(total / nodes * math.exp(-plan.log_zero))


def two_way_acceptance(plan: TwoWay, rng: np.random.Generator, tries: int) -> float:
    """An estimate of the acceptance rate: the mean acceptance probability of simulated proposals."""
    return float(_mean_of_rows(seed_state(rng), plan, tries))


def draw_two_way(plan: TwoWay, rng: np.random.Generator, size: int) -> tuple[Ints, int]:
    """Draw noise that changes no margin, shape (size, rows, columns); and how many tries were made."""
    out = np.zeros((size, plan.rows, len(plan.columns)), dtype=np.int64)
    return out, int(_fill_tables(seed_state(rng), plan, out))


@nb.njit(cache=True, error_model="numpy")
def _room(plan: TwoWay) -> Room:
    columns = len(plan.columns)
    return np.zeros(columns, dtype=np.int64), np.zeros(len(plan.sines) // 2 + 1), scratch(columns)


@nb.njit(cache=True, error_model="numpy")
def _rows(state: Words, plan: TwoWay, table: Ints, room: Room) -> None:
    """Draw all rows but the last two (or one), and add up their columns."""
    sums, _, bits = room
    sums[:] = 0
    for i in range(len(table) - (2 if len(plan.sines) else 1)):
        row = table[i]
        row[:] = 0
        add_fixed_sum(state, plan.cumulative, plan.epsilon, plan.columns, row, bits)
        for j in range(len(sums)):
            sums[j] += row[j]


@nb.njit(cache=True, error_model="numpy")
def _size(values: Ints) -> int:
    total = 0
    for value in values:
        total += int(abs(value))
    return total


@nb.njit(cache=True, error_model="numpy")
def _keeps(plan: TwoWay, room: Room, spent: float) -> bool:
    """Whether rows with these column sums are kept: the logarithm of that probability is above minus an exponential variable."""
    sums, products, _ = room
    size = _size(sums)
    if len(plan.sines) == 0:
        return spent > plan.epsilon * size
    for i in range(len(plan.bounds)):
        if plan.bounds[i, 0] * size + plan.bounds[i, 1] <= -spent:
            return False
    return two_row_ratio(plan, sums, products) > math.exp(-spent)


@nb.njit(cache=True, error_model="numpy")
def _set_table(state: Words, plan: TwoWay, table: Ints, room: Room) -> int:
    """Overwrite a table, shape (rows, columns), with noise; how many tries were made."""
    tries = 1
    _rows(state, plan, table, room)
    while not _keeps(plan, room, exponential(state)):
        tries += 1
        _rows(state, plan, table, room)
    if len(plan.sines):
        _last_rows(state, plan.epsilon, room[0], table)
    else:
        table[len(table) - 1] = -room[0]
    return tries


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
def _fill_tables(state: Words, plan: TwoWay, out: Ints) -> int:
    tries, room = 0, _room(plan)
    for table in out:
        tries += _set_table(state, plan, table, room)
    return tries


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _mean_of_rows(state: Words, plan: TwoWay, tries: int) -> float:
    room = _room(plan)
    sums, products = room[0], room[1]
    table = np.zeros((plan.rows, len(sums)), dtype=np.int64)
    total = 0.0
    for _ in range(tries):
        _rows(state, plan, table, room)
        kept = two_row_ratio(plan, sums, products) if len(plan.sines) else math.exp(-plan.epsilon * _size(sums))
        total += max(kept, 0.0)
    return total / tries


def three_way_acceptance(plan: TwoWay, slices: int, rng: np.random.Generator, tries: int) -> float:
    """An estimate of the acceptance rate of the last slice: the mean acceptance probability of simulated proposals."""
    table = np.zeros((slices, plan.rows, len(plan.columns)), dtype=np.int64)
    return float(_mean_of_slices(seed_state(rng), plan, table, tries))


def draw_three_way(plan: TwoWay, slices: int, rng: np.random.Generator, size: int) -> tuple[Ints, int]:
    """Draw noise that changes no two-way margin, shape (size, slices, rows, columns); and how many tries were made."""
    out = np.zeros((size, slices, plan.rows, len(plan.columns)), dtype=np.int64)
    return out, int(_fill_slices(seed_state(rng), plan, out))


@nb.njit(cache=True, error_model="numpy")
def _slices(state: Words, plan: TwoWay, table: Ints, room: Room) -> int:
    """Draw all slices but the last, set the last; the size of the last."""
    last = table[len(table) - 1]
    last[:] = 0
    for i in range(len(table) - 1):
        _set_table(state, plan, table[i], room)
        last -= table[i]
    size = 0
    for row in last:
        size += _size(row)
    return size


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_slices(state: Words, plan: TwoWay, out: Ints) -> int:
    tries, room = 0, _room(plan)
    for table in out:
        tries += 1
        while plan.epsilon * _slices(state, plan, table, room) >= exponential(state):
            tries += 1
    return tries


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _mean_of_slices(state: Words, plan: TwoWay, table: Ints, tries: int) -> float:
    total, room = 0.0, _room(plan)
    for _ in range(tries):
        total += math.exp(-plan.epsilon * _slices(state, plan, table, room))
    return total / tries

"""l1 noise on three-way tables with all two-way margins fixed: exact slices, and rejection on the last one.

Every slice along one way is a two-way table with both margins zero, and the slices add up to zero. All but the
last are drawn exactly (`bayesdp.lattices.exact.two_way`) and kept with probability ``exp(-epsilon ||S||_1)``, S their
sum; the last is -S.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, seed_state
from bayesdp.lattices.exact.two_way import TwoWay, add_two_way

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]


def three_way_acceptance(plan: TwoWay, slices: int, rng: np.random.Generator, tries: int) -> float:
    """An estimate of the acceptance rate: the mean acceptance probability of simulated proposals."""
    table = np.zeros((slices, plan.rows, plan.columns), dtype=np.int64)
    return float(_trial(seed_state(rng), *plan.arguments, table, tries))


def draw_three_way(plan: TwoWay, slices: int, rng: np.random.Generator, size: int) -> tuple[npt.NDArray[np.int64], int]:
    """Draw noise that changes no two-way margin, with mass proportional to ``exp(-epsilon ||z||_1)``."""
    # `plan`: for one slice. Returns shape (size, slices, rows, columns); how many tries were made.
    out = np.zeros((size, slices, plan.rows, plan.columns), dtype=np.int64)
    return out, int(_fill(seed_state(rng), *plan.arguments, out))


@nb.njit(cache=True, error_model="numpy")
def _slices(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, columns: Ints, table: Ints, sums: Ints, products: Floats, bits: Words,
) -> tuple[int, Words]:  # fmt: skip
    """Draw all slices but the last, set the last; the size of the last."""
    last = table[len(table) - 1]
    last[:] = 0
    for i in range(len(table) - 1):
        _, bits = add_two_way(
            state, epsilon, cumulative, sines, cosines, log_zero, bounds, columns, table[i], sums, products, bits
        )
        last -= table[i]
    size = 0
    for value in last.flat:
        size += abs(value)
    return size, bits


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, out: Ints,
) -> int:  # fmt: skip
    columns = np.arange(out.shape[3])
    sums, products = np.zeros(len(columns), dtype=np.int64), np.zeros(len(sines) // 2 + 1)
    bits = np.zeros(8, dtype=np.uint64)
    tries = 0
    for draw in range(len(out)):
        kept = False
        while not kept:
            tries += 1
            size, bits = _slices(
                state, epsilon, cumulative, sines, cosines, log_zero, bounds, columns, out[draw], sums, products, bits
            )
            kept = exponential(state) > epsilon * size
    return tries


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _trial(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, table: Ints, tries: int,
) -> float:  # fmt: skip
    columns = np.arange(table.shape[2])
    sums, products = np.zeros(len(columns), dtype=np.int64), np.zeros(len(sines) // 2 + 1)
    bits = np.zeros(8, dtype=np.uint64)
    total = 0.0
    for _ in range(tries):
        size, bits = _slices(
            state, epsilon, cumulative, sines, cosines, log_zero, bounds, columns, table, sums, products, bits
        )
        total += math.exp(-epsilon * size)
    return total / tries

"""Exact draws from the density proportional to ``exp(-rate ||z||_1)`` on the subspace of some invariants.

Over m cells whose sum is zero, two vectors of independent exponential variables with the same sum s have a
difference of this law: s is a gamma variable with shape 2m - 1 and rate 2 rate, and given s both vectors are
s times independent uniform points of the simplex. Disjoint totals are blocks of such cells.

A table with zero margins has R rows of c cells. R - 2 rows are drawn as above, with column sums S. For the
last two rows a and -S - a write b = a + S/2: their norm is ``sum_j max(2 |b_j|, |S_j|)``, so that b is drawn
as a row of rate 2 rate, and the whole table is accepted with probability ``exp(-rate sum_j (|S_j| - 2
|b_j|)_+)``. The probability that a table is accepted does not depend on the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Proposal:
    """A sampler of l1 noise, for one kind of invariants."""

    blocks: Ints | None  # block of each cell for disjoint totals, -1 for free cells, shape (cells,)
    table: tuple[int, int] | None  # for tables with both margins
    words: str  # what is drawn

    def draw(self, rate: float, rng: np.random.Generator, size: int, tries: int | None = None) -> Floats:
        """Draw tables as flat vectors, shape (size, cells); fewer than `size` if `tries` do not suffice."""
        return self.tried(rate, rng, size, tries)[0]

    def tried(self, rate: float, rng: np.random.Generator, size: int, tries: int | None = None) -> tuple[Floats, int]:
        """Draw likewise, and say how many tries were made."""
        state = seed_state(rng)
        if self.blocks is not None:
            order = np.argsort(self.blocks, kind="stable").astype(np.int64)
            free = int(np.count_nonzero(self.blocks < 0))
            starts = np.append(free + np.flatnonzero(np.diff(self.blocks[order[free:]], prepend=-1)), len(order))
            out = np.zeros((size, len(self.blocks)))
            _fill_blocks(state, order, starts, rate, out)
            return out, size
        assert self.table is not None  # one of the two kinds
        rows, columns = self.table
        # Short rows are accepted more often.
        turned = columns > rows
        draws = np.zeros((size, *((columns, rows) if turned else (rows, columns))))
        found, tried = _fill_tables(state, rate, -1 if tries is None else tries, draws)
        return np.ascontiguousarray(draws.swapaxes(1, 2) if turned else draws).reshape(size, -1)[:found], tried


def proposal_for(invariants: Invariants) -> Proposal | None:
    """Find the sampler for some invariants; None for those that are neither totals nor both margins of a table.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> proposal = proposal_for(Invariants(Margins(table, ["county"], ["education"])))
    >>> proposal.table
    (3, 2)
    >>> draw = proposal.draw(1.0, np.random.default_rng(1), 1).reshape(3, 2)
    >>> bool(np.abs(draw.sum(axis=0)).max() < 1e-12), bool(np.abs(draw.sum(axis=1)).max() < 1e-12)
    (True, True)
    """
    if invariants.blocks is not None:
        return Proposal(np.asarray(invariants.blocks, dtype=np.int64), None, "differences of two uniform points")
    shape = tuple(size for size in invariants.frame.shape if size > 1)
    if len(shape) != 2 or invariants.rank != shape[0] + shape[1] - 1:
        return None
    rows, columns = shape
    # The dimension is that of both margins; so all depends on whether the 2 x 2 moves change no invariant.
    steps = np.eye(rows)[:-1] - np.eye(rows)[1:], np.eye(columns)[:-1] - np.eye(columns)[1:]
    if np.any(invariants.matrix @ np.kron(*steps).T):
        return None
    return Proposal(None, (rows, columns), "row by row, the last two rows together by rejection")


@nb.njit(cache=True, error_model="numpy")
def _exponentials(state: Words, out: Floats) -> float:
    """Fill with standard exponential variables, and give their sum."""
    total = 0.0
    for i in range(len(out)):
        out[i] = -math.log1p(-uniform(state))
        total += out[i]
    return total


@nb.njit(cache=True, error_model="numpy")
def _gamma(state: Words, shape: int) -> float:
    """A sum of standard exponential variables: of eight at a time, whose product of uniforms is above 2**-424."""
    total = 0.0
    product = 1.0
    for i in range(shape):
        product *= 1.0 - uniform(state)
        if i % 8 == 7:
            total -= math.log(product)
            product = 1.0
    return total - math.log(product)


@nb.njit(cache=True, error_model="numpy")
def _zero_sum(state: Words, rate: float, first: Floats, second: Floats) -> None:
    """Overwrite `first` by numbers that sum to zero, with density proportional to exp(-rate l1 norm)."""
    one, two = _exponentials(state, first), _exponentials(state, second)
    common = _gamma(state, 2 * len(first) - 1) / (2.0 * rate)
    for i in range(len(first)):
        first[i] = common * (first[i] / one - second[i] / two)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_blocks(state: Words, order: Ints, starts: Ints, rate: float, out: Floats) -> None:
    """Fill `out`: the cells before ``order[starts[0]]`` are free, then come the blocks."""
    first, second = np.empty(len(order)), np.empty(len(order))
    for draw in range(out.shape[0]):
        row = out[draw]
        for i in range(starts[0]):
            size = -math.log1p(-uniform(state)) / rate
            row[order[i]] = size if uniform(state) < 0.5 else -size
        for block in range(len(starts) - 1):
            cells = order[starts[block] : starts[block + 1]]
            m = len(cells)
            if m > 1:  # a block of one cell has no freedom
                _zero_sum(state, rate, first[:m], second[:m])
                for i in range(m):
                    row[cells[i]] = first[i]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_tables(state: Words, rate: float, tries: int, out: Floats) -> tuple[int, int]:
    """Fill `out`, (size, rows, columns); the number of tables found in so many tries (-1: no limit), and of tries."""
    size, rows, columns = out.shape
    first, second, sums = np.empty(columns), np.empty(columns), np.empty(columns)
    found = 0
    tried = 0
    while found < size and tried != tries:
        tried += 1
        table = out[found]
        sums[:] = 0.0
        for i in range(rows - 2):
            _zero_sum(state, rate, first, second)
            for j in range(columns):
                table[i, j] = first[j]
                sums[j] += first[j]
        _zero_sum(state, 2.0 * rate, first, second)
        excess = 0.0
        for j in range(columns):
            excess += max(abs(sums[j]) - 2.0 * abs(first[j]), 0.0)
            table[rows - 2, j] = first[j] - 0.5 * sums[j]
            table[rows - 1, j] = -first[j] - 0.5 * sums[j]
        if rate * excess <= -math.log1p(-uniform(state)):
            found += 1
    return found, tried

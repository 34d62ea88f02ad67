"""The sum of ``x**||z||_1`` over a lattice as a rational function, from finitely many shells.

On the vectors of one sign pattern the l1 norm is linear; these cones cover the span of the lattice, and their extreme
rays are circuits (kernel vectors of minimal support). Triangulate them without new rays. A simplicial cone on circuits
``u_1, ..., u_n`` without some of its facets has the sum ``b(x) / prod_i (1 - x**l_i)``, ``l_i = ||u_i||_1``, where b
counts the lattice points of a half-open box by size: it has nonnegative coefficients and degree at most ``sum l_i``.
Added up over the cones (they can be taken disjoint) this gives three facts on ``F(x) = sum_z x**||z||_1``:

1. ``F q`` is a polynomial h of at most the degree M of q, with ``q = prod_k Phi_k(x)**n`` over all k that divide the
   length of a circuit (Phi_k the cyclotomic polynomials, Phi_1 taken as 1 - x): q is a multiple of every denominator.
2. ``F(1/x) = (-1)**n F(x)``: by Stanley's reciprocity the sum over the inside of a cone at 1/x is plus or minus the
   sum over the closed cone at x, and the cones that contain a point have alternating sum (-1)**n. As ``q(1/x) =
   (-1)**n x**-M q(x)``, h reads the same backwards: the shells up to M/2 determine it.
3. With D the least common multiple of the lengths, ``g = F (1 - x**D)**n`` is a polynomial with nonnegative
   coefficients: nothing cancels when it is evaluated, for any x between 0 and 1.

So the normaliser of lattice Laplace noise is known for all epsilon from a few exact counts. For 3 x 3 tables, with
circuits of 4 and 6 cells and n = 4: M = 32, so that vectors of size 16 and less are counted.

References: Ehrhart's theorem and Stanley's reciprocity, in Beck and Robins (2015), Computing the Continuous
Discretely, Chapters 3 and 4.

Vectors are counted by their size cell by cell. A cell adds a multiple of its column to the sums so far. What matters of the
cells passed is those sums, and how many ways there are to reach them at each size.

With few rows, all sums that can come back to zero are held in one array. Adding a cell with column a multiplies the
generating function ``P(y, x)`` of sums and sizes by ``sum_k x**|k| y**(k a) = (1 - x**2) / ((1 - x y**a) (1 - x
y**-a))``: two passes through the array, one each way.

With more rows, only the sums that occur are held, and those that the cells to come cannot bring back to zero in time are
dropped. Rows that are begun and not ended are few if cells of the same rows stand together.

4 x c tables with zero margins are counted two rows at a time. The first two rows and the last two have opposite column sums
S, and are counted alike: with ``q_S(x)`` the sum of ``x**(||a||_1 + ||S - a||_1)`` over the rows a with sum zero, tables have
the generating function ``sum_S q_S(x)**2``. It depends on S up to its order only, and two rows with column sums S have at
least the size ``||S||_1``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat, fmpz_poly

from bayesdp._numba import nb
from bayesdp.lattices.fixed_sum import log_sum_exp
from bayesdp.lattices.parts import General, Table
from bayesdp.moves.basis import leading_signs

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_NUMBERS = 4_000_000  # states times sizes that are held at most, where only those that occur are held
_BOX_ROWS = 3  # up to so many independent rows all sums are held
_BOX_NUMBERS = 30_000_000  # sums times sizes in that array at most


def l1_shells(matrix: Ints, largest: int) -> Ints | None:
    """Count the integer vectors z with ``matrix @ z = 0`` by their size ``||z||_1``, shape (largest + 1,).

    None if it would take too much memory, or numbers beyond 64 bits.
    """
    # No count is larger than that of all integer vectors of such a size.
    cells = matrix.shape[1]
    if sum(2**k * math.comb(cells, k) * math.comb(largest, k) for k in range(cells + 1)) >= 2**62:
        return None
    box = largest * np.abs(matrix).max(axis=1) // 2
    if len(matrix) <= _BOX_ROWS and math.prod((2 * box + 1).tolist()) * (largest + 1) <= _BOX_NUMBERS:
        return _count_dense(matrix, box, largest)
    return _count_sparse(matrix, largest)


def _count_dense(matrix: Ints, box: Ints, largest: int) -> Ints:
    """Hold all sums up to `box` in size: half of a vector has at most half of its size."""
    spans = 2 * box + 1
    strides = np.cumprod(np.concatenate([[1], spans[:-1]]))
    ways = np.zeros((int(np.prod(spans)), largest + 1), dtype=np.int64)
    ways[int(box @ strides), 0] = 1
    for column in matrix.T:
        _multiply(ways, column, spans, strides)
    return np.array(ways[int(box @ strides)])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _multiply(ways: Ints, column: Ints, spans: Ints, strides: Ints) -> None:
    """Add a cell: times ``1 - x**2``, then divided by ``1 - x y**a`` and ``1 - x y**-a``, in place."""
    largest = ways.shape[1] - 1
    for place in range(len(ways)):
        for size in range(largest, 1, -1):
            ways[place, size] -= ways[place, size - 2]
    for sign in (1, -1):
        shift = 0
        for row in range(len(column)):
            shift += sign * column[row] * strides[row]
        for step in range(len(ways)):
            # Upwards where the cell moves to later places (or nowhere, in the box without rows), so that what is
            # added has been added to.
            place = step if shift >= 0 else len(ways) - 1 - step
            inside = True
            for row in range(len(column)):
                digit = place // strides[row] % spans[row] - sign * column[row]
                inside &= 0 <= digit < spans[row]
            if inside:
                for size in range(1, largest + 1):
                    ways[place, size] += ways[place - shift, size - 1]


def _count_sparse(matrix: Ints, largest: int) -> Ints | None:
    """Hold only the sums that occur."""
    matrix = matrix[:, _order(matrix)]
    # The largest entry to come in each row, for each number of cells passed.
    coming = np.maximum.accumulate(np.abs(matrix[:, ::-1]), axis=1)[:, ::-1]
    coming = np.concatenate([coming, np.zeros((len(matrix), 1), dtype=np.int64)], axis=1)
    sums = np.zeros((1, len(matrix)), dtype=np.int64)
    ways = np.zeros((1, largest + 1), dtype=np.int64)
    ways[0, 0] = 1
    for cell in range(matrix.shape[1]):
        moved = _add_cell(sums, ways, matrix[:, cell], coming[:, cell + 1], largest)
        if moved is None:
            return None
        sums, ways = moved
    return np.array(ways[0])


def _order(matrix: Ints) -> list[int]:
    """Cells so that few rows are open at a time."""
    left = np.count_nonzero(matrix, axis=1)
    begun = np.zeros(len(matrix), dtype=np.bool_)
    order: list[int] = []
    todo = list(range(matrix.shape[1]))
    while todo:
        inside = matrix[:, todo] != 0
        opened = (inside & ~begun[:, None]).sum(axis=0)
        ended = (inside & (left == 1)[:, None]).sum(axis=0)
        # Among equals, rows that are near their end come first.
        near = np.where(inside, left[:, None], 10**6).min(axis=0)
        cell = todo.pop(int(np.lexsort((near, opened - ended))[0]))
        begun |= matrix[:, cell] != 0
        left -= matrix[:, cell] != 0
        order.append(cell)
    return order


def _add_cell(sums: Ints, ways: Ints, column: Ints, coming: Ints, largest: int) -> tuple[Ints, Ints] | None:
    """States after one more cell; `coming` is the largest entry to come in each row."""
    least = np.argmax(ways > 0, axis=1)
    open_rows = coming > 0
    found: list[tuple[int, Ints, Ints]] = []
    total = 0
    for step in range(-largest, largest + 1):
        moved = sums + step * column
        need = np.zeros(len(moved), dtype=np.int64)
        if open_rows.any():
            need = (-(-np.abs(moved[:, open_rows]) // coming[open_rows])).max(axis=1)
        kept = np.flatnonzero(~moved[:, ~open_rows].any(axis=1) & (least + abs(step) + need <= largest))
        if kept.size:
            found.append((step, kept, moved[kept]))
            total += kept.size
            if total > 16 * _NUMBERS // (largest + 1):
                return None
    # One number for each state: the open rows in a mixed radix.
    stacked = np.concatenate([moved for _, _, moved in found])
    low, span = stacked.min(axis=0), np.ptp(stacked, axis=0) + 1
    if math.prod(span.tolist()) >= 2**62:
        return None
    radix = np.concatenate([[1], np.cumprod(span[:-1])])
    codes, first, place = np.unique((stacked - low) @ radix, return_index=True, return_inverse=True)
    if codes.size * (largest + 1) > _NUMBERS:
        return None
    after = np.zeros((codes.size, largest + 1), dtype=np.int64)
    start = 0
    for step, kept, moved in found:
        # A step takes different states to different states, so that no place occurs twice.
        after[place[start : start + len(moved)], abs(step) :] += ways[kept, : largest + 1 - abs(step)]
        start += len(moved)
    return stacked[first], after


_CHOICES = 20_000  # more sets of columns than this are not searched: 0.05 ms each


def circuit_lengths(matrix: Ints) -> frozenset[int] | None:
    """Sizes ``||u||_1`` of all circuits u, the primitive integer vectors of the kernel with minimal support."""
    # Columns that are multiples of one another make circuits of two cells, and stand for each other in longer ones up to their
    # factors: with equal columns up to sign, one of each is enough for those.
    lengths: set[int] = set()
    if np.any(~matrix.any(axis=0)):
        lengths.add(1)  # a cell that no row sees
    columns = matrix[:, matrix.any(axis=0)]
    distinct, count = np.unique(columns * leading_signs(columns.T), axis=1, return_counts=True)
    if np.any(count > 1):
        lengths.add(2)
    if distinct.shape[1] == 0:
        return frozenset(lengths)
    rank = fmpz_mat(distinct.astype(int).tolist()).rank()
    if math.comb(distinct.shape[1], rank + 1) > _CHOICES:
        return None
    # Every circuit lies in some rank + 1 columns of full rank, whose kernel is its line.
    for chosen in combinations(range(distinct.shape[1]), rank + 1):
        kernel, nullity = fmpz_mat(distinct[:, chosen].astype(int).tolist()).nullspace()
        if nullity == 1:
            vector = [abs(int(kernel[i, 0])) for i in range(rank + 1)]
            lengths.add(sum(vector) // math.gcd(*vector))
    return frozenset(lengths)


def four_row_shells(columns: int, largest: int) -> Ints | None:
    """Count the 4 x `columns` tables with zero margins by size, shape (largest + 1,); None if 64 bits may not be enough."""
    # Free cells say everything, and are no larger than the table.
    free = 3 * (columns - 1)
    if sum(2**k * math.comb(free, k) * math.comb(largest, k) for k in range(free + 1)) >= 2**62:
        return None
    counts = np.zeros(largest + 1, dtype=np.int64)
    for sums in _zero_sums(columns, largest // 4):
        room = largest - 2 * int(np.abs(sums).sum())  # beyond the least size of the four rows
        two = _two_rows(np.array(sums, dtype=np.int64), room)
        orders = math.factorial(columns) // math.prod(math.factorial(n) for n in Counter(sums).values())
        counts[largest - room :] += orders * np.convolve(two, two)[: room + 1]
    return counts


def _zero_sums(length: int, half: int) -> Iterator[tuple[int, ...]]:
    """Ascending vectors with sum zero whose positive entries add up to at most `half`."""

    def continued(start: tuple[int, ...], negative: int) -> Iterator[tuple[int, ...]]:
        left, total = length - len(start), sum(start)
        if left == 0:
            if total == 0:
                yield start
            return
        least = start[-1] if start else -half
        for entry in range(least, half + 1):
            if total + entry * left > 0:  # later entries are no smaller
                return
            down = negative - min(entry, 0)
            if down <= half:
                yield from continued((*start, entry), down)

    return continued((), 0)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _two_rows(sums: Ints, room: int) -> Ints:
    """Pairs of rows with these column sums, the first of which sums to zero, by size beyond the least one."""
    # An entry beyond 0..s costs 2 for each unit; sums of the first row that have gone further cannot come back.
    reach = room + np.abs(sums).sum()
    ways = np.zeros((2 * reach + 1, room + 1), dtype=np.int64)
    ways[reach, 0] = 1
    for s in sums:
        low, high = min(s, 0), max(s, 0)
        after = np.zeros_like(ways)
        for entry in range(low - room // 2, high + room // 2 + 1):
            cost = 2 * max(low - entry, entry - high, 0)
            for place in range(max(0, -entry), min(len(ways), len(ways) - entry)):
                for size in range(room + 1 - cost):
                    after[place + entry, size + cost] += ways[place, size]
        ways = after
    return np.asarray(ways[reach])


_CELLS = 40  # lattices on more cells are not tried
_SIZE = 80  # shells beyond this size are not counted
_DEGREE = 20_000  # largest degree of g


@dataclass(frozen=True, eq=False)
class L1Series:
    """``F(x) = sum_m exp(log_coefficients[m]) x**exponents[m] / (1 - x**period)**power``, all terms positive."""

    exponents: Floats
    log_coefficients: Floats
    period: int
    power: int

    def log_sum(self, rate: Any, xp: Any = np) -> Any:
        """Logarithm of F at ``exp(-rate)``, for a positive rate; relative error of F about 1e-14."""
        terms = self.log_coefficients - xp.expand_dims(rate, -1) * self.exponents
        return log_sum_exp(xp, terms) - self.power * xp.log(-xp.expm1(-rate * self.period))


def part_matrix(part: Table | General) -> Ints:
    """Rows that are zero on the part: on one copy of a table, its sums over each one way; dense."""
    if isinstance(part, General):
        return np.asarray(part.matrix.toarray(), dtype=np.int64)
    size = math.prod(part.shape)
    each = np.eye(size, dtype=np.int64).reshape(size, *part.shape)
    return np.concatenate([each.sum(axis=1 + way).reshape(size, -1) for way in range(len(part.shape))], axis=1).T


def l1_series(part: Table | General) -> L1Series | None:
    """Find the rational function of a part (of one copy, for a table that is written several times)."""
    cells = math.prod(part.shape) if isinstance(part, Table) else part.cells.size
    if cells > _CELLS:
        return None
    return _of_rows(tuple(map(tuple, part_matrix(part).tolist())), part.shape if isinstance(part, Table) else ())


@lru_cache(maxsize=256)
def _of_rows(rows: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> L1Series | None:
    matrix = np.array(rows, dtype=np.int64)
    if len(shape) == 2:  # circuits are the cycles of the complete bipartite graph
        lengths: frozenset[int] | None = frozenset(range(4, 2 * min(shape) + 1, 2))
    else:
        lengths = circuit_lengths(matrix)
    if lengths is None:
        return None
    dimension = matrix.shape[1] - int(fmpz_mat(matrix.astype(int).tolist()).rank())
    divisors = {k for length in lengths for k in range(1, length + 1) if length % k == 0}
    q = fmpz_poly([1])
    for k in sorted(divisors):
        q *= (fmpz_poly([1, -1]) if k == 1 else fmpz_poly.cyclotomic(k)) ** dimension
    period = math.lcm(*lengths)
    if q.degree() // 2 > _SIZE or period * dimension > _DEGREE:
        return None
    half = q.degree() // 2
    shells = four_row_shells(max(shape), half) if len(shape) == 2 and min(shape) == 4 else l1_shells(matrix, half)
    return None if shells is None else _from_half(shells, q, period, dimension)


def _from_half(shells: Ints, q: fmpz_poly, period: int, dimension: int) -> L1Series:
    """Put the series together: h from its first half, then g (the names are those of the module)."""
    degree = q.degree()
    product = fmpz_poly([int(count) for count in shells]) * q
    half = [product[m] for m in range(degree // 2 + 1)]
    h = fmpz_poly(half + half[: degree - degree // 2][::-1])
    whole = (1 - fmpz_poly([0] * period + [1])) ** dimension
    g = h * (whole // q)  # q divides it: every k divides the period
    exponents = [m for m in range(g.degree() + 1) if g[m] != 0]
    logs = [math.log(int(g[m])) for m in exponents]
    return L1Series(np.array(exponents, dtype=np.float64), np.array(logs), period, dimension)

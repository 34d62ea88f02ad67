"""Sums over a lattice for every scale: of ``exp(-rate ||z||_1)`` part by part, and of a Gaussian over a part.

**l1.** On the vectors of one sign pattern the l1 norm is linear; these cones cover the span of the lattice, and their extreme
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

Vectors are counted by their size cell by cell. A cell adds a multiple of its column a to the sums so far; in the generating
function ``P(y, x)`` of sums and sizes that is a factor ``sum_k x**|k| y**(k a) = (1 - x**2) / ((1 - x y**a) (1 - x y**-a))``:
two passes through an array of all sums that can come back to zero, one each way. It has an axis for each row that is begun and
not ended, which are few if cells of the same rows stand together.

**Gaussian.** By Poisson's summation formula, for a lattice of dimension n with Gram matrix G,

``sum_z exp(-||z||**2 / 2 sigma**2) = (sigma sqrt(2 pi))**n det(G)**(-1/2) sum_w exp(-2 pi**2 sigma**2 ||w||**2)``,

w in the dual lattice (Gram matrix the inverse of G). The left side needs few terms for small scales, the right side for
large ones; both are lists of squared lengths with their numbers of points.

What is left out is bounded: for ``b < a``, points beyond squared length R add at most ``exp(-(a - b) R) sum_z exp(-b
||z||**2)`` to the sum with rate a, and ``sum_z exp(-b ||z||**2) <= prod_i sum_k exp(-b ||b*_i||**2 k**2)``, b*_i the
orthogonal vectors of Gram and Schmidt: coordinate by coordinate, a Gaussian sum over the shifted integers is at most
that over the integers (Poisson's formula again). With ``k**2 >= 1 + 3 (|k| - 1)``, and by comparison with the integral,
``sum_k exp(-c k**2)`` is at most 1 plus the smaller one of ``2 exp(-c) / (1 - exp(-3 c))`` and ``sqrt(pi / c)``. R is
taken so large that what is left out is below 1e-16; the whole sum is at least 1.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from flint import fmpq_mat, fmpz_mat, fmpz_poly

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import nb
from bayesdp.fibers.moves.basis import integer_kernel, leading_signs
from bayesdp.invariants import Invariants, echelon_pivots
from bayesdp.lattices.fixed_sum import both_sides, log_sum_exp, log_weights
from bayesdp.lattices.parts import General, Line, Part, Table, lattice_parts

_NUMBERS = 30_000_000  # sums times sizes that are held at most


def l1_shells(matrix: Ints, largest: int) -> Ints | None:
    """Count the integer vectors z with ``matrix @ z = 0`` by their size ``||z||_1``, shape (largest + 1,).

    None if it would take too much memory, or numbers beyond 64 bits.
    """
    # No count is larger than that of all integer vectors of such a size.
    cells = matrix.shape[1]
    if sum(2**k * math.comb(cells, k) * math.comb(largest, k) for k in range(cells + 1)) >= 2**62:
        return None
    # Independent rows, short ones first; the cells of the first ones stand together.
    matrix = matrix[np.argsort(np.count_nonzero(matrix, axis=1), kind="stable")]
    reduced, _, rank = fmpz_mat(matrix.T.astype(int).tolist()).rref()
    matrix = matrix[echelon_pivots(reduced, rank)]
    matrix = matrix[:, np.lexsort(matrix[::-1])]
    box = largest * np.abs(matrix).max(axis=1) // 2  # half of a vector has at most half of its size
    begun = np.cumsum(matrix != 0, axis=1)
    ways = np.zeros(largest + 1, dtype=np.int64)  # an axis for each open row, and the sizes
    ways[0] = 1
    rows: list[int] = []  # that are open
    for cell, column in enumerate(matrix.T):
        for row in np.flatnonzero((begun[:, cell] == 1) & (column != 0)).tolist():
            if (2 * box[row] + 1) * ways.size > _NUMBERS:
                return None
            wide = np.zeros((2 * box[row] + 1, *ways.shape), dtype=np.int64)
            wide[box[row]] = ways
            ways, rows = wide, [row, *rows]
        spans = np.array(ways.shape[:-1], dtype=np.int64)
        strides = np.array([math.prod(ways.shape[i + 1 : -1]) for i in range(len(rows))], dtype=np.int64)
        _multiply(ways.reshape(-1, largest + 1), column[rows], spans, strides)
        for ended in [row for row in rows if begun[row, cell] == begun[row, -1]]:
            ways = np.take(ways, box[ended], axis=rows.index(ended))
            rows.remove(ended)
    return ways


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


_CHOICES = 20_000  # more sets of columns than this are not searched: 0.05 ms each


def circuit_lengths(matrix: Ints) -> frozenset[int] | None:
    """Sizes ``||u||_1`` of all circuits u, the primitive integer vectors of the kernel with minimal support.

    None where it would take too long. Every column has an entry other than zero.
    """
    # Columns that are multiples of one another make circuits of two cells, and stand for each other in longer ones up to their
    # factors: with equal columns up to sign, one of each is enough for those.
    distinct, count = np.unique(matrix * leading_signs(matrix.T), axis=1, return_counts=True)
    lengths = {2} if np.any(count > 1) else set()
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


_CELLS = 40  # parts on more cells are not tried
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


def l1_series(part: Part) -> L1Series | None:
    """The rational function of a part (of one copy, for a table that is written several times); None where it is not found."""
    if isinstance(part, Line):
        return _multiples(int(np.abs(part.entries).sum()))
    if isinstance(part, Table) and len(part.shape) == 1:
        return _zero_sum(part.shape[0])
    cells = math.prod(part.shape) if isinstance(part, Table) else part.cells.size
    if cells > _CELLS:
        return None
    return _l1_of_rows(tuple(map(tuple, part_matrix(part).tolist())), part.shape if isinstance(part, Table) else ())


@lru_cache(maxsize=256)
def _multiples(length: int) -> L1Series:
    return L1Series(np.array([0.0, length]), np.zeros(2), length, 1)


@lru_cache(maxsize=256)
def _zero_sum(count: int) -> L1Series:
    """See `bayesdp.lattices.fixed_sum.log_normaliser`."""
    return L1Series(2.0 * np.arange(count, dtype=np.float64), log_weights(count, 0.0), 2, count - 1)


@lru_cache(maxsize=256)
def _l1_of_rows(rows: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> L1Series | None:
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
    degree = q.degree()
    shells = l1_shells(matrix, degree // 2)
    if shells is None:
        return None
    # h from its first half, then g (the names are those of the module); q divides 1 - x**period, as every k divides the period.
    product = fmpz_poly(shells.tolist()) * q
    half = [product[m] for m in range(degree // 2 + 1)]
    h = fmpz_poly(half + half[: degree - degree // 2][::-1])
    g = h * ((1 - fmpz_poly([0] * period + [1])) ** dimension // q)
    exponents = [m for m in range(g.degree() + 1) if g[m] != 0]
    logs = [math.log(int(g[m])) for m in exponents]
    return L1Series(np.array(exponents, dtype=np.float64), np.array(logs), period, dimension)


@lru_cache(maxsize=64)
def _l1_parts(invariants: Invariants) -> Counter[tuple[L1Series, int]] | None:
    """How many parts there are of each kind, with the number of times that a table is written; None if one is not known."""
    found: Counter[tuple[L1Series, int]] = Counter()
    for part in lattice_parts(invariants):
        series = l1_series(part)
        if series is None:
            return None
        found[series, part.copies if isinstance(part, Table) else 1] += 1
    return found


def l1_log_sum(invariants: Invariants, rate: Any, xp: Any = np) -> Any | None:
    """Logarithm of the sum of ``exp(-rate ||z||_1)`` over the integer vectors z that change no invariant; None if not known."""
    parts = _l1_parts(invariants)
    if parts is None:
        return None
    return added(xp, [number * series.log_sum(rate * copies, xp) for (series, copies), number in parts.items()], rate)


def added(xp: Any, terms: list[Any], scale: Any) -> Any:
    """The sum of terms, of the shape of the scale; of numbers without rounding errors but the last."""
    return math.fsum(terms) if xp is np else sum(terms, xp.zeros_like(scale))


def squared_lengths(gram: Floats, unit: float, bound: float, limit: int) -> tuple[Ints, Ints] | None:
    """Squared lengths, in units of ``1 / unit``, and numbers of the points up to `bound`, of a lattice with this Gram matrix.

    None where there are more than `limit`. Depth-first search (Fincke and Pohst 1985).
    """
    lower = np.linalg.cholesky(gram)
    diagonal = np.diag(lower).copy()
    # Half a unit more, so that rounding loses no point on the bound; lengths are rounded to whole units.
    found = _search(lower / diagonal, diagonal**2, unit, bound + 0.5 / unit, limit, math.floor(bound * unit + 1e-6))
    if found[0] == 0:
        return None
    lengths = np.flatnonzero(found)
    return lengths.astype(np.int64), found[lengths]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _search(mu: Floats, squares: Floats, unit: float, bound: float, limit: int, last: int) -> Ints:
    """Points by squared length, all zero if there are more than `limit`; ``mu`` has ones on its diagonal.

    With ``z = sum c_i b_i``, ``||z||**2 = sum_i squares[i] (c_i + sum_{l > i} c_l mu[l, i])**2``: coordinates are
    chosen from the last one on.
    """
    n = len(squares)
    counts = np.zeros(last + 1, dtype=np.int64)
    c = np.zeros(n, dtype=np.int64)
    top = np.zeros(n, dtype=np.int64)
    centre = np.zeros(n)
    used = np.zeros(n + 1)  # squared length of the coordinates from here on
    i, seen, fresh = n - 1, 0, True
    while i < n:
        if fresh:
            centre[i] = 0.0
            for later in range(i + 1, n):
                centre[i] -= c[later] * mu[later, i]
            reach = math.sqrt(max(bound - used[i + 1], 0.0) / squares[i])
            c[i] = math.ceil(centre[i] - reach)
            top[i] = math.floor(centre[i] + reach)
        else:
            c[i] += 1
        if c[i] > top[i]:
            i, fresh = i + 1, False
            continue
        used[i] = used[i + 1] + squares[i] * (c[i] - centre[i]) ** 2
        if i > 0:
            i, fresh = i - 1, True
            continue
        fresh = False
        length = round(used[0] * unit)
        if length <= last:
            counts[length] += 1
            seen += 1
            if seen > limit:
                counts[:] = 0
                return counts
    return counts


_POINTS = 30_000_000  # points of each of the two lattices at most: about 0.6 s
_DISTINCT = 20_000  # different squared lengths at most
_LOG_TAIL = 37.0  # exp(-37) < 1e-16
_RATIOS = np.linspace(0.02, 0.98, 49)  # b / a in the bound on the tail


@dataclass(frozen=True, eq=False)
class ThetaSeries:
    """Squared lengths and numbers of points of a lattice and of its dual."""

    squares: Floats  # with `logs`: for ``sigma < switch``: squared lengths, and logarithms of their numbers of points
    logs: Floats
    dual_squares: Floats  # with `dual_logs`: the same for the dual lattice, for ``sigma >= switch``
    dual_logs: Floats
    switch: float
    dimension: int
    log_volume: float  # half the logarithm of det(G)

    def log_sum(self, sigma: Any, xp: Any = np) -> Any:
        """Logarithm of the Gaussian sum; relative error of the sum about 1e-15."""
        small, low, high = both_sides(xp, sigma, self.switch)
        direct = log_sum_exp(xp, self.logs - 0.5 * self.squares / xp.expand_dims(low, -1) ** 2)
        waves = log_sum_exp(xp, self.dual_logs - 2.0 * (math.pi * xp.expand_dims(high, -1)) ** 2 * self.dual_squares)
        dual = self.dimension * xp.log(high * math.sqrt(2.0 * math.pi)) - self.log_volume + waves
        return xp.where(small, direct, dual)


def theta_series(part: Table | General) -> ThetaSeries | None:
    """Enumerate a part of a lattice (one copy, for a table that is written several times) and its dual."""
    cells = math.prod(part.shape) if isinstance(part, Table) else part.cells.size
    if cells > _CELLS:
        return None
    return _theta_of_rows(tuple(map(tuple, part_matrix(part).tolist())))


@lru_cache(maxsize=256)
def _theta_of_rows(rows: tuple[tuple[int, ...], ...]) -> ThetaSeries | None:
    basis = integer_kernel(np.array(rows, dtype=np.int64))
    gram = fmpz_mat((basis @ basis.T).astype(int).tolist())
    inverse, unit = fmpq_mat(gram).inv().numer_denom()
    # The dual basis of a reduced basis is reduced in the opposite order.
    dual = np.array([[int(v) for v in row] for row in inverse.tolist()], dtype=np.float64)[::-1, ::-1] / int(unit)
    direct = (basis @ basis.T).astype(np.float64)
    log_volume = float(np.log(np.diag(np.linalg.cholesky(direct))).sum())
    # At this scale the two sums are alike, but for how far the lattice and its dual are from equal.
    switch = math.exp(log_volume / len(basis)) / math.sqrt(2.0 * math.pi)
    found = []
    for form, rate, denominator in (
        (direct, 0.5 / switch**2, 1.0),
        (dual, 2.0 * (math.pi * switch) ** 2, float(int(unit))),
    ):
        bound = _bound(np.diag(np.linalg.cholesky(form)), rate)
        if bound * denominator > 50.0 * _DISTINCT:
            return None
        listed = squared_lengths(form, denominator, bound, _POINTS)
        if listed is None or listed[0].size > _DISTINCT:
            return None
        found += [listed[0] / denominator, np.log(listed[1])]
    return ThetaSeries(found[0], found[1], found[2], found[3], switch, len(basis), log_volume)


def _bound(lengths: Floats, rate: float) -> float:
    """A squared length beyond which points add less than 1e-16 to the sum with this rate; from the lengths of Gram and Schmidt."""
    b = rate * _RATIOS
    c = b[:, None] * lengths**2
    return float(((log_gaussian_bound(c).sum(axis=1) + _LOG_TAIL) / (rate - b)).min())


def log_gaussian_bound(rate: Floats) -> Floats:
    """Logarithm of a bound on the sum of ``exp(-rate k**2)`` over the integers."""
    return np.asarray(np.log1p(np.minimum(np.sqrt(math.pi / rate), -2.0 * np.exp(-rate) / np.expm1(-3.0 * rate))))

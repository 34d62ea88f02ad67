"""Hulls of the sensitivity spaces of Semi-DP: of all changes that a number of records make without changing an invariant.

Exact draws from the density proportional to ``exp(-rate ||z||_1)`` on the subspace of some invariants.

Over m cells whose sum is zero, two vectors of independent exponential variables with the same sum s have a
difference of this law: s is a gamma variable with shape 2m - 1 and rate 2 rate, and given s both vectors are
s times independent uniform points of the simplex. Disjoint totals are blocks of such cells.

A table with zero margins, R rows of ``c <= R`` cells (`_set_variances`). A Laplace variable of rate 1 is ``sqrt(2 t)`` times a
normal one, t standard exponential. Given all t_ij, a table under zero margins is Gaussian, and is drawn by solving for c - 1
unknowns. The t_ij have density proportional to ``exp(-sum t) det(A diag(t) A^T)**(-1/2)``, A the margins but one, which is

    exp(-sum t) (r_1 ... r_R)**(-1/2) D(G_1 + ... + G_R)**(-1/2),

r_i the sum of row i, G_i the Laplacian matrix of the complete graph on the columns with weights ``t_ij t_ik / r_i``, and D the
determinant without one row and column. ``D(G_i) = r_i**(c-1) prod_j t_ij / r_i``, and log D is concave: for shares ``p + q = 1``

    log D(G + H) >= p log D(G / p) + q log D(H / q).

So any m rows have the density ``exp(-sum t) (prod r_i)**(-1/2) D(sum G_i)**(-m / 2R)`` if both halves of them are drawn likewise
(p and q their shares of the rows) and kept with probability ``exp(-(m / 2R) (left side - right side))``; else both are drawn anew.
One row has gamma variables of shape 1 - 1/2R, divided by their sum, times a gamma variable of shape ``c - 1/2 - (c-1)/2R``. Of each of
log2 R levels about four fifths are kept (0.73 to 0.91, from 2 x 2 to 40 x 40 tables): about ``R**1.35`` rows are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import exponential, nb, seed_state, uniform
from bayesdp._validate import positive_integer
from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes.base import Boundary, Hull
from bayesdp.lattices.polytopes.generators import Generators, circuits


@dataclass(frozen=True, eq=False)
class Proposal:
    """A sampler of l1 noise, for one kind of invariants."""

    blocks: Ints | None  # block of each cell for disjoint totals, -1 for free cells, shape (cells,)
    table: tuple[int, int] | None  # for tables with both margins
    words: str  # what is drawn

    def draw(self, rate: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw tables as flat vectors, shape (size, cells)."""
        state = seed_state(rng)
        if self.blocks is not None:
            order = np.argsort(self.blocks, kind="stable").astype(np.int64)
            free = int(np.count_nonzero(self.blocks < 0))
            starts = np.append(free + np.flatnonzero(np.diff(self.blocks[order[free:]], prepend=-1)), len(order))
            out = np.zeros((size, len(self.blocks)))
            _fill_blocks(state, order, starts, rate, out)
            return out
        assert self.table is not None  # one of the two kinds
        rows, columns = self.table
        turned = columns > rows
        draws = rng.standard_normal((size, *((columns, rows) if turned else (rows, columns))))
        _fill_tables(state, rate, draws)
        return np.ascontiguousarray(draws.swapaxes(1, 2) if turned else draws).reshape(size, -1)


@lru_cache(maxsize=32)
def proposal_for(invariants: Invariants) -> Proposal | None:
    """Find the sampler for some invariants; None for those that are neither totals nor both margins of a table."""
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
    return Proposal(None, (rows, columns), "normal variables of random variances, drawn by halves of the rows")


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
    total, product = 0.0, 1.0
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
    for row in out:
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


@nb.njit(cache=True, error_model="numpy")
def _small_gamma(state: Words, shape: float) -> float:
    """A gamma variable of shape below 1, by rejection from a Weibull variable (Vaduva, 1977)."""
    least = (1.0 - shape) * shape ** (shape / (1.0 - shape))
    while True:
        power = exponential(state)
        if power + exponential(state) >= least + power ** (1.0 / shape):
            return float(power ** (1.0 / shape))


@nb.njit(cache=True, error_model="numpy")
def _log_determinant(variances: Floats, graph: Floats) -> float:
    """``log D`` of the graph on the columns that some rows make, by elimination without subtraction, which `graph` keeps."""
    graph[:] = 0.0
    columns = len(graph)
    for row in variances:
        total = np.sum(row)
        for j in range(columns):
            for k in range(j + 1, columns):
                graph[j, k] += row[j] * row[k] / total
    found = 0.0
    for j in range(columns - 1):
        graph[j, j] = np.sum(graph[j, j + 1 :])
        found += math.log(graph[j, j])
        for k in range(j + 1, columns):
            share = graph[j, k] / graph[j, j]
            for m in range(k + 1, columns):
                graph[k, m] += share * graph[j, m]
    return found


@nb.njit(
    cache=True, error_model="numpy"
)  # numba caches a function that calls itself if it does so with the types that it has
def _set_variances(state: Words, rows: int, variances: Floats, graph: Floats) -> float:
    """Draw half the variances of some of so many rows, see above; the logarithm of their D."""
    count, columns = variances.shape
    if count == 1:
        for j in range(columns):
            variances[0, j] = _small_gamma(state, 1.0 - 0.5 / rows)
        total, logs = np.sum(variances), np.sum(np.log(variances))
        size = _gamma(state, columns - 1) + _small_gamma(state, 0.5 - 0.5 * (columns - 1) / rows)
        variances *= size / total
        return float(logs - columns * math.log(total) + (columns - 1) * math.log(size))
    half = count // 2
    p, q = half / count, 1.0 - half / count
    while True:
        one = _set_variances(state, rows, variances[:half], graph) - (columns - 1) * math.log(p)
        other = _set_variances(state, rows, variances[half:], graph) - (columns - 1) * math.log(q)
        both = _log_determinant(variances, graph)
        if 0.5 * count / rows * (both - p * one - q * other) <= exponential(state):
            return both


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_tables(state: Words, rate: float, out: Floats) -> None:
    """Turn normal variables, shape (size, rows, columns), into noise."""
    _, rows, columns = out.shape
    variances, graph, pulls = np.empty((rows, columns)), np.empty((columns, columns)), np.empty(columns)
    for table in out:
        _set_variances(state, rows, variances, graph)
        # Minus the variances times a number for each row and each column: those of the rows first, then those of the columns.
        table *= np.sqrt(2.0 * variances) / rate
        pulls[:] = 0.0
        for i in range(rows):
            table[i] -= variances[i] * (np.sum(table[i]) / np.sum(variances[i]))
            pulls += table[i]
        for j in range(columns - 1):
            pulls[j] /= graph[j, j]
            pulls[j + 1 :] += graph[j, j + 1 :] * pulls[j]
        pulls[columns - 1] = 0.0
        for j in range(columns - 2, -1, -1):
            pulls[j] += np.sum(graph[j, j + 1 :] * pulls[j + 1 :]) / graph[j, j]
        for i in range(rows):
            table[i] -= variances[i] * (pulls - np.sum(variances[i] * pulls) / np.sum(variances[i]))


_DENSE = 4_000_000  # the largest matrix, cells times dimensions, that a covariance is computed with


@dataclass(frozen=True)
class SensitivityHull(Hull):
    r"""The hull K of ``{z integer : A z = 0, ||z||_1 <= 2 adjacency}``, in orthonormal coordinates of the invariants.

    These are the differences of two tables with equal invariants of which one is made from the other by changing
    `adjacency` records (Cho and Awan, Algorithm 2, with the 3-cycles that their Proposition 32 leaves out). All that
    some pair of tables can realise are in it, whatever the published invariants are, so that K depends on labels only.

    - Disjoint totals: ``||z||_K = ||z||_1 / (2 adjacency)``.
    - Both margins of a table, at least three rows and columns: the hull of the 2 x 2 moves (adjacency 2), and of the
      3-cycles too (adjacency 3). No closed form is known; vertices are never listed.
    - Both margins of a table with two rows or columns: there are 2 x 2 moves only, and ``||z||_K = ||z||_1 / 4``.

    Parameters
    ----------
    invariants : Invariants
        Disjoint totals of which every cell is in one, or both margins of a two-way table.
    adjacency : int
        At least 1 for totals; 2 or 3 for both margins, where one record alone cannot keep them.


    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Invariants(Margins(table, ["county"], ["education"]))
    >>> cycle = margins.coordinates([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])
    >>> for adjacency in (2, 3):
    ...     hull = SensitivityHull(margins, adjacency)
    ...     print(f"{len(hull.vertices)} pairs, 3-cycle {hull.gauge(cycle):.6f}")
    9 pairs, 3-cycle 2.000000
    15 pairs, 3-cycle 1.000000
    """

    invariants: Invariants
    adjacency: int

    def __post_init__(self) -> None:
        positive_integer(self.adjacency, "adjacency")
        proposal = proposal_for(self.invariants)
        if proposal is None:
            raise NotImplementedError(
                "the hull of what a number of records can change is known for disjoint totals and for both margins of a "
                f"two-way table, not for {self.invariants!r}: give its vertices instead"
            )
        if not self.invariants.dimension:
            raise ValueError(f"nothing can change: {self.invariants!r} leave no table but one")
        if proposal.blocks is not None:
            free = np.flatnonzero(proposal.blocks < 0)
            if len(free):
                raise ValueError(
                    f"every cell must be in a total, but {self.invariants.frame.cell_name(int(free[0]))} is in none: changing "
                    "records does not change their number, so add the total number of records to the invariants"
                )
        elif self.adjacency == 1:
            raise ValueError(
                "adjacency must be at least 2 for both margins: one record cannot change its cell and keep them, got 1"
            )
        elif self.adjacency > 3:
            raise NotImplementedError(
                f"adjacency must be 2 or 3 for both margins, got {self.adjacency}: three records always suffice to change "
                "one and keep the margins, and hulls for more are not worked out"
            )

    @cached_property
    def _table(self) -> tuple[int, int] | None:
        proposal = proposal_for(self.invariants)
        assert proposal is not None  # or it had not been made
        return proposal.table

    @cached_property
    def is_l1(self) -> bool:
        """Whether the norm is ``||z||_1 / reach``."""
        return self._table is None or min(self._table) == 2

    @property
    def reach(self) -> int:
        """The greatest l1 norm of a vertex, as a table."""
        return 4 if self._table is not None and min(self._table) == 2 else 2 * self.adjacency

    @property
    def dimension(self) -> int:
        """Dimension n of the space."""
        return self.invariants.dimension

    @property
    def count(self) -> int:
        """Number of pairs of vertices."""
        if self._table is None:
            sizes = np.bincount(np.asarray(self.invariants.blocks))
            return int(np.sum(sizes * (sizes - 1) // 2))
        rows, columns = self._table
        cycles = 6 * math.comb(rows, 3) * math.comb(columns, 3) if self.adjacency == 3 else 0
        return math.comb(rows, 2) * math.comb(columns, 2) + cycles

    @cached_property
    def vertices(self) -> Floats:  # type: ignore[override]  # computed here, a field of other hulls
        """One of each pair of vertices, shape (count, n)."""
        if self._table is not None:
            tables = _circuit_tables(*self._table, self.adjacency)
            return self.invariants.coordinates(tables.reshape(-1, *self.invariants.frame.shape))
        blocks, units = np.asarray(self.invariants.blocks), self._units
        alike = [np.flatnonzero(blocks == block) for block in range(int(blocks.max()) + 1)]
        first, second = np.array([pair for cells in alike for pair in combinations(cells, 2)]).T
        return np.asarray(self.adjacency * (units[first] - units[second]))

    @cached_property
    def boundary(self) -> Boundary | None:
        """Facets and boundary simplices, or None where they are not to be had in half a minute, or not needed."""
        return None if self.is_l1 else super().boundary

    @cached_property
    def generators(self) -> Generators:
        """The vertices, as linear programs read them."""
        return super().generators if self._table is None else circuits(self._units, *self._table, self.adjacency)

    @property
    def _units(self) -> Floats:
        """The coordinates of a record in each cell, shape (cells, n)."""
        cells = self.invariants.frame.size
        return self.invariants.coordinates(np.eye(cells).reshape(cells, *self.invariants.frame.shape))

    def gauge(self, points: npt.ArrayLike, limits: npt.ArrayLike = np.nan) -> Floats:
        """The norm of points. See `Hull.gauge`."""
        if not self.is_l1:
            return super().gauge(points, limits)
        tables = self.invariants.from_coordinates(self._points(points))
        axes = tuple(range(-len(self.invariants.frame.shape), 0))
        return np.asarray(np.sum(np.abs(tables), axis=axes) / self.reach)

    def subgradient(self, point: npt.ArrayLike) -> tuple[float, Floats]:
        """The norm of one point, and a linear form that attains it. See `Hull.subgradient`."""
        if not self.is_l1:
            return super().subgradient(point)
        signs = np.sign(self.invariants.from_coordinates(self._points(point)))
        return float(self.gauge(point)), self.invariants.coordinates(signs) / self.reach

    @cached_property
    def log_cone_mass(self) -> float | None:
        """Logarithm of ``n! vol(K)``: in closed form for an l1 norm, else as for other hulls."""
        unit = l1_moments(self.invariants)
        return super().log_cone_mass if unit is None else unit[0] + self.dimension * math.log(self.reach)

    @cached_property
    def second_moment(self) -> Floats | None:
        """Expectation of ``v v^T``, in closed form for an l1 norm (up to four million cells times dimensions)."""
        unit = l1_moments(self.invariants)
        if unit is None:
            return super().second_moment
        if self.invariants.frame.size * self.dimension > _DENSE:
            return None
        basis = self._units
        return np.asarray((basis.T * unit[1]) @ basis) * float(self.reach) ** 2


def l1_moments(invariants: Invariants) -> tuple[float, Floats] | None:
    """Of ``exp(-||z||_1)`` the logarithm of the integral, and a variance for each cell; None but for disjoint totals and two lines.

    In orthonormal coordinates the integral over m numbers with sum zero is ``C(2 m - 2, m - 1) sqrt(m) / 2**(m - 1)``: the ball is the
    root polytope. The variance, shape (cells,), is the same in all directions of the total that a cell is in.
    """
    proposal = proposal_for(invariants)
    if proposal is None:
        return None
    if proposal.blocks is not None:
        sizes = np.bincount(proposal.blocks + 1, minlength=1)
        m = sizes[proposal.blocks + 1]
        mass = sizes[0] * math.log(2.0) + math.fsum(map(_root_mass, sizes[1:].tolist()))
        return float(mass), np.where(proposal.blocks < 0, 2.0, (2.0 * m - 1.0) / (m + 1.0))
    assert proposal.table is not None  # one of the two kinds
    shorter, longer = sorted(proposal.table)
    if shorter > 2:
        return None
    # One line of the table fixes the other: twice the norm, and lengths longer by sqrt(2).
    mass = _root_mass(longer) - 0.5 * (longer - 1) * math.log(2.0)
    return mass, np.full(invariants.frame.size, (longer - 0.5) / (longer + 1.0))


def _root_mass(count: int) -> float:
    n = count - 1
    return math.log(math.comb(2 * n, n)) + 0.5 * math.log(count) - n * math.log(2.0)


def _circuit_tables(rows: int, columns: int, records: int) -> npt.NDArray[np.int8]:
    """All 2 x 2 moves, and for three records all 3-cycles, one of each pair, shape (count, rows, columns)."""
    tables: list[npt.NDArray[np.int8]] = []
    units = np.eye(max(rows, columns), dtype=np.int8)
    turned = ([0, 1, 2], [1, 2, 0]), ([0, 1, 2], [2, 0, 1]), ([1, 2, 0], [2, 0, 1])
    swapped = ([1, 0, 2], [0, 2, 1]), ([1, 0, 2], [2, 1, 0]), ([0, 2, 1], [2, 1, 0])
    for i in combinations(range(rows), 2):
        up = units[i[0], :rows] - units[i[1], :rows]
        tables.extend(np.outer(up, units[j, :columns] - units[m, :columns]) for j, m in combinations(range(columns), 2))
    if records == 3:
        # The difference of two permutation matrices that have no entry in common.
        for three in combinations(range(rows), 3):
            for others in combinations(range(columns), 3):
                for plus, minus in (*turned, *swapped):
                    table = np.zeros((rows, columns), dtype=np.int8)
                    table[list(three), np.take(others, plus)] += 1
                    table[list(three), np.take(others, minus)] -= 1
                    tables.append(table)
    return np.array(tables)


@lru_cache(maxsize=16)
def sensitivity_hull(invariants: Invariants, adjacency: int) -> SensitivityHull:
    """The hull, made once a process."""
    return SensitivityHull(invariants, adjacency)

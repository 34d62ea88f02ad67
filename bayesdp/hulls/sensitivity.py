"""Hulls of the sensitivity spaces of Semi-DP: of all changes that a number of records make without changing an invariant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_integer
from bayesdp.hulls.base import Hull
from bayesdp.hulls.boundary import Boundary, boundary_of, is_quick, is_small
from bayesdp.hulls.generators import Generators, circuits, listed
from bayesdp.hulls.proposals import proposal_for
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]

_DENSE = 4_000_000
"""Largest matrix, cells times dimensions, that a covariance is computed with."""


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

    Raises
    ------
    NotImplementedError
        For other invariants, and for more than three records and both margins.
    TypeError, ValueError
        If adjacency is not a positive integer, or nothing can change.

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
        shape = self.invariants.frame.shape
        if self._table is not None:
            tables = _circuit_tables(*self._table, self.adjacency)
            return self.invariants.coordinates(tables.reshape(-1, *shape))
        blocks = np.asarray(self.invariants.blocks)
        units = self.invariants.coordinates(np.eye(len(blocks)).reshape(-1, *shape))
        pairs = [
            pair for block in range(int(blocks.max()) + 1) for pair in combinations(np.flatnonzero(blocks == block), 2)
        ]
        first, second = np.array(pairs).T
        return np.asarray(self.adjacency * (units[first] - units[second]))

    @cached_property
    def boundary(self) -> Boundary | None:
        """Facets and boundary simplices, or None where they are not to be had in half a minute, or not needed."""
        small = not self.is_l1 and is_small(self.count, self.dimension)
        return boundary_of(self.vertices) if small else None

    @property
    def facets(self) -> Boundary | None:
        """The same, where they are to be had in about a second."""
        return self.boundary if is_quick(self.count, self.dimension) else None

    @cached_property
    def generators(self) -> Generators:
        """The vertices, as linear programs read them."""
        if self._table is None:
            return listed(self.vertices)
        cells = self.invariants.frame.size
        units = self.invariants.coordinates(np.eye(cells).reshape(cells, *self.invariants.frame.shape))
        return circuits(units, *self._table, self.adjacency)

    def gauge(self, points: npt.ArrayLike) -> Floats:
        """The norm of points. See `Hull.gauge`."""
        if not self.is_l1:
            return super().gauge(points)
        tables = self.invariants.from_coordinates(self._points(points))
        axes = tuple(range(-len(self.invariants.frame.shape), 0))
        return np.asarray(np.sum(np.abs(tables), axis=axes) / self.reach)

    def below(self, points: Floats, limits: Floats) -> npt.NDArray[np.bool_]:
        """Whether the norms of points are at most so large. See `Hull.below`."""
        return np.asarray(self.gauge(points) <= limits) if self.is_l1 else super().below(points, limits)

    def subgradient(self, point: npt.ArrayLike) -> tuple[float, Floats]:
        """The norm of one point, and a linear form that attains it. See `Hull.subgradient`."""
        if not self.is_l1:
            return super().subgradient(point)
        signs = np.sign(self.invariants.from_coordinates(self._points(point)))
        return float(self.gauge(point)), self.invariants.coordinates(signs) / self.reach

    @cached_property
    def log_cone_mass(self) -> float | None:
        """Logarithm of ``n! vol(K)``: in closed form for an l1 norm, else as for other hulls.

        Numbers with sum zero, m of them, and half their l1 norm: ``C(2 m - 2, m - 1) sqrt(m)``, the root polytope.
        """
        if not self.is_l1:
            return super().log_cone_mass
        if self._table is not None:
            # One line of the table fixes the other: half the norm, and lengths shorter by sqrt(2).
            longer = max(self._table)
            return _root_mass(longer, self.reach / 2) + 0.5 * (longer - 1) * math.log(2.0)
        sizes = np.bincount(np.asarray(self.invariants.blocks))
        return math.fsum(_root_mass(int(size), self.reach) for size in sizes)

    @cached_property
    def second_moment(self) -> Floats | None:
        """Expectation of ``v v^T``, in closed form for an l1 norm (up to four million cells times dimensions)."""
        if not self.is_l1:
            return super().second_moment
        cells, n = self.invariants.frame.size, self.dimension
        if self._table is not None:
            return 2.0 * _root_variance(np.array(max(self._table)), self.reach / 2) * np.eye(n)
        if cells * n > _DENSE:
            return None
        basis = self.invariants.coordinates(np.eye(cells).reshape(cells, *self.invariants.frame.shape))
        blocks = np.asarray(self.invariants.blocks)
        spread = _root_variance(np.bincount(blocks), self.reach)[blocks]
        return np.asarray((basis.T * spread) @ basis)


def _root_mass(count: int, reach: float) -> float:
    """Logarithm of the integral of ``exp(-||z||_1 / reach)`` over so many numbers with sum zero, in orthonormal coordinates."""
    n = count - 1
    return math.log(math.comb(2 * n, n)) + 0.5 * math.log(count) + n * math.log(reach / 2.0)


def _root_variance(count: npt.NDArray[np.int64], reach: float) -> Floats:
    """Variance of each orthonormal coordinate under the density proportional to ``exp(-||z||_1 / reach)``."""
    return np.asarray((2.0 * count - 1.0) / (count + 1.0) * reach**2)


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

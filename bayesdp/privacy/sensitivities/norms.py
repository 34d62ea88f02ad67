"""How far apart tables and answers are: kinds of differences, columns that are alike, norms, the largest distance of many points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from flint import fmpz_mat
from scipy.spatial.distance import cdist

from bayesdp._arrays import Floats, Ints
from bayesdp._validate import choice
from bayesdp.fibers.system import is_two_way
from bayesdp.invariants import Invariants
from bayesdp.queries import Query, SumPart, Totals

NORMS = ("l1", "l2")
"""Norms in which the difference of two tables is measured."""

NEIGHBOURS: Mapping[str, str] = {
    "substitution": "one record changes its cell (substitution)",
    "add-remove": "one record is added or removed (add-remove)",
}
"""How neighbouring tables differ, in words."""


@dataclass(frozen=True)
class Difference:
    """A kind of difference between two tables that share their invariants.

    Attributes
    ----------
    relation : str
        What sets the two tables apart, in words.
    l1, l2 : float
        The size of the difference in counts.
    found : bool
        Whether it is the smallest that a search has found for some invariants: for others another one may be the smallest, so that
        it is no kind that two releases have in common.
    """

    relation: str
    l1: float
    l2: float
    found: bool = False

    def size(self, norm: str) -> float:
        """Give the size in ``"l1"`` or ``"l2"``."""
        return self.l1 if choice(norm, NORMS, "norm") == "l1" else self.l2


DIFFERENCES: Mapping[str, Difference] = {
    "substitution": Difference(
        "one record moved between two cells that keep every invariant (substitution)", 2.0, math.sqrt(2.0)
    ),
    "2x2 move": Difference(
        "two records exchange a category within a 2x2 subtable, all its margins kept (2x2 move)", 4.0, 2.0
    ),
    "3-cycle": Difference(
        "three records exchange categories within a 3x3 subtable, all its margins kept (3-cycle)", 6.0, math.sqrt(6.0)
    ),
}
"""The named differences: one record substituted; +1 and -1 on a 2x2 subtable, on a cycle of a 3x3 one."""


@dataclass(frozen=True)
class DifferenceLength:
    """One kind of difference that keeps the invariants, and how long it gets."""

    difference: Difference
    size: float  # the largest length of all differences of the kind, or an upper bound of it
    bound: str  # "" if all differences of the kind are equally long, "largest" if this is the largest, or "upper"


RECORDS = {"substitution": 2.0, "add-remove": 1.0}
"""The l1 distance of neighbouring tables."""

MOST_CELLS = 3000  # whose answers are written out
MOST_POINTS = 3000  # all pairs of which are compared: 4.5 million distances
MOST_NUMBERS = 30_000_000  # cells or points times coordinates in memory: 240 megabytes
MOST_PRODUCTS = 2_000_000_000  # pairs of cells times coordinates: about a second
_MOST_SIGNED = 4_000_000_000  # points times vectors of signs
CHUNK = 4_000_000  # numbers of one block


def column_groups(matrix: sp.csr_array | sp.csc_array) -> Ints:
    """For each column a number that it shares with the columns equal to it, in the order of the first; 0 for zeros."""
    columns = sp.csc_array(matrix)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    group = np.zeros(columns.shape[1], dtype=np.int64)
    ends, seen = columns.indptr, {(b"", b""): 0}
    for column in np.flatnonzero(np.diff(ends)).tolist():  # most cells may be in no invariant
        entries = slice(ends[column], ends[column + 1])
        key = columns.indices[entries].tobytes(), columns.data[entries].tobytes()
        group[column] = seen.setdefault(key, len(seen))
    return group


def distinct_columns(matrix: sp.csc_array, copies: int = 1) -> Ints:
    """Positions of the different columns of a sparse matrix, of each the first `copies`."""
    group = column_groups(matrix)
    order = np.argsort(group, kind="stable")
    place = np.arange(len(group)) - np.searchsorted(group[order], group[order])  # among the columns of one group
    return np.sort(order[place < copies])


def lengths(points: Floats, norm: str) -> Floats:
    """The l1 or l2 norm of each point, shape ``(..., n)`` to ``(...)``."""
    return np.asarray(np.abs(points).sum(axis=-1) if norm == "l1" else np.linalg.norm(points, axis=-1))


@dataclass(frozen=True, eq=False)
class DifferenceNorm:
    """The norm in which a mechanism hides differences."""

    query: Query  # what the noise is added to
    invariants: Invariants  # of the table
    neighbours: str
    step: float  # the length of the largest step from a table to a neighbour
    kind: str  # of the coordinates: "l1", "l2" or "K"
    # From answers, shape (m, *answers), to what the norm is of, shape (m, n); the answers themselves if left out.
    coordinates: Callable[[Floats], Floats] | None = None
    gauge: Callable[[Floats], Floats] | None = None  # the norm K of points, shape (m, n) to (m,)
    most: int = 0  # how many points a gauge is computed of
    helmert: bool = False  # whether the coordinates are those of nested sums (`NestedSums.coordinates`)

    @property
    def sums(self) -> tuple[SumPart, ...]:
        """The parts of the query if it asks for sums only and changed answers can be counted, else none."""
        parts = tuple(part for part in self.query.parts if isinstance(part, SumPart))
        if len(parts) < len(self.query.parts):
            return ()
        counted = len(parts) == 1 if self.kind == "K" else self.coordinates is None
        return parts if counted else ()

    def of_count(self, changed: int) -> float:
        """The length of a difference that changes `changed` answers by 1 or -1 and no other; for `sums`.

        The norm K of a difference u of a single sum that takes s neighbouring steps is at most s. It is s: the form
        ``z @ u / 2`` (for add-remove ``z @ u``) is at most 1 for all neighbours z, and is s for z = u.
        """
        if self.kind == "K":
            return changed / RECORDS[self.neighbours]
        return float(changed) if self.kind == "l1" else math.sqrt(changed)

    def images(self, columns: sp.csc_array) -> Floats:
        """What the norm is of, shape (m, n), for answers given as the m columns of a sparse matrix."""
        answers = columns.T.toarray().astype(np.float64)
        return (
            answers if self.coordinates is None else self.coordinates(answers.reshape(-1, *(self.query.shape or (1,))))
        )

    def lengths(self, points: Floats) -> Floats:
        """The norm of each point, shape (m,)."""
        return lengths(points, self.kind) if self.gauge is None else self.gauge(points)

    def upper_length(self, l1: float) -> float:
        """An upper bound for a difference of this l1 norm: its number of neighbouring steps times the longest of these.

        The steps exist where the two tables have the same number of records, or records may come and go.
        """
        return l1 / RECORDS[self.neighbours] * self.step

    def cell_images(self) -> Floats | None:
        """What a record in each cell adds to the coordinates, shape (cells, n); None for large tables."""
        cells = self.invariants.frame.size
        if cells > MOST_CELLS or cells * self.query.rows > MOST_NUMBERS:
            return None
        return self.images(sp.csc_array(self.query.matrix))


def check_size(count: int, dimensions: int, what: str) -> None:
    """Refuse what all pairs would take too long for."""
    if count > MOST_POINTS or count * dimensions > MOST_NUMBERS:
        raise NotImplementedError(
            f"the exact sensitivity is found by comparing all pairs of {what}; {count} of them with {dimensions} numbers "
            f"each are more than {MOST_POINTS}, or than {MOST_NUMBERS} numbers in all. Identity, a single margin or "
            "total under margins or totals has a closed form of any size"
        )


def largest_distance(points: Floats, norm: str, what: str) -> float:
    """The largest l1 or l2 distance between two of the points, of shape ``(n, dimensions)``.

    In the l1 norm it is the largest of ``s.p - s.q`` over vectors ``s`` of signs, which takes no pairs where there are few
    coordinates. NotImplementedError, which calls the points `what`, if there are too many pairs.
    """
    count, dimensions = points.shape
    if count < 2 or not dimensions:
        return 0.0
    if dimensions == 1 or (norm == "l1" and 2**dimensions <= max(count, 64) and 2**dimensions * count <= _MOST_SIGNED):
        return _by_signs(points)
    check_size(count, dimensions, what)
    # Taking the mean away keeps the squares below from cancelling where all points are far from zero.
    centred = points - points.mean(axis=0)
    if norm == "l1":
        return float(cdist(centred, centred, "cityblock").max())
    squares = np.square(centred).sum(axis=1)
    return float(np.sqrt((squares[:, None] + squares - 2.0 * centred @ centred.T).max()))


def _by_signs(points: Floats) -> float:
    """The largest l1 distance as the largest range of ``s @ p`` over vectors s of signs, of each pair s, -s one."""
    best = 0.0
    for pattern in range(2 ** (points.shape[1] - 1)):
        signs = np.array([-1.0 if pattern >> bit & 1 else 1.0 for bit in range(points.shape[1])])
        along = points @ signs
        best = max(best, float(along.max() - along.min()))
    return best


def widest_pair(gram: Floats) -> float:
    """The largest ``|p - q|_2`` from the inner products of the points."""
    squares = np.diagonal(gram)
    return float(np.sqrt(max(float((squares[:, None] + squares - 2.0 * gram).max()), 0.0)))


def closed_sensitivities(invariants: Invariants, a: int) -> tuple[float, float, float] | None:
    """The largest l1, l2 and l-infinity norm of a difference of tables that `a` substitutions lead from one to the other.

    Known for no invariants, disjoint totals of all cells, and both margins of a two-way table up to a = 3; else None.
    """
    blocks, shape = invariants.blocks, invariants.frame.shape
    if not invariants.rank or (blocks is not None and np.all(blocks >= 0)):
        sizes = [invariants.frame.size] if not invariants.rank else np.bincount(np.asarray(blocks))
        # All a records move from one cell of a total to another: no difference has a longer positive or negative part.
        return (2.0 * a, a * math.sqrt(2.0), float(a)) if max(sizes) > 1 else (0.0, 0.0, 0.0)
    if a <= 3 and is_two_way(invariants) and min(shape) > 1:
        # A row or column that changes at all has an even l1 norm of at least 2. Norm 4 is a 2x2 move. Norm 6 needs three
        # rows of norm 2 (two rows would be opposite, of odd norm 3), likewise three columns: a 3-cycle.
        length = 0.0 if a == 1 else 6.0 if a == 3 and min(shape) > 2 else 4.0
        return length, math.sqrt(length), min(length, 1.0)
    return None


def exact_rank(vectors: Ints) -> int:
    """Rank of integer vectors (rows). ``D^T D`` has the rank of D, and its small whole entries are exact in float64."""
    u = vectors.astype(np.float64)
    return int(fmpz_mat((u.T @ u).astype(np.int64).tolist()).rank())


def determine_the_same(one: Invariants, other: Invariants) -> bool:
    """Whether two sets of invariants have the same row space."""
    if one == other:
        return True
    both = Invariants([one.query, other.query], one.frame).rank
    return one.rank == other.rank == both


def with_total(invariants: Invariants) -> Invariants:
    """The invariants, and the number of records where they leave it open."""
    both = Invariants([invariants.query, Totals(invariants.frame)], invariants.frame)
    return invariants if both.rank == invariants.rank else both

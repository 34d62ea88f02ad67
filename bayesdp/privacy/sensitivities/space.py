"""Sensitivity spaces: by how much the answers of adjacent databases differ; and what invariants save.

How far two tables of a fiber can be apart, a few records apart: by the independent parts of the table, at any size.

The lattice of differences is an orthogonal sum of lattices on parts of the cells (`bayesdp.lattices.parts`), and so the fiber is the
product of the fibers of its parts: strata with margins of their own are independent. Each part has a profile, how long a realised
difference of k records gets, k = 0, 1, ..., and the records of all parts add up to at most a: a knapsack.

Profiles. In a total of T records over several cells, k <= T records move from one cell to another, of l2 norm ``k sqrt(2)``. A line
has as many steps as its tables. In a table with both margins up to 3 records form a 2x2 move or a 3-cycle, realised just when as many
rows and columns have records and there are as many records. Otherwise: all pairs of the tables of a part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import choice, instance, positive_integer
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.fibers.moves.basis import bounded_kernel, distinct_up_to_sign
from bayesdp.fibers.system import is_two_way
from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import Line, Part, Table, lattice_parts
from bayesdp.lattices.polytopes import SymmetricHull
from bayesdp.privacy.sensitivities.adjacency import Features
from bayesdp.privacy.sensitivities.norms import (
    NEIGHBOURS,
    closed_sensitivities,
    determine_the_same,
    distinct_columns,
    exact_rank,
    with_total,
)
from bayesdp.queries import Identity, LinearQuery, Margins, Query, SumPart
from bayesdp.queries.query import checked_query

type Profile = tuple[tuple[int, ...], ...]
"""Largest l1 norm, squared l2 norm and l-infinity norm of a difference of at most k records, for k = 0, 1, ..."""

_TABLES = 1000  # parts of more tables are not listed
_KINDS = 200  # different parts that have to be listed, at most: a bound of the work
LIMIT = 5000  # fibers of more tables are not listed
_WORK = 200_000
_CELLS = 100
_ROUNDING = 1e-9
NORMS = ("l1", "l2", "linf")
CONVENTIONS = ("definition", "paper")
"""From the definition; as Cho and Awan print Proposition 32."""


def realised(fiber: Fiber, differences: Ints) -> Mask:
    """For each difference z with ``A z = 0``, a row of `differences`, whether the fiber has tables x and x + z.

    One-way margins: x must hold the records that z takes away, and the other records can be arranged as one likes, so
    that their number for each label has to be >= 0, and nothing else. Other fibers: by listing the tables;
    NotImplementedError if they are too many.
    """
    taken = np.maximum(-differences, 0)
    features = Features.of(fiber)
    if features is not None:
        good = np.ones(len(differences), dtype=np.bool_)
        for codes, margin in zip(features.codes, features.margins, strict=True):
            counts = np.zeros((len(taken), len(margin)), dtype=np.int64)
            np.add.at(counts.T, codes, taken.T)
            good &= np.all(counts <= margin, axis=1)
        return good
    known = "which differences two tables of the fiber have is known for one-way margins, or by listing the fiber"
    if fiber.frame.size > _CELLS:
        raise NotImplementedError(
            f"{known}; a table of {fiber.frame.size} cells is too large for that (the limit is {_CELLS}). Leave out realised_in"
        )
    try:
        tables = enumerate_fiber(fiber, LIMIT, work=_WORK).reshape(-1, fiber.frame.size)
    except ValueError as error:
        raise NotImplementedError(f"{known}: {error}. Leave out realised_in") from error
    if not fiber.bounds_below and not fiber.bounds_above:
        # x >= what z takes away is enough: x + z has the same exact answers.
        return np.array([bool(np.any(np.all(tables >= down, axis=1))) for down in taken], dtype=np.bool_)
    present = {table.tobytes() for table in tables}
    return np.array([any((x + z).tobytes() in present for x in tables) for z in differences], dtype=np.bool_)


def answers_alone(query: Query, invariants: Invariants) -> bool:
    """Whether the differences of the answers are all those of a table of answers that keeps what the invariants say of it.

    So it is for one margin W if every exact sum is a sum of its answers, or is by dimensions that W sums over. A difference
    z of tables then gives W z, which is no longer and keeps the sums of answers. And every difference of answers that keeps
    them, and the number of records, is W z for a z of the same length: all records that leave or come have the same labels in
    the dimensions that W sums over, whose sums cancel.
    """
    if len(query.parts) != 1 or not isinstance(query.parts[0], SumPart):
        return False
    for part in invariants.query.parts:
        if not isinstance(part, SumPart):
            return False
        levels = list(zip(query.frame.dims, part.levels, query.parts[0].levels, strict=True))
        # Each label that an exact sum keeps is known from the answers, or all of them are of dimensions summed over.
        known = all(level is None or asked in (level, dim) for dim, level, asked in levels)
        if not known and any(level is not None and asked is not None for _, level, asked in levels):
            return False
    return True


def listed_answer_differences(query: Query, invariants: Invariants, radius: int, *, balanced: bool) -> Ints:
    """All differences ``W z`` with ``A z = 0`` of tables z up to a length, one of each pair u, -u, without zero.

    Cells with equal columns in A and in W are one cell: records that move between them change nothing, and a sum over them
    has at most the length of its terms. `radius` and `balanced` are as in `bayesdp.fibers.moves.basis.bounded_kernel`.
    """
    chosen = distinct_columns(sp.csc_array(sp.vstack([invariants.matrix, query.matrix])))
    kept, asked = sp.csr_array(invariants.matrix)[:, chosen], sp.csr_array(query.matrix)[:, chosen]
    changes = bounded_kernel(kept, radius, balanced=balanced)
    return distinct_up_to_sign(np.asarray((asked @ changes.T).T, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class SensitivitySpace:
    """All differences ``W (x - x')`` of the answers of adjacent databases that agree on the invariants.

    ``S_Semi = {W z : A z = 0, ||z||_1 <= 2a}`` for tables x, x' = x + z at most a substituted records apart (Definition 4 and
    Section 4.1 of the paper). Substitution keeps the number of records, so z also adds up to zero. The differences
    are those of *some* counts, whatever these are, unless `realised_in` gives the exact answers: then only those
    between two tables of that fiber.

    Build one with `semi`, `dp` or `group`.

    Parameters
    ----------
    query : Query
        ``W``, what is asked; the identity for the table itself.
    invariants : Invariants
        ``A``; without queries, all tables.
    adjacency : int
        The largest number a of records in which databases differ.
    neighbours : {"substitution", "add-remove"}
        What a record of difference is: substituted, or added or removed.
    realised_in : Fiber, optional
        Keep the differences of two tables of this fiber only.
    convention : {"definition", "paper"}
        ``"paper"``: Proposition 32 as printed, see `semi`.

    Notes
    -----
    The differences are listed when they are first needed, by a complete search (`bayesdp.fibers.moves.basis`): tables of 10 x 10
    with both margins take about a second at a = 3, 20 x 20 at a = 2. Sensitivities have a closed form, at
    any size, for disjoint totals and, for a <= 3, for both margins of a two-way table; those
    of a fiber are found by its independent parts.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Definition 4, Proposition 24, Proposition 32.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> space = SensitivitySpace.semi(margins, 3)
    >>> len(space.differences), space.rank
    (15, 4)
    >>> [round(space.delta(norm), 4) for norm in ("l1", "l2", "linf")]
    [6.0, 2.4495, 1.0]
    >>> printed = SensitivitySpace.semi(margins, 3, convention="paper")
    >>> printed.delta("l1"), printed.corrected.delta("l1")
    (4.0, 6.0)
    """

    query: Query
    invariants: Invariants
    adjacency: int
    neighbours: str = "substitution"
    realised_in: Fiber | None = field(default=None, kw_only=True)
    convention: str = field(default="definition", kw_only=True)

    def __post_init__(self) -> None:
        for name, kind in (("query", Query), ("invariants", Invariants)):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} must be {kind.__name__}, got {type(getattr(self, name)).__name__}")
        positive_integer(self.adjacency, "adjacency")
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        choice(self.convention, CONVENTIONS, "convention")
        fiber: Any = self.realised_in
        instance(fiber, Fiber | None, "realised_in must be a Fiber")
        for other, name in ((self.query.frame, "query"), (fiber.frame if fiber else None, "realised_in")):
            if other is not None and not other.same_cells(self.invariants.frame):
                raise ValueError(f"{name} must be about the table of the invariants (same dimensions and labels)")
        if fiber is not None and not determine_the_same(self.invariants, fiber.invariants):
            raise ValueError("realised_in must be a fiber of these invariants, but its exact answers are of others")
        if self.convention == "paper" and not (
            is_two_way(self.invariants) and self.neighbours == "substitution" and self.adjacency == 3
        ):
            raise ValueError(
                "convention='paper' is Proposition 32: both margins of a two-way table and adjacency=3 (substitution), "
                f"got adjacency={self.adjacency}"
            )

    @classmethod
    def semi(
        cls,
        invariants: Any,
        adjacency: int,
        query: Query | None = None,
        *,
        neighbours: str = "substitution",
        realised_in: Fiber | None = None,
        convention: str = "definition",
    ) -> SensitivitySpace:
        """``S_Semi``: databases that share the exact answers.

        Parameters
        ----------
        invariants : Query, iterable of Query, or Invariants
            What is published exactly.
        adjacency : int
            The semi-adjacent parameter (see `semi_adjacency`), or any other number of records.
        query : Query, optional
            What is asked; the table itself if left out.
        neighbours, realised_in
            See `SensitivitySpace`.
        convention : {"definition", "paper"}
            Proposition 32 states that two tables with the same margins that differ in at most three records (A_3) differ
            by one 2x2 move, so that the sensitivities are 4, 2 and 1. That is right of two records (A_2). With three rows
            and columns three records can also form a 3-cycle, and they are 6, the root of 6, and 1. ``"paper"`` gives the
            printed space, and `corrected` the one of the definition.
        """
        exact = invariants if isinstance(invariants, Invariants) else Invariants(invariants)
        asked = Identity(exact.frame) if query is None else query
        return cls(asked, exact, adjacency, neighbours, realised_in=realised_in, convention=convention)

    @classmethod
    def dp(cls, query: Query, neighbours: str = "substitution") -> SensitivitySpace:
        """``S_DP``: any two databases that differ in one record.

        Examples
        --------
        >>> from bayesdp.queries import Identity
        >>> SensitivitySpace.dp(Identity({"county": ["Alpha", "Beta", "Gamma"]})).delta("l1")
        2.0
        """
        return cls.group(query, 1, neighbours)

    @classmethod
    def group(cls, query: Query, size: int, neighbours: str = "substitution") -> SensitivitySpace:
        """``S_Group``: any two databases that differ in at most `size` records."""
        checked_query(query)
        return cls(query, Invariants(None, query.frame), positive_integer(size, "size"), neighbours)

    @property
    def corrected(self) -> SensitivitySpace:
        """The space of the definition: this one, unless its convention is that of the paper."""
        return self if self.convention == "definition" else replace(self, convention="definition")

    @property
    def _radius(self) -> int:
        return 2 if self.convention == "paper" else self.adjacency

    @property
    def _balanced(self) -> bool:
        return self.neighbours == "substitution"

    @cached_property
    def table_differences(self) -> Ints:
        """The differences z of the tables, shape ``(m, cells)``: one of each pair z, -z, without zero.

        Raises
        ------
        ValueError
            If there are too many to list.
        NotImplementedError
            If it cannot be told which are realised in the fiber.
        """
        found = bounded_kernel(self.invariants.matrix, self._radius, balanced=self._balanced)
        return found if self.realised_in is None else found[realised(self.realised_in, found)]

    @cached_property
    def differences(self) -> Ints:
        """The differences ``W z`` of the answers, shape ``(m, answers)``: one of each pair u, -u, without zero."""
        if self.query.is_identity:
            return self.table_differences
        if self.realised_in is None:
            if self.is_of_answers:
                return bounded_kernel(self.noise_space.matrix, self._radius, balanced=True)
            return listed_answer_differences(self.query, self.invariants, self._radius, balanced=self._balanced)
        answers = np.asarray((self.query.matrix @ self.table_differences.T).T, dtype=np.int64)
        return distinct_up_to_sign(answers)

    @cached_property
    def is_of_answers(self) -> bool:
        """Whether the differences are those of a table of answers that keeps what the invariants say of it: see `answers_alone`."""
        if self.realised_in is not None or not self._balanced:
            return False
        return self.query.is_identity or answers_alone(self.query, self.invariants)

    @cached_property
    def _closed_form(self) -> tuple[float, float, float] | None:
        """l1, l2 and l-infinity sensitivity where they are known without a list, whatever the counts."""
        if not self.is_of_answers:
            return None
        return closed_sensitivities(self.invariants if self.query.is_identity else self.noise_space, self._radius)

    @cached_property
    def _realised(self) -> tuple[float, float, float] | None:
        """The same for two tables of a fiber, by its independent parts; None where these are too many tables to list."""
        fiber = self.realised_in
        if fiber is None or not self.query.is_identity or not self._balanced:
            return None
        if fiber.bounds_below or fiber.bounds_above or self._kept is not self.invariants:
            return None
        try:
            return realised_lengths(fiber, self.adjacency)
        except NotImplementedError:
            return None

    def delta(self, norm: str = "l2") -> float:
        """The sensitivity: the largest norm of a difference, in counts; 0 where there is none.

        Parameters
        ----------
        norm : {"l1", "l2", "linf"}
        """
        which = NORMS.index(choice(norm, NORMS, "norm"))
        known = self._closed_form or self._realised
        if known is not None:
            return known[which]
        u = self.differences
        if norm == "l2":
            return math.sqrt(int(np.max(np.sum(u * u, axis=1), initial=0)))
        return float(np.max(np.abs(u).sum(axis=1) if norm == "l1" else np.abs(u), initial=0))

    @cached_property
    def _kept(self) -> Invariants:
        """The invariants, and the number of records where that is kept besides."""
        return with_total(self.invariants) if self._balanced else self.invariants

    @cached_property
    def noise_space(self) -> Invariants:
        """All answers ``W z`` with ``A z = 0`` (and as many records), as a null space on the answers.

        `span` is all of it, or less where small differences do not reach everything.
        """
        return self._kept.through(self.query)

    @cached_property
    def rank(self) -> int:
        """Dimension of the span of the differences, exact."""
        if self._closed_form is not None:
            return self.noise_space.dimension if self.delta("l1") else 0
        return exact_rank(self.differences) if len(self.differences) else 0

    @cached_property
    def span(self) -> Floats:
        """An orthonormal basis of the span of the differences, as rows, shape ``(rank, answers)``.

        Where the span is all of `noise_space`, it is that of its coordinates, which a published release can name.
        """
        if 0 < self.rank == self.noise_space.dimension:
            return self.noise_space.from_coordinates(np.eye(self.rank)).reshape(self.rank, -1)
        u = self.differences.astype(np.float64)
        _, directions = np.linalg.eigh(u.T @ u)
        return np.asarray(directions[:, ::-1][:, : self.rank].T)

    def coordinates(self, values: npt.ArrayLike) -> Floats:
        """Orthonormal coordinates of the projection of answers ``(..., answers)`` onto the span, ``(..., rank)``."""
        array = np.asarray(values, dtype=np.float64)
        if array.shape[-1:] != (self.query.rows,):
            raise ValueError(f"values must have shape (..., {self.query.rows}), got {array.shape}")
        return np.asarray(array @ self.span.T)

    @cached_property
    def hull(self) -> SymmetricHull:
        """``Hull(S)`` in the coordinates of the span: the unit ball of the K-norm mechanism of Semi-DP."""
        if not self.rank:
            raise ValueError("there are no differences but zero, so that the hull is a point and gives no norm")
        return SymmetricHull(self.coordinates(self.differences))

    def __repr__(self) -> str:
        what = "realised in a fiber" if self.realised_in is not None else "whatever the counts"
        near = f"at most {self.adjacency} records ({self.neighbours})"
        return f"<SensitivitySpace: {near}, rank {self.invariants.rank} of invariants, {what}>"


@dataclass(frozen=True)
class Inclusions:
    """Proposition 24 in numbers. Made by `inclusions`.

    Attributes
    ----------
    semi_in_group : bool
        Whether ``S_Semi`` is a subset of ``S_Group``.
    group_gauge, semi_gauge : float
        The largest norm, of which the unit ball is ``Hull(S_DP)``, of a difference in ``S_Group``, in ``S_Semi``: the least
        multiple of ``Hull(S_DP)`` that holds it.
    adjacency : int
        a, the size of groups.
    sensitivities : mapping
        For ``l1``, ``l2`` and ``linf``: those of ``S_Semi`` and of ``S_Group``, and a times that of ``S_DP``.
    """

    semi_in_group: bool
    group_gauge: float
    semi_gauge: float
    adjacency: int
    sensitivities: Mapping[str, tuple[float, float, float]]

    @property
    def hold(self) -> bool:
        """Whether all that Proposition 24 states is so here."""
        ordered = all(a <= b + _ROUNDING and b <= c + _ROUNDING for a, b, c in self.sensitivities.values())
        return self.semi_in_group and self.group_gauge <= self.adjacency + _ROUNDING and ordered

    def __str__(self) -> str:
        lines = [
            f"S_Semi inside S_Group: {'yes' if self.semi_in_group else 'no'}",
            f"Hull(S_Group) inside {self.adjacency} Hull(S_DP): the least multiple is {self.group_gauge:.6g}; "
            f"of S_Semi it is {self.semi_gauge:.6g}",
            f"sensitivity  {'S_Semi':>8} {'S_Group':>8} {f'{self.adjacency} S_DP':>8}",
        ]
        lines += [f"  {norm:<10} {a:8.4f} {b:8.4f} {c:8.4f}" for norm, (a, b, c) in self.sensitivities.items()]
        return "\n".join(lines)


def inclusions(semi: SensitivitySpace) -> Inclusions:
    """Compare a Semi-DP sensitivity space with those of groups and of single records (Proposition 24).

    Parameters
    ----------
    semi : SensitivitySpace
        Small enough for the differences of groups to be listed.

    Raises
    ------
    ValueError
        If the query is constant, or there are too many differences to list.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 24.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["F", "M"], "admitted": ["no", "yes"]}
    >>> print(inclusions(SensitivitySpace.semi(Margins(table, ["sex"], ["admitted"]), 3)))
    S_Semi inside S_Group: yes
    Hull(S_Group) inside 3 Hull(S_DP): the least multiple is 3; of S_Semi it is 2
    sensitivity    S_Semi  S_Group   3 S_DP
      l1           4.0000   6.0000   6.0000
      l2           2.0000   4.2426   4.2426
      linf         1.0000   3.0000   3.0000
    """
    instance(semi, SensitivitySpace, "semi must be a SensitivitySpace")
    a = semi.adjacency
    one = SensitivitySpace.dp(semi.query, semi.neighbours)
    group = SensitivitySpace.group(semi.query, a, semi.neighbours)
    if not one.rank:
        raise ValueError("query has the same answers on all databases of one size: there is nothing to compare")
    members = {row.tobytes() for row in np.ascontiguousarray(group.differences)}
    inside = all(row.tobytes() in members for row in np.ascontiguousarray(semi.differences))

    def largest(space: SensitivitySpace) -> float:
        return float(np.max(one.hull.gauge(one.coordinates(space.differences)), initial=0.0))

    table = {norm: (semi.delta(norm), group.delta(norm), a * one.delta(norm)) for norm in NORMS}
    return Inclusions(inside, largest(group), largest(semi), a, table)


def realised_lengths(fiber: Fiber, adjacency: int) -> tuple[float, float, float]:
    """The largest l1, l2 and l-infinity norm of ``x - x'`` for tables x, x' of the fiber at most so many substituted records apart.

    The fiber has exact answers without bounds, which determine the number of records.
    """
    point = fiber.find_point().reshape(-1)
    listed: set[object] = set()
    profiles = Counter(_profile(fiber, part, point, adjacency, listed) for part in lattice_parts(fiber.invariants))
    l1, squared = [0] * (adjacency + 1), [0] * (adjacency + 1)
    for (part_l1, part_squared, _), count in profiles.items():
        for _ in range(min(count, adjacency)):  # each takes a record at least
            l1, squared = _both(l1, part_l1), _both(squared, part_squared)
    most = max((profile[2][-1] for profile in profiles), default=0)
    return float(l1[-1]), float(np.sqrt(squared[-1])), float(most)


def _both(best: list[int], more: tuple[int, ...]) -> list[int]:
    """The best sums of two profiles, up to as many records as the first goes."""
    return [max(best[k - j] + more[j] for j in range(min(k + 1, len(more)))) for k in range(len(best))]


def _profile(fiber: Fiber, part: Part, point: Ints, a: int, listed: set[object]) -> Profile:
    if isinstance(part, Line):
        return _of_line(part.entries, point[part.cells], a)
    if isinstance(part, Table) and part.copies == 1 and len(part.shape) == 1:
        k = np.arange(min(a, int(point[part.cells].sum())) + 1)
        return _plain(np.stack([2 * k, 2 * k * k, k]))
    grid = _two_way_cells(part)
    if grid is not None:
        counts = point[grid]
        rows, columns = (tuple(sorted(sums[sums > 0].tolist())) for sums in (counts.sum(axis=1), counts.sum(axis=0)))
        margins, most = sorted((rows, columns), key=len), min(a, sum(rows))
        if most > 3:
            _counted(listed, tuple(margins))
        return _of_margins(*margins, most)
    cells = np.unique(part.cells)
    matrix = fiber.invariants.matrix[:, cells]
    dense = np.unique(matrix[np.flatnonzero(np.diff(matrix.indptr))].toarray(), axis=0).astype(np.int64)
    key = dense.shape, dense.tobytes(), (dense @ point[cells]).tobytes()
    _counted(listed, key)
    return _of_rows(*key, a)


def _counted(listed: set[object], key: object) -> None:
    listed.add(key)
    if len(listed) > _KINDS:
        raise NotImplementedError(
            f"more than {_KINDS} different parts of the table would have to be listed to find which differences their tables have"
        )


def _plain(norms: Ints) -> Profile:
    return tuple(tuple(row) for row in norms.tolist())


def _of_line(entries: Ints, counts: Ints, a: int) -> Profile:
    """Steps along one vector whose entries add up to zero."""
    if entries.sum():
        raise NotImplementedError("the exact answers must determine the number of records")
    up, down = entries > 0, entries < 0
    # From one end of the line, where no more steps down are left, to the other.
    steps = int((counts[down] // -entries[down]).min()) + int((counts[up] // entries[up]).min())
    taken = np.minimum(np.arange(a + 1) // int(entries[up].sum()), steps)
    l1, squared, most = int(np.abs(entries).sum()), int(entries @ entries), int(np.abs(entries).max())
    return _plain(np.stack([taken * l1, taken**2 * squared, taken * most]))


def _two_way_cells(part: Part) -> Ints | None:
    """The cells of a part that is a table with both margins, as a table; None for other parts."""
    if not isinstance(part, Table):
        return None
    if part.copies == 1 and len(part.shape) == 2:
        return np.asarray(part.cells[0])
    opposite = part.copies == 2 and len(part.shape) == 1 and np.array_equal(part.signs[0], -part.signs[1])
    return np.asarray(part.cells) if opposite and np.all(part.signs[0] == part.signs[0, 0]) else None


@lru_cache(maxsize=4096)
def _of_margins(rows: tuple[int, ...], columns: tuple[int, ...], a: int) -> Profile:
    """A table with both margins, all positive, the fewer labels first; a is at most the number of records."""
    shape = len(rows), len(columns)
    if a <= 3:
        length = [0, 0, 4 if shape[0] > 1 else 0, 6 if shape[0] > 2 else 4 if shape[0] > 1 else 0][: a + 1]
        return tuple(length), tuple(length), tuple(int(size > 0) for size in length)
    margins = Margins({"row": range(shape[0]), "column": range(shape[1])}, ["row"], ["column"])
    try:
        z = bounded_kernel(margins.matrix, a, balanced=True).reshape(-1, *shape)
    except ValueError:
        return _of_pairs(margins, np.array([*rows, *columns]), a)
    # The records that are taken away must be there; the others can be arranged as one likes.
    taken = np.maximum(-z, 0)
    fits = np.all(taken.sum(axis=2) <= rows, axis=1) & np.all(taken.sum(axis=1) <= columns, axis=1)
    return _largest(z[fits].reshape(-1, shape[0] * shape[1]), a)


@lru_cache(maxsize=4096)
def _of_rows(shape: tuple[int, int], matrix: bytes, answers: bytes, a: int) -> Profile:
    """Any other part: all pairs of its tables."""
    rows = sp.csr_array(np.frombuffer(matrix, dtype=np.int64).reshape(shape))
    query = LinearQuery({"cell": range(shape[1])}, rows, [f"row {i}" for i in range(shape[0])])
    return _of_pairs(query, np.frombuffer(answers, dtype=np.int64), a)


def _of_pairs(query: Query, answers: Ints, a: int) -> Profile:
    """All pairs of tables with these answers."""
    try:
        tables = enumerate_fiber(Fiber(query.frame, ((query, answers),)), _TABLES, work=50 * _TABLES)
    except ValueError as error:
        raise NotImplementedError(
            f"which differences two tables of a part have is found by listing its tables: {error}"
        ) from None
    tables = tables.reshape(len(tables), -1)
    changes = [tables[i + 1 :] - tables[i] for i in range(len(tables))]
    return _largest(np.concatenate([change[np.abs(change).sum(axis=1) <= 2 * a] for change in changes]), a)


def _largest(z: Ints, a: int) -> Profile:
    """The largest norms of differences of up to 0, 1, ..., a records."""
    l1, squared, most = np.abs(z).sum(axis=1), (z * z).sum(axis=1), np.abs(z).max(axis=1, initial=0)
    norms = np.zeros((3, a + 1), dtype=np.int64)
    for row, sizes in zip(norms, (l1, squared, most), strict=True):
        np.maximum.at(row, l1 // 2, sizes)
    return _plain(np.maximum.accumulate(norms, axis=1))

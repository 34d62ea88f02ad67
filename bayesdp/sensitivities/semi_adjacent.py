"""The semi-adjacent parameter: how many records change when one does and the exact answers stay.

Listed tables are gone through, one-way margins and disjoint totals have a formula; elsewhere there are lower and upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdp._validate import choice, positive_integer
from bayesdp.fibers import Fiber
from bayesdp.fibers.enumeration import enumerate_fiber
from bayesdp.fibers.fiber import ExactAnswers
from bayesdp.moves.computed import COMPUTED_CELLS, largest_primitive_norm
from bayesdp.sensitivities.cliques import IMPOSSIBLE, Cliques, largest_hitting_number
from bayesdp.sensitivities.differences import NEIGHBOURS, Features, block_totals
from bayesdp.sensitivities.norms import with_total

type Ints = npt.NDArray[np.int64]

_PAIRS = 2_000_000  # pairs of cells whose distances are computed, at most: any of them give a lower bound
_STARTS = 6  # tables from which distances are computed: the larger of them is a proved lower bound from each
_PROGRAM_CELLS, _PROGRAMS, _NODES = 1000, 12, 2000
_FAR = np.iinfo(np.int64).max // 4
_LISTED_CELLS = 100  # the largest table whose fiber is listed
_WORK = 100_000  # steps of the search that lists it
WORST = "worst"
INFIMUM = "infimum"
_CONVENTIONS = {WORST: "from the worst database", INFIMUM: "infimum over databases"}


@dataclass(frozen=True)
class SemiBounds:
    """Limits of a(t) in both conventions, and how they were found."""

    infimum: tuple[int, int]
    worst: tuple[int, int]
    method: str  # where the limits are equal
    reason: str
    nearest: tuple[int | None, int | None] = (None, None)  # the candidates of Remark 14
    open: str = ""  # the reason where the limits differ, if that is another one


def record_count(fiber: Fiber, point: Ints) -> int | None:
    """The number of records, that of `point`, if the exact answers fix it; None if not."""
    fixed = fiber.equalities and with_total(fiber.invariants) is fiber.invariants
    return int(point.sum()) if fixed else None


def _of_features(features: Features) -> SemiBounds:
    """One-way margins, by their rarest labels: see the notes of `semi_adjacency`."""
    if not features.records:
        return SemiBounds((0, 0), (0, 0), "one-way margins", "there is no record", (0, 0))
    rarest, twins = features.rarest, int(features.has_twins)
    infimum, worst = 2 if rarest else twins, (twins, twins)
    if rarest:
        fewest, most = largest_hitting_number(rarest, features.records - 1)
        worst = 1 + fewest, 1 + most
    # The nearest database: one record that keeps its labels and changes its cell, else two that change places. A label that
    # comes with several cells is a label of some record in every database.
    nearest = 1 if twins else infimum
    given_up = f"for these {len(rarest)} features the search for the worst arrangement of records was given up"
    reason = "by the margins of the rarest labels"
    return SemiBounds((infimum, infimum), worst, "one-way margins", reason, (nearest, nearest), given_up)


def bounds_of_cliques(fiber: Fiber, cliques: Cliques) -> SemiBounds:
    """Limits where the margins form a junction tree: see `Cliques` for the theorem.

    From above: by the theorem, 1 plus the largest hitting number of the rarest labels, hence at most one more than there are
    margins with two labels or more. From below: the largest distance from some explicit tables with these answers.
    """
    point = fiber.find_point().reshape(-1)
    records, rarest = int(point.sum()), cliques.rarest
    if not records:
        return SemiBounds((0, 0), (0, 0), "junction tree", "there is no record")
    if not rarest:
        alone = int(np.count_nonzero(cliques.possible) > 1)
        return SemiBounds((alone, alone), (alone, alone), "junction tree", "all records have the same labels")
    upper = min(1 + largest_hitting_number(rarest, records - 1)[1], records)
    lower = 2
    rng = np.random.default_rng(0)
    for start in range(_STARTS):
        if lower == upper:
            break
        if start:
            point = fiber.find_point(rng.gamma(0.1, size=point.size).reshape(fiber.frame.shape) * records).reshape(-1)
        lower = max(lower, int(cliques.distances(point, max(_PAIRS // point.size, 1))[1].max()))
    reason = (
        f"the margins form a junction tree: at most one more than the {len(rarest)} margins with several labels, and at most what "
        "their rarest labels allow; at least as from a table that was found"
    )
    return SemiBounds((2, upper), (lower, upper), "junction tree", reason)


def bounds_by_programs(fiber: Fiber, records: int) -> SemiBounds:
    """Limits for any exact answers that fix the number of records.

    From above: two databases of n records differ in n records at most, and in no more than n less the counts that all tables
    have, nor than half of what the counts can vary by, two records (i itself, on both sides) apart; and, where the Graver basis
    can be computed, in no more than 1 plus half of its largest norm, whatever n: if the cell y is empty in u and not in another
    table of the fiber, one vector g of that basis has a positive entry at y and u + g is in the fiber
    (`bayesdp.moves.computed.largest_primitive_norm`); record i may be one more. From below: from
    one explicit table u, integer programs find the nearest table with a record in a cell y that is empty in u; and where it leaves
    the record of i alone, whether some table equally near does not.
    """
    point = fiber.find_point().reshape(-1)
    low, high = (bound.reshape(-1) for bound in fiber.bounds())
    uppers = [records, records - int(low.sum()) + 2]
    if np.all(high >= 0):
        uppers.append(int((high - low).sum()) // 2 + 2)
    free, norm = ~fiber.system.fixed, None
    if np.count_nonzero(free) <= COMPUTED_CELLS:  # the matrix of a large table is not asked for
        norm = largest_primitive_norm(fiber.moving_invariants.matrix, free, fiber.system.limit_matrix)
    if norm is not None:
        uppers.append(max(2, 1 + norm // 2))
    upper = max(min(uppers), 0)
    lower = int(np.count_nonzero(point) > 1)
    if fiber.frame.size <= _PROGRAM_CELLS:
        lower = max(lower, _farthest_found(fiber, point, high))
    graver = "" if norm is None else " and the Graver basis of the exact answers"
    found = f"at most by the number of records, the limits of the cells{graver}"
    found += "; at least by integer programs from a table that was found"
    return SemiBounds((min(lower, 1), upper), (lower, upper), "enumeration", found)


def _farthest_found(fiber: Fiber, point: Ints, high: Ints) -> int:
    """The largest distance from this table to a value that programs find, 0 if none."""
    empty = np.flatnonzero((point == 0) & (high != 0))
    lower = 0
    for y in empty[np.unique(np.linspace(0, len(empty) - 1, min(len(empty), _PROGRAMS)).astype(np.int64))].tolist():
        found = _nearest(fiber, point, y, None)
        if found is None:
            continue
        half, table = found
        lower = max(lower, half)
        # Record i in a cell that the nearest table leaves as it is: one more, unless another table as near does not.
        kept = np.flatnonzero((point > 0) & (table >= point))
        if lower == half and len(kept):
            other = _nearest(fiber, point, y, int(kept[0]))
            if other is not None and other[0] > half:
                lower = half + 1
    return lower


def _nearest(fiber: Fiber, point: Ints, y: int, less: int | None) -> tuple[int, Ints] | None:
    """Half the least distance of a table with a record in y, and less than here in one cell if wanted; None if there is none."""
    size = len(point)
    rows, low, high = fiber.system.limited_rows()
    # v = point - down + up; half the distance is the sum of up, as the number of records is the same.
    moved = sp.csr_array(sp.hstack([-rows, rows], format="csr"))
    start = rows @ point
    least = np.zeros(2 * size)
    least[size + y] = 1.0
    if less is not None:
        least[less] = 1.0
    stated = fiber.system.upper.astype(np.float64)
    most = np.concatenate([(point - np.maximum(fiber.system.lower, 0)).astype(np.float64), stated - point])
    if np.any(least > most):
        return None
    found = milp(
        np.concatenate([np.zeros(size), np.ones(size)]),
        integrality=np.ones(2 * size),
        bounds=Bounds(least, most),
        constraints=[LinearConstraint(moved, low - start, high - start)] if rows.shape[0] else [],
        options={"node_limit": _NODES, "mip_rel_gap": 0.0},
    )
    if found.status != 0:
        return None
    down, up = np.rint(found.x).astype(np.int64).reshape(2, size)
    table = point - down + up
    if not fiber.contains(table.reshape(fiber.frame.shape)):
        return None
    return int(np.abs(table - point).sum()) // 2, table


def listed_tables(fiber: Fiber, limit: int) -> tuple[Ints | None, str]:
    """All tables, flat, shape (m, cells), or why they are not listed."""
    if fiber.frame.size > _LISTED_CELLS:
        return None, (
            f"the exact answers are not one-way margins, and tables of {fiber.frame.size} cells are too large to list the fiber "
            f"(the limit is {_LISTED_CELLS})"
        )
    fiber.find_point()  # an empty fiber is an error that names the answers
    try:
        return enumerate_fiber(fiber, limit, work=_WORK).reshape(-1, fiber.frame.size), ""
    except ValueError as error:
        return None, f"the exact answers are not one-way margins, and {error}"


def semi_adjacency_of_tables(tables: Ints, absence: bool = False) -> tuple[int, int]:
    """The semi-adjacent parameter in both conventions, infimum and worst, by going through all pairs of tables, shape (m, cells)."""
    # Record i has the value (cell) x in a database with table u, and y in one with table v. The other records can be matched as
    # well as their counts allow, so that `||(u - e_x) - (v - e_y)||_1` of them are left over on both sides, and record i itself
    # counts on both. With `w = u - v` that is `||w||_1 + 2 [w_x <= 0] + 2 [w_y >= 0]` records taken away or added, because `w_x -
    # 1` is smaller in absolute value just when w_x is positive; half as many are substituted. With `absence`, i may also not be
    # there: without e_x, and without its record on that side, the bracket of x falls away. The infimum is the largest over x and y
    # of the least over u and v; the worst is the largest over x, y and u of the least over v. `tables`, shape (m, cells): all
    # tables. `absence`: count records added or removed, absence among the values; else records substituted, where all tables must
    # have one total.
    possible = np.flatnonzero((tables > 0).any(axis=0))
    if not possible.size and not (absence and len(tables)):
        return 0, 0
    size = possible.size + absence
    best = np.full((size, size), _FAR)
    worst = 0
    for u in tables:
        held, distance = _distances(u, tables, possible, absence)
        worst = max(worst, int(distance.max(initial=0)))
        best[held] = np.minimum(best[held], distance)
    unit = 1 if absence else 2
    return int(best.max()) // unit, worst // unit


def distances_of_tables(table: Ints, tables: Ints) -> tuple[Ints, Ints]:
    """What `Cliques.distances` gives, for one of the listed tables, shape (m, cells), which have one total."""
    possible = np.flatnonzero((tables > 0).any(axis=0))
    held, distance = _distances(table, tables, possible, False)
    found = np.full((len(held), tables.shape[1]), IMPOSSIBLE, dtype=np.int64)
    found[:, possible] = distance // 2
    return possible[held], found


def _distances(u: Ints, tables: Ints, possible: Ints, absence: bool) -> tuple[Ints, Ints]:
    """Records taken away and added, from each own value (positions in `possible`, absence last) to each possible one."""
    change = u - tables
    norm = np.abs(change).sum(axis=1)
    # The closest table with a record in y has a distance of its norm + 4 at most, the two brackets included. A table whose norm
    # is larger by 4 has no smaller one.
    closest = np.array([norm[tables[:, y] > 0].min() for y in possible], dtype=np.int64)
    near = np.flatnonzero(norm <= closest.max(initial=0) + 3)
    norm, change, held = norm[near], change[near], tables[near] > 0
    positions = np.flatnonzero(u[possible] > 0)
    start = norm[:, None] + 2 * (change[:, possible[positions]] <= 0)
    if absence:
        positions = np.append(positions, len(possible))
        start = np.column_stack([start, norm])
    distance = np.empty((len(positions), len(possible) + absence), dtype=np.int64)
    for j, y in enumerate(possible):
        to_y = np.where(held[:, y], 2 * (change[:, y] >= 0), _FAR)
        distance[:, j] = (start + to_y[:, None]).min(axis=0)
    if absence:
        distance[:, -1] = start.min(axis=0)
    distance[np.arange(len(positions)), positions] = 0
    return positions, distance


def nearest_databases(tables: Ints, absence: bool = False) -> tuple[int, int]:
    """``a_min`` and ``a_maxmin`` of Remark 14: the least, and the largest, distance to the nearest other database.

    Databases are lists of records: where two records of a table differ, exchanging them is another database at distance 2,
    with the same table. In records added or removed (`absence`), a record can make room for that of somebody else with the same
    value, which is another database at distance 2. 0 where there is no other database.
    """
    nearest = []
    for u in tables:
        apart = np.abs(tables - u).sum(axis=1) // (1 if absence else 2)
        others = apart[apart > 0]
        exchange = [2] if np.count_nonzero(u) > (0 if absence else 1) else []
        nearest.append(min([*exchange, *([int(others.min())] if others.size else [])], default=0))
    return (min(nearest), max(nearest)) if nearest else (0, 0)


def _added_of_totals(fiber: Fiber) -> SemiBounds | None:
    """Disjoint totals, with cells that are in none of them, or no exact answers at all; None for other answers."""
    # Of a cell that is in no total, a record can come and go. Of a cell in a total, only if another one of that total goes or
    # comes. So absence and a free cell are 1 record apart, absence and a total 2, two cells of one total or two free cells 2 (the
    # record goes, and comes elsewhere), a total and a free cell 3, and two totals 4. Totals of 0 have no records. All this is so
    # from every database.
    blocks = fiber.invariants.blocks
    if blocks is None or fiber.bounds_below or fiber.bounds_above:
        return None
    fiber.find_point()  # an empty fiber is an error that names the answers
    totals = block_totals(fiber, blocks)
    free = int(np.count_nonzero(blocks < 0))
    sizes = np.bincount(blocks[blocks >= 0], minlength=len(totals))
    held = totals > 0
    several = int(np.count_nonzero(held))
    parameter = max(
        4 if several > 1 else 0,
        3 if several and free else 0,
        2 if several or free > 1 else 0,
        1 if free else 0,
    )
    nearest = 1 if free else 2 if several and int(sizes[held].max()) else 0
    reason = "disjoint totals that leave the number of records open"
    return SemiBounds((parameter, parameter), (parameter, parameter), "totals", reason, (nearest, nearest))


@dataclass(frozen=True)
class SemiAdjacency:
    """The semi-adjacent parameter a(t) of some exact answers t, or what is known of it. Made by `semi_adjacency`.

    Attributes
    ----------
    convention : {"worst", "infimum"}
        What `lower`, `upper` and `value` are about.
    lower : int
        a(t) is at least this.
    upper : int or None
        a(t) is at most this; None where nothing is known.
    method : {"enumeration", "one-way margins", "totals", "junction tree", "bound", "unknown"}
        How it was found. ``"totals"``: disjoint totals, the number of records not known. ``"bound"``: limits only, for the reason
        that `reason` gives.
    infimum, worst : int or None
        a(t) in each convention, where it is known.
    a_min, a_maxmin : int or None
        The two candidates of Remark 14, where they are known: the least distance between two databases, and the largest distance
        from a database to its nearest. Neither is a substitute for a(t).
    reason : str
        In words, how it was found or why it is not known.
    neighbours : {"substitution", "add-remove"}
        What all these numbers count: records substituted, or records added or removed.
    """

    convention: str
    lower: int
    upper: int | None
    method: str
    infimum: int | None
    worst: int | None
    a_min: int | None
    a_maxmin: int | None
    reason: str
    neighbours: str = "substitution"

    @property
    def value(self) -> int | None:
        """a(t) in the convention asked for; None where it is not known exactly."""
        return self.lower if self.lower == self.upper else None

    def __str__(self) -> str:
        unit = "" if self.neighbours == "substitution" else " in records added or removed"
        if self.upper is None:
            return f"semi-adjacent parameter{unit}: unknown ({self.reason})"
        names = ((WORST, self.worst), (INFIMUM, self.infimum))
        found = [f"{number} ({_CONVENTIONS[name]})" for name, number in names if number is not None]
        if self.value is None:
            found.insert(0, f"between {self.lower} and {self.upper} ({_CONVENTIONS[self.convention]})")
        return f"semi-adjacent parameter{unit}: {', '.join(found)}; {self.reason}"


def semi_adjacency(
    exact: Fiber | Iterable[ExactAnswers],
    convention: str = WORST,
    *,
    neighbours: str = "substitution",
    limit: int = 1000,
) -> SemiAdjacency:
    """The semi-adjacent parameter a(t) of published exact answers (Definition 13).

    A person i has the value x in the confidential database, and says y. How many records, that of i included, must
    change for the exact answers to stay as they are? a(t) is that number for the hardest x and y, and Semi-DP protects
    databases that differ in up to a(t) records. Here a *database* is a list of n records, one a person, in
    which a value is a cell of the table; databases are compared person by person (Hamming distance, n public). Many databases have
    one table: the persons may change places. x and y range over what i can have in some database with these answers.

    Two readings, and neither is a detail:

    - ``"infimum"`` is Definition 13: the smallest distance between *any* database with x and any with y. It is attained where
      somebody else happens to have y and changes places with i.
    - ``"worst"`` is how Example 5 argues: from the worst database with x, to the nearest with y. Only with this number of
      records does everybody have, from whatever the confidential database is, an alternative that is protected. It is never smaller.

    The answers t are published, so that a(t) may depend on them and tells nothing else.

    Parameters
    ----------
    exact : Fiber, or iterable of Exact
        The exact answers.
    convention : {"worst", "infimum"}
        The reading.
    neighbours : {"substitution", "add-remove"}
        The metric: Hamming distance, for which the answers must fix the number of records; or symmetric difference, for which they
        need not.
    limit : int
        Fibers of more tables are not listed.

    Returns
    -------
    SemiAdjacency
        One-way margins, of any number of features, group labels and disjoint totals included: by an algorithm. Other exact
        answers: by listing the tables. Where these are too many, limits: from above by a theorem for margins that form a junction
        tree (a decomposable model), for others by the number of records, the limits of the cells
        and, of small tables, the Graver basis; from below from an explicit table with these answers.
        Unknown only where the answers do not fix the number of records.

    Raises
    ------
    ValueError
        If no table has these answers.

    Notes
    -----
    Symmetric difference. Records of persons are added or removed, and not being in the database is one more value that i can
    have: somebody else, who was not in it, can take a place. Which number of records there is may depend on the database. If the
    answers fix it, a(t) is twice that of substitution, or 2 where that is 0. Without exact answers a(t) is 2, because a record that
    becomes another one is removed and added; presence and absence alone are 1 apart.

    Junction trees. With m margins of several labels each, ``a(t) <= m + 1``, as Theorem 16 says of one-way margins: see
    `bayesdp.sensitivities.cliques` for the proof. With all pairs of three features, which form none, this is wrong.

    One-way margins. Let x and y differ in the features D, and each of their labels be a label of some record. After i says y,
    the label y_f of each feature f in D is once too often there. A set of other records that have all these labels
    among them can give them back, each for x_f, and changes no margin; a set that has not cannot. So the distance is 1 plus the least
    number of records that have the labels y_f, f in D, among them. At best one record has them all: a(t) = 2. At worst, D is
    every feature with two labels or more, y has the rarest label of each (a smaller set is never easier to
    hit), and the records, the one of i apart, are arranged so that it takes the most records to find all these labels; see
    `bayesdp.sensitivities.cliques`. With p features it is p if the rarest labels can belong to different records, that
    is, if their margins add up to at most n - 1; then a(t) = p + 1, the bound of Theorem 16. A 2 x 2 table with all four
    margins n / 2 has a(t) = 2. Cells that agree in all features (the margins do not count some
    dimension) are alternatives at distance 1.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Definition 13, Remark 14, Theorem 16, Example 5.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["F", "M"], "admitted": ["no", "yes"]}
    >>> margins = [Exact(Margins(table, ["sex"]), [4, 5]), Exact(Margins(table, ["admitted"]), [3, 6])]
    >>> found = semi_adjacency(margins)
    >>> found.value, found.infimum, found.method
    (3, 2, 'one-way margins')
    """
    choice(convention, (WORST, INFIMUM), "convention")
    choice(neighbours, tuple(NEIGHBOURS), "neighbours")
    positive_integer(limit, "limit")
    fiber = exact if isinstance(exact, Fiber) else Fiber.of(exact)
    found = _bounds(fiber, neighbours == "add-remove", limit)
    if isinstance(found, str):
        return SemiAdjacency(convention, 0, None, "unknown", None, None, None, None, found, neighbours)
    lower, upper = found.worst if convention == WORST else found.infimum
    infimum, worst = (pair[0] if pair[0] == pair[1] else None for pair in (found.infimum, found.worst))
    method, reason = (found.method, found.reason) if lower == upper else ("bound", found.open or found.reason)
    return SemiAdjacency(convention, lower, upper, method, infimum, worst, *found.nearest, reason, neighbours)


_NO_NUMBER = (
    "the exact answers do not fix the number of records, which Definition 13 takes as known; use neighbours='add-remove', or "
    "add the total"
)


def _bounds(fiber: Fiber, absence: bool, limit: int) -> SemiBounds | str:
    """a(t), or limits of it; or why there are none. With `absence`, in records added or removed."""
    features = Features.of(fiber)
    if features is not None:
        found = _of_features(features)
        return _doubled(found, features.records) if absence else found
    totals = _added_of_totals(fiber) if absence else None
    if totals is not None:
        return totals
    tables, why_not = listed_tables(fiber, limit)
    if tables is not None:
        if not absence and len(np.unique(tables.sum(axis=1))) > 1:
            return _NO_NUMBER
        infimum, worst = semi_adjacency_of_tables(tables, absence)
        reason = f"by comparing all tables with these answers ({len(tables)})"
        nearest = nearest_databases(tables, absence)
        return SemiBounds((infimum, infimum), (worst, worst), "enumeration", reason, nearest)
    records = record_count(fiber, fiber.find_point())
    if records is None:
        return why_not if absence else f"{why_not}; and {_NO_NUMBER}"
    cliques = Cliques.of(fiber)
    found = bounds_of_cliques(fiber, cliques) if cliques is not None else bounds_by_programs(fiber, records)
    found = replace(found, reason=f"{found.reason} ({why_not})")
    return _doubled(found, records) if absence else found


def _doubled(found: SemiBounds, records: int) -> SemiBounds:
    """The same in records added or removed, for a known number of records: absence is one more value, 2 from all others."""
    least = 2 if records else 0

    def twice(limits: tuple[int, int]) -> tuple[int, int]:
        return max(2 * limits[0], least), max(2 * limits[1], least)

    return replace(found, infimum=twice(found.infimum), worst=twice(found.worst), nearest=(least, least))

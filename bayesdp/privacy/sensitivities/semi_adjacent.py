"""The semi-adjacent parameter: how many records change when one does and the exact answers stay.

Listed tables are gone through, one-way margins and disjoint totals have a formula; elsewhere there are lower and upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayesdp._arrays import Ints
from bayesdp._nested import is_junction_tree
from bayesdp._validate import choice, positive_integer
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import ExactAnswers, enumerate_fiber
from bayesdp.fibers.moves.markov import COMPUTED_CELLS, largest_primitive_norm
from bayesdp.privacy.sensitivities.adjacency import Features, PublishedMargins
from bayesdp.privacy.sensitivities.norms import with_total

_PAIRS = 2_000_000  # pairs of cells whose distances are computed, at most: any of them give a lower bound
_MOST = 8  # margins of a junction tree: the work grows with three to their number
_FAR = np.iinfo(np.int64).max // 4
_LISTED_CELLS = 100  # the largest table whose fiber is listed
_WORK = 100_000  # steps of the search that lists it
WORST = "worst"
INFIMUM = "infimum"
_CONVENTIONS = {WORST: "from the worst database", INFIMUM: "infimum over databases"}
IMPOSSIBLE = -1
"""In place of a distance where no database with the answers has such a record."""


class Cliques(PublishedMargins):
    """Margins of a junction tree, one-way margins included.

    Let record i have the cell x and say y, and let D be the margins in which x and y differ. From a given database, the least
    number of records that have to change is 1 plus the least number of *other* records that have among them the
    labels y_C of all margins C in D. No database has y if there are none.

    No fewer: afterwards y_C is once too often in each C of D, so that a record with y_C has to leave it. No more: let J be such
    records, and i where x_C = y_C; each margin has a witness of y_C among them. Go through the margins from the root of the tree
    on. If a record r has y in all margins so far, but not in C, take a witness s of C: r and s agree on the
    separator of C and its parent (both have y there), so that they can exchange all that lies beyond it; no margin changes, and
    neither does the set of labels that the records have among them, so that there are witnesses for the next margin. At last r has y.
    Its record is given to i, and the others are shared out among the rest: only J and i have changed. These are exchanges of degree
    two, as in the Markov basis of Dobra (2003). Dimensions in no margin can be changed at will.
    """

    @classmethod
    def of(cls, fiber: Fiber) -> Cliques | None:
        """The margins of a fiber; None where its exact answers are no junction tree (or are more than eight margins)."""
        features = Features.of(fiber)
        if features is not None:
            return cls(features.codes, features.margins) if len(features.codes) <= _MOST else None
        nested = fiber.invariants.nested
        if fiber.bounds_below or fiber.bounds_above or not fiber.equalities or nested is None:
            return None
        generators = nested.generators
        # A dimension must be summed to the same labels in all margins that keep it.
        if any(len({levels[axis] for levels in generators if levels[axis]}) > 1 for axis in range(len(nested.axes))):
            return None
        kept = [{axis for axis, level in enumerate(levels) if level} for levels in generators]
        return cls.of_sums(fiber, nested) if len(kept) <= _MOST and is_junction_tree(kept) else None

    @cached_property
    def _together(self) -> tuple[Ints, ...]:
        """For every set of margins (as bits), a number for the labels that a cell has in all of them."""
        found = [np.zeros(len(self.codes[0]), dtype=np.int64)]
        for bits in range(1, 1 << len(self.codes)):
            lowest = (bits & -bits).bit_length() - 1
            rest = found[bits & (bits - 1)]
            code = self.codes[lowest]
            found.append(np.unique(rest * (int(code.max()) + 1) + code, return_inverse=True)[1].astype(np.int64))
        return tuple(found)

    def distances(self, table: Ints, most: int | None = None) -> tuple[Ints, Ints]:
        """The number of records that change if a record of one cell says another, in the database of a table.

        Of the cells that hold records (at most `most` of them, evenly spaced), shape (held,), to all cells, shape (held, cells):
        `IMPOSSIBLE` where no database with the answers has a record there; 0 for the cell itself.
        """
        held = np.flatnonzero(table > 0)
        everything, far = 1 << len(self.codes), len(self.codes) + 1
        # Records of x differ from y in all of D, so that none of the sets below is found in record i itself.
        has = [np.bincount(code[held], minlength=int(code.max()) + 1)[code] > 0 for code in self._together]
        fewest = np.full((everything, len(table)), far, dtype=np.int64)
        fewest[0] = 0
        for bits in range(1, everything):
            lowest, one = bits & -bits, bits
            while one:  # all parts of these margins with the lowest: the labels that one record gives
                if one & lowest:
                    better = np.where(has[one], fewest[bits ^ one] + 1, far)
                    np.minimum(fewest[bits], better, out=fewest[bits])
                one = (one - 1) & bits
        if most is not None and most < len(held):
            held = held[np.linspace(0, len(held) - 1, most).astype(np.int64)]
        differ = np.zeros((len(held), len(table)), dtype=np.int64)
        for position, code in enumerate(self.codes):
            differ |= (code[held][:, None] != code[None, :]).astype(np.int64) << position
        found = fewest[differ, np.arange(len(table))]
        found = np.where(found >= far, IMPOSSIBLE, found + 1)
        found[np.arange(len(held)), held] = 0
        return held, found


def largest_hitting_number(sizes: tuple[int, ...], points: int) -> tuple[int, int]:
    """Limits of the largest hitting number of sets of the given sizes, each from 1 to `points`; equal for up to three sets.

    A set of n records has m_f records with a certain label of feature f. In the worst arrangement, the least number of
    records that have all these labels among them is the largest hitting number of sets of sizes m_1 .. m_k in n points.
    Two questions have a formula. It is k if the sets can be disjoint: ``m_1 + ... + m_k <= n``. It is at least 2 if no point has to
    be in all of them: ``m_1 + ... + m_k <= (k - 1) n``. Between these it is the problem of covering designs.

    >>> largest_hitting_number((2, 2, 2), 4), largest_hitting_number((2, 2, 2), 6)
    ((2, 2), (3, 3))
    """
    k = len(sizes)
    if k <= 1 or sum(sizes) > (k - 1) * points:
        return min(k, 1), min(k, 1)
    # Disjoint sets among them need as many points as there are sets.
    disjoint = int(np.searchsorted(np.cumsum(sorted(sizes)), points, side="right"))
    return max(disjoint, 2), min(k if disjoint == k else k - 1, _greedy(sizes, points))


def _greedy(sizes: tuple[int, ...], points: int) -> int:
    """An upper bound of the hitting number: take the point that is in most sets, again and again."""
    # Some point is in at least `sum(sizes) / points` of the sets, rounded up. At worst the smallest sets are left over.
    left = sorted(sizes)
    used = 0
    while left:
        left = left[: len(left) + (-sum(left) // (points - used))]  # less the average, rounded up
        used += 1
    return used


@dataclass(frozen=True)
class SemiBounds:
    """Limits of a(t) in both conventions, and how they were found."""

    infimum: tuple[int, int]
    worst: tuple[int, int]
    method: str  # where the limits are equal
    reason: str
    open: str = ""  # the reason where the limits differ, if that is another one


def record_count(fiber: Fiber, point: Ints) -> int | None:
    """The number of records, that of `point`, if the exact answers fix it; None if not."""
    fixed = fiber.equalities and with_total(fiber.invariants) is fiber.invariants
    return int(point.sum()) if fixed else None


def _of_features(features: Features) -> SemiBounds:
    """One-way margins, by their rarest labels: see the notes of `semi_adjacency`."""
    if not features.records:
        return SemiBounds((0, 0), (0, 0), "one-way margins", "there is no record")
    rarest, twins = features.rarest, int(features.has_twins)
    infimum, worst = 2 if rarest else twins, (twins, twins)
    if rarest:
        fewest, most = largest_hitting_number(rarest, features.records - 1)
        worst = 1 + fewest, 1 + most
    limits = f"for these {len(rarest)} features the worst arrangement of records is known within limits only"
    return SemiBounds((infimum, infimum), worst, "one-way margins", "by the margins of the rarest labels", limits)


def bounds_of_cliques(fiber: Fiber, cliques: Cliques) -> SemiBounds:
    """Limits where the margins form a junction tree: see `Cliques` for the theorem.

    From above: by the theorem, 1 plus the largest hitting number of the rarest labels, hence at most one more than there are
    margins with two labels or more. From below: the largest distance from an explicit table with these answers.
    """
    point = fiber.find_point().reshape(-1)
    records, rarest = int(point.sum()), cliques.rarest
    if not records:
        return SemiBounds((0, 0), (0, 0), "junction tree", "there is no record")
    if not rarest:
        alone = int(np.count_nonzero(cliques.possible) > 1)
        return SemiBounds((alone, alone), (alone, alone), "junction tree", "all records have the same labels")
    upper = min(1 + largest_hitting_number(rarest, records - 1)[1], records)
    lower = max(2, int(cliques.distances(point, max(_PAIRS // point.size, 1))[1].max()))
    reason = (
        f"the margins form a junction tree: at most one more than the {len(rarest)} margins with several labels, and at most what "
        "their rarest labels allow; at least as from a table that was found"
    )
    return SemiBounds((2, upper), (lower, upper), "junction tree", reason)


def bounds_by_size(fiber: Fiber, records: int) -> SemiBounds:
    """Limits for any exact answers that fix the number of records.

    Two databases of n records differ in n records at most, and in no more than n less the counts that all tables have, nor than
    half of what the counts can vary by, two records (i itself, on both sides) apart; and, where the Graver basis can be computed, in
    no more than 1 plus half of its largest norm, whatever n: if the cell y is empty in u and not in another table of the fiber, one
    vector g of that basis has a positive entry at y and u + g is in the fiber (`bayesdp.fibers.moves.markov.largest_primitive_norm`);
    record i may be one more.
    """
    low, high = (bound.reshape(-1) for bound in fiber.bounds())
    uppers = [records, records - int(low.sum()) + 2]
    if np.all(high >= 0):
        uppers.append(int((high - low).sum()) // 2 + 2)
    free, norm = ~fiber.system.fixed, None
    if np.count_nonzero(free) <= COMPUTED_CELLS:  # the matrix of a large table is not asked for
        norm = largest_primitive_norm(fiber.moving_invariants.matrix, free, fiber.system.limit_matrix)
    if norm is not None:
        uppers.append(max(2, 1 + norm // 2))
    limits = int(np.count_nonzero(fiber.find_point()) > 1), max(min(uppers), 0)
    graver = "" if norm is None else " and the Graver basis of the exact answers"
    return SemiBounds(
        limits, limits, "enumeration", f"at most by the number of records, the limits of the cells{graver}"
    )


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


def semi_adjacency_of_tables(tables: Ints) -> tuple[int, int]:
    """The semi-adjacent parameter in both conventions, infimum and worst, by going through all pairs of tables, shape (m, cells)."""
    # Record i has the value (cell) x in a database with table u, and y in one with table v. The other records can be matched as
    # well as their counts allow, so that `||(u - e_x) - (v - e_y)||_1` of them are left over on both sides, and record i itself
    # counts on both. With `w = u - v` that is `||w||_1 + 2 [w_x <= 0] + 2 [w_y >= 0]` records taken away or added, because `w_x -
    # 1` is smaller in absolute value just when w_x is positive; half as many are substituted. The infimum is the largest over x and
    # y of the least over u and v; the worst is the largest over x, y and u of the least over v. All tables have one total.
    best = np.full((tables.shape[1], tables.shape[1]), _FAR)
    worst = 0
    for u in tables:
        held, distance = distances_of_tables(u, tables)
        worst = max(worst, int(distance.max(initial=0)))
        best[held] = np.minimum(best[held], np.where(distance == IMPOSSIBLE, _FAR, distance))
    return int(best[best < _FAR].max(initial=0)), worst


def distances_of_tables(u: Ints, tables: Ints) -> tuple[Ints, Ints]:
    """What `Cliques.distances` gives, for one of the listed tables, shape (m, cells), which have one total."""
    possible = np.flatnonzero((tables > 0).any(axis=0))
    change = u - tables
    norm = np.abs(change).sum(axis=1)
    # The closest table with a record in y has a distance of its norm + 4 at most, the two brackets included. A table whose norm
    # is larger by 4 has no smaller one.
    closest = np.array([norm[tables[:, y] > 0].min() for y in possible], dtype=np.int64)
    near = np.flatnonzero(norm <= closest.max(initial=0) + 3)
    change, has = change[near], tables[near] > 0
    held = np.flatnonzero(u > 0)
    start = norm[near, None] + 2 * (change[:, held] <= 0)
    found = np.full((len(held), len(u)), IMPOSSIBLE, dtype=np.int64)
    for y in possible:
        to_y = np.where(has[:, y], 2 * (change[:, y] >= 0), _FAR)
        found[:, y] = (start + to_y[:, None]).min(axis=0) // 2
    found[np.arange(len(held)), held] = 0
    return held, found


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
    method : {"enumeration", "one-way margins", "junction tree", "bound", "unknown"}
        How it was found. ``"bound"``: limits only, for the reason that `reason` gives.
    infimum, worst : int or None
        a(t) in each convention, where it is known.
    reason : str
        In words, how it was found or why it is not known.
    """

    convention: str
    lower: int
    upper: int | None
    method: str
    infimum: int | None
    worst: int | None
    reason: str

    @property
    def value(self) -> int | None:
        """a(t) in the convention asked for; None where it is not known exactly."""
        return self.lower if self.lower == self.upper else None

    def __str__(self) -> str:
        if self.upper is None:
            return f"semi-adjacent parameter: unknown ({self.reason})"
        names = ((WORST, self.worst), (INFIMUM, self.infimum))
        found = [f"{number} ({_CONVENTIONS[name]})" for name, number in names if number is not None]
        if self.value is None:
            found.insert(0, f"between {self.lower} and {self.upper} ({_CONVENTIONS[self.convention]})")
        return f"semi-adjacent parameter: {', '.join(found)}; {self.reason}"


def semi_adjacency(
    exact: Fiber | Iterable[ExactAnswers],
    convention: str = WORST,
    *,
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
    limit : int
        Fibers of more tables are not listed.

    Returns
    -------
    SemiAdjacency
        One-way margins, group labels and disjoint totals included: by a formula, which for more than three features may leave
        limits. Other exact answers: by listing the tables. Where these are too many, limits: by a theorem for margins that form a
        junction tree (a decomposable model), for others from above by the number of records, the limits of the cells
        and, of small tables, the Graver basis.
        Unknown only where the answers do not fix the number of records.

    Raises
    ------
    ValueError
        If no table has these answers.

    Notes
    -----
    Junction trees. With m margins of several labels each, ``a(t) <= m + 1``, as Theorem 16 says of one-way margins: see
    `Cliques` in this module for the proof. With all pairs of three features, which form none, this is wrong.

    One-way margins. Let x and y differ in the features D, and each of their labels be a label of some record. After i says y,
    the label y_f of each feature f in D is once too often there. A set of other records that have all these labels
    among them can give them back, each for x_f, and changes no margin; a set that has not cannot. So the distance is 1 plus the least
    number of records that have the labels y_f, f in D, among them. At best one record has them all: a(t) = 2. At worst, D is
    every feature with two labels or more, y has the rarest label of each (a smaller set is never easier to
    hit), and the records, the one of i apart, are arranged so that it takes the most records to find all these labels (a hitting
    number). With p features it is p if the rarest labels can belong to different records, that is, if their margins add up to at
    most n - 1; then a(t) = p + 1, the bound of Theorem 16. A 2 x 2 table with all four margins n / 2 has a(t) = 2. Cells that agree
    in all features (the margins do not count some dimension) are alternatives at distance 1.

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
    positive_integer(limit, "limit")
    found = _bounds(exact if isinstance(exact, Fiber) else Fiber.of(exact), limit)
    if isinstance(found, str):
        return SemiAdjacency(convention, 0, None, "unknown", None, None, found)
    lower, upper = found.worst if convention == WORST else found.infimum
    infimum, worst = (pair[0] if pair[0] == pair[1] else None for pair in (found.infimum, found.worst))
    method, reason = (found.method, found.reason) if lower == upper else ("bound", found.open or found.reason)
    return SemiAdjacency(convention, lower, upper, method, infimum, worst, reason)


_NO_NUMBER = "the exact answers do not fix the number of records, which Definition 13 takes as known; add the total"


def _bounds(fiber: Fiber, limit: int) -> SemiBounds | str:
    """a(t), or limits of it; or why there are none."""
    features = Features.of(fiber)
    if features is not None:
        return _of_features(features)
    tables, why_not = listed_tables(fiber, limit)
    if tables is not None:
        if len(np.unique(tables.sum(axis=1))) > 1:
            return _NO_NUMBER
        infimum, worst = semi_adjacency_of_tables(tables)
        reason = f"by comparing all tables with these answers ({len(tables)})"
        return SemiBounds((infimum, infimum), (worst, worst), "enumeration", reason)
    records = record_count(fiber, fiber.find_point())
    if records is None:
        return f"{why_not}; and {_NO_NUMBER}"
    cliques = Cliques.of(fiber)
    found = bounds_of_cliques(fiber, cliques) if cliques is not None else bounds_by_size(fiber, records)
    return replace(found, reason=f"{found.reason} ({why_not})")

"""The semi-adjacent parameter: how many records change when one does and the exact answers stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer
from bayesdp.fibers import Fiber
from bayesdp.fibers.enumeration import enumerate_fiber
from bayesdp.fibers.fiber import ExactAnswers
from bayesdp.sensitivities.features import Features
from bayesdp.sensitivities.hitting import largest_hitting_number
from bayesdp.sensitivities.semi_enumerated import nearest_databases, semi_adjacency_of_tables

__all__ = ["SemiAdjacency", "semi_adjacency"]

type Ints = npt.NDArray[np.int64]

WORST = "worst"
INFIMUM = "infimum"
_LISTED_CELLS = 100
"""The largest table whose fiber is listed."""

_WORK = 100_000
"""Steps of the search that lists it."""


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
    method : {"enumeration", "one-way margins", "bound", "unknown"}
        How it was found. ``"bound"``: limits only, from the theory of one-way margins.
    infimum, worst : int or None
        a(t) in each convention, where it is known.
    a_min, a_maxmin : int or None
        The two candidates of Remark 14, where they are known: the least distance between two databases, and the largest distance
        from a database to its nearest. Neither is a substitute for a(t).
    reason : str
        In words, how it was found or why it is not known.
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


_CONVENTIONS = {WORST: "from the worst database", INFIMUM: "infimum over databases"}


def semi_adjacency(
    exact: Fiber | Iterable[ExactAnswers], convention: str = WORST, *, limit: int = 1000
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
        One-way margins, of any number of features, group labels and disjoint totals included: by an algorithm. Other exact
        answers: by listing the tables. Where these are too many, unknown.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of those above, or no table has these answers.

    Notes
    -----
    Counted in records added or removed (symmetric difference), a substitution is two.

    One-way margins. Let x and y differ in the features D, and each of their labels be a label of some record. After i says y,
    the label y_f of each feature f in D is once too often there. A set of other records that have all these labels
    among them can give them back, each for x_f, and changes no margin; a set that has not cannot. So the distance is 1 plus the least
    number of records that have the labels y_f, f in D, among them. At best one record has them all: a(t) = 2. At worst, D is
    every feature with two labels or more, y has the rarest label of each (a smaller set is never easier to
    hit), and the records, the one of i apart, are arranged so that it takes the most records to find all these labels; see
    `bayesdp.sensitivities.hitting`. With p features it is p if the rarest labels can belong to different records, that
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
    positive_integer(limit, "limit")
    fiber = exact if isinstance(exact, Fiber) else Fiber.of(exact)
    features = Features.of(fiber)
    if features is not None:
        return _of_features(features, convention)
    tables, why_not = _listed(fiber, limit)
    if tables is None:
        return SemiAdjacency(convention, 0, None, "unknown", None, None, None, None, why_not)
    infimum, worst = semi_adjacency_of_tables(tables)
    a_min, a_maxmin = nearest_databases(tables)
    value = worst if convention == WORST else infimum
    reason = f"by comparing all tables with these answers ({len(tables)})"
    return SemiAdjacency(convention, value, value, "enumeration", infimum, worst, a_min, a_maxmin, reason)


def _of_features(features: Features, convention: str) -> SemiAdjacency:
    """a(t) of one-way margins by their rarest labels: see the notes of `semi_adjacency`."""
    if not features.records:
        return SemiAdjacency(convention, 0, 0, "one-way margins", 0, 0, 0, 0, "there is no record")
    rarest = features.rarest
    twins = features.has_twins
    infimum = 2 if rarest else int(twins)
    fewest, most = largest_hitting_number(rarest, features.records - 1) if rarest else (0, 0)
    lower, upper = (1 + fewest, 1 + most) if rarest else (int(twins), int(twins))
    # The nearest database: one record that keeps its labels and changes its cell, else two that change places. A label that
    # comes with several cells is a label of some record in every database.
    nearest = 1 if twins else infimum
    exact = lower == upper or convention == INFIMUM
    reason = "by the margins of the rarest labels"
    if not exact:
        reason = f"for these {len(rarest)} features the search for the worst arrangement of records was given up"
    limits = (lower, upper) if convention == WORST else (infimum, infimum)
    return SemiAdjacency(
        convention,
        *limits,
        "one-way margins" if exact else "bound",
        infimum,
        lower if lower == upper else None,
        nearest,
        nearest,
        reason,
    )


def _listed(fiber: Fiber, limit: int) -> tuple[Ints | None, str]:
    """All tables, flat, or why they are not listed."""
    if fiber.frame.size > _LISTED_CELLS:
        return None, (
            f"the exact answers are not one-way margins, and tables of {fiber.frame.size} cells are too large to list the fiber "
            f"(the limit is {_LISTED_CELLS})"
        )
    fiber.find_point()  # an empty fiber is an error that names the answers
    try:
        tables = enumerate_fiber(fiber, limit, work=_WORK).reshape(-1, fiber.frame.size)
    except ValueError as error:
        return None, f"the exact answers are not one-way margins, and {error}"
    if len(np.unique(tables.sum(axis=1))) > 1:
        return None, "the exact answers do not fix the number of records, which Definition 13 takes as known"
    return tables, ""

"""Semi-DP where an adversary knows some records: losses by known records, and the curve over how many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import integer_array, positive_integer, shown
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import ExactAnswers
from bayesdp.privacy.guarantee import group_loss
from bayesdp.sensitivities.cliques import IMPOSSIBLE, Cliques
from bayesdp.sensitivities.semi_adjacent import SemiAdjacency, distances_of_tables, listed_tables, semi_adjacency

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SideInformation:
    """What remains for the records that are not known. Made by `side_information`.

    All but `parameter` and `loss` depend on the confidential table: it is an analysis for its owner, or of a made-up table.

    Attributes
    ----------
    known, remaining : int
        Number of records that the adversary knows, and does not know.
    adjacency : int
        a: the guarantee is about tables up to so many records apart.
    residual : Fiber
        Where the table of the remaining records lies, for all that the adversary knows.
    counts : int64 array, shape (own,)
        Number of remaining records in each cell that has any.
    cells : int64 array, shape (own,)
        These cells.
    distances : int64 array, shape (own, cells)
        How many of the remaining records change if one of them says another cell and all exact answers stay; 0 for its own
        cell, -1 where the adversary would know better: no table with these answers and the known records has a record there.
    claimable : bool array, shape (cells,)
        The cells that a record can have as long as nothing but the exact answers is known.
    limit : int
        Fibers of more tables are not listed.
    """

    known: int
    remaining: int
    adjacency: int
    residual: Fiber
    counts: Ints
    cells: Ints
    distances: Ints
    claimable: npt.NDArray[np.bool_]
    limit: int = 1000

    @property
    def nearest(self) -> Ints:
        """For each of `cells`, the fewest records that change if a record there says any other cell; -1 if it can say none."""
        others = np.where(self.distances > 0, self.distances, np.iinfo(np.int64).max).min(axis=1)
        return np.where(others == np.iinfo(np.int64).max, IMPOSSIBLE, others)

    @property
    def unprotected(self) -> float:
        """Share of the remaining records without any alternative within a records: the guarantee says nothing of them."""
        alone = (self.nearest == IMPOSSIBLE) | (self.nearest > self.adjacency)
        return float(self.counts[alone].sum()) / self.remaining

    @property
    def claims(self) -> float:
        """Share of what remaining records could claim by the exact answers alone that is still protected.

        Of all pairs of a remaining record and a `claimable` cell not its own, those at most a records away.
        """
        good = ((self.distances > 0) & (self.distances <= self.adjacency)).sum(axis=1)
        return float(self.counts @ good) / (self.remaining * (int(self.claimable.sum()) - 1))

    @cached_property
    def parameter(self) -> SemiAdjacency:
        """The semi-adjacent parameter of the remaining records.

        A smaller one than before is no better protection: there may be fewer cells left to claim.
        """
        return semi_adjacency(self.residual, limit=self.limit)

    def loss(self, loss: Mapping[str, float]) -> dict[str, float] | None:
        """The loss at the distance that still gives every remaining record all alternatives it has.

        Parameters
        ----------
        loss : mapping
            Of one substituted record, such as ``{"rho": 2.56}``; see `group_loss`.

        Returns
        -------
        dict or None
            At the upper bound of `parameter`. None where no record has an alternative: unprotected, at any loss.

        Raises
        ------
        ValueError
            If no upper bound of the parameter is known.
        """
        if self.parameter.upper is None:
            raise ValueError(f"the loss is not known: {self.parameter}")
        return group_loss(loss, self.parameter.upper) if self.parameter.upper else None


def side_information(
    exact: Fiber | Iterable[ExactAnswers],
    table: npt.ArrayLike,
    known: npt.ArrayLike,
    adjacency: int | None = None,
    *,
    limit: int = 1000,
) -> SideInformation:
    """What Semi-DP still protects if an adversary knows some of the records (Section 7).

    The protection of an ordinary guarantee does not depend on what an adversary knows of the other records. That of tables with the
    same exact answers does: a record can only pretend to be what it could be, and the known records count.
    The tables that are left are those with the exact answers and at least the known counts; without the known records, these
    are the tables with the exact answers less what the known records contribute. Records are compared
    person by person, as in Definition 13: two of the remaining persons can change places.

    Parameters
    ----------
    exact : Fiber, or iterable of Exact
        The published exact answers. They must fix the number of records.
    table : array_like of int, shape ``(*table)``
        The confidential table, or a made-up one.
    known : array_like of int, shape ``(*table)``
        How many of its records the adversary knows, cell by cell; fewer than all.
    adjacency : int, optional
        a of the guarantee; by default the semi-adjacent parameter of the exact answers, or its upper bound.
    limit : int
        Fibers of more tables are not listed.

    Returns
    -------
    SideInformation

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of those above, the table does not have the answers, or these leave nothing to protect.
    NotImplementedError
        If the exact answers are neither margins that form a junction tree nor have few enough tables to be listed.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Section 7, where the question is put.

    Examples
    --------
    Five records; four are known, and the margins give the last one away.

    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins
    >>> margins = Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> table = [[1, 1], [1, 2]]
    >>> exact = [Exact(margins, margins.apply(table))]
    >>> for known in ([[0, 0], [0, 0]], [[1, 0], [1, 1]], [[1, 1], [1, 1]]):
    ...     left = side_information(exact, table, known)
    ...     print(left.remaining, left.unprotected, round(left.claims, 3), left.loss({"epsilon": 0.5}))
    5 0.0 1.0 {'epsilon': 1.5}
    2 0.0 0.333 {'epsilon': 1.0}
    1 1.0 0.0 None
    """
    start = KnownRecords.of(exact, table, adjacency, limit)
    return start.knowing(integer_array(known, "known", start.fiber.frame.exact_cell_name, minimum=0))


@dataclass(frozen=True, eq=False)
class KnownRecords:
    """A table and its exact answers, checked once, before any record is known."""

    fiber: Fiber
    table: Ints
    adjacency: int
    claimable: npt.NDArray[np.bool_]
    limit: int

    @classmethod
    def of(
        cls, exact: Fiber | Iterable[ExactAnswers], table: npt.ArrayLike, adjacency: int | None, limit: int
    ) -> KnownRecords:
        """Check the arguments of `side_information`, and work out what records can say as long as none is known."""
        fiber = exact if isinstance(exact, Fiber) else Fiber.of(exact)
        counts = integer_array(table, "table", fiber.frame.exact_cell_name, minimum=0, confidential=True)
        if not fiber.contains(counts):
            raise ValueError(f"table must have shape {fiber.frame.shape} and the answers of exact")
        flat = counts.reshape(-1)
        claimable = np.any(_distances(fiber, flat, limit)[1] != IMPOSSIBLE, axis=0)
        if int(claimable.sum()) < 2:
            raise ValueError("exact leaves every record one possible cell, so that there is nothing to protect")
        if adjacency is None:
            parameter = semi_adjacency(fiber, limit=limit)
            if parameter.upper is None:
                raise ValueError(f"adjacency must be given: {parameter}")
            adjacency = parameter.upper
        return cls(fiber, flat, positive_integer(adjacency, "adjacency"), claimable, limit)

    def knowing(self, known: Ints) -> SideInformation:
        """What is left once so many records of each cell are known, shape (*table)."""
        fiber = self.fiber
        if known.shape != fiber.frame.shape:
            raise ValueError(f"known must have shape {fiber.frame.shape}, got {known.shape}")
        rest = self.table - known.reshape(-1)
        if np.any(rest < 0):
            raise ValueError("known must not have more records than the table in any cell")
        if not np.any(rest):
            raise ValueError("known must leave at least one record of the table unknown")
        residual = Fiber(
            fiber.frame,
            *(
                tuple((query, values - query.apply(known)) for query, values in parts)
                for parts in (fiber.equalities, fiber.bounds_below, fiber.bounds_above)
            ),
        )
        cells, distances = _distances(residual, rest, self.limit)
        return SideInformation(
            int(known.sum()),
            int(rest.sum()),
            self.adjacency,
            residual,
            rest[cells],
            cells,
            distances,
            self.claimable,
            self.limit,
        )


def _distances(fiber: Fiber, table: Ints, limit: int) -> tuple[Ints, Ints]:
    cliques = Cliques.of(fiber)
    if cliques is not None:
        return cliques.distances(table)
    tables, reason = listed_tables(fiber, limit)
    if tables is None:
        raise NotImplementedError(
            f"side information is worked out for margins that form a junction tree, and where tables can be listed: {reason}"
        )
    if len(np.unique(tables.sum(axis=1))) > 1:
        raise ValueError("exact must fix the number of records, so that databases can be compared person by person")
    return distances_of_tables(table, tables)


type Floats = npt.NDArray[np.float64]

_STEPS = 13
"""Numbers of known records of a curve, unless they are given."""


@dataclass(frozen=True, eq=False)
class SideInformationCurve:
    """How a guarantee decays with the number of known records. Made by `side_information_curve`; depends on the table.

    Attributes
    ----------
    known : int64 array, shape (k,)
        Numbers of known records.
    records : int
        Number of all records.
    adjacency : int
        a of the guarantee.
    unprotected, claims : float64 arrays, shape (orders, k)
        See `SideInformation`.
    parameter : int64 array, shape (orders, k)
        The semi-adjacent parameter of the remaining records, or its upper bound.
    """

    known: Ints
    records: int
    adjacency: int
    unprotected: Floats
    claims: Floats
    parameter: Ints

    def losses(self, loss: Mapping[str, float]) -> Floats:
        """The first parameter of a loss at the distances `parameter`, shape (orders, k); NaN where nothing is left to protect."""
        name = next(iter(loss))
        at = {a: group_loss(loss, a)[name] if a else np.nan for a in map(int, np.unique(self.parameter))}
        found: Floats = np.vectorize(at.__getitem__, otypes=[np.float64])(self.parameter)
        return found


def side_information_curve(
    exact: Fiber | Iterable[ExactAnswers],
    table: npt.ArrayLike,
    known: Iterable[int] | None = None,
    *,
    orders: int = 20,
    rng: np.random.Generator | int | None = None,
    adjacency: int | None = None,
    limit: int = 1000,
) -> SideInformationCurve:
    """How a guarantee decays as an adversary comes to know more records, in random orders.

    Parameters
    ----------
    exact, table, adjacency, limit
        As for `side_information`.
    known : iterable of int, optional
        Numbers of known records, each less than all; by default about thirteen, from none to all but one.
    orders : int
        Random orders in which records become known, all equally probable.
    rng : numpy.random.Generator, int or None
        Of the orders.

    Returns
    -------
    SideInformationCurve

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        As `side_information`.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins
    >>> margins = Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> table = [[4, 1], [2, 3]]
    >>> curve = side_information_curve([Exact(margins, margins.apply(table))], table, [0, 4, 9], orders=50, rng=1)
    >>> curve.unprotected.mean(axis=0).tolist(), (curve.claims.mean(axis=0) > [0.99, 0.8, -1]).tolist()
    ([0.0, 0.0, 1.0], [True, True, True])
    """
    start = KnownRecords.of(exact, table, adjacency, limit)
    records = int(start.table.sum())
    if known is None:
        numbers = np.unique(np.linspace(0, records - 1, _STEPS).astype(np.int64))
    else:
        numbers = integer_array(list(known), "known", minimum=0)
        if numbers.ndim != 1 or not numbers.size or np.any(numbers >= records):
            raise ValueError(
                f"known must hold numbers from 0 to {records - 1}, one less than all records, got {shown(numbers.tolist())}"
            )
    positive_integer(orders, "orders")
    source = np.random.default_rng(rng)
    people = np.repeat(np.arange(start.table.size), start.table)
    found = []
    for _ in range(orders):
        order = source.permutation(people)
        for count in numbers:
            taken = np.bincount(order[:count], minlength=start.table.size).reshape(start.fiber.frame.shape)
            found.append(start.knowing(taken))
    shape = (orders, len(numbers))
    upper = [own.parameter.upper for own in found]
    if None in upper:
        raise NotImplementedError(f"the loss is not known: {found[upper.index(None)].parameter}")
    return SideInformationCurve(
        numbers,
        records,
        start.adjacency,
        np.array([own.unprotected for own in found]).reshape(shape),
        np.array([own.claims for own in found]).reshape(shape),
        np.array(upper, dtype=np.int64).reshape(shape),
    )

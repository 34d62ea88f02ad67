"""What mechanisms protect: neighbouring tables, or tables with the same exact answers that a few substituted records set apart.

`Neighbouring` tables differ by one record, whether or not the invariants tell them apart. `SemiAdjacentTables` are those of Semi-DP;
the exact answers may be public before the release, and the noise made for what two tables with these answers can differ by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable
from bayesdp._validate import choice, integer_array, positive_integer
from bayesdp.fibers import Fiber
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.base import Mechanism
from bayesdp.privacy import (
    Difference,
    PairLoss,
    SensitivitySpace,
    caveats,
    neighbour_differences,
    projected_sensitivity,
    query_sensitivity,
)
from bayesdp.privacy.losses import Loss, LossAt
from bayesdp.privacy.sensitivities.adjacency import Features
from bayesdp.privacy.sensitivities.kept import difference_lengths
from bayesdp.privacy.sensitivities.norms import NEIGHBOURS, DifferenceLength, DifferenceNorm, determine_the_same
from bayesdp.privacy.sensitivities.semi_adjacent import Cliques, semi_adjacency
from bayesdp.privacy.sensitivities.space import CONVENTIONS
from bayesdp.privacy.words import Neighbours, SemiAdjacent, SemiAdjacentWithin, Statement
from bayesdp.queries import Query, shown_unit
from bayesdp.queries.query import checked_query
from bayesdp.release import Exact


@dataclass(frozen=True)
class Neighbouring(Mechanism):
    """Publish noisy answers of a query so that neighbouring tables are hard to tell apart.

    Parameters
    ----------
    query : Query, optional
        What the noise is added to; the cells themselves (`Identity`) if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    """

    query: Any = field(default=None, kw_only=True)
    neighbours: str = field(default="substitution", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        self._take_query()

    @cached_property
    def sensitivity(self) -> float:
        """The largest distance between the answers of neighbouring tables, in counts, in the norm of the noise."""
        return query_sensitivity(self.released_query, self._unit, self.neighbours)

    @cached_property
    def _neighbours_apart(self) -> tuple[float, str]:
        """How far neighbouring tables are apart in the noise space, and whether all are: a key of `BOUNDS`."""
        return self.sensitivity, ""

    @property
    def _measure(self) -> dict[str, Any]:
        """How the noise measures differences: what `DifferenceNorm` takes beside the query and what is protected."""
        return {"kind": self._unit}

    @cached_property
    def _lengths(self) -> tuple[DifferenceLength, ...]:
        measured = (self.released_query, self.invariants, self.neighbours, self._neighbours_apart[0])
        return difference_lengths(DifferenceNorm(*measured, **self._measure))

    def _relation_rows(self) -> tuple[PairLoss, ...]:
        (size, bound), stated = self._neighbours_apart, self._loss
        loss = stated if size == self.sensitivity else self._loss_at(size).to(stated.kind)
        return (PairLoss(Neighbours(self.neighbours, "all", bound), size, self._unit, loss),)

    def _caveats(self, method: str) -> tuple[Statement, ...]:
        bounded = (caveats.Fixed("upper bounds"),) if any(kept.bound == "upper" for kept in self._lengths) else ()
        missing = () if self._lengths else (caveats.Fixed("no kept differences"),)
        return (*self._law_caveats, *bounded, *missing, *self._drawing_caveats, caveats.Fixed("subspace"))


@dataclass(frozen=True)
class WithinNoiseSpace(Neighbouring):
    """The same for what the invariants leave free of the answers, which has a sensitivity of its own."""

    @cached_property
    def sensitivity(self) -> float:
        """The largest distance between the answers of neighbouring tables, projected onto the noise space, in counts."""
        return projected_sensitivity(self.released_query, self.invariants, self._unit, self.neighbours)


@dataclass(frozen=True)
class FittedToNeighbours(Neighbouring):
    """The same for noise whose shape is made of the differences of neighbours, in orthonormal coordinates of the noise space.

    Raises
    ------
    ValueError
        Also where there are too many differences of neighbours to list, or they leave a direction of the noise space alone.
    """

    @property
    def sensitivity(self) -> float:
        """The largest distance between the answers of neighbouring tables, in the norm of the noise: 1, by its scaling."""
        return 1.0

    @cached_property
    def _vectors(self) -> Floats:
        return neighbour_differences(self.released_query, self.invariants, self.neighbours)

    def _check_spanned(self, consequence: str) -> None:
        """Refuse neighbours that leave a direction of the noise space alone."""
        vectors, dimension = self._vectors, self.answer_invariants.dimension
        spanned = int(np.linalg.matrix_rank(np.linalg.qr(vectors, mode="r"), rtol=1e-9)) if len(vectors) else 0
        if spanned < dimension:
            raise ValueError(
                f"differences of neighbours (neighbours={self.neighbours!r}) span {spanned} of the {dimension} dimensions of the "
                f"noise, so that {consequence}: with substitution, add the total number of records to the invariants, or take "
                "neighbours='add-remove'"
            )


@dataclass(frozen=True)
class AnswersMechanism(Neighbouring):
    """Publish noisy answers of a query, each with noise of its own, and nothing exactly.

    Parameters
    ----------
    table : Query, or labels of a table
        What the noise is added to: a query, or the cells of a table.
    query : Query, optional
        The query, where `table` is the labels.
    """

    _for_invariants: ClassVar[str] = "LatticeLaplace"
    """What messages advise to those who have invariants."""

    def _prepare(self, table: Any, query: Any, neighbours: str, **parameters: Any) -> None:
        """Set all fields, for a signature that begins with the table, and check them."""
        self._set(invariants=table, query=query, neighbours=neighbours, **parameters)
        self.__post_init__()

    def __post_init__(self) -> None:
        table: Any = self.invariants
        if isinstance(table, Query):
            if self.query is not None:
                raise ValueError("give the query once: as the first argument or as query=")
            self._set(query=table)
            table = table.frame
        invariants = table if isinstance(table, Invariants) else Invariants((), table)
        if invariants.query.parts:
            raise ValueError(
                f"{type(self).__name__} publishes nothing exactly; for invariants there is {self._for_invariants}"
            )
        self._set(invariants=invariants)
        super().__post_init__()
        if not self.sensitivity:
            raise ValueError(
                f"no two neighbouring tables ({NEIGHBOURS[self.neighbours]}) have different answers, so that there is nothing for "
                f"the noise to hide: {', '.join(map(printable, self.released_query.names[:3]))}"
            )

    def _take_query(self) -> None:
        # Without invariants answers are determined only by one another, which noise of their own each does not mind.
        self._set(query=checked_query(self.released_query, self.frame, "the same table"))

    @property
    def _lengths(self) -> tuple[DifferenceLength, ...]:
        return ()

    @property
    def _neighbours_loss(self) -> Loss:
        """What neighbouring tables lose: what is stated, unless the noise costs less."""
        return self._loss

    def _relation_rows(self) -> tuple[PairLoss, ...]:
        return (PairLoss(Neighbours(self.neighbours), self.sensitivity, self._unit, self._neighbours_loss),)

    def _caveats(self, method: str) -> tuple[Statement, ...]:
        return (*self._law_caveats, *self._drawing_caveats)


_ASK = (
    "adjacency must be given for these invariants: how many records change along with one depends on the published totals, "
    "and is known from labels alone for one-way margins and disjoint totals only. Compute it from the exact answers: "
    "bayesdp.privacy.semi_adjacency([Exact(query, answers), ...]).value, or semi_adjacency(release.fiber).value"
)


def safe_adjacency(invariants: Invariants) -> int | None:
    """The largest semi-adjacent parameter that any answers to these queries can have, where labels tell it; else None.

    For margins of p features without a common dimension it is p + 1 (Cho and Awan, Theorem 16 and Remark 17); disjoint totals
    are one feature; a grand total, or nothing, is none. Features with one label do not count.
    """
    if not invariants.rank:
        return 1
    nested, blocks = invariants.nested, invariants.blocks
    if nested is None:
        return None if blocks is None or np.any(blocks < 0) else 1 + (int(blocks.max()) > 0)
    axes = [axis for levels in nested.generators for axis, level in enumerate(levels) if level]
    if len(set(axes)) < len(axes):
        return None
    labels = [
        int(np.prod([nested.axes[axis].classes[level] for axis, level in enumerate(levels)]))
        for levels in nested.generators
    ]
    return 1 + sum(count > 1 for count in labels)


def _exact(query: Query, answers: Any) -> Exact:
    if np.size(answers) != query.rows:
        raise ValueError(f"published must have {query.rows} answers to {query!r}, got {np.size(answers)}")
    return Exact(query, np.reshape(integer_array(answers, "published", query.answer_name), query.shape))


@dataclass(frozen=True)
class SemiAdjacentTables(Mechanism):
    """Publish a table so that tables which conform to the same invariants, and are a few records apart, are hard to tell apart.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    adjacency : int, optional
        How many substituted records two protected tables may be apart. Left out, a number that is safe whatever the published
        totals are: p + 1 for one-way margins of p features (3 for both margins of a table), 2 for disjoint totals, 1 for a
        grand total. Where labels do not tell it, it must be given: see `bayesdp.privacy.semi_adjacency`.
    convention : {"definition", "paper"}
        ``"paper"``: noise for the sensitivity space that Proposition 32 prints, which leaves out that three records can
        form a 3-cycle; `guarantee` then states the true loss. For both margins of a table and ``adjacency=3``.
    published : iterable of Exact, or Fiber, optional
        The answers to the invariants, where they are public before the release. The noise is then made for the differences that
        two tables with these answers can have, and `adjacency` is by default the semi-adjacent parameter of these answers (or its
        upper bound): less noise for sparse tables. The release refuses tables with other answers.
    """

    adjacency: Any = field(default=None, kw_only=True)  # an int once made
    convention: str = field(default="definition", kw_only=True)
    published: Any = field(default=None, kw_only=True)  # for each part of the invariants its answers, once made

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.convention, CONVENTIONS, "convention")
        if self.published is not None:
            self._take_published(self.published)
            if self.convention == "paper":
                raise ValueError("convention='paper' is for invariants whatever their answers are: leave out published")
        bound = self._enough if self.adjacency is None else self.adjacency
        if bound is None:
            raise ValueError(_ASK)
        if self.published is not None and self.adjacency is None and not bound:
            raise ValueError("published determines the cell of every record, so that there is nothing left to protect")
        self._set(adjacency=positive_integer(bound, "adjacency"))
        self._reach()

    def _take_published(self, given: Any) -> None:
        """Keep the answers out of a fiber, exact answers, or one list of numbers for each part of the invariants."""
        if isinstance(given, (str, Mapping, Exact)) or not isinstance(given, (Fiber, Iterable)):
            raise TypeError(f"published must be a list of Exact answers, or a Fiber, got {type(given).__name__}")
        queries, listed = self._exact_queries, given if isinstance(given, Fiber) else list(given)
        if isinstance(listed, list) and not all(isinstance(item, Exact) for item in listed):
            if len(listed) != len(queries):
                raise ValueError(
                    f"published must have one list of answers for each of the {len(queries)} parts of the invariants, "
                    f"got {len(listed)}"
                )
            listed = [_exact(query, answers) for query, answers in zip(queries, listed, strict=True)]
        fiber = listed if isinstance(listed, Fiber) else Fiber.of(listed, self.frame)
        if not fiber.frame.same_cells(self.frame):
            raise ValueError("published must be about the same table as the invariants (same dimensions and labels)")
        if fiber.bounds_below or fiber.bounds_above:
            raise ValueError("published must be exact answers, but some of them are bounds (>= or <=)")
        if not fiber.equalities or not determine_the_same(self.invariants, fiber.invariants):
            raise ValueError(
                f"published must be the answers to the invariants, {self.invariants!r}, neither fewer nor more, got answers to "
                f"{fiber.invariants!r}"
            )
        point = fiber.find_point()
        self._set(published=tuple(tuple(np.asarray(query.apply(point)).reshape(-1).tolist()) for query in queries))

    def _reach(self) -> None:
        """Refuse an adjacency that leaves something without noise."""
        if self.published is not None:
            if not self.space.delta("l1"):
                differing = "" if self.released_query.is_identity else " and differ in an answer of the query"
                raise ValueError(
                    f"adjacency={self.adjacency!r}: no two tables with the published answers are so few substituted records "
                    f"apart{differing} (records may still change places, which leaves the table as it is). Give a greater adjacency"
                )
            return
        free = self.answer_invariants.dimension
        missing = free - self.space.noise_space.dimension
        if missing or self.space.rank < free:
            hint = (
                "Substituted records keep the number of records: add the grand total, Totals(table), to the invariants"
                if missing
                else "Take a greater adjacency"
            )
            raise ValueError(
                f"adjacency={self.adjacency!r}: what so many substituted records can change without changing the invariants "
                f"spans {self.space.rank} of the {free} dimensions that these leave free, and the rest would be "
                f"published without noise. {hint}"
            )

    @cached_property
    def space(self) -> SensitivitySpace:
        """The sensitivity space that the noise is made for; ``space.corrected`` is that of the definition."""
        return SensitivitySpace.semi(
            self.invariants,
            self.adjacency,
            self.released_query,
            convention=self.convention,
            realised_in=self.published_fiber,
        )

    @cached_property
    def published_fiber(self) -> Fiber | None:
        """The tables with the published answers that the noise is made for; None if it is made for any answers."""
        if self.published is None:
            return None
        return Fiber.of(list(map(_exact, self._exact_queries, self.published)), self.frame)

    @cached_property
    def _enough(self) -> int | None:
        """So many records are enough for every value of every record to have a protected alternative; None where not known."""
        bound = safe_adjacency(self.invariants)
        fiber = self.published_fiber
        if fiber is None or (Features.of(fiber) is None and Cliques.of(fiber) is None):
            return bound  # other answers take long, and a file must be read in a second or two
        found = semi_adjacency(fiber, limit=1).upper
        return min((enough for enough in (bound, found) if enough is not None), default=None)

    @property
    def sensitivity(self) -> float:
        """The largest distance in `space`, in the norm of the noise: what the scale is made for."""
        return self.space.delta(self._unit)

    @property
    def true_sensitivity(self) -> float:
        """The same of the definition: greater than `sensitivity` under the paper's convention only."""
        return self.space.corrected.delta(self._unit)

    def _size_of(self, difference: Difference) -> float | None:
        """The size of a kind of difference in the norm of the noise; None where it is not known."""
        return difference.size(self._unit)

    @cached_property
    def _lengths(self) -> tuple[DifferenceLength, ...]:
        if not self.released_query.is_identity:
            return ()
        sizes = ((kind, self._size_of(kind)) for kind in self.differences)
        return tuple(DifferenceLength(kind, size, "") for kind, size in sizes if size is not None)

    @property
    def _stated(self) -> LossAt:
        return LossAt(self._loss_at(self.sensitivity), self.sensitivity)

    def _relation_rows(self) -> tuple[PairLoss, ...]:
        relation = SemiAdjacent if self.published is None else SemiAdjacentWithin
        size = self.true_sensitivity
        return (PairLoss(relation(self.adjacency), size, self._unit, self._loss_at(size)),)

    def _caveats(self, method: str) -> tuple[Statement, ...]:
        found: list[Statement] = [self._adjacency_caveat()]
        if self.published is not None:
            found.append(caveats.ForPublished(self._unit, self.sensitivity))
        if self.convention == "paper":
            printed, true = self.sensitivity, self.true_sensitivity
            found.append(caveats.PaperSpace(self._unit, printed, true, self._loss_at(printed), self._loss_at(true)))
        query = self.released_query
        if not query.is_identity:
            found.append(caveats.Fixed("exact answers"))
            if query.unit not in (None, 1):
                found.append(caveats.InUnits(shown_unit(query.unit)))
        sampler = self._drawn_by(method)
        if sampler is not None:
            found.append(caveats.Drawn(sampler.words))
        return (*found, *self._law_caveats, *self._drawing_caveats)

    def _adjacency_caveat(self) -> Statement:
        bound = safe_adjacency(self.invariants)
        if bound is not None and self.adjacency >= bound:
            return caveats.AdjacencyEnough(bound)
        enough = None if self.published is None else self._enough
        return (
            caveats.AdjacencyOpen(self.adjacency)
            if enough is None or self.adjacency < enough
            else caveats.AdjacencyEnoughHere(enough)
        )

    def _conforming(self, counts: Ints) -> Ints:
        for query, answers in zip(self._exact_queries, self.published or (), strict=False):
            other = np.flatnonzero(np.asarray(query.apply(counts)).reshape(-1) != np.asarray(answers))
            if other.size:
                row = int(other[0])
                raise ValueError(
                    f"table must have the published answers that the noise is made for, but {query.answer_name(row)} is not "
                    f"{answers[row]}: give the mechanism the answers of this table"
                )
        return counts


@dataclass(frozen=True)
class SemiAdjacentAnswers(SemiAdjacentTables):
    """The same with noise on the answers of a query, on the span of what they can change by (Cho and Awan, Algorithms 1 and 2).

    Parameters
    ----------
    query : Query, optional
        What the noise is added to: ``W``; the cells themselves if left out. The sensitivity space is that of the answers,
        ``{W z}``, and the noise lives on its span; answers and combinations of answers that the invariants determine have no noise.
        Real coefficients: `LinearQuery.of_values`, whose answers, and with them the noise and its
        scale here, are counted in multiples of a unit; ``mechanism.query.unit`` times that is in the user's unit.
    """

    query: Any = field(default=None, kw_only=True)

    def _reach(self) -> None:
        self._take_query()
        super()._reach()

    def _take_query(self) -> None:
        super()._take_query()
        if self.convention == "paper" and not self.query.is_identity:
            raise ValueError(
                "convention='paper' is Proposition 32, about the cells of a table: leave out query, or take convention='definition'"
            )
        if self.query.unit is None:
            raise ValueError(
                f"query must have one unit, since noise has one scale for all answers, but its parts have the units "
                f"{', '.join(map(shown_unit, self.query.units))}: state all answers in one LinearQuery.of_values(..., unit=...)"
            )

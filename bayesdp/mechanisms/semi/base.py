"""What the mechanisms of Semi-DP share: which tables they protect, and how far these are apart.

Exact answers that a mechanism of Semi-DP is made for: they are public before the release, and part of its description.

What the mechanisms of Semi-DP share that answer any query: noise on the span of what the answers can change by.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import Seed, choice, integer_array, positive_integer
from bayesdp.fibers import Fiber
from bayesdp.invariants import Invariants
from bayesdp.mechanisms._shared import drawn_exactly, grid_caveat, grid_for, on_grid
from bayesdp.mechanisms.base import AdditiveMechanism
from bayesdp.privacy import (
    EXACT_SAMPLER,
    FLOATING_POINT_CAVEAT,
    Difference,
    Guarantee,
    PairLoss,
    SemiGuarantee,
    SensitivitySpace,
    TradeOff,
    approximate_dp,
)
from bayesdp.privacy.caveats import (
    AdjacencyEnough,
    AdjacencyEnoughHere,
    AdjacencyOpen,
    Fixed,
    ForPublished,
    InUnits,
    PaperSpace,
)
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import LossAt
from bayesdp.privacy.pairs import Kept, SemiAdjacent, SemiAdjacentWithin
from bayesdp.privacy.words import SamplerStatement, Statement
from bayesdp.queries import Identity, Query, shown_unit
from bayesdp.queries.query import checked_query
from bayesdp.release import Exact, Release
from bayesdp.sensitivities.cliques import Cliques
from bayesdp.sensitivities.differences import Features
from bayesdp.sensitivities.norms import determine_the_same, exact_rank
from bayesdp.sensitivities.semi_adjacent import semi_adjacency
from bayesdp.sensitivities.space import CONVENTIONS

type Answers = tuple[tuple[int, ...], ...]
"""For each part of the invariants its answers, in the order of the query."""


def published_answers(invariants: Invariants, given: Any) -> Answers:
    """The answers to the invariants out of a fiber, exact answers, or one list of numbers for each part."""
    if isinstance(given, (str, Mapping, Exact)) or not isinstance(given, (Fiber, Iterable)):
        raise TypeError(f"published must be a list of Exact answers, or a Fiber, got {type(given).__name__}")
    parts = [Query(invariants.frame, (part,)) for part in invariants.query.parts]
    listed = given if isinstance(given, Fiber) else list(given)
    if isinstance(listed, list) and not all(isinstance(own, Exact) for own in listed):
        if len(listed) != len(parts):
            raise ValueError(
                f"published must have one list of answers for each of the {len(parts)} parts of the invariants, got {len(listed)}"
            )
        listed = [
            Exact(query, np.reshape(integer_array(own, "published", query.answer_name), query.shape))
            if np.size(own) == query.rows
            else _wrong_size(query, own)
            for query, own in zip(parts, listed, strict=True)
        ]
    fiber = listed if isinstance(listed, Fiber) else Fiber.of(listed, invariants.frame)
    if not fiber.frame.same_cells(invariants.frame):  # a fiber that was given
        raise ValueError("published must be about the same table as the invariants (same dimensions and labels)")
    if fiber.bounds_below or fiber.bounds_above:
        raise ValueError("published must be exact answers, but some of them are bounds (>= or <=)")
    if not fiber.equalities or not determine_the_same(invariants, fiber.invariants):
        raise ValueError(
            f"published must be the answers to the invariants, {invariants!r}, neither fewer nor more, got answers to "
            f"{fiber.invariants!r}"
        )
    point = fiber.find_point()
    return tuple(tuple(np.asarray(query.apply(point)).reshape(-1).tolist()) for query in parts)


def _wrong_size(query: Query, own: Any) -> Exact:
    raise ValueError(f"published must have {query.rows} answers to {query!r}, got {np.size(own)}")


def published_fiber(invariants: Invariants, answers: Answers) -> Fiber:
    """The tables with these answers."""
    parts = [Query(invariants.frame, (part,)) for part in invariants.query.parts]
    exact = [Exact(query, np.reshape(own, query.shape)) for query, own in zip(parts, answers, strict=True)]
    return Fiber.of(exact, invariants.frame)


def refuse_other(invariants: Invariants, answers: Answers, counts: npt.NDArray[np.int64]) -> None:
    """ValueError if a confidential table has other answers than those published; only what is public is shown."""
    for part, own in zip(invariants.query.parts, answers, strict=True):
        query = Query(invariants.frame, (part,))
        other = np.flatnonzero(np.asarray(query.apply(counts)).reshape(-1) != np.asarray(own))
        if other.size:
            row = int(other[0])
            raise ValueError(
                f"table must have the published answers that the noise is made for, but {query.answer_name(row)} is not "
                f"{own[row]}: give the mechanism the answers of this table"
            )


_NO_NOISE = 1e-9
"""Length of the projection of a sum onto the noise space below which it is zero."""


_ASK = (
    "adjacency must be given for these invariants: how many records change along with one depends on the published totals, "
    "and is known from labels alone for one-way margins and disjoint totals only. Compute it from the exact answers: "
    "bayesdp.privacy.semi_adjacency([Exact(query, answers), ...]).value, or semi_adjacency(release.fiber).value"
)


def safe_adjacency(invariants: Invariants) -> int | None:
    """The largest semi-adjacent parameter that any answers to these queries can have, where labels tell it; else None.

    For margins of p features without a common dimension it is p + 1 (Cho and Awan, Theorem 16 and Remark 17); disjoint totals
    are one feature; a grand total, or nothing, is none. Features with one label do not count.

    Examples
    --------
    >>> from bayesdp.queries import Margins, Totals
    >>> table = {"sex": ["F", "M"], "age": ["young", "old"], "admitted": ["no", "yes"]}
    >>> [safe_adjacency(Invariants(query)) for query in (
    ...     Totals(table),
    ...     Margins(table, ["sex"]),
    ...     Margins(table, ["sex"], ["age"], ["admitted"]),
    ...     Margins(table, ["sex", "age"], ["admitted"]),
    ...     Margins(table, ["sex", "age"], ["age", "admitted"]),
    ... )]
    [1, 2, 4, 3, None]
    """
    if not invariants.rank:
        return 1
    nested, blocks = invariants.nested, invariants.blocks
    if nested is None:
        return None if blocks is None or np.any(blocks < 0) else 1 + (int(blocks.max()) > 0)
    kept = [[axis for axis, level in enumerate(own) if level] for own in nested.generators]
    if len({axis for own in kept for axis in own}) < sum(map(len, kept)):
        return None
    labels = [
        int(np.prod([nested.axes[axis].classes[level] for axis, level in enumerate(own)])) for own in nested.generators
    ]
    return 1 + sum(count > 1 for count in labels)


@dataclass(frozen=True)
class SemiMechanism(AdditiveMechanism):
    """Publish a table so that tables which conform to the same invariants, and are a few records apart, are hard to tell apart.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    adjacency : int, optional
        How many substituted records two protected tables may be apart. Left out, a number that is safe whatever the published
        totals are: p + 1 for one-way margins of p features (3 for both margins of a table), 2 for disjoint totals, 1 for a
        grand total. Where labels do not tell it, it must be given.
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
    published: Any = field(default=None, kw_only=True)  # Answers once made, or None

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.convention, CONVENTIONS, "convention")
        if self.published is not None:
            object.__setattr__(self, "published", published_answers(self.invariants, self.published))
            if self.convention == "paper":
                raise ValueError("convention='paper' is for invariants whatever their answers are: leave out published")
        bound = self._enough if self.adjacency is None else self.adjacency
        if bound is None:
            raise ValueError(_ASK)
        if self.published is not None and self.adjacency is None and not bound:
            raise ValueError("published determines the cell of every record, so that there is nothing left to protect")
        object.__setattr__(self, "adjacency", positive_integer(bound, "adjacency"))
        self._check_query()
        self._reach()

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
        own = self.answer_invariants
        missing = own.dimension - self.space.noise_space.dimension
        if missing or self.space.rank < own.dimension:
            hint = (
                "Substituted records keep the number of records: add the grand total, Totals(table), to the invariants"
                if missing
                else "Take a greater adjacency"
            )
            raise ValueError(
                f"adjacency={self.adjacency!r}: what so many substituted records can change without changing the invariants "
                f"spans {self.space.rank} of the {own.dimension} dimensions that these leave free, and the rest would be "
                f"published without noise. {hint}"
            )

    def _check_query(self) -> None:
        """Refuse a query that has no noise; for mechanisms on the cells there is nothing to ask."""

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
        return None if self.published is None else published_fiber(self.invariants, self.published)

    @cached_property
    def _enough(self) -> int | None:
        """So many records are enough for every value of every record to have a protected alternative; None where not known."""
        bound = safe_adjacency(self.invariants)
        fiber = self.published_fiber
        if fiber is None or (Features.of(fiber) is None and Cliques.of(fiber) is None):
            return bound  # other answers take long, and a file must be read in a second or two
        found = semi_adjacency(fiber, limit=1).upper
        return min((own for own in (bound, found) if own is not None), default=None)

    @property
    def sensitivity(self) -> float:
        """The largest distance in `space`, in the norm of the noise: what the scale is made for."""
        return self.space.delta(self._unit)

    @property
    def true_sensitivity(self) -> float:
        """The same of the definition: greater than `sensitivity` under the paper's convention only."""
        return self.space.corrected.delta(self._unit)

    @abstractmethod
    def _loss_at(self, size: float) -> Loss:
        """The loss for two tables so far apart, in the norm of the noise."""

    def _size_of(self, difference: Difference) -> float | None:
        """The size of a kind of difference in the norm of the noise; None where it is not known."""
        return difference.size(self._unit)

    @property
    @abstractmethod
    def _unit(self) -> str:
        """The norm of the noise, as a guarantee names it."""

    @property
    def tradeoff(self) -> TradeOff:
        """The trade-off function f of `semi_guarantee`: those of all tables that are protected are f or above it."""
        return approximate_dp(self._loss_at(self.true_sensitivity).parameters["epsilon"])

    @property
    def semi_guarantee(self) -> SemiGuarantee:
        """The guarantee as the triple (D_t, A_a, f), to compare with others by `bayesdp.papers.semi_dp.compare`; the true one."""
        return SemiGuarantee(self.tradeoff, self.adjacency, self.invariants)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Statement, ...]]:
        """The sampler's line in the guarantee, and sentences about it."""
        return EXACT_SAMPLER, (FLOATING_POINT_CAVEAT,)

    def _guarantee(self, method: str) -> Guarantee:
        sampler, sentences = self._how(method)
        stated = self._loss_at(self.sensitivity)
        apart = SemiAdjacent(self.adjacency) if self.published is None else SemiAdjacentWithin(self.adjacency)
        rows = [PairLoss(apart, self.true_sensitivity, self._unit, self._loss_at(self.true_sensitivity))]
        for difference in self.differences if self.released_query.is_identity else ():
            size = self._size_of(difference)
            if size is not None:
                rows.append(PairLoss(Kept(difference), size, self._unit, self._loss_at(size)))
        return Guarantee(
            stated.kind,
            LossAt(stated, self.sensitivity),
            self._unit,
            tuple(rows),
            sampler=sampler,
            caveats=(
                self._adjacency_caveat(),
                *self._published_caveats(),
                *self._convention_caveats(),
                *self._query_caveats(),
                *sentences,
            ),
        )

    def _published_caveats(self) -> tuple[Statement, ...]:
        return () if self.published is None else (ForPublished(self._unit, self.sensitivity),)

    def release(self, table: Any, rng: Seed = None, method: str = "auto") -> Release:
        """See `Mechanism.release`; with `published`, a table with other answers is refused."""
        if self.published is not None:
            refuse_other(self.invariants, self.published, self._counts(table))
        return super().release(table, rng, method)

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`."""
        description = super().describe()
        if self.published is not None:
            description["published"] = [list(own) for own in self.published]
        return description

    def _adjacency_caveat(self) -> AdjacencyEnough | AdjacencyEnoughHere | AdjacencyOpen:
        bound = safe_adjacency(self.invariants)
        if self.published is not None and (bound is None or self.adjacency < bound):
            enough = self._enough
            if enough is None or self.adjacency < enough:
                return AdjacencyOpen(self.adjacency)
            return AdjacencyEnoughHere(enough)
        return AdjacencyOpen(self.adjacency) if bound is None or self.adjacency < bound else AdjacencyEnough(bound)

    def _query_caveats(self) -> tuple[Statement, ...]:
        """What is said where the noise is not on the cells."""
        query = self.released_query
        if query.is_identity:
            return ()
        counted = () if query.unit in (None, 1) else (InUnits(shown_unit(query.unit)),)
        return (Fixed("exact answers"), *counted)

    def _convention_caveats(self) -> tuple[Statement, ...]:
        if self.convention == "definition":
            return ()
        printed, true = self._loss_at(self.sensitivity), self._loss_at(self.true_sensitivity)
        return (PaperSpace(self._unit, self.sensitivity, self.true_sensitivity, printed, true),)


@dataclass(frozen=True)
class SemiRealMechanism(SemiMechanism):
    """The same with real noise, on a public grid."""

    @property
    @abstractmethod
    def _noise_scale(self) -> float:
        """The smallest scale of the noise, for the grid of released values."""

    @property
    def grid(self) -> float:
        """Released values are multiples of this power of two, at most 1 so that counts are on it."""
        return grid_for(self._noise_scale)

    @property
    def _noise_step(self) -> float:
        return self.grid

    def _raw(self, rng: np.random.Generator, size: int, method: str) -> npt.NDArray[np.float64]:
        """Noise before it is put on the grid, shape (size, *answers)."""
        relations = self.answer_invariants
        return np.asarray(self.law.draw(rng, relations.frame.shape, size, relations))

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Statement, ...]]:
        drawn_exactly(method)
        return EXACT_SAMPLER, (FLOATING_POINT_CAVEAT, grid_caveat(self.grid))

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        self._how(method)  # refuses unknown methods
        return on_grid(
            self._raw(np.random.default_rng() if rng is None else rng, size, method), self.grid, self.answer_invariants
        )


@dataclass(frozen=True)
class SemiQueryMechanism(SemiRealMechanism):
    """Real noise on the answers of a query (Cho and Awan, Algorithms 1 and 2).

    Parameters
    ----------
    query : Query, optional
        What the noise is added to; the cells themselves (`Identity`) if left out.
    """

    query: Any = field(default=None, kw_only=True)

    @property
    def released_query(self) -> Query:
        """The query whose answers get the noise."""
        query: Query = self.query
        return query

    def _check_query(self) -> None:
        asked = checked_query(Identity(self.frame) if self.query is None else self.query, self.frame)
        if self.convention == "paper" and not asked.is_identity:
            raise ValueError(
                "convention='paper' is Proposition 32, about the cells of a table: leave out query, or take convention='definition'"
            )
        if asked.unit is None:
            raise ValueError(
                f"query must have one unit, since noise has one scale for all answers, but its parts have the units "
                f"{', '.join(map(shown_unit, asked.units))}: state all answers in one LinearQuery.of_values(..., unit=...)"
            )
        object.__setattr__(self, "query", asked)
        if not self.answer_invariants.dimension:
            raise ValueError(
                "the invariants determine every answer of the query, so that there is nothing left to add noise to: "
                f"{', '.join(map(printable, asked.names[:3]))} ..."
            )

    @cached_property
    def exact_answers(self) -> tuple[str, ...]:
        """The names of the answers that the invariants determine; they are published without noise.

        Examples
        --------
        >>> from bayesdp import Margins, SemiGaussian
        >>> table = {"sex": ["F", "M"], "age": ["young", "old"]}
        >>> asked = Margins(table, ["sex"]) + Margins(table, ["age"])
        >>> SemiGaussian(Margins(table, ["sex"]), mu=1.0, query=asked).exact_answers
        ('sex=F', 'sex=M')
        """
        relations = self.answer_invariants
        if self.published is not None:
            # What published answers allow may span less than the noise does: e_i is determined if the relations span it.
            matrix = np.asarray(relations.matrix.toarray(), dtype=np.int64)
            units = np.eye(matrix.shape[1], dtype=np.int64)
            fixed = np.array([exact_rank(np.vstack([matrix, own])) == relations.rank for own in units])
        elif self.space.is_of_answers and relations.nested is not None:
            # The squared lengths are products of shares 1 / k and 1 - 1 / k, k a number of labels: far from zero or zero.
            free = relations.from_coordinates(np.eye(relations.dimension)).reshape(relations.dimension, -1)
            fixed = np.linalg.norm(free, axis=0) < _NO_NOISE
        else:
            fixed = ~np.any(self.space.differences, axis=0)  # they span the noise space, and are whole numbers
        return tuple(self.released_query.answer_name(int(i)) for i in np.flatnonzero(fixed))

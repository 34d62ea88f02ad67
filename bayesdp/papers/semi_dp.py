"""Statements of Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, in numbers.

- Proposition 11 and what follows from it beside exact answers: `full_characterization`, `semi_guarantee`, `margin_guarantee`;
- Definition 20, which of two guarantees protects more, or neither: `compare`;
- Proposition 26, projection of any additive noise: `semi_project`;
- Lemma 34, whether a test is private: `private_test`;
- Section 6, the census of 2020: `census_analysis`, and query by query `census_queries`;
- Section 7, an adversary who knows some records: `side_information`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import instance, integer_array, positive_integer
from bayesdp.datasets.nmf.products import LEVELS, QUERIES, RHO, share_of
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import ExactAnswers
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.base import with_person
from bayesdp.mechanisms.protects import safe_adjacency
from bayesdp.mechanisms.real import grid_caveat
from bayesdp.noise import NoiseLaw
from bayesdp.papers.subspace import GRID, FrameworkMechanism
from bayesdp.privacy import FLOATING_POINT_CAVEAT, Guarantee, PairLoss
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.gaussian import rho_to_epsilon
from bayesdp.privacy.guarantee import group_loss
from bayesdp.privacy.semi_guarantees import SemiGuarantee, fixes_total, follows
from bayesdp.privacy.sensitivities.adjacency import Features, conforming_pairs, record_distance
from bayesdp.privacy.sensitivities.semi_adjacent import (
    IMPOSSIBLE,
    Cliques,
    SemiAdjacency,
    distances_of_tables,
    listed_tables,
    semi_adjacency,
)
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import GaussianTradeOff, approximate_dp
from bayesdp.privacy.words import SemiAdjacent, Statement
from bayesdp.queries import Query, Totals

__all__ = [
    "CensusQuery", "CensusRow", "Comparison", "PrivateTest", "SemiProjectedMechanism", "SideInformation", "census_analysis",
    "census_queries", "compare", "full_characterization", "margin_guarantee", "private_test", "semi_guarantee",
    "semi_project", "side_information",
]  # fmt: skip


type Table = npt.ArrayLike
type Test = Callable[[Ints], float]
type Exacts = Fiber | Iterable[ExactAnswers]

_TABLES = 1000
"""Fibers of more tables are not listed."""

_CONVENTIONS = {"tight": "tight", "paper": "bun-steinke"}


@dataclass(frozen=True)
class CensusRow:
    """The zCDP loss `rho` between two tables that agree on the invariants and differ in up to `a` records; made by `census_analysis`.

    At a = 1 it is the loss as stated: that of a record which changes alone, as one within its state can. One that leaves it needs
    another that moves the other way, and is at distance 2. `epsilon` at `delta` is by the conversion that was asked for,
    `epsilon_tight` by the tight one, which is never larger.
    """

    a: int
    rho: float
    delta: float
    epsilon: float
    epsilon_tight: float

    def __str__(self) -> str:
        epsilons = f"epsilon = {self.epsilon:.5f} (tight: {self.epsilon_tight:.5f})"
        return f"a = {self.a}: rho = {self.rho:.6g}, {epsilons} at delta = {self.delta:g}"


def census_analysis(
    rho: float = 2.56, a: int | Iterable[int] = (1, 2), delta: float = 1e-10, convention: str = "tight"
) -> tuple[CensusRow, ...]:
    """Give the loss of a rho-zCDP release with invariants, for tables at the distances that the invariants allow.

    Group privacy makes rho-zCDP of one record ``a**2 rho`` of a records (Bun and Steinke, 2016, Proposition 1.9; Lemma 39), and that
    is the guarantee for tables that agree on the invariants and differ in up to a records. With the invariants of the 2020 census
    that concern persons, the total of each state, ``a = 2``: somebody is replaced, and somebody else moves the other way.

    Parameters
    ----------
    rho : float, default 2.56
        zCDP loss for one record; 2.56 was spent on the person tables of the 2020 redistricting data.
    a : int or iterable of int, default (1, 2)
        Distances, usually 1 and the semi-adjacent parameter of the invariants.
    delta, convention : float, {"tight", "paper"}
        Conversion of `CensusRow.epsilon`: the tight one, or that of Bun and Steinke, which the paper prints. Both are valid.

    Examples
    --------
    >>> for row in census_analysis(convention="paper"):
    ...     print(row)
    a = 1: rho = 2.56, epsilon = 17.91528 (tight: 17.15831) at delta = 1e-10
    a = 2: rho = 10.24, epsilon = 40.95057 (tight: 39.82257) at delta = 1e-10
    """
    loss, slack = _validate.positive_real(rho, "rho"), _validate.probability(delta, "delta")
    method = _CONVENTIONS[_validate.choice(convention, tuple(_CONVENTIONS), "convention")]
    distances = [_validate.positive_integer(each, "a") for each in (a if isinstance(a, Iterable) else [a])]
    if not distances:
        raise ValueError("a must hold at least one distance")
    rows = []
    for steps in distances:
        group = steps**2 * loss
        epsilons = (rho_to_epsilon(group, slack, method=way) for way in (method, "tight"))
        rows.append(CensusRow(steps, group, slack, *epsilons))
    return tuple(rows)


@dataclass(frozen=True)
class CensusQuery:
    """The loss of one query at one level of geography, both ``"all"`` in the last row; made by `census_queries`.

    `rho` is the zCDP loss as stated, of one record that changes alone, and `semi_rho` the largest between tables that agree on the
    totals of the states and differ in up to `a` records. `group_rho` is ``a**2 rho``, as Section 6 has it for all queries together.
    """

    level: str
    query: str
    rho: float
    semi_rho: float
    group_rho: float
    a: int

    def __str__(self) -> str:
        changed = f"with state totals at a = {self.a}: {self.semi_rho:.6f} (a**2 rho: {self.group_rho:.6f})"
        return f"{self.level}, {self.query}: rho = {self.rho:.6f}, {changed}"


def census_queries(a: int = 2, *, undivided: bool = False) -> tuple[CensusQuery, ...]:
    """The loss of every measured query and level of the 2020 redistricting file (persons), all last, with exact state totals.

    Section 6 multiplies the loss of all queries, 2.56, by ``a**2 = 4``. Query by query (`datasets.nmf.allocation`) the factor is
    ``a**2`` too: a records of one state can all make the same change of block and of attributes, which moves every query as far as it
    can be. Noisy *totals of the states*, nearly a third of the loss, say nothing between tables that agree on the exact ones; but a
    state with legal American Indian or Alaska Native areas is two units of the census's spine, whose totals are not published
    (docs/CORRECTIONS.md). Housing units and group quarters, which were exact too, are not about persons (Section 6.1).

    Parameters
    ----------
    a : int
        Distance of the tables, in substituted records; 2 is the semi-adjacent parameter of the totals of the states.
    undivided : bool, default False
        The losses of records in states that are one unit, for which the exact total leaves nothing of the noisy one. By default
        those of all records, the largest.

    Examples
    --------
    >>> print(census_queries()[-1])
    all, all: rho = 2.556226, with state totals at a = 2: 10.224902 (a**2 rho: 10.224902)
    >>> rows = census_queries(undivided=True)
    >>> print(next(row for row in rows if (row.level, row.query) == ("State", "total")))
    State, total: rho = 0.826998, with state totals at a = 2: 0.000000 (a**2 rho: 3.307993)
    >>> print(rows[-1])
    all, all: rho = 2.556226, with state totals at a = 2: 6.916909 (a**2 rho: 10.224902)
    """
    steps = _validate.positive_integer(a, "a")
    known = ("State", "total") if _validate.boolean(undivided, "undivided") else None
    stated = {(level, query): RHO * share_of(level, query) for level in LEVELS for query in QUERIES}
    losses = {unit: (rho, Fraction(0) if unit == known else steps**2 * rho) for unit, rho in stated.items() if rho}
    total = tuple(sum(side, Fraction(0)) for side in zip(*losses.values(), strict=True))
    return tuple(
        CensusQuery(level, query, float(rho), float(semi), float(steps**2 * rho), steps)
        for (level, query), (rho, semi) in (*losses.items(), (("all", "all"), total))
    )


_LEVELS = 2001  # on which curved functions are compared,
_REFINED = 20  # and local extremes of the difference, on each side, that are refined between them
_SLACK = 1e-9  # differences of trade-off functions that count as none


@dataclass(frozen=True)
class Comparison:
    """What one guarantee is, compared with another: "stronger", "weaker", "equal" or "not comparable".

    `reasons` says what decides: invariants, adjacency, and the trade-off functions.
    """

    answer: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.answer}: " + "; ".join(self.reasons)


def compare(first: SemiGuarantee, second: SemiGuarantee) -> Comparison:
    """Compare two guarantees: the stronger one protects at least the same pairs, with at least the same f.

    Definition 20. Fewer invariants and a greater distance mean more pairs. Invariants are compared for the same published values, by
    whether those of one follow from those of the other (exact arithmetic). Tables that agree on their total are an even number of
    added and removed records apart, so that then 3 reaches as far as 2. Otherwise two adjacencies of different number count as
    different even where no pair of tables lies between. Differences of the trade-off functions up to 1e-9 count as none: of piecewise
    linear ones at all their kinks, which decides; Gaussian ones are compared by mu; others on 2001 levels that are dense at both
    ends, and around the largest differences found there.

    Examples
    --------
    >>> from bayesdp.privacy import gaussian_dp
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"], "state": ("county", ["Up", "Up", "Down"])}
    >>> totals = Invariants(Totals(counties, "state"))
    >>> advertised = SemiGuarantee(gaussian_dp(1.0))
    >>> with_totals = SemiGuarantee(gaussian_dp(2.0), 2, totals)
    >>> compare(with_totals, advertised.group(2)).answer
    'weaker'
    >>> compare(with_totals, advertised).answer
    'not comparable'
    """
    for value, argument in ((first, "first"), (second, "second")):
        instance(value, SemiGuarantee, f"{argument} must be a SemiGuarantee")
    more, fewer, why_pairs = _pairs(first, second)
    larger, smaller, why_curve = _curves(first.tradeoff, second.tradeoff)
    answers = {(True, True): "equal", (True, False): "stronger", (False, True): "weaker"}
    answer = answers.get((more and larger, fewer and smaller), "not comparable")
    return Comparison(answer, (*why_pairs, why_curve))


def _pairs(first: SemiGuarantee, second: SemiGuarantee) -> tuple[bool, bool, tuple[str, ...]]:
    """Whether the pairs of the first contain those of the second, and the reverse."""
    contained = _keeps(second, first), _keeps(first, second)
    words = {
        (True, True): "both keep the same invariants",
        (True, False): "the first keeps fewer invariants, so that it is about more pairs",
        (False, True): "the first keeps more invariants, so that it is about fewer pairs",
        (False, False): "each keeps an invariant that does not follow from those of the other",
    }
    near = _reaches(first, second), _reaches(second, first)
    a, b = (f"{guarantee.adjacency} by {guarantee.neighbours}" for guarantee in (first, second))
    how = {
        (True, True): f"both reach equally far ({a}, {b})",
        (True, False): f"the first reaches further ({a} against {b})",
        (False, True): f"the first reaches less far ({a} against {b})",
        (False, False): f"neither distance contains the other ({a}, {b})",
    }
    return contained[0] and near[0], contained[1] and near[1], (words[contained], how[near])


def _keeps(inner: SemiGuarantee, outer: SemiGuarantee) -> bool:
    """Whether the pairs of `inner` agree on the invariants of `outer`; substitution keeps the number of records as well."""
    kept, asked = inner.invariants, outer.invariants
    same = kept is None or asked is None or kept.frame.same_cells(asked.frame)
    if inner.neighbours == "substitution" and asked is not None and same:
        total = Totals(asked.frame if kept is None else kept.frame)
        kept = Invariants(total if kept is None else [kept.query, total])
    return follows(kept, outer.invariants)


def _reaches(far: SemiGuarantee, near: SemiGuarantee) -> bool:
    """Whether every pair within the distance of `near` is within that of `far`, for pairs that `near` is about."""
    # Tables with the same number of records differ by as many added as removed: an even number.
    even = near.neighbours == "add-remove" and fixes_total(near.invariants)
    reach = near.adjacency - near.adjacency % 2 if even else near.adjacency
    if far.neighbours == near.neighbours:
        return far.adjacency >= reach
    if near.neighbours == "substitution":  # one substitution is one record less and another one more
        return far.adjacency >= 2 * near.adjacency
    # Tables with an unequal number of records are no number of substitutions apart.
    return even and far.adjacency >= reach // 2


def _curves(f: TradeOff, g: TradeOff) -> tuple[bool, bool, str]:
    """Whether f >= g, and f <= g, up to rounding."""
    if isinstance(f, GaussianTradeOff) and isinstance(g, GaussianTradeOff):
        words = f"the trade-off functions are Gaussian with mu = {f.mu:.6g} and {g.mu:.6g}"
        return f.mu <= g.mu, f.mu >= g.mu, words
    a = _levels(f, g)
    gap = f._errors(a, 1.0 - a)[0] - g._errors(a, 1.0 - a)[0]
    above, below = float(gap.max()), float(-gap.min())
    larger, smaller = below <= _SLACK, above <= _SLACK
    more = f"larger, by up to {above:.3g} at alpha = {a[gap.argmax()]:.3g}"
    less = f"smaller, by up to {below:.3g} at alpha = {a[gap.argmin()]:.3g}"
    if larger and smaller:
        words = f"the trade-off functions are equal up to {max(above, below, 0.0):.2g}"
    elif larger or smaller:
        words = f"the first trade-off function is {more if larger else less}"
    else:
        words = f"the trade-off functions cross: the first is {more} and {less}".replace(", by up to", " by")
    return larger, smaller, words


def _levels(f: TradeOff, g: TradeOff) -> Floats:
    """Levels among which the extremes of ``f - g`` are."""
    kinks = np.concatenate([[0.0, 1.0], f._kinks(), g._kinks()])
    if f._piecewise_linear and g._piecewise_linear:
        return np.unique(kinks)
    a = np.unique(np.concatenate([kinks, ndtr(np.linspace(-8.0, 8.0, _LEVELS))]))
    gap = f._errors(a, 1.0 - a)[0] - g._errors(a, 1.0 - a)[0]
    found = []
    for sign in (1.0, -1.0):
        signed = sign * gap
        tops = np.flatnonzero((signed[1:-1] >= signed[:-2]) & (signed[1:-1] >= signed[2:])) + 1
        for i in tops[np.argsort(-signed[tops])][:_REFINED]:
            best = minimize_scalar(
                lambda x, sign=sign: -sign * (float(f(x)) - float(g(x))),
                bounds=(float(a[i - 1]), float(a[i + 1])),
                method="bounded",
                options={"xatol": 1e-12},
            )
            found.append(float(best.x))
    return np.unique(np.concatenate([a, found]))


def full_characterization(tradeoff: TradeOff, table: Table, other: Table, neighbours: str = "substitution") -> TradeOff:
    """How well an f-DP mechanism hides which of two tables it was given (Proposition 11): at least ``f`` as often as they are apart.

    A mechanism that is f-DP for tables one record apart has ``T(M(x), M(x')) >= f^{o d(x, x')}`` for tables d(x, x') records
    apart, and ``1 - alpha`` for equal ones. The steps between them need not keep exact answers, which do not enter the bound.

    Parameters
    ----------
    tradeoff : TradeOff
        f, for one record in the sense of `neighbours`.
    table, other : array_like of int, equal shapes
        Two tables that could be the confidential one. The bound is printed from them: use hypothetical ones.
    neighbours : {"substitution", "add-remove"}
        The metric.

    Examples
    --------
    >>> from bayesdp.privacy import gaussian_dp
    >>> full_characterization(gaussian_dp(0.5), [[2, 0], [0, 1]], [[1, 1], [1, 0]])
    GaussianTradeOff(mu=1.0)
    """
    _checked(tradeoff)
    distance = record_distance(table, other, neighbours)
    if distance is None:
        raise ValueError(
            "no number of substitutions leads from table to other, because their totals differ; neighbours='add-remove' is the "
            "metric for an unknown number of records"
        )
    return tradeoff.group(distance) if distance else approximate_dp(0.0)


def semi_guarantee(tradeoff: TradeOff, exact: Exacts, convention: str = "worst") -> SemiGuarantee:
    """What an f-DP mechanism promises together with exact answers t (Proposition 15): ``f^{o a(t)}`` for tables a(t) records apart.

    Where only an upper bound of the semi-adjacent parameter is known, that is used in its place: more pairs, a larger loss, and still
    true. f is for one substituted record, `convention` that of `bayesdp.privacy.semi_adjacency`.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> margins = bdp.Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> found = semi_guarantee(bdp.privacy.gaussian_dp(0.5), [bdp.Exact(margins, margins.apply([[2, 2], [1, 4]]))])
    >>> found.tradeoff, found.adjacency
    (GaussianTradeOff(mu=1.5), 3)
    """
    _checked(tradeoff)
    fiber = _fiber(exact)
    return _guarantee(tradeoff, fiber, semi_adjacency(fiber, convention))


def margin_guarantee(tradeoff: TradeOff, exact: Exacts, convention: str = "worst") -> SemiGuarantee:
    """What an f-DP mechanism promises together with one-way margins of p features (Corollary 18): ``f^{o (p + 1)}``.

    For tables a(t) records apart, where a(t) is at most p + 1 (Theorem 16). `semi_guarantee`, which takes the same parameters, states
    ``f^{o a(t)}`` for the same tables, which is never less; the corollary needs no knowledge of the counts for its loss. One-way
    margins are sums over features of a record that share no dimension (Remark 17).

    Examples
    --------
    >>> import bayesdp as bdp
    >>> margins = bdp.Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> for state in (margin_guarantee, semi_guarantee):
    ...     found = state(bdp.privacy.gaussian_dp(0.5), [bdp.Exact(margins, margins.apply([[5, 5], [5, 5]]))])
    ...     print(found.tradeoff, found.adjacency)
    GaussianTradeOff(mu=1.5) 2
    GaussianTradeOff(mu=1.0) 2
    """
    _checked(tradeoff)
    fiber = _fiber(exact)
    features = Features.of(fiber)
    if features is None:
        raise ValueError(
            "exact must be one-way margins, that is sums over features that share no dimension; for other exact answers use "
            "semi_guarantee"
        )
    return _guarantee(tradeoff, fiber, semi_adjacency(fiber, convention), len(features.margins) + 1)


def _guarantee(tradeoff: TradeOff, fiber: Fiber, found: SemiAdjacency, steps: int | None = None) -> SemiGuarantee:
    if found.upper is None:
        raise ValueError(f"exact has no known semi-adjacent parameter, nor an upper bound of it: {found.reason}")
    if not found.upper:
        raise ValueError("exact leaves every record one possible cell (a(t) = 0): there is nothing left to protect")
    return SemiGuarantee(tradeoff.group(steps or found.upper), found.upper, fiber.invariants)


def _fiber(exact: Exacts) -> Fiber:
    return exact if isinstance(exact, Fiber) else Fiber.of(exact)


def _checked(tradeoff: TradeOff) -> None:
    instance(tradeoff, TradeOff, "tradeoff must be a trade-off function")


@dataclass(frozen=True)
class PrivateTest:
    """Lemma 34 in numbers. Made by `private_test`.

    `excess` is the largest ``phi(X) - (1 - f(phi(X')))`` of all ordered `pairs`, above 0 if the test is not private, ``-inf`` where
    there is no pair; `pair` are the X and X' at which it is that large.
    """

    excess: float
    pair: tuple[Ints, Ints] | None
    pairs: int

    @property
    def private(self) -> bool:
        """Whether the test is f-DP for these pairs, up to rounding errors of 1e-12."""
        return self.excess <= 1e-12


def private_test(
    test: Test, tradeoff: TradeOff, fiber: Fiber, adjacency: int, neighbours: str = "substitution"
) -> PrivateTest:
    """Whether publishing the outcome of a test is ``(D_t, A_a, f)``-DP (Lemma 34; Awan and Vadhan, 2023, Lemma 4.1).

    A test rejects a table X with probability phi(X). Its outcome is private just if ``phi(X) <= 1 - f(phi(X'))`` for all X and X'
    that are adjacent, in both orders. f is a function of the type I error here; in the paper, of its complement.

    Parameters
    ----------
    test : callable
        Table, an int64 array of shape ``(*table)``, to the probability of rejection.
    tradeoff : TradeOff
        f. Adjacency is mutual, so that a trade-off function that is not symmetric promises ``max(f, f^-1)``, and that is what is asked
        for: the lemma as printed is right for symmetric f only.
    fiber : Fiber
        Tables that share the exact answers, 2000 at most; without exact answers, none are shared.
    adjacency, neighbours : int, {"substitution", "add-remove"}
        a: pairs of tables up to so many records apart are adjacent.

    Examples
    --------
    A test on 2 x 2 tables with given margins that always rejects at x11 = 3 is no private one; randomised response is.

    >>> import bayesdp as bdp
    >>> margins = bdp.Margins({"group": ["a", "b"], "success": ["yes", "no"]}, ["group"], ["success"])
    >>> fiber = Fiber.of([bdp.Exact(margins, margins.apply([[2, 1], [1, 2]]))])
    >>> private_test(lambda x: float(x[0, 0] == 3), approximate_dp(1.0), fiber, 3).private
    False
    >>> private_test(lambda x: 0.7 if x[0, 0] == 3 else 0.3, approximate_dp(1.0), fiber, 3).private
    True
    """
    instance(test, Callable, "test must be a function of a table")
    _checked(tradeoff)
    positive_integer(adjacency, "adjacency")
    mutual = (tradeoff, tradeoff.inverse())  # adjacency is: the larger of both functions bounds either order
    pairs = conforming_pairs(fiber, adjacency, neighbours)
    phi: dict[bytes, float] = {}
    for table in (table for pair in pairs for table in pair):
        if table.tobytes() not in phi:
            value = float(test(table))
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"test must return a probability between 0 and 1, got {value!r}")
            phi[table.tobytes()] = value
    best, worst = -math.inf, None
    for x, y in pairs:
        for one, two in ((x, y), (y, x)):
            excess = phi[one.tobytes()] - min(float(f.power(phi[two.tobytes()])) for f in mutual)
            if excess > best:
                best, worst = excess, (one, two)
    return PrivateTest(best, worst, 2 * len(pairs))


@dataclass(frozen=True, eq=False)
class SideInformation:
    """What remains for the records that are not known. Made by `side_information`.

    All but `parameter` and `loss` depend on the confidential table: it is an analysis for its owner, or of a made-up table.

    Attributes
    ----------
    known, remaining, adjacency : int
        Number of records that the adversary knows, and does not know; the guarantee is about tables up to `adjacency` records apart.
    residual, counts, cells : Fiber; int64 arrays, shape (k,)
        Where the table of the remaining records lies, for all that the adversary knows; its counts that are not 0, and their cells.
    distances : int64 array, shape (k, cells)
        How many of the remaining records change if one of them says another cell and all exact answers stay; 0 for its own
        cell, -1 where the adversary would know better: no table with these answers and the known records has a record there.
    claimable : bool array, shape (cells,)
        The cells that a record can have as long as nothing but the exact answers is known.
    """

    known: int
    remaining: int
    adjacency: int
    residual: Fiber
    counts: Ints
    cells: Ints
    distances: Ints
    claimable: Mask

    @property
    def _alternatives(self) -> Ints:
        """For each of `cells`, how many others a record there can say with at most a records changed."""
        return ((self.distances > 0) & (self.distances <= self.adjacency)).sum(axis=1)

    @property
    def unprotected(self) -> float:
        """Share of the remaining records without any alternative within a records: the guarantee says nothing of them."""
        return float(self.counts[self._alternatives == 0].sum()) / self.remaining

    @property
    def claims(self) -> float:
        """Share of all pairs of a remaining record and a `claimable` cell not its own that are at most a records away."""
        return float(self.counts @ self._alternatives) / (self.remaining * (int(self.claimable.sum()) - 1))

    @cached_property
    def parameter(self) -> SemiAdjacency:
        """That of the remaining records. A smaller one than before is no better protection: there may be fewer cells to claim."""
        return semi_adjacency(self.residual)

    def loss(self, loss: Mapping[str, float]) -> dict[str, float] | None:
        """The loss at the distance that still gives every remaining record all alternatives it has, the upper bound of `parameter`.

        From that of one substituted record, such as ``{"rho": 2.56}``; None where no record has an alternative: unprotected.
        """
        if self.parameter.upper is None:
            raise ValueError(f"the loss is not known: {self.parameter}")
        return group_loss(loss, self.parameter.upper) if self.parameter.upper else None


def side_information(
    exact: Exacts, table: npt.ArrayLike, known: npt.ArrayLike, adjacency: int | None = None
) -> SideInformation:
    """What Semi-DP still protects if an adversary knows some of the records (Section 7, where the question is put).

    The protection of an ordinary guarantee does not depend on what an adversary knows of the other records. That of tables with the
    same exact answers does: without the known records, the tables that are left are those with the exact answers less what the known
    records contribute. Records are compared person by person, as in Definition 13: two of the remaining persons can change places.

    Parameters
    ----------
    exact : Fiber, or iterable of Exact
        The published exact answers. They must fix the number of records, and have 1000 tables at most or be margins that form a
        junction tree.
    table, known : array_like of int, shape ``(*table)``
        The confidential table, or a made-up one, and how many of its records the adversary knows, cell by cell; fewer than all.
    adjacency : int, optional
        a of the guarantee; by default the semi-adjacent parameter of the exact answers, or its upper bound.

    Examples
    --------
    Five records; four are known, and the margins give the last one away.

    >>> import bayesdp as bdp
    >>> margins = bdp.Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> table = [[1, 1], [1, 2]]
    >>> exact = [bdp.Exact(margins, margins.apply(table))]
    >>> for known in ([[0, 0], [0, 0]], [[1, 0], [1, 1]], [[1, 1], [1, 1]]):
    ...     left = side_information(exact, table, known)
    ...     print(left.remaining, left.unprotected, round(left.claims, 3), left.loss({"epsilon": 0.5}))
    5 0.0 1.0 {'epsilon': 1.5}
    2 0.0 0.333 {'epsilon': 1.0}
    1 1.0 0.0 None
    """
    fiber = _fiber(exact)
    name, shape = fiber.frame.exact_cell_name, fiber.frame.shape
    counts = integer_array(table, "table", name, minimum=0, confidential=True)
    if not fiber.contains(counts):
        raise ValueError(f"table must have shape {shape} and the answers of exact")
    claimable = np.any(_distances(fiber, counts.reshape(-1))[1] != IMPOSSIBLE, axis=0)
    if int(claimable.sum()) < 2:
        raise ValueError("exact leaves every record one possible cell, so that there is nothing to protect")
    if adjacency is None:
        parameter = semi_adjacency(fiber)
        if parameter.upper is None:
            raise ValueError(f"adjacency must be given: {parameter}")
        adjacency = parameter.upper
    told = integer_array(known, "known", name, minimum=0)
    if told.shape != shape:
        raise ValueError(f"known must have shape {shape}, got {told.shape}")
    rest = (counts - told).reshape(-1)
    if np.any(rest < 0):
        raise ValueError("known must not have more records than the table in any cell")
    if not np.any(rest):
        raise ValueError("known must leave at least one record of the table unknown")
    answers = (fiber.equalities, fiber.bounds_below, fiber.bounds_above)
    left = [tuple((query, values - query.apply(told)) for query, values in parts) for parts in answers]
    residual = Fiber(fiber.frame, *left)
    cells, distances = _distances(residual, rest)
    numbers = (int(told.sum()), int(rest.sum()), positive_integer(adjacency, "adjacency"))
    return SideInformation(*numbers, residual, rest[cells], cells, distances, claimable)


def _distances(fiber: Fiber, table: Ints) -> tuple[Ints, Ints]:
    cliques = Cliques.of(fiber)
    if cliques is not None:
        return cliques.distances(table)
    tables, reason = listed_tables(fiber, _TABLES)
    if tables is None:
        raise NotImplementedError(
            f"side information is worked out for margins that form a junction tree, and where tables can be listed: {reason}"
        )
    if len(np.unique(tables.sum(axis=1))) > 1:
        raise ValueError("exact must fix the number of records, so that databases can be compared person by person")
    return distances_of_tables(table, tables)


@dataclass(frozen=True, eq=False)
class SemiProjectedMechanism(FrameworkMechanism):
    """Additive noise that is projected, with a guarantee of Semi-DP; build one with `semi_project`."""

    adjacency: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "adjacency", positive_integer(self.adjacency, "adjacency"))

    def _rows(self) -> tuple[PairLoss, ...]:
        return (PairLoss(SemiAdjacent(self.adjacency), 2.0 * self.adjacency, "l1", self.loss),)

    def _caveats(self) -> tuple[Statement, ...]:
        return Fixed("stated by the author, Semi-DP"), FLOATING_POINT_CAVEAT, grid_caveat(self.grid)

    def _for_one_person(self, stated: Guarantee) -> Guarantee:
        return with_person(stated, self.invariants, adjacency=self.adjacency)


def semi_project(noise: Callable[..., Any] | NoiseLaw, query: Query, invariants: Any, *, loss: Mapping[str, float],
                 adjacency: int | None = None, grid: float = GRID) -> SemiProjectedMechanism:  # fmt: skip
    r"""Project any additive noise onto what the invariants leave free, and state what that protects within Semi-DP (Proposition 26).

    If ``W x + e`` has a loss for tables that share the invariants and are at most `adjacency` records apart, then ``W x + P e`` has
    it too, with P the orthogonal projection onto all differences of the answers of such tables, or any larger space: here all that
    the invariants leave free. So calibrate e to the sensitivity space, and let the projection make it smaller.

    Parameters
    ----------
    noise, query, invariants, grid
        As for `bayesdp.papers.subspace.project`, of additive noise.
    loss : mapping
        What the unprojected noise loses for tables that share the invariants and are at most `adjacency` substituted records apart:
        ``{"epsilon": 1.0}``, ``{"epsilon": 1.0, "delta": 1e-6}``, ``{"rho": 0.1}`` or ``{"mu": 0.5}``. It is taken on your word.
    adjacency : int, optional
        Left out, the number that is safe whatever the published totals are, as for `SemiGaussian`.

    Examples
    --------
    Noise of the l-infinity mechanism (Algorithm 6), for a 2 x 3 table with both margins:

    >>> import bayesdp as bdp
    >>> table = {"sex": ["F", "M"], "age": ["young", "middle", "old"]}
    >>> margins = bdp.Margins(table, ["sex"], ["age"])
    >>> delta = bdp.privacy.SensitivitySpace.semi(margins, 3).delta("linf")
    >>> def cube(rng, size):
    ...     radius = rng.gamma(7.0, delta / 1.0, (size, 1, 1))
    ...     return radius * rng.uniform(-1.0, 1.0, (size, 2, 3))
    >>> mechanism = semi_project(cube, bdp.Identity(table), margins, loss={"epsilon": 1.0})
    >>> drawn = mechanism.noise(np.random.default_rng(1))[0]
    >>> float(np.abs(drawn.sum(axis=0)).max()), mechanism.guarantee.pairs[0].loss
    (0.0, PureDP(epsilon=1.0))
    """
    kept = FrameworkMechanism(noise, query, invariants, loss, additive=True, grid=grid).invariants
    bound = safe_adjacency(kept) if adjacency is None else adjacency
    if bound is None:
        raise ValueError(
            "adjacency must be given for these invariants: see bayesdp.privacy.semi_adjacency, which computes it from the exact "
            "answers"
        )
    return SemiProjectedMechanism(noise, query, kept, loss, adjacency=bound, additive=True, grid=grid)

"""The partial order of privacy guarantees: which of two protects more, or neither (paper 003, Definition 20)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.privacy.canonical import Floats
from bayesdp.privacy.tradeoffs.base import TradeOff, checked
from bayesdp.privacy.tradeoffs.laws import GaussianTradeOff
from bayesdp.queries import Totals

__all__ = ["Comparison", "SemiGuarantee", "compare"]

METRICS = ("substitution", "add-remove")
_GRID = 2001
"""Levels on which curved functions are compared,"""
_REFINED = 20
"""and local extremes of the difference, on each side, that are refined between them."""
_VAGUE = 0.01
"""A trade-off function that is known no better than this is not compared: with so much slack all would be equal."""


@dataclass(frozen=True)
class SemiGuarantee:
    """A guarantee: which tables are hard to tell apart, and how hard; the triple (D_t, A_a, f) of paper 003.

    Parameters
    ----------
    tradeoff : TradeOff
        Lower bound on the trade-off function of every such pair.
    adjacency : int, default 1
        Largest distance a of the pairs, in records.
    invariants : Invariants, optional
        What the tables of a pair agree on; without it all pairs at that distance are protected.
    neighbours : {"substitution", "add-remove"}
        What is counted as one record of distance: one changes its cell, or one comes or goes.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid.

    Examples
    --------
    >>> from bayesdp.privacy import gaussian_dp
    >>> SemiGuarantee(gaussian_dp(1.0)).group(2)
    SemiGuarantee(tradeoff=GaussianTradeOff(mu=2.0), adjacency=2, invariants=None, neighbours='substitution')
    """

    tradeoff: TradeOff
    adjacency: int = 1
    invariants: Invariants | None = None
    neighbours: str = field(default="substitution")

    def __post_init__(self) -> None:
        checked(self.tradeoff, "tradeoff")
        object.__setattr__(self, "adjacency", _validate.positive_integer(self.adjacency, "adjacency"))
        if self.invariants is not None and not isinstance(self.invariants, Invariants):
            raise TypeError(f"invariants must be an Invariants or None, got {type(self.invariants).__name__}")
        _validate.choice(self.neighbours, METRICS, "neighbours")

    def group(self, k: int) -> SemiGuarantee:
        """Give what the same mechanism guarantees at k times the distance (Proposition 15).

        Raises
        ------
        TypeError, ValueError
            If k is not a positive integer, or the invariants determine more than the number of records: inside them there need be
            no way from one table to the other by steps of at most `adjacency` records. (With both margins of a 2x2 table
            and adjacency 1 there is no step at all, and a guarantee about nothing would turn into one about something.)
        """
        steps = _validate.positive_integer(k, "k")
        if steps > 1 and not _free_to_walk(self):
            raise ValueError(
                f"group({steps}) needs a guarantee without invariants, or with the number of records only: tables with the same "
                "invariants may be that far apart without any others between them"
            )
        return SemiGuarantee(self.tradeoff.group(steps), self.adjacency * steps, self.invariants, self.neighbours)


@dataclass(frozen=True)
class Comparison:
    """How one guarantee compares with another.

    Parameters
    ----------
    answer : {"stronger", "weaker", "equal", "not comparable"}
        What the first is, compared with the second.
    reasons : tuple of str
        What decides: invariants, adjacency, and the trade-off functions.
    tolerance : float
        Differences of trade-off functions up to this were taken for equality.
    """

    answer: str
    reasons: tuple[str, ...]
    tolerance: float

    def __str__(self) -> str:
        return f"{self.answer}: " + "; ".join(self.reasons)


def compare(first: SemiGuarantee, second: SemiGuarantee, tolerance: float = 1e-9) -> Comparison:
    """Compare two guarantees: the stronger one protects at least the same pairs, with at least the same f.

    Paper 003, Definition 20. Pairs are compared through what defines them: fewer invariants and a greater distance mean more
    pairs. Invariants are compared for the same published values, by whether those of one follow from those of the other
    (exact arithmetic). Tables that agree on their total are an even number of added and removed records apart, so that then 3
    reaches as far as 2. Otherwise two adjacencies of different number count as different even where no pair of tables lies
    between.

    Parameters
    ----------
    first, second : SemiGuarantee
    tolerance : float, default 1e-9
        Differences of the trade-off functions up to this count as none. The errors of functions that are known within bounds
        are added to it. Piecewise linear functions are compared at all their kinks, which decides; Gaussian ones by mu; others
        on 2001 levels that are dense at both ends, and around the largest differences found there.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, or the invariants are about different tables.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.privacy import gaussian_dp
    >>> from bayesdp.queries import Totals
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
        if not isinstance(value, SemiGuarantee):
            raise TypeError(f"{argument} must be a SemiGuarantee, got {type(value).__name__}")
    slack = _validate.nonnegative_real(tolerance, "tolerance") + first.tradeoff.error + second.tradeoff.error
    more, fewer, why_pairs = _pairs(first, second)
    for guarantee, which in ((first, "first"), (second, "second")):
        if guarantee.tradeoff.error > _VAGUE:
            error = f"{guarantee.tradeoff.error:.3g}"
            reason = f"the trade-off function of the {which} is known within {error} only, too little to compare it"
            return Comparison("not comparable", (*why_pairs, reason), slack)
    larger, smaller, why_curve = _curves(first.tradeoff, second.tradeoff, slack)
    if more and fewer and larger and smaller:
        answer = "equal"
    elif more and larger:
        answer = "stronger"
    elif fewer and smaller:
        answer = "weaker"
    else:
        answer = "not comparable"
    return Comparison(answer, (*why_pairs, why_curve), slack)


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
    return _follows(kept, outer.invariants)


def _free_to_walk(guarantee: SemiGuarantee) -> bool:
    """Whether all tables that the guarantee is about are joined by steps of one record."""
    if guarantee.invariants is None or not guarantee.invariants.rank:
        return True
    return (
        guarantee.neighbours == "substitution" and guarantee.invariants.rank == 1 and _fixes_total(guarantee.invariants)
    )


def _follows(inner: Invariants | None, outer: Invariants | None) -> bool:
    """Whether tables that agree on `inner` agree on `outer`."""
    if outer is None or not outer.rank:
        return True
    if inner is None:
        return False
    if not inner.frame.same_cells(outer.frame):
        raise ValueError("the invariants of first and second must be about one table (same dimensions and labels)")
    return Invariants([inner.query, outer.query], inner.frame).rank == inner.rank


def _reaches(far: SemiGuarantee, near: SemiGuarantee) -> bool:
    """Whether every pair within the distance of `near` is within that of `far`, for pairs that `near` is about."""
    # Tables with the same number of records differ by as many added as removed: an even number.
    even = near.neighbours == "add-remove" and _fixes_total(near.invariants)
    reach = near.adjacency - near.adjacency % 2 if even else near.adjacency
    if far.neighbours == near.neighbours:
        return far.adjacency >= reach
    if near.neighbours == "substitution":  # one substitution is one record less and another one more
        return far.adjacency >= 2 * near.adjacency
    # Tables with an unequal number of records are no number of substitutions apart.
    return even and far.adjacency >= reach // 2


def _fixes_total(invariants: Invariants | None) -> bool:
    if invariants is None:
        return False
    return _follows(invariants, Invariants(Totals(invariants.frame)))


def _curves(f: TradeOff, g: TradeOff, slack: float) -> tuple[bool, bool, str]:
    """Whether f >= g, and f <= g, up to slack."""
    if isinstance(f, GaussianTradeOff) and isinstance(g, GaussianTradeOff):
        words = f"the trade-off functions are Gaussian with mu = {f.mu:.6g} and {g.mu:.6g}"
        return f.mu <= g.mu, f.mu >= g.mu, words
    a, gap = _differences(f, g)
    above, below = float(gap.max()), float(-gap.min())
    larger, smaller = below <= slack, above <= slack
    found = {
        (True, True): f"the trade-off functions are equal up to {max(above, below, 0.0):.2g}",
        (True, False): f"the first trade-off function is larger, by up to {above:.3g} at alpha = {a[gap.argmax()]:.3g}",
        (
            False,
            True,
        ): f"the first trade-off function is smaller, by up to {below:.3g} at alpha = {a[gap.argmin()]:.3g}",
        (False, False): (
            f"the trade-off functions cross: the first is larger by {above:.3g} at alpha = {a[gap.argmax()]:.3g} and smaller "
            f"by {below:.3g} at alpha = {a[gap.argmin()]:.3g}"
        ),
    }
    return larger, smaller, found[larger, smaller]


def _differences(f: TradeOff, g: TradeOff) -> tuple[Floats, Floats]:
    """``f - g`` at levels among which its extremes are."""
    kinks = np.concatenate([[0.0, 1.0], f._kinks(), g._kinks()])
    if f._piecewise_linear and g._piecewise_linear:
        a = np.unique(kinks)
        return a, f._errors(a, 1.0 - a)[0] - g._errors(a, 1.0 - a)[0]
    u = np.linspace(-8.0, 8.0, _GRID)
    a = np.unique(np.concatenate([kinks, ndtr(u)]))
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
    a = np.unique(np.concatenate([a, found]))
    return a, f._errors(a, 1.0 - a)[0] - g._errors(a, 1.0 - a)[0]

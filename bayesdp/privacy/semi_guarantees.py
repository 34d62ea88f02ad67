"""What a guarantee of Semi-DP is: the triple (D_t, A_a, f) of Cho and Awan."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.privacy.tradeoffs.base import TradeOff, checked
from bayesdp.queries import Totals

METRICS = ("substitution", "add-remove")


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
        _validate.instance(self.invariants, Invariants | None, "invariants must be an Invariants or None")
        _validate.choice(self.neighbours, METRICS, "neighbours")

    def group(self, k: int) -> SemiGuarantee:
        """Give what the same mechanism guarantees at k times the distance (Proposition 15).

        Raises
        ------
        ValueError
            If the invariants determine more than the number of records: inside them there need be
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


def _free_to_walk(guarantee: SemiGuarantee) -> bool:
    """Whether all tables that the guarantee is about are joined by steps of one record."""
    if guarantee.invariants is None or not guarantee.invariants.rank:
        return True
    return (
        guarantee.neighbours == "substitution" and guarantee.invariants.rank == 1 and fixes_total(guarantee.invariants)
    )


def follows(inner: Invariants | None, outer: Invariants | None) -> bool:
    """Whether tables that agree on `inner` agree on `outer`."""
    if outer is None or not outer.rank:
        return True
    if inner is None:
        return False
    if not inner.frame.same_cells(outer.frame):
        raise ValueError("the invariants of first and second must be about one table (same dimensions and labels)")
    return Invariants([inner.query, outer.query], inner.frame).rank == inner.rank


def fixes_total(invariants: Invariants | None) -> bool:
    """Whether invariants determine the number of records."""
    if invariants is None:
        return False
    return follows(invariants, Invariants(Totals(invariants.frame)))

"""The guarantee of a mechanism that somebody else wrote: its loss for neighbouring tables is taken on their word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesdp.invariants import Invariants
from bayesdp.mechanisms._shared import one_statement
from bayesdp.mechanisms.one_person import with_person
from bayesdp.privacy import DIFFERENCES, Guarantee, PairLoss
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.relations import Apart, Kept, Neighbours
from bayesdp.privacy.stated_losses import LossAt, stated_loss
from bayesdp.privacy.words import Words
from bayesdp.sensitivities.kept import kept_differences
from bayesdp.sensitivities.norms import RECORDS

_WAYS = (("epsilon",), ("epsilon", "delta"), ("rho",), ("mu",))

_OWN_SAMPLER = "drawn by the function that was handed in; that it has the stated loss is not checked here"


@dataclass(frozen=True)
class GivenGuarantee(Guarantee):
    """A guarantee whose loss and sampler are as the author of the mechanism states them; nothing here has checked them."""

    def _noise(self) -> str:
        """Nothing is said about a law: none is known."""
        return _OWN_SAMPLER


def checked_loss(loss: Any) -> Loss:
    """Accept a loss: epsilon, epsilon and delta, rho, or mu.

    Examples
    --------
    >>> checked_loss({"epsilon": 1})
    PureDP(epsilon=1.0)
    """
    named = dict(loss) if isinstance(loss, Mapping) else {}
    if "sensitivity" not in named:  # which is that of the neighbours
        named = stated_loss(loss).parameters
    one_statement({name: named.get(name) for name in ("epsilon", "delta", "rho", "mu", "sensitivity")}, _WAYS)
    return stated_loss(loss)


def given_guarantee(
    loss: Loss,
    neighbours: str,
    invariants: Invariants,
    caveats: tuple[Words, ...],
    determined_cells: tuple[str, ...] = (),
    *,
    trusted_sampler: bool,
    simulated: bool = False,
) -> Guarantee:
    """The guarantee that follows from a stated loss for neighbouring tables, with a row for each smallest kept difference.

    A difference that takes k neighbouring steps has the loss of a group of k. `trusted_sampler`: whether the noise is drawn by this
    package from a law of its own.
    """
    size = RECORDS[neighbours]
    rows = [PairLoss(Neighbours(neighbours, "all"), size, "l1", loss)]
    for difference in kept_differences(invariants):
        # Substitution leads from one table to the other only if as many records are added as are removed.
        if neighbours == "substitution" and invariants.nested is None and difference not in DIFFERENCES.values():
            continue
        steps = round(difference.l1 / size)
        if steps > 1:
            rows.append(PairLoss(Kept(difference), difference.l1, "l1", loss.group(steps)))
    kind = GivenGuarantee if not trusted_sampler else Guarantee
    stated = kind(
        loss.kind,
        LossAt(loss, size),
        "l1",
        tuple(rows),
        determined_cells=determined_cells,
        simulated=simulated,
        caveats=caveats,
    )
    return with_person(stated, invariants, neighbours)


def semi_given_guarantee(
    loss: Loss,
    adjacency: int,
    invariants: Invariants,
    caveats: tuple[Words, ...],
    determined_cells: tuple[str, ...] = (),
    *,
    trusted_sampler: bool,
    simulated: bool = False,
) -> Guarantee:
    """The guarantee of Semi-DP that is a stated loss for tables at most `adjacency` substituted records apart."""
    kind = GivenGuarantee if not trusted_sampler else Guarantee
    size = 2.0 * adjacency
    stated = kind(
        loss.kind,
        LossAt(loss, size),
        "l1",
        (PairLoss(Apart(adjacency), size, "l1", loss),),
        determined_cells=determined_cells,
        simulated=simulated,
        caveats=caveats,
    )
    return with_person(stated, invariants, adjacency=adjacency)

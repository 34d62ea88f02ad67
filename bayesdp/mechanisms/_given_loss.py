"""The guarantee of a mechanism that somebody else wrote: its loss for neighbouring tables is taken on their word."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesdp.invariants import Invariants
from bayesdp.mechanisms._differences import kept_differences
from bayesdp.mechanisms._parameters import one_statement
from bayesdp.mechanisms.subspace import NEIGHBOURS
from bayesdp.privacy import DIFFERENCES, Guarantee, PairLoss
from bayesdp.privacy.pairs import checked_parameters

__all__ = ["GivenGuarantee", "checked_loss", "given_guarantee", "group_loss", "semi_given_guarantee"]

_KINDS = {("epsilon",): "pure", ("epsilon", "delta"): "approximate", ("rho",): "zcdp", ("mu",): "gdp"}

_RECORDS = {"substitution": 2.0, "add-remove": 1.0}
"""The l1 distance of neighbouring tables."""

_OWN_SAMPLER = "Noise: drawn by the function that was handed in; that it has the stated loss is not checked here"


@dataclass(frozen=True)
class GivenGuarantee(Guarantee):
    """A guarantee whose loss and sampler are the word of whoever wrote the mechanism."""

    def statements(self) -> list[tuple[str, list[str]]]:
        """As for any guarantee, but nothing is said about a law: none is known."""
        stated = super().statements()
        return [(_OWN_SAMPLER if sentence.startswith("Noise: ") else sentence, items) for sentence, items in stated]


def checked_loss(loss: Any) -> Mapping[str, float]:
    """Accept a loss: epsilon, epsilon and delta, rho, or mu.

    Examples
    --------
    >>> checked_loss({"epsilon": 1})
    {'epsilon': 1.0}
    """
    given = checked_parameters(loss, "loss")
    named = {name: given.get(name) for name in ("epsilon", "delta", "rho", "mu", "sensitivity")}
    taken = one_statement(named, tuple(_KINDS))
    return checked_parameters({name: given[name] for name in taken}, "loss")


def group_loss(loss: Mapping[str, float], steps: int) -> dict[str, float] | None:
    """The loss for two tables that are `steps` neighbours apart, by the group privacy of each definition.

    Parameters
    ----------
    loss : mapping
        The loss for neighbours.
    steps : int
        How many neighbours lead from one table to the other.

    Returns
    -------
    dict or None
        ``k epsilon``; ``k**2 rho`` (Bun and Steinke, 2016, Proposition 1.9); ``k mu`` (Dong, Roth and Su, 2022, Theorem
        2.14); for approximate differential privacy the sum over the steps,
        ``delta (exp(k epsilon) - 1) / (exp(epsilon) - 1)``. None where that delta says nothing, being 1 or more.

    Examples
    --------
    >>> group_loss({"rho": 0.5}, 2)
    {'rho': 2.0}
    """
    if "rho" in loss:
        return {"rho": steps**2 * loss["rho"]}
    if "mu" in loss:
        return {"mu": steps * loss["mu"]}
    epsilon = loss["epsilon"]
    if "delta" not in loss:
        return {"epsilon": steps * epsilon}
    if steps * epsilon > 700.0:
        return None
    delta = loss["delta"] * math.expm1(steps * epsilon) / math.expm1(epsilon)
    return {"epsilon": steps * epsilon, "delta": delta} if delta < 1.0 else None


def given_guarantee(
    loss: Mapping[str, float],
    neighbours: str,
    invariants: Invariants,
    caveats: tuple[str, ...],
    determined_cells: tuple[str, ...] = (),
    *,
    trusted_sampler: bool,
    simulated: bool = False,
) -> Guarantee:
    """The guarantee that follows from a stated loss for neighbouring tables.

    Parameters
    ----------
    loss : mapping
        As `checked_loss` accepts it.
    neighbours : {"substitution", "add-remove"}
    invariants : Invariants
        Of the table: rows are given for the smallest differences that these do not show.
    caveats, determined_cells, simulated
        As in `Guarantee`.
    trusted_sampler : bool
        Whether the noise is drawn by this package from a law of its own.
    """
    size = _RECORDS[neighbours]
    rows = [
        PairLoss(
            f"neighbouring tables, whether or not the invariants tell them apart: {NEIGHBOURS[neighbours]}",
            size,
            "l1",
            loss,
        )
    ]
    for difference in kept_differences(invariants):
        # Substitution leads from one table to the other only if as many records are added as are removed.
        if neighbours == "substitution" and invariants.nested is None and difference not in DIFFERENCES.values():
            continue
        steps = round(difference.l1 / size)
        told = group_loss(loss, steps) if steps > 1 else None
        if told is not None:
            rows.append(PairLoss(difference.relation, difference.l1, "l1", told))
    kind = GivenGuarantee if not trusted_sampler else Guarantee
    return kind(
        _KINDS[tuple(loss)],
        {**loss, "sensitivity": size},
        "l1",
        tuple(rows),
        determined_cells=determined_cells,
        simulated=simulated,
        caveats=caveats,
    )


def semi_given_guarantee(
    loss: Mapping[str, float],
    words: str,
    size: float,
    caveats: tuple[str, ...],
    determined_cells: tuple[str, ...] = (),
    *,
    trusted_sampler: bool,
    simulated: bool = False,
) -> Guarantee:
    """The guarantee of Semi-DP that is a stated loss for the pairs of tables it protects.

    Parameters
    ----------
    loss : mapping
        As `checked_loss` accepts it.
    words : str
        These pairs.
    size : float
        The largest l1 distance of a pair.
    caveats, determined_cells, trusted_sampler, simulated
        As in `given_guarantee`.
    """
    kind = GivenGuarantee if not trusted_sampler else Guarantee
    return kind(
        _KINDS[tuple(loss)],
        {**loss, "sensitivity": size},
        "l1",
        (PairLoss(words, size, "l1", loss),),
        determined_cells=determined_cells,
        simulated=simulated,
        caveats=caveats,
    )

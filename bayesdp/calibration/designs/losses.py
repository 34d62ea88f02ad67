"""The loss axis of a design: every candidate at one and the same difference between two tables, by one definition of privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayesdp import _validate
from bayesdp.calibration.designs.candidates import Releases
from bayesdp.composition import loss_at_difference
from bayesdp.invariants import Invariants
from bayesdp.privacy import DIFFERENCES, Difference
from bayesdp.privacy.losses import Loss
from bayesdp.sensitivities.kept import kept_differences

_NAMES = {"pure": "epsilon", "approximate": "epsilon", "zcdp": "rho", "gdp": "mu"}


@dataclass(frozen=True)
class Losses:
    """What each candidate loses at one difference.

    Attributes
    ----------
    values : dict from candidate to float
        Infinite where a bound says nothing.
    name : {"epsilon", "rho", "mu"}
    difference : str
        The difference, in words.
    delta : float or None
        That epsilon is for; None where there is none.
    """

    values: dict[str, float]
    name: str
    difference: str
    delta: float | None


def losses_of(releases: Mapping[str, Releases], difference: str | None, delta: float | None) -> Losses:
    """The losses of all candidates at a difference that the invariants of all of them leave free."""
    # `releases`: of one table; only what they state is looked at. `difference`: a key of `bayesdp.privacy.DIFFERENCES`, or the
    # words of another difference; the smallest for which all losses are known if left out. `delta`: where losses by several
    # definitions are to be compared as an epsilon.
    if delta is not None:
        _validate.probability(delta, "delta")
    frame = next(iter(releases.values()))[0].frame
    exact = [part.query for found in releases.values() for own in found for part in own.exact if part.sign == "="]
    invariants = Invariants([query for k, query in enumerate(exact) if query not in exact[:k]], frame)
    free = kept_differences(invariants) if invariants.dimension else ()
    if not free:
        raise ValueError(
            "candidates have invariants that together leave no difference between two tables free, so that there is no loss to "
            "compare them by; compare those with less different invariants"
        )
    names = {own: next((key for key, known in DIFFERENCES.items() if known == own), own.relation) for own in free}
    chosen = [own for own in free if difference in (None, names[own], own.relation)]
    if not chosen:
        raise ValueError(
            f"difference must be one that the invariants of every candidate leave free, {', '.join(map(repr, names.values()))}, got "
            f"{difference!r}"
        )
    lacking = ""
    for own in chosen:
        found = {name: loss_at_difference(listed, own, invariants, delta) for name, listed in releases.items()}
        known = {name: loss for name, loss in found.items() if loss is not None}
        if len(known) == len(found):
            return _by_one_definition(known, own, delta)
        lacking = next(name for name, loss in found.items() if loss is None)
    raise ValueError(
        f"candidates[{lacking!r}] states no loss from which that at the difference {names[chosen[-1]]!r} follows; name another "
        f"difference: {', '.join(map(repr, names.values()))}"
    )


def _by_one_definition(losses: Mapping[str, Loss], difference: Difference, delta: float | None) -> Losses:
    """The losses as numbers that can be compared: at a delta, by the definition that all have, or as rho."""
    kinds = {own.kind for own in losses.values()}
    deltas = {own.parameters.get("delta") for own in losses.values()}
    kind, at = "approximate", delta
    if delta is None:
        kind = kinds.copy().pop() if len(kinds) == 1 else "zcdp"
        at = deltas.copy().pop() if len(deltas) == 1 else None
    values: dict[str, float] = {}
    for name, loss in losses.items():
        try:
            if kind == "approximate" and len(deltas) > 1 and delta is None:
                raise ValueError("the deltas are not the same")
            told = loss.at(delta) if delta is not None else loss.to(kind)
        except ValueError as error:
            raise ValueError(
                f"delta must be one at which every candidate has an epsilon, got {delta!r}: the loss of candidates[{name!r}] is "
                f"{loss}: {error}"
            ) from error
        values[name] = float("inf") if told.says_nothing else float(told.parameters[_NAMES[kind]])
    return Losses(values, _NAMES[kind], difference.relation, at)

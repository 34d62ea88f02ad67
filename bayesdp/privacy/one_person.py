"""What a guarantee means for one person's record, as a value; the sentences are made from it here."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from bayesdp.privacy.loss import Loss
from bayesdp.privacy.samplers import EXACT_SAMPLER, SamplerStatement
from bayesdp.privacy.words import Words

__all__ = ["OnePerson", "loss_words"]

_UNPROTECTED = "changes an exact value and is not protected at all"


@dataclass(frozen=True, eq=False, repr=False)
class OnePerson(Words):
    """In which cells one record can change while all exact values stay, and at what loss.

    Parameters
    ----------
    cells : int
        All cells.
    movable : int
        Cells from which a record can move to some other cell.
    uncounted : int
        Cells in which a record can come or go.
    alike : bool
        Whether a record can move from any cell to any other.
    move, addition : Loss, optional
        What that costs at most; None where nothing is known, or nothing stated.
    least, most : int, optional
        How many records change together where none can alone: at least, and with Semi-DP at most; None where not known.
    sampler : SamplerStatement
        How the noise was drawn: while that is not exact, no loss stands without it.

    Examples
    --------
    >>> OnePerson(6, 0, 0, False, least=2)
    "Changing, adding or removing one person's record alone changes an exact value and is not protected at all. Protected are only changes of 2 or more records together that leave every exact value as it is."
    """  # noqa: E501  # one sentence

    cells: int
    movable: int
    uncounted: int
    alike: bool
    move: Loss | None = None
    addition: Loss | None = None
    least: int | None = None
    most: int | None = None
    sampler: SamplerStatement = EXACT_SAMPLER
    name = "one person"

    @classmethod
    def _words(cls, *values: Any, **given: Any) -> str:
        own = SimpleNamespace(**given)
        if not own.movable and not own.uncounted:
            return (
                f"Changing, adding or removing one person's record alone {_UNPROTECTED}. Protected are only changes of "
                f"{_together(own)} together that leave every exact value as it is."
            )
        return " ".join(filter(None, (_moved(own), _came(own))))


def loss_words(loss: Loss, sampler: SamplerStatement) -> str:
    """Write a loss; while the sampler is not exact, never without saying so."""
    if loss.says_nothing or sampler.exact:
        return str(loss)
    return f"target {loss} ({sampler.replace(':', ',')})"


def _moved(own: SimpleNamespace) -> str:
    if not own.movable:
        return f"Moving one person's record from one cell to another {_UNPROTECTED}." if own.cells > 1 else ""
    cost = _cost(own.move, own.sampler)
    if own.alike:
        return f"Moving one person's record from one cell to any other {cost}."
    if own.movable == own.cells:
        return (
            f"Moving one person's record between two cells that count towards the same exact values {cost}; moving it anywhere "
            f"else {_UNPROTECTED}."
        )
    return (
        f"In {own.movable} of {own.cells} cells one person's record can move to another cell without changing an exact value, "
        f"which {cost}; every other move of one record {_UNPROTECTED}."
    )


def _came(own: SimpleNamespace) -> str:
    if not own.uncounted:
        return f"Adding or removing one {_UNPROTECTED}."
    everywhere = own.uncounted == own.cells
    if own.addition is None and everywhere:
        return "Nothing is stated about adding or removing one: the number of records is taken to be public."
    where = "" if everywhere else f" in {own.uncounted} of {own.cells} cells, which no exact value counts,"
    unknown = "is something about which nothing is stated"
    cost = unknown if own.addition is None else _cost(own.addition, own.sampler)
    rest = "" if everywhere else f"; adding or removing one anywhere else {_UNPROTECTED}"
    return f"Adding or removing one{where} {cost}{rest}."


def _cost(loss: Loss | None, sampler: SamplerStatement) -> str:
    if loss is None:
        return "is protected, but at what loss is not known"
    return f"{'has' if loss.says_nothing else 'costs at most'} {loss_words(loss, sampler)}"


def _together(own: SimpleNamespace) -> str:
    """How many records change at least, and with Semi-DP at most."""
    if own.least is None:
        return "several records" if own.most is None else f"up to {own.most} records"
    if own.most is None:
        return f"{own.least} or more records"
    return f"{own.least} records" if own.most == own.least else f"{own.least} to {own.most} records"

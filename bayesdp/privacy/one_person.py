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
        person = SimpleNamespace(**given)
        if not person.movable and not person.uncounted:
            return (
                f"Changing, adding or removing one person's record alone {_UNPROTECTED}. Protected are only changes of "
                f"{_group_size(person)} together that leave every exact value as it is."
            )
        return " ".join(filter(None, (_move_sentence(person), _addition_sentence(person))))


def loss_words(loss: Loss, sampler: SamplerStatement) -> str:
    """Write a loss; while the sampler is not exact, never without saying so."""
    if loss.says_nothing or sampler.exact:
        return str(loss)
    return f"target {loss} ({sampler.replace(':', ',')})"


def _move_sentence(person: SimpleNamespace) -> str:
    """What moving one record from a cell to another costs, and from which cells it can move."""
    if not person.movable:
        return f"Moving one person's record from one cell to another {_UNPROTECTED}." if person.cells > 1 else ""
    cost = _cost_words(person.move, person.sampler)
    if person.alike:
        return f"Moving one person's record from one cell to any other {cost}."
    if person.movable == person.cells:
        return (
            f"Moving one person's record between two cells that count towards the same exact values {cost}; moving it anywhere "
            f"else {_UNPROTECTED}."
        )
    return (
        f"In {person.movable} of {person.cells} cells one person's record can move to another cell without changing an exact value, "
        f"which {cost}; every other move of one record {_UNPROTECTED}."
    )


def _addition_sentence(person: SimpleNamespace) -> str:
    """What adding or removing one record costs, and in which cells."""
    if not person.uncounted:
        return f"Adding or removing one {_UNPROTECTED}."
    everywhere = person.uncounted == person.cells
    if person.addition is None and everywhere:
        return "Nothing is stated about adding or removing one: the number of records is taken to be public."
    where = "" if everywhere else f" in {person.uncounted} of {person.cells} cells, which no exact value counts,"
    unknown = "is something about which nothing is stated"
    cost = unknown if person.addition is None else _cost_words(person.addition, person.sampler)
    rest = "" if everywhere else f"; adding or removing one anywhere else {_UNPROTECTED}"
    return f"Adding or removing one{where} {cost}{rest}."


def _cost_words(loss: Loss | None, sampler: SamplerStatement) -> str:
    if loss is None:
        return "is protected, but at what loss is not known"
    return f"{'has' if loss.says_nothing else 'costs at most'} {loss_words(loss, sampler)}"


def _group_size(person: SimpleNamespace) -> str:
    """How many records change at least, and with Semi-DP at most."""
    if person.least is None:
        return "several records" if person.most is None else f"up to {person.most} records"
    if person.most is None:
        return f"{person.least} or more records"
    return f"{person.least} records" if person.most == person.least else f"{person.least} to {person.most} records"

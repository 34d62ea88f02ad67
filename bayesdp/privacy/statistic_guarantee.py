"""The guarantee of a mechanism that publishes statistics of a data set, which is about neighbouring data sets."""

from __future__ import annotations

from dataclasses import dataclass

from bayesdp.privacy.guarantee import Guarantee
from bayesdp.privacy.pairs import PairLoss
from bayesdp.privacy.relations import Neighbours


@dataclass(frozen=True)
class StatisticGuarantee(Guarantee):
    """A `Guarantee` about neighbouring data sets; its first pair says what neighbours are."""

    def _protected(self) -> list[tuple[str, list[str]]]:
        size = self.parameters.size
        shown = self.shown_loss(self.parameters.loss)
        return [
            *((sentence, []) for sentence in (_one_person(self.pairs, shown),) if sentence),
            ("Neighbouring data sets are protected against being told apart.", []),
            (f"Loss for neighbours, whose statistics are up to {size:.6g} apart in {self.unit} norm: {shown}", []),
            *((("Loss for particular pairs:", self._rows(self.pairs)),) if self.pairs else ()),
        ]


def _one_person(pairs: tuple[PairLoss, ...], shown: str) -> str:
    """What the guarantee means for one person, by the relation of neighbours that the first row names; "" if it is another."""
    about = pairs[0].about if pairs else None
    if not isinstance(about, Neighbours):
        return ""
    if about.change == "add-remove":
        return f"Adding or removing one person's record costs at most {shown}."
    return (
        f"Changing one person's record costs at most {shown}. Nothing is stated about adding or removing one: the number of "
        "records is public."
    )

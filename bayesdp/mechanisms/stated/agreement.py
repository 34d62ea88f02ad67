"""Whether two descriptions say the same, and whether a guarantee states the losses that follow from a mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesdp.privacy import Guarantee, PairLoss
from bayesdp.privacy.relations import Sentence
from bayesdp.privacy.words import OnePerson

_ROUNDING = 1e-6
"""Relative difference up to which two numbers are one: laws come from root finding, and another machine rounds otherwise."""

LOSS = ("epsilon", "delta", "rho", "mu")
"""Names of privacy parameters."""


def check_loss(own: Guarantee, stated: Guarantee, who: str) -> None:
    """Check kind, unit, parameters and rows of a guarantee against `own`, which follows from the mechanism `who`.

    The guarantee may leave rows out. ValueError if a number differs; the message names both sides.
    """
    for key in ("kind", "unit"):
        mine, theirs = getattr(own, key), getattr(stated, key)
        if mine != theirs:
            raise ValueError(f"the guarantee's {key} is {theirs!r}, but that of {who} is {mine!r}")
    if not alike(dict(own.parameters), dict(stated.parameters)):
        raise ValueError(
            f"the guarantee states {words(stated.parameters)}, but noise of {who} as described has {words(own.parameters)}"
        )
    for row in stated.pairs:
        _check_row(row, own, who)


def _check_row(row: PairLoss, own: Guarantee, who: str) -> None:
    """A row of the guarantee is a row of the mechanism; a row of which only a sentence is known is compared by norm and length."""
    same_pairs = [mine for mine in own.pairs if mine.about == row.about]
    same_length = [mine for mine in own.pairs if mine.norm == row.norm and alike(mine.size, row.size)]
    if any(_row_agrees(row, mine) for mine in same_pairs or (same_length if isinstance(row.about, Sentence) else [])):
        return
    claim = f"{words(row.loss)} at {row.norm} distance {row.size:.10g} ({row.relation})"
    mine = "; ".join(f"{words(own.loss)} at {own.norm} distance {own.size:.10g} ({own.relation})" for own in own.pairs)
    raise ValueError(f"the guarantee states {claim}, but {who} has {mine or 'no such row'}")


def _row_agrees(row: PairLoss, mine: PairLoss) -> bool:
    same = row.norm == mine.norm and alike(row.size, mine.size) and set(row.loss) <= set(mine.loss)
    if "epsilon" in row.loss and "delta" in mine.loss and "delta" not in row.loss:
        return False  # an epsilon without its delta is another claim: pure differential privacy
    return same and all(alike(value, mine.loss[name]) for name, value in row.loss.items())


def alike(one: Any, other: Any) -> bool:
    """Whether two descriptions say the same, up to rounding of real numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, str | bool | None) or isinstance(other, str | bool | None):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other) == 2:
        return all(map(alike, one, other))  # bounds: one side may be a number, and the other a list
    try:
        mine, theirs = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    except OverflowError:  # a whole number beyond all floats
        return bool(one == other)
    return mine.shape == theirs.shape and bool(np.allclose(mine, theirs, rtol=_ROUNDING, atol=0.0, equal_nan=True))


def check_person(stated: str, own: Sequence[str], who: str) -> None:
    """Check that what is said of one person's record is one of those that are true, or nothing ("").

    Files of older versions have a sentence in place of numbers. ValueError if something else is said; the message has both sides.
    """
    if isinstance(stated, OnePerson):
        true = any(isinstance(way, OnePerson) and alike(stated.describe(), way.describe()) for way in own)
    else:
        true = not stated or stated in own
    if not true:
        raise ValueError(f"person says {str(stated)!r}, but {who} says {repr(str(own[0])) if own[0] else 'nothing'}")


def words(description: Mapping[str, Any]) -> str:
    """A law or a loss in a few words, with all digits."""
    texts = []
    for key, value in description.items():
        if isinstance(value, list) and (len(value) > 2 or any(isinstance(own, list) and len(own) > 2 for own in value)):
            sizes = {np.shape(own) for own in value}
            shape = (len(value), *sizes.pop()) if len(sizes) == 1 else (sum(map(np.size, value)),)
            value = f"<{' × '.join(map(str, shape))} numbers>"
        texts.append(
            f"{value}" if key == "law" else f"{key} = {value!r}" if not isinstance(value, str) else f"{key} = {value}"
        )
    return ", ".join(texts)

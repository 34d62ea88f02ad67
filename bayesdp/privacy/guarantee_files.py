"""Guarantees in files: rows, caveats and what is said of one person, read from plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesdp import _validate
from bayesdp.privacy import caveats
from bayesdp.privacy.old_words import relation_of_words
from bayesdp.privacy.one_person import person_from
from bayesdp.privacy.pairs import PairLoss
from bayesdp.privacy.relations import relation_from
from bayesdp.privacy.words import Words, words_from

__all__ = ["caveat_from", "exactly", "row_from", "typed_sentences"]

_CAVEATS = [
    own for own in vars(caveats).values() if isinstance(own, type) and issubclass(own, Words) and own is not Words
]


def caveat_from(description: Any) -> Words:
    """Read what `Words.describe` wrote of a caveat.

    Raises
    ------
    TypeError, ValueError
        If it is no such description; the key is named.

    Examples
    --------
    >>> caveat_from(caveats.Rounded(-20).describe())
    'Released values are rounded to multiples of 2**-20, invariants kept.'
    """
    return words_from(description, _CAVEATS, "a caveat")


def typed_sentences(entries: Mapping[str, Any], about: Any) -> dict[str, Any]:
    """What is said under ``about``, in the place of the words."""
    if not isinstance(about, Mapping) or not set(about) <= {"caveats", "record"}:
        raise ValueError(f"about of a guarantee may have the keys 'caveats' and 'record', got {about!r}")
    found: dict[str, Any] = {}
    if "record" in about:
        found["person"] = person_from(about["record"])
    if "caveats" in about:
        words, typed = entries["caveats"], about["caveats"]
        if not isinstance(words, (list, tuple)):
            return found  # which is said where the caveats are checked
        if not isinstance(typed, (list, tuple)) or len(words) != len(typed):
            raise ValueError("about of a guarantee must have an entry for each of its caveats")
        pairs = zip(words, typed, strict=True)
        found["caveats"] = tuple(word if own is None else caveat_from(own) for word, own in pairs)
    return found


def row_from(description: Any) -> PairLoss:
    """Read a row. What it is about counts, and not its words; files of earlier versions have the words only."""
    row = exactly(
        {"about": None, **description} if isinstance(description, Mapping) else description, _ROW, "row of a guarantee"
    )
    about, words = row.pop("about"), row.pop("relation")
    return PairLoss(relation_of_words(words) if about is None else relation_from(about), **row)


_ROW = ["relation", "size", "norm", "loss", "about"]


def exactly(description: Any, names: list[str], what: str) -> dict[str, Any]:
    """Accept a mapping with exactly these keys."""
    if not isinstance(description, Mapping):
        raise TypeError(f"the description of a {what} must be a mapping, got {description!r}")
    unknown = [key for key in description if key not in names]
    if unknown:
        raise ValueError(
            f"the description of a {what} has unknown keys {_validate.shown(unknown)}; "
            f"valid keys are {', '.join(names)}"
        )
    missing = [name for name in names if name not in description]
    if missing:
        raise ValueError(f"the description of a {what} lacks {_validate.shown(missing)}")
    return dict(description)

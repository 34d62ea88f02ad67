"""Guarantees in files: rows, caveats and what is said of one person, read from plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesdp import _validate
from bayesdp.privacy import caveats
from bayesdp.privacy.pairs import PairLoss
from bayesdp.privacy.relations import Sentence, relation_from
from bayesdp.privacy.words import OnePerson, SamplerStatement, Words, words_from

_ROW = ["relation", "size", "norm", "loss", "about"]
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


def person_from(description: Any) -> OnePerson:
    """Read what `OnePerson.describe` wrote."""
    found = words_from(description, (OnePerson,), "what is said of one person's record")
    assert isinstance(found, OnePerson)
    return found


def typed_sentences(entries: Mapping[str, Any], about: Any) -> dict[str, Any]:
    """The caveats, the sampler and what is said of one person, as ``about`` states them.

    Caveats that it does not state are sentences from which nothing follows.
    """
    if not isinstance(about, Mapping) or not set(about) <= {"caveats", "record", "sampler"}:
        raise ValueError(f"about of a guarantee may have the keys 'caveats', 'record' and 'sampler', got {about!r}")
    found: dict[str, Any] = {}
    if "record" in about:
        found["person"] = person_from(about["record"])
    if "sampler" in about:
        found["sampler"] = words_from(about["sampler"], (SamplerStatement,), "the sampler of a guarantee")
        if entries["sampler"] != found["sampler"]:
            raise ValueError(
                f"sampler of a guarantee is {entries['sampler']!r}, but its 'about' says {found['sampler']!r}: they must agree"
            )
    else:
        found["sampler"] = SamplerStatement.of(entries["sampler"])
    words = entries["caveats"]
    if not isinstance(words, (list, tuple)):
        return found  # the guarantee says what is wrong
    stated = about.get("caveats", [None] * len(words))
    if not isinstance(stated, (list, tuple)) or len(words) != len(stated):
        raise ValueError("about of a guarantee must have an entry for each of its caveats")
    found["caveats"] = tuple(
        (caveats.Sentence(text) if isinstance(text, str) else text) if entry is None else caveat_from(entry)
        for text, entry in zip(words, stated, strict=True)
    )
    return found


def row_from(description: Any) -> PairLoss:
    """Read a row. What it is about counts, and not its words; from words alone nothing follows."""
    row = exactly(
        {"about": None, **description} if isinstance(description, Mapping) else description, _ROW, "row of a guarantee"
    )
    about, words = row.pop("about"), row.pop("relation")
    return PairLoss(Sentence(words) if about is None else relation_from(about), **row)


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

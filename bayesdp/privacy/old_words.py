"""What rows and caveats of files are about that do not say it: words, each with its relation or its caveat.

The relations are a table of fixed sentences, and nothing is added to it: newer files carry the relation itself.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

from bayesdp.privacy.caveats import SENTENCES, Fixed
from bayesdp.privacy.caveats import Sentence as CaveatSentence
from bayesdp.privacy.relations import Apart, Kept, Neighbours, Relation, Sentence
from bayesdp.sensitivities.differences import DIFFERENCES, Difference

__all__ = ["caveat_of_words", "relation_of_words"]

_ADDED = Difference("one record added to or removed from a cell that no invariant counts", 1.0, 1.0)
_BLOCKS = range(3, 21)
_ADJACENCIES = range(1, 1001)


def relation_of_words(words: Any) -> Relation:
    """The relation that the words stand for; a `Sentence`, from which nothing follows, if they are others.

    Raises
    ------
    TypeError
        If it is no sentence.

    Examples
    --------
    >>> relation_of_words("neighbouring tables: one record is added or removed (add-remove)")
    Neighbours(change='add-remove', among='', bound='')
    """
    plain = Sentence(words)
    return _known().get(plain.text, plain)


@cache
def _known() -> dict[str, Relation]:
    kinds = [*DIFFERENCES.values(), _ADDED, *map(_product_move, _BLOCKS)]
    found: list[Relation] = [Kept(kind, bound) for kind, bound in product(kinds, ("", "largest", "upper"))]
    for change, among in product(("substitution", "add-remove"), ("", "all", "joint", "data")):
        found += [Neighbours(change, among), Neighbours(change, among, "at most")]
    found += [Apart(a, joint) for a, joint in product(_ADJACENCIES, (False, True))]
    return {relation.words: relation for relation in found}


def _product_move(blocks: int) -> Difference:
    name = "x".join("2" * blocks)
    records, size = 2 ** (blocks - 1), 2.0**blocks
    words = f"{records} records exchange categories within a {name} subtable, all its margins of fewer dimensions kept ({name} move)"
    return Difference(words, size, math.sqrt(size))


def caveat_of_words(words: str) -> Fixed | CaveatSentence:
    """The caveat that a sentence is: one without numbers is known by it, any other is a `Sentence`.

    Examples
    --------
    >>> type(caveat_of_words(SENTENCES["generator"])).__name__, type(caveat_of_words("made up")).__name__
    ('Fixed', 'Sentence')
    """
    which = next((key for key, sentence in SENTENCES.items() if sentence == words), None)
    return CaveatSentence(words) if which is None else Fixed(which)

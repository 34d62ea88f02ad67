"""What rows of files are about that were written before rows said it: the words of that time, each with its relation.

This is a table of fixed sentences, and nothing is added to it: newer files carry the relation itself.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

from bayesdp.privacy.relations import DIFFERENCES, Apart, Difference, Kept, Neighbours, Relation, Sentence

__all__ = ["relation_of_words"]

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

"""What rows, caveats and samplers of files of earlier versions are about, which have their sentences only.

The sentences are fixed, and nothing is added to them: newer files carry the relation, the caveat and the sampler themselves.
`bayesdp.privacy.guarantee_files` alone uses this module.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

from bayesdp.privacy.caveats import SENTENCES, Fixed
from bayesdp.privacy.caveats import Sentence as CaveatSentence
from bayesdp.privacy.relations import Apart, Kept, Neighbours, Relation, Sentence
from bayesdp.privacy.samplers import EXACT_SAMPLER, SamplerStatement
from bayesdp.sensitivities.differences import DIFFERENCES, Difference

__all__ = ["caveat_of_words", "relation_of_words", "sampler_of_words"]

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


def sampler_of_words(words: Any) -> SamplerStatement:
    """The sampler that a text states.

    Raises
    ------
    ValueError
        If it states none.

    Examples
    --------
    >>> sampler_of_words("approximate: 50 sweeps of hit-and-run, convergence not certified").chain
    'hit-and-run'
    """
    if isinstance(words, str):
        sweeps = next((int(part) for part in words[:60].split() if part.isascii() and part.isdigit()), 0)
        chains = [SamplerStatement(chain, sweeps) for chain in ("Gibbs", "hit-and-run") if sweeps]
        for sampler in (EXACT_SAMPLER, *chains):
            if words == sampler:
                return sampler
    raise ValueError(
        f"sampler must be {EXACT_SAMPLER!r} or 'approximate: n sweeps of Gibbs, convergence not certified', got {words!r}"
    )

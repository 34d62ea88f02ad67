"""Where chains began: at which cell of every tied group, as numbers small enough to travel with draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.ends import ends_of
from bayesdp.hierarchies.groups import tied_groups
from bayesdp.hierarchies.modes import TiedGroups
from bayesdp.hierarchies.structure import Structure

type Ints = npt.NDArray[np.int64]

_BITS = 48
"""Bits of a word: with its number above them it is a whole number of 63 bits, and alone one that a float64 holds exactly."""


def words_of(chain: TreeChain) -> Ints:
    """Where the tied groups of a chain's table have most of their counts (`bayesdp.hierarchies.ends.ends_of`), in words of 48 bits."""
    # The first word says which query ties the groups. Returns shape (1 + T * C / 48, rounded up,).
    bits = ends_of((chain.state.group_start, chain.state.group_cell), chain.state.counts).reshape(-1)
    whole = np.zeros((-(-bits.size // _BITS), _BITS), dtype=np.int64)
    whole.reshape(-1)[: bits.size] = bits
    query = 0 if chain.tying is None else chain.tying + 1
    words = np.concatenate([[query], whole @ (np.int64(1) << np.arange(_BITS))])
    return np.asarray(words, dtype=np.int64)


def numbered(words: Ints, number: int) -> int:
    """A word with its number.

    A step method of PyMC can tell one number a draw. So a word says which one it is, and words may be told in any order, and again.
    """
    return (number << _BITS) + int(words[number])


def read_words(told: Ints, structure: Structure) -> TiedGroups | None:
    """The tied groups, and where chains began at different ends of them."""
    # `told`, shape (chains, draws): numbered words, which the chains have told with their draws. None where the query that ties was
    # not told. Cells of which some chain has not told enough, because there were fewer draws than words, count as not apart.
    number, word = told >> _BITS, told & ((1 << _BITS) - 1)
    queries = word[0][number[0] == 0]
    if not queries.size:
        return None
    size = -(-structure.free.size // _BITS)
    words = np.zeros((len(told), 1 + size), dtype=np.int64)
    known = np.zeros(words.shape, dtype=np.bool_)
    chain = np.broadcast_to(np.arange(len(told))[:, None], told.shape)
    words[chain, number], known[chain, number] = word, True
    bits = (words[:, 1:, None] >> np.arange(_BITS)) & 1
    apart = (bits != bits[:1]).any(axis=0) & known[:, 1:].all(axis=0)[:, None]
    query = int(queries[0])
    return TiedGroups(
        structure,
        tied_groups(structure, query - 1 if query else None),
        apart.reshape(-1)[: structure.free.size].reshape(structure.free.shape),
    )

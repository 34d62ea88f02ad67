"""Chains begin at random tables far apart, and `modes` compares them afterwards.

Chains come in pairs, which are independent of one another. The two of a pair are opposite: the random errors of their starts have
opposite signs (`bayesdp.hierarchies.start`), and the counts of every tied group of cells are in one cell of it, drawn at random, or in
the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.kernel.ends import gather
from bayesdp.hierarchies.kernel.state import PRECISION, RESIDUAL, UNBOUNDED
from bayesdp.hierarchies.structure import Structure

if TYPE_CHECKING:
    from bayesdp.hierarchies.chain import TreeChain

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]
type Groups = tuple[Ints, Ints]

FAR = 6.0
"""Standard deviations of its own noise that a cell is put away from its own noisy answer at most."""

_PAIRS = 17
"""Marks the seeds of pairs of chains, which nothing else is drawn from."""


def paired(rng: np.random.Generator, number: int | None) -> tuple[np.random.Generator, bool]:
    """A generator for the start of a chain, the same for both of its pair, and whether it is the second of them.

    That of the chain itself was spawned as those of the others were; without a number it is alone.
    """
    if number is None:
        return rng, False
    seeds: Any = rng.bit_generator.seed_seq
    place = (_PAIRS, number // 2, abs(sum(seeds.spawn_key) - number))
    return np.random.default_rng(np.random.SeedSequence(seeds.entropy, spawn_key=place)), bool(number % 2)


def to_ends(chain: TreeChain, rng: np.random.Generator, number: int | None = None) -> None:
    """Move the counts of every tied group of a chain's table to one of its cells."""
    # Only counts within a group of a leaf are moved. All exact answers and all limits of sums stay kept, and every sum that ties a
    # group stays what it is. A cell that has a noisy answer of its own is not put further than six standard deviations of that
    # noise from it: no mode is there, and the way back would be long. `chain`: with a table loaded. `rng`: draws the ends: in the
    # same state for both chains of a pair (`paired`). `number`: the number of the chain: 0, 1, 2, ... With generators in the same
    # state, chains with consecutive numbers have different ends in every group of two or more cells.
    state, structure = chain.state, chain.structure
    size = np.diff(state.group_start, axis=1)
    room = np.maximum(size, 1)
    end = (rng.integers(0, 2**31, size=room.shape) + (number or 0)) % room
    chain.renew()
    lower, upper = _own_limits(structure, state.answers, state.counts)
    gather(state, end.astype(np.int64), lower, upper)
    chain.renew()


def chain_number(rng: np.random.Generator) -> int | None:
    """A number that grows by one from chain to chain, where a generator tells: those of chains were spawned from one, in order.

    Samplers spawn again for the parts of a chain, equally often in each, so the sum of the spawn key is taken. None for a
    generator that was not spawned.
    """
    seeds = getattr(rng.bit_generator, "seed_seq", None)
    key = tuple(getattr(seeds, "spawn_key", ()))
    return sum(key) if key else None


def ends_of(groups: Groups, counts: Ints) -> Mask:
    """The cell of each tied group that has most of its counts, the first of several; none where all are 0."""
    # `groups`: `(state.group_start, state.group_cell)`. `counts`, shape (T, C). Returns shape (T, C).
    leaf, cell, group = entries_of(groups)
    own = counts[leaf, cell]
    order = np.lexsort((-own, group))
    first = order[np.unique(group[order], return_index=True)[1]]
    first = first[own[first] > 0]
    found = np.zeros(counts.shape, dtype=np.bool_)
    found[leaf[first], cell[first]] = True
    return found


def entries_of(groups: Groups) -> tuple[Ints, Ints, Ints]:
    """Leaf, cell and number of the group of every entry of ``(state.group_start, state.group_cell)``."""
    start, cell = groups
    size = np.diff(start, axis=1)
    number = np.repeat(np.arange(size.size), size.reshape(-1))
    return number // max(size.shape[1], 1), cell, number


def _own_limits(structure: Structure, answers: Floats, counts: Ints) -> tuple[Ints, Ints]:
    """The counts of each cell within `FAR` standard deviations of its own noisy answer in its leaf; all where it has none."""
    lower, upper = np.zeros(counts.shape, dtype=np.int64), np.full(counts.shape, UNBOUNDED, dtype=np.int64)
    leaves = structure.path[:, 0]
    for q in np.flatnonzero(np.diff(structure.query_start) == counts.shape[1]):
        own = answers[leaves][:, structure.answer_of[:, q]]
        known = own[..., PRECISION] > 0.0
        noisy = counts + own[..., RESIDUAL]
        away = FAR / np.sqrt(np.where(known, own[..., PRECISION], 1.0))
        lower = np.where(known, np.maximum(lower, np.ceil(noisy - away)), lower).astype(np.int64)
        upper = np.where(known, np.minimum(upper, np.floor(noisy + away)), upper).astype(np.int64)
    return lower, upper

"""Directions of movement: random integer vectors that change no invariant.

A direction is drawn without looking at the table, and the step along it is then drawn from its exact
conditional law. That leaves every law on the fiber invariant whatever the distribution of the directions, so
a family of moves is judged only by what it connects and how fast it mixes. The families:

product
    a product of differences: pair moves ``e_a - e_b`` of totals, 2x2 moves of two-way margins, and so on
    (`families`).
cycle
    a simple cycle of the bipartite graph of the cells of a two-way table that may move.
listed
    vectors of an explicit list: single cells, or a reduced lattice basis with short combinations (`listed`).
sums
    signed sums of 1 + Geometric(1/2) moves of the other families. As the others generate the whole lattice,
    every integer direction that the kernel has room for (64 moves without common cells, and more) has
    positive probability.

Noisy answers that are precise beside the others are kept by a share of the directions (`Kept`): a direction that
changes one has next to no room, and two tables that agree in it may be joined by no others. These families come
beside those of the exact answers, so that they take nothing from what is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import NestedSums
from bayesdp.invariants import Invariants
from bayesdp.moves.families import Classes, classes_of, is_decomposable, is_two_way, product_families
from bayesdp.moves.listed import directions_on, single_cells

__all__ = [
    "CYCLE",
    "KEPT_CELLS",
    "KEPT_SHARE",
    "LISTED",
    "PRODUCT",
    "SUMS",
    "Kept",
    "Moves",
    "has_families",
    "moves_for",
]

type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

MOST_FACTORS = 3
"""Products of more differences are not drawn by looking at the table."""

PRODUCT, LISTED, CYCLE, SUMS = 0, 1, 2, 3
"""Kinds of families; the first number of a family's row in `Moves.meta`."""

_SUMS_SHARE = 0.08
"""Weight of the random sums against all other families: they cost more and are needed rarely."""

_LISTED_CELLS = 64
"""Up to this many cells, a list with every short primitive move is added where nothing is proved: it mixes
better."""

KEPT_CELLS = 100
"""Up to this many cells, directions that keep precise noisy answers are listed where they have no closed form: a reduced basis
of 128 cells takes a third of a second."""

KEPT_SHARE = 0.5
"""Share of the directions that keep precise noisy answers besides, where there are any."""

_SINGLE = "proved: every cell moves on its own"
_PAIRS = "proved: pair moves connect every table with the same disjoint totals"
_SQUARES = (
    "proved: 2x2 moves connect every table with these margins (Diaconis and Sturmfels 1998 for two-way "
    "tables; Dobra 2003 for decomposable sets of margins)"
)
_CYCLES = "proved: simple cycles of the graph of free cells connect every two-way table with these margins"
_UNPROVED = (
    "no Markov basis is known for these invariants: basic moves are mixed with random sums of them, which "
    "reach every table of the fiber with positive probability, but how fast is not proved"
)


@dataclass(frozen=True, eq=False)
class Moves:
    """Families of directions, packed for the kernel.

    Parameters
    ----------
    meta : int64 array, shape (families, width)
        What each family is: kind, number of factors, then four numbers a factor that say where its lists
        start in `pool` (see `_Builder`). Random sums, if there are any, come last.
    cumulative : float64 array, shape (families,)
        Cumulative probabilities of the families.
    pool : int64 array
        All index lists of all families, one after the other.
    longest : int
        Bound on the number of cells in one direction that is not a sum.
    proved : bool
        Whether the moves other than sums are known to connect every fiber of these invariants (a Markov
        basis).
    claim : str
        What is known of connectivity, in words.
    looking : int64 array, shape (others, width)
        Products of up to three differences that are drawn by looking at which cells are not 0 (`fibers.kernel.donors`), laid
        out as in `meta`. None where no noisy answer is precise beside the others.
    whole : int
        How many of these, the first ones, keep all that a set of directions keeps; the others only some of its sums.
    """

    meta: Ints
    cumulative: npt.NDArray[np.float64]
    pool: Ints
    longest: int
    proved: bool
    claim: str
    looking: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    whole: int = 0


@dataclass(frozen=True, eq=False)
class Kept:
    """What some directions keep beside the exact answers.

    Parameters
    ----------
    invariants : Invariants
        The exact answers and some noisy ones.
    fixed : bool array, shape (cells,)
        Cells that these directions do not move.
    parts : tuple of Kept
        The same with some of the noisy sums only.
    """

    invariants: Invariants
    fixed: Mask
    parts: tuple[Kept, ...] = ()


def _packed(rows: Sequence[Sequence[int]]) -> Ints:
    """Rows of numbers in one array, with zeros at their ends."""
    packed = np.zeros((len(rows), max((len(row) for row in rows), default=2)), dtype=np.int64)
    for own, row in zip(packed, rows, strict=True):
        own[: len(row)] = row
    return packed


class _Builder:
    """Collects families: a row of `meta` and a weight each, and the lists that the rows point to."""

    def __init__(self, limited_rows: bool = False) -> None:
        self._limited_rows = limited_rows
        self._rows: list[list[int]] = []
        self._weights: list[float] = []
        self._pool: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._used = 0
        self._longest = 1
        self._sets: list[int] = []
        self._looking: list[list[int]] = []
        self._whole = 0
        self._looked: set[tuple[tuple[bytes, ...], ...]] = set()

    def product(self, factors: Sequence[Classes]) -> None:
        """Add products of differences; for each factor the classes of offsets that may be exchanged.

        Numbers of a factor: how many offsets, where they start, where the class of each starts, where the
        bounds of the classes start.
        """
        self._rows.append([PRODUCT, len(factors), *self._factors(factors)])
        self._weights.append(1.0)
        self._longest = max(self._longest, 2 ** len(factors))

    def _factors(self, factors: Sequence[Classes]) -> list[int]:
        numbers: list[int] = []
        for classes in factors:
            kept = [own for own in classes if len(own) > 1]
            sizes = np.array([len(own) for own in kept], dtype=np.int64)
            offsets = self._lay_down(np.concatenate(kept))
            members = self._lay_down(np.repeat(np.arange(len(kept)), sizes))
            bounds = self._lay_down(np.concatenate([[0], np.cumsum(sizes)]))
            numbers += [int(sizes.sum()), offsets, members, bounds]
        return numbers

    def pairs(self, codes: Ints, cells: Ints) -> None:
        """Add the pair moves of disjoint blocks: `cells`, and the block of each."""
        classes = classes_of(codes, cells) if cells.size else []
        if any(len(own) > 1 for own in classes):
            self.product([classes])

    def listed(self, vectors: sp.csr_array) -> None:
        """Add explicit vectors, one a row. Numbers: how many, where indptr, cells and entries start."""
        if not vectors.shape[0]:
            return
        starts = [self._lay_down(array) for array in (vectors.indptr, vectors.indices, vectors.data)]
        self._add(LISTED, [[vectors.shape[0], *starts]], int(np.diff(vectors.indptr).max()))

    def cycles(self, allowed: Mask) -> None:
        """Add the simple cycles of the bipartite graph of the cells of a two-way table that may move.

        Numbers, for the rows and then for the columns: how many, where their neighbours and the bounds of
        these start.
        """
        numbers = []
        for grid in (allowed, allowed.T):
            neighbours = self._lay_down(np.nonzero(grid)[1])
            bounds = self._lay_down(np.concatenate([[0], np.cumsum(grid.sum(axis=1))]))
            numbers.append([grid.shape[0], neighbours, bounds, 0])
        self._add(CYCLE, numbers, 2 * sum(allowed.shape))

    def moves(self, proved: bool, claim: str) -> Moves:
        """Pack everything; random sums are added where connectivity is not proved."""
        if self._limited_rows:
            proved, claim = False, _UNPROVED
        self._share_out()
        looking = _packed(self._looking)
        if self._rows and not proved:
            self._rows.append([SUMS, 0])
            self._weights.append(_SUMS_SHARE * sum(self._weights))
        meta = _packed(self._rows)
        cumulative = np.cumsum(self._weights, dtype=np.float64)
        if len(cumulative):
            cumulative /= cumulative[-1]
        return Moves(meta, cumulative, np.concatenate(self._pool), self._longest, proved, claim, looking, self._whole)

    def look(self, families: Sequence[Sequence[Classes]], whole: bool) -> None:
        """Have products of up to three differences drawn by looking at which cells are not 0; each of them once."""
        for factors in families:
            key = tuple(tuple(own.tobytes() for own in classes if len(own) > 1) for classes in factors)
            if len(factors) <= MOST_FACTORS and key not in self._looked:
                self._looked.add(key)
                self._whole += whole
                self._looking.append([PRODUCT, len(factors), *self._factors(factors)])

    def begin_set(self) -> None:
        """The families that follow keep more than those before; they get a share of the directions to themselves."""
        self._sets.append(len(self._rows))

    def _share_out(self) -> None:
        """Weights of the sets of families: those of the exact answers first, the others share `KEPT_SHARE` evenly."""
        bounds = [0, *self._sets, len(self._rows)]
        sets = [(low, high) for low, high in pairwise(bounds) if high > low]
        if len(sets) < 2:
            return
        for i, (low, high) in enumerate(sets):
            share = KEPT_SHARE / (len(sets) - 1) if i else 1.0 - KEPT_SHARE
            self._weights[low:high] = [share / (high - low)] * (high - low)

    def _lay_down(self, values: npt.NDArray[np.integer]) -> int:
        """Append a list to the pool; returns where it starts."""
        start = self._used
        self._pool.append(np.asarray(values, dtype=np.int64))
        self._used += len(values)
        return start

    def _add(self, kind: int, factors: list[list[int]], longest: int) -> None:
        self._rows.append([kind, len(factors), *(n for factor in factors for n in factor)])
        self._weights.append(1.0)
        self._longest = max(self._longest, longest)


def moves_for(
    invariants: Invariants,
    fixed: Mask | None = None,
    *,
    bounded: bool = False,
    limited_rows: bool = False,
    kept: Sequence[Kept] = (),
) -> Moves:
    """The families of directions for some invariants.

    Parameters
    ----------
    invariants : Invariants
        What the directions must not change.
    fixed : bool array, shape (cells,), optional
        Cells that never move (structural zeros, cells published exactly). Some directions may still touch
        one; the bounds of the cell, which the kernel respects, block them.
    bounded : bool, default False
        Whether some cells have an upper bound. Markov bases of nonnegative tables need not connect tables
        with upper bounds; two-way tables get the simple cycles, which do.
    limited_rows : bool, default False
        Whether sums of several cells have bounds. No Markov basis is claimed then, and random sums are mixed in.
    kept : sequence of Kept
        What a share of the directions, `KEPT_SHARE` in all, keeps beside the invariants: one set of families for each
        that leaves any direction. General rows need a table that is small enough for a list (`has_families`).

    Returns
    -------
    Moves

    Raises
    ------
    TypeError, ValueError
        If `fixed` is not a boolean array with one entry a cell; if general invariants have too many cells.

    Notes
    -----
    Two-way margins without fixed cells, disjoint totals and decomposable sets of margins (Dobra 2003) have
    Markov bases of product moves: connectivity is proved. Two-way margins with fixed or bounded cells: simple
    cycles of the graph of free cells, proved (the matrix is totally unimodular, so they are its Graver
    basis). Everything else: basic moves and random sums of them.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> moves_for(Invariants(Margins(table, ["county"], ["education"]))).proved
    True
    """
    allowed = _allowed(fixed, invariants.frame.size)
    builder = _Builder(limited_rows)
    proved, claim = _add_families(builder, invariants, allowed, bounded)
    for own in kept:
        builder.begin_set()
        _add_families(builder, own.invariants, allowed & ~own.fixed, bounded, beside=True)
    if kept:
        _look(builder, kept, allowed, whole=True)
        _look(builder, [part for own in kept for part in own.parts], allowed, whole=False)
        _look(builder, [Kept(invariants, ~allowed)], allowed, whole=False)
    return builder.moves(proved, claim)


def _look(builder: _Builder, kept: Sequence[Kept], allowed: Mask, whole: bool) -> None:
    """Have the product moves of some sets drawn by looking at the table."""
    for own in kept:
        if own.invariants.nested is not None and own.invariants.rank:
            builder.look(product_families(own.invariants.nested, allowed & ~own.fixed), whole)


def has_families(invariants: Invariants) -> bool:
    """Whether directions that keep noisy answers are found by their structure, or in a table small enough for a list."""
    return invariants.nested is not None or invariants.blocks is not None or invariants.frame.size <= KEPT_CELLS


def _add_families(
    builder: _Builder, invariants: Invariants, allowed: Mask, bounded: bool, *, beside: bool = False
) -> tuple[bool, str]:
    """Add the families for some invariants; returns whether they are proved to connect, and the claim.

    Those that stand `beside` others connect nothing by themselves and need no list in a large table.
    """
    limited = bounded or not allowed.all()
    if invariants.rank == 0:
        builder.listed(single_cells(np.flatnonzero(allowed), len(allowed)))
        return True, _SINGLE
    if invariants.nested is not None:
        return _nested_families(builder, invariants, invariants.nested, allowed, limited, beside)
    if invariants.blocks is not None:
        inside, loose = allowed & (invariants.blocks >= 0), allowed & (invariants.blocks < 0)
        builder.pairs(invariants.blocks[inside], np.flatnonzero(inside))
        builder.listed(single_cells(np.flatnonzero(loose), len(allowed)))
        return True, _PAIRS
    builder.listed(directions_on(invariants, allowed))
    return False, _UNPROVED


def _allowed(fixed: Mask | None, cells: int) -> Mask:
    if fixed is None:
        return np.ones(cells, dtype=np.bool_)
    array = np.asarray(fixed)
    if array.dtype != np.bool_:
        raise TypeError(f"fixed must hold True and False, got an array of dtype {array.dtype}")
    if array.shape != (cells,):
        raise ValueError(f"fixed must have one entry for each of the {cells} cells, got shape {array.shape}")
    return ~array


def _nested_families(
    builder: _Builder, invariants: Invariants, nested: NestedSums, allowed: Mask, limited: bool, beside: bool
) -> tuple[bool, str]:
    for factors in product_families(nested, allowed):
        builder.product(factors)
    if len(nested.generators) == 1:
        return True, _PAIRS
    if limited and is_two_way(nested):
        builder.cycles(allowed.reshape(invariants.frame.shape))
        return True, _CYCLES
    if not limited and is_decomposable(nested):
        return True, _SQUARES
    # Products that touch a cell that must not move are blocked, so what is left needs a list of its own.
    if len(allowed) <= _LISTED_CELLS or not (allowed.all() or (beside and len(allowed) > KEPT_CELLS)):
        builder.listed(directions_on(invariants, allowed))
    return False, _UNPROVED

"""Directions of movement, random integer vectors that change no invariant: which some invariants ask for, and what is proved of them.

A direction is drawn without looking at the table, and the step along it is then drawn from its exact conditional law. That leaves
every law on the fiber invariant whatever the distribution of the directions, so a family of moves is judged only by what it connects
and how fast it mixes. The families:

product
    a product of differences: pair moves ``e_a - e_b`` of totals, 2x2 moves of two-way margins, and so on (`bayesdp._nested`).
cycle
    a simple cycle of the bipartite graph of the cells of a two-way table that may move.
listed
    vectors of an explicit list: single cells, or a reduced lattice basis with short combinations (`basis`).
sums
    signed sums of 1 + Geometric(1/2) moves of the other families, which generate the whole lattice: every integer direction that the
    kernel has room for has positive probability.

Noisy answers that are precise beside the others are kept by a share of the directions (`Preserved`), all of them or some, beside
the families of the exact answers, so that this takes nothing from what is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._nested import Classes, classes_of, is_decomposable, product_families, row_of_cell
from bayesdp.fibers.moves.basis import directions_on, single_cells
from bayesdp.fibers.moves.markov import COMPUTED_CELLS, computed_moves
from bayesdp.invariants import Invariants, row_keys

MOST_FACTORS = 3
"""Products of more differences are not drawn by looking at the table."""

PRODUCT, LISTED, CYCLE, SUMS = 0, 1, 2, 3
"""Kinds of families; the first number of a family's row in `Moves.meta`."""

_SUMS_SHARE = 0.08
"""Weight of the random sums against all other families: they cost more and are needed rarely."""

PRESERVING_SHARE = 0.5
"""Share of the directions that keep precise noisy answers besides, where there are any."""

PARTS_SHARE = 0.2
"""What those that keep only some of the sums have of that, where others keep them all."""

UNPROVED = (
    "no Markov basis is known for these invariants, and none was found by computation: basic moves are mixed with "
    "random sums of them, which reach every table of the fiber with positive probability, but how fast is not proved"
)

_LISTED_CELLS = 64
"""Up to this many cells, a list with every short primitive move is added where nothing is proved: it mixes better."""

PRESERVING_CELLS = 100
"""Up to this many cells, directions that keep precise noisy answers are listed where they have no closed form."""

_SINGLE = "proved: every cell moves on its own"
_PAIRS = "proved: pair moves connect every table with the same disjoint totals"
_SQUARES = (
    "proved: 2x2 moves connect every table with these margins (Diaconis and Sturmfels 1998 for two-way "
    "tables; Dobra 2003 for decomposable sets of margins)"
)
COMPUTED = (
    "proved: a Markov basis was computed for these invariants and the limits of cells and sums, by projecting and lifting "
    "(Hemmecke and Malkin 2009)"
)
_CYCLES = "proved: simple cycles of the graph of free cells connect every two-way table with these margins"


@dataclass(frozen=True, eq=False)
class Moves:
    """Families of directions, packed for the kernel."""

    # What each family is: kind, number of factors, then four numbers a factor that say where its lists start in `pool` (see
    # `Builder`), shape (families, width). Random sums, if there are any, come last.
    meta: Ints
    cumulative: Floats  # probabilities of the families, shape (families,)
    pool: Ints  # all index lists of all families, one after the other
    longest: int  # bound on the number of cells in one direction that is not a sum
    proved: bool  # whether the moves other than sums are known to connect every fiber (a Markov basis)
    claim: str  # what is known of connectivity, in words
    # Products of up to three differences that are drawn by looking at which cells are not 0 (`fibers.kernel.occupied_moves`), laid out
    # as in `meta`; the first `whole` of them keep all that a set of directions keeps, the others only some of its sums.
    looking: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    whole: int = 0


@dataclass(frozen=True, eq=False)
class Preserved:
    """What some directions keep beside the exact answers."""

    invariants: Invariants  # the exact answers and some noisy ones
    fixed: Mask  # cells that these directions do not move, shape (cells,)
    whole: bool = True  # all precise answers of a level, and not only some of its sums


def _row(kind: int, factors: list[list[int]]) -> list[int]:
    return [kind, len(factors), *(number for numbers in factors for number in numbers)]


def _packed(rows: Sequence[Sequence[int]]) -> Ints:
    """Rows of numbers in one array, with zeros at their ends."""
    packed = np.zeros((len(rows), max((len(row) for row in rows), default=2)), dtype=np.int64)
    for place, row in enumerate(rows):
        packed[place, : len(row)] = row
    return packed


class Builder:
    """Collects families: a row of `meta` and a weight each, and the lists that the rows point to."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._weights: list[float] = []
        self._pool: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._used = 0
        self._longest = 1
        self._sets: list[tuple[int, bool | None]] = [(0, None)]
        self._looking: list[list[int]] = []
        self._whole = 0
        self._listed: set[bytes] = set()
        self._looked: set[tuple[tuple[bytes, ...], ...]] = set()

    def product(self, factors: Sequence[Classes]) -> None:
        """Add products of differences; for each factor the classes of offsets that may be exchanged."""
        self._add(PRODUCT, self._factors(factors), 2 ** len(factors))

    def _factors(self, factors: Sequence[Classes]) -> list[list[int]]:
        """Of each factor: how many offsets, where they start, where the class of each starts, where the bounds of these start."""
        numbers = []
        for classes in factors:
            several = [offsets for offsets in classes if len(offsets) > 1]
            sizes = np.array([len(offsets) for offsets in several], dtype=np.int64)
            members, bounds = np.repeat(np.arange(len(several)), sizes), np.concatenate([[0], np.cumsum(sizes)])
            numbers.append([int(sizes.sum()), *map(self._lay_down, (np.concatenate(several), members, bounds))])
        return numbers

    def pairs(self, codes: Ints, cells: Ints) -> None:
        """Add the pair moves of disjoint blocks: `cells`, and the block of each."""
        classes = classes_of(codes, cells) if cells.size else []
        if any(len(members) > 1 for members in classes):
            self.product([classes])

    def listed(self, vectors: sp.csr_array) -> None:
        """Add explicit vectors, one a row. Numbers: how many, where indptr, cells and entries start."""
        if not vectors.shape[0]:
            return
        self._listed |= set(row_keys(vectors))
        starts = [self._lay_down(array) for array in (vectors.indptr, vectors.indices, vectors.data)]
        self._add(LISTED, [[vectors.shape[0], *starts]], int(np.diff(vectors.indptr).max()))

    def further(self, vectors: sp.csr_array) -> None:
        """Add those of some explicit vectors that are not listed yet: a family of their own, so that short ones stay frequent."""
        new = [i for i, key in enumerate(row_keys(vectors)) if key not in self._listed]
        self.listed(sp.csr_array(vectors[new]))

    def cycles(self, rows: Ints, columns: Ints, cells: Ints) -> None:
        """Add the simple cycles of a bipartite graph whose edges are `cells`, each between one of the rows and one of the columns."""
        # Edges that no cycle passes through, as they end at a node that has no other, are left out. Numbers, for the rows and then for
        # the columns: how many, where their neighbours, the bounds of these and the edges to them start.
        while len(cells):
            alone = (np.bincount(rows)[rows] < 2) | (np.bincount(columns)[columns] < 2)
            if not alone.any():
                break
            rows, columns, cells = rows[~alone], columns[~alone], cells[~alone]
        if not len(cells):
            return
        ends = [np.unique(nodes, return_inverse=True)[1].reshape(-1) for nodes in (rows, columns)]
        numbers = []
        for here, other in (ends, ends[::-1]):
            order = np.lexsort((other, here))
            bounds = np.concatenate([[0], np.cumsum(np.bincount(here))])
            numbers.append([len(bounds) - 1, *map(self._lay_down, (other[order], bounds, cells[order]))])
        self._add(CYCLE, numbers, 2 * (numbers[0][0] + numbers[1][0]))

    def moves(self, proved: bool, claim: str) -> Moves:
        """Pack everything; random sums are added where connectivity is not proved."""
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
            key = tuple(tuple(members.tobytes() for members in classes if len(members) > 1) for classes in factors)
            if len(factors) <= MOST_FACTORS and key not in self._looked:
                self._looked.add(key)
                self._whole += whole
                self._looking.append(_row(PRODUCT, self._factors(factors)))

    def begin_set(self, preserved: Preserved) -> None:
        """The families that follow keep a level of precise answers, or some of its sums; they get a share of the directions."""
        self._sets.append((len(self._rows), preserved.whole))

    def _share_out(self) -> None:
        """Weights of the sets of families: those of the exact answers first, the others share `PRESERVING_SHARE`."""
        ends = pairwise([*self._sets, (len(self._rows), None)])
        sets = [(low, high, kind) for (low, kind), (high, _) in ends if high > low]
        numbers = {kind: sum(other == kind for *_, other in sets) for kind in (None, True, False)}
        if len(sets) < 2:
            return
        parts = PRESERVING_SHARE * (0.0 if not numbers[False] else PARTS_SHARE if numbers[True] else 1.0)
        shares = {None: 1.0 - PRESERVING_SHARE, True: PRESERVING_SHARE - parts, False: parts}
        for low, high, kind in sets:
            self._weights[low:high] = [shares[kind] / numbers[kind] / (high - low)] * (high - low)

    def _lay_down(self, values: npt.NDArray[np.integer]) -> int:
        """Append a list to the pool; returns where it starts."""
        start = self._used
        self._pool.append(np.asarray(values, dtype=np.int64))
        self._used += len(values)
        return start

    def _add(self, kind: int, factors: list[list[int]], longest: int) -> None:
        self._rows.append(_row(kind, factors))
        self._weights.append(1.0)
        self._longest = max(self._longest, longest)


def moves_for(
    invariants: Invariants,
    fixed: Mask | None = None,
    *,
    bounded: bool | Mask = False,
    limited_rows: bool | sp.csr_array = False,
    kept: Sequence[Preserved] = (),
    compute: bool = True,
) -> Moves:
    """The families of directions for some invariants, which the directions do not change.

    `fixed`, shape (cells,): cells that never move; a direction that touches one is blocked by its bounds. `bounded`: which cells have
    an upper bound (True: any may), with which Markov bases of nonnegative tables need not connect. `limited_rows`, shape (rows,
    cells): sums of several cells that have bounds; True: some that are not known, so that nothing is proved. `kept`: what a share of
    the directions keeps beside the invariants; general rows need a small table (`has_families`). `compute`: whether a Markov basis is
    looked for where none is known, which is not of use for vectors that may be negative.

    Two-way margins without fixed cells, disjoint totals and decomposable sets of margins (Dobra 2003) have Markov bases of product
    moves: connectivity is proved. Two-way margins with fixed or bounded cells: simple cycles of the graph of free cells, proved (the
    matrix is totally unimodular, so they are its Graver basis). Everything else: basic moves, and a computed Markov basis (the Graver
    basis where every cell has a bound) if that is found (`markov_basis`; up to about 30 kinds of cells that are in the same sums, 15
    where all are bounded, and more where there are few directions), which is a proof; else random sums of them.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> moves_for(Invariants(Margins(table, ["county"], ["education"]))).proved
    True
    """
    cells = invariants.frame.size
    limited = np.broadcast_to(np.asarray(bounded, dtype=np.bool_), (cells,))
    held = np.zeros(cells, dtype=np.bool_) if fixed is None else np.asarray(fixed)
    if held.dtype != np.bool_:
        raise TypeError(f"fixed must hold True and False, got an array of dtype {held.dtype}")
    if held.shape != (cells,):
        raise ValueError(f"fixed must have one entry for each of the {cells} cells, got shape {held.shape}")
    allowed = ~held
    builder = Builder()
    proved, claim = _add_families(builder, invariants, allowed, bool(limited[allowed].any()))
    sums = limited_rows if isinstance(limited_rows, sp.csr_array) else sp.csr_array((0, cells), dtype=np.int64)
    if limited_rows is not sums and limited_rows:
        proved, claim = False, UNPROVED
    elif not proved or sums.shape[0]:
        small = compute and np.count_nonzero(allowed) <= COMPUTED_CELLS  # the matrix of a large table is not asked for
        shown = computed_moves(invariants.matrix, allowed, limited, sums) if small else None
        proved, claim = shown is not None, UNPROVED if shown is None else COMPUTED
        if shown is not None:
            directions, classes = shown
            builder.pairs(classes, np.flatnonzero(allowed))
            builder.further(directions)
    for preserved in kept:
        builder.begin_set(preserved)
        _add_families(builder, preserved.invariants, allowed & ~preserved.fixed, bool(limited.any()), beside=True)
    if any(preserved.whole for preserved in kept):
        in_order = sorted(kept, key=lambda preserved: not preserved.whole)
        for preserved in (*in_order, Preserved(invariants, ~allowed, whole=False)):
            nested = preserved.invariants.nested
            if nested is not None and preserved.invariants.rank:
                builder.look(product_families(nested, allowed & ~preserved.fixed), preserved.whole)
    return builder.moves(proved, claim)


def moves_keeping(kept: Sequence[Preserved], allowed: Mask) -> Moves:
    """Some sets of directions as they are, for tables that have other moves as well: nothing is proved of them."""
    # Each must have families (`has_families`). Sums that cut the cells in two ways have the simple cycles of a graph besides, whose
    # edges are the cells, its nodes the sums; its matrix is totally unimodular, and they are its Graver basis.
    builder = Builder()
    for preserved in kept:
        free, nested = allowed & ~preserved.fixed, preserved.invariants.nested
        builder.begin_set(preserved)
        _add_families(builder, preserved.invariants, free, bounded=False, beside=True)
        if nested is not None and len(nested.generators) == 2:
            rows, columns = (row_of_cell(nested, levels)[free] for levels in nested.generators)
            builder.cycles(rows, columns, np.flatnonzero(free))
    return builder.moves(proved=False, claim=UNPROVED)


def has_families(invariants: Invariants) -> bool:
    """Whether directions that keep noisy answers are found by their structure, or in a table small enough for a list."""
    return invariants.nested is not None or invariants.blocks is not None or invariants.frame.size <= PRESERVING_CELLS


def _add_families(
    builder: Builder, invariants: Invariants, allowed: Mask, bounded: bool, *, beside: bool = False
) -> tuple[bool, str]:
    """Add the families for some invariants; returns whether they are proved to connect, and the claim."""
    # Those that stand `beside` others connect nothing by themselves and need no list in a large table.
    limited = bounded or not allowed.all()
    nested, blocks = invariants.nested, invariants.blocks
    if invariants.rank == 0:
        builder.listed(single_cells(np.flatnonzero(allowed), len(allowed)))
        return True, _SINGLE
    if nested is None and blocks is not None:
        inside, loose = allowed & (blocks >= 0), allowed & (blocks < 0)
        builder.pairs(blocks[inside], np.flatnonzero(inside))
        builder.listed(single_cells(np.flatnonzero(loose), len(allowed)))
        return True, _PAIRS
    if nested is None:
        builder.listed(directions_on(invariants, allowed))
        return False, UNPROVED
    for factors in product_families(nested, allowed):
        builder.product(factors)
    if len(nested.generators) == 1:
        return True, _PAIRS
    if limited and nested.is_two_way:
        rows, columns = np.nonzero(allowed.reshape(invariants.frame.shape))
        builder.cycles(rows, columns, np.flatnonzero(allowed))
        return True, _CYCLES
    if not limited and is_decomposable(nested):
        return True, _SQUARES
    # Products that touch a cell that must not move are blocked, so what is left needs a list of its own.
    if len(allowed) <= _LISTED_CELLS or not (allowed.all() or (beside and len(allowed) > PRESERVING_CELLS)):
        builder.listed(directions_on(invariants, allowed))
    return False, UNPROVED

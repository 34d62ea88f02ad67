"""Which families of directions some invariants ask for, and what is proved of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import NestedSums, is_decomposable, product_families, row_of_cell
from bayesdp.invariants import Invariants
from bayesdp.moves.builder import UNPROVED, Builder
from bayesdp.moves.computed import COMPUTED_CELLS, computed_moves
from bayesdp.moves.listed import directions_on, single_cells
from bayesdp.moves.moves import Kept, Moves

type Mask = npt.NDArray[np.bool_]

_LISTED_CELLS = 64
"""Up to this many cells, a list with every short primitive move is added where nothing is proved: it mixes
better."""

KEPT_CELLS = 100
"""Up to this many cells, directions that keep precise noisy answers are listed where they have no closed form: a reduced basis
of 128 cells takes a third of a second."""

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


def moves_for(
    invariants: Invariants,
    fixed: Mask | None = None,
    *,
    bounded: bool | Mask = False,
    limited_rows: bool | sp.csr_array = False,
    kept: Sequence[Kept] = (),
    compute: bool = True,
) -> Moves:
    """The families of directions for some invariants.

    Parameters
    ----------
    invariants : Invariants
        What the directions must not change.
    fixed : bool array, shape (cells,), optional
        Cells that never move (structural zeros, cells published exactly). Some directions may still touch
        one; the bounds of the cell, which the kernel respects, block them.
    bounded : bool or bool array of shape (cells,), default False
        Whether some cells have an upper bound, or which (True: any of them may). Markov bases of nonnegative tables need not
        connect tables with upper bounds; two-way tables get the simple cycles, which do.
    limited_rows : bool or sparse int array of shape (rows, cells), default False
        The sums of several cells that have bounds. True: there are such that are not known; no Markov basis is claimed then, and
        random sums are mixed in.
    kept : sequence of Kept
        What a share of the directions, `KEPT_SHARE` in all, keeps beside the invariants: one set of families for each
        that leaves any direction. General rows need a table that is small enough for a list (`has_families`).
    compute : bool, default True
        Whether a Markov basis is computed where none is known in closed form. Not of use for vectors that may be negative, which
        every set of directions connects that generates them.


    Notes
    -----
    Two-way margins without fixed cells, disjoint totals and decomposable sets of margins (Dobra 2003) have
    Markov bases of product moves: connectivity is proved. Two-way margins with fixed or bounded cells: simple
    cycles of the graph of free cells, proved (the matrix is totally unimodular, so they are its Graver
    basis). Everything else: basic moves, and a computed Markov basis (the Graver basis where every cell has a bound) if that is
    found (`toric.markov_basis`; up to about 30 cells, or kinds of cells that are in the same sums, 15 where all are bounded, and
    more where there are few directions), which is a proof; else random sums of them.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> moves_for(Invariants(Margins(table, ["county"], ["education"]))).proved
    True
    """
    cells = invariants.frame.size
    allowed, limited = _allowed(fixed, cells), np.broadcast_to(np.asarray(bounded, dtype=np.bool_), (cells,))
    builder = Builder()
    proved, claim = _add_families(builder, invariants, allowed, bool(limited[allowed].any()))
    sums = _sums(limited_rows, cells)
    if sums is None:
        proved, claim = False, UNPROVED
    elif not proved or sums.shape[0]:
        small = compute and np.count_nonzero(allowed) <= COMPUTED_CELLS  # the matrix of a large table is not asked for
        shown = computed_moves(invariants.matrix, allowed, limited, sums) if small else None
        proved, claim = shown is not None, UNPROVED if shown is None else COMPUTED
        if shown is not None:
            directions, classes = shown
            builder.pairs(classes, np.flatnonzero(allowed))
            builder.further(directions)
    for own in kept:
        builder.begin_set(own)
        _add_families(builder, own.invariants, allowed & ~own.fixed, bool(limited.any()), beside=True)
    if any(own.whole for own in kept):
        _look(builder, [own for own in kept if own.whole], allowed, whole=True)
        _look(builder, [own for own in kept if not own.whole], allowed, whole=False)
        _look(builder, [Kept(invariants, ~allowed)], allowed, whole=False)
    return builder.moves(proved, claim)


def moves_keeping(kept: Sequence[Kept], allowed: Mask) -> Moves:
    """Some sets of directions as they are, for tables that have other moves as well: nothing is proved of them.

    Each must have families (`has_families`). Sums that cut the cells in two ways have the simple cycles of a graph besides. Its edges
    are the cells, its nodes the sums; its matrix is totally unimodular, and they are its Graver basis.
    """
    builder = Builder()
    for own in kept:
        free, nested = allowed & ~own.fixed, own.invariants.nested
        builder.begin_set(own)
        _add_families(builder, own.invariants, free, bounded=False, beside=True)
        if nested is not None and len(nested.generators) == 2:
            rows, columns = (row_of_cell(nested, levels)[free] for levels in nested.generators)
            builder.cycles(rows, columns, np.flatnonzero(free))
    return builder.moves(proved=False, claim=UNPROVED)


def _sums(limited_rows: bool | sp.csr_array, cells: int) -> sp.csr_array | None:
    """The sums that have bounds; None if they are not known."""
    if isinstance(limited_rows, sp.csr_array):
        return limited_rows
    return None if limited_rows else sp.csr_array((0, cells), dtype=np.int64)


def _look(builder: Builder, kept: Sequence[Kept], allowed: Mask, whole: bool) -> None:
    """Have the product moves of some sets drawn by looking at the table."""
    for own in kept:
        if own.invariants.nested is not None and own.invariants.rank:
            builder.look(product_families(own.invariants.nested, allowed & ~own.fixed), whole)


def has_families(invariants: Invariants) -> bool:
    """Whether directions that keep noisy answers are found by their structure, or in a table small enough for a list."""
    return invariants.nested is not None or invariants.blocks is not None or invariants.frame.size <= KEPT_CELLS


def _add_families(
    builder: Builder, invariants: Invariants, allowed: Mask, bounded: bool, *, beside: bool = False
) -> tuple[bool, str]:
    """Add the families for some invariants; returns whether they are proved to connect, and the claim."""
    # Those that stand `beside` others connect nothing by themselves and need no list in a large table.
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
    return False, UNPROVED


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
    builder: Builder, invariants: Invariants, nested: NestedSums, allowed: Mask, limited: bool, beside: bool
) -> tuple[bool, str]:
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
    if len(allowed) <= _LISTED_CELLS or not (allowed.all() or (beside and len(allowed) > KEPT_CELLS)):
        builder.listed(directions_on(invariants, allowed))
    return False, UNPROVED

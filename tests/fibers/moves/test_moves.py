"""Directions: they change no invariant, generate the lattice, and connect what they are said to connect."""

import numpy as np
import pytest
from flint import fmpz_mat

from bayesdp._nested import is_decomposable
from bayesdp.fibers.moves.moves import LISTED, PRODUCT, SUMS
from bayesdp.invariants import Invariants
from bayesdp.lattices import kernel_basis, moves_for
from bayesdp.queries import Margins, Totals
from tests.fibers.moves.test_basis import INVARIANTS as BASES
from tests.fibers.moves.test_basis import NESTED
from tests.lattices.oracles import (
    BLOCKS,
    GENERAL,
    LOOSE,
    components,
    directions,
    distinct_up_to_sign,
    labels,
    lattice_points,
    one_way,
    two_way_margins,
)
from tests.refusals import refused

DECOMPOSABLE = Invariants(Margins(labels(2, 3, 2), ["a", "b"], ["b", "c"]))
LARGER = Invariants(Margins(labels(4, 4, 4), ["a", "b"], ["b", "c"]))
SUMMED_OUT = Invariants(Margins(labels(2, 3, 2), ["a"], ["b"]))
CYCLE_OF_FOUR = Invariants(Margins(labels(2, 2, 2, 2), ["a", "b"], ["b", "c"], ["c", "d"], ["a", "d"]))

INVARIANTS = [
    *BASES,
    two_way_margins(3, 4, 6),  # larger than what gets a list: product moves alone must generate the lattice
    SUMMED_OUT,
    CYCLE_OF_FOUR,
    Invariants(Margins(labels(2, 2, 3), ["a", "b"], ["c"])),
    Invariants(Margins(labels(3, 4), ["a"])),
    Invariants([Totals(NESTED, by="state"), Margins(NESTED, ["sex"])]),
]


def without_sums(invariants, draws=4000, fixed=None):
    """Distinct directions of the families other than random sums."""
    moves = moves_for(invariants, fixed)
    drawn = directions(moves, invariants.frame.size, draws)
    if len(moves.meta) and moves.meta[-1, 0] == SUMS:
        # Random sums are told apart by asking for the families before them alone.
        cumulative = moves.cumulative[:-1] / moves.cumulative[-2]
        bare = type(moves)(moves.meta[:-1], cumulative, moves.pool, moves.longest, moves.proved, moves.claim)
        drawn = directions(bare, invariants.frame.size, draws)
    return np.array(sorted(distinct_up_to_sign(drawn)), dtype=np.int64).reshape(-1, invariants.frame.size)


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_directions_change_no_invariant_fit_their_bound_and_generate_the_lattice(invariants):
    moves = moves_for(invariants)
    drawn = directions(moves, invariants.frame.size, 4000)
    assert not np.any(invariants.matrix @ drawn.T)
    listed = without_sums(invariants)
    assert np.count_nonzero(listed, axis=1).max() <= moves.longest
    assert generated(listed) == generated(kernel_basis(invariants).toarray())


def generated(rows):
    """Hermite forms of one lattice are equal; a redundant list has rows of zeros below."""
    return [row for row in fmpz_mat(rows.astype(int).tolist()).hnf().tolist() if any(row)]


def test_two_way_tables_have_their_squares_totals_their_pairs_and_three_way_tables_their_markov_basis():
    overlapping = Invariants(Margins(labels(2, 2, 2, 2), ["a", "b", "c"], ["b", "c", "d"], ["a", "d"]))
    nested = Invariants([Totals(NESTED, by=["state", "sex"]), Margins(NESTED, ["county"])])
    assert is_decomposable(DECOMPOSABLE.nested)
    for invariants in (two_way_margins(2, 2, 2), CYCLE_OF_FOUR, overlapping, nested):
        assert not is_decomposable(invariants.nested), invariants
    for invariants, count, size in ((one_way(4, 4), 36, 4), (one_way(2, 3), 3, 4), (BLOCKS, None, 2)):
        listed = without_sums(invariants)
        assert len(listed) == (count or len(listed))
        assert np.all(np.abs(listed).sum(axis=1) == size)
        assert moves_for(invariants).proved
    assert moves_for(one_way(1, 3)).meta.shape[0] == 0  # determined: no moves
    sizes = np.abs(without_sums(two_way_margins(3, 3, 3), 8000)).sum(axis=1)
    assert sorted(zip(*np.unique(sizes, return_counts=True), strict=True)) == [(8, 27), (12, 54)]
    moves = moves_for(two_way_margins(3, 3, 3))
    assert moves.proved
    assert "a Markov basis was computed" in moves.claim
    assert sorted(moves.meta[:, 0]) == [PRODUCT, LISTED]  # the computed moves were all in the list
    assert moves_for(two_way_margins(3, 4, 4), compute=False).meta[-1, 0] == SUMS


def fiber(invariants, table, reach):
    """All nonnegative tables with the invariants of a table."""
    points = lattice_points(invariants.matrix.toarray(), reach) + table.reshape(-1)
    return points[np.all(points >= 0, axis=1)]


@pytest.mark.parametrize("invariants", [one_way(3, 3), DECOMPOSABLE, one_way(2, 2, 2), BLOCKS, LOOSE], ids=repr)
def test_proved_moves_connect_enumerated_fibers(invariants, make_rng):
    moves = moves_for(invariants)
    assert moves.proved
    steps = distinct_up_to_sign(without_sums(invariants))
    for seed in range(4):
        table = make_rng(seed).poisson(0.9, size=invariants.frame.size)
        found = fiber(invariants, table, 5)
        assert len(found) > 1
        assert components(found, steps) == 1


def test_structural_zeros_of_a_two_way_table_are_connected_by_cycles(make_rng):
    invariants, fixed = one_way(4, 4), np.eye(4, dtype=np.bool_).reshape(-1)
    moves = moves_for(invariants, fixed)
    assert moves.proved
    assert "cycles" in moves.claim
    drawn = without_sums(invariants, 20000, fixed)
    inside = drawn[~np.any(drawn[:, fixed], axis=1)]
    assert set(np.abs(inside).sum(axis=1)) == {4, 6, 8}
    for seed in range(3):
        table = np.where(fixed, 0, make_rng(seed).poisson(0.5, size=16))
        free = np.vstack([invariants.matrix.toarray(), np.eye(16, dtype=np.int64)[fixed]])
        points = lattice_points(free, 3) + table
        found = points[np.all(points >= 0, axis=1)]
        assert len(found) > 1
        assert components(found, map(tuple, inside)) == 1


def test_upper_bounds_need_cycles_too_sums_with_bounds_take_back_what_is_proved_and_fixed_cells_are_left_alone():
    # Ones on the off-diagonal, at most one a cell and none on the diagonal: two tables, a 6-cycle apart.
    plain, bounded = moves_for(one_way(3, 3)), moves_for(one_way(3, 3), bounded=True)
    assert np.abs(directions(plain, 9, 2000)).sum(axis=1).max() == 4
    assert np.abs(directions(bounded, 9, 2000)).sum(axis=1).max() == 6
    assert bounded.proved
    assert moves_for(DECOMPOSABLE, bounded=True).proved  # the Graver basis of 12 cells
    assert not moves_for(LARGER, bounded=True).proved
    assert moves_for(BLOCKS, bounded=True).proved
    for invariants in (BLOCKS, one_way(3, 3), DECOMPOSABLE, Invariants(None, labels(3))):
        assert moves_for(invariants).proved
        limited = moves_for(invariants, limited_rows=True)  # sums that are not known
        assert not limited.proved
        assert "no Markov basis is known" in limited.claim
        assert limited.meta[-1, 0] == SUMS
    fixed = np.array([False, True, False, False, False])
    for invariants in (GENERAL, BLOCKS):
        drawn = directions(moves_for(invariants, fixed), 5, 2000)
        assert drawn.any()
        assert not drawn[:, 1].any()
    frame = labels(*[2] * 7)
    six = Invariants(Margins(frame, *[[d for d in frame if d != out] for out in frame]))
    assert distinct_up_to_sign(directions(moves_for(six), 128, 100)) == {tuple(kernel_basis(six).toarray()[0])}
    # Fixed cells of a three-way table leave a generating list.
    invariants, fixed = two_way_margins(2, 3, 3), np.zeros(18, dtype=np.bool_)
    fixed[[0, 7]] = True
    moves = moves_for(invariants, fixed)
    assert moves.proved
    drawn = without_sums(invariants, 4000, fixed)
    inside = drawn[~np.any(drawn[:, fixed], axis=1)]
    points = lattice_points(np.vstack([invariants.matrix.toarray(), np.eye(18, dtype=np.int64)[fixed]]), 1)
    assert generated(inside) == generated(points)


ISOLATED = np.array(
    [[[0, 0, 1], [0, 1, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, 1], [0, 1, 0]]]
)


def test_the_isolated_fiber_is_crossed_by_listed_moves_and_by_sums():
    invariants = two_way_margins(3, 3, 3)
    found = fiber(invariants, ISOLATED, 1)
    assert len(found) == 2
    (step,) = distinct_up_to_sign(np.diff(found, axis=0))
    basic = {v for v in distinct_up_to_sign(without_sums(invariants, 8000)) if np.abs(v).sum() == 8}
    assert components(found, basic) == 2
    assert step in distinct_up_to_sign(without_sums(invariants, 8000))
    # Random sums of the 27 basic moves, without the list: about one in 800 is the step.
    moves = moves_for(invariants, compute=False)
    assert not moves.proved
    kinds = [0, 2]
    alone = type(moves)(moves.meta[kinds], np.array([0.1, 1.0]), moves.pool, moves.longest, moves.proved, moves.claim)
    drawn = [tuple(v) for v in directions(alone, 27, 40000).tolist()]
    assert drawn.count(step) + drawn.count(tuple(-x for x in step)) > 10


test_bad_masks_are_refused = refused(
    (np.zeros(9, dtype=np.int64), "fixed must hold True and False, got an array of dtype int64"),
    (np.zeros((3, 3), dtype=np.bool_), r"one entry for each of the 9 cells, got shape \(3, 3\)"),
    of=lambda fixed: moves_for(one_way(3, 3), fixed),
)

"""Computed Markov and Graver bases: known ones, ones by enumeration, and fibers that they connect."""

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp.fibers.moves import markov
from bayesdp.fibers.moves.markov import computed_moves, markov_basis
from bayesdp.invariants import Invariants
from bayesdp.lattices import moves_for
from bayesdp.queries import LinearQuery, Margins
from tests.lattices.oracles import (
    GENERAL,
    components,
    directions,
    distinct_up_to_sign,
    labels,
    lattice_points,
    two_way_margins,
)

CYCLE_OF_FOUR = Invariants(Margins(labels(2, 2, 2, 2), ["a", "b"], ["b", "c"], ["c", "d"], ["a", "d"]))
PAIRS_OF_FOUR = Invariants(Margins(labels(2, 2, 2, 2), *[[a, b] for a in "abcd" for b in "abcd" if a < b]))


def dense(invariants):
    return invariants.matrix.toarray().astype(np.int64)


def every_cell(matrix):
    return np.eye(matrix.shape[1], dtype=np.int64)


def sizes(moves):
    norms, counts = np.unique(np.abs(moves).sum(axis=1), return_counts=True)
    return dict(zip(norms.tolist(), counts.tolist(), strict=True))


def test_known_markov_and_graver_bases():
    for invariants, expected in (
        (two_way_margins(2, 2, 2), {8: 1}),
        (two_way_margins(3, 3, 3), {8: 27, 12: 54}),  # Diaconis and Sturmfels (1998)
        (two_way_margins(3, 3, 4), {8: 54, 12: 180, 16: 216}),  # Aoki and Takemura (2003)
        (CYCLE_OF_FOUR, {4: 8, 8: 8}),
        (PAIRS_OF_FOUR, {8: 20, 12: 40}),
    ):
        assert sizes(markov_basis(dense(invariants))) == expected
    # 795 vectors: Sturmfels (1996), chapter 14. Two-way: the simple cycles.
    three = dense(two_way_margins(3, 3, 3))
    assert sum(sizes(markov_basis(three, every_cell(three))).values()) == 795
    assert markov_basis(np.array([[1, 2, 3]]), np.eye(3, dtype=np.int64)).tolist() == [
        [0, 3, -2], [1, -2, 1], [1, 1, -1], [2, -1, 0], [3, 0, -1],
    ]  # fmt: skip


def primitive(points):
    """The vectors, up to sign, inside of which there is no other, sign by sign."""
    sides = np.concatenate([np.maximum(points, 0), np.maximum(-points, 0)], axis=1)[np.any(points != 0, axis=1)]
    order = np.argsort(sides.sum(axis=1), kind="stable")
    kept = np.zeros((0, sides.shape[1]), dtype=np.int64)
    for side in sides[order]:
        if not np.any(np.all(kept <= side, axis=1)):
            kept = np.concatenate([kept, side[None]])
    half = points.shape[1]
    return distinct_up_to_sign(kept[:, :half] - kept[:, half:])


@pytest.mark.parametrize("seed", range(6))
def test_graver_bases_are_the_primitive_vectors(seed, make_rng):
    rng = make_rng(seed)
    matrix = rng.integers(-1, 3, size=(2, 5))
    found = markov_basis(matrix, every_cell(matrix))
    points = lattice_points(matrix, 6)
    inside = points[np.abs(points).max(axis=1) <= 6]
    assert {v for v in distinct_up_to_sign(found) if max(map(abs, v)) <= 6} == primitive(inside)


@pytest.mark.parametrize("invariants", [GENERAL, CYCLE_OF_FOUR], ids=repr)
def test_no_move_can_be_left_out(invariants):
    matrix = dense(invariants)
    moves = [tuple(v) for v in markov_basis(matrix).tolist()]
    points = lattice_points(matrix, 2 if matrix.shape[1] > 5 else 4)
    for left_out in moves:
        tables = points + np.maximum(np.array(left_out), 0)
        fiber = tables[np.all(tables >= 0, axis=1)]
        assert components(fiber, moves) == 1
        assert components(fiber, [own for own in moves if own != left_out]) > 1


def test_it_gives_up_by_work_and_by_size(monkeypatch):
    matrix = dense(two_way_margins(2, 3, 3))
    assert markov_basis(matrix) is not None
    for name, least in (("_WORK", 100), ("_MOST_VECTORS", 4)):
        markov._found.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(markov, name, least)
            assert markov_basis(matrix) is None
    markov._found.cache_clear()
    markov_basis(matrix)[:] = 0
    assert markov_basis(matrix).any()  # what is kept is no user's to change
    assert markov_basis(np.ones((1, 63), dtype=np.int64)) is None
    assert not moves_for(two_way_margins(3, 4, 6)).proved


def test_whole_fibers_of_random_sums_are_connected_within_limits(make_rng):
    """Cells that may not move, equal cells, limits of cells and of sums: all fibers of tables of at most 6 records, whole."""
    rng, several = make_rng(200), 0
    for seed in range(18):
        size = int(rng.integers(3, 6))
        matrix = rng.integers(-2, 3, (1 + seed % 2, size))
        matrix[:, 0] = matrix[:, -1]
        # At least the number of records: fibers are finite.
        matrix = np.concatenate([matrix, rng.integers(1, 3, (1, size))])
        allowed, limited = rng.random(size) < 0.9, rng.random(size) < (0.0, 0.5, 1.0)[seed % 3]
        sums = rng.integers(-1, 3, (seed % 4 // 2, size))
        directions, classes = computed_moves(sp.csr_array(matrix), allowed, limited, sp.csr_array(sums))
        eye, moves = every_cell(matrix), [*map(tuple, directions.toarray().tolist())]
        for k in np.unique(classes):
            moves += [tuple((eye[a] - eye[b]).tolist()) for a, b in pairwise(np.flatnonzero(allowed)[classes == k])]
        tables = np.array([own for own in product(range(7), repeat=size) if matrix[-1] @ own <= 6])
        keys = tables @ np.concatenate([matrix, eye[~allowed]]).T
        for key in np.unique(keys, axis=0):
            fiber = tables[np.all(keys == key, axis=1)]
            one, other = fiber[rng.integers(len(fiber), size=2)]
            inside = np.ones(len(fiber), dtype=np.bool_)
            for row in [*eye[limited], *sums]:
                low, high = sorted([row @ one, row @ other])
                inside &= (fiber @ row >= low) & (fiber @ row <= high)
            several += inside.sum() > 1
            assert components(fiber[inside], moves) == 1, (matrix.tolist(), allowed, limited, sums)
    assert several > 150


def test_a_vector_that_lowers_nothing_cells_that_the_answers_determine_together_and_those_in_the_same_sums(make_rng):
    """The fiber of three records in the last cell has one more table; a basis that is completed without that vector misses it."""
    matrix = np.array([[3, 0, 4, 2, 4, 1], [1, 4, 0, 0, 1, 3]])
    fiber = [own for own in product(range(4), repeat=6) if (matrix @ own).tolist() == [3, 9]]
    assert fiber == [(0, 0, 0, 0, 0, 3), (1, 2, 0, 0, 0, 0)]
    assert [1, 2, 0, 0, 0, -3] in markov_basis(matrix).tolist()
    # The first cell is the difference of both sums, though no sum is of it alone.
    matrix = np.array([[1, 1, 1, 2], [0, 1, 1, 2]])
    assert markov_basis(matrix).tolist() == [[0, 0, 2, -1], [0, 1, -1, 0]]
    sums = LinearQuery(labels(4), matrix, ["all", "three"])
    assert moves_for(Invariants(sums)).proved
    assert moves_for(Invariants(LinearQuery(labels(2), [[1, 1], [1, 2]], ["all", "weighted"]))).proved  # one table
    # Cells in the same sums are one: 90 cells in three sums that overlap: seven kinds of cells, and some in no sum.
    member = make_rng(4).random((3, 90)) < 0.5
    invariants = Invariants(LinearQuery(labels(90), member.astype(np.int64), list("xyz")))
    moves = moves_for(invariants)
    assert moves.proved
    drawn = directions(moves, 90, 4000)
    assert not np.any(invariants.matrix @ drawn.T)
    assert np.all(drawn.any(axis=0))

"""What is claimed of connectivity, against all tables of small hierarchies and all lines between them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from bayesdp.fibers import enumerate_fiber
from bayesdp.hierarchies import structure as structures
from bayesdp.hierarchies.chain import moves_of
from bayesdp.hierarchies.kernel.sweeps import CROSS_CELLS, SINGLE, SQUARES, SUMS
from bayesdp.hierarchies.structure import NoStructure, structure_of
from tests.hierarchies.cases import Case, drawn

NOISE = ((("tract", "age", "race"), 2.0), (("county",), 1.0), ((), 1.0))


def case(shape, counties, total, *exact, zeros=(), limits=False, seed=1):
    return Case(shape, counties, total, exact=exact, zeros=zeros, limits=limits, noise=NOISE, seed=seed)


AGE, RACE, BOTH = ("age",), ("race",), ("age", "race")
PROVED = {
    "total": case((3, 2, 2), "AAB", 3, ()),
    "totals of counties": case((3, 2, 2), "AAB", 4, ("county",)),
    "totals of tracts": case((2, 2, 2), "AA", 6, ("tract",)),
    "totals of tracts and counties": case((2, 2, 2), "AA", 6, ("tract",), ("county",), ()),
    "classes of the whole": case((3, 2, 2), "AAB", 4, AGE),
    "tracts, and finer the whole": case((2, 2, 2), "AA", 7, ("tract",), BOTH),
    "tracts, finer counties": case((3, 2, 2), "AAB", 6, ("tract",), ("county", "age")),
    "tracts, finer counties, finest the whole": case((3, 2, 2), "AAB", 7, ("tract",), ("county", "age"), BOTH),
    "uneven tracts": case((4, 1, 3), "AAAB", 6, ("tract",), ("county", "race")),
    "counties, and finer the whole": case((3, 2, 2), "ABB", 5, ("county",), RACE),
    "zeros under a total": case((2, 2, 2), "AA", 5, (), zeros=((0, 0, 0), (0, 0, 1), (1, 1, 0))),
    "zeros under tracts": case((2, 2, 2), "AA", 8, ("tract",), zeros=((0, 0, 0), (1, 1, 0))),
}
CROSSING = {
    "two margins of a tract": case((2, 2, 2), "AA", 9, ("tract", "age"), ("tract", "race"), seed=3),
    "age in tracts, race in all": case((2, 2, 2), "AA", 9, ("tract", "age"), RACE),
}
APART = {
    "no common cell": case((2, 1, 2), "AA", 3, (), zeros=((0, 0, 0), (1, 0, 1))),
    "zeros under two levels": case(
        (3, 1, 3), "AAA", 12, ("tract",), RACE, zeros=((0, 0, 0), (1, 0, 1), (2, 0, 2)), seed=3
    ),
}


def _tables(own):
    frame = own.target.fiber.frame
    return enumerate_fiber(own.target.fiber, 10**5).reshape(-1, frame.size)


def _parts(tables, shape, mix, classes, path):
    """How many parts the lines of a mix of moves leave the tables in; worked out from the differences of tables."""
    cells = shape[1] * shape[2]
    tables = tables.reshape(-1, shape[0], cells)
    linked = np.zeros((len(tables), len(tables)), dtype=bool)
    for i, j in itertools.combinations(range(len(tables)), 2):
        change = tables[i] - tables[j]
        leaf, cell = np.nonzero(change)
        leaves, own = np.unique(leaf), np.unique(cell)
        if len(leaves) == 1:
            if len(own) == 1:
                linked[i, j] = bool(mix[SINGLE])
            elif len(own) == 2:
                linked[i, j] = (classes[:, own[0]] == classes[:, own[1]]).all() and change.sum() == 0
        elif len(leaves) == 2 and not change.sum(axis=0).any():
            below = int(np.argmax(path[leaves[0]] == path[leaves[1]]))
            if len(own) == 1:
                linked[i, j] = bool(mix[CROSS_CELLS]) and (classes[:below, own[0]] < 0).all()
            elif len(own) == 2 and mix[SQUARES]:
                linked[i, j] = (
                    not change.sum(axis=1).any() and (classes[:below, own[0]] == classes[:below, own[1]]).all()
                )
    return connected_components(linked, directed=False)[0]


@pytest.mark.parametrize("name", PROVED)
def test_lines_connect_what_is_proved(name):
    own = PROVED[name]
    structure = structure_of(own.target, "tract")
    assert structure.proved
    assert structure.claim.startswith("proved: ")
    tables, mix = _tables(own), moves_of(structure)
    assert mix[SUMS] == 0
    assert len(tables) >= 5
    in_tree = np.stack([structure.leaves_by_cells(table) for table in tables])
    assert _parts(in_tree, own.shape, mix, structure.exact_class, structure.path) == 1


def test_fewer_moves_do_not_connect():
    """The oracle finds parts where moves that are needed are left out."""
    for name, kind in (("tracts, finer counties", SQUARES), ("totals of counties", CROSS_CELLS)):
        own = PROVED[name]
        structure = structure_of(own.target, "tract")
        mix = moves_of(structure)
        mix[kind] = 0
        in_tree = np.stack([structure.leaves_by_cells(table) for table in _tables(own)])
        assert _parts(in_tree, own.shape, mix, structure.exact_class, structure.path) > 1


def test_without_exact_sums_every_cell_moves_by_itself():
    structure = structure_of(case((2, 2, 2), "AA", 3).target, "tract")
    assert (structure.proved, moves_of(structure)[SINGLE]) == (True, 100)
    assert structure.claim == "proved: every cell of a hierarchy moves on its own"


def test_limits_are_not_proved_and_get_sums():
    structure = structure_of(case((2, 2, 2), "AA", 4, (), limits=True).target, "tract")
    assert (structure.proved, structure.claim) == (False, structures.LIMITED)
    assert moves_of(structure)[SUMS] == 2


@pytest.mark.parametrize("name", CROSSING)
def test_exact_sums_that_cross_are_refused(name):
    own = CROSSING[name]
    with pytest.raises(NoStructure, match="cut the cells across each other"):
        structure_of(own.target, "tract")
    # Moves that keep the crossed classes would have left tables apart.
    age, race = np.repeat([0, 1], 2), np.tile([0, 1], 2)
    classes = np.full((2, 4), -1)
    if name == "two margins of a tract":
        classes[0] = 2 * age + race
    else:
        classes[0], classes[1] = age, race
    path = np.array([[0, 2], [1, 2]])
    assert _parts(_tables(own), own.shape, np.full(9, 100), classes, path) > 1


@pytest.mark.parametrize("name", APART)
def test_zeros_that_leave_no_way_are_refused(name):
    own = APART[name]
    assert len(_tables(own)) > 1
    with pytest.raises(NoStructure, match="cells that are known"):
        structure_of(own.target, "tract")


def test_limits_of_sums_of_one_cell_are_limits_of_the_cell():
    own = Case((2, 2, 1), "AA", 5, limits=True, noise=NOISE)
    structure = structure_of(own.target, "tract")
    assert structure.limited
    tables, _ = own.enumerate()
    number = {table.tobytes(): i for i, table in enumerate(tables)}
    chain = own.chain(1)
    chain.load(tables[0])
    seen = {number[np.asarray(structure.in_frame(table)).tobytes()] for table in drawn(chain, 2000)}
    assert len(seen) == len(tables)

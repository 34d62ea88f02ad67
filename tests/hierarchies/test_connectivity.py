"""What is claimed of connectivity, against all tables of small hierarchies and all lines between them."""

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
    "totals of counties": case((3, 2, 2), "AAB", 3, ("county",)),
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


def _tables(own):
    return enumerate_fiber(own.target.fiber, 10**5).reshape(-1, *own.shape)


def _parts(tables, mix, classes, path):
    """How many parts the lines of a mix of moves leave the tables in; worked out from the differences of tables."""
    tables, linked = tables.reshape(len(tables), len(path), -1), np.zeros(2 * (len(tables),), dtype=bool)
    for i, j in itertools.combinations(range(len(tables)), 2):
        change = tables[i] - tables[j]
        leaves, own = (np.unique(place) for place in np.nonzero(change))
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
                alike = (classes[:below, own[0]] == classes[:below, own[1]]).all()
                linked[i, j] = alike and not change.sum(axis=1).any()
    return connected_components(linked, directed=False)[0]


@pytest.mark.parametrize("name", PROVED)
def test_lines_connect_what_is_proved(name):
    """And the oracle finds parts where moves that are needed are left out."""
    structure = structure_of(PROVED[name].target, "tract")
    assert structure.proved
    assert structure.claim.startswith("proved: ")
    tables, mix = np.stack([structure.leaves_by_cells(own) for own in _tables(PROVED[name])]), moves_of(structure)
    assert mix[SUMS] == 0
    assert len(tables) >= 5
    assert _parts(tables, mix, structure.exact_class, structure.path) == 1
    needed = {"tracts, finer counties": SQUARES, "totals of counties": CROSS_CELLS}
    if name in needed:
        mix[needed[name]] = 0
        assert _parts(tables, mix, structure.exact_class, structure.path) > 1


def test_claims_where_sums_have_limits_and_what_is_refused():
    cases = case((2, 2, 2), "AA", 4), case((2, 2, 2), "AA", 4, (), limits=True)
    free, limited = (structure_of(own.target, "tract") for own in cases)
    assert (free.proved, moves_of(free)[SINGLE]) == (True, 100)
    assert free.claim == "proved: every cell of a hierarchy moves on its own"
    assert (limited.proved, limited.claim, moves_of(limited)[SUMS]) == (False, structures.LIMITED, 2)
    own = Case((2, 2, 1), "AA", 5, limits=True, noise=NOISE)
    chain, (tables, _) = own.chain(1), own.enumerate()
    assert chain.structure.limited
    chain.load(tables[0])
    seen = np.array([chain.structure.in_frame(table) for table in drawn(chain, 1000)])
    np.testing.assert_array_equal(np.unique(seen, axis=0), np.unique(tables, axis=0))
    # Moves that keep the crossed classes would have left tables apart.
    one_tract = case((2, 2, 2), "AA", 9, ("tract", "age"), ("tract", "race"), seed=3), [[0, 1, 2, 3], [-1] * 4]
    for own, classes in (one_tract, (case((2, 2, 2), "AA", 9, ("tract", "age"), RACE), [[0, 0, 1, 1], [0, 1, 0, 1]])):
        with pytest.raises(NoStructure, match="cut the cells across each other"):
            structure_of(own.target, "tract")
        assert _parts(_tables(own), np.full(9, 100), np.array(classes), np.array([[0, 2], [1, 2]])) > 1
    zeros = ((0, 0, 0), (1, 0, 1), (2, 0, 2))
    one_level = case((2, 1, 2), "AA", 3, (), zeros=zeros[:2])
    for own in (one_level, case((3, 1, 3), "AAA", 12, ("tract",), RACE, zeros=zeros, seed=3)):
        assert len(_tables(own)) > 1
        with pytest.raises(NoStructure, match="cells that are known"):
            structure_of(own.target, "tract")

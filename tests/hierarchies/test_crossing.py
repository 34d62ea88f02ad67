"""Moves that keep precise answers which cut the cells of a leaf across each other: along several axes, and along directions."""

from itertools import combinations

import numpy as np
import pytest

from bayesdp.fibers import Fiber, enumerate_fiber
from bayesdp.hierarchies import chain as chains
from bayesdp.hierarchies.kernel.crossing import LAYERS, LEAVES, RECTANGLE
from bayesdp.hierarchies.kernel.moves import RESIDUAL
from bayesdp.hierarchies.kernel.sweeps import CROSSING, KEEPING
from bayesdp.measurements import Exact
from bayesdp.queries import Query, SumPart
from tests.comparison.variation import assert_close_in_variation
from tests.hierarchies.cases import CASES, Case, after_one_sweep, drawn
from tests.noisy_sums import indices

RATE, STARTS = 1e-5, 3_000  # false alarms of each comparison

AGE, RACE, BOTH = ("tract", "age"), ("tract", "race"), ("tract", "age", "race")
TWO = ((BOTH, 8.0), (AGE, 0.5), (RACE, 0.5))  # both margins of a tract are precise, and its cells are not
COUNTY = (*TWO, (("county", "age", "race"), 0.5))  # and the table of the county is precise too
CUBE = tuple(("tract", *own) for own in combinations(("age", "race", "sex"), 2))
THREE = ((("tract", "age", "race", "sex"), 8.0), *((keep, 0.5) for keep in CUBE))  # three margins of two axes each
ZEROS = ((0, 0, 1, 0), (0, 2, 2, 1))
TRACT, BY_COUNTY = (AGE, RACE), (AGE, RACE, ("county", "age", "race"))
EXACT = {"exact": (("county", "age", "race"),), "noise": (*TWO, (("age",), 5.0))}
SMALL = {
    "rectangles": (Case((1, 3, 3), "A", 14, noise=TWO, seed=11), {RECTANGLE}, TRACT),
    "leaves": (Case((2, 3, 3), "AA", 24, noise=COUNTY), {LEAVES}, (AGE, RACE, ("age", "race"))),
    "leaves of three": (Case((3, 2, 3), "AAB", 45, noise=COUNTY, seed=4), {LEAVES}, BY_COUNTY),
    "leaves, exact county": (Case((4, 2, 3), "AABB", 45, **EXACT, seed=4), {LEAVES}, BY_COUNTY),
    "layers": (Case((1, 3, 3, 2), "A", 34, noise=THREE, family="poisson"), {LAYERS}, CUBE),
    "layers, sparse": (Case((1, 3, 3, 3), "A", 30, noise=THREE, seed=3), {LAYERS}, CUBE),
    "layers, zeros": (Case((1, 3, 3, 2), "A", 60, noise=THREE, zeros=ZEROS), {LAYERS}, CUBE),
}
"""The case, the moves that it gets, and the sums that they keep."""


def _tables(name):
    """All tables that the moves of a case may lead to from one of them, and their law."""
    case, _, keeps = SMALL[name]
    frame = case.target.fiber.frame
    table = np.random.default_rng(case.seed).multinomial(case.total, np.full(frame.size, 1.0 / frame.size))
    table = table.reshape(frame.shape)
    for zero in case.zeros:
        table[zero] = 0
    queries = [Query(frame, (SumPart(frame, keep),)) for keep in keeps]
    tables = enumerate_fiber(Fiber.of([Exact(query, query.apply(table)) for query in queries], frame), 10**4)
    tables = tables.reshape(-1, frame.size)[[not any(own[zero] for zero in case.zeros) for own in tables]]
    return tables, case.probabilities(tables)


def _chain(name, times):
    case, kinds, _ = SMALL[name]
    chain = case.chain(3)
    assert set(chain.families[:, 0]) == kinds
    return _only(chain, CROSSING, times)


def _only(chain, move, times):
    chain.mix[:] = 0
    chain.mix[move] = times
    return chain


@pytest.mark.parametrize("name", SMALL)
def test_one_sweep_from_exact_draws(name):
    pvalue, changed = after_one_sweep(_chain(name, 300), *_tables(name), STARTS)
    assert pvalue > RATE
    assert changed > 0.02


@pytest.mark.parametrize("name", SMALL)
def test_they_lead_from_an_unlikely_table_to_all_and_keep_their_sums(name):
    tables, probability = _tables(name)
    index = []
    for _ in range(2):
        chain = _chain(name, 3_000)
        chain.load(tables[probability.argmin()])
        chain.sweep(20)
        index.append([np.asarray(chain.structure.in_frame(own)) for own in drawn(chain, 3_000)])
    _assert_up_to_date(chain)
    assert_close_in_variation(indices(tables, index), probability, rate=RATE)


def _assert_up_to_date(chain):
    """What is kept of the table is what it is when it is worked out anew."""
    residuals, sums = chain.state.answers[..., RESIDUAL].copy(), chain.state.sums.copy()
    chain.renew()
    np.testing.assert_allclose(residuals, chain.state.answers[..., RESIDUAL], atol=1e-9)
    if chain.structure.limited:
        np.testing.assert_array_equal(sums, chain.state.sums)


def _loop(leaves, free=0, counties="A", total=10, noise=()):
    """Rows of a table with zeros off a closed walk, and other leaves in which every cell is free."""
    places = np.ndindex(leaves - free, leaves)
    zeros = tuple((leaf, 0, cell) for leaf, cell in places if cell - leaf not in (0, 1, 1 - leaves))
    noise = ((("tract",), 0.5), (("race",), 0.5), *noise)
    return Case((leaves, 1, leaves), (leaves * counties)[:leaves], total, zeros=zeros, noise=noise)


FEW = {name: CASES[name] for name in ("three levels, Poisson", "both margins", "limits of sums", "structural zeros")}
FEW["a loop"] = _loop(4, 0, "AABB", 8, ((BOTH, 9.0),))


@pytest.mark.parametrize("exchanges", [0.0, 1.0])
@pytest.mark.parametrize("name", FEW)
def test_keeping_sweeps_from_exact_draws(name, exchanges, monkeypatch):
    """Directions that keep precise answers, and exchanges along them, reach what other moves do not."""
    monkeypatch.setattr(chains, "EXCHANGES", exchanges)
    case = FEW[name]
    chain = _only(case.chain(3), KEEPING, 60)
    pvalue, changed = after_one_sweep(chain, *case.enumerate(), 1_500, seed=5)
    assert pvalue > RATE
    # Where all margins by two are exact, counts that change places keep them only if they are equal.
    assert changed > 0.1 or (name, exchanges) == ("both margins", 1.0)
    _assert_up_to_date(chain)


def test_which_hierarchies_have_them_and_longer_walks_have_room(monkeypatch):
    chain = _only(_loop(40).chain(1), KEEPING, 100)
    chain.load(np.diag(np.full(40, 3)).reshape(-1))
    others = [np.count_nonzero(table.diagonal() == 0) for table in drawn(chain, 200)]
    assert max(others) > 30  # nearly all leaves have gone over to their other cell
    assert min(others) == 0
    ordinary = [case.chain(1) for case in CASES.values()]
    assert [(len(chain.families), chain.missed) for chain in ordinary] == len(CASES) * [(0, ())]
    monkeypatch.setattr(chains, "_SMALL", 0)
    assert _loop(5).chain(1).keeping is not None
    assert _loop(5, 1).chain(1).keeping is None  # squares with the last leaf make up every walk
    assert all(case.chain(1).keeping is None for name, case in CASES.items() if name != "structural zeros")

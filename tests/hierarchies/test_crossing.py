"""Moves along several axes of a leaf, for precise answers that cut its cells across each other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bayesdp.fibers import Fiber, enumerate_fiber
from bayesdp.hierarchies.kernel.crossing import LAYERS, LEAVES, RECTANGLE
from bayesdp.hierarchies.kernel.moves import RESIDUAL
from bayesdp.hierarchies.kernel.sweeps import CROSSING
from bayesdp.measurements import Exact
from bayesdp.queries import Query, SumPart
from tests.comparison.variation import assert_close_in_variation
from tests.hierarchies.cases import CASES, Case, after_one_sweep, drawn

RATE = 1e-5
"""False alarms of each comparison."""

STARTS = 10_000

AGE, RACE, BOTH = ("tract", "age"), ("tract", "race"), ("tract", "age", "race")
TWO = ((BOTH, 8.0), (AGE, 0.5), (RACE, 0.5))
"""Both margins of a tract are precise, and its cells are not."""

COUNTY = (*TWO, (("county", "age", "race"), 0.5))
"""And the table of the county is precise too."""

CUBE = tuple(("tract", *own) for own in combinations(("age", "race", "sex"), 2))
THREE = ((("tract", "age", "race", "sex"), 8.0), *((keep, 0.5) for keep in CUBE))
"""The same with three margins of two axes each."""

ZEROS = ((0, 0, 1, 0), (0, 2, 2, 1))

SMALL = {
    "rectangles": (Case((1, 3, 3), "A", 14, noise=TWO, seed=11), {RECTANGLE}, (AGE, RACE)),
    "leaves": (Case((2, 3, 3), "AA", 24, noise=COUNTY), {LEAVES}, (AGE, RACE, ("age", "race"))),
    "leaves of three": (
        Case((3, 2, 3), "AAB", 45, noise=COUNTY, seed=4),
        {LEAVES},
        (AGE, RACE, ("county", "age", "race")),
    ),
    "leaves, exact county": (
        Case((4, 2, 3), "AABB", 45, exact=(("county", "age", "race"),), noise=(*TWO, (("age",), 5.0)), seed=4),
        {LEAVES},
        (AGE, RACE, ("county", "age", "race")),
    ),
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
    tables = tables[[not any(own[zero] for zero in case.zeros) for own in tables.reshape(-1, *frame.shape)]]
    tables = tables.reshape(-1, frame.size)
    return tables, case.probabilities(tables)


def _chain(name, times):
    case, kinds, _ = SMALL[name]
    chain = case.chain(3)
    assert set(chain.families[:, 0]) == kinds
    chain.mix[:] = 0
    chain.mix[CROSSING] = times
    return chain


@pytest.mark.parametrize("name", SMALL)
def test_one_sweep_from_exact_draws(name):
    pvalue, changed = after_one_sweep(_chain(name, 300), *_tables(name), STARTS)
    assert pvalue > RATE
    assert changed > 0.02


@pytest.mark.parametrize("name", SMALL)
def test_they_lead_from_an_unlikely_table_to_all_and_keep_their_sums(name):
    tables, probability = _tables(name)
    number = {table.tobytes(): i for i, table in enumerate(tables)}
    index = []
    for _ in range(2):
        chain = _chain(name, 3_000)
        chain.load(tables[probability.argmin()])
        chain.sweep(20)
        index.append([number[np.asarray(chain.structure.in_frame(own)).tobytes()] for own in drawn(chain, 3_000)])
    chain.sweep(3_000)
    residuals, sums = chain.state.answers.copy(), chain.state.sums.copy()
    chain.renew()
    np.testing.assert_allclose(residuals[..., RESIDUAL], chain.state.answers[..., RESIDUAL], atol=1e-9)
    np.testing.assert_array_equal(sums, chain.state.sums)
    assert_close_in_variation(np.array(index), probability, rate=RATE)


def test_ordinary_hierarchies_have_none():
    for case in CASES.values():
        assert not len(case.chain(1).families)
        assert case.chain(1).missed == ()

"""Sums that nest: against enumeration of all tables within limits, on random forests; and what is no forest is left to others."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import bayesdp as bdp
from bayesdp.fibers import Fiber
from bayesdp.fibers.system import Laminar

OPEN = 2**53


def forest(rng, cells):
    """Nested sets of random cells, in random order, some twice."""
    sets = []

    def split(members):
        if len(members) > 1:
            if rng.random() < 0.7:
                sets.append(members)
            cut = int(rng.integers(1, len(members)))
            split(members[:cut])
            split(members[cut:])

    split(rng.permutation(cells))
    if sets and rng.random() < 0.5:
        sets.append(sets[0])
    rows = np.array([np.isin(np.arange(cells), members) for members in sets], dtype=np.int64).reshape(-1, cells)
    return rows[rng.permutation(len(rows))]


@pytest.mark.parametrize("seed", range(60))
def test_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    cells, most = int(rng.integers(1, 6)), 5
    rows = forest(rng, cells)
    exact = rng.integers(0, 3, cells) @ rows.T
    kind = rng.integers(0, 4, len(rows))
    low = np.where(kind == 0, exact, np.where(kind == 1, rng.integers(0, 6, len(rows)), -np.inf)).astype(float)
    high = np.where(kind == 0, exact, np.where(kind == 2, rng.integers(0, 9, len(rows)), np.inf)).astype(float)
    lower, upper = rng.integers(0, 2, cells), rng.integers(1, most + 1, cells)
    upper = np.where(rng.random(cells) < 0.2, lower, np.maximum(lower, upper))
    found = Laminar.of(sp.csr_array(rows), low, high, lower, upper)
    ranges = [range(a, b + 1) for a, b in zip(lower.tolist(), upper.tolist(), strict=True)]
    tables = np.array(list(itertools.product(*ranges)), dtype=np.int64)
    tables = tables[np.all((tables @ rows.T >= low) & (tables @ rows.T <= high), axis=1)]
    assert (found.empty < 0) == (len(tables) > 0)
    if not len(tables):
        return
    assert np.array_equal(found.bounds(), [tables.min(axis=0), tables.max(axis=0)])
    for guide in (rng.normal(2, 3, cells), np.zeros(cells), np.full(cells, 1e30)):
        assert (tables == found.point(guide)).all(axis=1).any()
    own = tables[int(rng.integers(len(tables)))]
    assert np.array_equal(found.point(own.astype(float)), own)  # a table of the family is nearest to itself


def test_no_upper_limit_is_said_and_what_is_no_forest():
    rows = sp.csr_array(np.array([[1, 1, 0, 0], [1, 1, 1, 0]]))
    lower, upper = np.array([1, 0, 0, 0]), np.array([OPEN, 4, OPEN, OPEN])
    low, high = np.array([2.0, -np.inf]), np.array([np.inf, 7.0])
    assert np.array_equal(Laminar.of(rows, low, high, lower, upper).bounds(), [[1, 0, 0, 0], [7, 4, 5, OPEN]])
    for other in ([[1, 1, 0], [0, 1, 1]], [[1, 2, 0], [0, 0, 1]], [[1, -1, 0], [1, 1, 1]]):
        ends = np.zeros(2), np.full(2, 9.0), np.zeros(3, int), np.full(3, OPEN)
        assert Laminar.of(sp.csr_array(np.array(other)), *ends) is None


def tracts(sizes, zeros, limits=(1, 40)):
    """Tracts by kinds and ages: totals of counties, limits of kinds in tracts, cells that are 0."""
    table = {dim: [f"{dim[0]}{i}" for i in range(n)] for dim, n in zip(("tract", "kind", "age"), sizes, strict=True)}
    frame = bdp.Frame.of(table | {"county": ("tract", [f"c{i // 4}" for i in range(sizes[0])])})
    counties, by_kind = bdp.Totals(frame, by="county"), bdp.Margins(frame, ["tract", "kind"])
    return frame, [
        bdp.Exact(counties, np.full(counties.rows, 4 * sizes[1] * 5)),
        *(bdp.Exact(by_kind, np.full(sizes[:2], n), sign) for n, sign in zip(limits, (">=", "<="), strict=True)),
        bdp.Exact(bdp.queries.cell_list(frame, zeros), np.zeros(len(zeros), dtype=np.int64)),
    ]


def test_large_tables_need_no_program_and_a_contradiction_names_what_it_is(monkeypatch):
    """40 tracts by 8 kinds by 250 ages, zeros and limits: neither a point nor a limit nor a determined cell takes a program."""
    _, exact = tracts((4, 2, 100), [0, 5], limits=(30, 40))  # 8 sums of at least 30, a county of 40
    with pytest.raises(ValueError, match=r"no nonnegative integer table .*(county=c0|kind=k)"):
        Fiber.of(exact).find_point()

    for solver in ("scipy.optimize.milp", "scipy.optimize.linprog", "bayesdp.fibers.determined.determined_cells"):
        monkeypatch.setattr(solver, lambda *_, **__: pytest.fail("a program was solved"))
    zeros = np.random.default_rng(1).permutation(80_000)[:40_000]
    frame, exact = tracts((40, 8, 250), zeros)
    fiber = bdp.Release.from_published(frame, exact=exact).fiber
    assert fiber.contains(fiber.find_point(np.random.default_rng(2).normal(0, 3, frame.shape)))
    assert np.array_equal(np.flatnonzero(fiber.determined()), np.sort(zeros))
    least, most = fiber.bounds()
    assert (least.max(), set(np.unique(most))) == (0, {0, 40})
    assert fiber.bounds_are_exact
    assert fiber.determined_is_complete

"""Directions that keep precise answers, and exchanges along them: they leave the law as it is, and reach what others do not."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.hierarchies import chain as chains
from bayesdp.hierarchies.kernel.moves import RESIDUAL
from bayesdp.hierarchies.kernel.sweeps import KEEPING
from tests.hierarchies.cases import CASES, Case, after_one_sweep

RATE = 1e-5
"""False alarms of each comparison."""

STARTS = 2_500

LOOP = tuple((leaf, 0, cell) for leaf in range(4) for cell in range(4) if cell not in (leaf, (leaf + 1) % 4))
"""Zeros off a closed walk through four leaves and four cells."""

FEW = {
    **{name: CASES[name] for name in ("three levels, Poisson", "both margins", "limits of sums", "structural zeros")},
    "a loop": Case(
        (4, 1, 4), "AABB", 8, zeros=LOOP, noise=((("tract",), 0.5), (("race",), 0.5), (("tract", "age", "race"), 9.0))
    ),
}


@pytest.mark.parametrize("exchanges", [0.0, 1.0])
@pytest.mark.parametrize("name", FEW)
def test_one_sweep_from_exact_draws(name, exchanges, monkeypatch):
    monkeypatch.setattr(chains, "EXCHANGES", exchanges)
    case = FEW[name]
    chain = case.chain(3)
    chain.mix[:] = 0
    chain.mix[KEEPING] = 100
    pvalue, changed = after_one_sweep(chain, *case.enumerate(), STARTS, seed=5)
    assert pvalue > RATE
    # Where all margins by two are exact, counts that change places keep them only if they are equal.
    assert changed > 0.1 or (name, exchanges) == ("both margins", 1.0)
    residuals, sums = chain.state.answers.copy(), chain.state.sums.copy()
    chain.renew()
    np.testing.assert_allclose(residuals[..., RESIDUAL], chain.state.answers[..., RESIDUAL], atol=1e-9)
    if chain.structure.limited:
        np.testing.assert_array_equal(sums, chain.state.sums)


def _loop(leaves, free):
    """Rows of a table with a closed walk, and other leaves in which every cell is free."""
    zeros = tuple(
        (leaf, 0, cell)
        for leaf in range(leaves - free)
        for cell in range(leaves)
        if cell not in (leaf, (leaf + 1) % leaves)
    )
    return Case((leaves, 1, leaves), "A" * leaves, 10, zeros=zeros, noise=((("tract",), 0.5), (("race",), 0.5)))


def test_large_tables_have_them_where_known_cells_leave_nothing_shorter(monkeypatch):
    monkeypatch.setattr(chains, "_SMALL", 0)
    assert _loop(5, 0).chain(1).keeping is not None
    assert _loop(5, 1).chain(1).keeping is None  # squares with the last leaf make up every walk
    assert all(case.chain(1).keeping is None for name, case in CASES.items() if name != "structural zeros")


def test_longer_walks_have_room():
    case = _loop(40, 0)
    chain = case.chain(1)
    chain.mix[:] = 0
    chain.mix[KEEPING] = 100
    table = np.zeros((40, 40), dtype=np.int64)
    np.fill_diagonal(table, 3)
    chain.load(table.reshape(-1))
    others = np.zeros(200, dtype=np.int64)
    for i in range(len(others)):
        chain.sweep()
        others[i] = np.count_nonzero(chain.state.counts.diagonal() == 0)
    assert others.max() > 30  # nearly all leaves have gone over to their other cell
    assert others.min() == 0

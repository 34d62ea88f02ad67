"""Exact-conditional moves a second, best round: how fast, and whether it stays so as tables grow."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp._numba import seed_state
from bayesdp.fibers.kernel.state import FAMILIES, State, new_state, set_counts, set_laplace, set_prior
from bayesdp.fibers.kernel.sweep import sweep
from bayesdp.invariants import Invariants
from bayesdp.lattices import moves_for
from bayesdp.queries import Margins, Totals

MOVES = 200_000
POISSON = FAMILIES["poisson"]

TABLES = {"4x4": (4, 4), "20x20": (20, 20), "100x100": (100, 100), "1000x50": (1000, 50)}

_RATES: dict[str, float] = {}


def chain(invariants: Invariants, mean: float, epsilon: float) -> State:
    """Poisson counts with this mean, measured with l1 noise of this rate."""
    rng = np.random.default_rng(1)
    cells, moves = invariants.frame.size, moves_for(invariants)
    state = new_state(cells, moves, None, 0)
    counts = rng.poisson(mean, cells)
    state.cells_int[:, 1] = 0
    set_counts(state, counts)
    set_prior(state, "poisson", np.log(mean))
    set_laplace(state, epsilon, counts)
    state.generator[:] = seed_state(rng)
    return state


def case(name: str) -> State:
    if name == "51 blocks of 62":
        frame = {"county": range(51 * 62), "state": ("county", np.arange(51 * 62) // 62)}
        return chain(Invariants(Totals(frame, by="state")), 50, 0.192)
    rows, columns = TABLES[name]
    return chain(Invariants(Margins({"a": range(rows), "b": range(columns)}, ["a"], ["b"])), 20, 0.25)


@pytest.mark.parametrize("name", [*TABLES, "51 blocks of 62"])
@pytest.mark.benchmark(group="exact moves")
def test_moves(benchmark, enter, name):
    state = case(name)
    benchmark.pedantic(
        sweep,
        args=(np.empty((0, state.cells_int.shape[0]), dtype=np.int64), MOVES, POISSON, True, state),
        rounds=7,
        iterations=1,
        warmup_rounds=2,
    )
    rate = _RATES[name] = MOVES / benchmark.stats.stats.min
    enter(f"exact moves, {name}", rate / 1e6, "million a second", at_least=3.0 if name == "4x4" else None)
    numbers = [a for a in state if isinstance(a, np.ndarray)]
    # The work space is of one size for all tables: it is left out.
    scratch = {id(state.scratch_int), id(state.scratch_float)}
    held = sum(a.nbytes for a in numbers if id(a) not in scratch)
    enter(f"memory, {name}", held / len(state.counts), "bytes a cell")
    if len(_RATES) == len(TABLES) + 1:
        ratio = max(_RATES.values()) / min(_RATES.values())
        enter("exact moves, fastest table against slowest", ratio, "times", at_most=2.0)

"""Noise with a fixed total over 102 counties: exact draws against what one would write, and against the chain."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices import sample_noise
from bayesdp.queries import Totals

EPSILON = 0.192
_RATES: dict[str, float] = {}


def pivot_rejection(rng: np.random.Generator, cells: int, size: int) -> np.ndarray:
    """The plain exact way: all cells but one independent, the last one so that the sum is zero, by rejection."""
    a = np.exp(-EPSILON)
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < size:
        free = rng.geometric(1 - a, size=(4096, cells - 1)) - rng.geometric(1 - a, size=(4096, cells - 1))
        last = -free.sum(axis=1)
        accepted = rng.random(4096) < a ** np.abs(last)
        kept.append(np.column_stack([free, last])[accepted])
    return np.concatenate(kept)[:size]


@pytest.mark.parametrize(("cells", "size"), [(102, 5000), (3143, 200)])
@pytest.mark.benchmark(group="noise with a fixed total")
def test_exact_draws(benchmark, enter, cells, size):
    invariants, rng = Invariants(Totals({"county": range(cells)})), np.random.default_rng(1)
    benchmark.pedantic(sample_noise, args=(invariants, "l1", EPSILON, rng, size), rounds=5, warmup_rounds=1)
    rate = _RATES[f"exact {cells}"] = size / benchmark.stats.stats.min
    enter(f"fixed total over {cells} cells, exact draws", rate, "a second")


@pytest.mark.benchmark(group="noise with a fixed total")
def test_pivot_rejection(benchmark, enter):
    rng = np.random.default_rng(1)
    benchmark.pedantic(pivot_rejection, args=(rng, 102, 500), rounds=3)
    rate = 500 / benchmark.stats.stats.min
    enter(
        "fixed total over 102 cells, exact draws against pivot rejection in NumPy", _RATES["exact 102"] / rate, "times"
    )


@pytest.mark.benchmark(group="noise with a fixed total")
def test_gibbs_chain(benchmark, enter):
    invariants, rng = Invariants(Totals({"county": range(102)})), np.random.default_rng(1)
    benchmark.pedantic(sample_noise, args=(invariants, "l1", EPSILON, rng, 5, "mcmc", 1000), rounds=3, warmup_rounds=1)
    rate = 5 / benchmark.stats.stats.min
    enter("fixed total over 102 cells, exact draws against 1000 sweeps of Gibbs", _RATES["exact 102"] / rate, "times")

"""Diagnostics of a large table of counts: microseconds a cell on one core, beside ArviZ."""

from __future__ import annotations

import time
from importlib import import_module

import numpy as np
import pytest

from bayesdp._chains import chain_statistics

# Of constant quantities ArviZ divides by zero.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning"),
]

CELLS = 5_000
BY_ARVIZ = 100


def _counts(chains: int, correlation: str) -> np.ndarray:
    """Counts as in a census table, most of them small; correlated ones have up to 0.6 from draw to draw, slow ones 0.9."""
    rng = np.random.default_rng(1)
    means = rng.gamma(0.1, 20.0, size=CELLS)
    if correlation == "independent":
        return rng.poisson(means, size=(chains, 1000, CELLS))
    rho = rng.uniform(0.0, 0.6, size=CELLS) if correlation == "correlated" else np.full(CELLS, 0.9)
    noise = rng.normal(size=(chains, 1000, CELLS))
    for i in range(1, 1000):
        noise[:, i] = rho * noise[:, i - 1] + np.sqrt(1.0 - rho**2) * noise[:, i]
    return np.rint(np.maximum(means + np.sqrt(means) * noise, 0.0)).astype(np.int64)


@pytest.mark.parametrize("correlation", ["independent", "correlated", "slow"])
@pytest.mark.parametrize("chains", [2, 4])
def test_microseconds_a_cell(benchmark, chains, correlation, enter):
    draws = _counts(chains, correlation)
    chain_statistics(draws[:, :, :1100])  # compiles
    start = time.process_time()
    own = benchmark.pedantic(chain_statistics, args=(draws,))
    ours = (time.process_time() - start) / CELLS
    arviz, axes = import_module("arviz_stats.base").array_stats, {"chain_axis": 0, "draw_axis": 1}
    some = draws[:, :, :BY_ARVIZ].astype(np.float64)
    start = time.process_time()
    rhat = arviz.rhat(some, method="rank", **axes)
    bulk = arviz.ess(some, method="bulk", **axes)
    arviz.ess(some, method="tail", prob=(0.05, 0.95), **axes)
    theirs = (time.process_time() - start) / BY_ARVIZ
    kind = f"diagnostics of {chains} x 1000 draws, {correlation}"
    enter(kind, 1e6 * ours, "microseconds a cell", at_most=20.0)
    enter(f"{kind}, ArviZ", 1e6 * theirs, "microseconds a cell")
    np.testing.assert_allclose(own.ess_bulk[:BY_ARVIZ], bulk, rtol=1e-9)
    np.testing.assert_allclose(own.rhat[:BY_ARVIZ], rhat, rtol=1e-9)

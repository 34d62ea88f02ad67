"""Hierarchies of geography: twenty tracts against the goal, the moves of a hierarchy against those of tables in general, first use.

Larger cases take minutes: `benchmarks.hierarchy_runs`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp._chains import chain_statistics
from bayesdp.fibers import Chain
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of
from benchmarks.census_like import CensusLike, census_like
from benchmarks.hierarchy_runs import CASES, fitted
from benchmarks.memory import apart

_FIRST_USE = """
import time
from benchmarks.census_like import census_like
from benchmarks.hierarchy_runs import fitted
own = census_like(2)
start = time.process_time()
fitted(own, 8, 8, most=0)
print(time.process_time() - start)
"""


@pytest.mark.benchmark(group="hierarchies")
def test_twenty_tracts(benchmark, enter):
    case, own = CASES["tracts"], census_like(20)
    fitted(own, 8, 8, most=case.most)  # compiles
    found = benchmark.pedantic(lambda: fitted(own, case.draws, case.tune, most=case.most), rounds=1)
    enter("20 tracts x 252: kernel, CPU", found.kernel, "s", at_most=5.0)
    enter("20 tracts x 252: fit, CPU", found.seconds, "s", at_most=20.0)
    answers = min(ess for name, ess in found.ess.items() if name != "cells")
    enter("20 tracts x 252: smallest ESS of an answer", answers, "draws", at_least=400.0)
    enter("20 tracts x 252: smallest ESS of a cell, by batches", found.ess["cells"], "draws", at_least=400.0)
    enter("20 tracts x 252: largest R-hat", max(found.rhat.values()), "", at_most=1.01)
    assert found.tree["diagnostics"].attrs["missed_modes"] == "none found"


def _tables(own: CensusLike, draws: int, *, general: bool) -> tuple[npt.NDArray[np.int64], float]:
    """Draws of two chains from the same start, and CPU seconds of what follows 50 sweeps."""
    target = target_of(own.release, "negbin")
    drawn, seconds = [], 0.0
    for seed in (1, 2):
        if general:
            chain: Chain | TreeChain = Chain(target, np.random.default_rng(seed))
        else:
            chain = TreeChain(target, structure_of(target), np.random.default_rng(seed))
        size = own.truth.size
        chain.set_prior(np.full(size, -np.log1p(0.1 / 2.0)), np.full(size, 0.1))
        chain.load(own.truth.reshape(-1))
        sweep = 2 * size if general else 1
        for _ in range(50):
            chain.sweep(sweep)
        start = time.process_time()
        kept = np.empty((draws, size), dtype=np.int64)
        for table in kept:
            chain.sweep(sweep)
            table[:] = chain.counts
        seconds += time.process_time() - start
        drawn.append(kept)
    return np.stack(drawn), seconds


@pytest.mark.benchmark(group="hierarchies")
def test_against_moves_of_tables_in_general(benchmark, enter):
    """Two moves a cell are what a draw of the general kernel has. Both start at the truth, which spares it from finding modes."""
    own = census_like(5)
    for general in (True, False):
        _tables(own, 2, general=general)  # compiles
    slow, slow_seconds = _tables(own, 300, general=True)
    fast, fast_seconds = benchmark.pedantic(lambda: _tables(own, 300, general=False), rounds=1)
    for name, axes in {"cells": (), "votingage * cenrace": (2,), "votingage": (2, 3), "total": (1, 2, 3)}.items():
        both = []
        for drawn, seconds in ((slow, slow_seconds), (fast, fast_seconds)):
            table = drawn.reshape(*drawn.shape[:2], 5, 2, 2, 63).sum(axis=tuple(2 + axis for axis in axes))
            flat = table.reshape(*drawn.shape[:2], -1)
            ess = chain_statistics(flat[..., (flat != flat[:1, :1]).any(axis=(0, 1))]).ess_bulk
            both.append(np.quantile(ess, [0.05, 0.5]) / seconds)
        low, middle = both[1] / both[0]
        enter(f"hierarchy against general moves, ESS a CPU second, {name}, median", middle, "times", at_least=2.0)
        enter(f"hierarchy against general moves, ESS a CPU second, {name}, lowest 5%", low, "times", at_least=5.0)


def three_thousand_counties() -> tuple[float, float]:
    """Seconds of a fit that keeps draws of states only, and the smallest effective sample size of a cell, by batches."""
    rng = np.random.default_rng(0)
    states = np.sort(rng.integers(0, 51, 3143))
    frame = {"county": [f"c{i}" for i in range(3143)], "state": ("county", [f"s{k:02d}" for k in states])}
    table = bdp.Frame.of(frame).data_array(rng.poisson(rng.gamma(2.0, 15.0, 3143)))
    noisy = bdp.mechanisms.DiscreteGaussian(bdp.Identity(frame), rho=0.02).release(table, rng=rng)
    totals = bdp.Totals(frame, "state")
    exact = bdp.Release.from_published(frame, exact=[bdp.Exact(totals, totals.apply(table))])
    release, prior = bdp.compose(noisy, exact).release, FixedNegativeBinomial(mean=30.0, shape=2.0)
    start = time.perf_counter()
    tree = bdp.fit_hierarchy(release, prior, draws=1000, tune=200, chains=4, cores=2, random_seed=1, quiet=True)
    cells: Any = tree["cells"]
    return time.perf_counter() - start, float(cells["ess"].min())


@pytest.mark.benchmark(group="hierarchies")
def test_three_thousand_counties(benchmark, enter):
    """3,143 counties in 51 states, as in `test_sampling`, but with Gaussian noise: of cells summaries are kept, and no draws."""
    apart(three_thousand_counties)  # compiles
    took = benchmark.pedantic(apart, args=(three_thousand_counties,), rounds=1)
    seconds, ess = took.result
    enter("3,143 counties by fit_hierarchy: 4 chains of 1,000 draws", seconds, "s", at_most=60)
    enter("3,143 counties by fit_hierarchy: smallest ESS of a cell, by batches", ess, "draws", at_least=400)
    enter("3,143 counties by fit_hierarchy: peak memory", took.gigabytes, "GB", at_most=0.5)
    enter("3,143 counties by fit_hierarchy: of which libraries", took.before, "GB")


@pytest.mark.benchmark(group="hierarchies")
def test_building_and_observing(benchmark, enter):
    def both() -> float:
        start = time.process_time()
        own = census_like(100)
        with pm.Model(coords=own.release.coords):
            x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=2.0, alpha=0.1), dims=own.release.dims)
            bdp.observe(own.release, x)
        return time.process_time() - start

    both()
    enter(
        "100 tracts x 252, 16 queries: release and observe, CPU", benchmark.pedantic(both, rounds=1), "s", at_most=3.0
    )


@pytest.mark.benchmark(group="hierarchies")
def test_first_use(benchmark, enter, tmp_path):
    """With an empty folder of compiled code."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def first() -> float:
        done = subprocess.run(
            [sys.executable, "-c", _FIRST_USE], env=environment, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    enter("first use of hierarchies, compiling, CPU", benchmark.pedantic(first, rounds=1), "s", at_most=20.0)

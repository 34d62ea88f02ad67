"""Sampling through PyMC: overhead, and effective samples a second against what one would do without the library."""

from __future__ import annotations

import time
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp._chains import chain_statistics
from bayesdp.fibers.kernel.sweep import sweep
from bayesdp.steps import FiberGibbs
from benchmarks.memory import apart

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
EPSILON = 0.25


@pytest.fixture(scope="module")
def four_by_four():
    """A 4x4 table with mean cell 20, both margins exact, l1 lattice Laplace noise."""
    frame = {"row": list("abcd"), "column": list("wxyz")}
    rng = np.random.default_rng(1)
    table = rng.poisson(20.0, (4, 4))
    margins = bdp.Margins(frame, ["row"], ["column"])
    release = bdp.LatticeLaplace(margins, epsilon=EPSILON).release(bdp.Frame.of(frame).data_array(table), rng=rng)
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(20.0), dims=release.dims)
        bdp.observe(release, x)
    return release, model


def _ess_a_second(draws, seconds):
    """Worst effective sample size of a cell, a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = az.from_dict({"posterior": {"x": np.asarray(draws, dtype=np.float64)}})
        return float(az.ess(tree, method="bulk")["x"].min()) / seconds


def test_overhead_of_pm_sample(benchmark, enter, four_by_four):
    """Time a draw of pm.sample takes beyond the kernel (no NUTS, progress off); the aim is below 25 microseconds."""
    _, model = four_by_four
    pm.sample(model=model, draws=10, tune=0, chains=1, cores=1, random_seed=1, **QUIET)
    with model:
        step = FiberGibbs([model["x"]], rng=np.random.default_rng(1))
    step.step(model.initial_point())
    chain = step.tables[0].chain
    draws = 50_000

    def run():
        began = time.perf_counter()
        pm.sample(model=model, draws=draws, tune=0, chains=1, cores=1, random_seed=1, **QUIET)
        return time.perf_counter() - began

    whole = benchmark.pedantic(run, rounds=3, warmup_rounds=0)
    few = time.perf_counter()
    pm.sample(model=model, draws=10, tune=0, chains=1, cores=1, random_seed=1, **QUIET)
    few = time.perf_counter() - few
    began = time.perf_counter()
    for _ in range(20):
        chain.sweep(100_000)
    kernel = (time.perf_counter() - began) / 20_000
    a_draw = (whole - few) / draws
    enter("pm.sample, 4x4: one draw of 100 moves", 1e6 * a_draw, "us")
    enter("pm.sample, 4x4: overhead of a draw", 1e6 * (a_draw - kernel), "us", at_most=25)


def test_against_metropolis(benchmark, enter, four_by_four):
    """Effective samples a second of the worst cell: ours, pm.Metropolis on the free cells, random walk over the model."""
    release, model = four_by_four
    draws = 100_000
    chain = FiberGibbs([model["x"]], model=model, rng=np.random.default_rng(1)).tables[0].chain
    chain.load(bdp.feasible_point(release).values.reshape(-1))
    _drawn(chain, 10, 1000)

    def ours():
        began = time.perf_counter()
        kept = _drawn(chain, draws, 5)
        return kept[None], time.perf_counter() - began

    kernel = _ess_a_second(*benchmark.pedantic(ours, rounds=1, warmup_rounds=0))
    metropolis = _ess_a_second(*_metropolis(release))
    plain = _ess_a_second(*_random_walk(release, model))
    enter("ESS a second, 4x4: kernel, 5 moves a draw", kernel, "")
    enter("ESS a second, 4x4: through pm.sample, 100 moves a draw", _ess_a_second(*_pm_sample(model)), "")
    enter("ESS a second, 4x4: pm.Metropolis, free cells and a hard constraint", metropolis, "")
    enter("ESS a second, 4x4: random walk in Python, compiled log-density", plain, "")
    enter("ESS a second, 4x4: kernel / pm.Metropolis", kernel / metropolis, "times", at_least=500)
    enter("ESS a second, 4x4: kernel / random walk in Python", kernel / plain, "times", at_least=300)


def _drawn(chain, draws, moves):
    """Tables so many moves apart, in one call of the kernel."""
    tables = np.empty((draws, len(chain.counts)), dtype=np.int64)
    assert sweep(tables, moves, chain._family, chain.concave, chain.state) >= 0
    return tables


def _pm_sample(model):
    began = time.perf_counter()
    tree = pm.sample(model=model, draws=20_000, tune=100, chains=1, cores=1, random_seed=1, **QUIET)
    return tree.posterior["x"].values.reshape(1, -1, 16), time.perf_counter() - began


def _metropolis(release):
    """The free cells as integers, the rest by subtraction, a hard constraint on the sign."""
    rows, columns = (part.values for part in release.exact)
    noisy = release.values.values
    start = bdp.feasible_point(release).values
    with pm.Model():
        free = pm.DiscreteUniform("free", 0, 200, shape=(3, 3))
        right = pm.math.stack([rows[i] - free[i].sum() for i in range(3)])
        top = pm.math.concatenate([free, right[:, None]], axis=1)
        x = pm.math.concatenate([top, (columns - top.sum(axis=0))[None, :]], axis=0)
        pm.Deterministic("x", x)
        inside = pm.math.switch(pm.math.ge(x.min(), 0), 0.0, -np.inf)
        prior = pm.logp(pm.Poisson.dist(20.0), x).sum()
        pm.Potential("target", inside + prior - EPSILON * pm.math.abs(x - noisy).sum())
        began = time.perf_counter()
        tree = pm.sample(
            draws=100_000,
            tune=3000,
            chains=1,
            cores=1,
            random_seed=1,
            initvals={"free": start[:3, :3]},
            step=pm.Metropolis(),
            **QUIET,
        )
        seconds = (time.perf_counter() - began) * 100 / 103
    return tree.posterior["x"].values.reshape(1, -1, 16), seconds


def _random_walk(release, model):
    """Metropolis in Python: a random 2x2 move of +1 or -1, accepted on the model's compiled log-density."""
    logp = model.compile_logp()
    rng = np.random.default_rng(1)
    x = bdp.feasible_point(release).values.copy()
    height = float(logp({"x": x}))
    kept, proposals = [], 300_000
    began = time.perf_counter()
    for i in range(proposals):
        a, b = rng.choice(4, 2, replace=False)
        c, d = rng.choice(4, 2, replace=False)
        new = x.copy()
        new[a, c] += 1
        new[b, d] += 1
        new[a, d] -= 1
        new[b, c] -= 1
        if new.min() >= 0:
            other = float(logp({"x": new}))
            if np.log(rng.random()) < other - height:
                x, height = new, other
        if i % 10 == 9:
            kept.append(x.reshape(-1))
    return np.array(kept)[None], time.perf_counter() - began


def three_thousand_counties() -> tuple[float, float]:
    """Seconds of sampling, and smallest bulk effective sample size."""
    rng = np.random.default_rng(0)
    states = np.sort(rng.integers(0, 51, 3143))
    frame = {"county": [f"c{i}" for i in range(3143)], "state": ("county", [f"s{k:02d}" for k in states])}
    table = bdp.Frame.of(frame).data_array(rng.poisson(rng.gamma(2.0, 15.0, 3143)))
    release = bdp.LatticeLaplace(bdp.Totals(frame, "state"), epsilon=0.192).release(table, rng=rng)
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=30.0, alpha=2.0), dims="county")
        bdp.observe(release, x)
    began = time.perf_counter()
    tree = pm.sample(model=model, draws=1000, tune=200, chains=4, cores=2, random_seed=1, **QUIET)
    seconds = time.perf_counter() - began
    return seconds, float(chain_statistics(tree.posterior["x"].values).ess_bulk.min())


def test_three_thousand_counties(benchmark, enter):
    """3,143 cells in 51 states, state totals exact, collapsed prior: 4 chains of 1,000 draws on two cores.

    Added up as resident memory of each process, pages that they share would be counted once for each.
    """
    took = benchmark.pedantic(apart, args=(three_thousand_counties,), kwargs={"children": 2}, rounds=1, warmup_rounds=0)
    seconds, ess = took.result
    enter("3,143 counties: 4 chains of 1,000 draws", seconds, "s", at_most=60)
    enter("3,143 counties: smallest bulk ESS of a cell", ess, "", at_least=400)
    enter("3,143 counties: peak memory", took.gigabytes, "GB", at_most=0.5)
    enter("3,143 counties: peak memory beside libraries", took.gigabytes - took.before, "GB")
    enter("3,143 counties: the same, added up process by process", took.in_full, "GB")
    assert ess > 400

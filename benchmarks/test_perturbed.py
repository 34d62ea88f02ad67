"""Tables perturbed by cell keys: effective draws a second, and against true counts summed out by hand in PyMC."""

from __future__ import annotations

import time
import warnings
from itertools import combinations
from unittest import mock

import arviz as az
import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.fibers import target as precise
from bayesdp.fibers import target as targets
from benchmarks.country import LAW
from benchmarks.perturbed_runs import large
from benchmarks.perturbed_tables import by_hand, ours, perturbed

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
CHAINS = {"tune": 500, "chains": 2, "cores": 1, "random_seed": 1}


@pytest.mark.benchmark(group="perturbed tables")
def test_areas_by_categories_with_margins(benchmark, enter):
    """The case of `benchmarks.perturbed_runs` with a tenth of the areas; by hand it is run whole."""
    found = benchmark.pedantic(large, kwargs={"areas": 300, "cores": 1}, rounds=1, warmup_rounds=0)
    seconds = found["seconds"]
    enter("300 x 12, cell keys, both margins: 4 chains of 1,000 draws", seconds, "s")
    enter("300 x 12: smallest ESS of an area total", found["ess_areas"], "", at_least=400)
    enter("300 x 12: smallest ESS of a category share", found["ess_shares"], "", at_least=400)
    enter("300 x 12: the same a second, areas", found["ess_areas"] / seconds, "")
    enter("300 x 12: the same a second, shares", found["ess_shares"] / seconds, "")
    assert found["rhat"] < 1.02


@pytest.mark.benchmark(group="perturbed tables")
def test_against_counts_summed_out_by_hand(benchmark, enter):
    """20 x 3 cells without margins, the mean of the prior unknown: all that can be summed out cell by cell."""
    release = perturbed(20, 3, margins=False).release
    mine, theirs = ours(release), by_hand(release)

    def sampled(model, draws, sample):
        with model:
            sample(draws=10, **{**CHAINS, "tune": 10}, **QUIET)  # compiled before
            began = time.perf_counter()
            mean = sample(draws=draws, **CHAINS, **QUIET).posterior["mean"]
        return mean, time.perf_counter() - began

    drawn, seconds = benchmark.pedantic(sampled, (mine, 2000, bdp.sample), rounds=1, warmup_rounds=0)
    other, other_seconds = sampled(theirs, 2000, pm.sample)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = (float(az.ess(own, method="bulk")) for own in (drawn, other))
    # Both have one posterior.
    error = np.sqrt(float(drawn.var()) / here + float(other.var()) / there)
    assert abs(float(drawn.mean() - other.mean())) < 4 * error
    enter("20 x 3, cells only: ESS a second of the mean, true counts drawn", here / seconds, "")
    enter("20 x 3, cells only: ESS a second of the mean, summed out by hand, NUTS", there / other_seconds, "")
    enter("20 x 3, cells only: drawn / summed out", (here / seconds) / (there / other_seconds), "times")


def _table(release, families):
    """The table of a release in its kernel, with directions that keep published sums or without."""
    kept = precise.precise_sets if families else lambda *given: ()
    with mock.patch.object(targets, "precise_sets", kept), pm.Model(coords=release.coords):
        base = pm.NegativeBinomial.dist(mu=50.0, alpha=0.8)
        bdp.observe(release, bdp.ConfidentialCounts("x", base, dims=release.dims))
        table = bdp.inference.FiberGibbs().tables[0]
    return table


def _tuned(chain, start):
    """A chain from a possible table, its shares learnt."""
    chain.begin(start)
    for _ in range(300):
        chain.move(2)
        chain.learn()
    chain.settle()
    return chain


def _drawn(chain, draws, sweeps):
    """Tables, and microseconds a move."""
    began = time.process_time()
    tables = np.empty((draws, len(chain.counts)))
    for own in tables:
        chain.move(sweeps)
        own[:] = chain.counts
    moves = draws * sweeps * chain.target.fiber.invariants.dimension
    return tables, (time.process_time() - began) / moves * 1e6


def _noisy(mean, scale):
    """8 x 6 x 4 counts under discrete Laplace noise: margins of every set of axes, cells with ten times their scale."""
    rng = np.random.default_rng(1)
    frame = {dim: [f"{dim}{i}" for i in range(size)] for dim, size in (("a", 8), ("b", 6), ("c", 4))}
    truth = rng.negative_binomial(0.8, 0.8 / (0.8 + mean), (8, 6, 4))
    queries = [bdp.Margins(frame, list(dims)) for size in range(4) for dims in combinations(frame, size)]
    parts = []
    for query in queries:
        law = bdp.noise.DiscreteLaplace(10.0 * scale if query.is_identity else scale)
        parts.append(bdp.Measured(query, law.draw(rng, query.shape, location=query.apply(truth)), law))
    return bdp.Release.from_published(frame, parts)


RELEASES = {
    "ABS, 11 areas": (lambda: bdp.datasets.working_population(LAW, levels=["SA3"], within="7"), 0.6),
    "Stats NZ, 64 electorates": (bdp.datasets.statsnz_age_by_sex, None),
    "noisy, 8 x 6 x 4": (lambda: _noisy(50.0, 1.0), None),
    "noisy, sparse": (lambda: _noisy(0.5, 0.3), None),
}
"""Releases with all margins, and the most microseconds that a move should take."""


@pytest.mark.benchmark(group="perturbed tables")
@pytest.mark.parametrize("name", RELEASES)
def test_all_margins_with_and_without_families(name, benchmark, enter):
    """Two censuses, all numbers perturbed, and noisy tables: directions by sets of dimensions, and without them.

    Of these directions those that look at which cells are not 0 are left out a third time, where there are any.
    """
    released, at_most = RELEASES[name]
    release = released()
    found = {families: _table(release, families) for families in (True, False)}
    point = {"x": np.rint(found[True].target.guide()).clip(0).astype(np.int64).reshape(release.frame.shape)}
    found[True].begin(point, np.random.default_rng(1))  # without families there may be no way to a possible table
    start = found[True].value.reshape(-1)
    chains = {families: _tuned(table.chain, start) for families, table in found.items()}
    tables, cost = benchmark.pedantic(_drawn, (chains[True], 1_000, 10), rounds=1, warmup_rounds=0)
    before, cost_before = _drawn(chains[False], 1_000, 10)
    moves = 1_000 * 10 * chains[True].target.fiber.invariants.dimension
    runs = [(tables, cost, "families"), (before, cost_before, "without")]
    if chains[True].target.moves.whole:
        with mock.patch("bayesdp.fibers.chain.OCCUPIED_SHARE", 0.0):
            runs.append(
                (*_drawn(_tuned(found[True].chain, start), 1_000, 10), "families that do not look at the table")
            )
    rates = []
    for drawn, each, _ in runs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sizes = az.ess(drawn.T[:, None, :], chain_axis=1, draw_axis=2, method="bulk")
        rates.append(np.where(drawn.std(axis=0) > 0, sizes, 0.0) / (moves * each * 1e-6))
    moved = tables.std(axis=0) > 0
    assert moved.sum() > 0.6 * moved.size
    for rate, (_, _, words) in zip(rates, runs, strict=True):
        enter(f"{name}: smallest ESS of a cell a second, {words}", float(rate[moved].min()), "")
        enter(f"{name}: 5 % quantile of cells a second, {words}", float(np.quantile(rate[moved], 0.05)), "")
        enter(f"{name}: median of cells a second, {words}", float(np.median(rate[moved])), "")
    enter(f"{name}: a move, families", cost, "us", **({} if at_most is None else {"at_most": at_most}))
    enter(f"{name}: a move, without", cost_before, "us")
    enter(f"{name}: cells that moved with families only", float((moved & (before.std(axis=0) == 0)).sum()), "")

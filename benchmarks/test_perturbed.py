"""Tables perturbed by cell keys: effective draws a second, and against true counts summed out by hand in PyMC."""

from __future__ import annotations

import time
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
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

"""Chains of a hierarchy begin so near the posterior that ten sweeps are enough; from a crude start they are not.

Independent chains after ten sweeps are held against a long run. The run itself begins at `start_table`, so a start that is wrong
for good would show in neither; that law is tested by enumeration in `tests/hierarchies/kernel`.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesdp.fibers import Fiber, NoiseTerm, Target
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.start import start_table
from bayesdp.hierarchies.structure import structure_of
from bayesdp.measurements import Exact
from bayesdp.queries import Margins, Totals

RATE = 1e-4
"""False alarms of the comparison, over all answers (Bonferroni)."""

CHAINS, SWEEPS, LONG, THIN, BATCHES = 40, 10, 600, 2, 30


@pytest.fixture(scope="module")
def case():
    """Five tracts of 252 cells (2 x 3 x 42), one exact total, noisy cells, and precise totals of tracts and of their races."""
    dims = {"tract": range(5), "hispanic": range(2), "votingage": range(3), "race": range(42)}
    rng = np.random.default_rng(4)
    counts = rng.poisson(np.tile(rng.gamma(0.15, 30.0 / 0.15, 252), (5, 1))).reshape(-1)
    terms = []
    for keep, sd in ((list(dims), 8.0), (["tract"], 1.5), (["tract", "race"], 4.0), (["hispanic"], 2.0)):
        query = Margins(dims, keep)
        truth = np.asarray(query.matrix @ counts, dtype=np.float64)
        noisy, ones = truth + np.rint(rng.normal(0.0, sd, len(truth))), np.ones(len(truth))
        terms.append(NoiseTerm(query, noisy, "gaussian", sd * ones, ones.astype(bool)))
    target = Target(Fiber.of([Exact(Totals(dims), int(counts.sum()))]), tuple(terms), "negbin")
    theta, shape = np.full(1260, np.log(30.0 / 30.15)), np.full(1260, 0.15)
    recorded = Margins(dims, ["tract"], ["tract", "votingage"], ["hispanic"])
    return target, structure_of(target, "tract"), theta, shape, recorded.matrix


def _chain(case, seed, table):
    target, structure, theta, shape, _ = case
    chain = TreeChain(target, structure, np.random.default_rng(seed))
    chain.set_prior(theta, shape)
    chain.load(table)
    return chain


def _estimate(case, seed):
    target, structure = case[:2]
    return np.asarray(structure.in_frame(start_table(target, structure, seed, 1.0)), dtype=np.int64)


def _crude(case, seed):
    """All counts in one cell, another one for each chain."""
    total = int(case[0].fiber.equalities[0][1].sum())
    return np.where(np.arange(1260) == np.random.default_rng(seed).integers(1260), total, 0)


def _after_ten(case, start):
    found = []
    for seed in range(CHAINS):
        chain = _chain(case, seed, start(case, seed))
        chain.sweep(SWEEPS)
        found.append(case[4] @ chain.counts)
    return np.asarray(found, dtype=np.float64)


@pytest.fixture(scope="module")
def long_run(case):
    """Means and standard deviations of the recorded answers, and the errors of the means by batches."""
    chain = _chain(case, 999, _estimate(case, 999))
    chain.sweep(200)
    chain.choose_donors(chain.state.counts)
    draws = np.empty((LONG, case[4].shape[0]))
    for draw in draws:
        chain.sweep(THIN)
        draw[:] = case[4] @ chain.counts
    batches = draws.reshape(BATCHES, -1, draws.shape[1]).mean(axis=1)
    return draws.mean(axis=0), draws.std(axis=0, ddof=1), batches.std(axis=0, ddof=1) / np.sqrt(BATCHES)


def _worst(after, long_run):
    """Smallest p-values of the means and of the variances after ten sweeps, times the number of answers.

    The long run knows neither exactly: its mean has an error, and its variance is that of as many independent draws as give it.
    """
    mean, sd, error = long_run
    z = (after.mean(axis=0) - mean) / np.sqrt(sd**2 / CHAINS + error**2)
    ratio = ((after - mean) ** 2).mean(axis=0) / (sd**2 + error**2)
    law = stats.f(CHAINS, np.maximum(sd**2 / error**2 - 1.0, 1.0))
    p_mean = 2 * stats.t.sf(np.abs(z), BATCHES - 1)
    p_spread = 2 * np.minimum(law.sf(ratio), law.cdf(ratio))
    return float(min(p_mean.min(), p_spread.min()) * len(z))


def test_ten_sweeps_from_the_estimate_are_enough_and_from_one_cell_they_are_not(case, long_run):
    assert _worst(_after_ten(case, _estimate), long_run) > RATE
    assert _worst(_after_ten(case, _crude), long_run) < 1e-10

"""The lesson on the odds ratio: its posterior against quadrature, and beside the test of the same release."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm

import bayesdp as bdp

LESSON = Path(__file__).resolve().parents[2] / "models" / "odds_ratio.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("odds_ratio", LESSON)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.system
def test_the_posterior_of_the_odds_ratio():
    lesson = load()
    release = lesson.make_release()
    with lesson.build_model(release):
        tree = bdp.sample(
            draws=400,
            tune=400,
            chains=2,
            cores=1,
            random_seed=1,
            nuts_sampler="pymc",
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    # Given the margins the corner is noncentral hypergeometric; its noise falls by exp(-4 * 0.25) a step. The margins
    # themselves say next to nothing about the odds ratio.
    published = float(release.values[0, 0])
    x = np.arange(published - 40, published + 41)
    log = np.linspace(0.0, 1.3, 1301)
    r1, r2, c1 = 2691, 1835, 1755
    every = np.arange(0, c1 + 1.0)
    log_choose = -sum(gammaln(cell + 1) for cell in (every, r1 - every, c1 - every, r2 - c1 + every))
    terms = log_choose[None, :] + log[:, None] * every[None, :]
    normaliser = np.log(np.exp(terms - terms.max(axis=1, keepdims=True)).sum(axis=1)) + terms.max(axis=1)
    joint = log_choose[x.astype(int)][None, :] + log[:, None] * x[None, :] - normaliser[:, None] - np.abs(x - published)
    weights = np.exp(joint - joint.max()).sum(axis=1) * norm.pdf(log)
    weights /= weights.sum()
    mean = weights @ log
    sd = np.sqrt(weights @ (log - mean) ** 2)
    draws = tree.posterior["log_odds_ratio"].values
    # Five standard errors at an effective sample size of 300: a false alarm in a million, and the seed is fixed.
    assert draws.mean() == pytest.approx(mean, abs=5 * sd / np.sqrt(300))
    assert draws.std() == pytest.approx(sd, rel=5 / np.sqrt(2 * 300))

    found = bdp.significance.posterior_odds_ratio(tree, rng=np.random.default_rng(1))
    assert found.probability == 1.0
    assert found.test is not None
    assert found.test.tradeoff == "(1, 0)-DP"
    assert found.predictive_pvalue < 1e-15
    assert found.test.pvalue < 1e-15
    low = found.test.confidence_interval(0.975).low
    assert found.population is not None
    assert np.log(found.population.low) == pytest.approx(np.log(low), abs=0.05)  # prior and draws, against exact

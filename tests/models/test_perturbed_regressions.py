"""The lesson on regressions: the naive fits by other means, and the summed likelihood by enumeration."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp

LESSON = Path(__file__).resolve().parents[2] / "models" / "perturbed_regressions.py"


@pytest.fixture(scope="module")
def lesson():
    spec = importlib.util.spec_from_file_location("perturbed_regressions", LESSON)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_naive_fits(lesson):
    """A Poisson regression solves its score equations; least squares are those of numpy."""
    rng = np.random.default_rng(1)
    release = lesson.simulate_outcome(rng, 3)
    slope, error = lesson.naive_outcome(release)
    z = lesson.covariate()
    np.testing.assert_allclose([z.mean(), z.std()], [0.0, 1.0], atol=1e-12)
    for y, b, sd in zip(np.asarray(release.measurements[0].values), slope, error, strict=True):
        level = np.log(y.sum() / np.exp(b * z).sum())  # what the first score equation says
        mean = np.exp(level + b * z)
        assert abs((z * (y - mean)).sum()) < 1e-6
        information = (z**2 * mean).sum() - (z * mean).sum() ** 2 / mean.sum()
        assert abs(sd - information**-0.5) < 1e-9
    release, outcome = lesson.simulate_covariate(rng, 2)
    slope, error = lesson.naive_slope(release, outcome)
    for y, v, b, sd in zip(np.asarray(release.measurements[0].values), outcome, slope, error, strict=True):
        line = stats.linregress(np.log1p(y), v)
        np.testing.assert_allclose([b, sd], [line.slope, line.stderr], rtol=1e-9)


def test_counts_that_are_summed_out(lesson):
    """By hand: published 0 comes from 0 to 4, with 1 - x / 5; 5 from 1 to 9, with 1 - |x - 5| / 5."""
    labels = {"study": ["study 1"], "area": ["p", "q"]}
    release = bdp.Release.from_published(labels, [bdp.Measured(bdp.Identity(labels), [[0, 5]], lesson.LAW)])
    outcome = np.array([[0.7, 2.0]])
    model = lesson.covariate_model(release, outcome, summed=True)
    point = {"level": 0.2, "slope": 0.9, "scatter_log__": np.log(0.6), "log_mean": 1.4, "log_shape": 0.3}
    found = model.compile_logp(vars=model.potentials)({name: np.array([own]) for name, own in point.items()})
    expected = 0.0
    for y, v, counts in ((0, 0.7, np.arange(5)), (5, 2.0, np.arange(1, 10))):
        chance = 1.0 - np.abs(counts - y) / 5.0
        mean, shape = np.exp(1.4), np.exp(0.3)
        own = stats.nbinom.pmf(counts, shape, shape / (shape + mean))
        expected += np.log((chance * own * stats.norm.pdf(v, 0.2 + 0.9 * np.log1p(counts), 0.6)).sum())
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_rounding_pulls_the_naive_slope_towards_zero(lesson):
    """Five standard errors of the mean of 200 studies."""
    release, outcome = lesson.simulate_covariate(np.random.default_rng(2), 200)
    slope, _ = lesson.naive_slope(release, outcome)
    assert slope.mean() + 5 * slope.std() / np.sqrt(200) < lesson.EFFECT


def test_the_model_with_counts_has_the_same_parts(lesson):
    release, outcome = lesson.simulate_covariate(np.random.default_rng(3), 1, 4)
    model = lesson.covariate_model(release, outcome)
    assert {own.name for own in model.free_RVs} == {"level", "slope", "scatter", "log_mean", "log_shape", "x"}
    assert {own.name for own in model.observed_RVs} == {"noisy", "outcome"}

"""Coverage, against exact intervals of a posterior that can be listed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.calibration import NAIVE, coverage
from bayesdp.calibration.coverage import _Repeat
from bayesdp.calibration.quantities import simulated
from tests.calibration import models

pytestmark = pytest.mark.system

QUICK = {"draws": 600, "tune": 20, "progressbar": False}
PROBABILITY = 0.8


def exact_posterior(release):
    """Posterior of the first county: all splits of the total, prior Poisson(5), noise of mass exp(-epsilon |noise|_1)."""
    total, noisy = int(release.exact[0].values), release.measurements[0].values
    x = np.arange(total + 1)
    moves = np.abs(noisy[0] - x) + np.abs(noisy[1] - (total - x))
    logp = stats.poisson.logpmf(x, 5.0) + stats.poisson.logpmf(total - x, 5.0) - moves * models.PAIR_EPSILON
    weights = np.exp(logp - logp.max())
    return x, weights / weights.sum()


def exact_summary(simulate, n, seed):
    """Interval, mean and truth of each release that `coverage` makes from a seed."""
    task, rows = _Repeat(simulate, models.build_pair, None, [], PROBABILITY, seed), []
    for number in range(n):
        truth = simulated(simulate, np.random.default_rng(task._seeds(number)[0]))
        x, p = exact_posterior(truth.release)
        below = np.cumsum(p)
        low, high = (x[np.searchsorted(below, q)] for q in ((1 - PROBABILITY) / 2, (1 + PROBABILITY) / 2))
        rows.append((truth.truth["x"][0], p @ x, low, high))
    return np.array(rows, dtype=float).T


def test_coverage_bias_and_width_are_those_of_enumeration():
    n = 40
    true, mean, low, high = exact_summary(models.simulate_pair, n, 5)
    found = coverage(models.simulate_pair, models.build_pair, n=n, seed=5, probability=PROBABILITY, **QUICK).sel(
        analysis="posterior", quantity="x[Alpha]"
    )
    # 600 draws put an end of an interval on the neighbouring integer now and then, never by more on average.
    assert abs(float(found["width"]) - np.mean(high - low)) < 0.2
    assert abs(float(found["coverage"]) - np.mean((low <= true) & (true <= high))) <= 3 / n
    assert abs(float(found["bias"]) - np.mean(mean - true)) < 0.1
    assert abs(float(found["rmse"]) - np.sqrt(np.mean((mean - true) ** 2))) < 0.1
    assert found.attrs == {"n": n, "failed": 0, "errors": "", "probability": PROBABILITY}
    hits = round(float(found["coverage"]) * n)
    exact = stats.binomtest(hits, n).proportion_ci(0.99)
    assert (float(found["coverage_low"]), float(found["coverage_high"])) == pytest.approx((exact.low, exact.high))


def test_a_truth_far_from_the_prior_is_not_covered():
    def far(rng):
        x = np.array([60, 2])
        return {"x": x}, models.PAIR_MECHANISM.release(x, rng=rng)

    found = coverage(far, models.build_pair, ["x"], n=10, seed=1, probability=PROBABILITY, **QUICK)
    true, _, low, high = exact_summary(far, 10, 1)
    assert np.mean((low <= true) & (true <= high)) == 0.0  # the prior says so: 58 more in one of two equal cells
    assert float(found["coverage"].sel(analysis="posterior", quantity="x[Alpha]")) == 0.0


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    path = tmp_path_factory.mktemp("coverage") / "run.jsonl"
    return path, coverage(
        models.simulate, models.build, n=25, seed=2, naive=NAIVE, path=path, draws=200, tune=30, progressbar=False
    )


def test_naive_analyses_cover_too_little_or_are_worse(compared):
    _, found = compared
    mean = found.mean("quantity")
    # 10 cells of 25 releases: 250 intervals at 95%; below 0.88 or above 0.99 by chance less than once in 10,000.
    assert 0.88 < float(mean["coverage"].sel(analysis="posterior")) < 0.995
    for name in ("noise ignored", "post-processed"):
        assert float(mean["width"].sel(analysis=name)) == 0.0
        assert float(mean["coverage"].sel(analysis=name)) < 0.3  # noise of standard deviation 5 is zero in 8%
    # Without the exact total the error is larger by what it tells, and intervals do not overlap the truth less often.
    assert float(mean["rmse"].sel(analysis="invariants ignored")) > float(mean["rmse"].sel(analysis="posterior"))


def test_naive_models_are_compiled_once():
    task = _Repeat(models.simulate, models.build, None, list(NAIVE), 0.95, 2, None, {"draws": 20, "tune": 5})
    for number in range(2):
        task(number)
    assert {name: refit.reused for name, refit in task._refits.items()} == dict.fromkeys(["posterior", *NAIVE], True)


def test_an_analysis_with_parameters_and_a_fixed_table():
    found = coverage(
        models.simulate_rates,
        models.build_rates,
        n=6,
        seed=2,
        naive=["noise ignored"],
        draws=200,
        tune=200,
        progressbar=False,
    )
    assert sorted(found["quantity"].values.tolist()) == ["rate", "x[Alpha]", "x[Beta]"]
    widths = found["width"].sel(analysis="noise ignored", quantity=["rate", "x[Alpha]", "x[Beta]"]).values
    assert widths[0] > 0.0
    assert widths[1] == widths[2] == 0.0
    # Gamma(4, 0.2) prior and two Poisson counts: Gamma(4 + total, 2.2).
    task = _Repeat(models.simulate_rates, models.build_rates, None, [], 0.95, 2)
    exact, biases = [], []
    for number in range(6):
        truth = simulated(models.simulate_rates, np.random.default_rng(task._seeds(number)[0]))
        total = np.maximum(truth.release.measurements[0].values, 0).sum()
        exact.append(np.diff(stats.gamma.ppf([0.025, 0.975], 4.0 + total, scale=1 / 2.2))[0])
        biases.append((4.0 + total) / 2.2 - truth.truth["rate"])
    assert widths[0] == pytest.approx(np.mean(exact), rel=0.15)
    bias = float(found["bias"].sel(analysis="noise ignored", quantity="rate"))
    assert bias == pytest.approx(
        np.mean(biases), abs=0.5
    )  # means of 200 draws, of standard deviation 3, averaged over six


def test_a_stopped_run_goes_on(compared):
    path, before = compared
    lines = path.read_text().splitlines()
    short = path.with_name("short.jsonl")
    short.write_text("\n".join(lines[:20]) + "\n" + lines[20][:30])
    again = coverage(
        models.simulate, models.build, n=25, seed=2, naive=NAIVE, path=short, draws=200, tune=30, progressbar=False
    )
    assert again.identical(before)
    assert sorted(json.loads(line)["number"] for line in short.read_text().splitlines()[1:]) == list(range(25))


def odd_fails(values, release):
    if int(release.exact[0].values) % 2:
        raise RuntimeError("odd total")
    return values["x"].sum("county")


def test_failures_are_counted():
    settings = {"seed": 5, "draws": 40, "tune": 5, "progressbar": False}
    found = coverage(models.simulate_pair, models.build_pair, {"total": odd_fails}, n=8, **settings)
    assert 0 < found.attrs["failed"] < 8
    assert found.attrs["n"] + found.attrs["failed"] == 8
    assert found.attrs["errors"].count("RuntimeError: odd total") == found.attrs["failed"]
    with pytest.raises(ValueError, match="all 2 releases failed; the first one: 0: "):
        coverage(models.simulate_pair, models.build_pair, n=2, step="none", **settings)


def test_bad_arguments():
    settings = {"n": 2, "seed": 1, "progressbar": False}
    with pytest.raises(ValueError, match=r"naive names 'weighting'; known analyses are noise ignored"):
        coverage(models.simulate, models.build, naive=["weighting"], **settings)
    with pytest.raises(ValueError, match="probability"):
        coverage(models.simulate, models.build, probability=1.5, **settings)
    with pytest.raises(ValueError, match="n must be"):
        coverage(models.simulate, models.build, **settings | {"n": 0})


def test_the_nearest_table_is_the_nearest_of_all():
    from bayesdp.calibration.coverage import _nearest

    labels = {"row": ["a", "b"], "column": ["u", "v"]}
    margins = bdp.Margins(labels, ["row"], ["column"])
    truth = np.array([[3, 1], [0, 2]])
    noisy = np.array([[5, -2], [1, 2]])
    release = bdp.Release.from_published(
        labels,
        measured=[bdp.Measured(bdp.Identity(labels), noisy, models.LAW)],
        exact=[bdp.Exact(margins, margins.apply(truth))],
    )
    best = min(np.abs(np.array([[a, 4 - a], [3 - a, a - 1]]) - noisy).sum() for a in range(1, 4))
    table = _nearest(release)
    assert np.array_equal(margins.apply(table), margins.apply(truth))
    assert np.abs(table - noisy).sum() == best

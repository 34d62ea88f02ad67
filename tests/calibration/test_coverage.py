"""Coverage, against exact intervals of a posterior that can be listed, and where answers share the keys of their records."""

import json

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.calibration import coverage
from bayesdp.calibration.coverage import _Repeat
from bayesdp.calibration.fits import SAMPLER, quiet_sample
from tests.calibration import models
from tests.inference.oracle import counts_model

pytestmark = pytest.mark.system

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
    task = _Repeat(simulate, models.build_pair, None, seed, probability=PROBABILITY)
    rows = []
    for number in range(n):
        truth = task.draw(number)
        x, p = exact_posterior(truth.release)
        below = np.cumsum(p)
        low, high = (x[np.searchsorted(below, q)] for q in ((1 - PROBABILITY) / 2, (1 + PROBABILITY) / 2))
        rows.append((truth.truth["x"][0], p @ x, low, high))
    return np.array(rows, dtype=float).T


def test_coverage_bias_and_width_are_those_of_enumeration():
    n, call = 25, {"seed": 5, "probability": PROBABILITY, "draws": 600, "tune": 20, "progressbar": False}
    true, mean, low, high = exact_summary(models.simulate_pair, n, 5)
    found = coverage(models.simulate_pair, models.build_pair, n=n, **call).sel(quantity="x[Alpha]")
    # 600 draws put an end of an interval on the neighbouring integer now and then, never by more on average.
    assert abs(float(found["width"]) - np.mean(high - low)) < 0.2
    assert abs(float(found["coverage"]) - np.mean((low <= true) & (true <= high))) <= 2 / n
    assert abs(float(found["bias"]) - np.mean(mean - true)) < 0.1
    assert abs(float(found["rmse"]) - np.sqrt(np.mean((mean - true) ** 2))) < 0.1
    assert found.attrs == {"n": n, "failed": 0, "errors": "", "probability": PROBABILITY}
    hits = round(float(found["coverage"]) * n)
    exact = stats.binomtest(hits, n).proportion_ci(0.99)
    assert (float(found["coverage_low"]), float(found["coverage_high"])) == pytest.approx((exact.low, exact.high))


def test_naive_analyses_cover_too_little_or_are_worse_and_a_stopped_run_goes_on(tmp_path):
    path, call = tmp_path / "run.jsonl", {"n": 20, "seed": 2, "draws": 200, "tune": 30, "progressbar": False}
    found = coverage(models.simulate, models.build, **call, path=path)
    builds = (models.noise_ignored, models.forgetful)
    ignored, lacking = (coverage(models.simulate, own, **call).mean("quantity") for own in builds)
    right = found.mean("quantity")
    # 10 cells of 20 releases: 200 intervals at 95%; below 0.88 or above 0.995 by chance about once in 10,000.
    assert 0.88 < float(right["coverage"]) < 0.995
    assert float(ignored["width"]) < 1.0
    assert float(ignored["coverage"]) < 0.3  # noise of standard deviation 5 is zero in 8%
    # Without the exact total the error is larger by what it tells, and intervals do not overlap the truth less often.
    assert float(lacking["rmse"]) > float(right["rmse"])
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:15]) + "\n" + lines[15][:30])
    assert coverage(models.simulate, models.build, **call, path=path).identical(found)
    assert sorted(json.loads(line)["number"] for line in path.read_text().splitlines()[1:]) == list(range(20))


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
    for more, message in (
        ({"n": 2, "step": "none"}, "all 2 releases failed; the first one: "),
        ({"n": 2, "probability": 1.5}, "probability"),
        ({"n": 0}, "n must be"),
    ):
        with pytest.raises(ValueError, match=message):
            coverage(models.simulate_pair, models.build_pair, **settings, **more)


def test_intervals_of_the_largest_cell_hold_as_often_as_they_say_where_answers_share_keys():
    """Most areas have one or two cells that are empty: their total has the key, and the number, of what is left.

    As many intervals hold as their posterior probabilities add up to, within 4.5 standard deviations: false alarms below 1e-5.
    """
    rng, rates = np.random.default_rng(8), np.array([5.0, 0.3, 0.2])
    labels, law = {"area": range(500), "kind": ["a", "b", "c"]}, bdp.noise.CellKey(max_deviation=2, variance=1.0)
    queries = [bdp.Identity(labels), bdp.Margins(labels, ["area"])]
    truth = rng.poisson(rates, size=(500, 3))
    drawn = zip(queries, law.draw_answers(rng, queries, truth), strict=True)
    release = bdp.Release.from_published(labels, [bdp.Measured(query, y, law) for query, y in drawn])
    model = counts_model(release, pm.Poisson.dist(np.broadcast_to(rates, truth.shape)))
    x = quiet_sample(model, SAMPLER | {"draws": 400, "tune": 100}, 4)["posterior"]["x"].values[0, ..., 0]
    low, high = np.quantile(x, [0.05, 0.95], axis=0, method="closest_observation")
    said = ((x >= low) & (x <= high)).mean(axis=0)
    held = (truth[:, 0] >= low) & (truth[:, 0] <= high)
    assert 0.88 < said.mean() < 0.99
    assert abs(held.sum() - said.sum()) < 4.5 * np.sqrt((said * (1 - said)).sum())


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_another_sampler_of_parameters():
    """A normal mean with a normal prior, which has no release and no counts: PyMC asks other samplers for other arguments."""
    pytest.importorskip("nutpie")

    def simulate(rng):
        mean = rng.normal()
        return {"mean": mean}, mean + rng.normal()

    def build(seen):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("mean"), observed=pm.Data("seen", seen))
        return model

    given = {"n": 2, "seed": 1, "update": lambda seen: {"seen": seen}, "draws": 50, "tune": 50, "progressbar": False}
    assert coverage(simulate, build, ["mean"], nuts_sampler="nutpie", **given).attrs["failed"] == 0

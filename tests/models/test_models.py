"""The worked models build, sample on the fiber, and say whom they are about; their posteriors by other means."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import bayesdp as bdp
from bayesdp.cli import demo
from bayesdp.tables import read_margins, read_table
from models import cell_key_census, odds_ratio, perturbed_regressions, redistricting, rounded_census

MODELS = Path(__file__).resolve().parents[2] / "models"
PUBLISHED = {"electorates", "working_population"}
"""Models of tables that an office published: there is nothing to simulate; they are tested in files of their own."""


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.py") if path.stem not in PUBLISHED))
def test_every_model_is_a_lesson(name, redistricted):
    module, small = import_module(f"models.{name}"), {"county": redistricted[0]} if name == "redistricting" else {}
    assert module.__doc__
    release = redistricted[1] if small else module.make_release()
    assert release.simulated
    assert not module.make_release(seed=None, **small).simulated
    assert isinstance(module.build_model(release), pm.Model)


@pytest.fixture(scope="module")
def redistricted():
    county = redistricting.make_county(7, tracts=1, groups=2, blocks=2)
    return county, redistricting.make_release(3, county)


def test_the_demo_starts_from_published_files_with_the_margins_of_the_data(tmp_path):
    demo._publish(tmp_path)
    noisy = read_table(tmp_path / "admissions_noisy.csv")
    table = bdp.datasets.berkeley_admissions()
    parts = read_margins(tmp_path / "admissions_exact.csv", noisy)
    assert [np.array_equal(part.query.apply(table.values), part.values) for part in parts] == [True, True]
    # METHODS.md states how the noise was drawn.
    noise = bdp.noise.DiscreteGaussian(8).draw(np.random.default_rng(1973), (2, 2, 6))
    assert np.array_equal(noisy.values, table.values + noise)
    assert "default_rng(1973)" in (tmp_path / "METHODS.md").read_text(encoding="utf-8")


@pytest.mark.system
def test_the_posterior_of_the_odds_ratio():
    release = odds_ratio.make_release()
    with odds_ratio.build_model(release):
        how = {"chains": 2, "cores": 1, "random_seed": 1, "nuts_sampler": "pymc", "progressbar": False, "quiet": True}
        tree = bdp.sample(400, tune=400, **how)
    # Given the margins the corner is noncentral hypergeometric; its noise falls by exp(-4 * 0.25) a step. The margins
    # themselves say next to nothing about the odds ratio.
    published = float(release.values[0, 0])
    x = np.arange(published - 40, published + 41)
    log = np.linspace(0.0, 1.3, 1301)[:, None]
    r1, r2, c1 = 2691, 1835, 1755
    every = np.arange(0, c1 + 1.0)
    log_choose = -sum(gammaln(cell + 1) for cell in (every, r1 - every, c1 - every, r2 - c1 + every))
    normaliser = logsumexp(log_choose + log * every, axis=1, keepdims=True)
    joint = log_choose[x.astype(int)] + log * x - normaliser - np.abs(x - published)
    log = log[:, 0]
    weights = np.exp(joint - joint.max()).sum(axis=1) * stats.norm.pdf(log)
    weights /= weights.sum()
    mean = weights @ log
    sd = np.sqrt(weights @ (log - mean) ** 2)
    draws = tree.posterior["log_odds_ratio"].values
    # Five standard errors at an effective sample size of 300: a false alarm in a million, and the seed is fixed.
    assert draws.mean() == pytest.approx(mean, abs=5 * sd / np.sqrt(300))
    assert draws.std() == pytest.approx(sd, rel=5 / np.sqrt(2 * 300))
    found = bdp.significance.posterior_odds_ratio(tree, rng=np.random.default_rng(1))
    assert (found.probability, found.test.tradeoff) == (1.0, "(1, 0)-DP")
    assert max(found.predictive_pvalue, found.test.pvalue) < 1e-15
    low = found.test.confidence_interval(0.975).low
    assert np.log(found.population.low) == pytest.approx(np.log(low), abs=0.05)  # prior and draws, against exact


def test_the_release_has_all_queries_of_all_levels_with_the_published_noise(redistricted):
    county, tracts = redistricted
    truth = redistricting.true_table(tracts, county)
    assert len(tracts.measurements) == 44  # eleven queries of four levels
    errors = [(own.values - own.query.apply(truth)) / own.law.sigma for own in tracts.measurements]
    squares = np.square(np.concatenate([np.asarray(own).reshape(-1) for own in errors]))
    # Two-sided, false alarm 1e-6 for another seed.
    assert 5e-7 < stats.chi2.sf(squares.sum(), squares.size) < 1 - 5e-7
    compare = {"=": np.equal, ">=": np.greater_equal, "<=": np.less_equal}
    for exact in tracts.exact:
        assert compare[exact.sign](exact.query.apply(truth), exact.values).all()
    assert tracts.frame.dims == ("block", "hhgq", "votingage", "hispanic", "cenrace")
    assert {name for name, _, _ in tracts.frame.groups} >= {"block_group", "tract", "county"}


def test_every_number_is_rounded_on_its_own_and_cell_keys_leave_zeros_and_publish_no_1_and_2():
    release, table = rounded_census.make_release(), rounded_census.true_table()
    assert table.shape == (72, 5)
    assert int(table.sum()) == 4_891_769  # Wisconsin in 1990
    sums = [table.values, table.sum("race").values, table.sum("county").values, table.sum().values]
    for measured, true in zip(release.measurements, sums, strict=True):
        values = np.asarray(measured.values)
        assert (values % 3 == 0).all()
        assert (np.abs(values.reshape(true.shape) - true) < 3).all()
    cells, counties = (np.asarray(own.values) for own in release.measurements[:2])
    off = rounded_census.disagreements(release)
    assert (off == cells.sum(axis=1) - counties).all()
    assert 0.5 < float((off != 0).mean()) < 0.95  # they agree by chance only
    simple = rounded_census.summed_cells(release)
    np.testing.assert_allclose(simple["upper"] - simple["lower"], 2 * 1.6449 * np.sqrt(5 * 2.25), rtol=1e-12)
    release, table = cell_key_census.make_release(), cell_key_census.true_table()
    assert table.shape == (30, 5)
    cells, states = (np.asarray(own.values) for own in release.measurements[:2])
    assert not np.isin(cells, [1, 2]).any()
    assert (cells[table.values == 0] == 0).all()
    assert np.abs(cells - table.values).max() <= 4
    true = table.groupby("state").sum().transpose("state", "race").values
    assert np.abs(states - true).max() <= 4
    assert (cell_key_census.disagreements(release) != 0).any()


def test_counts_that_are_summed_out():
    """By hand: published 0 comes from 0 to 4, with 1 - x / 5; 5 from 1 to 9, with 1 - |x - 5| / 5."""
    labels = {"study": ["study 1"], "area": ["p", "q"]}
    measured = bdp.Measured(bdp.Identity(labels), [[0, 5]], perturbed_regressions.LAW)
    release = bdp.Release.from_published(labels, [measured])
    model = perturbed_regressions.covariate_model(release, np.array([[0.7, 2.0]]), summed=True)
    point = {"level": 0.2, "slope": 0.9, "scatter_log__": np.log(0.6), "log_mean": 1.4, "log_shape": 0.3}
    found = model.compile_logp(vars=model.potentials)({name: np.array([own]) for name, own in point.items()})
    expected = 0.0
    for y, v, counts in ((0, 0.7, np.arange(5)), (5, 2.0, np.arange(1, 10))):
        chance = 1.0 - np.abs(counts - y) / 5.0
        mean, shape = np.exp(1.4), np.exp(0.3)
        own = stats.nbinom.pmf(counts, shape, shape / (shape + mean))
        expected += np.log((chance * own * stats.norm.pdf(v, 0.2 + 0.9 * np.log1p(counts), 0.6)).sum())
    np.testing.assert_allclose(found, expected, rtol=1e-10)

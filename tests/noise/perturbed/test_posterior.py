"""Posteriors under perturbed cells and margins, and answers about the same records with one perturbation, against enumeration."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayesdp as bdp
from bayesdp.distributions import distribution_of
from bayesdp.inference import FiberGibbs
from bayesdp.noise import CellKey, RandomRounding, TransitionTable
from bayesdp.posterior import PosteriorModel
from tests.inference.oracle import assert_posterior, posterior_of, sample
from tests.noise.perturbed.records import log_by_records

LABELS = {"sex": ["f", "m"], "age": ["young", "old"]}
TRUTH = np.array([[4, 1], [0, 7]])
RATE = 3.0
ALL = np.array(list(product(range(16), repeat=4))).reshape(-1, 2, 2)
"""Tables with cells up to 15; none of the laws here allows larger ones."""

THINNED = {x: {y - x: stats.binom.pmf(y, x, 0.8) for y in range(15)} for x in range(15)}
FULL = TransitionTable.by_count(THINNED, period=0)
LAWS = {"base 3": RandomRounding(3), "gaps": CellKey(max_deviation=3, variance=2.0, not_smaller_than=3), "full": FULL}


def perturbed(law, queries, truth, rng):
    """Answers, each perturbed on its own."""
    return [bdp.Measured(q, y, law) for q, y in zip(queries, law.draw_answers(rng, queries, truth), strict=True)]


@pytest.mark.parametrize("name", LAWS)
def test_cells_and_margins_perturbed_on_their_own_have_the_joint_posterior(name):
    law, queries = LAWS[name], [bdp.Identity(LABELS), bdp.Margins(LABELS, ["sex"]), bdp.Totals(LABELS)]
    measured = perturbed(law, queries if law is not FULL else queries[:2], TRUTH, np.random.default_rng(8))
    model = model_of(LABELS, [measured], pm.Poisson.dist(RATE))
    with model:
        step = FiberGibbs()
    assert [term.kind for term in step.tables[0].target.terms] == ["windows"] * len(measured)
    assert step.tables[0]._rest is None
    logs = stats.poisson.logpmf(ALL, RATE).sum(axis=(1, 2))
    if law.same_cell_same_value:
        logs = logs + log_by_records(law, measured, ALL)
    else:
        for own in measured:
            answers = ALL.reshape(-1, 4) @ own.query.matrix.toarray().T
            logs = logs + law.log_each(own.values.reshape(-1), answers).sum(axis=1)
    possible = np.isfinite(logs)
    assert 20 < possible.sum() < len(ALL) / 2
    assert not possible[(ALL == 15).any(axis=(1, 2))].any()
    tree = sample(model, draws=2000, tune=200, seed=5, step=step)
    assert_posterior(tree, ALL[possible], posterior_of(logs[possible]))
    if law is FULL:  # a count of the prior may be one that it does not know
        assert not bdp.inference.add_prior_predictive(xr.DataTree(), model)
        with pytest.raises(ValueError, match="of at most 14, under the law 'transition-table'"):
            pm.draw(distribution_of(TransitionTable).dist(99, **FULL.model_parameters()))


SEX = {"sex": ["women", "men"]}
PRIOR = np.array([5.0, 0.5])
LAW = CellKey(max_deviation=2, variance=1.0)
PAIRS = np.array(list(product(range(16), repeat=2)))

CASES = {(5, 0, 6): (0.0, 4.941, 0.714), (5, 0, 5): (0.955, 4.908, 0.927)}
"""Published women, men, total: probability that there are no men, mean and deviation of women."""


def women_and_men(values):
    return [bdp.Measured(bdp.Identity(SEX), values[:2], LAW), bdp.Measured(bdp.Totals(SEX), values[2], LAW)]


def model_of(labels, releases, base, exact=()):
    """Counts that are observed through releases."""
    with pm.Model(coords=bdp.Frame.of(labels).coords) as model:
        x = bdp.ConfidentialCounts("x", base, dims=tuple(labels))
        for measured in releases:
            bdp.observe(bdp.Release.from_published(labels, measured, exact), x)
    return model


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("values", CASES, ids=str)
def test_the_posterior_of_two_cells_and_their_total(values, apart):
    both = women_and_men(values)
    model = model_of(SEX, [[own] for own in both] if apart else [both], pm.Poisson.dist(PRIOR))
    with model:
        step = FiberGibbs()
    assert step.tables[0]._rest is None
    logs = stats.poisson.logpmf(PAIRS, PRIOR).sum(axis=1) + log_by_records(LAW, both, PAIRS)
    possible, tree = np.isfinite(logs), sample(model, draws=1500, tune=100, seed=3, step=step)
    drawn = tree.posterior["x"].values.reshape(-1, 2)
    assert {tuple(own) for own in drawn} <= {tuple(own) for own in PAIRS[possible]}
    none, mean, deviation = CASES[values]
    exact = posterior_of(logs[possible])
    assert_posterior(tree, PAIRS[possible], exact)
    women = PAIRS[possible][:, 0]
    assert abs(exact @ women - mean) < 6e-4
    assert abs(np.sqrt(exact @ (women - exact @ women) ** 2) - deviation) < 6e-4
    assert abs(np.mean(drawn[:, 1] == 0) - none) < 0.03


@pytest.mark.parametrize("apart", [False, True])
def test_the_log_density_of_a_model_is_that_of_sets_of_records(apart):
    labels, rng = {"sex": ["f", "m"], "age": ["young", "middle", "old"]}, np.random.default_rng(11)
    truth = np.array([[2, 0, 0], [0, 3, 1]])
    queries = [bdp.Identity(labels), bdp.Margins(labels, ["sex"], ["age"]), bdp.Totals(labels)]
    measured = perturbed(LAW, queries, truth, rng)
    model = model_of(labels, [[own] for own in measured] if apart else [measured], pm.Poisson.dist(1.0))
    density = model.compile_logp(vars=model.observed_RVs)
    tables = np.maximum(truth + rng.integers(-1, 2, size=(200, 2, 3)), 0)
    tables[:100] *= rng.integers(0, 2, size=(100, 2, 3))
    expected, found = log_by_records(LAW, measured, tables), np.array([density({"x": own}) for own in tables])
    assert 3 <= np.isfinite(expected).sum() < len(tables)
    np.testing.assert_allclose(found[np.isfinite(expected)], expected[np.isfinite(expected)], rtol=1e-9)
    assert np.all(found[~np.isfinite(expected)] < -9e5)  # the constant of tables off the fiber, see OFF_FIBER


def test_answers_drawn_of_a_table_share_numbers_exactly_where_they_share_records():
    labels = {"sex": ["f", "m"], "age": ["young", "old"]}
    queries = [bdp.Identity(labels), bdp.Margins(labels, ["sex"], ["age"]), bdp.Totals(labels)]
    table, rng = np.array([[6, 0], [0, 7]]), np.random.default_rng(2)
    answers = (LAW.draw_answers(rng, queries, table) for _ in range(1500))
    drawn = np.array([np.concatenate([own.reshape(-1) for own in each]) for each in answers])
    np.testing.assert_array_equal(drawn[:, [4, 6]], drawn[:, [0, 0]])  # f young, all f, all young
    np.testing.assert_array_equal(drawn[:, [5, 7]], drawn[:, [3, 3]])
    deviations = drawn[:, [0, 3, 8]] - [6, 7, 13]
    # Independent otherwise: correlations of 1,500 draws are within 5 / sqrt(1500) of 0, and laws are those of the law.
    assert np.abs(np.corrcoef(deviations.T) - np.eye(3)).max() < 5 / np.sqrt(1500)
    expected = np.exp(LAW.log_each(6 + np.arange(-2, 3), 6)) * len(drawn)
    for column in deviations.T:
        assert stats.chisquare(np.bincount(column + 2, minlength=5), expected).pvalue > 1e-5
    rounded = RandomRounding(3).draw_answers(rng, queries[::2], np.array([[7, 0], [0, 0]]))
    assert [own.shape for own in rounded] == [(2, 2), ()]


def test_a_cell_that_is_exactly_empty_makes_two_answers_one():
    empty = (bdp.Exact(bdp.LinearQuery(SEX, [[0, 1]], ["men"]), [0]),)
    cells = bdp.Measured(bdp.LinearQuery(SEX, [[1, 0]], ["women"]), [5], LAW)
    with pytest.raises(ValueError, match=r"published with two values, 5.* and 6"):
        bdp.Release.from_published(SEX, [cells, bdp.Measured(bdp.Totals(SEX), 6, LAW)], empty)
    with pytest.warns(bdp.measurements.consistency.CountedOnceWarning, match="grand total"):
        model = model_of(SEX, [[cells, bdp.Measured(bdp.Totals(SEX), 5, LAW)]], pm.Poisson.dist(PRIOR), empty)
    tree, tables = sample(model, draws=1000, tune=100, seed=3), PAIRS[PAIRS[:, 1] == 0]
    logs = stats.poisson.logpmf(tables[:, 0], 5.0) + log_by_records(LAW, [cells], tables)
    assert_posterior(tree, tables[np.isfinite(logs)], posterior_of(logs[np.isfinite(logs)]))


@pytest.mark.parametrize("seed", [0, 2])
def test_sparse_tables_with_all_margins(seed):
    """2 x 2 x 2 cells of which most are empty: classes merge and part in nearly every move. Also with other terms in the model."""
    labels, rng = {key: ["0", "1"] for key in "abc"}, np.random.default_rng(seed)
    margins = bdp.Margins(labels, ["a", "b"], ["b", "c"], ["a", "c"], ["a"], ["b"], ["c"])
    queries, truth = [bdp.Identity(labels), margins, bdp.Totals(labels)], rng.binomial(3, 0.2, size=(2, 2, 2))
    measured = perturbed(LAW, queries, truth, rng)
    model = model_of(labels, [measured], pm.Binomial.dist(3, 0.2))
    with model:
        if seed == 2:  # accepted or rejected on what the kernel does not know, and taken back
            pm.Potential("more", -0.3 * (model["x"][0, 0, 0] - 1.0) ** 2)
        step = FiberGibbs(sweeps=4)
    tables = np.array(list(product(range(4), repeat=8))).reshape(-1, 2, 2, 2)
    logs = stats.binom.logpmf(tables, 3, 0.2).sum(axis=(1, 2, 3)) + log_by_records(LAW, measured, tables)
    if seed == 2:
        logs = logs - 0.3 * (tables[:, 0, 0, 0] - 1.0) ** 2
    possible = np.isfinite(logs)
    assert possible.sum() >= 10
    tree = sample(model, draws=1500, tune=200, seed=5, step=step)
    assert_posterior(tree, tables[possible], posterior_of(logs[possible]))


def test_prior_predictive_numbers_share_perturbations_and_the_model_is_told_as_the_release_alone():
    model = model_of(SEX, [women_and_men((5, 0, 5))], pm.Poisson.dist(PRIOR))
    with model:
        tree = bdp.sample(50, tune=20, chains=2, cores=1, random_seed=1, quiet=True, progressbar=False)
        bdp.inference.add_log_likelihood(tree, progressbar=False)
    assert set(tree["log_likelihood"].data_vars) == {"noisy", "noisy_2"}
    assert bdp.inference.add_prior_predictive(tree, model, draws=400, random_seed=2)
    drawn, men = tree["prior_predictive"], tree["prior"]["x"].values[..., 1]
    same = drawn["noisy"].values[..., 0] == drawn["noisy_2"].values
    assert same[men == 0].all()
    assert 0.05 < same[men > 0].mean() < 0.6
    assert set(drawn.data_vars) == {"noisy", "noisy_2"}
    found = PosteriorModel(tree)
    assert (found.likelihoods, found.replaced, found.potentials) == ([], [], [])

"""`bdp.fit_cells`: posteriors of cells against sums over all counts, closed forms and MCMC; draws of sums; what is refused."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp import noise
from bayesdp.hierarchies.priors import FixedNegativeBinomial, FixedPoisson, VaryingShares
from bayesdp.privacy import tradeoff
from bayesdp.streaming import by_cell

LONG = np.arange(6000.0)
PRIORS = [
    (FixedNegativeBinomial(mean=9.0, shape=0.3), stats.nbinom(0.3, 0.3 / 9.3)),
    (FixedNegativeBinomial(mean=40.0, shape=7.0), stats.nbinom(7.0, 7.0 / 47.0)),
    (FixedPoisson(12.0), stats.poisson(12.0)),
]
TABLE = {"cell": list("abcd")}


def released(law, values, table=TABLE, **more):
    return bdp.Release.from_published(table, [bdp.Measured(bdp.Identity(table), values, law, **more)])


def laplace_on_integers(b):
    return lambda y, x: stats.dlaplace(1.0 / b).logpmf(np.asarray(y - x, dtype=int))


def tails_of_normal(y, x):
    """A normal law of standard deviation 4, held back under 5 and over 30, where 4 and 31 are written."""
    law = stats.norm(x, 4.0)
    return np.where(y == 4, law.logcdf(5.0), np.where(y == 31, law.logsf(30.0), law.logpdf(y)))


def clipped_laplace(y, x):
    """Discrete Laplace noise of scale 3, moved to 0 where it is below."""
    law = stats.dlaplace(1.0 / 3.0)
    return law.logcdf(np.asarray(-x, dtype=int)) if y == 0 else law.logpmf(np.asarray(y - x, dtype=int))


def truncated_normal(y, x):
    return stats.truncnorm.logpdf(y, -x / 5.0, (60.0 - x) / 5.0, loc=x, scale=5.0)


def rounded_normal(y, x):
    """A normal law of standard deviation 6 around x, rounded to a multiple of 5; by the side with more digits."""
    low, high = (np.abs(y - x) - 2.5) / 6.0, (np.abs(y - x) + 2.5) / 6.0
    ends = stats.norm.logsf(low), stats.norm.logsf(high)
    return ends[0] + np.log1p(-np.exp(ends[1] - ends[0]))


def rounded_at_random(y, x):
    """To a multiple of 3, without bias."""
    away = np.abs(y - x)
    return np.where(away < 3, np.log(np.maximum(1.0 - away / 3.0, 1e-300)), -np.inf)


LAWS = [
    (noise.DiscreteLaplace(b=2.5), [3, 40, -4, 600], laplace_on_integers(2.5)),
    (noise.Laplace(b=4.0), [2.5, 44.25, -9.0, 300.5], lambda y, x: stats.laplace(x, 4.0).logpdf(y)),
    (noise.Gaussian(6.0), [2.5, 44.25, -9.0, 900.0], lambda y, x: stats.norm(x, 6.0).logpdf(y)),
    (noise.DiscreteGaussian(3.0), [0, 44, -9, 500], lambda y, x: -((y - x) ** 2) / 18.0),
    (noise.Censored(noise.Gaussian(4.0), below=5.0, above=30.0), [4.0, 12.5, 31.0, 29.0], tails_of_normal),
    (noise.BoundaryInflatedDiscreteLaplace(3.0, (0, None)), [0, 5, 60, 1], clipped_laplace),
    (noise.TruncatedGaussian(5.0, (0.0, 60.0)), [0.0, 5.5, 60.0, 31.0], truncated_normal),
    (noise.RandomRounding(3), [0, 3, 30, 600], rounded_at_random),
    (noise.Rounded(noise.Gaussian(6.0), base=5), [0, 45, -10, 500], rounded_normal),
    (noise.Tulap(epsilon=0.5, delta=0.01), [0.2, 3.5, 44.0, 100.0], None),
    (noise.Canonical(tradeoff([0.75, 0.25], [0.25, 0.75])), [0.2, 3.5, 44.0, 100.0], None),
    (noise.CellKey(max_deviation=3, variance=2.0), [0, 3, 44, 600], None),
]  # fmt: skip


def by_sum(prior, *terms):
    """Mean, standard deviation and probabilities from all counts of `LONG`."""
    logs = prior.logpmf(LONG) + sum(terms)
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    mean = mass @ LONG
    return mean, np.sqrt(mass @ (LONG - mean) ** 2), mass


def assert_agrees(tree, place, prior, *terms):
    mean, sd, mass = by_sum(prior, *terms)
    cells = tree["cells"].isel(cell=place)
    assert float(cells["mean"]) == pytest.approx(mean, rel=1e-9, abs=1e-11)
    assert float(cells["sd"]) == pytest.approx(sd, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(cells["probability"], mass[:16], rtol=1e-9, atol=1e-11)
    below = np.cumsum(mass)
    for share, found in zip(cells["share"].values, cells["quantile"].values.tolist(), strict=True):
        assert below[found] >= share - 1e-9
        assert found == 0 or below[found - 1] <= share + 1e-9


@pytest.mark.parametrize(("law", "values", "formula"), LAWS, ids=[law.name for law, _, _ in LAWS])
@pytest.mark.parametrize(("prior", "of_scipy"), PRIORS, ids=["nb-0.3", "nb-7", "poisson"])
def test_cells_are_those_of_a_sum_over_all_counts(law, values, formula, prior, of_scipy):
    tree = bdp.fit_cells(released(law, values), prior, draws=1)
    for place, value in enumerate(values):
        likelihood = law.log_each(float(value), LONG) if formula is None else formula(value, LONG)
        assert_agrees(tree, place, of_scipy, likelihood)


@pytest.mark.parametrize(
    ("law", "values"),
    [
        *((law, values) for law, values, _ in LAWS if law.support != "counts"),
        (noise.TruncatedGaussian(0.1, (5.0, 60.0)), [5.0, 5.01, 59.9, 60.0]),
    ],
)
@pytest.mark.parametrize("side", [-1, 1])
def test_bounds_of_what_is_left_out_hold_at_every_count(law, values, side):
    # The last law rises beyond the value at its bound: its terms add up to more than those of a law that falls there.
    for prior, of_scipy in [*PRIORS, (FixedPoisson(40.0), stats.poisson(40.0))]:
        cells = by_cell.Cells.of(released(law, values), prior)
        at = np.array([0.0, 1.0, 4.0, 12.0, 30.0, 59.0, 60.0, 61.0, 75.0, 300.0])
        for one, value in zip(cells.which, values, strict=True):
            terms = of_scipy.logpmf(LONG) + law.log_each(float(value), LONG) + 2.0 * np.log(np.maximum(LONG, 1.0))
            every = np.logaddexp.accumulate(terms[::-side])[::-side]  # of each count, and those beyond it
            bound = cells._log_left_out(np.full(len(at), one), at, side)
            assert (bound >= every[at.astype(int)] - 1e-9).all()


@pytest.mark.parametrize(("law", "values", "formula"), LAWS, ids=[law.name for law, _, _ in LAWS])
def test_what_is_left_out_is_as_small_as_stated(law, values, formula):
    for prior, of_scipy in PRIORS:
        cells = by_cell.Cells.of(released(law, values), prior)
        first, last = (end[cells.which] for end in cells.grid)
        for place, value in enumerate(values):
            mass = by_sum(of_scipy, law.log_each(float(value), LONG))[2] * np.maximum(LONG, 1.0) ** 2
            assert mass[LONG < first[place]].sum() <= by_cell._CUT * 1.01
            assert mass[LONG > last[place]].sum() <= by_cell._CUT * 1.01
            assert last[place] - first[place] < 3000


def test_closed_forms():
    # Laplace noise around an answer below 0 tilts the prior, which stays negative binomial; without an answer it is the posterior.
    mean, shape, b = 50.0, 0.4, 8.0
    release = released(noise.DiscreteLaplace(b=b), [-3, -40, 0, np.nan], unmeasured=np.arange(4) == 3)
    cells = bdp.fit_cells(release, FixedNegativeBinomial(mean, shape), draws=1)["cells"]
    ratio = mean / (mean + shape) * np.exp(-1.0 / b)
    tilted = [shape * ratio / (1 - ratio)] * 3
    np.testing.assert_allclose(cells["mean"], [*tilted, mean], rtol=1e-10)
    np.testing.assert_allclose(cells["sd"][:3], np.sqrt(shape * ratio) / (1 - ratio), rtol=1e-10)
    assert float(cells["sd"][3]) == pytest.approx(np.sqrt(mean + mean**2 / shape), rel=1e-10)
    # Large counts, nearly flat prior: the normal law of the noise, moved by the slope of the prior; log-gamma would lose digits here.
    flat = FixedNegativeBinomial(1e9, 1.0)
    cells = bdp.fit_cells(released(noise.Gaussian(20.0), [1e6, 2e6 + 0.5, 3e6, 1e5]), flat, draws=1)["cells"]
    np.testing.assert_allclose(cells["mean"], np.array([1e6, 2e6 + 0.5, 3e6, 1e5]) - 400e-9, rtol=0, atol=1e-8)
    np.testing.assert_allclose(cells["sd"], 20.0, rtol=1e-10)


def test_large_means_and_answers_that_leave_little_between_them():
    # Nothing published, or with little noise: counts around a mean of 30 million, and not all from 0 on.
    release = released(noise.Gaussian(1e5), [np.nan, 3e7, 2.99e7, 3.02e7], unmeasured=np.arange(4) == 0)
    cells = bdp.fit_cells(release, FixedPoisson(3e7), draws=1)["cells"]
    ratio = 3e7 / (3e7 + 1e10)  # of variances: the prior is all but normal here
    np.testing.assert_allclose(cells["mean"], 3e7 + ratio * np.array([0.0, 0.0, -1e5, 2e5]), rtol=1e-9)
    np.testing.assert_allclose(cells["sd"], np.sqrt(3e7 * (1.0 - np.array([0.0, *[ratio] * 3]))), rtol=2e-5)
    # Noise of bounded reach: of two answers 24 apart neither is possible under the other, but what is between them.
    law = noise.Tulap(epsilon=0.5, delta=0.01)
    values = np.array([[40.2, 3.0, 5.0, 6.0], [52.4, 3.0, 5.0, 6.0]])
    measured = [bdp.Measured(bdp.Identity(TABLE), own, law) for own in values]
    tree = bdp.fit_cells(bdp.Release.from_published(TABLE, measured), FixedPoisson(12.0), draws=1)
    for place, own in enumerate(values.T):
        assert_agrees(tree, place, stats.poisson(12.0), *(law.log_each(value, LONG) for value in own))


def test_several_answers_about_a_cell_scales_of_each_and_a_permutation():
    scales = np.array([1.0, 2.0, 5.0, 9.0])
    order = bdp.LinearQuery(
        TABLE, np.eye(4, dtype=int)[[2, 0, 3, 0]], names=list("pqrs")
    )  # the first cell twice, the second never
    measured = [
        bdp.Measured(bdp.Identity(TABLE), [4, 9, 2, 30], noise.DiscreteLaplace(b=scales)),
        bdp.Measured(order, [1.5, 3.25, 28.0, 6.0], noise.Gaussian(4.0)),
        bdp.Measured(
            bdp.Identity(TABLE), [3, np.nan, 0, 30], noise.ConventionalRounding(3), unmeasured=np.arange(4) == 1
        ),
    ]
    mean = np.array([5.0, 8.0, 2.0, 20.0])
    tree = bdp.fit_cells(bdp.Release.from_published(TABLE, measured), FixedPoisson(mean), draws=1)
    normal = {0: [3.25, 6.0], 1: [], 2: [1.5], 3: [28.0]}
    for place, own in normal.items():
        terms = [laplace_on_integers(scales[place])([4, 9, 2, 30][place], LONG)]
        terms += [stats.norm(LONG, 4.0).logpdf(value) for value in own]
        if place != 1:
            terms.append(np.where(np.abs(LONG - [3, 12, 0, 30][place]) <= 1, 0.0, -np.inf))
        assert_agrees(tree, place, stats.poisson(mean[place]), *terms)


def test_scales_and_thresholds_of_each_answer():
    scales, below = np.array([2.0, 3.0, 5.0, 4.0]), np.array([5.0, 6.0, 2.0, 4.0])
    values, prior = [4.0, 9.5, 1.0, 12.0], stats.poisson(8.0)  # the first and the third were held back
    tree = bdp.fit_cells(
        released(noise.Censored(noise.Gaussian(scales), below=below), values), FixedPoisson(8.0), draws=1
    )
    rounded = bdp.fit_cells(
        released(noise.Rounded(noise.Gaussian(scales), base=2), [4, -2, 20, 8]), FixedPoisson(8.0), draws=1
    )
    for place, (value, scale) in enumerate(zip(values, scales, strict=True)):
        normal, y = stats.norm(LONG, scale), [4, -2, 20, 8][place]
        assert_agrees(tree, place, prior, normal.logcdf(below[place]) if value < below[place] else normal.logpdf(value))
        assert_agrees(rounded, place, prior, np.log(np.maximum(normal.cdf(y + 1) - normal.cdf(y - 1), 1e-300)))


def test_one_perturbation_counts_once():
    law, values = noise.CellKey(max_deviation=3, variance=2.0), [5, 3, 44, 12]
    measured = [bdp.Measured(bdp.Identity(TABLE), values, law) for _ in range(2)]
    prior = FixedPoisson(12.0)
    with pytest.warns(bdp.measurements.consistency.CountedOnceWarning):
        twice = bdp.fit_cells(bdp.Release.from_published(TABLE, measured), prior, draws=1)
    once = bdp.fit_cells(released(law, values), prior, draws=1)
    np.testing.assert_array_equal(twice["cells"]["mean"], once["cells"]["mean"])


@pytest.fixture(scope="module")
def two_way():
    table = {"county": list("ABC"), "sex": ["f", "m"]}
    values = [[12, 3], [-2, 40], [7, 7]]
    release = released(noise.DiscreteGaussian(4.0), values, table)
    record = [bdp.Totals(table), bdp.Margins(table, ["county"]), bdp.Identity(table)]
    record = dict(zip(("total", "by_county", "table"), record, strict=True))
    prior = FixedNegativeBinomial(15.0, 0.8)
    return table, release, prior, bdp.fit_cells(release, prior, record=record, draws=20_000, random_seed=5)


def test_draws_are_joint_independent_and_of_the_posterior(two_way, monkeypatch):
    _, release, prior, tree = two_way
    posterior, cells = tree["posterior"], tree["cells"]
    assert posterior.sizes["chain"] == 1
    np.testing.assert_array_equal(posterior["table"].sum("sex"), posterior["by_county"])
    np.testing.assert_array_equal(posterior["by_county"].sum("county"), posterior["total"])
    # 6 cells of chi-squared tests, 15 correlations and 6 autocorrelations: false alarms in 27 of 1e6 runs.
    draws = posterior["table"].values.reshape(20_000, 6)
    for own, mass in zip(draws.T, cells["probability"].values.reshape(16, 6).T, strict=True):
        expected = 20_000 * np.append(mass, max(1.0 - mass.sum(), 0.0))
        seen = np.append(np.bincount(own, minlength=16)[:16], (own > 15).sum())
        big = expected > 5
        pooled = [np.append(each[big], each[~big].sum()) for each in (seen, expected)]
        assert stats.chi2.sf(((pooled[0] - pooled[1]) ** 2 / np.maximum(pooled[1], 1e-9)).sum(), big.sum()) > 1e-6
    limit = stats.norm.isf(0.5e-6) / np.sqrt(20_000)
    assert np.abs(np.corrcoef(draws.T) - np.eye(6)).max() < limit
    assert max(abs(np.corrcoef(own[1:], own[:-1])[0, 1]) for own in draws.T) < limit
    # In small blocks the cells are the same.
    monkeypatch.setattr(by_cell, "_BLOCK", 50)
    again = bdp.fit_cells(release, prior, record=bdp.Totals(release.frame), draws=30, random_seed=5)
    np.testing.assert_allclose(again["cells"]["mean"], cells["mean"], rtol=1e-12)
    assert abs(again["posterior"]["total"].mean() - cells["mean"].sum()) < 5.0 * posterior["total"].std() / np.sqrt(30)


@pytest.mark.slow  # it compiles a model
def test_mcmc_agrees(two_way):
    table, release, _, tree = two_way
    with pm.Model(coords=release.coords):
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=15.0, alpha=0.8), dims=tuple(table))
        bdp.observe(release, x)
        sampled = bdp.sample(draws=1500, tune=200, chains=2, cores=1, random_seed=3, progressbar=False, quiet=True)
    found = bdp.summary(sampled, "x")
    cells = tree["cells"]
    # 12 comparisons, of means and of shares of zeros, by standard errors from effective sizes: false alarms in 12 of 1e6 runs or so.
    error = found["sd"].to_numpy() / np.sqrt(found["ess_bulk"].to_numpy())
    away = np.abs(found["mean"].to_numpy() - cells["mean"].values.reshape(-1))
    assert (away < stats.norm.isf(0.5e-6) * error).all()
    zero, share = (sampled["posterior"]["x"] == 0).mean(("chain", "draw")).values.reshape(-1), cells["probability"][0]
    share = share.values.reshape(-1)
    error = np.sqrt(share * (1 - share) / found["ess_bulk"].to_numpy()) + 1e-3
    assert (np.abs(zero - share) < stats.norm.isf(0.5e-6) * error).all()


def test_readers_say_that_nothing_was_sampled(two_way, tmp_path):
    table, _, _, tree = two_way
    found = bdp.summary(tree)
    assert found.attrs["chains"] == 0
    assert found.attrs["converged"] is True
    assert "Computed, not sampled" in found.attrs["message"]
    cells = found.loc["cells"]
    assert cells[["ess_bulk", "ess_tail", "rhat"]].isna().all(axis=None)
    np.testing.assert_allclose(cells["mean"], tree["cells"]["mean"].values.reshape(-1))
    assert found.loc[("total", "total"), "ess_bulk"] == 20_000
    assert np.isnan(found.loc[("total", "total"), "rhat"])
    margin = bdp.summary(tree, query=bdp.Margins(table, ["county"]))
    exact = tree["cells"]["mean"].sum("sex").values
    assert (np.abs(margin["mean"] - exact) < 5.0 * margin["sd"] / np.sqrt(20_000)).all()
    bdp.report.report(tree, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    for words in ("No chain was run.", "each cell by itself; sums by 20,000 independent draws", "none in cells"):
        assert words in text
    for words in ("after tuning", "The chains agree", "R-hat: An improved", "Do not rely"):
        assert words not in text
    bdp.plots.intervals(tree)


def test_what_is_refused(two_way):
    table, release, prior, _ = two_way
    law = noise.DiscreteGaussian(2.0)
    exact = bdp.Release.from_published(table, release.measurements, [bdp.Exact(bdp.Totals(table), 60)])
    sums = bdp.Release.from_published(table, [bdp.Measured(bdp.Margins(table, ["sex"]), [3, 4], law)])
    lattice = bdp.LatticeGaussian(bdp.Margins(table, ["sex"]), rho=0.5).release(np.full((3, 2), 9), rng=1)
    outward = r"bdp\.fit_hierarchy.*bdp\.gls.*docs/how-to/large-table\.md"
    for bad, words in (
        (exact, "grand total is exact, which ties cells together"),
        (sums, "by sex is noisy, which adds up cells"),
        (lattice, "is exact, which ties cells together"),
        (released(noise.UnknownPerturbation(2), np.full((3, 2), 9), table), "is learnt, from all cells together"),
    ):
        with pytest.raises(ValueError, match=f"no posterior cell by cell: .*{words}.*{outward}"):
            bdp.fit_cells(bad, prior)
    with pytest.raises(ValueError, match="no hyperparameters to be learnt"):
        bdp.fit_cells(release, VaryingShares())
    with pytest.raises(TypeError, match="prior must be a prior of the cells"):
        bdp.fit_cells(release, "independent")
    with pytest.raises(TypeError, match=r"release must be a bayesdp\.Release"):
        bdp.fit_cells(3, prior)
    rounded = [bdp.Measured(bdp.Identity(TABLE), [3, 30, v, 0], noise.RandomRounding(3)) for v in (0, 9)]
    with pytest.warns(bdp.PostProcessedWarning):
        apart = bdp.Release.from_published(TABLE, rounded, adding_up="warn")
    with pytest.warns(bdp.PostProcessedWarning), pytest.raises(ValueError, match=r"cell=c.*0, 9, no count is possible"):
        bdp.fit_cells(apart, prior)
    hidden = released(law, [np.nan, 3, 4, 5], unmeasured=np.arange(4) == 0)
    with pytest.raises(ValueError, match=r"cell=a.*nothing, the posterior spreads over .* counts"):
        bdp.fit_cells(hidden, FixedNegativeBinomial(1e9, 1.0))
    with pytest.raises(MemoryError, match="draws of 1 answers, and the summaries of cells, need about"):
        bdp.fit_cells(release, prior, record=bdp.Totals(table), draws=10**13)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["as it is", "thresholds", "rounded"])
def test_a_hundred_thousand_rows(kind):
    # Laplace noise with a scale of its own in each row, so that no two rows are alike: some 13 s of a processor.
    rng = np.random.default_rng(3)
    table = {"row": range(100_000)}
    truth = rng.negative_binomial(1, 1 / 51, size=100_000)
    law = noise.Laplace(b=rng.uniform(5, 15, size=100_000))
    if kind == "thresholds":
        law = noise.Censored(law, below=rng.integers(3, 12, size=100_000))
    elif kind == "rounded":
        law = noise.Rounded(law, base=1)
    release = released(law, law.draw(rng, truth.shape, location=truth), table)
    tree = bdp.fit_cells(release, FixedNegativeBinomial(50.0, 1.0), record=bdp.Totals(table), random_seed=1)
    low, high = (tree["cells"]["quantile"].sel(share=share).values for share in (0.025, 0.975))
    assert 0.948 < ((low <= truth) & (truth <= high)).mean() < 0.97  # of whole numbers: at least 95%
    total = tree["cells"]["mean"].sum().item(), np.sqrt((tree["cells"]["sd"] ** 2).sum().item())
    assert abs(total[0] - truth.sum()) < 5 * total[1]
    assert abs(tree["posterior"]["total"].mean().item() - total[0]) < 5 * total[1] / np.sqrt(1000)

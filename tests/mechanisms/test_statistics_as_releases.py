"""A release of statistics is a release: one class, one format, one `observe`, one summary, one report."""

import json
import re
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import softmax

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.mechanisms.composition import as_one, joint_release
from bayesdp.report.page import page
from tests.refusals import refused

N = 50
KINDS = [m.TruncatedGaussian, m.BoundaryInflatedGaussian, m.TruncatedLaplace, m.BoundaryInflatedLaplace]
SHARE = m.TruncatedLaplace(1.0, 1 / N, (0, 1))
PAIR = m.BoundaryInflatedLaplace(1.0, 1 / N, (0, 1), names=["commutes", "rents"])
ONE, TWO = SHARE.release(0.3, rng=1), PAIR.release([0.3, 0.44], rng=2)


@pytest.fixture(scope="module")
def posterior():
    with pm.Model():
        successes = pm.BetaBinomial("successes", 1.0, 1.0, N)
        bdp.observe(ONE, successes / N)
        bdp.observe(TWO, pm.Beta("shares", 1.0, 1.0, shape=2))
        return bdp.sample(draws=200, tune=200, chains=2, cores=1, random_seed=4, progressbar=False, quiet=True)


def test_a_release_of_statistics_is_a_release(tmp_path):
    assert (ONE.about, TWO.about) == ("statistics", "statistics")
    assert (ONE.names, TWO.names) == (None, ("commutes", "rents"))
    assert ONE.values.shape == ()
    assert TWO.values.sel(statistic="rents") == TWO.values[1]
    for k, own in enumerate((ONE, TWO)):
        own.to_netcdf(tmp_path / f"{k}.nc")
        own.to_csv(tmp_path / str(k))
        for again in (bdp.Release.from_netcdf(tmp_path / f"{k}.nc"), bdp.Release.from_csv(tmp_path / str(k))):
            assert again == own
            assert type(again.guarantee) is type(own.guarantee) is m.StatisticGuarantee
        assert m.StatisticRelease.from_netcdf(tmp_path / f"{k}.nc").names == own.names
    with pytest.raises(ValueError, match="no fiber"):
        _ = ONE.fiber
    assert "Release of 2 statistics" in repr(TWO)


@pytest.mark.parametrize("kind", KINDS)
def test_observed_likelihood_is_that_of_the_mechanism(kind):
    loss = {"rho": 0.02} if "Gaussian" in kind.__name__ else {"epsilon": 1.0}
    single, several = (kind(sensitivity=own, bounds=(0, 1), **loss) for own in (1 / N, [0.1, 0.2]))
    assert m.StatisticMechanism.from_description(json.loads(json.dumps(several.describe()))) == several
    one, two = single.release(0.3, rng=1), several.release([0.3, 0.44], rng=2)
    with pm.Model() as model:
        successes = pm.BetaBinomial("successes", 1.0, 1.0, N)
        bdp.observe(one, successes / N)
        bdp.observe(two, pm.Beta("shares", 1.0, 1.0, shape=2, transform=None, default_transform=None))
    logp, both = model.compile_logp([model["noisy"]]), model.compile_logp([model["noisy_2"]])
    rng = np.random.default_rng(5)
    for k in range(0, N + 1, 5):
        point = {"successes": k, "shares": rng.uniform(size=2)}
        expected = single.logp(one.values, k / N), several.logp(two.values, point["shares"])
        assert (logp(point), both(point)) == pytest.approx(expected, rel=1e-10)
    assert model["true_statistic"].eval({successes: 25}) == 0.5


@pytest.mark.system
def test_posterior_against_enumeration(posterior):
    """The posterior of the number of successes among 51; false alarm in one of 10,000 seeds at the effective sample size."""
    k = np.arange(N + 1)
    logs = np.array([SHARE.logp(ONE.values, own / N) for own in k]) + stats.betabinom(N, 1, 1).logpmf(k)
    exact = softmax(logs)
    mean = exact @ k
    draws = posterior["posterior"]["successes"].values
    ess = float(posterior["diagnostics"]["successes_ess_bulk"])
    assert abs(draws.mean() - mean) < 3.9 * np.sqrt(exact @ (k - mean) ** 2 / ess)
    assert np.array_equal(posterior["posterior"]["true_statistic"].values, draws / N)


@pytest.mark.system
def test_summary_groups_and_report(posterior):
    table = bdp.summary(posterior)
    assert table.loc[("true_statistic", "statistic=single"), "published"] == float(ONE.values)
    assert table.loc["shares"]["published"].tolist() == TWO.values.values.tolist()
    assert table["exact"].isna().all()
    drawn = posterior["posterior"]["shares"].values[..., 1]
    assert table.loc[("shares", "statistic=rents"), "mean"] == pytest.approx(drawn.mean(), rel=1e-12)
    assert not [part for part in table.index.get_level_values("part") if "total" in part]
    assert posterior["statistics"].attrs == {"variable": "true_statistic"}
    assert bdp.Release.from_dataset(posterior["release_shares"].to_dataset()) == TWO
    text = re.sub(r"<style.*?</style>|<svg.*?</svg>|src=\"data:[^\"]*\"", "", page(posterior), flags=re.DOTALL)
    words = re.sub(r"<[^>]+>", " ", text)
    for true in ("Confidential statistics: a posterior report", "Changing one person", "p(θ | y) ∝ p(θ) p(y | s(θ))"):
        assert true in words
    false = "table of counts|confidential count|Grand total|whole numbers|Poisson|exact-conditional"
    assert not re.search(false, words)
    broken = posterior.copy()
    broken["posterior"] = broken["posterior"].to_dataset().assign(shares=lambda own: own["shares"] * np.nan)
    with pytest.raises(ValueError, match="no finite number"):
        bdp.summary(broken)
    del broken["statistics"], broken["statistics_shares"]
    with pytest.raises(ValueError, match="no group 'statistics'"):
        bdp.summary(broken)


def test_another_release_takes_its_place():
    with pm.Model() as model:
        bdp.observe(ONE, pm.Beta("share", 1.0, 1.0))
    again = SHARE.release(0.7, rng=9)
    bdp.set_release(model, again)
    assert model["noisy_published"].get_value() == float(again.values)
    with pytest.raises(ValueError, match="it is about"):
        bdp.set_release(model, TWO)


COUNTS = bdp.LatticeLaplace(bdp.Totals({"county": ["Alpha", "Beta"]}), epsilon=0.5).release([30, 80], rng=1)
FRAME = {"statistic": ["a", "b"]}
QUERY = bdp.Identity(FRAME)


def published(law=None, about="statistics", **more):
    parts = [] if law is None else [bdp.Measured(QUERY, [1, 2], law)]
    return bdp.Release.from_published(FRAME, parts, about=about, **more)


def observed(statistic, own=TWO):
    with pm.Model():
        bdp.observe(own, statistic(pm.Beta("share", 1.0, 1.0)))


test_what_statistics_refuse = refused(
    (lambda: observed(lambda share: np.array([0.1, 0.2])), "none of them enters it"),
    (lambda: observed(lambda share: "share"), "must be a function of variables"),
    (lambda: observed(lambda share: share / 2), r"must have shape \(2,\), .* 2 statistics, got \(\)"),
    (lambda: observed(lambda share: share, COUNTS), "ConfidentialCounts"),
    (lambda: joint_release([COUNTS, TWO]), "release 1 is about counts and release 2 about statistics"),
    (lambda: published(exact=[bdp.Exact(QUERY, [1, 2])]), "no exact parts"),
    (lambda: published(bdp.noise.LatticeLaplace(1.0)), "'lattice-laplace', which keeps"),
    (lambda: published(bdp.noise.Laplace(1.0), about="means"), "about must be one of"),
    (lambda: m.StatisticRelease([0.1, 0.2], TWO.law, ["single", "b"]), "stands for a single statistic"),
)  # fmt: skip


def test_ordinary_laws_about_statistics():
    """A mean with Laplace noise and no bounds, published by somebody else: whole numbers are no sign of rounding."""
    published = [41.0, 30000.0]
    measured = bdp.Measured(QUERY, published, bdp.noise.Laplace([0.5, 200.0]))
    release = bdp.Release.from_published(FRAME, [measured], about="statistics")
    with pm.Model() as model:
        bdp.observe(release, pm.Normal("mu", [40.0, 31000.0], [5.0, 2000.0]))
    found = model.point_logps(round_vals=10)["noisy"]
    assert found == pytest.approx(stats.laplace([40.0, 31000.0], [0.5, 200.0]).logpdf(published).sum())


def test_two_releases_of_one_statistic():
    """Epsilons add up, and the posterior knows both numbers."""
    other = m.TruncatedLaplace(0.5, 1 / N, (0, 1)).release(0.3, rng=6)
    both, whole = bdp.compose(ONE, other), as_one([ONE, other])
    assert both.guarantee.parameters["epsilon"] == pytest.approx(1.5, rel=1e-9)
    assert "Composition of 2 releases of 1 statistic\n" in str(both)
    with pytest.raises(ValueError, match="must list the mechanisms"):
        replace(whole, mechanism={**whole.mechanism, "releases": [other.mechanism]}).check_stated()
    with pm.Model() as model:
        share = pm.Beta("share", 1.0, 1.0, default_transform=None)
        bdp.observe(ONE, share)
        bdp.observe(other, share)
    found = model.compile_logp(model.observed_RVs)({"share": 0.37})
    assert found == pytest.approx(SHARE.logp(ONE.values, 0.37) + other.law.logp(other.values, 0.37), rel=1e-10)
    differs = m.TruncatedLaplace(0.5, 1 / N, (0, 1), neighbours="add-remove").release(0.3, rng=6)
    assert bdp.compose(ONE, differs).guarantee is None
    assert "different neighbouring data sets" in str(bdp.compose(ONE, differs))


@pytest.mark.system
def test_any_values_within_bounds_given_public_groups():
    """Sums over records with |y| <= 2 and public x: guarantee, law, and the posterior with the records as unknowns."""
    x, limit = np.array([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0]), 2.0
    size = len(x)
    # One record changes its y within [-2, 2]: sum y by at most 4, sum xy by 4 max|x|, sum y^2 by 4.
    most = [2 * limit, 2 * limit * np.abs(x).max(), limit**2]
    bounds = ([-size * limit, -limit * np.abs(x).sum(), 0.0], [size * limit, limit * np.abs(x).sum(), size * limit**2])
    mechanism = m.TruncatedGaussian(most, bounds, rho=8.0, names=["sum y", "sum xy", "sum yy"])
    rng = np.random.default_rng(3)
    y = rng.uniform(-limit, limit, size=(200, size))
    y[0], y[1] = limit, -limit
    moved = y.copy()
    moved[:, 2] = rng.choice([-limit, 0.0, limit], size=200)

    def sums(values):
        return np.stack([values.sum(-1), (values * x).sum(-1), (values**2).sum(-1)], axis=-1)

    change = sums(moved) - sums(y)
    assert np.all(np.abs(change) <= np.array(most) + 1e-12)
    # zCDP of noise of one sigma: rho is |change|^2 / (2 sigma^2) at most.
    assert (change**2).sum(axis=1).max() / (2 * mechanism.sigma**2) <= 8.0 + 1e-12
    released = mechanism.release(sums(y[5]), rng=4)
    with pm.Model():
        slope = pm.Normal("slope", 0.0, 1.0)
        own = pm.TruncatedNormal("y", mu=slope * x, sigma=1.0, lower=-limit, upper=limit)
        bdp.observe(released, pm.math.stack([own.sum(), (own * x).sum(), (own**2).sum()]))
        drawn = bdp.sample(800, tune=300, chains=2, cores=1, random_seed=1, quiet=True, progressbar=False)
    # By importance sampling from the prior: 5 standard errors, those of the weights included.
    slopes = rng.normal(size=200_000)
    a, b = (-limit - slopes[:, None] * x), (limit - slopes[:, None] * x)
    records = slopes[:, None] * x + stats.truncnorm.ppf(rng.random((len(slopes), size)), a, b)
    [measured] = released.measurements
    each = measured.law.log_each(np.broadcast_to(measured.values, (len(slopes), 3)), sums(records))
    weights = softmax(each.sum(axis=1))
    mean = weights @ slopes
    spread = np.sqrt(weights @ (slopes - mean) ** 2)
    effective = 1.0 / np.sum(weights**2)
    assert effective > 1000
    found = np.asarray(drawn.posterior["slope"])
    assert abs(found.mean() - mean) < 5 * spread * np.sqrt(1 / effective + 1 / 500)
    assert found.std() == pytest.approx(spread, rel=0.15)
    assert spread < 0.8  # the release tells of the slope

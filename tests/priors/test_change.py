"""Two tables of the same cells at two times: the formula, the posterior against importance sampling, the command line."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.posterior import tables_of_posterior
from bayesdp.priors import build_change, describe_change
from bayesdp.storage import read_draws
from tests.inference.oracle import noisy_cells
from tests.refusals import refused

TABLE = {"county": ["a", "b"]}
BEFORE = noisy_cells(TABLE, [9, 30], bdp.noise.DiscreteGaussian(3.0))
AFTER = noisy_cells(TABLE, [16, 45], bdp.noise.DiscreteLaplace(b=2.0), bdp.Exact(bdp.Totals(TABLE), 58))


def test_the_density_is_that_of_the_formula():
    model = build_change(BEFORE, AFTER, mean=20.0, centre_scale=2.0, level_spread=0.7, change_scale=0.4, scatter=0.3)
    point = {"log_mean": 2.5, "level_spread_log__": np.log(0.9), "level": np.array([2.1, 3.3]), "change": 0.2}
    point |= {"cell_cv_log__": np.log(0.25), "before": np.array([10, 28]), "after": np.array([15, 43])}
    found = model.compile_logp(
        vars=[model[name] for name in ("log_mean", "level", "change", "level_spread", "cell_cv")]
    )(point)
    spread, scatter = stats.norm(np.log(0.7), 0.75), stats.norm(np.log(0.3), 0.75)
    expected = stats.norm.logpdf(2.5, np.log(20.0), 2.0) + stats.norm.logpdf(0.2, 0.0, 0.4)
    expected += (
        stats.norm.logpdf(point["level"], 2.5, 0.9).sum() + spread.logpdf(np.log(0.9)) + scatter.logpdf(np.log(0.25))
    )
    assert found == pytest.approx(expected, rel=1e-7)
    counts = model.compile_logp(vars=[model["before"], model["after"]])(point)
    shape, rates = 0.25**-2, np.exp(np.array([point["level"] - 0.1, point["level"] + 0.1]))
    law = stats.nbinom(shape, shape / (shape + rates))
    # The exact total leaves one of the counts after free: their density is that of all tables but for a constant.
    moved = model.compile_logp(vars=[model["before"], model["after"]])(point | {"after": np.array([20, 38])})
    differs = law.logpmf([[10, 28], [20, 38]]).sum() - law.logpmf([[10, 28], [15, 43]]).sum()
    assert moved - counts == pytest.approx(differs, rel=1e-7)
    assert describe_change(BEFORE, AFTER).startswith("change: two tables")
    assert "mean = 23.7" in describe_change(BEFORE, AFTER)  # sqrt(19.5 * 29), by the noisy sum and the exact one


@pytest.mark.compiled
def test_the_posterior_is_that_of_importance_sampling():
    """A million draws of the prior, weighted by the noise and by the exact total.

    Effective sizes are above 1,000 on either side: five standard errors of both are below .25 standard deviations, so that a false
    alarm of a mean has a probability below 1e-5.
    """
    rng, size = np.random.default_rng(5), 1_000_000
    centre, change = rng.normal(np.log(23.7), 1.5, size), rng.normal(0.0, 0.5, size)
    spread, scatter = np.exp(rng.normal(0.0, 0.75, size)), np.exp(rng.normal(np.log(0.2), 0.75, size))
    level = centre[:, None] + spread[:, None] * rng.normal(size=(size, 2))
    shape = np.maximum(scatter[:, None] ** -2, 1e-3)
    before, after = (
        rng.poisson(np.minimum(np.exp(level + half * change[:, None]) * rng.gamma(shape) / shape, 1e6))
        for half in (-0.5, 0.5)
    )
    # The exact total as it is: of the last cell the probability of what is left is the weight, and it is that.
    left = 58 - after[:, 0]
    rates = np.exp(level[:, 1] + 0.5 * change)
    weight = stats.nbinom.pmf(left, shape[:, 0], shape[:, 0] / (shape[:, 0] + rates))
    weight *= np.exp(-((np.array([9, 30]) - before) ** 2).sum(axis=1) / (2 * 3.0**2))
    weight *= np.exp(-np.abs(np.array([16, 45]) - np.stack([after[:, 0], left], axis=1)).sum(axis=1) / 2.0)
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 1000
    with build_change(BEFORE, AFTER, mean=23.7):
        tree = bdp.sample(draws=1000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    drawn = tree["posterior"]
    for name, at, own in (("before", 0, before[:, 0]), ("before", 1, before[:, 1]), ("after", 0, after[:, 0])):
        mean = weight @ own
        sd = np.sqrt(weight @ (own - mean) ** 2)
        assert float(drawn[name][..., at].mean()) == pytest.approx(mean, abs=0.25 * sd)
    mean = weight @ change
    assert float(drawn["change"].mean()) == pytest.approx(mean, abs=0.25 * np.sqrt(weight @ (change - mean) ** 2))
    assert (drawn["after"].sum("county") == 58).all()
    assert list(tables_of_posterior(tree)) == ["before", "after"]


def cells(dim="county", labels=("a", "b")):
    return noisy_cells({dim: list(labels)}, [9, 30, 1][: len(labels)], bdp.noise.DiscreteGaussian(3.0))


FIVE = noisy_cells(
    {"county": list("abcde")},
    [3, 1, 4, 2, 5],
    bdp.noise.DiscreteLaplace(b=2.0),
    bdp.Exact(bdp.Totals({"county": list("abcde")}), 9),
)


def test_few_numbers_may_agree_by_chance():
    assert build_change(AFTER, AFTER).free_RVs


test_what_is_refused = refused(
    (lambda: build_change(BEFORE, cells(labels="ba")), "they are in another order"),
    (lambda: build_change(BEFORE, cells(labels="abc")), "only in after: 'c'"),
    (lambda: build_change(cells(labels="abc"), BEFORE), "only in before: 'c'"),
    (lambda: build_change(BEFORE, cells("area")), "must have the dimensions of before"),
    (
        lambda: build_change(cells("level"), cells("level")),
        "a dimension is called 'level', as a variable of this model",
    ),
    (lambda: build_change(FIVE, FIVE), "after has a measurement of before"),
    (lambda: build_change(FIVE, dataclasses.replace(FIVE, exact=())), "after has a measurement of before"),
    (lambda: build_change(BEFORE, AFTER, slope=1.0), "no hyperparameter 'slope'"),
    (lambda: build_change(BEFORE, AFTER, scatter=0.0), "scatter"),
    error=ValueError,
)


@pytest.mark.system
def test_from_two_files_to_a_posterior(monkeypatch, tmp_path, capsys):
    from bayesdp.cli import main

    monkeypatch.chdir(tmp_path)
    BEFORE.to_netcdf("a.nc")
    AFTER.to_netcdf("b.nc")
    run = "--change --hyper scatter=0.1 --draws 50 --tune 100 --chains 2 --cores 1 --seed 1 --quiet -o c.nc".split()
    assert main(["fit", "a.nc", "b.nc", *run]) in (0, 3)
    tree = read_draws("c.nc")
    assert {"before", "after", "change"} <= set(tree["posterior"].data_vars)
    assert "scatter = 0.1" in tree.attrs["prior"]
    capsys.readouterr()
    assert main(["fit", "a.nc", "--change", "-o", "d.nc"]) == 2
    assert "--change takes two releases, before and after, and 1 were given" in capsys.readouterr().err
    assert main(["fit", "a.nc", "./a.nc", "--change", "-o", "d.nc"]) == 2
    assert "given twice" in capsys.readouterr().err
    assert main(["report", "c.nc", "-o", "c.html"]) in (0, 3)

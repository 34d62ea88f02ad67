"""``bayesdp fit`` of several releases of one table: one posterior, read by summary, report and test."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.composition import as_one
from bayesdp.posterior import releases_of_tables
from bayesdp.significance import posterior_odds_ratio
from tests.cli.conftest import failed, posterior

QUICK = tuple("--chains 2 --draws 1000 --tune 100 --seed 1 --cores 1 --quiet".split())
COUNTY = {"county": ["Alpha", "Beta"]}
TOTAL = 20


def noisy(values, law):
    return bdp.Measured(bdp.Identity(COUNTY), values, law)


def total_of(labels, total=TOTAL):
    return bdp.Release.from_published(labels, exact=[bdp.Exact(bdp.Totals(labels), total)])


ONE = bdp.Release.from_published(COUNTY, [noisy([7, 12], bdp.noise.DiscreteGaussian(3.0))])
OTHER = bdp.Release.from_published(COUNTY, [noisy([10, 13], bdp.noise.DiscreteLaplace(2.0))], total_of(COUNTY).exact)


@pytest.mark.system
def test_two_releases_make_one_posterior(run):
    ONE.to_netcdf("one.nc")
    OTHER.to_csv("other.csv")
    result = run("fit", "one.nc", "other.csv", *QUICK, "-o", "posterior.nc")
    assert result.status == 0, result.err
    loaded = posterior()
    assert (loaded["posterior"]["x"].sum("county") == TOTAL).all()
    release = as_one(releases_of_tables(loaded)[0][1])
    assert release.measurements == (*ONE.measurements, *OTHER.measurements)
    assert release.exact == OTHER.exact
    assert set(loaded["prior_predictive"].data_vars) >= {"noisy", "noisy_2"}
    total = run("summary", "posterior.nc", "--query", "total").out
    assert ["total", "-", "20", "-", "-", "-", "-", "-", "exact"] in [line.split() for line in total.splitlines()]
    cells = run("summary", "posterior.nc").out.splitlines()
    assert cells[2].split()[:3] == ["county", "published", "published_2"]
    assert cells[3].split()[:3] == ["Alpha", "7", "10"]
    assert run("report", "posterior.nc", "-o", "page.html").status == 0
    page = Path("page.html").read_text(encoding="utf-8")
    for words in (
        "discrete-gaussian sigma=3", "discrete-laplace b=2", "Published (noisy; no. 2)",
        "no total loss is stated: unknown, because no loss is stated by release 1, 2",
    ):  # fmt: skip
        assert words in page


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (ONE, ["b.nc is a.nc again", "counted twice"]),
        (total_of(COUNTY, 21), ["c.nc and b.nc: exact values contradict one another at total", "total is 20", "is 21"]),
        (
            total_of({"county": ["Beta", "Alpha"]}),
            ["a.nc has 'county' as 'Alpha', 'Beta' and b.nc as 'Beta', 'Alpha'", "lines are in the same order"],
        ),
        (total_of({"county": ["Alpha", "Betta"]}), ["a.nc and b.nc have different labels of 'county': 'Beta', 'Betta'"]),
        (total_of({"state": ["IL"]}), ["a.nc has the dimensions 'county' and b.nc 'state'"]),
    ],
)  # fmt: skip
def test_releases_that_do_not_fit_together(second, words, run):
    for name, release in (("a.nc", ONE), ("b.nc", second), ("c.nc", OTHER)):
        release.to_netcdf(name)
    failed(run("fit", "a.nc", "c.nc", "b.nc", *QUICK, "-o", "p.nc"), *words)
    assert not Path("p.nc").exists()


def test_a_file_that_is_given_twice(run):
    ONE.to_netcdf("a.nc")
    failed(run("fit", "a.nc", "./a.nc", *QUICK, "-o", "p.nc"), "./a.nc is given twice")
    shutil.copy("a.nc", "copy.nc")
    failed(run("fit", "a.nc", "copy.nc", *QUICK, "-o", "p.nc"), "copy.nc is a.nc again")


def test_the_odds_ratio_of_several_releases_has_no_test():
    """The test is of one release; of two it would leave out half of what the posterior knows."""
    table = xr.DataArray([[12, 30], [25, 17]], dims=("a", "b"), coords={"a": ["1", "2"], "b": ["1", "2"]})
    mechanism = bdp.LatticeLaplace(bdp.Margins(table, ["a"], ["b"]), epsilon=0.5)
    first, second = (mechanism.release(table, rng=np.random.default_rng(seed)) for seed in (1, 2))
    draws = xr.Dataset({"x": table.expand_dims(chain=[0], draw=[0, 1])})
    groups = {"/posterior": draws, "/release": first.to_dataset()}
    assert posterior_odds_ratio(xr.DataTree.from_dict(groups), rng=np.random.default_rng(1)).test is not None
    both = xr.DataTree.from_dict({**groups, "/release_2": second.to_dataset()})
    assert posterior_odds_ratio(both, rng=np.random.default_rng(1)).test is None

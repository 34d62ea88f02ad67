"""``bayesdp fit`` of several releases of one table: one posterior, read by summary, report and test."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.composition import as_one
from bayesdp.posterior import releases_of_tables
from bayesdp.report import report
from bayesdp.significance import posterior_odds_ratio
from bayesdp.summaries import summary
from tests.cli.conftest import failed

QUICK = ("--chains", "2", "--draws", "1000", "--tune", "100", "--seed", "1", "--cores", "1", "--quiet")
COUNTY = {"county": ["Alpha", "Beta"]}
TOTAL = 20


def one() -> bdp.Release:
    return bdp.Release.from_published(
        COUNTY, [bdp.Measured(bdp.Identity(COUNTY), [7, 12], bdp.noise.DiscreteGaussian(3.0))]
    )


def other(total: int = TOTAL) -> bdp.Release:
    noisy = bdp.Measured(bdp.Identity(COUNTY), [10, 13], bdp.noise.DiscreteLaplace(2.0))
    return bdp.Release.from_published(COUNTY, [noisy], [bdp.Exact(bdp.Totals(COUNTY), total)])


def total_of(labels: dict[str, list[str]]) -> bdp.Release:
    return bdp.Release.from_published(labels, exact=[bdp.Exact(bdp.Totals(labels), TOTAL)])


def oracle() -> tuple[float, float]:
    """Mean and standard deviation of Alpha by enumeration: under the exact total the default prior is uniform."""
    alpha = np.arange(TOTAL + 1)
    beta = TOTAL - alpha
    logs = -((alpha - 7) ** 2 + (beta - 12) ** 2) / 18 - (np.abs(alpha - 10) + np.abs(beta - 13)) / 2
    p = np.exp(logs) / np.exp(logs).sum()
    mean = float(p @ alpha)
    return mean, float(np.sqrt(p @ (alpha - mean) ** 2))


def agrees(x: xr.DataArray) -> None:
    """Five standard errors of the mean at 200 effective draws or more: false alarms below 1e-6."""
    alpha = x.sel(county="Alpha")
    mean, sd = oracle()
    assert float(alpha.mean()) == pytest.approx(mean, abs=5 * sd / np.sqrt(200))
    assert float(alpha.std()) == pytest.approx(sd, rel=0.25)
    assert (x.sum("county") == TOTAL).all()


@pytest.mark.system
def test_two_releases_make_one_posterior(run):
    one().to_netcdf("one.nc")
    other().to_csv("other.csv")
    result = run("fit", "one.nc", "other.csv", *QUICK, "-o", "posterior.nc")
    assert result.status == 0, result.err
    with xr.open_datatree("posterior.nc", engine="h5netcdf") as tree:
        loaded = tree.load()
    agrees(loaded["posterior"]["x"])
    release = as_one(releases_of_tables(loaded)[0][1])
    assert release.measurements == (*one().measurements, *other().measurements)
    assert release.exact == other().exact
    total = run("summary", "posterior.nc", "--query", "total").out
    assert ["total", "-", "20", "-", "-", "-", "-", "-", "exact"] in [line.split() for line in total.splitlines()]
    cells = run("summary", "posterior.nc").out.splitlines()
    assert cells[2].split()[:3] == ["county", "published", "published_2"]
    assert cells[3].split()[:3] == ["Alpha", "7", "10"]
    assert run("report", "posterior.nc", "-o", "page.html").status == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "discrete-gaussian sigma=3" in page
    assert "discrete-laplace b=2" in page
    assert "Published (noisy; no. 2)" in page
    assert "no total loss is stated: unknown, because no loss is stated by release 1, 2" in page
    assert set(loaded["prior_predictive"].data_vars) >= {"noisy", "noisy_2"}


@pytest.mark.system
def test_observing_both_in_python_is_the_same(tmp_path):
    with pm.Model(coords=one().coords):
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=10.0, alpha=1.0), dims="county")
        bdp.observe(one(), x)
        with pytest.raises(ValueError, match="observed already: its noisy numbers"):
            bdp.observe(one(), x)
        bdp.observe(other(), x)
        with pytest.raises(ValueError, match=r"contradict one another at total: the published total is 20, but .* 21"):
            bdp.observe(bdp.Release.from_published(COUNTY, exact=[bdp.Exact(bdp.Totals(COUNTY), 21)]), x)
        high = bdp.Exact(bdp.Identity(COUNTY), [15, 15], ">=")
        empty = r"satisfies the exact values: total = 20; county=Alpha >= 15; county=Beta >= 15"
        with pytest.raises(ValueError, match=empty):
            bdp.observe(bdp.Release.from_published(COUNTY, exact=[high]), x)
        posterior = bdp.sample(draws=1000, tune=100, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    agrees(posterior["posterior"]["x"])
    assert {"release", "release_2"} <= set(posterior.children)
    table = summary(posterior)
    assert table.loc[("x: grand total", "total"), "exact"] == 20  # which only the second release says
    assert table.loc[("x", "county=Alpha"), ["published", "published_2"]].tolist() == [7.0, 10.0]
    text = report(posterior, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "discrete-laplace b=2" in text
    assert "Grand total: 20" in text


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (one(), ["b.nc is a.nc again", "counted twice"]),
        (
            bdp.Release.from_published(COUNTY, exact=[bdp.Exact(bdp.Margins(COUNTY, ["county"]), [9, 12])]),
            ["c.nc and b.nc: exact values contradict one another at total", "published total is 20", "is 21"],
        ),
        (
            total_of({"county": ["Beta", "Alpha"]}),
            ["a.nc has 'county' as 'Alpha', 'Beta' and b.nc as 'Beta', 'Alpha'", "lines are in the same order"],
        ),
        (
            total_of({"county": ["Alpha", "Betta"]}),
            ["a.nc and b.nc have different labels of 'county': 'Beta', 'Betta'"],
        ),
        (
            total_of({"state": ["IL"]}),
            ["a.nc has the dimensions 'county' and b.nc 'state'"],
        ),
    ],
)  # fmt: skip
def test_releases_that_do_not_fit_together(second, words, run):
    one().to_netcdf("a.nc")
    second.to_netcdf("b.nc")
    other().to_netcdf("c.nc")
    failed(run("fit", "a.nc", "c.nc", "b.nc", *QUICK, "-o", "p.nc"), *words)
    assert not Path("p.nc").exists()


def test_a_file_that_is_given_twice(run):
    one().to_netcdf("a.nc")
    result = run("fit", "a.nc", "./a.nc", *QUICK, "-o", "p.nc")
    assert (result.status, result.out) == (2, "")
    assert "./a.nc is given twice" in result.err
    shutil.copy("a.nc", "copy.nc")
    assert "copy.nc is a.nc again" in run("fit", "a.nc", "copy.nc", *QUICK, "-o", "p.nc").err


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

"""``bayesdp summary`` and ``report``, on posteriors that were made up, so that every number is known."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.posterior import Posterior, summarise_table
from tests.cli.conftest import failed

TABLE = {"county": ["Adams", "Cook", "Lake"], "state": ("county", ["IL", "IL", "IN"])}


def release():
    noisy = bdp.Measured(bdp.Identity(TABLE), [11, np.nan, 5], bdp.noise.DiscreteGaussian(2.0), unmeasured=["Cook"])
    return bdp.Release.from_published(TABLE, [noisy], [bdp.Exact(bdp.Totals(TABLE, "state"), [30, 5])], simulated=True)


def draws(chains=4, length=250):
    """Adams takes the values 0 to 19 equally often, Cook the rest of 30, Lake is always 5."""
    adams = np.tile(np.arange(20), chains * length // 20 + 1)[: chains * length]
    adams = np.random.default_rng(5).permutation(adams).reshape(chains, length)
    values = np.stack([adams, 30 - adams, np.full_like(adams, 5)], axis=-1)
    return xr.DataArray(values, dims=("chain", "draw", "county"), coords={"county": TABLE["county"]}, name="x")


def tree(x=None, converged=1, **variables):
    values = xr.Dataset({"x": draws() if x is None else x, **variables})
    determined = xr.DataArray([False, False, True], dims="county", coords={"county": TABLE["county"]})
    fiber = xr.Dataset({"determined": determined}, attrs={"variable": "x"})
    diagnostics = xr.Dataset(attrs={"converged": converged, "message": "R-hat up to 1.2" if not converged else "fine"})
    groups = {"posterior": values, "release": release().to_dataset(), "fiber": fiber, "diagnostics": diagnostics}
    return xr.DataTree.from_dict(groups)


def test_intervals_hold_their_probability_and_cells_that_never_moved_have_no_diagnostics():
    def summarised(x, prob=0.9):
        return summarise_table(Posterior.of(tree(x)), bdp.Identity(TABLE), prob)

    adams = np.random.default_rng(2).binomial(30, 0.1, draws().shape[:2])
    x = draws().copy(data=np.stack([adams, 30 - adams, np.full_like(adams, 5)], axis=-1))
    for prob in (0.5, 0.8, 0.95):
        own = summarised(x, prob)
        inside = ((x >= own.lower) & (x <= own.upper)).mean(("chain", "draw"))
        assert (inside >= prob).all()
    assert np.isnan(summarised(draws(1, 3)).ess_bulk).all()  # few draws
    assert np.isnan(summarised(draws(1, 250)).rhat).all()
    still = draws().copy(data=np.broadcast_to([10, 20, 5], draws().shape))
    assert np.isnan(summarised(still).rhat).all()


def saved(run, **variables):
    tree(**variables).to_netcdf("posterior.nc", engine="h5netcdf")
    return lambda *options: run("summary", "posterior.nc", *options)


def test_table_csv_and_json(run):
    summary = saved(run)
    result = summary("--prob", "0.9")
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    of = "posterior of x (cells), 4 chains of 250 draws"
    assert lines[0] == f"{of}: mean, standard deviation, 90% equal-tailed interval"
    assert lines[2].split() == ["county", "published", "mean", "sd", "[90%", "90%]", "ess", "rhat"]
    assert (lines[3].split()[:6], lines[4].split()[1]) == (["Adams", "11", "9.50", "5.77", "0", "18"], "-")
    assert lines[5].split() == ["Lake", "5", "5", "-", "-", "-", "-", "-", "determined"]
    assert "determined: the exact values leave one possible value" in result.out
    assert "exact: " not in result.out
    assert "simulated release" in result.out
    rows = list(csv.DictReader(io.StringIO(summary("--format", "csv", "--prob", "0.975").out)))
    names = "county published mean sd eti97.5_lower eti97.5_upper ess_bulk ess_tail rhat determined"
    assert (list(rows[0]), rows[0]["eti97.5_upper"]) == (names.split(), "19.0")
    assert (rows[2]["rhat"], rows[2]["determined"]) == ("", "True")
    found = json.loads(summary("--format", "json").out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    told = {"prob": 0.95, "interval": "equal-tailed", "converged": True, "simulated": True}
    assert {name: found[name] for name in told} == told
    assert found["rows"][2] == {
        "county": "Lake", "published": 5.0, "mean": 5.0, "sd": 0.0, "lower": 5.0, "upper": 5.0,
        "ess_bulk": None, "ess_tail": None, "rhat": None, "determined": True,
    }  # fmt: skip


def test_queries_and_counts_can_be_named(run):
    x = draws()
    summary = saved(run, x=x, y=x + 1, rate=x * 0.5)
    assert "posterior of y" in summary("--var", "y").out
    failed(summary("--var", "beta1"), "there is no variable 'beta1' in the posterior; there are 'x', 'y', 'rate'")
    states = summary("--query", "totals:state").out
    assert "totals:state" in states
    rows = [line.split() for line in states.splitlines()]
    # Their exact value, and not 30.00 with a standard deviation of 0.00.
    assert ["IL", "-", "30", "-", "-", "-", "-", "-", "exact"] in rows
    assert ["IN", "-", "5", "-", "-", "-", "-", "-", "exact"] in rows
    assert "exact: published exactly, or a sum of such values" in states
    assert "total  " in summary("--query", "total").out
    failed(summary("--query", "totals:region"), "region")
    assert summary("--query", "medians:county").status == 2
    for prob in ("0", "1", "nan"):
        failed(summary("--prob", prob), "--prob")


def test_parameters_and_files_that_are_no_posterior(run):
    x = draws()
    beta = xr.DataArray(x.values[..., 0] / 1000, dims=("chain", "draw"))
    effect = xr.DataArray(x.values / 10, dims=("chain", "draw", "county"), coords={"county": TABLE["county"]})
    summary = saved(run, beta1=beta, effect=effect)
    assert "other variables: beta1, effect (--var NAME)" in summary().out
    lines = summary("--var", "beta1", "--prob", "0.9").out.splitlines()
    assert lines[0].startswith("posterior of beta1, 4 chains of 250 draws: mean, standard deviation, 90% equal-tailed")
    assert lines[2].split() == ["parameter", "mean", "sd", "[90%", "90%]", "ess", "rhat"]
    # 0.000 to 0.019 in steps of 0.001, equally often.
    assert lines[3].split()[:5] == ["beta1", "0.0095", "0.005766", "0", "0.018"]
    assert "determined" not in summary("--var", "effect").out
    found = json.loads(summary("--var", "effect", "--format", "json").out)
    assert [row["county"] for row in found["rows"]] == ["Adams", "Cook", "Lake"]
    np.testing.assert_allclose([row["mean"] for row in found["rows"]], [0.95, 2.05, 0.5])
    assert "counts" not in found
    failed(summary("--var", "beta1", "--query", "total"), "--query is about counts, and beta1 is none")
    release().to_netcdf("release.nc")
    failed(run("summary", "release.nc"), "no posterior of bayesdp: the group 'posterior' is missing")
    failed(run("summary", "noisy.csv"), "no netCDF-4 file")
    failed(run("summary", "nothing.nc"), "there is no file 'nothing.nc'")


def test_a_report_is_written_and_the_status_tells_of_convergence(run):
    Path("truth.csv").write_text("county,count\nAdams,10\nCook,20\nLake,5\n")
    for converged, status in ((1, 0), (0, 3)):
        own = tree(converged=converged)
        free = own["posterior"]["x"].isel(chain=0, draw=0, drop=True) * float("nan")
        found = {f"x_{name}": free for name in ("ess_bulk", "ess_tail", "rhat")}  # the page wants to see them
        own["diagnostics"] = xr.DataTree(own["diagnostics"].to_dataset().assign(found))
        own.to_netcdf("posterior.nc", engine="h5netcdf")
        made = ("report", "posterior.nc", "--title", "Counties <1>", "--truth", "truth.csv", "-o", "report.html")
        result = run(*made, *(["--force"] if status else []))
        assert result.status == status, result.err
        assert "Counties &lt;1&gt;" in Path("report.html").read_text()
        assert ("Do not report these results. R-hat up to 1.2" in result.err) is (status == 3)
        failed(run("report", "posterior.nc", "-o", "report.html"), "exists already")
    result = run("summary", "posterior.nc")  # that has not converged
    assert result.status == 3
    assert "!!  Do not report these results. Draw more" in result.err
    assert "R-hat up to 1.2" in result.out
    assert "!!  Do not report these results. R-hat up to 1.2" in run("summary", "posterior.nc", "--format", "csv").err
    assert result.out == run("summary", "posterior.nc", "--var", "x").out
    for arguments, words in (
        ("missing.nc -o r.html", "there is no file 'missing.nc'"),
        ("noisy.csv -o r.html", "no netCDF-4 file"),
        ("noisy.csv -o r.pdf", "to an .html file, got 'r.pdf'"),
        ("noisy.csv -o r.html --prob 95", "--prob"),
    ):
        failed(run("report", *arguments.split()), words)

"""``bayesdp test``: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import xarray as xr

import bayesdp as bdp
from bayesdp.significance import odds_ratio_test_from_release, odds_ratio_test_from_releases
from tests.cli.conftest import failed

TABLE = xr.DataArray(
    [[12, 30], [25, 17]], dims=("sex", "code"), coords={"sex": ["men", "women"], "code": [1, 2]}, name="count"
)
MARGINS = bdp.Margins(TABLE, ["sex"], ["code"])
EXACT = [bdp.Exact(bdp.Margins(TABLE, [dim]), TABLE.sum([o for o in TABLE.dims if o != dim])) for dim in TABLE.dims]


def lattice(name, epsilon, seed=1):
    made = bdp.LatticeLaplace(MARGINS, epsilon=epsilon).release(TABLE, rng=np.random.default_rng(seed))
    made.to_netcdf(name)
    return made


@pytest.fixture
def release(run):
    return lattice("square.nc", 0.25)


@pytest.fixture
def answered(run):
    return lambda *arguments: json.loads(run("test", *arguments, "--format", "json").out)


def test_the_result_in_words_and_of_several_releases(run, answered, release):
    result = run("test", "square.nc", "--alternative", "less", "--seed", "3")
    assert result.status == 0, result.err
    expected = odds_ratio_test_from_release(release, "less", rng=np.random.default_rng(3))
    assert f"p-value  {expected.pvalue:.6g}  (alternative: less, null: 1)" in result.out
    low, high = expected.confidence_interval(0.95)
    for words in (
        f"95% confidence interval  {low:.6g} to {high:.6g}", f"estimate  {expected.estimate:.6g}  (median-unbiased)",
        "x11 at sex=men, code=1", "uniformly most powerful among the unbiased tests that satisfy Semi-DP with f of (1, 0)-DP",
        repr(expected.uniform), "Keep this result", "whoever chooses the seed chooses the p-value", "simulated release",
    ):  # fmt: skip
        assert words in result.out
    more = lattice("more.nc", 0.5, seed=2)
    found = answered("square.nc", "more.nc", "--seed", "3")
    expected = odds_ratio_test_from_releases([release, more], "two-sided", rng=np.random.default_rng(3))
    assert (found["pvalue"], found["uniform"]) == (expected.pvalue, expected.uniform)
    assert (found["optimal"], found["simulated"]) == (False, True)
    words = run("test", "square.nc", "more.nc", "--seed", "3").out
    assert expected.claim in words
    assert "a mean of 2 noisy corners with weights 0.2, 0.8" in words
    assert "uniformly most powerful" not in words


def test_the_result_as_json_and_in_a_file(run, release):
    options = "--format json --null 0.5 --level 0.9 -o out.json --seed 4 --alternative greater"
    result = run("test", "square.nc", *options.split())
    assert result.status == 0, result.err
    found = json.loads(result.out)
    assert found == json.loads(Path("out.json").read_text())
    expected = odds_ratio_test_from_release(release, null=0.5, rng=np.random.default_rng(4))
    for name in ("pvalue", "estimate", "uniform"):
        assert found[name] == getattr(expected, name)
    assert found["statistic"] == found["published"] + found["uniform"]
    low = expected.confidence_interval(0.9).low
    assert found["interval"] == {"level": 0.9, "low": low, "high": None, "empty": False}
    assert (found["rows"], found["column"], found["optimal"], found["simulated"]) == ([42, 42], 37, True, True)
    failed(run("test", "square.nc", "-o", "out.json"), "out.json")
    assert run("test", "square.nc", "-o", "out.json", "--force").status == 0
    assert json.loads(Path("out.json").read_text())["seed"] is None


def test_two_sided_by_default_and_another_run_draws_another_uniform(answered, release):
    found = answered("square.nc", "--seed", "3")
    expected = odds_ratio_test_from_release(release, "two-sided", rng=np.random.default_rng(3))
    assert (found["alternative"], found["pvalue"]) == ("two-sided", expected.pvalue)
    assert 0.0 < found["interval"]["low"] < found["estimate"] < found["interval"]["high"]
    greater = odds_ratio_test_from_release(release, "greater", rng=np.random.default_rng(3)).pvalue
    assert expected.pvalue == pytest.approx(2 * min(greater, 1 - greater))
    other = answered("square.nc")["uniform"]
    assert abs(other) <= 0.5
    assert other != found["uniform"]
    # At a huge epsilon nothing but the uniform is added. The estimate is median-unbiased, by SciPy's noncentral law.
    lattice("plain.nc", 50.0)
    found = answered("plain.nc", "--seed", "5")
    assert found["published"] == 12.0
    v = 0.5 - found["uniform"]  # the share of P(X = x) that counts as larger
    at = scipy.stats.nchypergeom_fisher(84, 42, 37, found["estimate"])
    assert at.sf(12) + v * at.pmf(12) == pytest.approx(0.5, abs=1e-9)


def test_labels_that_are_numbers_and_an_interval_that_holds_nothing(run, answered, release):
    found = answered("square.nc", "--cell", "sex=women", "--cell", "code=1")
    assert found["cell"] == "sex=women, code=1"
    assert found["published"] == float(release.values.sel(sex="women", code=1))
    far = bdp.Measured(
        bdp.Identity(TABLE), TABLE + 60.25 * np.array([[1, -1], [-1, 1]]), bdp.noise.ProjectedGaussian(2.0)
    )
    bdp.Release.from_published(TABLE, [far], EXACT).to_netcdf("far.nc")  # far outside the margins
    result = run("test", "far.nc")
    assert result.status == 0, result.err
    assert "empty" in result.out
    assert "uniform added" not in result.out
    found = answered("far.nc")
    assert (found["interval"]["empty"], found["uniform"]) == (True, None)


def test_bad_input_is_one_line(released, release):
    for arguments, message in (
        ("square.nc --level 95", "--level"),
        ("square.nc --null 0", "null"),
        ("square.nc --cell sex=girls --cell code=1", "'girls' of 'sex'"),
        ("square.nc --cell sex=men", "a label for each of 'sex', 'code'"),
        ("square.nc --cell men", "NAME=VALUE"),
        ("square.nc --seed -1", "--seed"),
        ("square.nc --alternative more", "--alternative"),
        ("none.nc", "there is no file 'none.nc'"),
        ("noisy.csv", "there is no file 'noisy.noise.json'"),
        ("square.nc square.nc", "square.nc is given twice"),
        ("release.nc", "about one of 3 x 2 (county, education)"),
    ):
        failed(released("test", *arguments.split()), message)

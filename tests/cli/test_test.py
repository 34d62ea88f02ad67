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
CORNER = np.array([[1, -1], [-1, 1]])
LAW = scipy.stats.hypergeom(84, 42, 37)


def lattice(name, epsilon, seed=1):
    made = bdp.LatticeLaplace(MARGINS, epsilon=epsilon).release(TABLE, rng=np.random.default_rng(seed))
    made.to_netcdf(name)
    return made


def published(name, corner, sigma):
    """With a corner as it is given, in the place of 12."""
    part = bdp.Measured(bdp.Identity(TABLE), TABLE + (corner - 12) * CORNER, bdp.noise.ProjectedGaussian(sigma))
    bdp.Release.from_published(TABLE, [part], EXACT).to_netcdf(name)


@pytest.fixture
def release(run):
    return lattice("square.nc", 0.25)


@pytest.fixture
def answered(run):
    return lambda *arguments: json.loads(run("test", *arguments, "--format", "json").out)


def test_the_result_in_words(run, release):
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
    """As R's fisher.test, with an interval that is bounded on both sides and holds the estimate."""
    found = answered("square.nc", "--seed", "3")
    expected = odds_ratio_test_from_release(release, "two-sided", rng=np.random.default_rng(3))
    assert (found["alternative"], found["pvalue"]) == ("two-sided", expected.pvalue)
    assert 0.0 < found["interval"]["low"] < found["estimate"] < found["interval"]["high"]
    greater = odds_ratio_test_from_release(release, "greater", rng=np.random.default_rng(3)).pvalue
    assert expected.pvalue == pytest.approx(2 * min(greater, 1 - greater))
    other = answered("square.nc")["uniform"]
    assert abs(other) <= 0.5
    assert other != found["uniform"]


def test_without_noise_it_is_fishers_exact_test(answered):
    """At a huge epsilon nothing but the uniform is added: p-values lie between those of X > x and of X >= x.

    Oracles: scipy.stats.fisher_exact for the p-values, scipy's noncentral hypergeometric law for the estimate.
    """
    lattice("plain.nc", 50.0)
    found = {own: answered("plain.nc", "--seed", "5", "--alternative", own) for own in ("two-sided", "greater", "less")}
    assert found["greater"]["published"] == 12.0
    v = 0.5 - found["greater"]["uniform"]  # the share of P(X = x) that counts as larger
    greater = scipy.stats.fisher_exact(TABLE.values, "greater").pvalue - (1 - v) * LAW.pmf(12)
    less = scipy.stats.fisher_exact(TABLE.values, "less").pvalue - v * LAW.pmf(12)
    assert found["greater"]["pvalue"] == pytest.approx(greater, rel=1e-9)
    assert found["less"]["pvalue"] == pytest.approx(less, rel=1e-9)
    assert found["two-sided"]["pvalue"] == pytest.approx(2 * min(greater, less), rel=1e-9)
    # fisher.test adds up the less likely tables; the margins are equal here, so that both tails are alike.
    both = scipy.stats.fisher_exact(TABLE.values).pvalue
    assert both - 2 * LAW.pmf(12) < found["two-sided"]["pvalue"] < both
    estimate = found["two-sided"]["estimate"]
    at = scipy.stats.nchypergeom_fisher(84, 42, 37, estimate)
    assert at.sf(12) + v * at.pmf(12) == pytest.approx(0.5, abs=1e-9)


def test_labels_that_are_numbers_and_an_interval_that_holds_nothing(run, answered, release):
    found = answered("square.nc", "--cell", "sex=women", "--cell", "code=1")
    assert found["cell"] == "sex=women, code=1"
    assert found["published"] == float(release.values.sel(sex="women", code=1))
    published("far.nc", 72.25, 2.0)  # far outside the margins
    result = run("test", "far.nc")
    assert result.status == 0, result.err
    assert "empty" in result.out
    assert "uniform added" not in result.out
    found = answered("far.nc")
    assert (found["interval"]["empty"], found["uniform"]) == (True, None)


def test_several_releases_make_one_test(run, answered, release):
    """As the function, with less noise than the first alone; and two normal ones as normal noise of both precisions."""
    more = lattice("more.nc", 0.5, seed=2)
    found = answered("square.nc", "more.nc", "--seed", "3")
    expected = odds_ratio_test_from_releases([release, more], "two-sided", rng=np.random.default_rng(3))
    assert (found["pvalue"], found["uniform"]) == (expected.pvalue, expected.uniform)
    assert (found["optimal"], found["simulated"]) == (False, True)
    words = run("test", "square.nc", "more.nc", "--seed", "3").out
    assert expected.claim in words
    assert "a mean of 2 noisy corners with weights 0.2, 0.8" in words
    assert "uniformly most powerful" not in words
    published("wide.nc", 13.5, 2.0)
    published("narrow.nc", 10.5, 1.0)
    found = answered("wide.nc", "narrow.nc", "--alternative", "greater")
    # The noise of a corner is projected on (1, -1, -1, 1) / 2: its variance is sigma**2 / 4, here 1 and 1 / 4.
    assert found["published"] == pytest.approx((13.5 + 4 * 10.5) / 5)
    x = np.arange(0, 38)
    oracle = float(LAW.pmf(x) @ scipy.stats.norm.sf(found["published"], x, np.sqrt(1 / 5)))
    assert found["pvalue"] == pytest.approx(oracle, rel=1e-9)
    assert found["optimal"] is True


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

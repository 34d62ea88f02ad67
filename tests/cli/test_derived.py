"""Shares, ratios, changes, ranks and probabilities by ``bayesdp summary``, of an enumerated fiber; and its output file."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.cli.derived import _number
from bayesdp.fibers import enumerate_fiber
from tests.cli.conftest import failed
from tests.cli.test_summary import saved
from tests.docs.test_how_to import GUIDES, commands
from tests.posterior.conftest import TOTALS, posterior, release
from tests.posterior.test_changes import diagnosed, of_two_tables


@pytest.fixture
def summary(run):
    """``bayesdp summary posterior.nc ...``; and, beside it, other.nc."""
    fiber = enumerate_fiber(release().fiber, 1000).reshape(-1, 3, 2)
    for name, noisy in (("posterior.nc", 1.0), ("other.nc", 2.0)):
        posterior(release(noisy), fiber).to_netcdf(name, engine="h5netcdf")
    return lambda *options: run("summary", "posterior.nc", *options)


def block(text, title):
    """The lines of one quantity, in words."""
    lines = text.split(f"\n{title}\n")[1].split("\n\n")[0].splitlines()
    return [line.split() for line in lines]


def test_the_table_has_a_block_for_each_quantity(summary):
    options = ("--share", "sex=women", "--ratio", "sex=women / sex=men", "--rank", "county", "--top", "2")
    result = summary(*options, "--probability", "county=Adams*sex=women > county=Lake*sex=women", "--prob", "0.9")
    assert result.status == 0, result.err
    assert result.out.splitlines()[0] == "4 chains of 144 draws; 90% equal-tailed intervals"
    head, adams, cook, lake = block(result.out, "share of sex=women by county")
    assert head == "county mean sd [90% 90%] ess rhat".split()
    assert (adams[:5], lake[0]) == ("Adams 0.5 0.3727 0 1".split(), "Lake")
    assert cook[:3] == ["Cook", "0.5", "0.4082"]
    assert "undefined in 144 of 576 draws" in result.out
    assert "3 of 3 numbers have no value in some draws (a denominator of 0)" in result.out
    ranks = block(result.out, "rank of county by share of sex=women")
    assert sum(float(row[1]) for row in ranks[1:]) == pytest.approx(6, abs=0.01)
    top = block(result.out, "top 2 of county by share of sex=women")
    assert top[0] == "county probability mcse ess rhat".split()
    assert sum(float(row[1]) for row in top[1:]) == pytest.approx(2, abs=0.001)
    assert "labels with equal values share the mean of their ranks" in result.out
    larger, equal = block(result.out, "probability of county=Adams*sex=women > county=Lake*sex=women")[1:]
    assert (larger[3], equal[1:4:2]) == ("0.375", ["=", "0.25"])  # 6 and 4 of 16 pairs
    exact = summary("--by", "county")
    assert block(exact.out, "total by county")[1:] == [
        [own, str(n), "-", "-", "-", "-", "-", "exact"]
        for own, n in zip(("Adams", "Cook", "Lake"), TOTALS, strict=True)
    ]
    assert "exact: follows from values that are published exactly; there is nothing to estimate" in exact.out


def test_a_number_has_two_digits_of_its_standard_deviation_at_least():
    shown = {
        (0.250213456, 1.375e-05): "0.250213", (24.534, 5.2): "24.53", (1234567.2, 300.0): "1234567", (1234567.25, 0.5): "1234567.25",
        (-0.5, 0.1): "-0.5", (0.0, 1.0): "0", (math.nan, 1.0): "-", (12.3456, math.nan): "12.35", (1e-9, 1.0): "1e-09",
    }  # fmt: skip
    assert {own: _number(*own) for own in shown} == shown


def test_csv_with_label_columns_and_json(summary):
    result = summary("--share", "sex=women", "--by", "county", "--sum", "sex=women - sex=men", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert list(rows[0])[:6] == ["part", "county", "mean", "sd", "eti95_lower", "eti95_upper"]
    assert [row["county"] for row in rows] == ["Adams", "Cook", "Lake"] * 2
    assert float(rows[0]["mean"]) == pytest.approx(0.0, abs=1e-12)
    assert rows[3]["part"] == "share of sex=women by county"
    ratio = summary("--ratio", "sex=women / sex=men", "--format", "csv")
    assert "no value in some draws" in ratio.err  # which is said, although not in the file
    found = json.loads(summary("--probability", "sex=women > 3", "--format", "json").out)
    assert found["rows"][0]["event"] == "sex=women > 3"
    assert found["rows"][0]["sd"] is None
    assert (found["prob"], found["simulated"]) == (0.95, False)
    tree = enumerate_fiber(release().fiber, 1000).reshape(-1, 3, 2)
    assert found["rows"][0]["mean"] == pytest.approx((tree[..., 0].sum(axis=1) > 3).mean())


def test_changes_since_another_posterior_or_table(summary, run):
    result = summary("--change", "other.nc", "--share", "sex=women", "--by", "county", "--rank", "county")
    assert result.status == 0, result.err
    titles = ["change of {}", "relative change of {}", "probability of change of {} > 0"]
    for title in titles:
        assert f"\n{title.format('share of sex=women')} by county\n" in result.out
    assert "rank of county by change of share of sex=women" in result.out
    assert (
        "two posteriors of independent releases: each chain of one is paired with the next chain of the other"
        in result.out
    )
    fiber = enumerate_fiber(release().fiber, 1000).reshape(-1, 3, 2)
    posterior(release(2.0), fiber, name="counts").to_netcdf("counts.nc", engine="h5netcdf")
    result = summary("--change", "counts.nc", "--sum", "sex=women")
    assert (result.status, "change: table x since table counts" in result.out) == (0, True)
    failed(summary("--change", "./posterior.nc"), "./posterior.nc is given twice")
    failed(summary("--change", "nothing.nc"), "there is no file 'nothing.nc'")
    failed(summary("--change", "table:y"), "there is no table 'y' in the posterior; there are 'x'")
    failed(run("summary", "other.nc", "--change", "noisy.csv"), "no netCDF-4 file")


def test_labels_that_are_named_as_columns(run):
    frame = bdp.Frame.of({"status": ["well", "ill"], "mean": ["low", "high"]})
    measured = bdp.Measured(bdp.Identity(frame), [[1, 2], [3, 4]], bdp.noise.DiscreteGaussian(2.0))
    own = posterior(bdp.Release.from_published(frame, [measured]), np.arange(40).reshape(10, 2, 2))
    own.to_netcdf("odd.nc", engine="h5netcdf")
    result = run("summary", "odd.nc", "--by", "status*mean", "--share", "status=ill")
    assert result.status == 0, result.err
    head, *rows = block(result.out, "share of status=ill by status*mean")
    assert head[:5] == "status (label) mean (label) mean".split()
    assert [row[:2] for row in rows] == [["ill", "low"], ["ill", "high"]]


def test_a_change_since_a_table_names_both(run):
    of_two_tables(enumerate_fiber(release().fiber, 1000).reshape(-1, 3, 2)).to_netcdf("both.nc", engine="h5netcdf")
    for table, later in (("x", "y"), ("y", "x")):
        failed(
            run("summary", "both.nc", "--change", f"table:{table}"),
            f"needs --var, the table that has changed since: bayesdp summary both.nc --var {later} --change table:{table}",
        )
        result = run("summary", "both.nc", "--var", later, "--change", f"table:{table}", "--sum", "sex=women")
        assert (result.status, f"\nchange: table {later} since table {table}\n" in result.out + "\n") == (0, True)


def test_a_change_since_what_did_not_converge_has_the_exit_status_of_it(summary):
    fiber = enumerate_fiber(release().fiber, 1000).reshape(-1, 3, 2)
    diagnosed(posterior(release(2.0), fiber), 0).to_netcdf("poor.nc", engine="h5netcdf")
    for form in ("table", "csv", "json"):
        result = summary("--share", "sex=women", "--change", "poor.nc", "--format", form)
        assert (result.status, "The posterior that --change names did not converge" in result.err) == (3, True)
        assert "did not converge: R-hat up to 1.9" in (result.err if form == "csv" else result.out)


def test_wrong_options_are_one_line(summary):
    for options, words in (
        (("--share", "sex=woman"), "'sex' has no label 'woman'; it has 'women', 'men'; did you mean 'women'?"),
        (("--share", "women"), "cells are written as 'DIM=LABEL'"),
        (("--share", "sex=women", "--by", "cunty"), "did you mean 'county'?"),
        (("--share", "sex=women", "--share", "sex=women"), "a quantity is asked for twice"),
        (("--ratio", "sex=women"), "--ratio is written as 'A / B'"),
        (("--probability", "sex=women"), "a comparison has one of >="),
        (("--top", "0"), "--top and --ascending are about --rank DIM"),
        (("--top", "3"), "--top and --ascending are about --rank DIM"),
        (
            ("--rank", "county", "--top", "9"),
            "k must be less than the number of ranked labels of 'county', 3, got 9",
        ),
        (("--rank", "place"), "'place' is neither a dimension nor a group label"),
        (("--by", "county", "--query", "total"), "--query is a summary of its own"),
        (("--by", "county", "--var", "y"), "--var: the posterior has no table 'y'; it has 'x'"),
        (("--by", "county", "--prob", "2"), "--prob"),
    ):
        failed(summary(*options), words)


def test_the_commands_of_the_page_run(summary, run):
    Path("other.nc").rename("before.nc")
    own = commands(GUIDES / "derived-quantities.md")
    assert len(own) == 7
    assert [run(*arguments).status for arguments in own] == [0] * 7
    assert Path("shares.csv").read_text().startswith("part,county,mean,sd,eti95_lower,eti95_upper,")


def test_an_output_file_is_written_whole_and_not_replaced(summary, run):
    printed = summary().out
    result = summary("-o", "all.txt")
    assert (result.status, result.out, Path("all.txt").read_text()) == (0, "written to all.txt\n", printed)
    failed(summary("-o", "all.txt"), "'all.txt' exists already; pass overwrite=True (--force) to replace it")
    assert summary("-o", "all.txt", "--force", "--by", "county").status == 0
    assert "total by county" in Path("all.txt").read_text()
    assert summary("--share", "sex=women", "-o", "share.json").status == 0
    assert json.loads(Path("share.json").read_text())["rows"][0]["part"] == "share of sex=women"
    assert summary("-o", "all.csv").status == 0
    assert Path("all.csv").read_text() == summary("--format", "csv").out
    failed(summary("-o", "all.pdf"), "a summary is written to a file that ends in .txt or .csv or .json, got 'all.pdf'")
    failed(
        summary("-o", "new.json", "--format", "csv"),
        "a summary with --format csv is written to a file that ends in .csv",
    )
    failed(summary("-o", "nowhere/all.csv"), "the folder 'nowhere' does not exist")
    poor = saved(run, converged=0)("-o", "poor.txt")
    assert (poor.status, "Do not report these results. R-hat up to 1.2" in poor.err) == (3, True)

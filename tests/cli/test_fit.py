"""``bayesdp fit``: from one or several releases to a saved posterior, and what happens on Ctrl-C."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from unittest.mock import Mock

import numba
import numpy as np
import pytensor
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp._chains import chain_statistics
from bayesdp.cli.files import load_file, warn_of_open_caches
from bayesdp.inference.interrupt import StopOnCtrlC
from bayesdp.mechanisms.composition import as_one
from bayesdp.posterior import releases_of_tables
from tests.cli.conftest import failed, posterior, started

QUICK = tuple("--chains 2 --draws 400 --tune 100 --seed 1 --cores 1 --quiet".split())
FEW = tuple("--chains 2 --draws 20 --tune 1 --seed 1 --cores 1 --quiet".split())
OUT = ("-o", "posterior.nc")
MODEL = """
import pymc as pm
import bayesdp as bdp

def build_model(release):
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, COUNTS)
    return model
"""
FLAT = MODEL.replace("COUNTS", 'bdp.FlatCounts("people", dims=release.dims)')
SHARE = MODEL.replace("COUNTS", 'pm.BetaBinomial("successes", 1.0, 1.0, 50) / 50')


@pytest.mark.system
def test_from_a_release_to_a_summary(released):
    result = released("fit", "release.nc", *QUICK, *OUT)
    assert result.status == 0, result.err
    assert "2 chains of 400 draws written to posterior.nc" in result.out
    tree = posterior()
    x = tree["posterior"]["x"]
    assert ((x.sum("education") - [16, 30, 10]) == 0).all()
    assert (x >= 0).all()
    assert bdp.Release.from_dataset(tree["release"].to_dataset()) == bdp.Release.from_netcdf("release.nc")
    assert tree.attrs["command"] == "bayesdp fit release.nc " + " ".join(QUICK) + " -o posterior.nc"
    assert tree.attrs["seed"] == "1"
    assert tree["prior"]["x"].sizes == {"chain": 1, "draw": 200, "county": 3, "education": 2}
    assert tree["prior_predictive"]["noisy"].shape == (1, 200, 3, 2)
    assert tree.attrs["prior"].startswith("independent: every cell has a rate of its own\n")
    assert "with shape = 1, mean = 9.33333, collapsed = True\n" in tree.attrs["prior"]
    summary = released("summary", "posterior.nc", "--query", "margins:county")
    rows = [line for line in summary.out.splitlines() if line.endswith(" exact")]
    assert [row.split()[0] for row in rows] == ["Alpha", "Beta", "Gamma"]  # published exactly: the margins by county


def test_the_same_seed_gives_the_same_draws_force_replaces_and_a_run_too_short_to_tell_is_not_shouted_at(released):
    result, summary = released("fit", "release.nc", *FEW, *OUT), released("summary", "posterior.nc")
    assert (result.status, summary.status) == (3, 3)
    assert "The same command with --draws " in result.err
    assert " --resume goes on with these chains. Draw more (--draws, --chains), or look at the model" in result.err
    assert "Too little to judge convergence, and nothing that speaks against it" in result.out
    assert "Too little to judge" in summary.out
    assert "!!" not in result.err + summary.err
    first = posterior()["posterior"]["x"]
    failed(released("fit", "release.nc", *FEW, *OUT), "'posterior.nc' exists already")
    assert released("fit", "release.nc", *FEW, *OUT, "--force", "--hyper", "shape=1").status == 3
    xr.testing.assert_equal(first, posterior()["posterior"]["x"])


def test_a_flat_prior_of_a_model_of_ones_own_has_no_draws_and_that_is_said(released):
    Path("own.py").write_text(FLAT)
    result = released("fit", "release.nc", "--model", "own.py", *FEW, *OUT)
    assert result.status == 3, result.err
    assert "no draws of the prior for the report: the prior is flat" in result.err
    assert "prior" not in posterior().children
    assert posterior().attrs["prior"].startswith("A model of the user's own, own.py:")
    assert "posterior of people" in released("summary", "posterior.nc").out


def test_chains_that_have_not_converged_give_a_banner_and_status_3(released, monkeypatch):
    def apart(draws, told=None):
        return chain_statistics(draws + 100 * np.arange(len(draws))[:, None, None], told)

    monkeypatch.setattr("bayesdp.inference.diagnostics.chain_statistics", apart)
    result = released("fit", "release.nc", *QUICK, *OUT)
    summary = released("summary", "posterior.nc")
    banner = "!!  Do not report these results. "
    assert (result.status, summary.status) == (3, 3)
    assert f"{banner}The same command with --draws MORE --resume goes on with these chains" in result.err
    assert f"{banner}Draw more" in summary.err
    told = result.out + result.err
    assert told.lower().count("not converged") == 1 == (summary.out + summary.err).lower().count("not converged")
    assert "R-hat up to" in told
    assert "The worst of 6 beyond a limit: x[county=" in told


def test_draws_are_saved_though_the_prior_cannot_be_drawn_from(released, monkeypatch):
    for error, words, status in (
        (RuntimeError("no way to draw"), "for the report: no way to draw", 3),
        (KeyboardInterrupt(), "interrupted: all draws were saved; left out: draws of the prior\n", 130),
    ):
        monkeypatch.setattr("bayesdp.inference.add_prior_predictive", Mock(side_effect=error))
        result = released("fit", "release.nc", *FEW, *OUT, "--force")
        assert result.status == status, result.err
        assert words in result.err
        assert posterior()["posterior"]["x"].sizes["chain"] == 2


def test_bad_input_is_one_line_and_status_2(released):
    Path("broken.py").write_text("def build_model(release:\n")
    Path("empty.py").write_text("")
    Path("none.py").write_text("def build_model(release):\n    return 1\n")
    for arguments, *words in (
        ("missing.nc", "there is no file 'missing.nc'"),
        ("noisy.csv", "there is no file 'noisy.noise.json'", "name it with noise= (--noise)"),
        ("release.nc -o p.h5", "to a .nc file, got 'p.h5'"),
        ("release.nc -o release.nc", "exists already", "--force"),
        ("release.nc --hyper shape=0", "shape", "greater than 0"),
        ("release.nc --hyper shape=round", "shape must be a number, got 'round'"),
        ("release.nc --hyper size=1", "no hyperparameter 'size'; it has shape, mean"),
        ("release.nc --hyper shape", "written as NAME=VALUE"),
        ("release.nc --hyper collapsed=maybe", "collapsed must be true or false"),
        ("release.nc --prior hierarchical", "tables of one dimension"),
        ("release.nc --chains 0", "--chains"),
        ("release.nc --cores -1", "--cores"),
        ("release.nc --model missing.py", "there is no file 'missing.py'"),
        ("release.nc --model noisy.csv", "noisy.csv: a model is a Python file"),
        ("release.nc --model broken.py", "broken.py, line 1"),
        ("release.nc --model empty.py", "no function build_model(release)"),
        ("release.nc --model none.py", "must return a pymc.Model, got int"),
        ("release.nc --model none.py --hyper a=1", "--hyper is for the default"),
        ("release.nc --model none.py --prior independent", "not allowed with"),
        ("release.nc --chains 4 --draws 10000000000", "4 chains of 10,000,000,000 draws", "GB of", "--no-memory-check"),
    ):
        failed(released("fit", "-o", "p.nc", *arguments.split()), *words)
        assert not Path("p.nc").exists()


def test_a_release_of_statistics_needs_a_model(run):
    release = bdp.TruncatedLaplace(1.0, 0.02, (0, 1)).release(0.3, rng=1)
    release.to_netcdf("share.nc")
    failed(run("fit", "share.nc", *FEW, *OUT), "release of statistics", "--model")
    assert "release of statistics" in run("test", "share.nc").err
    Path("own.py").write_text(SHARE.replace("coords=release.coords", ""))
    assert run("fit", "share.nc", "--model", "own.py", *FEW, *OUT).status == 3
    shown = run("summary", "posterior.nc").out
    assert "posterior of true_statistic" in shown
    assert f"{float(release.values):.4g}" in shown
    assert run("report", "posterior.nc", "-o", "page.html").status in (0, 3)
    assert "confidential statistic" in Path("page.html").read_text()


# Ctrl-C, noted by `StopOnCtrlC` and raised where nothing is lost.


def press():
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_noted_and_raised_between_draws_and_pressed_again_ends_the_draw(foreground):
    with StopOnCtrlC() as stop:
        stop()
        press()  # no exception here, in the middle of a draw
        assert stop.pressed
        assert not stop.interrupted
        for _ in range(2):  # in this chain, and in one that begins after it
            with pytest.raises(KeyboardInterrupt):
                stop()
        assert stop.interrupted
        assert not stop.given_up
        press()  # the draws have been made: nothing takes them away
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with StopOnCtrlC() as stop:
        stop()
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert (stop.interrupted, stop.given_up) == (True, False)
        for _ in range(3):
            press()
    with StopOnCtrlC() as stop:
        with pytest.raises(KeyboardInterrupt):
            press()
        assert (stop.interrupted, stop.given_up) == (False, True)


def test_ctrl_c_after_the_draws_breaks_off_what_can_be_left_out_and_of_others_nothing(foreground, monkeypatch):
    done = []
    with StopOnCtrlC() as stop:
        stop()
        stop.no_more_draws()
        assert stop.optional(lambda: done.append("first") or done) == ["first"]
        with pytest.raises(ZeroDivisionError):
            stop.optional(lambda: 1 / 0)  # an error is an error
        assert not stop.pressed
        assert not stop.optional(lambda: press() or done.append("not reached"))
        assert not stop.optional(lambda: done.append("left out too"))
        press()  # noted, as it is not in there any more
        assert (stop.pressed, stop.interrupted) == (True, False)
    assert done == ["first"]
    with StopOnCtrlC() as stop:  # Ctrl-C of others is left alone
        stop()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)  # another process: the main one is told
            press()
        assert not stop.pressed
    pressed = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))  # the user's own
    with StopOnCtrlC() as stop:
        stop()
        press()
    assert pressed == [signal.SIGINT]
    assert not stop.pressed


@pytest.mark.system
def test_ctrl_c_in_the_middle_keeps_and_saves_what_was_drawn(released):
    """In processes of their own, which all get the signal; in this one, see `test_resume`."""
    large = "fit release.nc --chains 2 --draws 1000000 --tune 10 --cores 2".split()
    process = started(*large, *OUT, stdout=subprocess.PIPE)
    # A line of progress, as standard error is no terminal: draws are being made.
    while "sampling: " not in (line := process.stderr.readline()):
        assert line, "it ended before it began"
    passed = r"0:0[0-9:]+ passed(, about [0-9:]+ left)?"
    assert re.fullmatch(rf"sampling: [0-9,]+ of 2,000,020 draws \([0-9]+%\), {passed}", line.strip())
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 30.0  # a second or two on a machine that does nothing else
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "only the draws so far were saved" in err
    tree = posterior()
    x = tree["posterior"]["x"]
    assert x.sizes["chain"] in (1, 2)  # PyMC keeps the chains that make chains times draws largest
    assert 10 < x.sizes["draw"] < 1_000_000
    assert f"{x.sizes['chain']} chains of {x.sizes['draw']} draws written" in out
    assert tree.attrs["interrupted"] == 1
    assert tree["diagnostics"].attrs["message"] in out


# Several releases of one table: one posterior, read by summary, report and test.

COUNTY = {"county": ["Alpha", "Beta"]}
CELLS, TOTAL = bdp.Identity(COUNTY), bdp.Exact(bdp.Totals(COUNTY), 20)
ONE = bdp.Release.from_published(COUNTY, [bdp.Measured(CELLS, [7, 12], bdp.noise.DiscreteGaussian(3.0))])
OTHER = bdp.Release.from_published(COUNTY, [bdp.Measured(CELLS, [10, 13], bdp.noise.DiscreteLaplace(2.0))], [TOTAL])


@pytest.mark.system
def test_two_releases_make_one_posterior(run):
    ONE.to_netcdf("one.nc")
    OTHER.to_csv("other.csv")
    result = run("fit", "one.nc", "other.csv", *QUICK, "-o", "posterior.nc")
    assert result.status == 0, result.err
    loaded = posterior()
    assert (loaded["posterior"]["x"].sum("county") == 20).all()
    release = as_one(releases_of_tables(loaded)[0][1])
    assert (release.measurements, release.exact) == ((*ONE.measurements, *OTHER.measurements), OTHER.exact)
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


def test_releases_that_do_not_fit_together(run):
    ONE.to_netcdf("a.nc")
    OTHER.to_netcdf("c.nc")
    shutil.copy("a.nc", "copy.nc")
    for first, labels, total, *words in (
        ("a.nc c.nc", COUNTY, 21, "c.nc and b.nc: exact values contradict one another at total", "is 20", "is 21"),
        (
            "a.nc",
            {"county": ["Beta", "Alpha"]},
            20,
            "a.nc has 'county' as 'Alpha', 'Beta' and b.nc as",
            "in the same order",
        ),
        (
            "a.nc",
            {"county": ["Alpha", "Betta"]},
            20,
            "a.nc and b.nc have different labels of 'county': 'Beta', 'Betta'",
        ),
        ("a.nc", {"state": ["IL"]}, 20, "a.nc has the dimensions 'county' and b.nc 'state'"),
        ("a.nc ./a.nc", COUNTY, 20, "./a.nc is given twice"),
        ("a.nc copy.nc", COUNTY, 20, "copy.nc is a.nc again", "counted twice"),
    ):
        bdp.Release.from_published(labels, exact=[bdp.Exact(bdp.Totals(labels), total)]).to_netcdf(
            "b.nc", overwrite=True
        )
        failed(run("fit", *first.split(), "b.nc", *FEW, "-o", "p.nc"), *words)
        assert not Path("p.nc").exists()


def test_folders_of_compiled_code_that_anybody_can_write_to_are_named(tmp_path, monkeypatch, capsys):
    """As docs/FILES.md says: caches of compiled code can run code."""
    folders = {name: tmp_path / name for name in ("numba", "pytensor", "bayesdp")}
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folders["numba"]))
    monkeypatch.setattr(bdp, "__file__", str(folders["bayesdp"] / "__init__.py"))
    monkeypatch.setattr(type(pytensor.config), "compiledir", folders["pytensor"], raising=False)
    for which in ("absent", *folders, "none"):  # a cache that is not there yet is no concern
        for name, folder in folders.items():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777 if name == which else 0o775)
        if which == "absent":
            folders["numba"].rmdir()
        warn_of_open_caches("fit")
        told = capsys.readouterr().err.splitlines()
        assert len(told) == (which in folders)
        assert not told or f"anybody on this machine can write to {folders[which]} (" in told[0]


def test_the_file_of_a_model_leaves_no_bytecode_beside_it(tmp_path):
    """Of a disk that is full Python 3.13.0 keeps the part for which there was room, and cannot read the model again."""
    (tmp_path / "own.py").write_text("def half(x: int): ...\nanswer = half.__annotations__['x']\n")
    assert (
        load_file(str(tmp_path / "own.py")).answer is int
    )  # and not "int", as under the future statement of our own file
    assert [own.name for own in tmp_path.iterdir()] == ["own.py"]

"""``bayesdp fit``: from a release to a saved posterior, and what happens on Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from bayesdp._chains import chain_statistics
from bayesdp.inference.interrupt import StopOnCtrlC
from bayesdp.mechanisms import TruncatedLaplace
from bayesdp.release import Release
from tests.cli.conftest import failed

IMPORT = ("import", "noisy.csv", "--exact", "margins.csv", "--law", "discrete-gaussian sigma=5", "-o", "release.nc")
QUICK = ("--chains", "2", "--draws", "400", "--tune", "100", "--seed", "1", "--cores", "1", "--quiet")

MODEL = '''
"""A model of one's own."""
import pymc as pm
import bayesdp as bdp

def build_model(release):
    with pm.Model(coords=release.coords) as model:
        counts = bdp.ConfidentialCounts("people", pm.NegativeBinomial.dist(mu=9.0, alpha=1.0), dims=release.dims)
        bdp.observe(release, counts)
    return model
'''

FLAT = """
import pymc as pm
import bayesdp as bdp

def build_model(release):
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.FlatCounts("x", dims=release.dims))
    return model
"""


@pytest.fixture
def released(run):
    assert run(*IMPORT).status == 0
    return run


def posterior(path: str) -> xr.DataTree:
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        return tree.load()


@pytest.mark.system
def test_from_a_release_to_a_summary(released):
    result = released("fit", "release.nc", *QUICK, "-o", "posterior.nc")
    assert result.status == 0, result.err
    assert "2 chains of 400 draws written to posterior.nc" in result.out
    tree = posterior("posterior.nc")
    x = tree["posterior"]["x"]
    np.testing.assert_array_equal(x.sum("education").values[0, 0], [16, 30, 10])
    assert (x >= 0).all()
    assert Release.from_dataset(tree["release"].to_dataset()) == Release.from_netcdf("release.nc")
    assert tree.attrs["command"] == "bayesdp fit release.nc " + " ".join(QUICK) + " -o posterior.nc"
    assert tree.attrs["seed"] == "1"
    assert tree["prior"]["x"].sizes == {"chain": 1, "draw": 200, "county": 3, "education": 2}
    assert tree["prior_predictive"]["noisy"].shape == (1, 200, 3, 2)
    assert tree.attrs["prior"].startswith("independent: every cell has a rate of its own\n")
    assert "with shape = 1, mean = 9.33333, collapsed = True\n" in tree.attrs["prior"]
    summary = released("summary", "posterior.nc", "--query", "margins:county")
    assert summary.status == 0, summary.err
    rows = [line for line in summary.out.splitlines() if line.endswith(" exact")]
    assert [row.split()[0] for row in rows] == ["Alpha", "Beta", "Gamma"]  # published exactly: the margins by county


def test_the_same_seed_gives_the_same_draws_and_force_replaces(released):
    assert released("fit", "release.nc", *QUICK, "-o", "a.nc").status == 0
    first = posterior("a.nc")["posterior"]["x"]
    again = released("fit", "release.nc", *QUICK, "-o", "a.nc")
    assert again.status == 2
    assert "'a.nc' exists already" in again.err
    assert released("fit", "release.nc", *QUICK, "-o", "a.nc", "--force", "--hyper", "shape=1").status == 0
    xr.testing.assert_equal(first, posterior("a.nc")["posterior"]["x"])


@pytest.mark.system
def test_a_model_of_ones_own(released):
    Path("own.py").write_text(MODEL)
    result = released("fit", "release.nc", "--model", "own.py", *QUICK, "-o", "posterior.nc")
    assert result.status == 0, result.err
    summary = released("summary", "posterior.nc")
    assert summary.status == 0, summary.err
    assert "posterior of people" in summary.out
    assert posterior("posterior.nc").attrs["prior"].startswith("A model of the user's own, own.py:")


def test_a_flat_prior_has_no_draws_and_that_is_said(released):
    Path("own.py").write_text(FLAT)
    result = released("fit", "release.nc", "--model", "own.py", *QUICK, "-o", "posterior.nc")
    assert result.status == 0, result.err
    assert "no draws of the prior for the report: the prior is flat" in result.err
    assert "prior" not in posterior("posterior.nc").children


def test_chains_that_have_not_converged_give_a_banner_and_status_3(released, monkeypatch):
    def apart(draws, told=None):
        return chain_statistics(draws + 100 * np.arange(len(draws))[:, None, None], told)

    monkeypatch.setattr("bayesdp.inference.diagnostics.chain_statistics", apart)
    result = released("fit", "release.nc", *QUICK, "-o", "posterior.nc")
    assert result.status == 3
    assert (
        "!!  Do not report these results. The same command with --draws MORE --resume goes on with these chains"
        in result.err
    )
    told = result.out + result.err
    assert told.lower().count("not converged") == 1
    assert "R-hat up to" in told
    assert "The worst of 6 beyond a limit: x[county=" in told
    summary = released("summary", "posterior.nc")
    assert (summary.out + summary.err).lower().count("not converged") == 1
    assert "!!  Do not report these results. Draw more" in summary.err


def test_a_run_too_short_to_tell_is_not_shouted_at(released):
    few = ("--chains", "2", "--draws", "20", "--tune", "1", "--seed", "1", "--cores", "1", "--quiet")
    result = released("fit", "release.nc", *few, "-o", "posterior.nc")
    assert result.status == 3
    assert "The same command with --draws " in result.err
    assert " --resume goes on with these chains. Draw more (--draws, --chains), or look at the model" in result.err
    assert "Too little to judge convergence, and nothing that speaks against it" in result.out
    summary = released("summary", "posterior.nc")
    assert summary.status == 3
    assert "!!" not in result.err + summary.err
    assert "Too little to judge" in summary.out


def test_draws_are_saved_though_the_prior_cannot_be_drawn_from(released, monkeypatch):
    for error, words, status in (
        (RuntimeError("no way to draw"), "for the report: no way to draw", 0),
        (KeyboardInterrupt(), "interrupted: all draws were saved; left out: draws of the prior\n", 130),
    ):

        def fails(*args, _error=error, **kwargs):
            raise _error

        monkeypatch.setattr("bayesdp.inference.add_prior_predictive", fails)
        result = released("fit", "release.nc", *QUICK, "-o", "posterior.nc", "--force")
        assert result.status == status, result.err
        assert words in result.err
        assert posterior("posterior.nc")["posterior"]["x"].sizes["chain"] == 2


def test_a_run_that_does_not_fit_into_memory_is_one_line(released):
    result = released("fit", "release.nc", "--chains", "4", "--draws", str(10**10), "--tune", "1", "-o", "posterior.nc")
    assert result.status == 2
    assert "bayesdp fit: error: " in result.err
    for word in ("4 chains of 10,000,000,000 draws", "GB of memory", "--draws", "--no-memory-check"):
        assert word in result.err


def test_draws_in_the_file_are_small_and_the_same(released):
    many = ("--chains", "2", "--draws", "2000", "--tune", "50", "--seed", "1", "--cores", "1", "--quiet")
    assert released("fit", "release.nc", *many, "-o", "posterior.nc").status in (0, 3)
    with h5py.File("posterior.nc") as file:
        for name in ("posterior/x", "prior/x", "prior_predictive/noisy"):
            assert file[name].compression == "gzip"
            assert file[name].shuffle
        # 24,000 counts below 128, with all there is of 1 byte each, take less than that.
        assert file["posterior/x"].id.get_storage_size() < 24_000
    x = posterior("posterior.nc")["posterior"]["x"]
    assert x.dtype == np.int64
    x.load()
    assert ((x.sum("education") - [16, 30, 10]) == 0).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "missing.nc", "-o", "p.nc"], ["there is no file 'missing.nc'"]),
        (["fit", "noisy.csv", "-o", "p.nc"], ["there is no file 'noisy.noise.json'", "name it with noise= (--noise)"]),
        (["fit", "release.nc", "-o", "p.h5"], ["to a .nc file, got 'p.h5'"]),
        (["fit", "release.nc", "-o", "release.nc"], ["exists already", "--force"]),
        (["fit", "release.nc", "--hyper", "shape=0", "-o", "p.nc"], ["shape", "greater than 0"]),
        (["fit", "release.nc", "--hyper", "shape=round", "-o", "p.nc"], ["shape must be a number, got 'round'"]),
        (["fit", "release.nc", "--hyper", "size=1", "-o", "p.nc"], ["no hyperparameter 'size'; it has shape, mean"]),
        (["fit", "release.nc", "--hyper", "shape", "-o", "p.nc"], ["written as NAME=VALUE"]),
        (["fit", "release.nc", "--hyper", "collapsed=maybe", "-o", "p.nc"], ["collapsed must be true or false"]),
        (["fit", "release.nc", "--prior", "flat", "-o", "p.nc"], ["invalid choice: 'flat'"]),
        (["fit", "release.nc", "--prior", "hierarchical", "-o", "p.nc"], ["tables of one dimension"]),
        (["fit", "release.nc", "--chains", "0", "-o", "p.nc"], ["--chains"]),
        (["fit", "release.nc", "--cores", "-1", "-o", "p.nc"], ["--cores"]),
        (["fit", "release.nc", "--model", "missing.py", "-o", "p.nc"], ["there is no file 'missing.py'"]),
        (["fit", "release.nc", "--model", "noisy.csv", "-o", "p.nc"], ["noisy.csv: a model is a Python file"]),
        (["fit", "release.nc", "--model", "broken.py", "-o", "p.nc"], ["broken.py, line 1"]),
        (["fit", "release.nc", "--model", "empty.py", "-o", "p.nc"], ["no function build_model(release)"]),
        (["fit", "release.nc", "--model", "none.py", "-o", "p.nc"], ["must return a pymc.Model, got int"]),
        (["fit", "release.nc", "--model", "none.py", "--hyper", "a=1", "-o", "p.nc"], ["--hyper is for the default"]),
        (["fit", "release.nc", "--model", "none.py", "--prior", "independent", "-o", "p.nc"], ["not allowed with"]),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2(arguments, words, released):
    Path("broken.py").write_text("def build_model(release:\n")
    Path("empty.py").write_text("")
    Path("none.py").write_text("def build_model(release):\n    return 1\n")
    failed(released(*arguments), *words)
    assert not Path("p.nc").exists()


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal; it is ignored where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_noted_and_raised_between_draws(ctrl_c):
    with StopOnCtrlC() as stop:
        stop()
        signal.raise_signal(signal.SIGINT)  # no exception here, in the middle of a draw
        assert stop.pressed
        assert not stop.interrupted
        for _ in range(2):  # in this chain, and in one that begins after it
            with pytest.raises(KeyboardInterrupt):
                stop()
        assert stop.interrupted
        assert not stop.given_up
        signal.raise_signal(signal.SIGINT)  # the draws have been made: nothing takes them away
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_pressed_again_ends_the_draw_and_no_more(ctrl_c):
    with StopOnCtrlC() as stop:
        stop()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.interrupted
        assert not stop.given_up
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_after_the_draws_breaks_off_what_can_be_left_out_only(ctrl_c):
    done = []
    with StopOnCtrlC() as stop:
        stop()
        stop.no_more_draws()
        assert stop.optional(lambda: done.append("first") or done) == ["first"]
        assert not stop.pressed

        def pressed():
            signal.raise_signal(signal.SIGINT)
            done.append("not reached")

        assert not stop.optional(pressed)
        assert not stop.optional(lambda: done.append("left out too"))
        signal.raise_signal(signal.SIGINT)
        assert stop.pressed
        assert not stop.interrupted
    assert done == ["first"]


def test_an_error_in_what_can_be_left_out_is_an_error(ctrl_c):
    with StopOnCtrlC() as stop:
        stop.no_more_draws()
        with pytest.raises(ZeroDivisionError):
            stop.optional(lambda: 1 / 0)
        signal.raise_signal(signal.SIGINT)  # noted, as it is not in there any more
        assert stop.pressed


def test_ctrl_c_before_the_first_draw_is_an_interrupt_like_any_other(ctrl_c):
    with StopOnCtrlC() as stop:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not stop.interrupted
        assert stop.given_up


def test_ctrl_c_in_another_process_is_left_to_the_main_one(monkeypatch, ctrl_c):
    with StopOnCtrlC() as stop:
        stop()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        signal.raise_signal(signal.SIGINT)
        assert not stop.pressed


def test_ctrl_c_that_means_something_of_the_users_own_is_left_alone(ctrl_c):
    pressed = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    with StopOnCtrlC() as stop:
        stop()
        signal.raise_signal(signal.SIGINT)
    assert pressed == [signal.SIGINT]
    assert not stop.pressed


COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
from bayesdp.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.system
def test_ctrl_c_in_the_middle_keeps_and_saves_what_was_drawn(released):
    """In processes of their own, which all get the signal; in this one, see `test_resume`."""
    arguments = (
        "fit",
        "release.nc",
        "--chains",
        "2",
        "--draws",
        "1000000",
        "--tune",
        "10",
        "--cores",
        "2",
        "-o",
        "p.nc",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert process.stderr is not None
    # A line of progress, as standard error is no terminal: draws are being made.
    while "sampling: " not in (line := process.stderr.readline()):
        assert line, "it ended before it began"
    assert re.fullmatch(
        r"sampling: [0-9,]+ of 2,000,020 draws \([0-9]+%\), 0:0[0-9:]+ passed(, about [0-9:]+ left)?", line.strip()
    )
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 30.0  # a second or two on a machine that does nothing else
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "only the draws so far were saved" in err
    tree = posterior("p.nc")
    x = tree["posterior"]["x"]
    assert x.sizes["chain"] in (1, 2)  # PyMC keeps the chains that make chains times draws largest
    assert 10 < x.sizes["draw"] < 1_000_000
    assert f"{x.sizes['chain']} chains of {x.sizes['draw']} draws written" in out
    assert tree.attrs["interrupted"] == 1
    assert tree["diagnostics"].attrs["message"] in out


STATISTIC = """
import pymc as pm
import bayesdp as bdp

def build_model(release):
    with pm.Model() as model:
        bdp.observe(release, pm.BetaBinomial("successes", 1.0, 1.0, 50) / 50)
    return model
"""


def test_a_release_of_statistics_needs_a_model(run, tmp_path):
    release = TruncatedLaplace(1.0, 0.02, (0, 1)).release(0.3, rng=1)
    release.to_netcdf(tmp_path / "share.nc")
    result = run("fit", "share.nc", *QUICK, "-o", "posterior.nc")
    assert result.status == 2
    assert "release of statistics" in result.err
    assert "--model" in result.err
    assert "release of statistics" in run("test", "share.nc").err
    (tmp_path / "own.py").write_text(STATISTIC)
    assert run("fit", "share.nc", "--model", "own.py", *QUICK, "-o", "posterior.nc").status in (0, 3)
    shown = run("summary", "posterior.nc").out
    assert "posterior of true_statistic" in shown
    assert f"{float(release.values):.4g}" in shown
    assert run("report", "posterior.nc", "-o", "page.html").status in (0, 3)
    assert "confidential statistic" in (tmp_path / "page.html").read_text()

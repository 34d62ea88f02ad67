"""``bayesdp calibrate``: a user's file in, ranks, verdict and report out."""

import os
import signal
import sys
from pathlib import Path

import pytest
import xarray as xr

from bayesdp.calibration import runs, sbc
from tests.calibration import cluster, models
from tests.cli.conftest import posterior, started
from tests.cli.kills import _session

MODEL = """
import numpy as np
import pymc as pm
import bayesdp as bdp

LABELS = {"county": ["Alpha", "Beta", "Gamma"]}
MECHANISM = bdp.LatticeLaplace(bdp.Totals(LABELS), epsilon=0.1)
ASSUMED = EPSILON
quantities = ["x"]
also = {"largest": lambda values, release: values["x"].max("county")}

def simulate(rng):
    x = rng.poisson(400.0, size=3)
    return {"x": x}, MECHANISM.release(x, rng=rng)

def build_model(release):
    own = release.measurements[0]
    law = bdp.noise.LatticeLaplace(ASSUMED * own.law.epsilon)
    swapped = bdp.Measured(own.query, own.values, law, invariants=own.invariants)
    release = bdp.Release(release.frame, (swapped,), release.exact)
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(400.0), dims="county")
        bdp.observe(release, x)
    return model
"""
QUICK = ("--draws", "100", "--tune", "10", "--quiet")


@pytest.fixture
def files(run):
    Path("right.py").write_text(MODEL.replace("EPSILON", "1.0"))
    Path("wrong.py").write_text(MODEL.replace("EPSILON", "5.0"))
    return run


def test_a_right_model_and_a_wrong_one_that_has_a_status_of_its_own(files):
    done = files("calibrate", "right.py", "--n", "8", *QUICK, "-o", "sbc.nc", "--report", "sbc.html")
    assert done.status == 0, done.err
    assert "running the code in right.py" in done.err
    assert "No sign of miscalibration" in done.out
    assert not Path("sbc.nc.partial.jsonl").exists()
    tree = posterior("sbc.nc")
    assert tree["prior_sbc"]["largest"].sizes["draw"] == 8
    assert tree.attrs["command"].startswith("bayesdp calibrate right.py")
    assert tree.attrs["identity"].startswith("right.py, SHA-256 ")
    page = Path("sbc.html").read_text("utf-8")
    assert "Calibration of right.py" in page
    assert page.count("data:image/svg+xml") == 2
    assert "No sign of miscalibration." in page
    done = files("calibrate", "wrong.py", "--n", "25", *QUICK, "-o", "wrong.nc", "--report", "wrong.html")
    assert done.status == 4, done.out
    assert "NOT CALIBRATED" in done.err
    assert Path("wrong.nc").exists()
    assert "Not calibrated." in Path("wrong.html").read_text("utf-8")


@pytest.mark.slow
def test_workers_get_the_users_functions_and_the_same_ranks(files):
    for name, workers in (("one.nc", "1"), ("two.nc", "2")):
        assert files("calibrate", "right.py", "--n", "4", "--workers", workers, *QUICK, "-o", name).status == 0
    xr.testing.assert_identical(*(posterior(name)["prior_sbc"].to_dataset() for name in ("one.nc", "two.nc")))


def test_bad_input_is_one_line(files):
    for name, text in (("empty.py", "x = 1\n"), ("broken.py", "def simulate(:\n"), ("there.nc", "")):
        Path(name).write_text(text)
    for arguments, told in (
        ("empty.py -o s.nc", "defines no function simulate(rng)"),
        ("broken.py -o s.nc", "broken.py, line 1"),
        ("nowhere.py -o s.nc", "there is no file"),
        ("right.py -o s.csv", "written to a .nc file"),
        ("right.py -o nowhere/s.nc", "does not exist"),
        ("right.py -o there.nc", "'there.nc' exists already"),
        ("right.py -o s.nc --report s.pdf", "written to an .html file"),
        ("right.py -o s.nc --n 0", "--n must be"),
        ("right.py -o s.nc --workers 2 --scheduler tcp://a:1", "not both"),
        ("right.py -o s.nc --false-alarm 2", "--false-alarm must lie strictly between 0 and 1"),
    ):
        done = files("calibrate", *arguments.split())
        assert done.status == 2
        assert told in done.err
        assert "Traceback" not in done.err


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "status", "workers"),
    [("SIGINT", 130, "1"), ("SIGTERM", 143, "2"), ("SIGHUP", 129, "2"), ("SIGKILL", -9, "2")],
)
def test_a_signal_keeps_what_has_ended_and_another_file_is_not_mixed_in(files, monkeypatch, name, status, workers):
    """In a session of its own, that gets the signal as a terminal or a scheduler would send it; SIGKILL is for the main process."""
    again = ("calibrate", "right.py", *QUICK, "-o", "sbc.nc", "--n")
    process, journal = started(*again, "100000", "--workers", workers), Path("sbc.nc.partial.jsonl")
    cluster.wait_for(lambda: len(cluster.records(journal)) > 3 or process.poll() is not None, 240)
    (os.kill if name == "SIGKILL" else os.killpg)(process.pid, signal.Signals[name])
    _, told = process.communicate(timeout=60)
    assert process.returncode == status, told
    assert ("the same command goes on from there" in told) == (status > 0)
    assert "Traceback" not in told
    cluster.wait_for(lambda: _session(process.pid) == [], 15)
    assert '"error"' not in journal.read_text()
    right = Path("right.py").read_text()
    Path("right.py").write_text(right + "\n# another version\n")
    changed = files(*again, "5")
    assert (changed.status, "its identity is" in changed.err) == (2, True)
    Path("right.py").write_text(right)
    ended, simulated, whole = [own["number"] for own in cluster.records(journal)], [], runs._record
    monkeypatch.setattr(runs, "_record", lambda task, number: simulated.append(number) or whole(task, number))
    n = max(ended) + 2
    assert files(*again, str(n)).status in (0, 4)  # of so few
    assert sorted(ended + simulated) == list(range(n))


def test_ctrl_c_in_the_middle_of_a_fit_is_not_a_short_posterior(tmp_path, foreground):
    path = tmp_path / "run.jsonl"
    pressed = []

    def press(trace, draw):
        if path.read_text().count("\n") == 2 and draw.draw_idx == 60 and not pressed:
            pressed.append(draw)
            signal.raise_signal(signal.SIGINT)

    quick = {"draws": 100, "tune": 10, "progressbar": False, "callback": press}
    with pytest.raises(KeyboardInterrupt):
        sbc(models.simulate_pair, models.build_pair, n=4, seed=1, path=path, **quick)
    assert pressed
    assert path.read_text().count("\n") == 2  # the head and simulation 0


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_calibrate_on_a_cluster_goes_on_after_a_kill(files):
    """The command itself, killed while the cluster simulates for it: the same ranks as of a run that nobody stopped."""
    pytest.importorskip("distributed")
    with cluster.started() as scheduler:
        sizes = ["calibrate", "right.py", "--n", "12", *QUICK, "-o"]
        on_cluster, journal = [*sizes, "sbc.nc", "--scheduler", scheduler], Path("sbc.nc.partial.jsonl")
        cluster.killed([sys.executable, "-m", "bayesdp", *on_cluster], journal, 2)
        assert 2 <= len(cluster.records(journal)) < 12
        assert not Path("sbc.nc").exists()
        cluster.wait_for(lambda: cluster.work_left(scheduler) == (0, 0), 30.0)
        assert files(*on_cluster).status == 0
        assert not journal.exists()
        assert files(*sizes, "one.nc").status == 0
    for group in ("prior_sbc", "dispersion_sbc", "verdict"):
        xr.testing.assert_equal(*(posterior(name)[group].to_dataset() for name in ("sbc.nc", "one.nc")))

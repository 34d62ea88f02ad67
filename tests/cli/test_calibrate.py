"""``bayesdp calibrate``: a user's file in, ranks, verdict and report out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xarray as xr

from bayesdp.calibration import sbc
from tests.calibration import models
from tests.cli.conftest import ROOT, posterior

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
DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in the background of a shell
from bayesdp.cli import main
sys.exit(main(sys.argv[1:]))
"""
QUICK = ("--draws", "100", "--tune", "10", "--quiet")


@pytest.fixture
def files(run):
    Path("right.py").write_text(MODEL.replace("EPSILON", "1.0"))
    Path("wrong.py").write_text(MODEL.replace("EPSILON", "5.0"))
    return run


def test_a_right_model(files):
    done = files("calibrate", "right.py", "--n", "12", *QUICK, "-o", "sbc.nc", "--report", "sbc.html")
    assert done.status == 0, done.err
    assert "running the code in right.py" in done.err
    assert "No sign of miscalibration" in done.out
    assert not Path("sbc.nc.partial.jsonl").exists()
    tree = posterior("sbc.nc")
    assert tree["prior_sbc"].sizes["draw"] == 12
    assert "largest" in tree["prior_sbc"]
    assert tree.attrs["command"].startswith("bayesdp calibrate right.py")
    assert tree.attrs["identity"].startswith("right.py, SHA-256 ")
    page = Path("sbc.html").read_text("utf-8")
    assert "Calibration of right.py" in page
    assert page.count("data:image/svg+xml") == 2
    assert "No sign of miscalibration." in page


def test_a_wrong_model_has_a_status_of_its_own(files):
    done = files("calibrate", "wrong.py", "--n", "25", *QUICK, "-o", "sbc.nc", "--report", "sbc.html")
    assert done.status == 4, done.out
    assert "NOT CALIBRATED" in done.err
    assert Path("sbc.nc").exists()
    assert "Not calibrated." in Path("sbc.html").read_text("utf-8")


@pytest.mark.slow
def test_workers_get_the_users_functions_and_the_same_ranks(files):
    for name, workers in (("one.nc", "1"), ("two.nc", "2")):
        assert files("calibrate", "right.py", "--n", "4", "--workers", workers, *QUICK, "-o", name).status == 0
    xr.testing.assert_identical(*(posterior(name)["prior_sbc"].to_dataset() for name in ("one.nc", "two.nc")))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
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
    ],
)
def test_bad_input_is_one_line(files, arguments, told):
    Path("empty.py").write_text("x = 1\n")
    Path("broken.py").write_text("def simulate(:\n")
    Path("there.nc").write_text("")
    done = files("calibrate", *arguments.split())
    assert done.status == 2
    assert told in done.err
    assert "Traceback" not in done.err


def test_ctrl_c_keeps_what_has_ended_and_another_file_is_not_mixed_in(files):
    """In a process of its own, that gets the signal as a terminal would send it."""
    command = [sys.executable, "-c", DRIVER, "calibrate", "right.py", "--n", "100000", *QUICK, "-o", "sbc.nc"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    partial = Path("sbc.nc.partial.jsonl")
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not (partial.exists() and partial.read_text().count("\n") > 3):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in told
    assert "Traceback" not in told
    assert '"error"' not in partial.read_text()
    again = ("calibrate", "right.py", "--n", "5", *QUICK, "-o", "sbc.nc")
    right = Path("right.py").read_text()
    Path("right.py").write_text(right + "\n# another version\n")
    changed = files(*again)
    assert changed.status == 2
    assert "its identity is" in changed.err
    Path("right.py").write_text(right)
    resumed = files(*again)
    assert resumed.status == 0, resumed.err


def test_ctrl_c_in_the_middle_of_a_fit_is_not_a_short_posterior(tmp_path, foreground):
    """PyMC itself would give back the draws so far, as if they were all."""
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

"""A disk that is short, for every output: an error that names the file, nothing left behind, the old output as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT

pytestmark = pytest.mark.system

NAMES = (
    "import netcdf", "import CSV", "release netcdf", "release CSV", "fit", "test", "calibrate", "calibrate journal",
    "calibrate report",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, dict]:
    """What a script says of its runs, each of which it makes in a process of its own."""
    command = [sys.executable, "-m", "tests.cli.short_disk", str(tmp_path_factory.mktemp("short"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert sorted(found) == sorted(NAMES)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_disk_that_is_short(runs, name):
    """Before, a netCDF file ended in a segmentation fault; a negative status is a signal."""
    run = runs[name]
    assert run["first"] == 0, run["first_err"]
    assert run["status"] == 2, run
    assert "File too large" in run["err"]
    assert run["file"] in run["err"]
    assert "Traceback" not in run["err"]
    assert len([line for line in run["err"].splitlines() if "running the code" not in line]) == 1
    assert run["unchanged"]
    assert name != "fit" or "could not be kept elsewhere" in run["err"]
    assert run["new"] == (["sbc.nc.partial.jsonl"] if name.startswith("calibrate") else [])


@pytest.mark.parametrize("name", ["calibrate", "calibrate journal", "calibrate report"])
def test_what_was_calibrated_is_kept_and_the_same_command_goes_on(runs, name):
    assert "goes on from there" in runs[name]["err"] or "writes the report from" in runs[name]["err"]
    assert runs[name]["again"] == 0
    assert not runs[name]["partial_left"]

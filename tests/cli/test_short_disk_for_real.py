"""`fit` and `calibrate` that sample, on a disk that is short: what was done is kept, and the same command goes on."""

import json
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    command = [sys.executable, "-m", "tests.cli.short_disk_for_real", str(tmp_path_factory.mktemp("short"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


# tests/cli/test_short_disk.py tries all outputs, the sampling left out.
pytestmark = [pytest.mark.slow, pytest.mark.system]

WITHOUT_ROOM = (
    "fit, no room for more than the draws", "fit, no room for the output", "fit, no room for either",
    "calibrate, no room for the output", "calibrate, no room for a record",
)  # fmt: skip
GOES_ON = "with --resume the same command goes on"


@pytest.mark.parametrize("name", WITHOUT_ROOM)
def test_it_is_said_and_the_same_command_goes_on_to_the_same_result(runs, name):
    run = runs[name]
    assert run["status"] == 2, run
    assert "File too large" in run["err"]
    assert "out.nc" in run["err"].splitlines()[-1]
    assert "Traceback" not in run["err"] + run["again_err"]
    assert run["again"] in (0, 3), run
    assert (run["same"], run["left"]) == (True, ["out.nc"])


def test_what_is_left_and_said_of_it(runs):
    """Draws without diagnostics can be completed; where they find no room but in the journal that is named; simulations are kept."""
    run = runs["fit, no room for more than the draws"]
    assert sorted(run["new"]) == ["out.nc", "out.nc.partial"]
    assert f"out.nc has the draws, and nothing that is computed from them; {GOES_ON}" in run["err"]
    assert "it has 140 of 140 draws" in run["again_err"] or "going on" not in run["again_err"]  # --quiet
    for name in ("fit, no room for the output", "fit, no room for either"):
        run = runs[name]
        assert (sorted(run["new"]), run["kept"]) == (["out.nc.partial"], True), run
        assert f"the draws so far are in out.nc.partial: {GOES_ON}" in run["err"]
        assert "could not be kept elsewhere" in run["err"]
    assert "out.nc.partial: File too large" in run["err"]
    for name in ("calibrate, no room for the output", "calibrate, no room for a record"):
        assert list(runs[name]["new"]) == ["out.nc.partial.jsonl"]
        assert "goes on from there" in runs[name]["err"]


def test_drawing_goes_on_where_the_journal_is_full(runs):
    run = runs["fit, no room for draws as they come"]
    assert run["status"] in (0, 3), run
    assert run["err"].count("out.nc.partial: File too large. Sampling goes on; draws from here on are not kept") == 1
    assert (list(run["new"]), run["same"]) == (["out.nc"], True)

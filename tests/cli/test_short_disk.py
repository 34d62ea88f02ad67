"""A disk that is short, for every output: an error that names the file, nothing left behind, the old output as it was."""

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.calibration.runs import Journal
from bayesdp.cli import calibrate, fit
from bayesdp.inference import memory, sampling
from bayesdp.report import page as pages
from tests.cli.conftest import IMPORT, RELEASE
from tests.test_caches import files_of_at_most

MARGINS = "--invariant margins:sex --invariant margins:code --mechanism lattice-laplace --epsilon 1 --seed 1".split()
CALIBRATE = ("calibrate", "model.py", "-o", "sbc.nc")


@pytest.fixture
def made_up(released, tmp_path, monkeypatch):
    told = {"message": "made up", "converged": 1}
    release = bdp.Release.from_netcdf("release.nc")
    draws = np.random.default_rng(1).integers(0, 2**40, (2, 60, 3, 2))
    values = xr.Dataset({"x": xr.DataArray(draws, dims=("chain", "draw", *release.dims))})

    def drawn(*_):
        tree = xr.DataTree.from_dict({"posterior": values, "release": release.to_dataset()})
        tree["diagnostics"] = xr.DataTree(xr.Dataset(attrs=told))
        tree.attrs["prior"] = "made up"
        return sampling.Drawn(None, tree, {}, {})

    def calibrated(args, module, partial):
        journal = Journal(partial, {"seed": 1})
        for number in range(3):
            journal.add({"number": number, "rank": 7})
        return xr.DataTree.from_dict({"prior_sbc": values, "verdict": xr.Dataset(attrs=told | {"calibrated": 1})})

    for place, name, own in (
        (fit, "_drawn", drawn),
        (fit, "_asked", lambda model, args: {}),
        (fit, "_add_prior_draws", lambda tree, model, seed, stop: True),
        (fit, "_model", lambda release, args: (nullcontext(), "made up")),
        (memory, "check_memory", lambda model, given, remedy: None),
        (fit, "journal_of", lambda model, args: nullcontext({})),
        (sampling, "diagnosed", lambda run, given, stop, told: run.tree),
        (calibrate, "_calibrated", calibrated),
        (pages, "calibration_page", lambda result, title: "page " * 20_000),
        (tempfile, "tempdir", str(tmp_path)),
    ):
        monkeypatch.setattr(place, name, own)
    Path("model.py").write_text("def simulate(rng): ...\ndef build_model(release): ...\n")
    Path("square.csv").write_text("sex,code,count\nmen,1,12\nmen,2,30\nwomen,1,25\nwomen,2,17\n")
    assert released("release", "square.csv", *MARGINS, "-o", "square.nc").status == 0
    return released


def test_a_disk_that_is_short(made_up):
    """The system's limit on the length of files stands for the full disk: a write beyond it is an error (EFBIG)."""
    for command, output, room in (
        ((*IMPORT, "release.nc"), "release.nc", 4000),
        ((*IMPORT, "release.csv"), "release.noise.json", 500),
        ((*RELEASE, "-o", "own.nc"), "own.nc", 4000),
        ((*RELEASE, "-o", "own.csv"), "own.csv", 10),
        (("fit", "release.nc", "--quiet", "-o", "posterior.nc"), "posterior.nc", 8000),
        (("test", "square.nc", "-o", "test.json"), "test.json", 100),
        (CALIBRATE, "sbc.nc", 4000),
        (CALIBRATE, "sbc.nc", 30),  # no room for the journal
        ((*CALIBRATE, "--report", "sbc.html"), "sbc.html", 60_000),
    ):
        first = made_up(*command, "--force")
        assert first.status == 0, first.err
        before, names = Path(output).read_bytes(), set(os.listdir())
        with files_of_at_most(room):
            run = made_up(*command, "--force")
        assert run.status == 2, run
        [told] = [line for line in run.err.splitlines() if "running the code" not in line]
        assert "File too large" in told
        assert output in told
        assert Path(output).read_bytes() == before
        assert ("could not be kept elsewhere" in run.err) == (command[0] == "fit")
        if command[0] != "calibrate":
            assert set(os.listdir()) == names
            continue
        # What was calibrated is kept, and the same command goes on.
        assert set(os.listdir()) - names == {"sbc.nc.partial.jsonl"}
        assert "goes on from there" in run.err or "writes the report from" in run.err
        assert made_up(*command, "--force").status == 0
        assert not Path("sbc.nc.partial.jsonl").exists()

"""Many fits through one door: files, going on after a stop, failures, dead workers."""

from __future__ import annotations

import os
import signal
from functools import partial

import h5py
import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.calibration import fit_many
from bayesdp.calibration.fits import Fits, _Fit
from bayesdp.calibration.runs import DIED, followed
from tests.calibration import models

QUICK = {"draws": 60, "tune": 10, "chains": 2, "progressbar": False}


def releases(n=3):
    rng = np.random.default_rng(0)
    return {f"State {k}": models.simulate_pair(rng)[1] for k in range(n)}


@pytest.fixture(scope="module")
def fits():
    return fit_many(releases(), models.build_pair, seed=3, **QUICK)


@pytest.mark.system
def test_posteriors_by_name_are_those_of_their_releases(fits):
    assert list(fits) == ["State 0", "State 1", "State 2"]
    for name, release in releases().items():
        draws = fits[name]["posterior"]["x"].values
        assert draws.shape == (2, 60, 2)
        assert np.all(draws.sum(axis=-1) == release.exact[0].values)
        stored = bdp.Release.from_dataset(fits[name]["release"].to_dataset())
        assert np.array_equal(stored.measurements[0].values, release.measurements[0].values)
        assert "converged" in fits[name]["diagnostics"].attrs
    with pytest.raises(KeyError):
        fits["State 9"]


def _same(found, fits, names=("State 0", "State 1", "State 2")):
    assert list(found) == list(names)
    for name in names:
        assert np.array_equal(found[name]["posterior"]["x"].values, fits[name]["posterior"]["x"].values)


TREE = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 500)))})})


def test_a_damaged_posterior_is_refused_by_name(tmp_path):
    """It was a KeyError of the HDF5 library, which in a mapping means that there is no such fit."""
    path = tmp_path / "000000.nc"
    TREE.to_netcdf(path, engine="h5netcdf")
    found = Fits({"one": path}, {})
    assert found["one"].identical(TREE)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"000000\.nc: the file is truncated"):
        found["one"]
    path.write_bytes(whole)
    with h5py.File(path, "r+") as file:
        file["posterior/y"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(ValueError, match=r"000000\.nc: /posterior/y is a link to somewhere else"):
        found["one"]
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no file.*000000\.nc"):
        found["one"]


@pytest.mark.system
def test_files_and_going_on_after_a_stop(fits, tmp_path):
    folder = tmp_path / "fits"
    settings = {"seed": 3, "path": folder, **QUICK}
    _same(fit_many(releases(), models.build_pair, **settings), fits)
    assert sorted(p.name for p in folder.iterdir()) == ["000000.nc", "000001.nc", "000002.nc", "journal.jsonl"]
    times = {p.name: p.stat().st_mtime_ns for p in folder.glob("*.nc")}
    (folder / "000001.nc").unlink()
    _same(fit_many(releases(), models.build_pair, **settings), fits)
    after = {p.name: p.stat().st_mtime_ns for p in folder.glob("*.nc")}
    assert [name for name in sorted(times) if times[name] == after[name]] == ["000000.nc", "000002.nc"]
    with pytest.raises(ValueError, match="is of another run: its names"):
        fit_many(releases(2), models.build_pair, **settings)


def test_a_folder_that_is_refused_is_left_as_it_was(tmp_path, monkeypatch):
    """A posterior was added before the damaged one was found. Journals had a line for each file, and go on."""

    def made(self, number):
        return {"number": number, "name": self.names[number], "tree": TREE}

    monkeypatch.setattr(_Fit, "__call__", made)
    folder = tmp_path / "fits"
    settings = {"seed": 3, "path": folder, **QUICK}
    fit_many(releases(), models.build_pair, **settings)
    first = folder / "000000.nc"
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    (folder / "000001.nc").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"000000\.nc: the file is truncated.*remove this file"):
        fit_many(releases(), models.build_pair, **settings)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    first.unlink()
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"number": 0, "name": "State 0", "file": "000000.nc"}\n{"number": 1, "na')
    assert len(fit_many(releases(), models.build_pair, **settings)) == 3
    assert (folder / "journal.jsonl").read_text().endswith('"file": "000000.nc"}\n')


TOTALS = [int(release.exact[0].values) for release in releases().values()]


def picky(flag, kill, release):
    """As long as there is a flag, the second release fails, or kills its process."""
    if flag.exists() and int(release.exact[0].values) == TOTALS[1]:
        flag.unlink()
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("not today")
    return models.build_pair(release)


@pytest.mark.system
@pytest.mark.parametrize(("kill", "failure"), [(False, "RuntimeError: not today"), (True, DIED)])
def test_failures_and_killed_workers_are_listed_and_tried_again(fits, tmp_path, kill, failure):
    assert len(set(TOTALS)) == 3
    flag = tmp_path / "flag"
    flag.touch()
    build = partial(picky, flag, kill)
    settings = {"seed": 3, "path": tmp_path / "fits", "workers": 1 + kill, **QUICK}
    found = fit_many(releases(), build, **settings)
    assert found.failures == {"State 1": failure}
    _same(found, fits, ["State 0", "State 2"])
    with pytest.raises(KeyError, match=f"the fit of 'State 1' failed: {failure}"):
        found["State 1"]
    found = fit_many(releases(), build, **settings)
    assert found.failures == {}
    _same(found, fits)


def test_what_is_refused(tmp_path, unwritable):
    (tmp_path / "file").touch()
    some = releases()
    for given, more, error, message in (
        ({}, {}, ValueError, "releases must be a mapping"),
        (list(some.values()), {}, ValueError, "releases must be a mapping"),
        (some, {"seed": -1}, ValueError, "seed"),
        (some, {"path": unwritable / "fits"}, PermissionError, None),
        (some, {"path": tmp_path / "file"}, FileExistsError, None),
        (some, {"path": tmp_path / "no" / "where"}, FileNotFoundError, None),
    ):
        with pytest.raises(error, match=message):
            fit_many(given, models.build_pair, **{"seed": 3, **QUICK, **more})


def test_progress_counts_what_came_and_what_failed(monkeypatch, capsys):
    monkeypatch.setattr("bayesdp.inference.runs.running._FIRST", 0.0)
    records = [{"number": 0, "error": "no"}, {"number": 1}, {"number": 2}]
    assert list(followed(records, total=5, done=2, words="fits", show=True)) == records
    assert capsys.readouterr().err.startswith("fits: 3 of 5 done (60%), 0:00:00 passed, 1 failed\n")
    assert list(followed(records, total=5, done=2, words="fits", show=False)) == records
    assert capsys.readouterr().err == ""

"""A run that is killed, and goes on from its journal, ends as a run that was never stopped."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies.priors import VaryingShares
from bayesdp.storage import journal as journals
from tests.streaming.cases import FRAME, PRIOR, small_release

pytestmark = pytest.mark.system

RELEASE = small_release()
FILE = "chain-{}-part-0-0.npz"
GIVEN = {
    "record": {"areas": bdp.Margins(FRAME, ["county", "race"])},
    "draws": 60,
    "tune": 40,
    "random_seed": 7,
    "quiet": True,
    "thin": 2,
}


class Killed(BaseException):
    """Stands for the end of a process: nothing of ours catches it."""


def often(monkeypatch, kill=None):
    """A state after every sweep and draw; the process ends at write number `kill`."""
    monkeypatch.setattr(journals, "SECONDS", 0.0)
    monkeypatch.setattr(journals, "_SHARE", 0.0)
    write, made = journals.write_arrays, []

    def counted(file, arrays):
        made.append(file)
        if kill is not None and len(made) >= kill:
            raise Killed
        write(file, arrays)

    monkeypatch.setattr(journals, "write_arrays", counted)


def _same(one, other):
    for group in ("posterior", "cells", "diagnostics", "fiber"):
        xr.testing.assert_identical(one[group].to_dataset(), other[group].to_dataset())


@pytest.fixture(scope="module")
def whole():
    return bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN)


@pytest.mark.parametrize("kill", [30, 120])
def test_a_run_that_ends_while_tuning_or_drawing_goes_on(kill, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        often(patched, kill)
        with pytest.raises(Killed):
            bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, cores=1, journal=tmp_path / "run")
    with pytest.raises(FileExistsError, match="resume=True goes on"):
        bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, journal=tmp_path / "run")
    resumed = bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, journal=tmp_path / "run", resume=True)
    _same(resumed, whole)
    assert resumed.attrs["resumed"] == 1
    _same(bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, journal=tmp_path / "run", resume=True), whole)


_SCRIPT = """
import os, signal, sys
import bayesdp as bdp
from bayesdp.hierarchies.priors import VaryingShares
from bayesdp.storage import journal
from tests.streaming.test_journal import GIVEN, RELEASE
journal.SECONDS = journal._SHARE = 0.0
write, made = journal.write_arrays, []
def counted(*given):
    write(*given)
    made.append(given)
    if len(made) == 150:
        os.kill(os.getpid(), signal.SIGKILL)
journal.write_arrays = counted
bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, journal=sys.argv[1], tables_path=sys.argv[2], tables=7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_goes_on_with_its_tables(whole, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    root = Path(__file__).resolve().parents[2]
    paths = [str(tmp_path / "run"), str(tmp_path / "tables.parquet")]
    done = subprocess.run([sys.executable, "-c", _SCRIPT, *paths], cwd=root, timeout=300, check=False)
    assert done.returncode == -9
    assert not Path(paths[1]).exists()
    tables = {"tables_path": paths[1], "tables": 7}
    resumed = bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, **tables, journal=paths[0], resume=True)
    _same(resumed, whole)
    bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, tables_path=tmp_path / "whole.parquet", tables=7)
    one, two = (
        parquet.read_table(path).to_pandas().sort_values(["table", "age", "tract", "race"]).reset_index(drop=True)
        for path in (paths[1], tmp_path / "whole.parquet")
    )
    assert one.equals(two)


def test_a_run_that_is_longer_and_a_damaged_state_are_refused(tmp_path):
    """What else changes a run: tests/streaming/test_other_runs.py."""
    given = {**GIVEN, "journal": tmp_path / "run"}
    bdp.fit_hierarchy(RELEASE, PRIOR, **given)
    message = "of another run: its draws is 60, here it is 61. A run cannot be made longer .* begin anew with these in another folder"
    with pytest.raises(ValueError, match=message):
        bdp.fit_hierarchy(RELEASE, PRIOR, **{**given, "draws": 61}, resume=True)
    (tmp_path / "run" / FILE.format(1)).write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"chain-1-part-0-0.npz' is damaged"):
        bdp.fit_hierarchy(RELEASE, PRIOR, **given, resume=True)


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Journals of a run, with the states of its first chain: while tuning, and at the end."""
    folder, found = tmp_path_factory.mktemp("states"), {}
    with pytest.MonkeyPatch.context() as patched:
        often(patched, 20)
        with pytest.raises(Killed):
            bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, cores=1, journal=folder / "tuning")
    bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, journal=folder / "drawn")
    for name in ("tuning", "drawn"):
        with np.load(folder / name / FILE.format(0)) as own:
            found[name] = dict(own)
    return folder, found


def _first(value, place=0):
    def changed(array):
        array = array.copy()
        array.reshape(-1)[place] = value
        return array

    return changed


IMPOSSIBLE = {
    "a donor that is no cell": ("tuning", "state:donor_cell", _first(2**40)),
    "a negative donor": ("tuning", "state:donor_cell", _first(-1)),
    "donors cut short": ("tuning", "state:donor_cell", lambda own: own[:-1]),
    "donors that begin beyond": ("drawn", "state:donor_start", _first(2**40)),
    "visits cut short": ("tuning", "state:visits", lambda own: own[:-1]),
    "visits without end": ("drawn", "state:visits", _first(2**62)),
    "counts cut short": ("tuning", "state:counts", lambda own: own[:-1]),
    "negative counts": ("tuning", "state:counts", lambda own: own - 9),
    "counts beside the exact total": ("drawn", "state:counts", lambda own: own + 1),
    "counts that are real numbers": ("drawn", "state:counts", lambda own: own.astype(float)),
    "a generator that stands still": ("tuning", "state:generator", np.zeros_like),
    "a shape that is no number": ("tuning", "hyper:log_shape", lambda own: np.full_like(own, np.nan)),
    "a shape without limit": ("tuning", "hyper:log_shape", lambda own: np.full_like(own, 1e6)),
    "shapes cut short": ("drawn", "hyper:log_shape", lambda own: own[:-1]),
    "histograms that begin nowhere": ("drawn", "kept:grids", lambda own: own - 2**62),
    "histograms of other draws": ("drawn", "kept:bins", np.zeros_like),
    "fewer cells": ("drawn", "kept:first", lambda own: own[:-1]),
    "fewer answers": ("drawn", "answers:areas", lambda own: own[:-1]),
    "draws that are no numbers": ("drawn", "drawn:log_shape", lambda own: own * np.nan),
    "a draw after the last": ("drawn", "draws", lambda own: own + 1),
    "sweeps before the first": ("tuning", "done", lambda own: own - 2**40),
    "another seed of seeds": ("tuning", "rng", lambda own: np.array("{}")),
    "a start that is none": ("tuning", "ends", lambda own: own[:-1]),
    "means of no table": ("tuning", "state:mean", lambda own: own - 1e30),
    "nothing of it": ("tuning", "state:donor_start", None),
}


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_a_state_that_no_chain_had_is_refused(states, wrong):
    """Compiled code would write where these say, never end, or believe them."""
    folder, found = states
    stage, name, change = IMPOSSIBLE[wrong]
    arrays = found[stage] | ({} if change is None else {name: change(found[stage][name])})
    if change is None:
        del arrays[name]
    np.savez(folder / stage / FILE.format(0), **arrays)
    with pytest.raises(ValueError, match=r"chain-0-part-0-0\.npz' is damaged \("):
        bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, journal=folder / stage, resume=True)


@pytest.mark.parametrize("enormous", [False, True])
def test_a_file_that_would_grow_is_refused(enormous, tmp_path):
    """Zeros that take next to nothing, and a header that asks for more than there is."""
    file = tmp_path / "zeros.npz"
    (np.savez if enormous else np.savez_compressed)(file, zeros=np.zeros(10**5))
    if enormous:
        file.write_bytes(file.read_bytes().replace(b"(100000,), }    ", b"(1000000000,), }"))
    with pytest.raises(ValueError, match=r"zeros\.npz' is damaged .*(larger in memory|EOF|CRC)"):
        journals.read_arrays(file)


def test_what_a_killed_process_did_not_finish_is_gone(tmp_path):
    journal = tmp_path / "run"
    journal.mkdir()
    (journal / ".run.json.0123456789abcdef.tmp").write_text("{")
    bdp.fit_hierarchy(RELEASE, PRIOR, **GIVEN, journal=journal)
    (journal / ".chain-0-part-0-0.npz.0123456789abcdef.tmp").write_bytes(b"PK")
    bdp.fit_hierarchy(RELEASE, PRIOR, **GIVEN, journal=journal, resume=True)
    assert not list(journal.glob("*.tmp"))


def test_folders_that_cannot_be_a_journal(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is no journal of a run"):
        bdp.fit_hierarchy(RELEASE, PRIOR, **GIVEN, journal=tmp_path / "letters")
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        bdp.fit_hierarchy(RELEASE, PRIOR, **GIVEN, journal=tmp_path / "no" / "run")
    with pytest.raises(ValueError, match="resume=True goes on from a journal"):
        bdp.fit_hierarchy(RELEASE, PRIOR, **GIVEN, resume=True)


def test_without_a_seed_the_seed_is_kept(tmp_path, monkeypatch):
    given = {**GIVEN, "random_seed": None, "journal": tmp_path / "run"}
    first = bdp.fit_hierarchy(RELEASE, PRIOR, **given)
    (tmp_path / "run" / FILE.format(0)).unlink()  # this chain begins anew
    _same(bdp.fit_hierarchy(RELEASE, PRIOR, **given, resume=True), first)


def test_a_full_disk_is_told_once_and_the_run_goes_on(whole, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(journals, "SECONDS", 0.0)
    monkeypatch.setattr(journals, "_SHARE", 0.0)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journals.np, "savez", full)
    _same(bdp.fit_hierarchy(RELEASE, VaryingShares(), **GIVEN, journal=tmp_path / "run"), whole)
    assert [own.getMessage().count("No space left on device") for own in caplog.records] == [1]
    assert sorted(own.name for own in (tmp_path / "run").iterdir()) == ["lock", "run.json"]


def test_states_hold_what_was_kept(tmp_path):
    bdp.fit_hierarchy(RELEASE, PRIOR, **GIVEN, journal=tmp_path / "run")
    with np.load(tmp_path / "run" / FILE.format(1)) as state:
        assert int(state["draws"]) == 60
        assert state["answers:areas"].shape == (60, 4)

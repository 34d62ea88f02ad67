"""``bayesdp fit --resume``: what was stopped goes on, and no draws are lost without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import xarray as xr

import bayesdp.inference
from bayesdp.inference import remove_journal
from bayesdp.inference.runs import recorded
from bayesdp.inference.runs.journal import DrawJournal
from bayesdp.storage.journal import RunJournal

pytestmark = pytest.mark.system

IMPORT = ("import", "noisy.csv", "--exact", "margins.csv", "--law", "discrete-gaussian sigma=5", "-o", "release.nc")
FIT = (
    "fit",
    "release.nc",
    "--chains",
    "2",
    "--draws",
    "400",
    "--tune",
    "100",
    "--seed",
    "1",
    "--cores",
    "1",
    "--quiet",
)
MORE = tuple("600" if word == "400" else word for word in FIT)
OUT = ("-o", "posterior.nc")
PARTIAL = Path("posterior.nc.partial")
CHAINS = Path("posterior.nc.chains")


@pytest.fixture
def released(run, monkeypatch):
    assert run(*IMPORT).status == 0
    monkeypatch.setattr(recorded, "SECONDS", 0.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield run
    signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c(after: int, times: int = 1) -> Iterator[None]:
    """Ctrl-C is pressed after some draws, so often."""
    whole, seen = DrawJournal.keep, []

    def keep(self, draw):
        whole(self, draw)
        seen.append(draw)
        if len(seen) == after:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DrawJournal, "keep", keep)
        yield


def content(path: Path = PARTIAL) -> dict[str, bytes]:
    return {own.name: own.read_bytes() for own in path.iterdir()}


def posterior(path: str = "posterior.nc") -> xr.DataTree:
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        return tree.load()


def assert_ends_as_if_never_stopped(released) -> xr.DataTree:
    """Go on to the end: the draws of a run that was not stopped, and nothing is left beside them."""
    result = released(*FIT, *OUT, "--resume")
    assert result.status == 0, result.err
    assert not PARTIAL.exists()
    assert released(*FIT, "-o", "whole.nc").status == 0
    assert not Path("whole.nc.partial").exists()
    tree, whole = posterior(), posterior("whole.nc")
    for group in ("posterior", "prior", "prior_predictive"):
        xr.testing.assert_equal(tree[group].to_dataset(), whole[group].to_dataset())
    assert "interrupted" not in tree.attrs
    assert "resumed" not in whole.attrs
    return tree


@pytest.mark.slow
def test_after_ctrl_c_the_same_command_with_resume_goes_on(released):
    with ctrl_c(350):
        result = released(*FIT, *OUT)
    assert result.status == 130, result.err
    assert "only the draws so far were saved; with --resume the same command goes on" in result.err
    first = posterior()
    assert first.attrs["interrupted"] == 1
    assert first["posterior"].sizes["draw"] == 250
    assert PARTIAL.exists()
    tree = assert_ends_as_if_never_stopped(released)
    assert tree.attrs["resumed"] == 1
    assert tree["posterior"].sizes["draw"] == 400
    xr.testing.assert_equal(tree["posterior"]["x"][:1, :250], first["posterior"]["x"])
    assert released("report", "posterior.nc", "-o", "report.html").status == 0
    page = Path("report.html").read_text()
    assert "The run was stopped and went on once from draws and sampler states on disk" in page
    assert released("report", "whole.nc", "-o", "whole.html").status == 0
    assert "The run was stopped" not in Path("whole.html").read_text()


def test_ctrl_c_twice_stops_at_once_and_goes_on_as_well(released):
    with ctrl_c(350, times=2):
        result = released(*FIT, *OUT)
    assert result.status == 130
    assert "only the draws so far were saved; with --resume the same command goes on" in result.err
    assert posterior().attrs["interrupted"] == 1
    result = released(*FIT, *OUT, "--resume")
    assert "going on from posterior.nc.partial: it has 350 of 1,000 draws (those for tuning included)" in result.err
    assert result.status == 0


def test_ctrl_c_before_there_are_draws_to_save_keeps_those_that_are_written(released):
    with ctrl_c(60):
        result = released(*FIT, *OUT)
    assert result.status == 130
    assert not Path("posterior.nc").exists()
    assert_ends_as_if_never_stopped(released)


def test_a_run_that_is_stopped_while_tuning_leaves_nothing(released, monkeypatch):
    monkeypatch.setattr(recorded, "SECONDS", 60.0)
    with ctrl_c(60):
        result = released(*FIT, *OUT)
    assert result.status == 130
    assert result.err.endswith("bayesdp fit: interrupted, nothing was written to posterior.nc\n")
    assert not PARTIAL.exists()
    assert not Path("posterior.nc").exists()
    PARTIAL.write_text("my notes")  # not ours: it stays
    assert released(*FIT, *OUT).status == 2
    assert PARTIAL.read_text() == "my notes"


def test_draws_without_what_is_computed_from_them_are_no_end(released, monkeypatch):
    """As after a kill, or a disk that was full when the rest was to be saved."""

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("bayesdp.inference.sampling.diagnosed", full)
        result = released(*FIT, *OUT)
    assert result.status == 2
    assert "has the draws, and nothing that is computed from them; with --resume the same command goes on" in result.err
    assert "it was not said of which file; temporary files are in " in result.err
    assert len(posterior()["diagnostics"].data_vars) == 0
    assert len(assert_ends_as_if_never_stopped(released)["diagnostics"].data_vars) > 0


def test_no_room_for_the_first_bytes_of_the_draws(released, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunJournal, "begin", full)
    result = released(*FIT, *OUT)
    assert result.status == 2
    told = "bayesdp fit: error: [Errno 28] No space left on device: there is no room for draws as they come: 'posterior.nc.partial'"
    assert result.err.splitlines()[-1] == told
    assert not PARTIAL.exists()


def test_draws_of_a_run_that_did_not_end_are_not_lost_without_a_word(released):
    with ctrl_c(150):
        assert released(*FIT, *OUT).status == 130
    before = content(), Path("posterior.nc").read_bytes()

    def refused(*arguments: str) -> str:
        result = released(*arguments)
        assert result.status == 2
        assert len(result.err.splitlines()) == 1, result.err
        assert (content(), Path("posterior.nc").read_bytes()) == before
        return result.err

    words = refused(*FIT, *OUT)
    assert (
        "'posterior.nc.partial' has draws of a run that did not end: --resume goes on with them, --force removes them"
        in words
    )
    assert "give one of them" in refused(*FIT, *OUT, "--resume", "--force")
    words = refused(*FIT, *OUT, "--resume", "--hyper", "shape=2")
    assert "is of another run: its" in words
    assert "here it is" in words
    words = refused("fit", "release.nc", "--chains", "2", "--draws", "4", *FIT[6:], *OUT, "--resume")
    assert "draws=4 are asked for: ask for as many or more" in words
    result = released(*FIT, *OUT, "--force")
    assert result.status == 0
    assert "--force: draws of a run that did not end were removed (posterior.nc.partial)" in result.err
    assert not PARTIAL.exists()
    assert "resumed" not in posterior().attrs


def test_resume_begins_where_there_is_nothing_and_never_replaces_what_is_complete(released):
    result = released(*FIT, *OUT, "--resume")
    assert result.status == 0
    assert "going on" not in result.err
    assert "resumed" not in posterior().attrs
    before = Path("posterior.nc").read_bytes()
    result = released(*FIT, *OUT, "--resume")
    assert result.status == 2
    assert (
        "of a run that ended, with 400 draws of each chain: --resume goes on with more, and --draws is 400"
        in result.err
    )
    remove_journal(CHAINS)
    assert "exists already, with no draws to go on from" in released(*MORE, *OUT, "--resume").err
    # Draws beside a complete posterior: it was killed between the two, or they are of another run.
    with_draws = released(*FIT, "-o", "other.nc")
    assert with_draws.status == 0
    PARTIAL.write_text("my notes")
    result = released(*FIT, *OUT, "--force")
    assert result.status == 2
    assert "is no journal of a run: name another folder, or move it away" in result.err
    assert PARTIAL.read_text() == "my notes"
    assert Path("posterior.nc").read_bytes() == before


def test_a_run_that_has_ended_goes_on_with_more_draws(released):
    """With what was drawn, as one run of that length; not with another seed, which leaves all as it is."""
    assert released(*FIT, *OUT).status == 0
    before, kept = Path("posterior.nc").read_bytes(), content(CHAINS)
    result = released(*MORE, *OUT, "--resume", "--seed", "2")
    assert result.status == 2
    assert "its seed is 1, here it is 2" in result.err
    assert (Path("posterior.nc").read_bytes(), content(CHAINS), PARTIAL.exists()) == (before, kept, False)
    result = released(*MORE, *OUT, "--resume")
    assert result.status == 0, result.err
    assert "it has 1,000 of 1,400 draws" in result.err
    assert not PARTIAL.exists()
    assert released(*MORE, "-o", "whole.nc").status == 0
    tree, whole = posterior(), posterior("whole.nc")
    for group in ("posterior", "prior", "prior_predictive"):
        xr.testing.assert_equal(tree[group].to_dataset(), whole[group].to_dataset())
    assert dict(tree["diagnostics"].attrs) == dict(whole["diagnostics"].attrs)


def test_chains_of_a_run_that_has_ended_stay_if_it_is_stopped_when_it_goes_on(released):
    assert released(*FIT, *OUT).status == 0
    with ctrl_c(1100):
        assert released(*MORE, *OUT, "--resume").status == 130
    assert PARTIAL.exists()
    result = released(*MORE, *OUT, "--resume")
    assert result.status == 0, result.err
    assert posterior()["posterior"].sizes["draw"] == 600


def test_a_model_for_nutpie_has_no_draws_to_go_on_from(released, monkeypatch):
    monkeypatch.setattr(bayesdp.inference, "tells_of_draws", lambda model: False)
    result = released(*FIT, *OUT, "--resume")
    assert result.status == 2
    assert "sampled by nutpie" in result.err
    result = released(*FIT[:-1], *OUT)
    assert result.status in (0, 3), result.err
    assert "draws are saved at the end only, and --resume cannot go on with them" in result.err
    assert not PARTIAL.exists()


COMMAND = """
import sys
import bayesdp.inference.runs.recorded as recorded
recorded.SECONDS = 0.0
from bayesdp.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("cores", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_a_run_that_is_killed_loses_nothing(released, cores):
    """SIGKILL, to the main process alone, at two moments; what runs on in its chains does not write."""
    at = FIT.index("--cores") + 1
    command = [sys.executable, "-c", COMMAND, *FIT[:at], cores, *FIT[at + 1 :], *OUT, "--resume"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    size = 0
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        try:
            end = time.monotonic() + 300  # seconds on a machine that does nothing else
            while len(list(PARTIAL.glob("chain-*.npz"))) <= size + 15:
                assert process.poll() is None, "it ended before it was killed"
                assert time.monotonic() < end
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()
        size = len(list(PARTIAL.glob("chain-*.npz")))
        assert not Path("posterior.nc").exists()
    assert assert_ends_as_if_never_stopped(released).attrs["resumed"] == 2

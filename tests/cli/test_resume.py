"""``bayesdp fit --resume``: what was stopped goes on, and no draws are lost without a word."""

import signal
import subprocess
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
import xarray as xr

import bayesdp.inference
from bayesdp.cli import main
from bayesdp.inference import remove_journal
from bayesdp.inference.runs import recorded
from bayesdp.inference.runs.journal import DrawJournal
from tests.calibration.cluster import wait_for
from tests.cli.conftest import IMPORT, MARGINS, NOISY, failed, posterior, started

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("foreground")]

FIT = tuple("fit release.nc --chains 2 --draws 400 --tune 100 --seed 1 --cores 1 --quiet".split())
MORE = tuple("600" if word == "400" else word for word in FIT)
OUT = ("-o", "posterior.nc")
OUTPUT, PARTIAL, CHAINS = (Path(f"posterior.nc{ending}") for ending in ("", ".partial", ".chains"))
GOES_ON = "with --resume the same command goes on"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(recorded, "SECONDS", 0.0)


@contextmanager
def ctrl_c(after, times=1):
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


def content(path=PARTIAL):
    return {own.name: own.read_bytes() for own in path.glob("*")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with chdir(tmp_path_factory.mktemp("whole")):
        Path("noisy.csv").write_text(NOISY)
        Path("margins.csv").write_text(MARGINS)
        assert main([*IMPORT, "release.nc"]) == main([*FIT, "-o", "whole.nc"]) == 0
        assert not Path("whole.nc.partial").exists()
        assert "resumed" not in posterior("whole.nc").attrs
        return posterior("whole.nc")


def assert_ends_as_if_never_stopped(released, whole, words=""):
    """Go on to the end: the draws of a run that was not stopped, and nothing is left beside them."""
    result = released(*FIT, *OUT, "--resume")
    assert result.status == 0, result.err
    assert words in result.err
    assert not PARTIAL.exists()
    tree = posterior()
    for group in ("posterior", "prior", "prior_predictive"):
        xr.testing.assert_equal(tree[group].to_dataset(), whole[group].to_dataset())
    assert "interrupted" not in tree.attrs
    return tree


def test_ctrl_c_twice_stops_at_once_and_goes_on_as_well(released, whole):
    with ctrl_c(350, times=2):
        result = released(*FIT, *OUT)
    assert result.status == 130
    assert f"only the draws so far were saved; {GOES_ON}" in result.err
    first = posterior()
    assert first.attrs["interrupted"] == 1
    tree = assert_ends_as_if_never_stopped(released, whole, "it has 350 of 1,000 draws (those for tuning included)")
    assert tree.attrs["resumed"] == 1
    draws = first["posterior"]["x"][:1]
    xr.testing.assert_equal(tree["posterior"]["x"][:1, : draws.sizes["draw"]], draws)
    whole.to_netcdf("whole.nc", engine="h5netcdf")
    for name, times in (("posterior", 1), ("whole", 0)):
        assert released("report", f"{name}.nc", "-o", f"{name}.html").status == 0
        told = "The run was stopped and went on once from draws and sampler states on disk"
        assert Path(f"{name}.html").read_text().count(told) == times


def test_a_run_that_is_stopped_while_tuning_leaves_nothing(released, monkeypatch):
    monkeypatch.setattr(recorded, "SECONDS", 60.0)
    with ctrl_c(60):
        result = released(*FIT, *OUT)
    assert result.status == 130
    assert result.err.endswith("bayesdp fit: interrupted, nothing was written to posterior.nc\n")
    assert not PARTIAL.exists()
    assert not OUTPUT.exists()
    PARTIAL.write_text("my notes")  # not ours: it stays
    assert (released(*FIT, *OUT).status, PARTIAL.read_text()) == (2, "my notes")


def test_draws_without_what_is_computed_from_them_are_no_end(released, whole, monkeypatch):
    """As after a kill, or a disk that was full when the rest was to be saved."""
    with monkeypatch.context() as patch:
        full = Mock(side_effect=OSError(28, "No space left on device"))
        patch.setattr("bayesdp.inference.sampling.diagnosed", full)
        result = released(*FIT, *OUT)
    assert result.status == 2
    assert f"has the draws, and nothing that is computed from them; {GOES_ON}" in result.err
    assert "it was not said of which file; temporary files are in " in result.err
    assert len(posterior()["diagnostics"].data_vars) == 0
    assert len(assert_ends_as_if_never_stopped(released, whole)["diagnostics"].data_vars) > 0


def test_draws_of_a_run_that_did_not_end_are_not_lost_without_a_word(released):
    with ctrl_c(150):
        assert released(*FIT, *OUT).status == 130
    before = content(), OUTPUT.read_bytes()
    few = tuple("4" if word == "400" else word for word in FIT)
    has = "'posterior.nc.partial' has draws of a run that did not end"
    for arguments, words in (
        (FIT, [f"{has}: --resume goes on with them, --force removes them"]),
        ((*FIT, "--resume", "--force"), ["give one of them"]),
        ((*FIT, "--resume", "--hyper", "shape=2"), ["is of another run: its", "here it is"]),
        ((*few, "--resume"), ["draws=4 are asked for: ask for as many or more"]),
    ):
        failed(released(*arguments, *OUT), *words)
        assert (content(), OUTPUT.read_bytes()) == before
    result = released(*FIT, *OUT, "--force")
    assert result.status == 0
    assert "--force: draws of a run that did not end were removed (posterior.nc.partial)" in result.err
    assert not PARTIAL.exists()
    assert "resumed" not in posterior().attrs


def test_resume_begins_where_there_is_nothing_and_goes_on_with_more_draws_of_a_run_that_has_ended(released, whole):
    result = released(*FIT, *OUT, "--resume")
    assert result.status == 0
    assert "going on" not in result.err
    assert "resumed" not in posterior().attrs
    before, kept = OUTPUT.read_bytes(), content(CHAINS)
    told = "of a run that ended, with 400 draws of each chain: --resume goes on with more, and --draws is 400"
    failed(released(*FIT, *OUT, "--resume"), told)
    failed(released(*MORE, *OUT, "--resume", "--seed", "2"), "its seed is 1, here it is 2")
    assert not PARTIAL.exists()
    PARTIAL.write_text("my notes")
    failed(released(*FIT, *OUT, "--force"), "is no journal of a run: name another folder, or move it away")
    assert (PARTIAL.read_text(), OUTPUT.read_bytes(), content(CHAINS)) == ("my notes", before, kept)
    PARTIAL.unlink()
    with ctrl_c(1100):
        result = released(*MORE, *OUT, "--resume")
    assert result.status == 130
    assert "it has 1,000 of 1,400 draws" in result.err
    assert released(*MORE, *OUT, "--resume").status == 0
    assert not PARTIAL.exists()
    x = posterior()["posterior"]["x"]
    assert x.sizes["draw"] == 600
    xr.testing.assert_equal(x[:, :400], whole["posterior"]["x"])
    assert released(*MORE, "-o", "long.nc").status == 0
    long = posterior("long.nc")
    for group in ("posterior", "prior", "prior_predictive"):
        xr.testing.assert_equal(posterior()[group].to_dataset(), long[group].to_dataset())
    assert dict(posterior()["diagnostics"].attrs) == dict(long["diagnostics"].attrs)
    remove_journal(CHAINS)
    failed(released(*MORE, *OUT, "--resume"), "exists already, with no draws to go on from")


def test_a_model_for_nutpie_has_no_draws_to_go_on_from(released, monkeypatch):
    monkeypatch.setattr(bayesdp.inference, "tells_of_draws", lambda model: False)
    failed(released(*FIT, *OUT, "--resume"), "sampled by nutpie")
    result = released(*FIT[:-1], *OUT)
    assert result.status in (0, 3), result.err
    assert "draws are saved at the end only, and --resume cannot go on with them" in result.err
    assert not PARTIAL.exists()


@pytest.mark.parametrize("cores", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_a_run_that_is_killed_loses_nothing(released, whole, cores):
    """SIGKILL, to the main process alone, at two moments; what runs on in its chains does not write."""
    at, size = FIT.index("--cores") + 1, 0
    for _ in range(2):
        process = started(*FIT[:at], cores, *FIT[at + 1 :], *OUT, "--resume", stderr=subprocess.DEVNULL)
        try:
            wait_for(
                lambda own=process, n=size: own.poll() is not None or len([*PARTIAL.glob("chain-*")]) > n + 15, 300
            )
            assert process.poll() is None, "it ended before it was killed"
        finally:
            process.kill()
            process.wait()
        size = len([*PARTIAL.glob("chain-*")])
        assert not OUTPUT.exists()
    assert assert_ends_as_if_never_stopped(released, whole).attrs["resumed"] == 2

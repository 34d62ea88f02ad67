"""`bdp.fit_parts`: the same draws wherever it runs and wherever it was stopped, and what it refuses."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial, VaryingShares
from bayesdp.streaming import parts_driver as driver
from bayesdp.streaming.parts_driver import NAME
from tests.streaming.parts.cases import PRIOR, country

pytestmark = pytest.mark.system

SIZES = {"draws": 40, "tune": 10, "phase": 5, "together": 2, "random_seed": 3, "quiet": True}


@pytest.fixture(scope="module")
def cut():
    return split(country(), "state")


def _fit(cut, prior=PRIOR, **more):
    parts, top = cut
    return bdp.fit_parts(
        parts, prior, top=top, record=bdp.Margins(top.frame, ["state", "race"]),
        **{"record_parts": lambda frame: bdp.Totals(frame, by="county"), **SIZES, **more},
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone(cut):
    return _fit(cut)


def _same(one, other):
    assert list(one.groups) == list(other.groups)
    for group in one.groups:
        xr.testing.assert_equal(one[group].to_dataset(), other[group].to_dataset())


def test_what_is_in_the_result(alone):
    draws = alone["posterior"]["by_race_state"]
    assert draws["draw"].values.tolist() == [4, 9, 14, 19, 24, 29, 34, 39]
    assert (draws.sum("race") == xr.DataArray([3, 2, 2], dims="state")).all()
    own = alone["parts/S/posterior"]["by_county"]
    assert own.sizes == {"chain": 4, "draw": 40, "county": 2}
    np.testing.assert_array_equal(own.isel(draw=slice(4, None, 5)).sum("county"), draws.sel(state="S").sum("race"))
    np.testing.assert_allclose(alone["parts/S/cells"]["mean"].sum("race"), own.mean(("chain", "draw")))
    assert alone["parts/S/release"].attrs


def test_the_same_draws_from_the_same_seed(cut, alone):
    _same(_fit(cut), alone)
    other = _fit(cut, random_seed=4)
    assert (other["posterior"]["by_race_state"] != alone["posterior"]["by_race_state"]).any()


def test_parts_may_be_functions(cut, alone):
    parts, top = cut
    _same(_fit(({label: lambda own=own: own for label, own in parts.items()}, top)), alone)


class _KilledError(Exception):
    pass


def test_a_run_that_was_stopped_goes_on_where_it_was_saved(cut, alone, tmp_path, monkeypatch):
    saved = []

    def killed(*given):
        saved.append(original(*given))
        if len(saved) == 3:
            raise _KilledError

    original = driver.RunJournal.write
    with monkeypatch.context() as patch:
        patch.setattr(driver.RunJournal, "write", killed)
        with pytest.raises(_KilledError):
            _fit(cut, folder=tmp_path, save_every=2)
    with pytest.raises(FileExistsError, match="resume=True"):
        _fit(cut, folder=tmp_path)
    with pytest.raises(ValueError, match="is of another run: its seed is"):
        _fit(cut, folder=tmp_path, resume=True, random_seed=9)
    with pytest.raises(ValueError, match="is of another run: its prior: 'S' is"):
        _fit(cut, folder=tmp_path, resume=True, prior=FixedNegativeBinomial(1.0, 1.0))
    moved = []
    with monkeypatch.context() as patch:
        patch.setattr(
            driver.Driver, "_phase", lambda self, own, real=driver.Driver._phase: (moved.append(1), real(self, own))
        )
        _same(_fit(cut, folder=tmp_path, resume=True, save_every=2), alone)
    assert len(moved) == 10 - 6
    _same(
        _fit(cut, folder=tmp_path, resume=True, random_seed=None), alone
    )  # a run that has ended gives its result again
    damaged = (tmp_path / NAME).read_bytes()[:-30]
    (tmp_path / NAME).write_bytes(damaged)
    with pytest.raises(ValueError, match=r"chains\.npz' is damaged"):
        _fit(cut, folder=tmp_path, resume=True)


def _state_with(**changed):
    def packed(own):
        state = driver.part_tasks.PartState.unpacked(own.tobytes())
        for name, change in changed.items():
            setattr(state, name, change(getattr(state, name)))
        return np.frombuffer(state.packed(), dtype=np.uint8)

    return packed


IMPOSSIBLE = {
    "a donor that is no cell": ("state 1 2", _state_with(donor_cell=lambda own: own * 0 + 2**40)),
    "donors cut short": ("state 1 2", _state_with(donor_cell=lambda own: own[:-1])),
    "negative counts": ("state 0 0", _state_with(counts=lambda own: own - 1)),
    "counts beside the exact total": ("state 0 0", _state_with(counts=lambda own: own + 1)),
    "cells that are not kept": ("state 0 1", _state_with(kept=lambda own: {**own, "first": own["first"][:-1]})),
    "a state that grows": ("state 0 1", lambda _: np.frombuffer(zlib.compress(bytes(10**8)), dtype=np.uint8)),
    "a state cut short": ("state 0 1", lambda own: own[:-9]),
    "sums of other tables": ("tables", lambda own: own + 1),
    "fewer parts": ("tables", lambda own: own[:, :-1]),
    "a phase after the last": ("phase", lambda own: own + 1),
    "draws cut short": ("record 1 2 answers:by_county", lambda own: own[:-1]),
    "joint draws cut short": ("top 0 by_race_state", lambda own: own[:-1]),
}


@pytest.fixture(scope="module")
def states(cut, tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    _fit(cut, folder=folder)
    with np.load(folder / NAME) as arrays:
        return folder, dict(arrays)


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_states_that_no_chain_had_are_refused(cut, states, wrong):
    folder, arrays = states
    name, change = IMPOSSIBLE[wrong]
    np.savez(folder / NAME, **arrays | {name: change(arrays[name])})
    with pytest.raises(ValueError, match=r"chains\.npz' is damaged \("):
        _fit(cut, folder=folder, resume=True)


def test_a_full_disk_costs_the_saving_and_not_the_run(cut, alone, tmp_path, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bayesdp.streaming.journal.replacing", full)
    _same(_fit(cut, folder=tmp_path, save_every=1), alone)
    assert [own.getMessage().count("No space left on device") for own in caplog.records] == [1]


def test_a_worker_that_dies_while_it_is_sent_a_part_costs_no_run(cut):
    """A cluster of one that loses everything at the first sending, and at the first asking."""

    class Future:
        status = "finished"

        def __init__(self, value):
            self.value = value

        def result(self):
            client.fail("asked")
            return self.value

        def release(self):
            pass

    class Client:
        def __init__(self):
            self.left = {"sent": 1, "asked": 1}

        def fail(self, what):
            self.left[what] -= 1
            if self.left[what] >= 0:
                raise OSError("a worker has died")

        def wait_for_workers(self, *_, **__):
            pass

        def scatter(self, value, **_):
            self.fail("sent")
            return Future(value)

        def submit(self, function, sent, *arguments, **_):
            return Future(function(sent.value, *arguments))

    client = Client()
    parts, _ = cut
    spec = driver.part_tasks.PartSpec(parts["S"], PRIOR, None, (), (), None, None, None)
    runner = driver.OnDask([cloudpickle.dumps(spec)], ["S"], client)
    [found] = runner.run([driver.Task(0, driver.part_tasks.unseen)])
    assert found.shape[0] == 3
    assert client.left["sent"] < 0
    assert client.left["asked"] < 0


_SCRIPT = """
import os, signal, sys
from bayesdp.hierarchies import split
from bayesdp.streaming import parts_driver as driver
from tests.streaming.parts.cases import country
from tests.streaming.parts.test_running import _fit
real = driver.Driver._phase
def phase(self, standing):
    real(self, standing)
    if standing.phase == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
driver.Driver._phase = phase
_fit(split(country(), "state"), folder=sys.argv[1], save_every=2)
"""


@pytest.mark.slow  # two processes that import everything
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_driver_goes_on_where_it_was_saved(cut, alone, tmp_path, monkeypatch):
    """Killed in the tuning, then among the draws, each time in the middle of two savings."""
    root = Path(__file__).resolve().parents[3]
    script = _SCRIPT
    for phase in ("1", "7"):
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path), phase], cwd=root, timeout=300, check=False)
        assert done.returncode == -signal.SIGKILL
        assert (tmp_path / NAME).exists() == (phase == "7")
        script = _SCRIPT.replace("save_every=2)", "save_every=2, resume=True)")
    moved = []
    with monkeypatch.context() as patch:
        patch.setattr(
            driver.Driver, "_phase", lambda self, own, real=driver.Driver._phase: (moved.append(1), real(self, own))
        )
        _same(_fit(cut, folder=tmp_path, resume=True, save_every=2), alone)
    assert len(moved) == 10 - 6


def test_on_a_cluster_the_draws_are_the_same(cut, alone):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        _same(_fit(cut, client=client), alone)


@pytest.mark.slow
def test_a_killed_worker_costs_its_tasks_and_no_draw(cut, alone, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    killed = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def write(_, name, arrays):
            if int(arrays["phase"]) in (3, 5):
                process = next(iter(client.run(os.getpid).values()))
                os.kill(process, signal.SIGKILL)
                killed.append(process)

        monkeypatch.setattr(driver.RunJournal, "write", write)
        _same(_fit(cut, client=client, folder=tmp_path, save_every=1), alone)
    assert len(set(killed)) == 2


def test_hyperparameters_are_those_of_each_part(cut):
    tree = _fit(cut, VaryingShares(), draws=20)
    assert "each part has its own" in tree["coupling"].attrs["hyperparameters"]
    for label in "STU":
        names = VaryingShares().names
        assert set(names) <= set(tree[f"parts/{label}/posterior"].data_vars)


def test_the_statement_of_the_coupling(alone, cut):
    """One answer at a time, by dense least squares."""
    parts, _ = cut
    coupling = alone["coupling"].to_dataset()
    variances = [bdp.gls(own, "county").sd(bdp.Margins(own.frame, ["race"]))[0] ** 2 for own in parts.values()]
    v = np.diag(variances)
    row = np.ones((3, 1))
    after = np.linalg.inv(np.linalg.inv(v) + row @ row.T / 0.8**2)
    own = coupling.isel(by_race_answer=0)
    np.testing.assert_allclose(own["by_race_sd_without"], np.sqrt(variances))
    np.testing.assert_allclose(own["by_race_sd_with"], np.sqrt(np.diag(after)))
    np.testing.assert_allclose(own["by_race_total_sd_without"], np.sqrt(v.sum()))
    np.testing.assert_allclose(own["by_race_total_sd_with"], np.sqrt((row.T @ after @ row).item()))
    assert np.isnan(coupling["by_race_region_share"].sel(part="S", by_race_region_answer="race=a, region=south"))


def test_exact_sums_above_follow_from_the_parts_or_are_refused(cut):
    parts, top = cut
    known = country(exact=("state", "region"))
    _, both = split(known, "state")
    assert len(both.exact) == 1
    _fit((parts, both), draws=5, phase=5)
    wrong = bdp.Release.from_published(top.frame, top.measurements, [bdp.Exact(bdp.Totals(top.frame), 8)])
    with pytest.raises(ValueError, match="exact answer 'total' is = 8; the exact answers of the parts add up to 7"):
        _fit((parts, wrong))
    free, above = split(country(exact=()), "state")
    only = bdp.Release.from_published(above.frame, above.measurements, [bdp.Exact(bdp.Totals(above.frame), 7)])
    with pytest.raises(NotImplementedError, match="about the part 'S', whose own sum is not exact"):
        _fit((free, only))
    finer = bdp.Release.from_published(
        top.frame, top.measurements, [bdp.Exact(bdp.Margins(top.frame, ["race"]), [4, 3])]
    )
    with pytest.raises(NotImplementedError, match="'race=a' is about the part 'S'"):
        _fit((parts, finer))


def test_errors_name_the_part(cut):
    parts, top = cut

    def unreadable():
        raise OSError("no such file: U.parquet")

    with pytest.raises(OSError, match=r"U\.parquet") as raised:
        _fit(({**parts, "U": unreadable}, top))
    assert raised.value.__notes__ == ["This is about the part 'U'."]
    with pytest.raises(TypeError, match=r"must return a bayesdp\.Release, got int"):
        _fit(({**parts, "U": lambda: 3}, top))


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"phase": 7}, ValueError, "draws must be a multiple of phase, got 40 and 7"),
        ({"resume": True}, ValueError, "resume needs the folder"),
        ({"together": 0}, ValueError, "together must be"),
        ({"record_parts": 3}, TypeError, "record_parts must be a function"),
        ({"prior": {"S": PRIOR}}, ValueError, "prior: there is none for the parts 'T', 'U'"),
        ({"leaves": "tract"}, ValueError, "leaves must be a dimension of every part"),
    ],
)
def test_arguments_that_are_not_valid(cut, changed, error, match):
    with pytest.raises(error, match=match):
        _fit(cut, **changed)


def test_parts_that_are_not_valid(cut):
    parts, top = cut
    with pytest.raises(TypeError, match="parts must be releases by label"):
        bdp.fit_parts([1], PRIOR)
    with pytest.raises(ValueError, match="'N/A' cannot"):
        bdp.fit_parts({"N/A": parts["S"]}, PRIOR)
    with pytest.raises(TypeError, match="'S' must be a release, or a function"):
        bdp.fit_parts({"S": 3}, PRIOR)
    with pytest.raises(ValueError, match="top must be about a table that has the parts 'S', 'T'"):
        bdp.fit_parts({"S": parts["S"], "T": parts["T"]}, PRIOR, top=top)
    with pytest.raises(TypeError, match=r"top must be a bayesdp\.Release"):
        bdp.fit_parts(parts, PRIOR, top=3)


def test_more_than_memory_is_refused_before_sampling(cut, monkeypatch):
    seen = []
    monkeypatch.setattr(driver.Driver, "_phase", lambda *_: seen.append(1))
    monkeypatch.setattr("bayesdp.streaming.chains.available_memory", lambda: 1_000)
    message = r"works on this part needs about .* MB of memory, and 0\.0 MB are available.*smaller parts.*`bins`"
    with pytest.raises(MemoryError, match=message) as raised:
        _fit(cut)
    assert raised.value.__notes__ == ["This is about the part 'S'."]
    monkeypatch.setattr("bayesdp.streaming.part_tasks.check_worker", lambda _: None)
    message = r"in the process that drives it, and 0\.0 MB .* cells of 3 parts .*`record_parts`.* work on the parts .*`client`"
    with pytest.raises(MemoryError, match=message):
        _fit(cut)
    assert not seen


def test_the_memory_check_can_be_left_out(cut, alone, monkeypatch):
    monkeypatch.setattr("bayesdp.streaming.chains.available_memory", lambda: 1_000)
    _same(_fit(cut, memory_check=False), alone)

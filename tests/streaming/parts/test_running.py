"""`bdp.fit_parts`: the same draws wherever it runs and wherever it was stopped, and what it refuses."""

import logging
import os
import signal
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import VaryingShares
from bayesdp.streaming import driver
from bayesdp.streaming.driver import ABOVE
from tests.streaming.parts.cases import PARTS, PRIOR, SIZES, TOP, assert_same, country, fitted, stop_after

pytestmark = pytest.mark.system
ROUNDS, LAST = 11, "chain-1-part-2-10.npz"  # the start, two phases of the tuning, and eight of draws


@pytest.fixture(scope="module")
def alone():
    return fitted()


def test_what_is_in_the_result_and_the_same_draws_from_the_same_seed(alone, monkeypatch):
    _, both = split(country(exact=("state", "region")), "state")
    assert len(both.exact) == 1
    fitted(cut=(PARTS, both), draws=5, phase=5)
    draws = alone["posterior"]["by_race_state"]
    assert draws["draw"].values.tolist() == [4, 9, 14, 19, 24, 29, 34, 39]
    assert (draws.sum("race") == xr.DataArray([3, 2, 2], dims="state")).all()
    own = alone["parts/S/posterior"]["by_county"]
    assert own.sizes == {"chain": 4, "draw": 40, "county": 2}
    np.testing.assert_array_equal(own.isel(draw=slice(4, None, 5)).sum("county"), draws.sel(state="S").sum("race"))
    np.testing.assert_allclose(alone["parts/S/cells"]["mean"].sum("race"), own.mean(("chain", "draw")))
    other = fitted(random_seed=4)
    assert (other["posterior"]["by_race_state"] != draws).any()
    # Parts may be functions; and without a check of the memory there may be none.
    monkeypatch.setattr("bayesdp.inference.memory.available_memory", lambda: 1_000)
    again = fitted(cut=({label: lambda own=own: own for label, own in PARTS.items()}, TOP), memory_check=False)
    assert_same(again, alone)
    tree = fitted(VaryingShares(), draws=20, memory_check=False)
    assert all(set(VaryingShares().names) <= set(tree[f"parts/{own}/posterior"].data_vars) for own in "STU")


def test_a_run_that_was_stopped_goes_on_where_it_was_saved(alone, tmp_path, monkeypatch):
    move, moved = driver.Driver._round, []
    stop_after(4, lambda: fitted(folder=tmp_path))
    with pytest.raises(FileExistsError, match="resume=True"):
        fitted(folder=tmp_path)
    monkeypatch.setattr(driver.Driver, "_round", lambda self: (moved.append(1), move(self)))
    assert_same(fitted(folder=tmp_path, resume=True), alone)
    assert len(moved) == ROUNDS - 4
    # A run that has ended gives its result again; states of earlier rounds are gone.
    assert_same(fitted(folder=tmp_path, resume=True, random_seed=None), alone)
    states = {f"chain-{c}-part-{k}-{ROUNDS - 1}.npz" for c in range(4) for k in range(3)}
    assert {own.name for own in tmp_path.iterdir()} == {"run.json", "lock", ABOVE, *states}
    (tmp_path / LAST).rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match=f"{LAST}' is missing"):
        fitted(folder=tmp_path, resume=True)
    # Sums above that no run had are refused; of the states of each chain: tests/streaming/test_journal.py.
    (tmp_path / "moved").rename(tmp_path / LAST)
    with np.load(tmp_path / ABOVE) as own:
        arrays = dict(own)
    for change in ({"round": arrays["round"] + 1}, {"0 by_race_state": arrays["0 by_race_state"][:-1]}, None):
        if change:
            np.savez(tmp_path / ABOVE, **arrays | change)
        else:
            np.savez(tmp_path / ABOVE, **arrays)
            (tmp_path / ABOVE).write_bytes((tmp_path / ABOVE).read_bytes()[:-30])
        with pytest.raises(ValueError, match=rf"{ABOVE}' is damaged"):
            fitted(folder=tmp_path, resume=True)


def test_a_full_disk_costs_the_saving_and_not_the_run(alone, tmp_path, monkeypatch, caplog):
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("bayesdp.storage.journal.replacing", full)
    assert_same(fitted(folder=tmp_path), alone)
    assert [own.getMessage().count("No space left on device") for own in caplog.records] == [1]


def test_on_a_cluster_the_draws_are_the_same_and_a_killed_worker_costs_none(alone, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    killed, real = [], driver.Driver._round
    given = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**given, silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster) as client,
    ):

        def killing(self):
            if self.round in (3, 5):
                process = next(iter(client.run(os.getpid).values()))
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            real(self)

        monkeypatch.setattr(driver.Driver, "_round", killing)
        assert_same(fitted(client=client, folder=tmp_path), alone)
    assert len(set(killed)) == 2


FREE, ABOVE_FREE = split(country(exact=()), "state")


def _known(top, query, answers):
    return bdp.Release.from_published(top.frame, top.measurements, [bdp.Exact(query, answers)])


EIGHT, SEVEN = _known(TOP, bdp.Totals(TOP.frame), 8), _known(ABOVE_FREE, bdp.Totals(TOP.frame), 7)
RACES = _known(TOP, bdp.Margins(TOP.frame, ["race"]), [4, 3])
REFUSED = [
    ({"phase": 7}, ValueError, "draws must be a multiple of phase, got 40 and 7"),
    ({"resume": True}, ValueError, "resume needs the folder"),
    ({"client": 3}, TypeError, "client must be an executor, a Dask client, or the address"),
    ({"together": 0}, ValueError, "together must be"),
    ({"record_parts": 3}, TypeError, "record_parts must be a function"),
    ({"prior": {"S": PRIOR}}, ValueError, "prior: there is none for the parts 'T', 'U'"),
    ({"leaves": "tract"}, ValueError, "leaves must be a dimension of the table"),
    ({"parts": [1]}, TypeError, "parts must be releases by label"),
    ({"parts": {"N/A": PARTS["S"]}}, ValueError, "'N/A' cannot"),
    ({"parts": {"S": 3}}, TypeError, "'S' must be a release, or a function"),
    ({"parts": {own: PARTS[own] for own in "ST"}}, ValueError, "top must be about a table that has the parts 'S', 'T'"),
    ({"parts": {**PARTS, "U": lambda: 3}}, TypeError, r"must return a bayesdp\.Release, got int"),
    ({"parts": {**PARTS, "U": Mock(side_effect=OSError("no such file: U.parquet"))}}, OSError, r"U\.parquet"),
    ({"top": 3}, TypeError, r"top must be a bayesdp\.Release"),
    ({"top": EIGHT}, ValueError, "'total' is = 8; the exact answers of the parts add up to 7"),
    ({"top": RACES}, NotImplementedError, "'race=a' is about the part 'S'"),
    ({"parts": FREE, "top": SEVEN}, NotImplementedError, "'S', whose own sum is not exact"),
]


@pytest.mark.parametrize(("given", "error", "message"), REFUSED)
def test_what_is_refused(given, error, message):
    with pytest.raises(error, match=message) as raised:
        bdp.fit_parts(**{"parts": PARTS, "prior": PRIOR, "top": TOP, **SIZES, **given})
    if error is OSError:
        assert raised.value.__notes__ == ["This is about the part 'U'."]


def test_more_than_memory_is_refused_before_sampling(monkeypatch):
    monkeypatch.setattr(driver.Driver, "_round", lambda *_: pytest.fail("it moved"))
    monkeypatch.setattr("bayesdp.inference.memory.available_memory", lambda: 1_000)
    message = r"works on this part needs about .* MB of memory, and 0\.0 MB are available.*smaller parts.*`bins`"
    with pytest.raises(MemoryError, match=message) as raised:
        fitted()
    assert raised.value.__notes__[0] in [f"This is about the part {own!r}." for own in "STU"]
    monkeypatch.setattr("bayesdp.streaming.part.check_worker", lambda _: None)
    message = r"in the process that drives it, .* cells of 3 parts .*`record_parts`.* work on the parts .*`client`"
    with pytest.raises(MemoryError, match=message):
        fitted()

"""`bdp.fit_parts`: the same draws wherever it runs and wherever it was stopped, and what it refuses."""

from __future__ import annotations

import logging
import os
import signal

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial, VaryingShares
from bayesdp.streaming import driver
from bayesdp.streaming.driver import ABOVE
from tests.streaming.parts.cases import PRIOR, assert_same, country, fitted

pytestmark = pytest.mark.system
ROUNDS = 11
"""The start, two phases of the tuning, and eight of draws."""

LAST = f"chain-1-part-2-{ROUNDS - 1}.npz"


@pytest.fixture(scope="module")
def cut():
    return split(country(), "state")


@pytest.fixture(scope="module")
def alone(cut):
    return fitted(cut)


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
    assert_same(fitted(cut), alone)
    other = fitted(cut, random_seed=4)
    assert (other["posterior"]["by_race_state"] != alone["posterior"]["by_race_state"]).any()


def test_parts_may_be_functions(cut, alone):
    parts, top = cut
    assert_same(fitted(({label: lambda own=own: own for label, own in parts.items()}, top)), alone)


class _KilledError(Exception):
    pass


def _counted(patch):
    """How many rounds are made."""
    moved, real = [], driver.Driver._round
    patch.setattr(driver.Driver, "_round", lambda self: (moved.append(1), real(self)))
    return moved


def test_a_run_that_was_stopped_goes_on_where_it_was_saved(cut, alone, tmp_path, monkeypatch):
    save = driver.Driver._save

    def killed(self):
        save(self)
        if self.round == 4:
            raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr(driver.Driver, "_save", killed)
        with pytest.raises(_KilledError):
            fitted(cut, folder=tmp_path)
    with pytest.raises(FileExistsError, match="resume=True"):
        fitted(cut, folder=tmp_path)
    with pytest.raises(ValueError, match="is of another run: its seed is"):
        fitted(cut, folder=tmp_path, resume=True, random_seed=9)
    with pytest.raises(ValueError, match="is of another run: its prior: 'S' is"):
        fitted(cut, folder=tmp_path, resume=True, prior=FixedNegativeBinomial(1.0, 1.0))
    with monkeypatch.context() as patch:
        moved = _counted(patch)
        assert_same(fitted(cut, folder=tmp_path, resume=True), alone)
    assert len(moved) == ROUNDS - 4
    # A run that has ended gives its result again; states of earlier rounds are gone.
    assert_same(fitted(cut, folder=tmp_path, resume=True, random_seed=None), alone)
    states = {f"chain-{c}-part-{k}-{ROUNDS - 1}.npz" for c in range(4) for k in range(3)}
    assert {own.name for own in tmp_path.iterdir()} == {"run.json", "lock", ABOVE, *states}
    (tmp_path / LAST).unlink()
    with pytest.raises(FileNotFoundError, match=f"{LAST}' is missing"):
        fitted(cut, folder=tmp_path, resume=True)
    (tmp_path / ABOVE).write_bytes((tmp_path / ABOVE).read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"above\.npz' is damaged"):
        fitted(cut, folder=tmp_path, resume=True)


IMPOSSIBLE = {
    "a donor that is no cell": ("LAST", "state:donor_cell", lambda own: own * 0 + 2**40),
    "donors cut short": ("LAST", "state:donor_cell", lambda own: own[:-1]),
    "negative counts": ("LAST", "state:counts", lambda own: own - 1),
    "counts beside the exact total": ("LAST", "state:counts", lambda own: own + 1),
    "cells that are not kept": ("LAST", "kept:first", lambda own: own[:-1]),
    "draws cut short": ("LAST", "answers:by_county", lambda own: own[:-1]),
    "a draw after the last": ("LAST", "done", lambda own: own + 1),
    "a round after the last": ("ABOVE", "round", lambda own: own + 1),
    "joint draws cut short": ("ABOVE", "0 by_race_state", lambda own: own[:-1]),
}


@pytest.fixture(scope="module")
def states(cut, tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    fitted(cut, folder=folder)
    return folder, {"LAST": (folder / LAST).read_bytes(), "ABOVE": (folder / ABOVE).read_bytes()}


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_states_that_no_chain_had_are_refused(cut, states, wrong):
    folder, whole = states
    kind, name, change = IMPOSSIBLE[wrong]
    file = folder / {"LAST": LAST, "ABOVE": ABOVE}[kind]
    with np.load(file) as arrays:
        changed = {**arrays, name: change(arrays[name])}
    np.savez(file, **changed)
    with pytest.raises(ValueError, match=rf"{file.name}' is damaged \("):
        fitted(cut, folder=folder, resume=True)
    file.write_bytes(whole[kind])


def test_a_full_disk_costs_the_saving_and_not_the_run(cut, alone, tmp_path, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bayesdp.storage.journal.replacing", full)
    assert_same(fitted(cut, folder=tmp_path), alone)
    assert [own.getMessage().count("No space left on device") for own in caplog.records] == [1]


def test_on_a_cluster_the_draws_are_the_same(cut, alone):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        assert_same(fitted(cut, client=client), alone)


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
        real = driver.Driver._round

        def killing(self):
            if self.round in (3, 5):
                process = next(iter(client.run(os.getpid).values()))
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            real(self)

        monkeypatch.setattr(driver.Driver, "_round", killing)
        assert_same(fitted(cut, client=client, folder=tmp_path), alone)
    assert len(set(killed)) == 2


def test_hyperparameters_are_those_of_each_part(cut):
    tree = fitted(cut, VaryingShares(), draws=20)
    for label in "STU":
        names = VaryingShares().names
        assert set(names) <= set(tree[f"parts/{label}/posterior"].data_vars)


def test_exact_sums_above_follow_from_the_parts_or_are_refused(cut):
    parts, top = cut
    known = country(exact=("state", "region"))
    _, both = split(known, "state")
    assert len(both.exact) == 1
    fitted((parts, both), draws=5, phase=5)
    wrong = bdp.Release.from_published(top.frame, top.measurements, [bdp.Exact(bdp.Totals(top.frame), 8)])
    with pytest.raises(ValueError, match="exact answer 'total' is = 8; the exact answers of the parts add up to 7"):
        fitted((parts, wrong))
    free, above = split(country(exact=()), "state")
    only = bdp.Release.from_published(above.frame, above.measurements, [bdp.Exact(bdp.Totals(above.frame), 7)])
    with pytest.raises(NotImplementedError, match="about the part 'S', whose own sum is not exact"):
        fitted((free, only))
    finer = bdp.Release.from_published(
        top.frame, top.measurements, [bdp.Exact(bdp.Margins(top.frame, ["race"]), [4, 3])]
    )
    with pytest.raises(NotImplementedError, match="'race=a' is about the part 'S'"):
        fitted((parts, finer))


def test_errors_name_the_part(cut):
    parts, top = cut

    def unreadable():
        raise OSError("no such file: U.parquet")

    with pytest.raises(OSError, match=r"U\.parquet") as raised:
        fitted(({**parts, "U": unreadable}, top))
    assert raised.value.__notes__ == ["This is about the part 'U'."]
    with pytest.raises(TypeError, match=r"must return a bayesdp\.Release, got int"):
        fitted(({**parts, "U": lambda: 3}, top))


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"phase": 7}, ValueError, "draws must be a multiple of phase, got 40 and 7"),
        ({"resume": True}, ValueError, "resume needs the folder"),
        ({"client": 3}, TypeError, "client must be an executor, a Dask client, or the address"),
        ({"together": 0}, ValueError, "together must be"),
        ({"record_parts": 3}, TypeError, "record_parts must be a function"),
        ({"prior": {"S": PRIOR}}, ValueError, "prior: there is none for the parts 'T', 'U'"),
        ({"leaves": "tract"}, ValueError, "leaves must be a dimension of the table"),
    ],
)
def test_arguments_that_are_not_valid(cut, changed, error, match):
    with pytest.raises(error, match=match):
        fitted(cut, **changed)


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
    monkeypatch.setattr(driver.Driver, "_round", lambda *_: seen.append(1))
    monkeypatch.setattr("bayesdp.inference.memory.available_memory", lambda: 1_000)
    message = r"works on this part needs about .* MB of memory, and 0\.0 MB are available.*smaller parts.*`bins`"
    with pytest.raises(MemoryError, match=message) as raised:
        fitted(cut)
    assert raised.value.__notes__ == ["This is about the part 'S'."]
    monkeypatch.setattr("bayesdp.streaming.part.check_worker", lambda _: None)
    message = (
        r"in the process that drives it, .* 0\.0 MB .* cells of 3 parts .*`record_parts`.* work on the parts .*`client`"
    )
    with pytest.raises(MemoryError, match=message):
        fitted(cut)
    assert not seen


def test_the_memory_check_can_be_left_out(cut, alone, monkeypatch):
    monkeypatch.setattr("bayesdp.inference.memory.available_memory", lambda: 1_000)
    assert_same(fitted(cut, memory_check=False), alone)

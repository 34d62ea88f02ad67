from __future__ import annotations

import logging
import os
import signal
import sys

import pytest

from bayesdp.calibration import runs
from bayesdp.calibration.runs import DIED, choose_runner, in_processes, on_dask, serially
from tests.calibration.cluster import N, seeded, started, wait_for, work_left

pytestmark = pytest.mark.system


def square(number):
    if number == 3:
        raise ValueError("three")
    return {"number": number, "square": number**2}


def deadly(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": number}


EXPECTED = [
    {"number": 1, "square": 1},
    {"number": 2, "square": 4},
    {"number": 3, "error": "ValueError: three"},
    {"number": 4, "square": 16},
]


def by_number(records):
    return sorted(records, key=lambda r: r["number"])


def test_here_and_in_processes_the_records_are_the_same():
    assert list(serially(square, [1, 2, 3, 4])) == EXPECTED
    assert by_number(in_processes(2)(square, [1, 2, 3, 4])) == EXPECTED


AFTER = [{"number": k} if k != 2 else {"number": 2, "error": DIED, "again": True} for k in range(12)]


def test_a_killed_process_costs_one_simulation():
    assert by_number(in_processes(2)(deadly, range(12))) == AFTER


def test_on_dask_the_records_are_the_same_and_a_killed_worker_costs_one_simulation():
    distributed = pytest.importorskip("distributed")
    places = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**places, silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert by_number(on_dask(client)(square, [1, 2, 3, 4])) == EXPECTED
        assert by_number(on_dask(cluster.scheduler_address)(deadly, range(12))) == AFTER


def test_one_place_at_a_time():
    with pytest.raises(ValueError, match="not both"):
        choose_runner("tcp://127.0.0.1:1", 2)
    with pytest.raises(ValueError, match="workers"):
        choose_runner(None, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_runner_that_is_interrupted_takes_its_simulations_back(tmp_path, monkeypatch):
    """As at Ctrl-C in a notebook: the traceback keeps everything that the run had, and the client stays."""
    whole, seen, records = runs.wait, [], []

    def pressed(*futures, **given):
        seen.append(futures)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return whole(*futures, **given)

    distributed, starts = pytest.importorskip("distributed"), tmp_path / "starts"
    monkeypatch.setattr(runs, "wait", pressed)
    with started() as scheduler, distributed.Client(scheduler) as client:
        with pytest.raises(KeyboardInterrupt) as interrupt:
            records.extend(on_dask(client)(seeded(str(starts)), range(N)))
        assert interrupt.tb is not None
        wait_for(lambda: work_left(scheduler) == (0, 0), 10.0)
        assert (
            len(starts.read_text().split()) <= len(records) + 2 + 2
        )  # those that had ended, and those that were being run

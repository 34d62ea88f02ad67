from __future__ import annotations

import logging
import os
import signal

import pytest

from bayesdp.calibration.runs import DIED, choose_runner, in_processes, on_dask, serially

pytestmark = pytest.mark.system


def square(number):
    if number == 3:
        raise ValueError("three")
    return {"number": number, "square": number**2}


def deadly(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": number}


def sorted_records(records):
    return sorted(records, key=lambda r: r["number"])


EXPECTED = [
    {"number": 1, "square": 1},
    {"number": 2, "square": 4},
    {"number": 3, "error": "ValueError: three"},
    {"number": 4, "square": 16},
]


def test_here_and_in_processes_the_records_are_the_same():
    numbers = [1, 2, 3, 4]
    assert list(serially(square, numbers)) == EXPECTED
    assert sorted_records(in_processes(2)(square, numbers)) == EXPECTED


def test_a_killed_process_costs_one_simulation():
    records = sorted_records(in_processes(2)(deadly, range(6)))
    assert [r["number"] for r in records] == list(range(6))
    assert records[2] == {"number": 2, "error": DIED, "again": True}
    assert all("error" not in r for r in records if r["number"] != 2)


def test_on_dask_the_records_are_the_same():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        assert sorted_records(on_dask(client)(square, [1, 2, 3, 4])) == EXPECTED
        assert sorted_records(on_dask(cluster.scheduler_address)(square, [1, 2, 3, 4])) == EXPECTED


@pytest.mark.slow
def test_a_killed_dask_worker_costs_one_simulation():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as cluster:
        records = sorted_records(on_dask(cluster.scheduler_address)(deadly, range(12)))
    assert records == [{"number": k} if k != 2 else {"number": 2, "error": DIED, "again": True} for k in range(12)]


def test_one_place_at_a_time():
    with pytest.raises(ValueError, match="not both"):
        choose_runner("tcp://127.0.0.1:1", 2)
    with pytest.raises(ValueError, match="workers"):
        choose_runner(None, 0)

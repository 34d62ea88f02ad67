"""SIGKILL to the driver of a calibration on a Dask cluster that is not ours and stays."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from bayesdp.calibration import runs
from bayesdp.calibration.runs import on_dask
from tests.calibration.cluster import SCRIPT, SECONDS, N, driver, killed, records, seeded, started, wait_for, work_left

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.system,
]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with started() as address:
        yield address


@pytest.mark.slow
def test_its_journal_is_whole_the_cluster_forgets_it_and_the_run_goes_on(scheduler, tmp_path):
    journal, starts = tmp_path / "journal.jsonl", tmp_path / "starts"
    killed([*SCRIPT, "driver", scheduler, str(journal), str(starts)], journal, 5)
    had = records(journal)
    assert 5 <= len(had) < N - 5
    wait_for(lambda: work_left(scheduler) == (0, 0), 10.0)
    begun = starts.read_text().split()
    time.sleep(4 * SECONDS)
    assert starts.read_text().split() == begun  # nobody works for the dead
    assert len(begun) < len(had) + 8
    driver(scheduler, str(journal), str(starts))
    assert records(journal)[: len(had)] == had
    again = starts.read_text().split()[len(begun) :]
    assert not {record["number"] for record in had} & set(map(int, again))
    # The same as without a kill.
    one = tmp_path / "one.jsonl"
    driver(scheduler, str(one), str(starts))
    assert sorted(records(journal), key=str) == sorted(records(one), key=str)
    assert len(records(one)) == N


def test_a_runner_that_is_interrupted_takes_its_simulations_back(scheduler, tmp_path, monkeypatch):
    """As at Ctrl-C in a notebook: the traceback keeps everything that the run had, and the client stays."""
    whole, seen, records = runs.wait, [], []

    def pressed(*futures, **given):
        seen.append(futures)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return whole(*futures, **given)

    starts = tmp_path / "starts"
    monkeypatch.setattr(runs, "wait", pressed)
    with distributed.Client(scheduler) as client:
        with pytest.raises(KeyboardInterrupt) as interrupt:
            records.extend(on_dask(client)(seeded(str(starts)), range(N)))
        assert interrupt.tb is not None
        wait_for(lambda: work_left(scheduler) == (0, 0), 10.0)
        assert (
            len(starts.read_text().split()) <= len(records) + 2 + 2
        )  # those that had ended, and those that were being run

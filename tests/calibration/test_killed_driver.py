"""Ctrl-C in the driver of simulations on a Dask cluster that is not ours and stays; `tests/cli/test_calibrate_on_dask.py` kills it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from bayesdp.calibration import runs
from bayesdp.calibration.runs import on_dask
from tests.calibration.cluster import N, seeded, started, wait_for, work_left

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.system,
]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with started() as address:
        yield address


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

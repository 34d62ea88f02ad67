"""Journals of runs, and where simulations run: here, in processes, on a cluster; what is killed or interrupted."""

import json
import logging
import os
import signal
import sys

import pytest

from bayesdp.calibration import runs
from bayesdp.calibration.runs import DIED, Journal, choose_runner, in_processes, on_dask, serially
from tests.calibration.cluster import N, seeded, started, wait_for, work_left

ABOUT, RECORD = {"what": "sbc", "seed": 1}, {"ranks": runs.by_name(runs.unit), "seconds": runs.number}
GOOD = [{"number": k, "ranks": {"x": 0.5, "y": 0.25}, "seconds": 1.0} for k in range(3)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def test_what_was_written_is_read_again_but_another_file_run_or_folder_is_refused_and_left_alone(path, unwritable):
    for content in (b"my notes", b"hello\n", b"[1]\n", json.dumps({"format": "other"}).encode() + b"\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a file of this kind"):
            Journal(path, ABOUT)
        assert path.read_bytes() == content
    path.unlink()
    Journal(path, ABOUT)
    with pytest.raises(ValueError, match="its seed is 1, here it is 2"):
        Journal(path, ABOUT | {"seed": 2})
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Journal(path.parent / "nowhere" / "run.jsonl", ABOUT)
    with pytest.raises(PermissionError):
        Journal(unwritable / "run.jsonl", ABOUT)
    odd = {"number": 2, "ranks": {"x": float("nan"), "y": 0.5}, "seconds": float("inf")}
    failed, died = {"number": 3, "error": "ValueError: no"}, {"number": 4, "error": "its process died", "again": True}
    journal = Journal(path, ABOUT, RECORD)
    for own in (GOOD[1], GOOD[0], odd, failed, died):
        journal.add(own)
    found = Journal(path, ABOUT, RECORD).records
    assert list(found) == [1, 0, 2, 3]
    assert (found[0], found[3]) == (GOOD[0], failed)


def journal_with(path, *lines):
    Journal(path, ABOUT, RECORD).add(GOOD[0])
    Journal(path, ABOUT, RECORD).add(GOOD[1])
    before = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return before


@pytest.mark.parametrize(
    "rest", [b'{"num', b"\0" * 5000, b'{"number": 2, "ra' + b"\0" * 300, b"\0\0\0 1.0}\n", b"\xff\xfe"]
)
def test_what_a_power_cut_leaves_of_the_last_line_is_dropped(path, rest):
    before = journal_with(path, rest)
    again = Journal(path, ABOUT, RECORD)
    assert list(again.records) == [0, 1]
    assert path.read_bytes() == before
    again.add(GOOD[2])
    assert list(Journal(path, ABOUT, RECORD).records) == [0, 1, 2]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("zeros", [0, 4096])
def test_a_torn_first_line_starts_afresh(path, share, zeros):
    Journal(path, ABOUT, RECORD)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))] + b"\0" * zeros)
    Journal(path, ABOUT, RECORD).add(GOOD[0])
    assert path.read_bytes().startswith(whole)
    assert list(Journal(path, ABOUT, RECORD).records) == [0]


ENDS = b', "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}'
SOMETHING = "holds something else"
DAMAGED = {
    b"[1, 2]": "a record must be an object, got list",
    b'"number"': "a record must be an object, got str",
    b"hello": "not valid JSON",
    b"\0\0\0": "not valid JSON",
    b"\xff": "not text in UTF-8",
    b"[" * 100_000: "not valid JSON",
    b"[" * 100_000 + b"]" * 100_000: "not valid JSON",
    b'{"ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}': "missing: 'number'",
    b'{"number": 2, "seconds": 1.0}': "missing: 'ranks'",
    b'{"number": 2, "z": 1' + ENDS: "unknown: 'z'",
    b'{"number": 2, "number": 3' + ENDS: "occurs twice",
    b'{"number": 2.0' + ENDS: f"number {SOMETHING}",
    b'{"number": true' + ENDS: f"number {SOMETHING}",
    b'{"number": -2' + ENDS: f"number {SOMETHING}",
    b'{"number": ' + b"9" * 5000 + ENDS: "too large",
    b'{"number": ' + b"9" * 30 + ENDS: "number holds",
    b'{"number": 2, "ranks": {"x": 1.5, "y": 0.5}, "seconds": 1.0}': f"ranks {SOMETHING}",
    b'{"number": 2, "ranks": {"x": "0.5", "y": 0.5}, "seconds": 1.0}': f"ranks {SOMETHING}",
    b'{"number": 2, "ranks": [0.5, 0.5], "seconds": 1.0}': f"ranks {SOMETHING}",
    b'{"number": 2, "ranks": {}, "seconds": 1.0}': f"ranks {SOMETHING}",
    b'{"number": 2, "ranks": {"x": 0.5, "z": 0.5}, "seconds": 1.0}': "other names.*'y', 'z'",
    b'{"number": 2, "error": 5}': f"error {SOMETHING}",
    b'{"number": 2, "error": "no", "again": "yes"}': f"again {SOMETHING}",
    b'{"number": 1' + ENDS: "another result of number 1 than line 3",
}


@pytest.mark.parametrize("line", DAMAGED, ids=range(len(DAMAGED)))
def test_a_line_that_is_no_record_is_refused_with_file_and_line(path, line):
    journal_with(path, line + b"\n", b'{"number": 5, "error": "no"}\n')
    whole = path.read_bytes()
    with pytest.raises(ValueError, match=DAMAGED[line]) as caught:
        Journal(path, ABOUT, RECORD)
    assert f"{str(path)!r}, line 4: " in str(caught.value)
    assert path.read_bytes() == whole  # nothing is cut off a file that is refused


def odd(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 3:
        raise ValueError("three")
    return {"number": number, "square": number**2}


EXPECTED = [{"number": k, "square": k**2} for k in range(10)]
EXPECTED[2:4] = {"number": 2, "error": DIED, "again": True}, {"number": 3, "error": "ValueError: three"}


def by_number(records):
    return sorted(records, key=lambda r: r["number"])


def test_records_come_in_order_and_from_one_place_at_a_time():
    assert list(serially(odd, [0, 1, 3, 4])) == [EXPECTED[k] for k in (0, 1, 3, 4)]
    with pytest.raises(ValueError, match="not both"):
        choose_runner("tcp://127.0.0.1:1", 2)
    with pytest.raises(ValueError, match="workers"):
        choose_runner(None, 0)


@pytest.mark.system
def test_in_processes_and_on_dask_the_records_are_the_same_and_one_that_is_killed_costs_one_simulation():
    assert by_number(in_processes(2)(odd, range(10))) == EXPECTED
    distributed = pytest.importorskip("distributed")
    places = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**places, silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert by_number(on_dask(client)(odd, [3, 4])) == EXPECTED[3:5]
        assert by_number(on_dask(cluster.scheduler_address)(odd, range(10))) == EXPECTED


@pytest.mark.system
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
        # Those that had ended, and those that were being run.
        assert len(starts.read_text().split()) <= len(records) + 2 + 2

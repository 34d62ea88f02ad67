from __future__ import annotations

import json

import pytest

from bayesdp.calibration.journal import Journal

ABOUT = {"what": "sbc", "seed": 1}


def test_what_was_written_is_read_again(tmp_path):
    path = tmp_path / "run.jsonl"
    first = Journal(path, ABOUT)
    first.add({"number": 3, "ranks": {"x": 0.1}})
    first.add({"number": 1, "error": "ValueError: no"})
    again = Journal(path, ABOUT)
    assert again.records == {3: {"number": 3, "ranks": {"x": 0.1}}, 1: {"number": 1, "error": "ValueError: no"}}


def test_half_a_line_is_dropped_and_the_file_goes_on(tmp_path):
    path = tmp_path / "run.jsonl"
    Journal(path, ABOUT).add({"number": 0})
    with path.open("ab") as file:
        file.write(b'{"number": 1, "ra')
    again = Journal(path, ABOUT)
    assert list(again.records) == [0]
    again.add({"number": 2})
    assert list(Journal(path, ABOUT).records) == [0, 2]


def test_a_dead_process_is_tried_again(tmp_path):
    path = tmp_path / "run.jsonl"
    Journal(path, ABOUT).add({"number": 0, "error": "its process died", "again": True})
    assert Journal(path, ABOUT).records == {}


def test_another_run_is_not_continued(tmp_path):
    path = tmp_path / "run.jsonl"
    Journal(path, ABOUT)
    with pytest.raises(ValueError, match="its seed is 1, here it is 2"):
        Journal(path, ABOUT | {"seed": 2})


@pytest.mark.parametrize("content", [b"hello\n", b"[1]\n", json.dumps({"format": "other"}).encode() + b"\n"])
def test_another_file_is_left_alone(tmp_path, content):
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a file of this kind"):
        Journal(path, ABOUT)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Journal(tmp_path / "nowhere" / "run.jsonl", ABOUT)


def test_a_folder_that_cannot_be_written(unwritable):
    with pytest.raises(PermissionError):
        Journal(unwritable / "run.jsonl", ABOUT)

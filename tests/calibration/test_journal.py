from __future__ import annotations

import json

import pytest

from bayesdp.calibration.runs import Journal, by_name, number, unit

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


RECORD = {"ranks": by_name(unit), "seconds": number}
GOOD = [{"number": k, "ranks": {"x": 0.5, "y": 0.25}, "seconds": 1.0} for k in range(3)]


def journal_with(path, *lines: bytes) -> bytes:
    """A journal of two good records, and then these lines as they are."""
    Journal(path, ABOUT, RECORD).add(GOOD[0])
    Journal(path, ABOUT, RECORD).add(GOOD[1])
    before = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return before


@pytest.mark.parametrize(
    "rest", [b'{"num', b"\0" * 5000, b'{"number": 2, "ra' + b"\0" * 300, b"\0\0\0 1.0}\n", b"\xff\xfe"]
)
def test_what_a_power_cut_leaves_of_the_last_line_is_dropped(tmp_path, rest):
    path = tmp_path / "run.jsonl"
    before = journal_with(path, rest)
    again = Journal(path, ABOUT, RECORD)
    assert list(again.records) == [0, 1]
    assert path.read_bytes() == before
    again.add(GOOD[2])
    assert list(Journal(path, ABOUT, RECORD).records) == [0, 1, 2]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
@pytest.mark.parametrize("zeros", [0, 4096])
def test_a_torn_first_line_starts_afresh(tmp_path, share, zeros):
    path = tmp_path / "run.jsonl"
    Journal(path, ABOUT, RECORD)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))] + b"\0" * zeros)
    Journal(path, ABOUT, RECORD).add(GOOD[0])
    assert path.read_bytes().startswith(whole)
    assert list(Journal(path, ABOUT, RECORD).records) == [0]


def test_another_file_without_a_line_is_left_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"my notes")
    with pytest.raises(ValueError, match="is not a file of this kind"):
        Journal(path, ABOUT, RECORD)
    assert path.read_bytes() == b"my notes"


DAMAGED = {
    "list": (b"[1, 2]", "a record must be an object, got list"),
    "integer": (b"7", "a record must be an object, got int"),
    "text": (b'"number"', "a record must be an object, got str"),
    "no JSON": (b"hello", "not valid JSON"),
    "zeros in the middle": (b"\0\0\0", "not valid JSON"),
    "no UTF-8": (b"\xff", "not text in UTF-8"),
    "deep": (b"[" * 100_000, "not valid JSON"),
    "deep and closed": (b"[" * 100_000 + b"]" * 100_000, "not valid JSON"),
    "no number": (b'{"ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "missing: 'number'"),
    "no ranks": (b'{"number": 2, "seconds": 1.0}', "missing: 'ranks'"),
    "unknown key": (b'{"number": 2, "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0, "z": 1}', "unknown: 'z'"),
    "repeated key": (b'{"number": 2, "number": 3, "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "occurs twice"),
    "real number": (b'{"number": 2.0, "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "number holds something else"),
    "true": (b'{"number": true, "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "number holds something else"),
    "negative": (b'{"number": -2, "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "number holds something else"),
    "401 digits": (b'{"number": ' + b"9" * 401 + b', "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "too large"),
    "5000 digits": (b'{"number": ' + b"9" * 5000 + b', "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "too large"),
    "beyond int64": (b'{"number": ' + b"9" * 30 + b', "ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "number holds"),
    "rank above 1": (b'{"number": 2, "ranks": {"x": 1.5, "y": 0.5}, "seconds": 1.0}', "ranks holds something else"),
    "rank as text": (b'{"number": 2, "ranks": {"x": "0.5", "y": 0.5}, "seconds": 1.0}', "ranks holds something else"),
    "ranks as a list": (b'{"number": 2, "ranks": [0.5, 0.5], "seconds": 1.0}', "ranks holds something else"),
    "no rank": (b'{"number": 2, "ranks": {}, "seconds": 1.0}', "ranks holds something else"),
    "another quantity": (b'{"number": 2, "ranks": {"x": 0.5, "z": 0.5}, "seconds": 1.0}', "other names.*'y', 'z'"),
    "error as a number": (b'{"number": 2, "error": 5}', "error holds something else"),
    "again as text": (b'{"number": 2, "error": "no", "again": "yes"}', "again holds something else"),
    "another result": (
        b'{"number": 1, "ranks": {"x": 0.9, "y": 0.25}, "seconds": 1.0}',
        "another result of number 1 than line 3",
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_line_that_is_no_record_is_refused_with_file_and_line(tmp_path, kind):
    line, message = DAMAGED[kind]
    path = tmp_path / "run.jsonl"
    journal_with(path, line + b"\n", b'{"number": 5, "error": "no"}\n')
    whole = path.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        Journal(path, ABOUT, RECORD)
    assert f"{str(path)!r}, line 4: " in str(caught.value)
    assert path.read_bytes() == whole  # nothing is cut off a file that is refused


def test_not_a_number_is_a_result(tmp_path):
    path = tmp_path / "run.jsonl"
    Journal(path, ABOUT, RECORD).add({"number": 0, "ranks": {"x": float("nan")}, "seconds": float("inf")})
    assert list(Journal(path, ABOUT, RECORD).records) == [0]

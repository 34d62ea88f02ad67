from __future__ import annotations

import json

import pytest

from bayesdp.calibration.runs import Journal, by_name, number, unit

ABOUT = {"what": "sbc", "seed": 1}


@pytest.mark.parametrize(
    "content", [b"my notes", b"hello\n", b"[1]\n", json.dumps({"format": "other"}).encode() + b"\n"]
)
def test_another_file_is_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a file of this kind"):
        Journal(path, ABOUT)
    assert path.read_bytes() == content


def test_another_run_and_other_folders_are_refused(path, unwritable):
    Journal(path, ABOUT)
    with pytest.raises(ValueError, match="its seed is 1, here it is 2"):
        Journal(path, ABOUT | {"seed": 2})
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Journal(path.parent / "nowhere" / "run.jsonl", ABOUT)
    with pytest.raises(PermissionError):
        Journal(unwritable / "run.jsonl", ABOUT)


RECORD = {"ranks": by_name(unit), "seconds": number}
GOOD = [{"number": k, "ranks": {"x": 0.5, "y": 0.25}, "seconds": 1.0} for k in range(3)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def journal_with(path, *lines):
    """A journal of two good records, and then these lines as they are."""
    Journal(path, ABOUT, RECORD).add(GOOD[0])
    Journal(path, ABOUT, RECORD).add(GOOD[1])
    before = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return before


def test_what_was_written_is_read_again_and_a_dead_process_is_tried_again(path):
    odd = {"number": 2, "ranks": {"x": float("nan"), "y": 0.5}, "seconds": float("inf")}
    failed, died = {"number": 3, "error": "ValueError: no"}, {"number": 4, "error": "its process died", "again": True}
    journal = Journal(path, ABOUT, RECORD)
    for own in (GOOD[1], GOOD[0], odd, failed, died):
        journal.add(own)
    found = Journal(path, ABOUT, RECORD).records
    assert list(found) == [1, 0, 2, 3]
    assert (found[0], found[3]) == (GOOD[0], failed)


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
    "list": (b"[1, 2]", "a record must be an object, got list"),
    "text": (b'"number"', "a record must be an object, got str"),
    "no JSON": (b"hello", "not valid JSON"),
    "zeros in the middle": (b"\0\0\0", "not valid JSON"),
    "no UTF-8": (b"\xff", "not text in UTF-8"),
    "deep": (b"[" * 100_000, "not valid JSON"),
    "deep and closed": (b"[" * 100_000 + b"]" * 100_000, "not valid JSON"),
    "no number": (b'{"ranks": {"x": 0.5, "y": 0.5}, "seconds": 1.0}', "missing: 'number'"),
    "no ranks": (b'{"number": 2, "seconds": 1.0}', "missing: 'ranks'"),
    "unknown key": (b'{"number": 2, "z": 1' + ENDS, "unknown: 'z'"),
    "repeated key": (b'{"number": 2, "number": 3' + ENDS, "occurs twice"),
    "real number": (b'{"number": 2.0' + ENDS, f"number {SOMETHING}"),
    "true": (b'{"number": true' + ENDS, f"number {SOMETHING}"),
    "negative": (b'{"number": -2' + ENDS, f"number {SOMETHING}"),
    "5000 digits": (b'{"number": ' + b"9" * 5000 + ENDS, "too large"),
    "beyond int64": (b'{"number": ' + b"9" * 30 + ENDS, "number holds"),
    "rank above 1": (b'{"number": 2, "ranks": {"x": 1.5, "y": 0.5}, "seconds": 1.0}', f"ranks {SOMETHING}"),
    "rank as text": (b'{"number": 2, "ranks": {"x": "0.5", "y": 0.5}, "seconds": 1.0}', f"ranks {SOMETHING}"),
    "ranks as a list": (b'{"number": 2, "ranks": [0.5, 0.5], "seconds": 1.0}', f"ranks {SOMETHING}"),
    "no rank": (b'{"number": 2, "ranks": {}, "seconds": 1.0}', f"ranks {SOMETHING}"),
    "another quantity": (b'{"number": 2, "ranks": {"x": 0.5, "z": 0.5}, "seconds": 1.0}', "other names.*'y', 'z'"),
    "error as a number": (b'{"number": 2, "error": 5}', f"error {SOMETHING}"),
    "again as text": (b'{"number": 2, "error": "no", "again": "yes"}', f"again {SOMETHING}"),
    "another result": (b'{"number": 1' + ENDS, "another result of number 1 than line 3"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_line_that_is_no_record_is_refused_with_file_and_line(path, kind):
    line, message = DAMAGED[kind]
    journal_with(path, line + b"\n", b'{"number": 5, "error": "no"}\n')
    whole = path.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        Journal(path, ABOUT, RECORD)
    assert f"{str(path)!r}, line 4: " in str(caught.value)
    assert path.read_bytes() == whole  # nothing is cut off a file that is refused

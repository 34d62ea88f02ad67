"""Records in a file that only grows: torn ends, flipped bytes, and content that was made to harm."""

from __future__ import annotations

import io
import os
import struct
import zlib

import numpy as np
import pytest

from bayesdp.storage.records import Record, Scanned, pack, record_bytes, scan, unpack

ARRAYS = (
    np.arange(6, dtype=np.int16).reshape(2, 3),
    np.array(1.5),
    np.array([True, False]),
    np.empty((0, 3)),
    np.array([2**64 - 1], dtype=np.uint64),
    np.array([1.0, np.nan, -np.inf], dtype=">f8"),
)


def file_of(tmp_path, content: bytes):
    path = tmp_path / "records"
    path.write_bytes(content)
    return path.open("rb")


def scanned(tmp_path, content: bytes, most: int = 2**20) -> Scanned:
    with file_of(tmp_path, content) as file:
        return scan(file, 0, most)


def three_records() -> list[bytes]:
    return [record_bytes(b"DRAW", chain, 7, 9, pack({"chain": chain}, [np.arange(chain)])) for chain in range(3)]


def test_plain_data_and_arrays_come_back_as_they_were():
    plain, arrays = unpack(pack({"a": [1, "b", None, 0.1, 2**100]}, ARRAYS), "it")
    assert plain == {"a": [1, "b", None, 0.1, 2**100]}
    for own, found in zip(ARRAYS, arrays, strict=True):
        assert found.shape == own.shape
        assert found.dtype == own.dtype.newbyteorder("<")
        np.testing.assert_array_equal(own, found)


def test_objects_cannot_be_written():
    with pytest.raises(TypeError, match="dtype object cannot be kept"):
        pack({}, [np.array([object()])])
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        pack({"a": object()}, [])


def test_a_file_that_is_cut_anywhere_gives_the_records_that_are_whole(tmp_path):
    parts = three_records()
    ends = np.cumsum([len(own) for own in parts]).tolist()
    whole = b"".join(parts)
    for cut in range(len(whole) + 1):
        found = scanned(tmp_path, whole[:cut])
        assert len(found.records) == sum(end <= cut for end in ends)
        assert found.end == max([0, *(end for end in ends if end <= cut)])
        assert found.torn == bool(found.trouble) == (cut not in (0, *ends))
        assert all(own.sound for own in found.records)


def test_a_byte_that_is_not_as_it_was_is_noticed(tmp_path):
    """Every one of them; records before it are whole, and none is taken for sound that is not what was written."""
    parts = three_records()
    whole, written = b"".join(parts), scanned(tmp_path, b"".join(parts)).records
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        found = scanned(tmp_path, bytes(changed))
        before = sum(own.offset + own.length <= at for own in written)
        assert found.records[:before] == written[:before]
        assert found.trouble or not found.records[before].sound


@pytest.mark.parametrize("tail", [bytes(100), b"\xff" * 100, b"DRAW" + bytes(60)])
def test_what_a_power_cut_leaves_at_the_end_is_damage(tmp_path, tail):
    parts = three_records()
    found = scanned(tmp_path, b"".join(parts) + tail)
    assert len(found.records) == 3
    assert "damaged from byte" in found.trouble
    assert found.end == sum(map(len, parts))


def test_a_record_longer_than_allowed_is_not_read(tmp_path):
    found = scanned(tmp_path, record_bytes(b"DRAW", 0, 0, 1, bytes(1000)), most=999)
    assert found.records == []
    assert "longer than any of this run could be" in found.trouble


def test_a_length_beyond_the_file_allocates_nothing(tmp_path):
    packed = struct.Struct("<4sIQQQI").pack(b"DRAW", 0, 0, 1, 2**62, 0)
    assert scanned(tmp_path, packed + struct.pack("<I", zlib.crc32(packed)), most=2**63).torn


def text(plain: str) -> bytes:
    return struct.pack("<I", len(plain)) + plain.encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "too short"),
        (struct.pack("<I", 2**31) + b"{}", "too long"),
        (struct.pack("<I", 2) + b"\xff\xff", "not UTF-8"),
        (text("[1"), "not valid JSON"),
        (text("[" * 50_000 + "]" * 50_000), "not valid JSON"),
        (text('{"plain": 1}'), "wrong keys"),
        (text('{"plain": 1, "arrays": [["|O8", [1]]]}') + bytes(8), "unknown kind"),
        (text('{"plain": 1, "arrays": [["<f8,<i4", [1]]]}') + bytes(12), "unknown kind"),
        (text('{"plain": 1, "arrays": [["<f8", [1099511627775, 1099511627775]]]}'), "too short for its arrays"),
        (text('{"plain": 1, "arrays": [["<f8", [0, 1099511627775]]]}'), "impossible shape"),
        (text('{"plain": 1, "arrays": [["<f8", [-1]]]}'), "impossible shape"),
        (text('{"plain": 1, "arrays": [["<f8", [true]]]}') + bytes(8), "impossible shape"),
        (text('{"plain": 1, "arrays": [["<f8", 1]]}') + bytes(8), "type list"),
        (text('{"plain": 1, "arrays": []}') + bytes(8), "belong to nothing"),
    ],
)
def test_hostile_content_is_refused(content, words):
    with pytest.raises(ValueError, match=words):
        unpack(content, "a record")


def test_only_as_many_records_as_asked_for(tmp_path):
    whole = b"".join(three_records())
    with file_of(tmp_path, whole) as file:
        assert len(scan(file, 0, 2**20, limit=2).records) == 2


def test_a_record_says_where_its_content_is(tmp_path):
    content = pack("here", [])
    [found] = scanned(tmp_path, record_bytes(b"GOON", 3, 4, 5, content)).records
    assert found == Record(b"GOON", 3, 4, 5, found.offset, len(content), sound=True)
    with file_of(tmp_path, record_bytes(b"GOON", 3, 4, 5, content)) as file:
        file.seek(found.offset, io.SEEK_SET)
        assert file.read() == content
        assert os.fstat(file.fileno()).st_size == found.offset + found.length

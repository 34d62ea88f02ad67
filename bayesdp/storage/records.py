"""A file that only grows: checked records of plain data and arrays, of which the last may be torn.

A process that is killed while it appends leaves half a record; a disk that lost power may hold anything at the end. So
every record says how long it is, and has a checksum of its head and one of its content. Nothing in the file is ever executed, and
no more is read at once than the caller allows.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bayesdp import _text

type Array = npt.NDArray[Any]

_HEAD = struct.Struct("<4sIQQQI")
"""Tag, chain, first and last draw, length of the content, checksum of the content; then the checksum of these."""
_CRC = struct.Struct("<I")
_LONGEST_TEXT = 2**24
"""Bytes of JSON in a record; arrays do not count."""
_BLOCK = 2**20
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[48]")


@dataclass(frozen=True)
class Record:
    """Where a record stands, and what its head says."""

    tag: bytes  # four letters: what kind of record it is
    chain: int  # with `first`, `last`: which chain it is of, its first draw, and the one after its last
    first: int
    last: int
    offset: int  # with `length`: where its content stands in the file, in bytes
    length: int
    sound: bool  # whether the content is what was written


@dataclass(frozen=True)
class Scanned:
    """What a file holds."""

    records: list[Record]
    end: int  # where the last record that could be read ends: what follows is to be cut off
    trouble: str  # what is wrong with what follows; empty if nothing follows
    torn: bool = False  # whether what follows is the beginning of a record


def record_bytes(tag: bytes, chain: int, first: int, last: int, content: bytes) -> bytes:
    """A record as it stands in the file."""
    head = _HEAD.pack(tag, chain, first, last, len(content), zlib.crc32(content))
    return head + _CRC.pack(zlib.crc32(head)) + content


def scan(file: BinaryIO, start: int, most: int, limit: int | None = None) -> Scanned:
    """Find the records of a file, in one pass and in little memory."""
    # `start`: where the first record begins, in bytes. `most`: longest content that a record may have, in bytes. `limit`: largest
    # number of records that are looked for; all of them by default.
    size = os.fstat(file.fileno()).st_size
    records: list[Record] = []
    at = start
    while at < size and (limit is None or len(records) < limit):
        file.seek(at)
        head = file.read(_HEAD.size + _CRC.size)
        if len(head) < _HEAD.size + _CRC.size:
            return Scanned(records, at, "a record at its end is half-written", True)
        if _CRC.unpack(head[_HEAD.size :])[0] != zlib.crc32(head[: _HEAD.size]):
            return Scanned(records, at, f"it is damaged from byte {at:,} on")
        tag, chain, first, last, length, crc = _HEAD.unpack(head[: _HEAD.size])
        offset = at + len(head)
        if length > most:
            return Scanned(records, at, f"a record at byte {at:,} is longer than any of this run could be")
        if length > size - offset:
            return Scanned(records, at, "a record at its end is half-written", True)
        records.append(Record(tag, chain, first, last, offset, length, _checksum(file, length) == crc))
        at = offset + length
    return Scanned(records, at, "")


def _checksum(file: BinaryIO, length: int) -> int:
    crc = 0
    while length > 0 and (block := file.read(min(length, _BLOCK))):
        crc, length = zlib.crc32(block, crc), length - len(block)
    return crc


def pack(plain: Any, arrays: Sequence[Array]) -> bytes:
    """Plain data and arrays of numbers as the content of a record."""
    ready = [np.asarray(array) for array in arrays]  # np.ascontiguousarray would give a number a dimension
    for array in ready:
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise TypeError(f"an array of dtype {array.dtype} cannot be kept: only numbers can")
    ready = [array.astype(array.dtype.newbyteorder("<"), order="C", copy=False) for array in ready]
    described = [[array.dtype.str, list(array.shape)] for array in ready]
    text = _text.dumps({"plain": plain, "arrays": described}, "a record").encode()
    return b"".join([_CRC.pack(len(text)), text, *(array.tobytes() for array in ready)])


def unpack(content: bytes, what: str) -> tuple[Any, list[Array]]:
    """The plain data and the arrays of `pack`; the arrays share the memory of `content` and cannot be written to."""
    if len(content) < _CRC.size:
        raise ValueError(f"{what} is too short")
    (length,) = _CRC.unpack_from(content)
    if length > min(len(content) - _CRC.size, _LONGEST_TEXT):
        raise ValueError(f"{what} says that its text has {length:,} bytes, which is too long")
    try:
        text = content[_CRC.size : _CRC.size + length].decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what} has text that is not UTF-8") from None
    whole = _text.expect(_text.loads(text, what), dict, what, {"plain", "arrays"})
    arrays, at = [], _CRC.size + length
    for entry in _text.expect(whole["arrays"], list, f"arrays of {what}"):
        dtype, shape = _described(entry, what)
        count = prod(shape)
        if count * dtype.itemsize > len(content) - at:
            raise ValueError(f"{what} is too short for its arrays")
        arrays.append(np.frombuffer(content, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    if at != len(content):
        raise ValueError(f"{what} has {len(content) - at:,} bytes that belong to nothing")
    return whole["plain"], arrays


def _described(entry: Any, what: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    pair = _text.expect(entry, list, f"an array of {what}")
    if len(pair) != 2 or not isinstance(pair[0], str) or not _DTYPE.fullmatch(pair[0]):
        raise ValueError(f"an array of {what} is of an unknown kind")
    shape = _text.expect(pair[1], list, f"the shape of an array of {what}")
    whole = all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**40 for size in shape)
    # An array without entries has no size that could be compared with the content, but NumPy multiplies its lengths.
    if not whole or len(shape) > 32 or (0 in shape and max(shape) > 2**20):
        raise ValueError(f"an array of {what} has an impossible shape")
    return np.dtype(pair[0]), tuple(shape)

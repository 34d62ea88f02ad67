"""Bytes: flips, insertions, deletions, truncations, repeated blocks, odd integers, two files in one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

type Change = Callable[[np.random.Generator, bytes, bytes], bytes]

_ODD = (
    0, 1, 2, 7, 8, 16, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip


def _at(rng: np.random.Generator, data: bytes) -> int:
    return int(rng.integers(0, max(1, len(data))))


def _length(rng: np.random.Generator, most: int) -> int:
    """Short more often than long."""
    return int(2 ** rng.uniform(0, np.log2(max(2, most))))


def flip(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """A few bytes become others."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9)) if out else 0):
        out[_at(rng, data)] ^= 1 << int(rng.integers(0, 8))
    return bytes(out)


def overwrite(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """An integer at an aligned place, little-endian as in HDF5, becomes one at a limit."""
    width = int(rng.choice([1, 2, 4, 8]))
    at = _at(rng, data) // width * width
    value = int(rng.choice(np.array(_ODD, dtype=np.uint64))) + int(rng.integers(-1, 2))
    return data[:at] + (value % 2 ** (8 * width)).to_bytes(width, "little") + data[at + width :]


def insert(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """Some random bytes, or many equal ones."""
    at, count = _at(rng, data), _length(rng, 4096)
    new = rng.bytes(count) if rng.random() < 0.5 else bytes([int(rng.choice([0, 32, 34, 255]))]) * count
    return data[:at] + new + data[at:]


def delete(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """A block goes."""
    at = _at(rng, data)
    return data[:at] + data[at + _length(rng, len(data)) :]


def truncate(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """The file ends early."""
    return data[: _at(rng, data)]


def duplicate(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """A block is there again, next to itself or elsewhere, instead of what was there or before it."""
    start, to = _at(rng, data), _at(rng, data)
    block = data[start : start + _length(rng, min(len(data), 4096))]
    times = _length(rng, 50)
    skip = len(block) * times if rng.random() < 0.5 else 0
    return data[:to] + block * times + data[to + skip :]


def zero(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """A block of zeros, as after a power cut."""
    at = _at(rng, data)
    count = min(_length(rng, len(data)), len(data) - at)
    return data[:at] + bytes(count) + data[at + count :]


def splice(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    """The beginning of one file and the end of another one."""
    if rng.random() < 0.5:
        at = min(_at(rng, data), _at(rng, other))
        return data[:at] + other[at:]
    return data[: _at(rng, data)] + other[_at(rng, other) :]


_CHANGES: tuple[Change, ...] = (
    *[flip] * 3, *[overwrite] * 3, insert, delete, truncate, duplicate, zero, splice,
)  # fmt: skip


def mutate_bytes(rng: np.random.Generator, data: bytes, other: bytes) -> tuple[bytes, str]:
    """Change the bytes of a file."""
    change = _CHANGES[int(rng.integers(0, len(_CHANGES)))]
    return change(rng, data, other), f"bytes: {change.__name__}"

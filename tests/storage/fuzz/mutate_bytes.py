"""Bytes: flips, insertions, deletions, truncations, repeated blocks, odd integers, two files in one."""

from __future__ import annotations

import numpy as np

from tests.storage.fuzz.chance import one, place, size

_ODD = (
    0, 1, 2, 7, 8, 16, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip


def _flip(rng: np.random.Generator, data: bytes) -> bytes:
    """A few bytes become others."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 9)) if out else 0):
        out[place(rng, data)] ^= 1 << int(rng.integers(0, 8))
    return bytes(out)


def _overwrite(rng: np.random.Generator, data: bytes) -> bytes:
    """An integer at an aligned place, little-endian as in HDF5, becomes one at a limit."""
    width = one(rng, [1, 2, 4, 8])
    at = place(rng, data) // width * width
    value = one(rng, _ODD) + int(rng.integers(-1, 2))
    return data[:at] + (value % 2 ** (8 * width)).to_bytes(width, "little") + data[at + width :]


def _duplicate(rng: np.random.Generator, data: bytes) -> bytes:
    """A block is there again, next to itself or elsewhere, instead of what was there or before it."""
    start, to = place(rng, data), place(rng, data)
    block = data[start : start + size(rng, 0, 12)] * size(rng, 0, 6)
    skip = len(block) if rng.random() < 0.5 else 0
    return data[:to] + block + data[to + skip :]


def mutate_bytes(rng: np.random.Generator, data: bytes, other: bytes) -> tuple[bytes, str]:
    """Change the bytes of a file."""
    how = one(
        rng, ["flip", "flip", "overwrite", "overwrite", "insert", "delete", "truncate", "duplicate", "zero", "splice"]
    )
    at, count = place(rng, data), size(rng, 0, np.log2(max(2, len(data))))
    if how == "flip":
        new = _flip(rng, data)
    elif how == "overwrite":
        new = _overwrite(rng, data)
    elif how == "duplicate":
        new = _duplicate(rng, data)
    elif how == "insert":
        added = min(count, 4096)
        new = data[:at] + one(rng, [rng.bytes(added), bytes([one(rng, [0, 32, 34, 255])]) * added]) + data[at:]
    elif how == "delete":
        new = data[:at] + data[at + count :]
    elif how == "truncate":
        new = data[:at]
    elif how == "zero":  # as after a power cut
        zeros = min(count, len(data) - at)
        new = data[:at] + bytes(zeros) + data[at + zeros :]
    else:
        new = data[:at] + other[one(rng, [at, place(rng, other)]) :]
    return new, f"bytes: {how}"

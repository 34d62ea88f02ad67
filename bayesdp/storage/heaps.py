"""Looking at the heaps of text of an HDF5 file before the HDF5 library does.

HDF5 keeps text of any length in "global heaps". The library walks such a heap object by object and trusts
the sizes that it finds: one damaged byte can make it walk on the spot for ever. So the sizes are checked here
first, on the raw bytes.
"""

from __future__ import annotations

import mmap
from pathlib import Path

__all__ = ["check_heaps"]

_SIGNATURE = b"GCOL\x01"  # and the version of the format, of which there is one
_HEADER = 16
_OBJECT_HEADER = 16


def check_heaps(path: Path) -> None:
    """Check that every global heap of an HDF5 file can be walked to its end.

    Layout (HDF5 File Format Specification, version 3.0, section III.E): the signature, 3 reserved bytes, the
    size of the collection in 8 bytes; then objects, each with 2 bytes index, 2 reference count, 4 reserved, 8
    size, and the data, padded to a multiple of 8. Index 0 is free space, whose size counts its own header.

    Parameters
    ----------
    path : Path
        File that starts with the signature of HDF5, with lengths of 8 bytes (what every library writes).

    Raises
    ------
    ValueError
        If a size leads nowhere.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        at = raw.find(_SIGNATURE)
        while at >= 0:
            _walk(raw, at)
            at = raw.find(_SIGNATURE, at + 1)


def _walk(raw: mmap.mmap, start: int) -> None:
    size = int.from_bytes(raw[start + 8 : start + _HEADER], "little")
    end = start + size
    if size < _HEADER or end > len(raw):
        raise ValueError("the file is truncated or damaged (a heap of text does not end)")
    at = start + _HEADER
    while end - at >= _OBJECT_HEADER:
        index = int.from_bytes(raw[at : at + 2], "little")
        own = int.from_bytes(raw[at + 8 : at + _OBJECT_HEADER], "little")
        step = own if index == 0 else _OBJECT_HEADER + -(-own // 8) * 8
        if step < _OBJECT_HEADER or at + step > end:
            raise ValueError("the file is truncated or damaged (a heap of text has an impossible entry)")
        at += step

"""How long the texts of an HDF5 file are, known before the HDF5 library reads one.

HDF5 keeps text of any length in "global heaps". Where the text would be, the file has 16 bytes: its length, the address of a
heap, and a number in it. The library trusts them: one damaged byte makes it take 4 GB, or walk on the spot for ever, and a
thousand attributes may all be one and the same long text. So they are looked up here first, on the raw bytes. Only
addresses that are referred to are taken for heaps: the same bytes among numbers or labels are numbers or labels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.storage.raw_bytes import RawBytes

REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""What a file has in the place of a text of any length."""

_SIGNATURE = b"GCOL\x01"  # and the version of the format, of which there is one
_HEADER = 16


class Heaps:
    """The global heaps of a file: each is walked once, when something first refers to it.

    Layout (HDF5 File Format Specification, version 3.0, section III.E): the signature, 3 reserved bytes, the
    size of the collection in 8 bytes; then objects, each with 2 bytes index, 2 reference count, 4 reserved, 8
    size, and the data, padded to a multiple of 8. Index 0 is free space, whose size counts its own header.
    """

    def __init__(self, raw: RawBytes) -> None:
        self._raw = raw
        self._known: dict[int, dict[int, int]] = {}

    def lengths(self, data: bytes, unit: int = 1) -> npt.NDArray[np.int64]:
        """How many entries of `unit` bytes each text has, or each list."""
        # `data`: one after the other, what the file has in their place. `unit`: bytes of an entry: 1 for text.
        found = np.frombuffer(data, dtype=REFERENCE)
        lengths = found["length"].astype(np.int64)
        # Without a length nothing is read; what has one is compared with the object that it refers to.
        for address, index, length in zip(
            *(found[name][lengths > 0].tolist() for name in ("address", "index", "length")), strict=True
        ):
            sizes = self._known.get(address)
            if sizes is None:
                sizes = self._known[address] = self._walk(address)
            if sizes.get(index) != length * unit:
                raise self._raw.damaged("a text is not where the file says, or has another length")
        return lengths

    def _walk(self, start: int) -> dict[int, int]:
        """The sizes of the objects of a heap, by their numbers."""
        raw = self._raw
        if raw.part(start, 5) != _SIGNATURE:
            raise raw.damaged("a heap of text is not where the file says")
        size = raw.number(start + 8, 8)
        if size < _HEADER or start + size > len(raw):
            raise raw.damaged("a heap of text does not end")
        raw.visit(start, size)
        own = raw.part(start, size)
        sizes: dict[int, int] = {}
        at = _HEADER
        while size - at >= _HEADER:
            index, length = int.from_bytes(own[at : at + 2], "little"), int.from_bytes(own[at + 8 : at + 16], "little")
            step = length if index == 0 else _HEADER + -(-length // 8) * 8
            if step < _HEADER or at + step > size:
                raise raw.damaged("a heap of text has an impossible entry")
            if index and index in sizes:
                raise raw.damaged("a heap of text has two entries of one number")
            sizes[index] = length
            at += step
        sizes.pop(0, None)
        return sizes

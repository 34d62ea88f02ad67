"""The chunks of a variable of an HDF5 file: that each unpacks to what it should, seen before the library unpacks it."""

from __future__ import annotations

import zlib
from math import prod
from typing import Any

import h5py
import numpy as np

from bayesdp.storage.heaps import REFERENCE
from bayesdp.storage.raw_bytes import RawBytes

_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
"""Built into HDF5. Any other filter would load a plugin, which is running code."""

_CHECKSUM = 4
_PIECE = 2**16
_UNPACKED = 2**20


def check_chunks(dataset: h5py.Dataset, raw: RawBytes, where: str, *, keep: bool = False) -> bytes:
    """Check that the chunks of a variable are packed with known filters, and unpack to their declared size."""
    # The library unpacks a chunk to its end, however large it becomes, and only then looks at its size: 1 MB can become 1 GB.
    # `dataset`: its chunks are known to be of reasonable size. `where`: its name, for messages. `keep`: whether it holds texts of
    # any length, and what is in the place of the texts is to be returned. With `keep`: the contents of all chunks, one after the
    # other, in no particular order.
    created = dataset.id.get_create_plist()
    filters = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
    if not set(filters) <= _FILTERS:
        raise ValueError(f"{where} is stored with a filter other than deflate and shuffle")
    if len(set(filters)) < len(filters):
        raise ValueError(f"{where} is stored with one filter several times")
    if dataset.chunks is None:
        return b""
    packed = h5py.h5z.FILTER_DEFLATE in filters
    shuffled = h5py.h5z.FILTER_SHUFFLE in filters
    if packed and shuffled and filters.index(h5py.h5z.FILTER_SHUFFLE) > filters.index(h5py.h5z.FILTER_DEFLATE):
        raise ValueError(f"{where} is stored with shuffle after deflate; only the other order is read")
    # The library states the size in memory of a text of any length, which is that of a pointer.
    width = REFERENCE.itemsize if keep else dataset.id.get_type().get_size()
    size = prod(dataset.chunks) * width
    kept: list[bytes] = []

    def check(chunk: Any) -> None:
        on = {own: not chunk.filter_mask >> i & 1 for i, own in enumerate(filters)}
        if on.get(h5py.h5z.FILTER_DEFLATE, False):
            contents = _unpacked(raw, chunk.byte_offset, chunk.size, size + _CHECKSUM, keep=keep)
            if contents is None:
                raise ValueError(f"a chunk of {where} unpacks to more than it should, or is damaged")
        elif chunk.size > size + _CHECKSUM:
            raise ValueError(f"a chunk of {where} is larger than it should be")
        else:
            contents = raw.part(chunk.byte_offset, chunk.size) if keep else b""
        if keep:
            plain = contents[:size]
            if on.get(h5py.h5z.FILTER_SHUFFLE, False) and len(plain) == size:
                plain = np.frombuffer(plain, dtype=np.uint8).reshape(width, -1).T.tobytes()
            kept.append(plain)

    if packed or keep:
        dataset.id.chunk_iter(check)
    return b"".join(kept)


def _unpacked(raw: RawBytes, start: int, size: int, most: int, *, keep: bool) -> bytes | None:
    """What a stretch of the file unpacks to, empty unless it is to be kept; None if it is more than `most`, or damaged."""
    stream, total = zlib.decompressobj(), 0
    kept = bytearray()
    try:
        for at in range(start, start + size, _PIECE):
            data = raw.part(at, min(_PIECE, start + size - at))
            while data and not stream.eof:
                contents = stream.decompress(data, _UNPACKED)
                total += len(contents)
                if total > most:
                    return None
                if keep:
                    kept += contents
                data = stream.unconsumed_tail
            if stream.eof:
                break
    except zlib.error:
        return None
    return bytes(kept)

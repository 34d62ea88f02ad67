"""Small HDF5 files that would take much memory or time if somebody believed them."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from tests.storage.fuzz.chance import one, size


def _group(rng: np.random.Generator, file: h5py.File) -> h5py.Group:
    found: list[h5py.Group] = [file]
    file.visititems(lambda _, own: found.append(own) if isinstance(own, h5py.Group) else None)
    return one(rng, found)


def add_zeros(group: h5py.Group, name: str, chunks: int, cells: int, kind: str) -> None:
    """A variable of zeros whose chunks are all the same few compressed bytes; nothing large is made here."""
    length = chunks * cells
    data = group.create_dataset(name, (length,), dtype=kind, chunks=(cells,), compression="gzip", shuffle=False)
    packed = zlib.compress(bytes(cells * data.dtype.itemsize), 9)
    for i in range(chunks):
        data.id.write_direct_chunk((i * cells,), packed)
    dimension = group.create_dataset(f"{name}_dim", (length,), dtype=">f4", chunks=(cells,))  # nothing is written
    dimension.make_scale(f"This is a netCDF dimension but not a netCDF variable{length:10d}")
    data.dims[0].attach_scale(dimension)


def zeros(rng: np.random.Generator, path: Path) -> None:
    """Variables that nobody knows, of millions of zeros."""
    with h5py.File(path, "r+") as file:
        group = _group(rng, file)
        for i in range(int(rng.integers(1, 4))):
            add_zeros(group, f"extra_{i}", int(rng.integers(8, 70)), 500_000, one(rng, ["i8", "f8", "i1"]))


def wide_texts(rng: np.random.Generator, path: Path) -> None:
    """Text of a fixed length, most of it blank: much larger in memory than in the file."""
    with h5py.File(path, "r+") as file:
        add_zeros(_group(rng, file), "extra", int(rng.integers(8, 257)), 100, one(rng, ["S1000", "S20000"]))


def declared(rng: np.random.Generator, path: Path) -> None:
    """Far more numbers than there are, not written, with or without chunks."""
    count = one(rng, [10**6, 10**7, 49 * 10**6, 10**9, 10**12, 2**62])
    chunk = min(count, one(rng, [1, 1000, 10**6]) if count < 10**9 else 10**6)
    kind = one(rng, [h5py.string_dtype(), "i8", "S100", "i1"])
    with h5py.File(path, "r+") as file:
        file.create_dataset("extra", (count,), dtype=kind, chunks=(chunk,), compression=one(rng, ["gzip", None]))


def share_one_text(path: Path, length: int, many: int, labels: bool) -> None:
    """Many labels, or many attributes, that are all one and the same text of the file."""
    odd = 37  # a length that no other text has
    with h5py.File(path, "r+") as file:
        file.attrs.create("long", b"x" * length, dtype=h5py.string_dtype())
        own = file.create_dataset("extra", (many if labels else 1,), dtype=h5py.string_dtype())
        if labels:
            own[...] = np.array([b"z" * odd] * many, dtype=object)
        for i in range(0 if labels else many):
            own.attrs.create(f"a{i}", b"z" * odd, dtype=h5py.string_dtype())
    raw = path.read_bytes()
    heaps = [re.escape(struct.pack("<Q", match.start())) for match in re.finditer(b"GCOL\x01", raw)]
    known = re.compile(b"(?:" + b"|".join(heaps) + b")....", re.DOTALL)  # a heap, and an index in it
    starts = (own.start() for own in known.finditer(raw))
    long = next(raw[at - 4 : at + 12] for at in starts if raw[at - 4 : at] == struct.pack("<I", length))
    short = re.escape(struct.pack("<I", odd))
    path.write_bytes(re.sub(short + known.pattern, lambda _: long, raw, flags=re.DOTALL))


def one_text_many_times(rng: np.random.Generator, path: Path) -> None:
    """Many attributes, or many labels, that are all one and the same long text of the file."""
    share_one_text(path, size(rng, 16, 19), size(rng, 7, 11.5), bool(rng.random() < 0.5))


def heap_lengths(rng: np.random.Generator, path: Path) -> None:
    """The length of a text, where a variable refers to it, becomes another one: of one text, or of all in a heap."""
    raw = bytearray(path.read_bytes())
    heaps = [match.start() for match in re.finditer(b"GCOL\x01", bytes(raw))]
    if not heaps:
        return
    address = re.escape(struct.pack("<Q", one(rng, heaps)))
    places = [match.start() - 4 for match in re.finditer(address, bytes(raw)) if match.start() >= 4]
    for at in places if rng.random() < 0.2 or not places else [one(rng, places)]:
        raw[at : at + 4] = struct.pack("<I", one(rng, [0, 2**16, 2**24, 2**28, 2**30, 2**31 - 1, 2**32 - 1]))
    path.write_bytes(raw)


def many_attributes(rng: np.random.Generator, path: Path) -> None:
    """Thousands of attributes, or of variables, of little each."""
    with h5py.File(path, "r+") as file:
        for i in range(size(rng, 6, 11)):
            if rng.random() < 0.5:
                file.attrs[f"a{i}"] = i
            else:
                file.create_dataset(f"a{i}", data=i)


BOMBS: tuple[Callable[[np.random.Generator, Path], None], ...] = (
    zeros, wide_texts, declared, *[one_text_many_times] * 2, *[heap_lengths] * 3, many_attributes,
)  # fmt: skip

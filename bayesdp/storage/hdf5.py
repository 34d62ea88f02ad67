"""Looking at an HDF5 file before anything else reads it.

netCDF-4 files are HDF5 files, and HDF5 can do far more than hold a table: link to other files, hold objects,
load filter plugins, declare terabytes that are not there. Everything that a table does not need is refused
here, from the declarations alone, before any data is read.

One budget of memory, which follows from the size of the file, holds for all that is in it (`bayesdp.storage.budget`). What a
variable or an attribute will take is counted against it before it is read:

- numbers and texts of fixed length by their declared shapes, types and chunks;
- texts of any length by what the file itself says of their lengths. The library would read them to find out, so they are
  looked up on the raw bytes: `object_headers` finds where they are referred to, and `heaps` how long they are;
- a compressed chunk is unpacked piece by piece and thrown away, to see that it ends where it should.

Each part of the file is looked at once, so the time is proportional to its size.

How long the texts of an HDF5 file are, known before the HDF5 library reads one.

HDF5 keeps text of any length in "global heaps". Where the text would be, the file has 16 bytes: its length, the address of a
heap, and a number in it. The library trusts them: one damaged byte makes it take 4 GB, or walk on the spot for ever, and a
thousand attributes may all be one and the same long text. So they are looked up here first, on the raw bytes. Only
addresses that are referred to are taken for heaps: the same bytes among numbers or labels are numbers or labels.

What the values of an HDF5 file may be: numbers and text, and nothing that netCDF does not know.
The chunks of a variable of an HDF5 file: that each unpacks to what it should, seen before the library unpacks it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp.storage.budget import ATTRIBUTES, DEPTH, GROUPS, MAX_CELLS, VARIABLES, Budget, cell_limit
from bayesdp.storage.object_headers import stored_attributes, stored_compactly
from bayesdp.storage.raw_bytes import RawBytes

__all__ = ["MAX_CELLS", "check_hdf5", "damaged"]

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


_BLOCK = 10_000


def kind_of(kind: h5py.h5t.TypeID, where: str) -> str:
    """The kind of a type: a number, fixed-length text, or text of any length; everything else is refused."""
    family = kind.get_class()
    if family in (h5py.h5t.INTEGER, h5py.h5t.FLOAT) and kind.get_size() <= 8:
        return "number"
    if family == h5py.h5t.ENUM and kind.get_size() == 1:
        return "number"  # how HDF5 writes booleans
    if family == h5py.h5t.STRING:
        return "text" if kind.is_variable_str() else "fixed text"
    raise holds_objects(where)


def holds_objects(where: str) -> ValueError:
    """The error of what is neither numbers nor text."""
    return ValueError(f"{where} holds objects; only numbers and text are read")


def check_characters(dataset: h5py.Dataset) -> None:
    """Check that texts of any length, which are known to fit into memory, are UTF-8."""
    if dataset.ndim != 1:
        blocks: Iterator[Any] = iter([dataset[()]])
    else:
        blocks = (dataset[start : start + _BLOCK] for start in range(0, dataset.size, _BLOCK))
    for block in blocks:
        for text in np.ravel(np.asarray(block, dtype=object)):
            text.decode("utf-8")


def check_written_again(item: Any, name: str, place: str) -> None:
    """Check that an attribute, which is known to fit into memory, can be written to a netCDF file."""
    # `name`: of its attribute, a number or text. `place`: for the message.
    values = np.asarray(item.attrs[name])
    if values.dtype.kind == "b":
        raise ValueError(f"{place} holds truth values, for which netCDF has no type; write 0 and 1")
    try:
        for text in values.reshape(-1).tolist() if values.dtype.kind in "OSU" else []:
            text.decode("utf-8") if isinstance(text, bytes) else text.encode("utf-8")
    except UnicodeError:
        raise ValueError(f"{place} holds text that is not UTF-8") from None


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


_MAX_RATIO = 1100
"""Deflate cannot compress by more than 1032; what declares more than it can hold is not a table."""

_MAX_ATTRIBUTE_VALUES = 10_000

_PER_TEXT, _PER_BYTE = 160, 5
"""Memory of a text: two Python objects, of bytes and of characters, and up to 4 bytes a character."""


_BOOKKEEPING = {"DIMENSION_LIST", "REFERENCE_LIST"}
"""Attributes by which netCDF-4 ties variables to dimensions; the only places for references."""

_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


@contextmanager
def damaged(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a reader stumbles over into a ValueError that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError, MemoryError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(printable(f"{os.fspath(path)}: {message}")) from None


def check_hdf5(
    path: str | os.PathLike[str], *, max_cells: int | None = None, groups: bool = False, release: bool = True
) -> None:
    """Check that a file is a plain netCDF-4 file of reasonable size, without reading its data.

    Parameters
    ----------
    path : path
        File.
    max_cells : int, optional
        Largest number of values that one variable may declare; by default `cell_limit` of the file's size for a release,
        and `MAX_CELLS` for another file.
    groups : bool
        Whether there may be groups, as in a saved posterior.
    release : bool
        Whether it is to hold a release, which is not compressed; a posterior or a table may be.
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")
    with target.open("rb") as raw:
        magic = raw.read(8)
    if magic[:3] == b"CDF":
        raise ValueError(f"{target}: it is a netCDF-3 file; save it as netCDF-4 (engine='h5netcdf')")
    if magic != b"\x89HDF\r\n\x1a\n":
        raise ValueError(f"{target}: it is no netCDF-4 file")
    size = target.stat().st_size
    if release:
        limit, budget = cell_limit(size, max_cells), Budget.of_release(size, max_cells)
    else:
        limit, budget = MAX_CELLS if max_cells is None else max_cells, Budget.of_draws(size)
    with damaged(target):
        try:
            file = h5py.File(target, "r")
        except OSError as error:
            raise ValueError(f"the file is truncated or damaged ({error})") from None
        with file, RawBytes(target) as raw_bytes:
            checker = _Checker(raw_bytes, limit, budget, groups)
            checker.group(file, "/")
            checker.contents()


class _Checker:
    """One walk through a file."""

    def __init__(self, raw: RawBytes, max_cells: int, budget: Budget, groups: bool) -> None:
        self.raw = raw
        self.heaps = Heaps(raw)
        self.max_cells = max_cells
        self.budget = budget
        self.groups = groups
        self.seen: set[Any] = set()
        self.declared: list[tuple[h5py.Dataset, str, str]] = []
        self.count = {"groups": 0, "variables": 0, "attributes": 0}

    def group(self, group: h5py.Group, where: str) -> None:
        self._once(group, where)
        self._one_more("groups", GROUPS)
        self._attributes(group, where)
        for name in group:
            place = f"{where.rstrip('/')}/{name}"
            if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
                raise ValueError(f"{place} is a link to somewhere else; files with links are not read")
            item = group[name]
            if isinstance(item, h5py.Dataset):
                self._dataset(item, place)
            elif isinstance(item, h5py.Group):
                if not self.groups:
                    raise ValueError(f"{place} is a group; a release has none")
                if place.count("/") > DEPTH:
                    raise ValueError(f"{place} is more than {DEPTH} groups deep, the most that are read")
                self.group(item, place)
            else:
                raise ValueError(f"{place} is neither a variable nor a group")

    def _one_more(self, what: str, most: int) -> None:
        """Each takes time, however little is in it."""
        self.count[what] += 1
        if self.count[what] > most:
            raise ValueError(f"it holds more than {most} {what}, the most that are read")

    def _once(self, item: Any, where: str) -> None:
        """Refuse a second way to an object: hard links can make circles."""
        address = _address(item)
        if address in self.seen:
            raise ValueError(f"{where} is a second name for something else in the file")
        self.seen.add(address)

    def _dataset(self, dataset: h5py.Dataset, where: str) -> None:
        self._once(dataset, where)
        self._one_more("variables", VARIABLES)
        self._attributes(dataset, where)
        if dataset.shape is None:
            raise ValueError(f"{where} holds nothing (a null dataspace)")
        cells = prod(dataset.shape)
        if cells > self.max_cells:
            raise ValueError(
                f"{where} declares {cells} values, more than the limit of {self.max_cells} for a file of this size; if that is "
                "right, raise the limit with max_cells"
            )
        created = dataset.id.get_create_plist()
        if created.get_layout() == h5py.h5d.VIRTUAL or created.get_external_count():
            raise ValueError(f"{where} takes its data from other files; such files are not read")
        kind = kind_of(dataset.id.get_type(), where)
        width = dataset.id.get_type().get_size()
        note = dataset.attrs.get("NAME")
        if isinstance(note, bytes) and note.startswith(_NO_VARIABLE):
            return  # the length of a dimension without labels: it has no data, and nobody reads it
        whole = cells if dataset.chunks is None else max(cells, self._in_chunks(dataset, where))
        stored = dataset.id.get_storage_size()
        if stored * _MAX_RATIO + 4096 < cells * width:
            raise ValueError(f"{where} declares {cells} values, but the file holds only {stored} bytes for them")
        # A number of one byte may become one of eight when scales are applied, a text of fixed length one of any length.
        self.budget.take(
            whole * max(width, 8) if kind == "number" else whole * width * _PER_BYTE + cells * _PER_TEXT, where
        )
        self.declared.append((dataset, where, kind))

    def contents(self) -> None:
        """Look at what is in the variables, once all that they declare is known to fit."""
        texts = []
        for dataset, where, kind in self.declared:
            references = check_chunks(dataset, self.raw, where, keep=kind == "text")
            if kind == "text":
                if dataset.chunks is None:
                    references = self._plain(dataset, dataset.size * REFERENCE.itemsize)
                self.budget.take(_PER_BYTE * int(self.heaps.lengths(references).sum()), where)
                texts.append(dataset)
        for dataset in texts:
            check_characters(dataset)

    def _in_chunks(self, dataset: h5py.Dataset, where: str) -> int:
        """Values of all chunks together, of which the last along each dimension may be full only in part."""
        each = prod(dataset.chunks)
        if each > max(self.max_cells, 1):
            raise ValueError(f"{where} is stored in chunks of {each} values")
        number = prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
        if number > dataset.id.get_num_chunks() + _BLOCK:
            raise ValueError(f"{where} declares {number} chunks, but the file holds only {dataset.id.get_num_chunks()}")
        return int(number * each)

    def _plain(self, dataset: h5py.Dataset, size: int) -> bytes:
        """The data of a variable that is stored in one piece, as they are in the file; empty if nothing was written."""
        if dataset.id.get_create_plist().get_layout() == h5py.h5d.COMPACT:
            own = stored_compactly(self.raw, _address(dataset))
            return self.raw.part(own.start, min(own.size, size))
        start = dataset.id.get_offset()
        return b"" if start is None else self.raw.part(start, size)

    def _attributes(self, item: Any, where: str) -> None:
        wanted: list[tuple[bytes, str, int, int]] = []
        for _ in range(h5py.h5a.get_num_attrs(item.id)):
            self._one_more("attributes", ATTRIBUTES)
        for name in item.attrs:
            raw = h5py.h5a.open(item.id, name.encode())
            place = f"the attribute {name!r} of {where}"
            space = raw.get_space()
            if space.get_simple_extent_type() == h5py.h5s.NULL:
                continue  # how netCDF-4 stores an empty text
            count, kind = prod(space.get_simple_extent_dims()), raw.get_type()
            if count > _MAX_ATTRIBUTE_VALUES or count * kind.get_size() > len(self.raw):
                raise ValueError(f"{place} has too many values")
            if name == "DIMENSION_LIST" and kind.get_class() == h5py.h5t.VLEN:
                if kind.get_super().get_class() != h5py.h5t.REFERENCE:
                    raise holds_objects(place)
                wanted.append((name.encode(), place, count, kind.get_super().get_size()))
            elif name in _BOOKKEEPING:
                if kind.detect_class(h5py.h5t.VLEN) or kind.detect_class(h5py.h5t.STRING):
                    raise holds_objects(place)
            elif kind_of(kind, place) == "text":
                wanted.append((name.encode(), place, count, 1))
            self.budget.take(_PER_TEXT + _PER_BYTE * count * kind.get_size(), place)
        if wanted:
            self._lengths(item, wanted)
        if self.groups:  # a posterior, which is written again; of a release only what is known is taken
            for name in set(item.attrs) - _BOOKKEEPING:
                check_written_again(item, name, f"the attribute {name!r} of {where}")

    def _lengths(self, item: Any, wanted: list[tuple[bytes, str, int, int]]) -> None:
        """Count what attributes of any length take: name, place, number of texts, and bytes of an entry of each."""
        found: dict[bytes, list[Any]] = {}
        for name, own in stored_attributes(self.raw, _address(item)):
            found.setdefault(name, []).append(own)
        for name, place, count, unit in wanted:
            if len(found.get(name, [])) != 1 or found[name][0].size < count * REFERENCE.itemsize:
                raise self.raw.unknown(place)
            lengths = self.heaps.lengths(self.raw.part(found[name][0].start, count * REFERENCE.itemsize), unit)
            self.budget.take(_PER_TEXT * count + _PER_BYTE * unit * int(lengths.sum()), place)


def _address(item: Any) -> int:
    """Where the header of an object is."""
    return int(h5py.h5o.get_info(item.id).addr)

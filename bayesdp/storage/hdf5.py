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
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import h5py

from bayesdp._text import printable
from bayesdp.storage.budget import ATTRIBUTES, DEPTH, GROUPS, MAX_CELLS, VARIABLES, Budget, cell_limit
from bayesdp.storage.chunks import check_chunks
from bayesdp.storage.heaps import REFERENCE, Heaps
from bayesdp.storage.kinds import check_characters, check_written_again, holds_objects, kind_of
from bayesdp.storage.object_headers import stored_attributes, stored_compactly
from bayesdp.storage.raw_bytes import RawBytes

__all__ = ["MAX_CELLS", "check_hdf5", "damaged"]

_MAX_RATIO = 1100
"""Deflate cannot compress by more than 1032; what declares more than it can hold is not a table."""

_MAX_ATTRIBUTE_VALUES = 10_000

_PER_TEXT, _PER_BYTE = 160, 5
"""Memory of a text: two Python objects, of bytes and of characters, and up to 4 bytes a character."""

_BLOCK = 10_000

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

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no HDF5 file or a damaged one, or holds links, references, objects, filters other than
        deflate and shuffle, variables that declare more than `max_cells` values or far more than the file
        could hold, or all together more than its `Budget`.
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

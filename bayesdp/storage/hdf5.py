"""Looking at an HDF5 file before anything else reads it.

netCDF-4 files are HDF5 files, and HDF5 can do far more than hold a table: link to other files, hold objects,
load filter plugins, declare terabytes that are not there. Everything that a table does not need is refused
here, from the declarations alone, before any data is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, Never

import h5py
import numpy as np

from bayesdp.storage.heaps import check_heaps

__all__ = ["MAX_CELLS", "check_hdf5", "damaged"]

MAX_CELLS = 50_000_000
"""Largest number of values that one variable may declare, unless the reader raises it: 400 MB of float64."""

_MAX_STRING_BYTES = 256 * 2**20
"""Strings of one variable may take this much memory."""

_MAX_RATIO = 1100
"""Deflate cannot compress by more than 1032; what declares more than it can hold is not a table."""

_MAX_ATTRIBUTE_VALUES = 10_000

_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
"""Built into HDF5. Any other filter would load a plugin, which is running code."""

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
    except (
        OSError,
        RuntimeError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
        MemoryError,
    ) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{os.fspath(path)}: {told}") from None


def check_hdf5(path: str | os.PathLike[str], *, max_cells: int | None = None, groups: bool = False) -> None:
    """Check that a file is a plain netCDF-4 file of reasonable size, without reading its data.

    Parameters
    ----------
    path : path
        File.
    max_cells : int, optional
        Largest number of values that one variable may declare; `MAX_CELLS` by default.
    groups : bool
        Whether there may be groups, as in a saved posterior.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no HDF5 file or a damaged one, or holds links, references, objects, filters other than
        deflate and shuffle, or variables that declare more than `max_cells` values or far more than the file
        could hold.
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
    with damaged(target):
        check_heaps(target)
        try:
            file = h5py.File(target, "r")
        except OSError as error:
            raise ValueError(f"the file is truncated or damaged ({error})") from None
        with file:
            _Checker(target.stat().st_size, MAX_CELLS if max_cells is None else max_cells, groups).group(file, "/")


class _Checker:
    """One walk through a file."""

    def __init__(self, file_size: int, max_cells: int, groups: bool) -> None:
        self.file_size = file_size
        self.max_cells = max_cells
        self.groups = groups
        self.seen: set[Any] = set()

    def group(self, group: h5py.Group, where: str) -> None:
        self._once(group, where)
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
                self.group(item, place)
            else:
                raise ValueError(f"{place} is neither a variable nor a group")

    def _once(self, item: Any, where: str) -> None:
        """Refuse a second way to an object: hard links can make circles."""
        address = h5py.h5o.get_info(item.id).addr
        if address in self.seen:
            raise ValueError(f"{where} is a second name for something else in the file")
        self.seen.add(address)

    def _dataset(self, dataset: h5py.Dataset, where: str) -> None:
        self._once(dataset, where)
        self._attributes(dataset, where)
        if dataset.shape is None:
            raise ValueError(f"{where} holds nothing (a null dataspace)")
        cells = prod(dataset.shape)
        if cells > self.max_cells:
            raise ValueError(
                f"{where} declares {cells} values, more than the limit of {self.max_cells}; if that is "
                "right, raise the limit with max_cells"
            )
        created = dataset.id.get_create_plist()
        if created.get_layout() == h5py.h5d.VIRTUAL or created.get_external_count():
            raise ValueError(f"{where} takes its data from other files; such files are not read")
        for i in range(created.get_nfilters()):
            if created.get_filter(i)[0] not in _FILTERS:
                raise ValueError(f"{where} is stored with a filter other than deflate and shuffle")
        if dataset.chunks is not None and prod(dataset.chunks) > max(self.max_cells, 1):
            raise ValueError(f"{where} is stored in chunks of {prod(dataset.chunks)} values")
        kind = _kind(dataset.id.get_type(), where)
        note = dataset.attrs.get("NAME")
        if isinstance(note, bytes) and note.startswith(_NO_VARIABLE):
            return  # the length of a dimension without labels: it has no data, and nobody reads it
        stored = dataset.id.get_storage_size()
        if stored * _MAX_RATIO + 4096 < cells * dataset.dtype.itemsize:
            raise ValueError(f"{where} declares {cells} values, but the file holds only {stored} bytes for them")
        if kind == "text":
            _check_strings(dataset, where, self.file_size)

    def _attributes(self, item: Any, where: str) -> None:
        for name in item.attrs:
            raw = h5py.h5a.open(item.id, name.encode())
            place = f"the attribute {name!r} of {where}"
            space = raw.get_space()
            if space.get_simple_extent_type() == h5py.h5s.NULL:
                continue  # how netCDF-4 stores an empty text
            shape = space.get_simple_extent_dims()
            if prod(shape) > _MAX_ATTRIBUTE_VALUES or prod(shape) * raw.get_type().get_size() > self.file_size:
                raise ValueError(f"{place} has too many values")
            if name not in _BOOKKEEPING:
                kind = _kind(raw.get_type(), place)
                if kind == "text" and prod(shape) * self.file_size > max(_MAX_STRING_BYTES, 4 * self.file_size):
                    raise ValueError(f"{place} holds too many strings")


def _kind(kind: h5py.h5t.TypeID, where: str) -> str:
    """The kind of a type: a number, fixed-length text, or text of any length; everything else is refused."""
    family = kind.get_class()
    if family in (h5py.h5t.INTEGER, h5py.h5t.FLOAT) and kind.get_size() <= 8:
        return "number"
    if family == h5py.h5t.ENUM and kind.get_size() == 1:
        return "number"  # how HDF5 writes booleans
    if family == h5py.h5t.STRING:
        return "text" if kind.is_variable_str() else "fixed text"
    _refuse(where)


def _refuse(where: str) -> Never:
    raise ValueError(f"{where} holds objects; only numbers and text are read")


def _check_strings(dataset: h5py.Dataset, where: str, file_size: int) -> None:
    """Check that strings of any length are UTF-8 and bounded.

    Many strings can be one and the same long text in the file, so their number and the size of the file do
    not bound the memory they need. They are read a few at a time, few enough that each could be as long as
    the file.
    """
    flat = dataset.size
    step = max(1, _MAX_STRING_BYTES // max(file_size, 1))
    total = 0
    if dataset.ndim > 1 and flat > step:
        raise ValueError(f"{where} holds {flat} strings in {dataset.ndim} dimensions; labels have one")
    for start in range(0, flat, step):
        block = dataset[()] if dataset.ndim != 1 else dataset[start : start + step]
        for text in np.ravel(np.asarray(block, dtype=object)):
            total += len(text)
            text.decode("utf-8")
        if total > _MAX_STRING_BYTES:
            raise ValueError(f"{where} holds more than {_MAX_STRING_BYTES} bytes of text")
        if dataset.ndim != 1:
            break

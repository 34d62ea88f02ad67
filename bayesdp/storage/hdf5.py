"""Reading netCDF-4 files, which are HDF5 files.

HDF5 can do far more than hold a table: link to other files, hold objects, load filter plugins, declare terabytes that are not there.
Everything that a table does not need is refused here by what the file declares. What is left is read in a child process with limits
(`bayesdp.storage.guarded`), because what is packed and how long texts are shows in reading only.
"""

from __future__ import annotations

import os
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import xarray as xr

from bayesdp.storage.guarded import MAX_CELLS, Limits, cell_limit, check_labels, damaged, in_child

VARIABLES = 1_000
"""Most variables in a file."""

GROUPS = 100
"""Most groups in a file: a saved posterior has some ten."""

DEPTH = 4
"""Most groups one inside the other: a saved posterior has one. xarray copies a group by copying what is in it twice, so the time
of a copy doubles with each: 18 took a minute."""

ATTRIBUTES, ATTRIBUTES_EACH = 5_000, 500
"""Most attributes in a file, and of one variable or group."""

_PER_TEXT, _PER_BYTE = 160, 5
"""Memory of a text: two Python objects, of bytes and of characters, and up to 4 bytes a character."""

_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
"""Built into HDF5. Any other filter would load a plugin, which is running code."""

_MAX_RATIO = 1100
"""Deflate cannot compress by more than 1032; what declares more than it can hold is not a table."""

_BOOKKEEPING = {"DIMENSION_LIST", "REFERENCE_LIST"}
"""Attributes by which netCDF-4 ties variables to dimensions; the only places for references."""

_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def load_netcdf(path: str | os.PathLike[str], *, max_cells: int | None = None, release: bool = False) -> xr.Dataset:
    """A netCDF-4 file without groups, in memory; numbers are as they are in the file (no scales, no dates)."""
    # A `release` is not compressed, and one of its variables may declare as many values as `cell_limit` of the file's size says;
    # another table may be compressed, and has `MAX_CELLS`. ValueError if it is no plain netCDF-4 file, or takes more than its size
    # allows.
    size = _netcdf4_size(path)
    if release:
        cells, limits = cell_limit(size, max_cells), Limits.of_release(size, max_cells)
    else:
        cells, limits = MAX_CELLS if max_cells is None else max_cells, Limits.of_draws(size)
    return _load(path, cells, limits, groups=False, mask_and_scale=False, decode_times=False)["/"]


MOST_DRAWS = 2_000_000_000
"""Values of one variable of a posterior: a release of a few thousand cells times draws; 16 GB at most."""


def read_draws(path: str | os.PathLike[str], *, max_cells: int = MOST_DRAWS) -> xr.DataTree:
    """A netCDF-4 file with groups, as a saved posterior has, in memory and decoded as `xarray` does; see `load_netcdf`."""
    return xr.DataTree.from_dict(_load(path, max_cells, Limits.of_draws(_netcdf4_size(path)), groups=True))


def _netcdf4_size(path: str | os.PathLike[str]) -> int:
    """The size of a file; ValueError if it does not begin as a netCDF-4 file."""
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")
    with target.open("rb") as raw:
        magic = raw.read(8)
    if magic[:3] == b"CDF":
        raise ValueError(f"{target}: it is a netCDF-3 file; save it as netCDF-4 (engine='h5netcdf')")
    if magic != b"\x89HDF\r\n\x1a\n":
        raise ValueError(f"{target}: it is no netCDF-4 file")
    return target.stat().st_size


def _load(
    path: str | os.PathLike[str], max_cells: int, limits: Limits, *, groups: bool, **decoding: Any
) -> dict[str, xr.Dataset]:
    """All groups of a file, in memory."""

    def load() -> dict[str, xr.Dataset]:
        places = _Checker(max_cells, limits, groups=groups).groups_of(path)
        with h5netcdf.File(path, "r", phony_dims="sort", decode_vlen_strings=True) as file:
            return {place: _loaded(file, place) for place in places}

    raw = in_child(load, path, limits)
    with damaged(path):  # not in the child: missing numbers and scales take room of their own when they are decoded
        return {group: xr.decode_cf(dataset, **decoding).load() for group, dataset in raw.items()}


def _loaded(file: h5netcdf.File, place: str) -> xr.Dataset:
    """A group as it is in the file, without indexes."""
    # Without xarray's lock, which would stay locked if another thread held it at the time of the fork.
    store = xr.backends.H5NetCDFStore(file, group=place, lock=False)
    dataset = xr.open_dataset(store, decode_cf=False, create_default_indexes=False)
    for name, variable in dataset.variables.items():
        try:
            variable.load()
        except OSError as error:  # HDF5 says in this way too that there is no memory
            raise OSError(f"{name} is damaged, or unpacks to more than a file of this size may ({error})") from None
        if variable.dtype.kind == "O":  # of which xarray makes arrays
            check_labels(str(name), [len(text) for text in variable.values.reshape(-1).tolist()])
    dataset.set_close(None)  # the file is open for the other groups, and nothing open is handed back
    return dataset


class _Checker:
    """One walk through a file."""

    def __init__(self, max_cells: int, limits: Limits, *, groups: bool) -> None:
        self.max_cells = max_cells
        self.limits = limits
        self.groups = groups  # whether there may be any
        self.seen: set[int] = set()
        self.count: Counter[str] = Counter()
        self.declared = 0
        self.places: list[str] = []  # of groups

    def groups_of(self, path: str | os.PathLike[str]) -> list[str]:
        """The places of all groups; ValueError if the file declares what is not read."""
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            raise ValueError(f"the file is truncated or damaged ({error})") from None
        with file:
            self._group(file, "/")
        return self.places

    def _group(self, group: h5py.Group, where: str) -> None:
        self._once(group, where)
        self._one_more("groups", GROUPS)
        self.places.append(where)
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
                self._group(item, place)
            else:
                raise ValueError(f"{place} is neither a variable nor a group")

    def _one_more(self, what: str, most: int) -> None:
        """Each takes time, however little is in it."""
        self.count[what] += 1
        if self.count[what] > most:
            raise ValueError(f"it holds more than {most} {what}, the most that are read")

    def _once(self, item: Any, where: str) -> None:
        """Refuse a second way to an object: hard links can make circles."""
        address = int(h5py.h5o.get_info(item.id).addr)
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
        filters = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
        if not set(filters) <= _FILTERS:
            raise ValueError(f"{where} is stored with a filter other than deflate and shuffle")
        if len(set(filters)) < len(filters):
            raise ValueError(f"{where} is stored with one filter several times")
        number = _is_number(dataset.id.get_type(), where)
        width = dataset.id.get_type().get_size()
        note = dataset.attrs.get("NAME")
        if isinstance(note, bytes) and note.startswith(_NO_VARIABLE):
            return  # the length of a dimension without labels: it has no data, and nobody reads it
        stored = dataset.id.get_storage_size()
        if stored * _MAX_RATIO + 4096 < cells * width:
            raise ValueError(f"{where} declares {cells} values, but the file holds only {stored} bytes for them")
        # A number of one byte may become one of eight when scales are applied, a text of fixed length one of any length.
        self.declared += cells * (max(width, 8) if number else width * _PER_BYTE + _PER_TEXT)
        if self.declared > self.limits.memory:
            raise ValueError(
                f"{where} and what comes before it declare {self.declared} bytes, more than the {self.limits.memory} that a file "
                f"of this size may take{self.limits.advice}"
            )

    def _attributes(self, item: Any, where: str) -> None:
        if h5py.h5a.get_num_attrs(item.id) > ATTRIBUTES_EACH:
            raise ValueError(f"{where} has more than {ATTRIBUTES_EACH} attributes, the most that are read")
        for name in item.attrs:
            self._one_more("attributes", ATTRIBUTES)
            place = f"the attribute {name!r} of {where}"
            raw = h5py.h5a.open(item.id, name.encode())
            if name not in _BOOKKEEPING and raw.get_space().get_simple_extent_type() != h5py.h5s.NULL:
                _is_number(raw.get_type(), place)
            if self.groups and name not in _BOOKKEEPING:
                # A posterior, which is written again; of a release only what is known is taken.
                _check_written_again(item.attrs[name], place)


def _is_number(kind: h5py.h5t.TypeID, where: str) -> bool:
    """Whether a type is one of numbers, and not of text; everything else is refused."""
    widest = {h5py.h5t.INTEGER: 8, h5py.h5t.FLOAT: 8, h5py.h5t.ENUM: 1}  # HDF5 writes booleans as the last
    family = kind.get_class()
    if kind.get_size() <= widest.get(family, -1):
        return True
    if family == h5py.h5t.STRING:
        return False
    raise ValueError(f"{where} holds objects; only numbers and text are read")


def _check_written_again(value: Any, place: str) -> None:
    """Check that the value of an attribute can be written to a netCDF file."""
    values = np.asarray(value)
    if values.dtype.kind == "b":
        raise ValueError(f"{place} holds truth values, for which netCDF has no type; write 0 and 1")
    try:
        for text in values.reshape(-1).tolist() if values.dtype.kind in "OSU" else []:
            text.decode("utf-8") if isinstance(text, bytes) else text.encode("utf-8")
    except UnicodeError:
        raise ValueError(f"{place} holds text that is not UTF-8") from None

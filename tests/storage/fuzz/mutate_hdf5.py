"""The structure of an HDF5 file: what a table does not need, and what netCDF-4 does otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.storage.fuzz.chance import one, size
from tests.storage.fuzz.hdf5_bombs import BOMBS
from tests.storage.fuzz.mutate_json import mutate_json

_TYPES: tuple[Any, ...] = (
    "i1", "u1", ">i4", "i8", "u8", "f2", ">f8", "f8", "g", "c16", "?", "S1", "S7", "V3", [("a", "i8"), ("b", "f8")],
    h5py.string_dtype(), h5py.string_dtype("ascii"), h5py.string_dtype(length=5), h5py.vlen_dtype(np.int64), h5py.ref_dtype,
    h5py.regionref_dtype, h5py.enum_dtype({"no": 0, "yes": 1}, "i1"), ("i4", (3,)),
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    0, 1, -1, 0.5, 1e300, np.nan, np.inf, "", "no", "x", True, b"\xff\xfe", [1, 2], ["a", "b"], np.zeros(0), h5py.Empty("f8"),
    np.float32(1), np.int8(1), np.uint64(2**64 - 1), "9" * 401, b"\x1b[2J", b"\xe2\x80\xae", "GCOL\x01", "[" * 1000,
)  # fmt: skip
_LABELS = (
    b"", b"x", b"\xff", b"GCOL\x01", b"\x1b[2J", "\u202e".encode(), b"=1", b" a ", b"a\nb", b"y" * 100_000,
)  # fmt: skip
_NAMES = (
    "extra",
    "county_2",
    "measured_1",
    "measured_9",
    "release_2",
    "a b",
    "é",
    "\x1b[2J",
    "x" * 300,
    "_",
    "1",
    "NAME",
)
_ATTRIBUTES = (
    "secret", "scale_factor", "add_offset", "_FillValue", "missing_value", "units", "dtype", "coordinates", "calendar",
    "_NCProperties", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates", "converged", "variable", "x" * 200,
)  # fmt: skip
_CANARY = "../elsewhere/canary.h5"


def _walk(file: h5py.File, kind: type | tuple[type, ...] = (h5py.Group, h5py.Dataset)) -> list[Any]:
    found: list[Any] = [file] if isinstance(file, kind) else []
    file.visititems(lambda _, own: found.append(own) if isinstance(own, kind) else None)
    return found


def add_variable(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable of any type, empty or not."""
    shape = tuple(int(own) for own in rng.integers(0, 4, int(rng.integers(0, 4))))
    one(rng, _walk(file, h5py.Group)).create_dataset(one(rng, _NAMES), shape, dtype=one(rng, _TYPES))


def retype_variable(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable becomes one of another type, of the same numbers if they fit, or of another shape."""
    own = one(rng, _walk(file, h5py.Dataset))
    name, old, kind, shape = own.name, own[()], own.dtype, list(own.shape)
    attributes = {
        key: own.attrs[key] for key in own.attrs if key not in ("REFERENCE_LIST", "CLASS", "NAME", "DIMENSION_LIST")
    }
    del file[name]
    if shape and rng.random() < 0.25:
        shape[int(rng.integers(0, len(shape)))] = one(rng, [0, 1, 2, 5, 100])
    else:
        kind = one(rng, _TYPES)
    new = file.create_dataset(name, shape, dtype=kind)
    new.attrs.update(attributes)
    for i, count in enumerate(shape):
        scales = [item for item in _walk(file, h5py.Dataset) if item.is_scale and item.shape == (count,)]
        for scale in [item for item in scales if item.parent == new.parent][:1]:
            new.dims[i].attach_scale(scale)
    try:
        new[...] = old
    except (TypeError, ValueError, OSError):
        return


def renumber(rng: np.random.Generator, file: h5py.File) -> None:
    """A number, or all of a variable, becomes another one."""
    own = one(rng, [item for item in _walk(file, h5py.Dataset) if item.dtype.kind in "iuf" and item.size])
    values = np.array(own[()])
    limit = np.iinfo(values.dtype) if values.dtype.kind in "iu" else np.finfo(values.dtype)
    new = one(rng, [0, 1, -1, 3, limit.max, limit.min, *([np.nan, np.inf, 0.5] if values.dtype.kind == "f" else [])])
    with np.errstate(all="ignore"):
        new = np.array(new).astype(values.dtype)
    how = one(rng, ["all", "order", "one"])
    if how == "all":
        values[...] = new
    elif how == "order":
        values = rng.permutation(values.reshape(-1)).reshape(values.shape)
    else:
        values.reshape(-1)[int(rng.integers(0, values.size))] = new
    own[...] = values


def relabel(rng: np.random.Generator, file: h5py.File) -> None:
    """A label becomes another one."""
    texts = [item for item in _walk(file, h5py.Dataset) if h5py.check_string_dtype(item.dtype) and item.size]
    if not texts:
        return renumber(rng, file)
    own = one(rng, texts)
    values = np.array(own[()]).reshape(-1)
    values[int(rng.integers(0, values.size))] = one(rng, [*_LABELS, values[0]])
    own[...] = values.reshape(own.shape)


def links(rng: np.random.Generator, file: h5py.File) -> None:
    """A link to elsewhere, to nothing, to itself, or a second name."""
    target = one(rng, _walk(file)).name
    if rng.random() < 0.5 and target != "/":
        moved = f"{target}_moved"
        file.move(target, moved)
        file[target] = one(rng, [h5py.SoftLink(moved), h5py.SoftLink(target), h5py.ExternalLink(_CANARY, "/x")])
        return
    elsewhere = [h5py.SoftLink("/nowhere"), h5py.ExternalLink(_CANARY, "/x"), h5py.ExternalLink("/etc/passwd", "/")]
    new = one(rng, [h5py.SoftLink(target), file[target], np.dtype("i8"), *elsewhere])
    one(rng, _walk(file, h5py.Group))[one(rng, _NAMES)] = new


def elsewhere(rng: np.random.Generator, file: h5py.File) -> None:
    """Numbers that are in another file."""
    place, name = one(rng, _walk(file, h5py.Group)), one(rng, _NAMES)
    if rng.random() < 0.5:
        place.create_dataset(name, (4,), dtype="i8", external=[(_CANARY, 0, 32)])
        return
    layout = h5py.VirtualLayout(shape=(3, 2), dtype="i8")
    layout[...] = h5py.VirtualSource(one(rng, [_CANARY, "."]), "x", shape=(3, 2))
    place.create_virtual_dataset(name, layout)


def filters(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable stored in chunks, with a filter that may need a plug-in."""
    own = one(rng, [item for item in _walk(file, h5py.Dataset) if item.ndim and item.size])
    name, values, kind = own.name, own[()], own.dtype
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk(tuple(int(rng.integers(1, 2 * count + 1)) for count in own.shape))
    code = one(rng, [1, 2, 3, 4, 5, 6, 32000, 32001, 307, 65535])
    made.set_filter(code, h5py.h5z.FLAG_OPTIONAL, (1,))
    kind_id, space = own.id.get_type(), own.id.get_space()
    del file[name]
    new = h5py.h5d.create(file.id, name.encode(), kind_id, space, made)
    if h5py.h5z.filter_avail(code) and kind.kind in "iuf":
        h5py.Dataset(new)[...] = values


def add_attribute(rng: np.random.Generator, file: h5py.File) -> None:
    """An attribute that has a meaning elsewhere, or none."""
    own, name, value = one(rng, _walk(file)), one(rng, _ATTRIBUTES), one(rng, _VALUES)
    if rng.random() < 0.2:
        own.attrs.create(name, np.zeros(2, dtype="i8"), dtype=one(rng, ["g", "c16", [("a", "i8")]]))
    elif rng.random() < 0.1:
        own.attrs.create(name, file.ref, dtype=h5py.ref_dtype)
    else:
        own.attrs[name] = value


def change_attribute(rng: np.random.Generator, file: h5py.File) -> None:
    """An attribute goes, or gets another value."""
    own, name = one(rng, [(own, name) for own in _walk(file) for name in own.attrs if name not in ("CLASS", "NAME")])
    if rng.random() < 0.25:
        del own.attrs[name]
    else:
        own.attrs[name] = one(rng, _VALUES)


def rename(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable or a group goes, is there again, has another name, or changes names with another."""
    items = _walk(file)[1:]
    own, other = one(rng, items).name, one(rng, items).name
    how = one(rng, ["gone", "again", "renamed", "exchanged"])
    if how == "gone":
        del file[own]
    elif how == "again":
        file.copy(own, one(rng, [*_NAMES, f"{own.strip('/').replace('/', '_')}_2"]))
    elif how == "renamed":
        file.move(own, f"{own.rpartition('/')[0]}/{one(rng, _NAMES)}")
    elif not own.startswith(other) and not other.startswith(own):
        file.move(own, "/aside")
        file.move(other, own)
        file.move("/aside", other)


def groups(rng: np.random.Generator, file: h5py.File) -> None:
    """Groups, one inside the other, perhaps very deep, with dimensions that share names."""
    place = file.create_group("/".join([one(rng, _NAMES)] * size(rng, 0, 9)))
    if rng.random() < 0.5:
        place.create_dataset("x", data=[1, 2])


def dimensions(rng: np.random.Generator, file: h5py.File) -> None:
    """A scale is detached, or another one attached; a variable becomes a scale."""
    variables = _walk(file, h5py.Dataset)
    own, scales = one(rng, [item for item in variables if item.ndim]), [item for item in variables if item.is_scale]
    axis = own.dims[int(rng.integers(0, own.ndim))]
    if own.is_scale:
        one(rng, variables).make_scale("x")
    elif len(axis) and rng.random() < 0.5:
        axis.detach_scale(axis[0])
    elif scales:
        axis.attach_scale(one(rng, scales))


def json_attribute(rng: np.random.Generator, file: h5py.File) -> str:
    """A field of JSON in an attribute."""
    attributes = [(own, name, own.attrs[name]) for own in _walk(file) for name in own.attrs]
    found = [own for own in attributes if isinstance(own[2], str) and own[2][:1] in ("{", "[")]
    if not found:
        change_attribute(rng, file)
        return "attribute"
    own, name, value = one(rng, found)
    text, how = mutate_json(rng, value)
    raw = text.encode("utf-8", "surrogatepass")
    fixed = len(raw) <= 60_000 and (b"\x00" in raw or rng.random() < 0.1)
    del own.attrs[name]
    own.attrs.create(name, raw, dtype=h5py.string_dtype(length=max(1, len(raw))) if fixed else h5py.string_dtype())
    return f"{name}, {how}"


_CHANGES: tuple[Callable[[np.random.Generator, h5py.File], str | None], ...] = (
    *[json_attribute] * 12, *[renumber] * 3, *[retype_variable] * 4, *[change_attribute] * 3, *[add_attribute] * 2,
    *[rename] * 3, relabel, add_variable, links, elsewhere, filters, groups, dimensions,
)  # fmt: skip


def mutate_hdf5(rng: np.random.Generator, path: Path) -> str:
    """Change the structure of an HDF5 file in place."""
    if rng.random() < 0.2:
        bomb = one(rng, BOMBS)
        bomb(rng, path)
        return f"HDF5: {bomb.__name__}"
    change = one(rng, _CHANGES)
    with h5py.File(path, "r+") as file:
        how = change(rng, file)
    return f"HDF5: {change.__name__}" + (f" {how}" if how else "")

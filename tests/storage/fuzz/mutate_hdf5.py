"""The structure of an HDF5 file: what a table does not need, and what netCDF-4 does otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.storage.fuzz.hdf5_bombs import BOMBS
from tests.storage.fuzz.mutate_json import mutate_json

_TYPES: tuple[Any, ...] = (
    "i1", "u1", "i2", ">i4", "u4", "i8", ">i8", "u8", "f2", "f4", ">f8", "f8", "g", "c16", "?", "S1", "S7", "V3",
    [("a", "i8"), ("b", "f8")],
    h5py.string_dtype(), h5py.string_dtype("ascii"), h5py.string_dtype(length=5), h5py.vlen_dtype(np.int64),
    h5py.ref_dtype,
    h5py.regionref_dtype, h5py.enum_dtype({"no": 0, "yes": 1}, "i1"), h5py.enum_dtype({"no": 0, "yes": 70_000},
    "i4"), ("i4", (3,)),
)  # fmt: skip

_VALUES: tuple[Any, ...] = (
    0, 1, -1, 2, 0.5, 1e300, np.nan, np.inf, "", "no", "x", "yes", True, False, b"\xff\xfe", [1, 2], ["a", "b"],
    np.zeros(0), h5py.Empty("f8"),
    np.float32(1), np.int8(1), np.uint64(2**64 - 1), "9" * 401, "\x1b[2J", "\u202e", "GCOL\x01", "[" * 1000,
)  # fmt: skip


def _walk(file: h5py.File, kind: type | tuple[type, ...] = (h5py.Group, h5py.Dataset)) -> list[Any]:
    found: list[Any] = [file] if isinstance(file, kind) else []
    file.visititems(lambda _, own: found.append(own) if isinstance(own, kind) else None)
    return found


def _one(rng: np.random.Generator, items: list[Any]) -> Any:
    return items[int(rng.integers(0, len(items)))]


def _name(rng: np.random.Generator) -> str:
    own = _one(rng, ["extra", "county_2", "measured_9", "a b", "é", "\x1b[2J", "x" * 300, "_", "1", "NAME"])
    return str(own)


def add_variable(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable of any type, empty or not."""
    shape = tuple(int(own) for own in rng.integers(0, 4, int(rng.integers(0, 4))))
    _one(rng, _walk(file, h5py.Group)).create_dataset(_name(rng), shape, dtype=_one(rng, list(_TYPES)))


def retype_variable(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable becomes one of another type, of the same numbers if they fit."""
    own = _one(rng, _walk(file, h5py.Dataset))
    name, old, shape = own.name, own[()], own.shape
    attributes = {
        key: value
        for key, value in own.attrs.items()
        if key not in ("REFERENCE_LIST", "CLASS", "NAME", "DIMENSION_LIST")
    }
    del file[name]
    new = file.create_dataset(name, shape, dtype=_one(rng, list(_TYPES)))
    new.attrs.update(attributes)
    for i, size in enumerate(shape):
        for other in _walk(file, h5py.Dataset):
            if other.is_scale and other.shape == (size,) and other.parent == new.parent:
                new.dims[i].attach_scale(other)
                break
    try:
        new[...] = old
    except (TypeError, ValueError, OSError):
        return


def reshape_variable(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable of another shape."""
    own = _one(rng, _walk(file, h5py.Dataset))
    name, kind, shape = own.name, own.dtype, list(own.shape)
    if shape:
        shape[int(rng.integers(0, len(shape)))] = int(rng.choice([0, 1, 2, 5, 100]))
    del file[name]
    file.create_dataset(name, tuple(shape) if rng.random() < 0.7 else (), dtype=kind)


def renumber(rng: np.random.Generator, file: h5py.File) -> None:
    """A number, or all of a variable, becomes another one."""
    own = _one(rng, [item for item in _walk(file, h5py.Dataset) if item.dtype.kind in "iuf" and item.size])
    values = np.array(own[()])
    limit = np.iinfo(values.dtype) if values.dtype.kind in "iu" else np.finfo(values.dtype)
    new = _one(rng, [0, 1, -1, 3, limit.max, limit.min, *([np.nan, np.inf, 0.5] if values.dtype.kind == "f" else [])])
    with np.errstate(all="ignore"):
        new = np.array(new).astype(values.dtype)
    if rng.random() < 0.3:
        values[...] = new
    elif rng.random() < 0.5:
        values = rng.permutation(values.reshape(-1)).reshape(values.shape)
    else:
        values.reshape(-1)[int(rng.integers(0, values.size))] = new
    own[...] = values


def relabel(rng: np.random.Generator, file: h5py.File) -> None:
    """A label becomes another one."""
    texts = [item for item in _walk(file, h5py.Dataset) if h5py.check_string_dtype(item.dtype) and item.size]
    if not texts:
        return renumber(rng, file)
    own = _one(rng, texts)
    values = np.array(own[()]).reshape(-1)
    odd = [
        b"",
        b"x",
        b"\xff",
        b"GCOL\x01",
        b"\x1b[2J",
        "\u202e".encode(),
        b"=1",
        b" a ",
        b"a\nb",
        b"y" * 100_000,
        values[0],
    ]
    values[int(rng.integers(0, values.size))] = _one(rng, odd)
    own[...] = values.reshape(own.shape)


def links(rng: np.random.Generator, file: h5py.File) -> None:
    """A link to elsewhere, to nothing, to itself, or a second name."""
    place, target = _one(rng, _walk(file, h5py.Group)), _one(rng, _walk(file)).name
    new: list[Any] = [
        h5py.SoftLink(target), h5py.SoftLink("/nowhere"), h5py.ExternalLink("../elsewhere/canary.h5", "/x"),
        file[target],
        h5py.ExternalLink("/etc/passwd", "/"), np.dtype("i8"),
    ]  # fmt: skip
    name = _name(rng)
    if rng.random() < 0.5 and target != "/":
        replaced = target
        moved = f"{target}_moved"
        file.move(target, moved)
        file[replaced] = _one(
            rng, [h5py.SoftLink(moved), h5py.SoftLink(replaced), h5py.ExternalLink("../elsewhere/canary.h5", "/x")]
        )
    else:
        place[name] = _one(rng, new)


def elsewhere(rng: np.random.Generator, file: h5py.File) -> None:
    """Numbers that are in another file."""
    place, name = _one(rng, _walk(file, h5py.Group)), _name(rng)
    if rng.random() < 0.5:
        place.create_dataset(name, (4,), dtype="i8", external=[("../elsewhere/canary.h5", 0, 32)])
        return
    layout = h5py.VirtualLayout(shape=(3, 2), dtype="i8")
    layout[...] = h5py.VirtualSource(str(_one(rng, ["../elsewhere/canary.h5", "."])), "x", shape=(3, 2))
    place.create_virtual_dataset(name, layout)


def filters(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable stored in chunks, with a filter that may need a plug-in."""
    own = _one(rng, [item for item in _walk(file, h5py.Dataset) if item.ndim and item.size])
    name, values, kind = own.name, own[()], own.dtype
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk(tuple(int(rng.integers(1, 2 * size + 1)) for size in own.shape))
    code = int(rng.choice([1, 2, 3, 4, 5, 6, 32000, 32001, 307, 65535]))
    made.set_filter(code, h5py.h5z.FLAG_OPTIONAL, (1,))
    kind_id, space = own.id.get_type(), own.id.get_space()
    del file[name]
    new = h5py.h5d.create(file.id, name.encode(), kind_id, space, made)
    if h5py.h5z.filter_avail(code) and kind.kind in "iuf":
        h5py.Dataset(new)[...] = values


_ATTRIBUTES = (
    "secret", "scale_factor", "add_offset", "_FillValue", "missing_value", "units", "dtype", "coordinates", "calendar",
    "_NCProperties", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates", "converged", "variable", "x" * 200,
)  # fmt: skip


def add_attribute(rng: np.random.Generator, file: h5py.File) -> None:
    """An attribute that has a meaning elsewhere, or none."""
    own = _one(rng, _walk(file))
    name = _one(rng, list(_ATTRIBUTES))
    value = _one(rng, list(_VALUES))
    if isinstance(value, str) and not value.isprintable():
        own.attrs.create(name, value.encode(), dtype=h5py.string_dtype())
    elif rng.random() < 0.2:
        own.attrs.create(
            name, np.zeros(2, dtype="i8"), dtype=_one(rng, ["g", "c16", [("a", "i8")]])
        ) if rng.random() < 0.5 else own.attrs.create(name, file.ref, dtype=h5py.ref_dtype)
    else:
        own.attrs[name] = value


def change_attribute(rng: np.random.Generator, file: h5py.File) -> None:
    """An attribute goes, or gets another value."""
    found = [
        (own, name) for own in _walk(file) for name in own.attrs if name not in ("CLASS", "NAME") or rng.random() < 0.1
    ]
    own, name = _one(rng, found)
    if rng.random() < 0.25:
        del own.attrs[name]
    else:
        own.attrs[name] = _one(rng, list(_VALUES))


def remove(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable or a group goes."""
    name = _one(rng, _walk(file)[1:]).name
    del file[name]


def rename(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable or a group has another name, or two change names, dimensions among them."""
    items = _walk(file)[1:]
    one = _one(rng, items).name
    if rng.random() < 0.5:
        file.move(one, f"{one.rpartition('/')[0]}/{_name(rng)}")
        return
    other = _one(rng, items).name
    if not one.startswith(other) and not other.startswith(one):
        file.move(one, "/aside")
        file.move(other, one)
        file.move("/aside", other)


def copy(rng: np.random.Generator, file: h5py.File) -> None:
    """A variable or a group is there again, under the name that comes next or another one."""
    own = _one(rng, _walk(file)[1:])
    name = own.name.strip("/").replace("/", "_")
    file.copy(
        own, str(_one(rng, ["extra", f"{name}_2", f"release_{name}", "release_2", "fiber_2", "measured_1", "exact_1"]))
    )


def groups(rng: np.random.Generator, file: h5py.File) -> None:
    """Groups, one inside the other, perhaps very deep, with dimensions that share names."""
    name = _name(rng)
    depth = int(2 ** rng.uniform(0, 9))
    place = file.create_group("/".join([name] * depth))
    if rng.random() < 0.5:
        place.create_dataset("x", data=[1, 2])


def dimensions(rng: np.random.Generator, file: h5py.File) -> None:
    """A scale is detached, or another one attached; a variable becomes a scale."""
    own = _one(rng, [item for item in _walk(file, h5py.Dataset) if item.ndim])
    axis = own.dims[int(rng.integers(0, own.ndim))]
    scales = [item for item in _walk(file, h5py.Dataset) if item.is_scale]
    if own.is_scale:
        _one(rng, _walk(file, h5py.Dataset)).make_scale("x")
    elif len(axis) and rng.random() < 0.5:
        axis.detach_scale(axis[0])
    elif scales:
        axis.attach_scale(_one(rng, scales))


def json_attribute(rng: np.random.Generator, file: h5py.File) -> str:
    """A field of JSON in an attribute."""
    found = [
        (own, name, value)
        for own in _walk(file)
        for name, value in own.attrs.items()
        if isinstance(value, str) and value[:1] in "{["
    ]
    found = [own for own in found if own[2]]
    if not found:
        change_attribute(rng, file)
        return "attribute"
    own, name, value = _one(rng, found)
    text, how = mutate_json(rng, value)
    raw = text.encode("utf-8", "surrogatepass")
    kind = (
        h5py.string_dtype() if b"\x00" not in raw and rng.random() < 0.9 else h5py.string_dtype(length=max(1, len(raw)))
    )
    del own.attrs[name]
    if len(raw) > 60_000 and kind != h5py.string_dtype():
        kind = h5py.string_dtype()
    own.attrs.create(name, raw, dtype=kind)
    return f"{name}, {how}"


_CHANGES: tuple[Callable[[np.random.Generator, h5py.File], str | None], ...] = (
    *[json_attribute] * 12, *[renumber] * 3, *[retype_variable] * 3, *[change_attribute] * 3, *[add_attribute] * 2,
    reshape_variable, relabel,
    add_variable, links, elsewhere, filters, remove, rename, copy, groups, dimensions,
)  # fmt: skip


def mutate_hdf5(rng: np.random.Generator, path: Path) -> str:
    """Change the structure of an HDF5 file in place."""
    if rng.random() < 0.2:
        bomb = BOMBS[int(rng.integers(0, len(BOMBS)))]
        bomb(rng, path)
        return f"HDF5: {bomb.__name__}"
    change = _CHANGES[int(rng.integers(0, len(_CHANGES)))]
    with h5py.File(path, "r+") as file:
        how = change(rng, file)
    return f"HDF5: {change.__name__}" + (f" {how}" if how else "")

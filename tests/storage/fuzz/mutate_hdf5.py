"""The structure of an HDF5 file: what a table does not need, and what netCDF-4 does otherwise."""

import re
import struct

import h5py
import numpy as np

from tests.storage.fuzz.mutate_text import mutate_json, one, size

_TYPES = (
    "i1", "u1", ">i4", "i8", "u8", "f2", ">f8", "f8", "g", "c16", "?", "S1", "S7", "V3", [("a", "i8"), ("b", "f8")],
    h5py.string_dtype(), h5py.string_dtype("ascii"), h5py.string_dtype(length=5), h5py.vlen_dtype(np.int64), h5py.ref_dtype,
    h5py.regionref_dtype, h5py.enum_dtype({"no": 0, "yes": 1}, "i1"), ("i4", (3,)),
)  # fmt: skip
_VALUES = (
    0, 1, -1, 0.5, 1e300, np.nan, np.inf, "", "no", "x", True, b"\xff\xfe", [1, 2], ["a", "b"], np.zeros(0), h5py.Empty("f8"),
    np.float32(1), np.int8(1), np.uint64(2**64 - 1), "9" * 401, b"\x1b[2J", b"\xe2\x80\xae", "GCOL\x01", "[" * 1000,
)  # fmt: skip
_LABELS = (b"", b"x", b"\xff", b"GCOL\x01", b"\x1b[2J", "\u202e".encode(), b"=1", b" a ", b"a\nb", b"y" * 100_000)
_NAMES = (*"extra county_2 measured_1 measured_9 release_2 é _ 1 NAME".split(), "a b", "\x1b[2J", "x" * 300)
_ATTRIBUTES = (
    *"secret scale_factor add_offset _FillValue missing_value units dtype coordinates calendar converged variable".split(),
    *("_NCProperties", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates", "x" * 200),
)
_SIZES = (0, 1, 5, 10**6, 49 * 10**6, 10**9, 10**12, 2**62)


def _walk(file, kind=(h5py.Group, h5py.Dataset)):
    found = [file] if isinstance(file, kind) else []
    file.visititems(lambda _, own: found.append(own) if isinstance(own, kind) else None)
    return found


def add(rng, file):
    """A variable of any type, empty, small, or said to be far larger than the file; or groups in groups."""
    place, name = one(rng, _walk(file, h5py.Group)), one(rng, _NAMES)
    if rng.random() < 0.2:
        place.create_group("/".join([name] * size(rng, 0, 9)))
        return
    how = one(rng, [{}, {"chunks": (1000,)}, {"chunks": (10**6,), "compression": 9}])
    place.create_dataset(name, (one(rng, _SIZES),), dtype=one(rng, _TYPES), maxshape=(None,) if how else None, **how)


def retype(rng, file):
    """A variable becomes one of another type, of the same numbers if they fit, or of another shape."""
    own = one(rng, _walk(file, h5py.Dataset))
    name, old, kind, shape = own.name, own[()], own.dtype, list(own.shape)
    kept = {*own.attrs} - {"REFERENCE_LIST", "CLASS", "NAME", "DIMENSION_LIST"}
    attributes = {key: own.attrs[key] for key in sorted(kept)}
    del file[name]
    if shape and rng.random() < 0.25:
        shape[int(rng.integers(0, len(shape)))] = one(rng, [0, 1, 2, 5, 100])
    else:
        kind = one(rng, _TYPES)
    new = file.create_dataset(name, shape, dtype=kind)
    new.attrs.update(attributes)
    scales = [item for item in _walk(file, h5py.Dataset) if item.is_scale and item.parent == new.parent]
    for i, count in enumerate(shape):
        for scale in [item for item in scales if item.shape == (count,)][:1]:
            new.dims[i].attach_scale(scale)
    new[...] = old


def renumber(rng, file):
    datasets = _walk(file, h5py.Dataset)
    own = one(rng, [item for item in datasets if item.dtype.kind in "iufO" and item.size and item.shape])
    values = np.array(own[()]).reshape(-1)
    if values.dtype.kind == "O":
        new = one(rng, [*_LABELS, values[0]])
    else:
        real = values.dtype.kind == "f"
        limit = np.finfo(values.dtype) if real else np.iinfo(values.dtype)
        new = one(rng, [0, 1, -1, 3, limit.max, limit.min, *([np.nan, np.inf, 0.5] if real else [])])
    how = one(rng, ["all", "order", "one", "one"])
    with np.errstate(all="ignore"):
        values[slice(None) if how == "all" else int(rng.integers(0, values.size))] = np.array(new, dtype=values.dtype)
    own[...] = (rng.permutation(values) if how == "order" else values).reshape(own.shape)


def link(rng, file):
    """A link to elsewhere, to nothing, to itself, or a second name, beside what there is or in its place."""
    target = one(rng, _walk(file)).name
    outside = h5py.ExternalLink("../elsewhere/canary.h5", "/x"), h5py.ExternalLink("/etc/passwd", "/")
    elsewhere = [h5py.SoftLink("/nowhere"), *outside]
    if rng.random() < 0.5 and target != "/":
        file.move(target, f"{target}_moved")
        file[target] = one(rng, [h5py.SoftLink(f"{target}_moved"), h5py.SoftLink(target), *elsewhere])
    else:
        new = one(rng, [h5py.SoftLink(target), file[target], np.dtype("i8"), *elsewhere])
        one(rng, _walk(file, h5py.Group))[one(rng, _NAMES)] = new


def attribute(rng, file):
    own = one(rng, [item for item in _walk(file) if len(item.attrs)])
    name = one(rng, [*own.attrs, *own.attrs, *_ATTRIBUTES])
    how = one(rng, ["gone", "value", "value", "value", "odd", "reference"])
    if how == "gone":
        own.attrs.pop(name, None)
    elif how == "odd":
        own.attrs.create(name, np.zeros(2, dtype="i8"), dtype=one(rng, ["g", "c16", [("a", "i8")]]))
    elif how == "reference":
        own.attrs.create(name, file.ref, dtype=h5py.ref_dtype)
    else:
        own.attrs[name] = one(rng, _VALUES)


def rename(rng, file):
    own, other = (one(rng, _walk(file)[1:]).name for _ in range(2))
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


def json_attribute(rng, file):
    attributes = [(own, name, own.attrs[name]) for own in _walk(file) for name in own.attrs]
    own, name, value = one(rng, [each for each in attributes if isinstance(each[2], str) and each[2][:1] in ("{", "[")])
    text, how = mutate_json(rng, value)
    raw = text.encode("utf-8", "surrogatepass")
    fixed = len(raw) <= 60_000 and (b"\x00" in raw or rng.random() < 0.1)
    del own.attrs[name]
    own.attrs.create(name, raw, dtype=h5py.string_dtype(length=max(1, len(raw))) if fixed else h5py.string_dtype())
    return f"{name}, {how}"


_CHANGES = (
    *[json_attribute] * 10, *[renumber] * 4, *[retype] * 4, *[attribute] * 5, *[rename] * 3, *[add] * 3, link,
)  # fmt: skip


def _heap_lengths(rng, path):
    """The length of a text, where a variable refers to it, becomes another one: of one text, or of all in a heap."""
    raw = bytearray(path.read_bytes())
    heaps = [match.start() for match in re.finditer(b"GCOL\x01", bytes(raw))]
    address = re.escape(struct.pack("<Q", one(rng, heaps)))
    places = [match.start() - 4 for match in re.finditer(address, bytes(raw)) if match.start() >= 4]
    for at in places if rng.random() < 0.2 else [one(rng, places)]:
        raw[at : at + 4] = struct.pack("<I", one(rng, [0, 2**16, 2**24, 2**28, 2**30, 2**31 - 1, 2**32 - 1]))
    path.write_bytes(raw)
    return "HDF5: lengths in heaps"


def mutate_hdf5(rng, path):
    if rng.random() < 0.1:
        return _heap_lengths(rng, path)
    change = one(rng, _CHANGES)
    with h5py.File(path, "r+") as file:
        how = change(rng, file)
    return f"HDF5: {change.__name__}" + (f" {how}" if how else "")

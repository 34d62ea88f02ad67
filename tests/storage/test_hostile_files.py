"""Files that nobody should trust: each is refused with a ValueError that names it; none runs or allocates."""

import json
import tracemalloc

import h5py
import numpy as np
import pytest
import xarray as xr

from bayesdp.release import Release
from bayesdp.storage import load_netcdf, read_draws
from tests.storage.examples import exact_only, lattice, several


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "release.nc"
    lattice().to_netcdf(path)
    return path.read_bytes()


@pytest.fixture
def stored(whole, tmp_path):
    (tmp_path / "release.nc").write_bytes(whole)
    return tmp_path / "release.nc"


def refused(path, message):
    """Reading must fail with this message and the name of the file, on one line."""
    with pytest.raises(ValueError, match=message) as caught:
        Release.from_netcdf(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated_or_no_netcdf_at_all(whole, stored):
    parts = (whole[: int(share * len(whole))] for share in (0.0, 0.1, 0.999))
    for content, message in (
        *((own, "truncated or damaged|no netCDF-4 file") for own in parts),
        (b"PK\x03\x04 a zip file, perhaps", "no netCDF-4 file"),
        (b"CDF\x01" + bytes(100), "netCDF-3 file; save it as netCDF-4"),
    ):
        stored.write_bytes(content)
        refused(stored, message)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Release.from_netcdf(stored.with_name("none.nc"))


def with_attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


def created(*shape, **how):
    return lambda file: file.create_dataset("extra", *shape, **how)


def named(make):
    return lambda file: file.__setitem__("extra", make(file))


def replaced(data):
    def change(file):
        del file["measured_0"]
        file["measured_0"] = data

    return change


def virtual(file):
    layout = h5py.VirtualLayout(shape=(3, 2), dtype="i8")
    layout[...] = h5py.VirtualSource("elsewhere.h5", "data", shape=(3, 2))
    file.create_virtual_dataset("extra", layout)


def plugin(file):
    kind = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    kind.set_chunk((2,))
    kind.set_filter(6, h5py.h5z.FLAG_OPTIONAL)  # scale-offset
    h5py.h5d.create(file.id, b"extra", h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((2,)), kind)


def huge_chunk(file):
    data = file.create_dataset("extra", (1,), maxshape=(None,), dtype="i1", chunks=(10**8,), compression="gzip")
    data[0] = 1


HOSTILE = {
    "numbers of any length": (created((2,), dtype=h5py.vlen_dtype(np.int64)), "extra holds objects"),
    "compound type": (created((2,), dtype=[("a", "i8"), ("b", "f8")]), "extra holds objects"),
    "opaque type": (created(data=np.array([b"ab"], dtype="V2")), "extra holds objects"),
    "soft link": (named(lambda file: h5py.SoftLink("/measured_0")), "extra is a link to somewhere else"),
    "external link": (named(lambda file: h5py.ExternalLink("/etc/passwd", "/")), "extra is a link to somewhere else"),
    "hard link": (named(lambda file: file["measured_0"]), "second name"),
    "virtual dataset": (virtual, "takes its data from other files"),
    "external data": (created((4,), dtype="i8", external=[("/etc/passwd", 0, 32)]), "takes its data from other files"),
    "named type": (named(lambda file: np.dtype("i8")), "neither a variable nor a group"),
    "group": (lambda file: file.create_group("extra"), "extra is a group"),
    "filter": (plugin, "filter other than deflate"),
    "terabytes": (created((10**12,), dtype="i8", chunks=(10**6,)), "declares 1000000000000 values, more than the limit"),
    "nothing written": (created((10**6,), dtype="i8", chunks=(1000,)), "1000000 values, but the file holds only 0 bytes"),
    "huge chunk": (huge_chunk, "release.nc: "),
    "null dataspace": (created(data=h5py.Empty("i8")), "holds nothing"),
    "unknown variable": (lambda file: created(data=[1, 2, 3])(file).dims[0].attach_scale(file["county"]), "other variables.*'extra'"),
    "unknown attribute": (with_attribute("secret", "x"), "unknown: 'secret'"),
    "object attribute": (with_attribute("note", np.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")])), "holds objects"),
    "newer version": (with_attribute("bayesdp_schema", 99), "version 99 of the schema.*upgrade"),
    "no version": (lambda file: file.attrs.__delitem__("bayesdp_schema"), "'bayesdp_schema' is missing"),
    "no measurements": (lambda file: file.attrs.__delitem__("measurements"), "missing: 'measurements'"),
    "not JSON": (with_attribute("frame", "{'county'"), "'frame' is not valid JSON"),
    "NaN in JSON": (with_attribute("mechanism", '{"epsilon": NaN}'), "'mechanism' is not valid JSON"),
    "number for text": (with_attribute("frame", 3), "frame must be of type dict"),
    "simulated": (with_attribute("simulated", 2), "simulated must be 0 or 1"),
    "text for numbers": (replaced(np.full((3, 2), b"a")), "measured_0"),
    "wrong shape": (replaced(np.zeros((2, 3), dtype="i8")), "measured_0 must have dimensions"),
    "changed number": (lambda file: file["measured_0"].write_direct(np.full((3, 2), 7)), "keeps its invariants"),
    "changed total": (lambda file: file["exact_0"].write_direct(np.array([20, 30, 10, 38, 23])), "contradict"),
    "text that is not UTF-8": (lambda file: file["county"].__setitem__(0, b"\xff\xfe"), "utf-8"),
    "changed label": (lambda file: file["county"].write_direct(np.array(["A", "B", "C"], dtype=object)), "'county'"),
    "missing variable": (lambda file: file.__delitem__("exact_0"), "exact_0 is missing"),
    "scaled numbers": (lambda file: file["measured_0"].attrs.__setitem__("scale_factor", 2.0), "unknown attributes"),
}  # fmt: skip


DESCRIPTIONS = {
    "unknown law": ("measurements", lambda v: v[0].update(law={"law": "os.system"}), "unknown noise law 'os.system'"),
    "law parameter": ("measurements", lambda v: v[0]["law"].update(run="rm"), "no parameter 'run'"),
    "negative scale": ("measurements", lambda v: v[0]["law"].update(epsilon=-1.0), "epsilon must be"),
    "other variable": ("measurements", lambda v: v[0].update(variable="exact_0"), "names the variable 'exact_0'"),
    "unknown key": ("measurements", lambda v: v[0].update(extra=1), "unknown: 'extra'"),
    "unknown query": ("measurements", lambda v: v[0].update(query={"parts": [{"eval": ["1"]}]}), "unknown kind"),
    "unknown dimension": ("exact", lambda v: v[0].update(query={"parts": [{"sum": ["age"]}]}), "age"),
    "list as dimension": ("exact", lambda v: v[0].update(query={"parts": [{"sum": [["county"]]}]}), "release.nc"),
    "unknown sign": ("exact", lambda v: v[0].update(sign="<"), "sign must be one of"),
    "repeated label": ("frame", lambda v: v["labels"].__setitem__(0, ["a", "a", "b"]), "occur more than once"),
    "odd label": ("frame", lambda v: v["labels"].__setitem__(0, [["a"], "b", "c"]), "strings or numbers"),
    "enormous table": ("frame", lambda v: v.update(labels=[list(range(10**4))] * 2), "100000000 cells, more than"),
    "unknown guarantee": ("guarantee", lambda v: v.update(kind="magic"), "kind must be one of"),
    "smaller loss": ("guarantee", lambda v: v["parameters"].update(epsilon=0.01), "epsilon = 0.01.*has epsilon = 0.25"),
    "odd guarantee": ("guarantee", lambda v: v.update(extra=1), "unknown keys 'extra'"),
    "a hundred dimensions": ("frame", lambda v: v.update(dims=[f"d{i}" for i in range(100)]), "100 dimensions and 0 groups"),
}  # fmt: skip


MEASURED = ("terabytes", "nothing written", "huge chunk", "enormous table", "a hundred dimensions")
"""Kinds that could ask this process for much memory; what the child takes is measured in test_limits.py."""


@pytest.mark.parametrize("kind", HOSTILE | DESCRIPTIONS)
def test_hostile(kind, stored):
    *attribute, change, message = (HOSTILE | DESCRIPTIONS)[kind]
    with h5py.File(stored, "r+") as file:
        change(changed := json.loads(file.attrs[attribute[0]]) if attribute else file)
        if attribute:
            file.attrs[attribute[0]] = json.dumps(changed)
    if kind in MEASURED:
        tracemalloc.start()
    refused(stored, message)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_the_limit_can_be_raised_and_lowered_and_groups_pass_only_where_they_belong(stored):
    assert Release.from_netcdf(stored, max_cells=6) == lattice()
    with pytest.raises(ValueError, match=r"declares 6 values, more than the limit of 5.*max_cells"):
        Release.from_netcdf(stored, max_cells=5)
    xr.Dataset({"x": ("county", [1, 2])}).to_netcdf(stored, engine="h5netcdf", group="posterior")
    read_draws(stored)
    with pytest.raises(ValueError, match="is a group"):
        load_netcdf(stored)


def test_an_empty_fiber_is_found_on_reading_and_markup_in_labels_is_text(tmp_path):
    """Consistent as linear equations, but no table of counts has these numbers."""
    several().to_netcdf(path := tmp_path / "a.nc")
    with h5py.File(path, "r+") as file:
        file["exact_2"][...], file["exact_3"][...] = [-4, 40], [9, 50]
    with pytest.raises(ValueError, match=r"a\.nc: no nonnegative integer table satisfies the exact values: "):
        Release.from_netcdf(path)
    back = Release.from_dataset(exact_only().to_dataset())
    assert back.frame.labels_of("kind")[0] == "<script>alert(1)</script>"
    assert "<script>" not in back._repr_html_()

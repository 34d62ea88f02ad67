"""Small files take little: no file below 1 MB takes more than 2 s of a processor or 600 MB, whatever is in it."""

import json
import re
import struct
import zlib
from functools import partial
from pathlib import Path
from string import ascii_lowercase

import h5netcdf  # noqa: F401  # what reading imports is not the file's fault
import h5py
import numpy as np
import pyarrow.parquet  # noqa: F401
import pytest
import xarray as xr

from bayesdp import Exact, Identity, Measured, Release, Totals
from bayesdp.cli.files import read_posterior, read_release
from bayesdp.frames import Frame
from bayesdp.noise import DiscreteGaussian, read_ptable
from bayesdp.storage import load_netcdf, write_draws
from bayesdp.storage.guarded import Limits, cell_limit
from bayesdp.tables import read_office_csv, read_table
from tests.storage.examples import lattice
from tests.storage.fuzz.child import in_child, peak_megabytes, processor_seconds
from tests.storage.fuzz.mutate import write_measurements
from tests.storage.fuzz.readers import read_measurements, read_report

SECONDS, MEGABYTES = 4.0, 600.0
"""Twice the promised time: the machines of continuous integration are slow, and busy. Contents of 192 MB at most stand three times
for a moment: where the child reads them, in the memory that it shares, and here."""


def _released(change):
    def make(path):
        lattice().to_netcdf(path)
        with h5py.File(path, "r+") as file:
            change(file)

    return make


def _heaps_in_heaps(path):
    """Three thousand labels, each in a heap of its own, each heap within the one before, to the end of the file."""
    count = 3000
    lattice().to_netcdf(path)
    with h5py.File(path, "r+") as file:
        file.create_dataset("extra", data=["x"] * count, dtype=h5py.string_dtype())
        at = file["extra"].id.get_offset()
    raw, tail = bytearray(path.read_bytes()), b""
    for i in range(count):  # an object, in which a heap begins, whose first object is a text of 1 byte
        struct.pack_into("<IQI", raw, at + 16 * i, 1, len(raw) + 56 * i + 16, 30_000 + i)
        tail += struct.pack("<HHIQ", 1 + i, 1, 0, 40) + b"GCOL\x01\0\0\0" + struct.pack("<Q", 56 * (count - i) - 16)
        tail += struct.pack("<HHIQQ", 30_000 + i, 1, 0, 1, 120)
    path.write_bytes(raw + tail)


def _long_label(path):
    lattice().to_netcdf(path)
    with h5py.File(path, "r") as file:
        at = file["county"].id.get_offset()
    struct.pack_into("<I", raw := bytearray(path.read_bytes()), at, 3_500_000_000)
    path.write_bytes(raw)


def _one_text_in_many_attributes(path):
    """Headers of the first version have no checksums. Reading every text took 370 MB."""
    with h5py.File(path, "w") as file:
        file.attrs["aa"] = "x" * 800_000
        for i in range(450):
            file.attrs[f"zz{i:04d}"] = "abc"
    raw = bytearray(path.read_bytes())
    long = raw.index(struct.pack("<I", 800_000))
    for i in range(450):
        own = raw.index(struct.pack("<I", 3), raw.index(f"zz{i:04d}".encode()) + 20)
        raw[own : own + 16] = raw[long : long + 16]
    path.write_bytes(raw)


def _scales(dtype, count, chunk, number):
    def change(file):
        for i in range(number):
            zeros = np.zeros(count, dtype)
            file.create_dataset(f"extra{i}", data=zeros, chunks=(chunk,), compression=9).make_scale(f"extra{i}")

    return _released(change)


def _bomb(file):
    """A chunk of 48 bytes of numbers that unpacks to 600 MB."""
    del file["measured_0"]
    data = file.create_dataset("measured_0", (3, 2), dtype="i8", chunks=(3, 2), compression=9)
    packer = zlib.compressobj(6)
    data.id.write_direct_chunk((0, 0), b"".join(packer.compress(bytes(10_000_000)) for _ in range(40)) + packer.flush())


def _many(add, count):
    return _released(lambda file: [add(file, i) for i in range(count)])


def _wide_chunks(file):
    """Chunks of which nearly everything lies outside of the variable."""
    chunks = {"maxshape": (None, None), "chunks": (1, 900_000), "compression": 9}
    file.create_dataset("extra", (30, 1), dtype="i8", **chunks)[...] = 1


def _columns(path, dims, labels, query, lines, **changes):
    dimensions = [{"name": name, "labels": list(range(labels))} for name in ascii_lowercase[:dims]]
    asked = {"kind": "margin", "by": query} if query else {"kind": "total"}
    measured = {"column": "value", "query": asked, "law": {"law": "discrete-gaussian", "sigma": 1.0}, **changes}
    description = {"noise_json": 1, "table": {"dimensions": dimensions}, "measured": [measured]}
    path.with_suffix(".noise.json").write_text(json.dumps(description))
    path.write_text(lines)


def _posterior(path):
    """As many constant draws as a small file may hold."""
    county = {"county": ["a", "b"]}
    release = Release.from_published(county, [Measured(Totals(county), 3, DiscreteGaussian(5.0))])
    draws = xr.Dataset({"x": (("chain", "draw", "county"), np.zeros((4, 2_750_000, 2), "i8"))}, county)
    write_draws(xr.DataTree.from_dict({"posterior": draws, "release": release.to_dataset()}), path)


def _largest(path):
    """As many cells as a small file may have, twice, and nothing but totals to tell of them."""
    frame, zero = {own: list(range(1000)) for own in "ab"}, np.zeros((1000, 1000), "i8")
    measured = tuple(Measured(Identity(frame), zero, DiscreteGaussian(own)) for own in (5.0, 9.0))
    exact = tuple(Exact(Totals(frame, own), zero[0]) for own in frame)
    data = Release(Frame.of(frame), measured, exact).to_dataset()
    numbers = [name for name, own in data.variables.items() if own.dtype.kind in "if" and own.ndim]
    packed = {"zlib": True, "complevel": 9, "_FillValue": None}
    data.to_netcdf(path, engine="h5netcdf", encoding=dict.fromkeys(numbers, packed))


def _text(text):
    return lambda path: path.write_text(text)


def _wide_numbers(first, names, count):
    return _text(f"{first},{','.join(map(names, range(count)))}\nG01{',1' * count}\n")


def _rows(digits, rows, numbers):
    return lambda path: write_measurements(path, "050" + digits, rows, numbers)


def _levels(path):
    """Twenty thousand areas, each in a larger one of its own."""
    path.write_text("area,count\n" + "".join(f"{i:06d}1,7\n" for i in range(20_000)))
    path.with_suffix(".upper.csv").write_text("upper,count\n" + "".join(f"{i:06d},7\n" for i in range(20_000)))


NHGIS = {"dims": ["gisjoin"], "header": r"(?P<code>\w+)_(?P<version>dp|sf)", "totals": {"code": []}}


_wide = partial(read_office_csv, layout="wide")


def _release(path):
    return read_release(str(path))


def _draws(path):
    return read_posterior(str(path))


FILES = {
    "heaps.nc": (_release, "heaps.nc: ", _heaps_in_heaps),
    "length.nc": (_release, "reading it takes more than [0-9]* bytes", _long_label),
    "aliases.nc": (_release, "reading it takes more than [0-9]* bytes", _one_text_in_many_attributes),
    "zeros.nc": (_release, "extra.* declare", _scales("i8", 1_000_000, 140_000, 6)),
    "fixed.nc": (_release, "extra0 and what comes before it declare", _scales("S1000000", 100, 10, 1)),
    "bomb.nc": (_release, "measured_0 is damaged, or unpacks to more", _released(_bomb)),
    "attributes.nc": (_release, "county has more than 500 attributes", _many(
        lambda file, i: file["county"].attrs.create(f"a{i}", np.int8(1)), 1000)),
    "variables.nc": (read_table, "more than 1000 variables", _many(lambda file, i: file.create_dataset(f"v{i}", data=0), 1200)),
    "groups.nc": (_draws, "more than 100 groups", _many(lambda file, i: file.create_group(f"g{i}"), 400)),
    "wide_chunks.nc": (_release, "wide_chunks.nc: ", _released(_wide_chunks)),
    "posterior.nc": (_draws, "read", _posterior),
    "largest.nc": (_release, "read", _largest),
    "many_dimensions.csv": (_release, "read", lambda path: _columns(path, 19, 2, [], "value\n1\n")),
    "few_rows.csv": (_release, "1000000 lines, of which 999999 are missing", lambda path: _columns(
        path, 6, 10, list("abcdef"), "a,b,c,d,e,f,value\n0,0,0,0,0,0,1\n")),
    "parts.csv": (_release, "parts with .* answers, too many", lambda path: _columns(
        path, 6, 10, [], "value\n1\n", invariants={"kind": "stack", "parts": [{"kind": "total"}] * 400})),
    "equal_rows.parquet": (read_measurements, "equal_rows.parquet: reading it takes more than", _rows("10001", 10_000_000, 0)),
    "long_geocode.parquet": (read_measurements, "parquet: geocode of 10000003 characters", _rows("1" * 10_000_000, 65_536, 2)),
    "long_value.parquet": (read_measurements, "parquet: reading it takes more than [0-9]* bytes", _rows("10001", 1, 60_000_000)),
    "wide.csv": (partial(_wide, dims=["area", "name"]), "read", _wide_numbers("area", lambda i: f"n{i}", 90_000)),
    "levels.csv": (lambda path: read_office_csv(path, levels={"upper": path.with_suffix(".upper.csv")}), "read", _levels),
    "long_label.csv": (read_table, "one of the 80001 labels of 'a' has 100000 characters", _text(
        "a,count\n" + "".join(f"{i},1\n" for i in range(80_000)) + "x" * 100_000 + ",1\n")),
    "nhgis.csv": (partial(_wide, **NHGIS), "read", _wide_numbers("gisjoin", lambda i: f"H{i // 2}_{['dp', 'sf'][i % 2]}", 80_000)),
    "blank_lines.txt": (read_report, "must have one stage", _text("public partition" + "\n" * 990_000)),
    "blanks.txt": (read_report, "must have one stage", _text("public partition\n" + ("1." + " " * 999 + "\n") * 990)),
    # Forty thousand counts, each with a deviation of its own: a table of 1.6 thousand million probabilities.
    "deviations.csv": (read_ptable, "must have at most 1,000,000 entries", _text(
        "i,j,p\n" + "".join(f"{i},{2 * i},1\n" for i in range(40_000)))),
    "rows.csv": (read_table, "read", _text("a,count\n" + "".join(f"{i},1\n" for i in range(110_000)))),
}  # fmt: skip


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("name", FILES)
def test_a_small_file_takes_little(name, tmp_path):
    """Measured in a process of its own."""
    reader, message, make = FILES[name]
    path = tmp_path / "input" / name
    path.parent.mkdir()
    make(path)
    assert path.stat().st_size < 10**6

    def read(tell, start):
        before, told = processor_seconds(), "read"
        try:
            reader(path)
        except (ValueError, MemoryError) as error:
            told = f"{type(error).__name__}: {error}"
        tell({"told": told, "seconds": processor_seconds() - before, "megabytes": peak_megabytes(start)})

    [found] = in_child(read).told
    assert re.search(message, found["told"]), found
    assert found["seconds"] < SECONDS, found
    assert found["megabytes"] < MEGABYTES, found


def test_texts_of_another_length_and_chunks_larger_than_they_say_are_refused(tmp_path):
    """Chunks of 20 kB, each of which is 20 MB: the file is refused by the limits of its size, not believed."""
    texts = [f"GCOL\x01 {'x' * (i % 5)}{i}" for i in range(30)]
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("label", data=np.array(texts, dtype=object), dtype=h5py.string_dtype(), chunks=(7,))
        file["label"].make_scale("label")
        file.create_dataset("count", data=np.arange(30)).dims[0].attach_scale(file["label"])
    assert read_table(tmp_path / "a.nc", value="count").label.values.tolist() == texts
    raw = bytearray((tmp_path / "a.nc").read_bytes())
    at = raw.index(texts[11].encode()) - 8
    raw[at : at + 8] = struct.pack("<Q", len(texts[11]) - 1)  # the length that the heap states
    (tmp_path / "a.nc").write_bytes(raw)
    with pytest.raises(ValueError, match=r"a\.nc: .*bad heap pointer"):
        load_netcdf(tmp_path / "a.nc", release=True)
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("count", (16, 7), dtype="i8", chunks=(1, 7), compression=9)
        packed = zlib.compress(bytes(20_000_000), 9)
        for i in range(16):
            data.id.write_direct_chunk((i, 0), packed)
    with pytest.raises(ValueError, match=r"a\.nc: (count is damaged|reading it takes more than)"):
        read_table(path)


def test_the_limits_of_a_release_follow_from_the_size_of_its_file_and_may_be_raised(tmp_path):
    """docs/FILES.md states these figures. Two totals of a table of 1.1 million cells are a small file, and much work."""
    text = (Path(__file__).parents[2] / "docs" / "FILES.md").read_text(encoding="utf-8")
    for stated in (
        "a release 24 MB and 8 times its size",
        "192 MB and 1,100 times what is above 1 MB",
        "128 MB and 64 times their size",
        "a million and one for each two bytes",
        "3 seconds, and 3 for each MB beyond the first",
    ):
        assert stated in " ".join(text.split())
    assert Limits.of_release(1000).memory == 24 * 2**20 + 8000
    assert Limits.of_rows(1000).memory == 128 * 2**20 + 64_000
    assert Limits.of_draws(2**20 + 3).memory == 192 * 2**20 + 3300
    assert Limits.of_draws(2**20).seconds == Limits.of_release(1000).seconds == 3
    assert Limits.of_draws(3 * 2**20).seconds == Limits.of_release(3 * 2**20).seconds == 9
    assert cell_limit(10**6) == 1_500_000
    assert cell_limit(10**9) == cell_limit(10**9, 50_000_000) == 50_000_000
    frame = {"a": list(range(1100)), "b": list(range(1000))}
    release = Release.from_published(frame, [Measured(Totals(frame), 5, DiscreteGaussian(5.0))])
    release.to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"1100000 cells, more than the limit of 10\d*; .*max_cells"):
        Release.from_netcdf(tmp_path / "a.nc")
    assert Release.from_netcdf(tmp_path / "a.nc", max_cells=1_100_000) == release

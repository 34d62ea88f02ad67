"""What is written is what is read, in every kind of file."""

import errno
import json
import os
import pickle
import re

import numpy as np
import pytest
import xarray as xr

from bayesdp import Release, _text
from bayesdp.storage import schema
from tests.storage.examples import EXAMPLES, exact_only, lattice, scalar_and_line, several


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_is_written_is_read(example, tmp_path):
    release = EXAMPLES[example]()
    release.to_netcdf(tmp_path / "release.nc")
    assert Release.from_netcdf(tmp_path / "release.nc") == release
    release.to_csv(tmp_path / "release.csv")
    assert Release.from_csv(tmp_path / "release.csv") == release
    assert pickle.loads(pickle.dumps(release)) == release
    # As the posterior has it, as a group.
    release.to_dataset().to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf", group="release")
    with xr.open_dataset(tmp_path / "posterior.nc", engine="h5netcdf", group="release") as back:
        assert Release.from_dataset(back) == release


def test_stored_numbers_are_labelled_for_other_tools(tmp_path):
    lattice().to_netcdf(tmp_path / "release.nc")
    with xr.open_dataset(tmp_path / "release.nc", engine="h5netcdf") as stored:
        assert stored["measured_0"].sel(county="Alpha", education="Low") == 16
        assert stored["exact_0"].dims == ("exact_0_answer",)
        assert stored["exact_0"].sel(exact_0_answer="education=High") == 22
    several().to_csv(tmp_path / "several.csv")
    lines = (tmp_path / "several.csv").read_text().splitlines()
    assert lines[0].startswith("county,year,state,answer,measured_0,")
    assert [line.split(",")[4] for line in lines[1:4]] == ["4", "-7", ""]


def test_caches_seeds_generators_and_confidential_numbers_are_not_stored():
    """The true table is 15 5 20 10 3 7; of these cells only noisy versions may appear."""
    release = lattice()
    before = len(pickle.dumps(release))
    assert release.invariants.rank == 4
    assert release.fiber.find_point().shape == (3, 2)
    assert len(pickle.dumps(release)) <= before + 2000  # the query's own matrix, if anything
    kept = "about exact frame guarantee measurements mechanism simulated"
    assert " ".join(sorted(pickle.loads(pickle.dumps(release)).__dict__)) == kept
    text = json.dumps(schema.describe(release)) + repr(pickle.dumps(release)) + str(release.to_dataset().attrs)
    assert not {"seed", "Generator", "PCG64", "bit_generator"} & set(text.replace('"', " ").split())
    stored = [part.values for part in release.measurements] + [part.values for part in release.exact]
    assert not any(np.array_equal(values, [[15, 5], [20, 10], [3, 7]]) for values in stored)


def test_other_versions_are_refused_and_json_is_read_and_written_strictly():
    dataset, now = exact_only().to_dataset(), schema.SCHEMA
    for version, message in (
        (now + 1, rf"version {now + 1} of the schema.*upgrade bayesdp"),
        *((odd, f"version {odd} of the schema, which no version of bayesdp") for odd in (now - 1, 0, -1)),
        *((odd, "bayesdp_schema must be of type int") for odd in ("1", 1.0, True)),
    ):
        with pytest.raises(ValueError, match=message):
            Release.from_dataset(dataset.assign_attrs(bayesdp_schema=version))
    for text, message in (
        ('{"a": NaN}', "NaN is not a number"),
        ("[1e999]", "1e999 is too large"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ("[" * 100_000, "not valid JSON"),
        ("{", "not valid JSON"),
        ('["\\ud800"]', "not valid JSON.*surrogates not allowed"),
        (5, "must be JSON text"),
    ):
        with pytest.raises(ValueError, match=message):
            _text.loads(text, "the attribute 'frame'")
    with pytest.raises(ValueError, match="mechanism cannot be written as JSON"):
        _text.dumps({"sigma": float("nan")}, "mechanism")


def test_existing_output_is_kept_unless_told_otherwise_and_a_folder_is_no_release(tmp_path):
    first, second = lattice(), scalar_and_line()
    for write, read, name in (("to_netcdf", Release.from_netcdf, "a.nc"), ("to_csv", Release.from_csv, "a.csv")):
        getattr(first, write)(tmp_path / name)
        with pytest.raises(FileExistsError, match=r"exists already.*overwrite=True"):
            getattr(second, write)(tmp_path / name)
        assert read(tmp_path / name) == first
        getattr(second, write)(tmp_path / name, overwrite=True)
        assert read(tmp_path / name) == second
    (tmp_path / "thesis").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder; name a file"):
        lattice().to_csv(tmp_path / "thesis", overwrite=True)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Release.from_csv(tmp_path / "thesis")
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        lattice().to_netcdf(tmp_path / "missing" / "a.nc")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.csv", "a.nc", "a.noise.json", "thesis"]


@pytest.mark.parametrize(("suffix", "failing"), [("nc", "a.nc"), ("csv", "a.noise.json")])
def test_a_failed_write_leaves_what_was_there(suffix, failing, tmp_path, monkeypatch):
    """The disk is full in the middle of the file; of two files that belong together, at the second."""
    kind = {"nc": "to_netcdf", "csv": "to_csv"}[suffix]
    getattr(lattice(), kind)(tmp_path / f"a.{suffix}")
    before = {own.name: own.read_bytes() for own in tmp_path.iterdir()}
    write = os.write

    def full(file, data):
        if bytes(data[:1]) == b"{" or (suffix == "nc" and len(data) < 100):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[: len(data) // 2] if suffix == "nc" else data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=rf"No space left on device; nothing was written.*{re.escape(failing)}"):
        getattr(scalar_and_line(), kind)(tmp_path / f"a.{suffix}", overwrite=True)
    assert {own.name: own.read_bytes() for own in tmp_path.iterdir()} == before

"""A posterior that is read can be written again, and is the same then; or it is refused, by name, when it is read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

from bayesdp.calibration.fits import Fits
from bayesdp.cli import main
from bayesdp.cli.files import read_posterior
from bayesdp.storage import compress_draws, read_draws, write_draws
from bayesdp.storage.hdf5 import DEPTH, GROUPS
from tests.storage.fuzz.specimens import posterior


@pytest.fixture(scope="module")
def specimen(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("specimen") / "posterior.nc"
    write_draws(posterior(), path)
    return path


@pytest.fixture
def path(specimen, tmp_path) -> Path:
    return Path(shutil.copy(specimen, tmp_path / "posterior.nc"))


def attach(path, where, name, value):
    with h5py.File(path, "r+") as file:
        file[where].attrs[name] = value


# How a value of each kind is stored: xarray keeps these apart from other attributes, and cannot write all that it reads.
STORED: dict[str, tuple[str, str, Any]] = {
    "nothing": ("diagnostics/rate_rhat", "_FillValue", np.zeros(0)),
    "text for a number": ("diagnostics/rate_rhat", "_FillValue", "no"),
    "two of them": ("sample_stats/moved", "_FillValue", [-1.0, -2.0]),
    "another one": ("sample_stats/moved", "missing_value", -1.0),
    "of labels": ("posterior/county", "missing_value", "yes"),
    "a type": ("posterior/county", "dtype", "f4"),
    "an empty attribute of no meaning": ("posterior/x", "secret", np.zeros(0)),
}


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.filterwarnings("ignore:variable .* has multiple fill values")
def test_what_is_read_is_written_again_however_it_was_stored(kind, path, tmp_path):
    attach(path, *STORED[kind])
    tree, release = read_posterior(str(path))
    write_draws(tree, tmp_path / "again.nc")
    back, same = read_posterior(str(tmp_path / "again.nc"))
    assert back.identical(tree)
    assert same == release


def test_draws_that_were_packed_are_not_rounded_again(path, tmp_path):
    """Tenths, as another program may have stored them; what is computed from them has more digits."""
    with h5py.File(path, "r+") as file:
        values = file["sample_stats/moved"][()]
        del file["sample_stats/moved"]
        new = file.create_dataset("sample_stats/moved", data=np.round(values * 10).astype("i2"))
        new.attrs["scale_factor"] = 0.1
    tree, _ = read_posterior(str(path))
    assert tree["sample_stats"]["moved"].encoding["scale_factor"] == 0.1
    thirds = tree["sample_stats"]["moved"].values / 3
    tree["sample_stats"]["moved"].values[...] = thirds
    write_draws(tree, tmp_path / "ours.nc")
    compress_draws(tree).to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    for name in ("ours.nc", "plain.nc"):
        with xr.open_datatree(tmp_path / name, engine="h5netcdf", phony_dims="sort") as back:
            np.testing.assert_array_equal(back["sample_stats"]["moved"].values, thirds)


REFUSED: dict[str, tuple[str, Any, str]] = {
    "truth": ("posterior", True, "holds truth values"),
    "truths": ("posterior/x", [True, False], "holds truth values"),
    "bytes": ("posterior", b"\xff\xfe", "holds text that is not UTF-8"),
    "bytes of a fixed length": ("posterior/x", np.array([b"ab", b"\xff"]), "holds text that is not UTF-8"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_attributes_that_cannot_be_written_are_refused_by_name(kind, path):
    where, value, message = REFUSED[kind]
    attach(path, where, "secret", value)
    for read in (read_posterior, lambda own: Fits({"a": Path(own)}, {})["a"]):
        with pytest.raises(ValueError, match=re.escape(f"posterior.nc: the attribute 'secret' of /{where} {message}")):
            read(str(path))


def change_counts(file, at, by):
    counts = file["posterior/x"][()]
    counts[at] += by
    file["posterior/x"][...] = counts


CONTRADICTING: dict[str, Callable[[h5py.File], Any]] = {
    "negative counts": lambda file: change_counts(file, (0, 0, 0, 0), -1000),
    "counts off their fiber": lambda file: change_counts(file, (1, 3), 1),
    "converged is text": lambda file: file["diagnostics"].attrs.__setitem__("converged", "no"),
}


@pytest.mark.parametrize("kind", CONTRADICTING)
def test_a_posterior_that_contradicts_itself_is_no_posterior(kind, path, capsys):
    with h5py.File(path, "r+") as file:
        CONTRADICTING[kind](file)
    assert main(["summary", str(path)]) == 2
    assert "posterior.nc" in capsys.readouterr().err


def test_groups_may_be_a_few_deep(path, tmp_path):
    """As many as there may be, as deep as they may be, are read, copied and written; one deeper is refused."""
    inside = "/".join(["mine"] * DEPTH)
    with h5py.File(path, "r+") as file:
        file.create_group(inside)
        count = [1]
        file.visititems(lambda _, own: count.__setitem__(0, count[0] + isinstance(own, h5py.Group)))
        for i in range(GROUPS - count[0]):
            file.create_group(f"{inside.rpartition('/')[0]}/{i}")
    tree, _ = read_posterior(str(path))
    copied = tree.copy()  # with a dozen levels this would take seconds
    write_draws(copied, tmp_path / "again.nc")
    assert read_posterior(str(tmp_path / "again.nc"))[0].identical(tree)
    with h5py.File(path, "r+") as file:
        del file["mine"]
        file.create_group(f"{inside}/deeper")
    with pytest.raises(ValueError, match=f"/{inside}/deeper is more than {DEPTH} groups deep"):
        read_draws(path)


@pytest.mark.parametrize(("cells", "compressed"), [(30_000, False), (5_000, True)])
def test_what_is_written_is_believed_when_it_is_read(cells, compressed, tmp_path):
    """240 MB of zeros are some 240 kB with compression: no reader of ours would believe that, and they are not compressed."""
    path = tmp_path / "posterior.nc"
    draws = xr.DataArray(np.zeros((2, 500, cells), dtype=np.int64), dims=("chain", "draw", "county"))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": draws})})
    write_draws(compress_draws(tree) if compressed else tree, path)
    assert path.stat().st_size < 1e6 if compressed else path.stat().st_size > 200e6
    read_draws(path)

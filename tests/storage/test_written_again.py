"""A posterior that is read can be written again, and is the same then; or it is refused, by name, when it is read."""

from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from bayesdp.calibration.fits import Fits
from bayesdp.cli import main
from bayesdp.cli.files import read_posterior
from bayesdp.storage import compress_draws, read_draws, write_draws
from bayesdp.storage.draws import netcdf_image
from bayesdp.storage.guarded import Limits
from bayesdp.storage.hdf5 import DEPTH, GROUPS
from tests.storage.fuzz.specimens import posterior


@cache
def specimen():
    return b"".join(netcdf_image(compress_draws(posterior())))


@pytest.fixture
def path(tmp_path):
    (tmp_path / "posterior.nc").write_bytes(specimen())
    return tmp_path / "posterior.nc"


def attach(path, where, name, value):
    with h5py.File(path, "r+") as file:
        file[where].attrs[name] = value


# How values are stored, in two files: xarray keeps these apart from other attributes, and cannot write all that it reads.
RHAT, MOVED, COUNTY = "diagnostics/rate_rhat", "sample_stats/moved", "posterior/county"
NOTHING = np.zeros(0)
STORED = (
    ((RHAT, "_FillValue", NOTHING), (MOVED, "_FillValue", [-1.0, -2.0]), (COUNTY, "missing_value", "yes")),
    ((RHAT, "_FillValue", "no"), (MOVED, "missing_value", -1.0), (COUNTY, "dtype", "f4"), ("posterior/x", "secret", NOTHING)),
)  # fmt: skip


@pytest.mark.parametrize("attributes", STORED)
@pytest.mark.filterwarnings("ignore:variable .* has multiple fill values")
def test_what_is_read_is_written_again_however_it_was_stored(attributes, path, tmp_path):
    for attribute in attributes:
        attach(path, *attribute)
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


def test_attributes_that_cannot_be_written_are_refused_by_name(path):
    truth, text = "holds truth values", "holds text that is not UTF-8"
    values = [(True, truth), ([True, False], truth), (b"\xff\xfe", text), (np.array([b"ab", b"\xff"]), text)]
    for (value, message), where in zip(values, ["posterior", "posterior/x"] * 2, strict=True):
        attach(path, where, "secret", value)
        for read in (read_posterior, lambda own: Fits({"a": Path(own)}, {})["a"]):
            with pytest.raises(ValueError, match=f"posterior.nc: the attribute 'secret' of /{where} {message}"):
                read(str(path))
        with h5py.File(path, "r+") as file:
            del file[where].attrs["secret"]


def test_a_posterior_that_contradicts_itself_is_no_posterior(path, capsys):
    """Negative counts, counts off their fiber, and text for a truth value."""
    with h5py.File(path, "r") as file:
        counts = file["posterior/x"][()]
    for at, by in (((0, 0, 0, 0), -1000), ((1, 3), 1), ((), 0)):
        changed = counts.copy()
        changed[at] += by
        with h5py.File(path, "r+") as file:
            file["posterior/x"][...] = changed
            file["diagnostics"].attrs["converged"] = "no" if by == 0 else file["diagnostics"].attrs["converged"]
        assert main(["summary", str(path)]) == 2
        assert "posterior.nc" in capsys.readouterr().err


def test_groups_may_be_a_few_deep(path, tmp_path):
    """As many as there may be, as deep as they may be, are read, copied and written; one deeper is refused."""
    inside, found = "/".join(["mine"] * DEPTH), []
    with h5py.File(path, "r+") as file:
        file.create_group(inside)
        file.visititems(lambda _, own: found.append(own) if isinstance(own, h5py.Group) else None)
        for i in range(GROUPS - 1 - len(found)):
            file.create_group(f"{inside.rpartition('/')[0]}/{i}")
    tree, _ = read_posterior(str(path))
    write_draws(tree.copy(), tmp_path / "again.nc")  # with a dozen levels the copy would take seconds
    assert read_posterior(str(tmp_path / "again.nc"))[0].identical(tree)
    with h5py.File(path, "r+") as file:
        del file["mine"]
        file.create_group(f"{inside}/deeper")
    with pytest.raises(ValueError, match=f"/{inside}/deeper is more than {DEPTH} groups deep"):
        read_draws(path)


@pytest.mark.parametrize(("megabytes", "compressed"), [(3, False), (7, True)])
def test_what_is_written_is_believed_when_it_is_read(megabytes, compressed, tmp_path, monkeypatch):
    """4 MB of zeros are some 8 kB with compression: with that limit no reader would believe it, and they are not compressed."""
    limits = Limits(megabytes * 10**6, 3.0)
    monkeypatch.setattr(Limits, "of_draws", lambda file_bytes: Limits(limits.memory + file_bytes, 3.0))
    path = tmp_path / "posterior.nc"
    draws = xr.DataArray(np.zeros((2, 50, 5_000), dtype=np.int64), dims=("chain", "draw", "county"))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": draws})})
    write_draws(compress_draws(tree) if compressed else tree, path)
    assert path.stat().st_size < 1e5 if compressed else path.stat().st_size > 4e6
    read_draws(path)

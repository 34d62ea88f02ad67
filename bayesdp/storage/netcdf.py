"""Releases as netCDF-4 files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import xarray as xr

from bayesdp.release import Release
from bayesdp.storage.atomic import check_output, write_bytes
from bayesdp.storage.budget import cell_limit
from bayesdp.storage.dataset import from_dataset, to_dataset
from bayesdp.storage.hdf5 import check_hdf5, damaged
from bayesdp.storage.image import netcdf_image


def write_netcdf(release: Release, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a release to a netCDF-4 file; see `bayesdp.Release.to_netcdf`."""
    dataset = to_dataset(release)
    check_output(path, overwrite=overwrite)
    # Without a fill value: no number of a release means "missing".
    encoding = {str(name): {"_FillValue": None} for name in dataset.variables}
    write_bytes(path, netcdf_image(dataset, encoding), overwrite=overwrite)


def load_dataset(path: str | os.PathLike[str]) -> xr.Dataset:
    """Check a netCDF-4 file that holds no release and load it; numbers are taken as they are (no scales, no dates)."""
    check_hdf5(path, release=False)
    with damaged(path):
        return xr.load_dataset(path, engine="h5netcdf", phony_dims="sort", mask_and_scale=False, decode_times=False)


def read_netcdf(path: str | os.PathLike[str], *, max_cells: int | None = None) -> Release:
    """Read a release from a netCDF-4 file; see `bayesdp.Release.from_netcdf`."""
    check_hdf5(path, max_cells=max_cells)
    limit = cell_limit(Path(path).stat().st_size, max_cells)
    # Without indexes nothing is read here: `from_dataset` refuses by name and size before it reads a number.
    options: dict[str, Any] = {"mask_and_scale": False, "decode_times": False, "create_default_indexes": False}
    options["phony_dims"] = "sort"
    with damaged(path), xr.open_dataset(path, engine="h5netcdf", **options) as dataset:
        return from_dataset(dataset, limit)

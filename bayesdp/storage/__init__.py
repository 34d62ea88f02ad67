"""Writing releases to files and reading them back: netCDF, and CSV with JSON.

Reading never runs code from a file: no pickle, noise laws by registered names only, sizes checked before
anything is allocated, no links followed. Writing is atomic: a file is there in full, or as it was.
"""

from __future__ import annotations

from bayesdp.storage.atomic import check_output, replacing, replacing_folder
from bayesdp.storage.draws import compress_draws, write_draws
from bayesdp.storage.folder import read_folder, write_folder
from bayesdp.storage.hdf5 import MAX_CELLS, check_hdf5
from bayesdp.storage.netcdf import read_netcdf, write_netcdf
from bayesdp.storage.schema import SCHEMA, from_dataset, to_dataset

__all__ = [
    "MAX_CELLS",
    "SCHEMA",
    "check_hdf5",
    "check_output",
    "compress_draws",
    "from_dataset",
    "read_folder",
    "read_netcdf",
    "replacing",
    "replacing_folder",
    "to_dataset",
    "write_draws",
    "write_folder",
    "write_netcdf",
]

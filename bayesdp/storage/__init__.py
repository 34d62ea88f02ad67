"""Writing releases to files and reading them back: netCDF, and CSV with JSON.

Reading never runs code from a file: no pickle, noise laws by registered names only, no links
followed, memory and time limited by the size of the file. Writing is atomic: a file is there in full, or as it was.
"""

from bayesdp.storage.atomic import check_output, replacing, write_bytes, write_text
from bayesdp.storage.draws import compress_draws, netcdf_image, write_draws, write_draws_somewhere
from bayesdp.storage.guarded import MAX_CELLS
from bayesdp.storage.hdf5 import load_netcdf, read_draws
from bayesdp.storage.netcdf import from_dataset, read_netcdf, to_dataset, write_netcdf
from bayesdp.storage.noise_csv import noise_path, read_noise_csv, write_noise_csv
from bayesdp.storage.noise_json import NOISE_SCHEMA, check_noise_json, noise_json_schema
from bayesdp.storage.schema import SCHEMA

__all__ = [
    "MAX_CELLS", "NOISE_SCHEMA", "SCHEMA", "check_noise_json", "check_output", "compress_draws", "from_dataset",
    "load_netcdf", "netcdf_image", "noise_json_schema", "noise_path", "read_draws", "read_netcdf",
    "read_noise_csv", "replacing", "to_dataset", "write_bytes", "write_draws",
    "write_draws_somewhere", "write_netcdf", "write_noise_csv", "write_text",
]  # fmt: skip

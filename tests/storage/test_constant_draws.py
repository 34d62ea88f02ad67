"""Draws that hardly vary: a file that is written can be read, however well it could have been compressed."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayesdp.storage import compress_draws, read_draws, write_draws


def constant(cells: int) -> xr.DataTree:
    draws = xr.DataArray(np.zeros((2, 500, cells), dtype=np.int64), dims=("chain", "draw", "county"))
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": draws})})


def test_what_is_written_is_believed_when_it_is_read(tmp_path):
    # 240 MB of zeros are some 240 kB with compression: no reader of ours would believe that.
    path = tmp_path / "posterior.nc"
    write_draws(constant(30_000), path)
    assert path.stat().st_size > 200e6
    read_draws(path)


def test_files_are_compressed_as_long_as_they_are_believed(tmp_path):
    path = tmp_path / "posterior.nc"
    write_draws(compress_draws(constant(5_000)), path)
    assert path.stat().st_size < 1e6
    read_draws(path)

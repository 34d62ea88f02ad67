"""Draws in files: small, and the same numbers again."""

from __future__ import annotations

import os

import xarray as xr

from bayesdp.storage.atomic import replacing

__all__ = ["compress_draws", "write_draws"]

_LEAST = 1024
"""Fewer values than this are stored as they are."""


def compress_draws(tree: xr.DataTree) -> xr.DataTree:
    """Have xarray compress the draws of a tree when it writes them to a netCDF-4 file.

    Deflate after HDF5's *shuffle*, which puts the bytes of equal weight side by side: the upper bytes of small integers are
    all zero, and vanish. So a file is as small as one of the smallest integer type that holds the draws, within a few per
    cent, and every reader still gets int64. (A file of int16 would be int16 in memory for whoever reads it, and
    the square of 200 is -25536 in int16, without an error.)

    Parameters
    ----------
    tree : xarray.DataTree
        Changed in place: only how its variables are to be written.

    Returns
    -------
    xarray.DataTree
        The same tree. ``tree.to_netcdf(path, engine="h5netcdf")`` compresses from here on.

    Examples
    --------
    >>> import numpy as np
    >>> draws = xr.DataArray(np.zeros((2, 600, 3), dtype=np.int64), dims=("chain", "draw", "county"))
    >>> tree = compress_draws(xr.DataTree.from_dict({"posterior": xr.Dataset({"x": draws})}))
    >>> tree["posterior"]["x"].encoding["zlib"]
    True
    """
    for node in tree.subtree:
        for own in node.data_vars.values():
            if "draw" in own.dims and own.size >= _LEAST and own.dtype.kind in "iufb":
                own.encoding.update({"zlib": True, "complevel": 4, "shuffle": True})
    return tree


def write_draws(tree: xr.DataTree, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a tree to a netCDF-4 file, with its draws compressed; the file is there in full, or as it was."""
    with replacing(path, overwrite=overwrite) as temporary:
        compress_draws(tree).to_netcdf(temporary, engine="h5netcdf")

"""Draws in files: small, and the same numbers again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import xarray as xr

from bayesdp.storage.atomic import check_output, write_bytes
from bayesdp.storage.budget import Budget
from bayesdp.storage.image import netcdf_image

_LEAST = 1024
"""Fewer values than this are stored as they are."""


def compress_draws(tree: xr.DataTree) -> xr.DataTree:
    """Have xarray compress the draws of a tree when it writes them to a netCDF-4 file.

    Deflate after HDF5's *shuffle*, which puts the bytes of equal weight side by side: the upper bytes of small integers are
    all zero, and vanish. So a file is as small as one of the smallest integer type that holds the draws, within a few per
    cent, and every reader still gets int64. (A file of int16 would be int16 in memory for whoever reads it, and
    the square of 200 is -25536 in int16, without an error.)

    How the variables were stored in a file that they come from is forgotten: as small integers with a scale and an offset, they
    would be rounded again, without an error, although they are no longer the same numbers; and what some files state as the
    value for "missing" can be read, but not written.

    Parameters
    ----------
    tree : xarray.DataTree
        Changed in place: only how its variables are to be written.

    Returns
    -------
    xarray.DataTree
        The same tree. Whatever writes it, `write_draws` or ``tree.to_netcdf(path, engine="h5netcdf")``, compresses from here on.

    Examples
    --------
    >>> import numpy as np
    >>> draws = xr.DataArray(np.zeros((2, 600, 3), dtype=np.int64), dims=("chain", "draw", "county"))
    >>> tree = compress_draws(xr.DataTree.from_dict({"posterior": xr.Dataset({"x": draws})}))
    >>> tree["posterior"]["x"].encoding["zlib"]
    True
    """
    for node in tree.subtree:
        for variable in node.variables.values():
            variable.encoding.clear()
        for array in node.data_vars.values():
            if "draw" in array.dims and array.size >= _LEAST and array.dtype.kind in "iufb":
                array.encoding.update({"zlib": True, "complevel": 4, "shuffle": True})
    return tree


def write_draws(tree: xr.DataTree, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a tree to a netCDF-4 file, with its draws compressed; the file is there in full, or as it was.

    Parameters
    ----------
    tree : xarray.DataTree
        It is in memory afterwards, whatever happens; see `compress_draws` for what is changed in it. For the time of writing it
        takes as much memory again as the file takes on the disk. (``tree.to_netcdf`` takes less, and ends the process with a
        segmentation fault when the disk is full.)
    path : path
    overwrite : bool
        Whether an existing file may be replaced.
    """
    check_output(path, overwrite=overwrite)
    write_bytes(path, _readable_image(tree), overwrite=overwrite)


def _readable_image(tree: xr.DataTree) -> list[memoryview]:
    """The bytes of the file: compressed, unless it would be so small that a reader could not believe what it declares."""
    image = netcdf_image(compress_draws(tree))
    declared = sum(array.nbytes for node in tree.subtree for array in node.to_dataset().variables.values())
    if declared <= _BELIEVED * Budget.of_draws(sum(map(len, image))).allowed:
        return image
    for node in tree.subtree:
        for array in node.data_vars.values():
            for option in ("zlib", "complevel", "shuffle"):
                array.encoding.pop(option, None)
    return netcdf_image(tree)


_BELIEVED = 0.95
"""Labels and the rest of a file take memory too."""


def write_draws_somewhere(tree: xr.DataTree, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """The same as `write_draws` for a process that ends afterwards: draws that cannot be written to `path` go elsewhere.

    Elsewhere is a file of a new name, ``NAME-xxxx.nc``, in the folder for temporary files (``TMPDIR``), that nobody else may read.
    """
    image = _readable_image(tree)
    try:
        write_bytes(path, image, overwrite=overwrite)
    except OSError as error:
        try:
            handle, name = tempfile.mkstemp(prefix=f"{Path(path).stem[:40]}-", suffix=".nc")
            os.close(handle)
            try:
                write_bytes(name, image, overwrite=True)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as other:
            message = f"{_words(error)}; and the draws could not be kept elsewhere: {_words(other)}"
        else:
            message = f"{_words(error)}. The draws are in {name!r} instead: move that file before it is tidied away"
        raise OSError(message) from error


def _words(error: OSError) -> str:
    return str(error) if error.errno is None else f"{error.filename}: {error.strerror}"

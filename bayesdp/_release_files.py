"""How a release is written and read: as a Dataset, as netCDF, and as a folder of text."""

from __future__ import annotations

import os
from typing import Self

import xarray as xr

from bayesdp._wiring import connected

__all__ = ["ReleaseFiles"]


class ReleaseFiles:
    """The methods of `bayesdp.Release` that write it and read it; `bayesdp.storage` does the work."""

    def to_dataset(self) -> xr.Dataset:
        """The release as a Dataset, as files and the posterior's ``release`` group hold it."""
        made: xr.Dataset = connected("make a dataset")(self)
        return made

    @classmethod
    def from_dataset(cls, dataset: xr.Dataset) -> Self:
        """Rebuild a release from `to_dataset`, checking everything.

        Raises
        ------
        ValueError
            If something is missing, unknown or inconsistent, or a newer version of bayesdp wrote it.
        """
        found: Self = connected("read a dataset")(dataset)
        return found

    def to_netcdf(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release to a netCDF-4 file, atomically.

        Raises
        ------
        FileExistsError
            If the file exists and `overwrite` is False.
        """
        connected("write netCDF")(self, path, overwrite=overwrite)

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> Self:
        """Read a release from a netCDF-4 file; nothing in the file is trusted.

        Parameters
        ----------
        path : path
            File written by `to_netcdf`.
        max_cells : int, optional
            Largest number of cells of the table, and of values of one variable. By default a million and one for each two
            bytes of the file, and never more than 50 million; ``docs/FILES.md`` says what else is limited.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is no netCDF-4 file, is damaged, declares unreasonable sizes, is of a newer version, or
            holds something that no release holds.
        """
        found: Self = connected("read netCDF")(path, max_cells=max_cells)
        return found

    def to_csv(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release as a folder: ``release.json``, and a CSV file for each part.

        Raises
        ------
        FileExistsError
            If the folder exists and `overwrite` is False, or it holds something else than a release.
        """
        connected("write a folder")(self, folder, overwrite=overwrite)

    @classmethod
    def from_csv(cls, folder: str | os.PathLike[str], *, max_cells: int | None = None) -> Self:
        """Read a release from a folder written by `to_csv`, with the same checks as `from_netcdf`."""
        found: Self = connected("read a folder")(folder, max_cells=max_cells)
        return found

"""How a release is written and read: as a Dataset, as netCDF, and as text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import xarray as xr

from bayesdp._wiring import connected


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

    def to_csv(
        self,
        folder: str | os.PathLike[str],
        *,
        noise: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the release as text: a folder, or one CSV file with ``noise.json`` beside it.

        Parameters
        ----------
        folder : path
            A folder, which gets ``release.json`` and a CSV file for each part. If the name ends in ``.csv``, one CSV file with a
            column for each part: the form in which data are published.
        noise : path, optional
            Of one CSV file: where ``noise.json`` goes, which says what each column is (its query, its law, what is exact, what
            was not published). By default ``DATA.noise.json`` beside ``DATA.csv``.
        overwrite : bool
            Whether what is there may be replaced.

        Raises
        ------
        FileExistsError
            If it exists and `overwrite` is False, or a folder holds something else than a release.
        ValueError
            If one CSV file would not keep the labels apart, or `noise` is given for a folder.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import bayesdp as bdp
        >>> county = {"county": ["Alpha", "Beta"]}
        >>> law = bdp.noise.DiscreteLaplace(b=2.0)
        >>> release = bdp.Release.from_published(
        ...     county, [bdp.Measured(bdp.Identity(county), [12, -1], law)], [bdp.Exact(bdp.Totals(county), 14)]
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     release.to_csv(Path(folder) / "counties.csv")
        ...     print((Path(folder) / "counties.csv").read_text())
        ...     bdp.Release.from_csv(Path(folder) / "counties.csv") == release
        county,measured_0,exact_0
        Alpha,12,
        Beta,-1,
        ,,14
        <BLANKLINE>
        True
        """
        if Path(folder).suffix.lower() == ".csv":
            connected("write a file of columns")(self, folder, noise=noise, overwrite=overwrite)
            return
        if noise is not None:
            raise ValueError(
                f"noise goes with one CSV file; {str(folder)!r} becomes a folder, in which release.json says it"
            )
        connected("write a folder")(self, folder, overwrite=overwrite)

    @classmethod
    def from_csv(
        cls,
        folder: str | os.PathLike[str],
        *,
        noise: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        max_cells: int | None = None,
    ) -> Self:
        """Read a release from what `to_csv` has written, with the same checks as `from_netcdf`.

        Parameters
        ----------
        folder : path
            The folder, or the CSV file.
        noise : path or mapping, optional
            Of a CSV file: its ``noise.json``, or what that holds as plain data. By default ``DATA.noise.json`` beside
            ``DATA.csv``.
        max_cells : int, optional
            As for `from_netcdf`.

        Raises
        ------
        FileNotFoundError
            If something is not there.
        ValueError
            If something is not right. The message names the file, and the place in it: line and column, or the path of a
            field of ``noise.json``, such as ``$.measured[0].law``.
        """
        found: Self
        target = Path(folder)
        if target.is_file() or (target.suffix.lower() == ".csv" and not target.is_dir()):
            found = connected("read a file of columns")(folder, noise=noise, max_cells=max_cells)
            return found
        if noise is not None:
            raise ValueError(f"noise goes with one CSV file, and {str(folder)!r} is none")
        found = connected("read a folder")(folder, max_cells=max_cells)
        return found

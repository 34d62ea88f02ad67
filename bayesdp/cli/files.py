"""Releases and posteriors as files of the command line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayesdp.cli.arguments import check_suffix
from bayesdp.cli.errors import say

if TYPE_CHECKING:
    import xarray as xr

    from bayesdp.release import Release


def check_release_path(path: str, *, force: bool) -> None:
    """Check where a release shall be written, before any work."""
    from bayesdp.storage import check_output

    check_suffix(path, ("", ".nc"), "a release is written to a .nc file or to a folder (a name without a suffix)")
    check_output(path, overwrite=force)


def write_release(release: Release, path: str, *, force: bool) -> None:
    """Write a release: netCDF if the name ends in .nc, otherwise a folder of CSV files with JSON.

    Ctrl-C after the release has got its name is too late, and is no error: to run the command again would make a second
    release, with other noise.
    """
    check_release_path(path, force=force)
    before = _identity(path)
    try:
        _write_release(release, path, force=force)
    except KeyboardInterrupt:
        if _identity(path) in (None, before):
            raise
        say(f"interrupted, but {path} had been written")


def _identity(path: str) -> int | None:
    """What tells a file or folder from another one of the same name."""
    try:
        return Path(path).lstat().st_ino
    except OSError:
        return None


def _write_release(release: Release, path: str, *, force: bool) -> None:
    if Path(path).suffix.lower() == ".nc":
        release.to_netcdf(path, overwrite=force)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release.to_csv(path, overwrite=force)
    for warning in caught:
        say(f"warning: {warning.message}")


def read_release(path: str) -> Release:
    """Read a release from a netCDF file or a folder."""
    from bayesdp.release import Release
    from bayesdp.storage import told_of_previous

    moved = told_of_previous(Path(path))
    if moved:
        raise FileNotFoundError(f"there is no release {path!r}{moved}")
    return Release.from_csv(path) if Path(path).is_dir() else Release.from_netcdf(path)


def need_counts(release: Release, remedy: str) -> None:
    """Refuse a release of statistics."""
    if release.about != "counts":
        raise ValueError(f"this is a release of statistics, and a table of counts is needed here; {remedy}")


def read_releases(paths: Sequence[str]) -> Release:
    """Read releases of one table, and put several together: all measurements, all exact parts, the total guarantee."""
    from bayesdp.composition import as_one

    twice = [path for i, path in enumerate(paths) if Path(path).resolve() in [Path(own).resolve() for own in paths[:i]]]
    if twice:
        raise ValueError(f"{twice[0]} is given twice: its noise would be counted twice")
    joint = as_one([read_release(path) for path in paths], paths)
    if len(paths) > 1:
        say(f"{' and '.join(paths)} are taken as measurements of one table at one time")
    return joint


def read_posterior(path: str) -> tuple[xr.DataTree, Release]:
    """Read a posterior saved by ``bayesdp fit``, with the release in it; several releases are put together."""
    from bayesdp.composition import check_posterior, posterior_release
    from bayesdp.storage import read_draws
    from bayesdp.storage.guarded import cell_limit, damaged
    from bayesdp.storage.netcdf import check_dataset

    tree = read_draws(path)
    with damaged(path):
        for group in ("posterior", "release"):
            if group not in tree.children:
                raise ValueError(f"it is no posterior of bayesdp: the group {group!r} is missing")
        for group, own in tree.children.items():
            if group.startswith("release"):
                check_dataset(own.to_dataset(), cell_limit(Path(path).stat().st_size))
        check_posterior(tree)
        return tree, posterior_release(tree)


def convergence(tree: xr.DataTree) -> tuple[bool | None, str]:
    """Whether the chains converged, where the file says so, and in words."""
    from bayesdp.composition import converged_of

    said = converged_of(tree)
    if said is None:
        return None, "convergence was not assessed"
    return said, str(tree["diagnostics"].attrs.get("message", ""))

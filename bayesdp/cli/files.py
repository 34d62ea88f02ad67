"""Files of the command line: releases, posteriors, and a user's own Python file, which is run."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import bayesdp
from bayesdp._interrupts import handled
from bayesdp._text import printable
from bayesdp.cli.arguments import check_output_file
from bayesdp.cli.errors import say

if TYPE_CHECKING:
    import xarray as xr

    from bayesdp.release import Release


def check_release_path(path: str, *, force: bool) -> None:
    """Check where a release shall be written, before any work."""
    from bayesdp.storage import check_output, noise_path

    what = "a release is written to a .nc file, or to a .csv file with noise.json beside it"
    check_output_file(path, (".csv", ".nc"), what, force=force)
    if path.lower().endswith(".csv"):
        check_output(noise_path(path), overwrite=force)


def write_release(release: Release, path: str, *, force: bool) -> None:
    """Write a release: netCDF if the name ends in .nc, otherwise CSV with noise.json."""
    # An interrupt meanwhile comes too late, and is no error: to run the command again would make a second release, with other noise.
    check_release_path(path, force=force)
    write = release.to_netcdf if Path(path).suffix.lower() == ".nc" else release.to_csv
    noted: list[int] = []
    with handled(noted.append):
        write(path, overwrite=force)
    if noted:
        say(f"interrupted, but {path} had been written")


def read_release(path: str) -> Release:
    """Read a release from a netCDF file, or a CSV file with noise.json."""
    from bayesdp.release import Release

    return Release.from_csv(path) if Path(path).suffix.lower() == ".csv" else Release.from_netcdf(path)


def need_counts(release: Release, remedy: str) -> None:
    """Refuse a release of statistics."""
    if release.about != "counts":
        raise ValueError(f"this is a release of statistics, and a table of counts is needed here; {remedy}")


def check_distinct(paths: Sequence[str]) -> None:
    """Refuse a file that is given twice."""
    places = [Path(path).resolve() for path in paths]
    for i, path in enumerate(paths):
        if places[i] in places[:i]:
            raise ValueError(f"{path} is given twice: its noise would be counted twice")


def read_releases(paths: Sequence[str]) -> Release:
    """Read releases of one table, and put several together: all measurements, all exact parts, the total guarantee."""
    from bayesdp.mechanisms.composition import as_one

    check_distinct(paths)
    joint = as_one([read_release(path) for path in paths], paths)
    if len(paths) > 1:
        say(f"{' and '.join(paths)} are taken as measurements of one table at one time")
    return joint


def read_posterior(path: str) -> tuple[xr.DataTree, Release]:
    """Read a posterior saved by ``bayesdp fit``, with the release of its first table; several releases are put together."""
    from bayesdp.mechanisms.composition import as_one
    from bayesdp.posterior import check_posterior, releases_of_tables
    from bayesdp.storage import read_draws
    from bayesdp.storage.guarded import cell_limit, damaged
    from bayesdp.storage.netcdf import check_dataset

    tree = read_draws(path)
    with damaged(path):
        for group in ("posterior", "release"):
            if group not in tree.children:
                raise ValueError(f"it is no posterior of bayesdp: the group {group!r} is missing")
        for group, group_tree in tree.children.items():
            if group.startswith("release"):
                check_dataset(group_tree.to_dataset(), cell_limit(Path(path).stat().st_size))
        check_posterior(tree)
        for _, releases in releases_of_tables(tree):
            return tree, as_one(releases)
        raise ValueError("it is no posterior of bayesdp: none of its releases is of a table")


def warn_of_open_caches(command: str) -> None:
    """Have a subcommand say which folders that compiled code is loaded from everybody on the machine can write to."""
    import numba
    import pytensor

    folders = {
        "numba's cache, NUMBA_CACHE_DIR": vars(numba.config)["CACHE_DIR"],  # set when numba is imported
        "bayesdp itself, and numba's cache": Path(bayesdp.__file__).parent,
        "PyTensor's compiledir": pytensor.config.compiledir,
    }
    for what, folder in folders.items():
        if folder and Path(folder).is_dir() and Path(folder).stat().st_mode & stat.S_IWOTH:
            say(
                f"bayesdp {command}: warning: anybody on this machine can write to {printable(folder)} ({what}), from which "
                "compiled code is loaded and run; use a folder of your own"
            )


def load_file(path: str) -> ModuleType:
    """Run a user's file, and give back what it defines."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path!r}")
    if Path(path).suffix != ".py":
        raise ValueError(f"{path}: a model is a Python file, with a name that ends in .py")
    module = ModuleType("bayesdp_users_model")
    module.__file__ = str(Path(path).resolve())
    sys.modules[module.__name__] = module  # processes that are started afresh have to find what the file defines
    try:  # not imported: of bytecode beside it Python 3.13.0 keeps what a full disk has room for, and fails on that for ever
        exec(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), vars(module))
    except SyntaxError as error:
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}") from None
    return module


def function_of(module: ModuleType, path: str, name: str, arguments: str) -> Callable[..., Any]:
    """A function that a user's file must define."""
    found = getattr(module, name, None)
    if not callable(found):
        raise ValueError(f"{path}: it defines no function {name}({arguments})")
    function: Callable[..., Any] = found
    return function

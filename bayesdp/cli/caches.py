"""Folders of compiled code: a user who can write to one can run code as every user who loads from it."""

from __future__ import annotations

import stat
from pathlib import Path

import bayesdp
from bayesdp._text import printable
from bayesdp.cli.errors import say


def warn_of_open_caches(command: str) -> None:
    """Say on standard error which folders that compiled code is loaded from everybody on the machine can write to."""
    # `command`: the subcommand that warns.
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

"""A user's own Python file, which is run.

Folders of compiled code: a user who can write to one can run code as every user who loads from it.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

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


def load_file(path: str) -> ModuleType:
    """Run a user's file, and give back what it defines."""
    from importlib.util import module_from_spec, spec_from_file_location

    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path!r}")
    spec = spec_from_file_location("bayesdp_users_model", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: a model is a Python file, with a name that ends in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # processes that are started afresh have to find what the file defines
    try:
        spec.loader.exec_module(module)
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

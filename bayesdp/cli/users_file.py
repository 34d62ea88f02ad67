"""A user's own Python file, which is run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


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

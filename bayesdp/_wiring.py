"""Functions that stand above the modules that call them, by what they do.

`bayesdp` itself, which knows everything, says at its import which function does what (`connect`), and the caller asks for it
(`connected`). No module imports upwards in any other way; `tests/test_import.py` looks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_PLACES: dict[str, tuple[str, str]] = {}


def connect(purpose: str, module: str, function: str) -> None:
    """Say which function does what; its module is imported when it is first asked for."""
    _PLACES[purpose] = module, function


def connected(purpose: str) -> Callable[..., Any]:
    """Import the function that does this; KeyError if `bayesdp` has not said which does."""
    module, function = _PLACES[purpose]
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def named(kind: str, name: Any, registry: Mapping[str, Any]) -> Any:
    """What files call `name`, or None: of a registry, which the module connected as ``kind name`` fills when it is imported."""
    if not isinstance(name, str):
        return None
    if name not in registry and f"{kind} {name}" in _PLACES:
        connected(f"{kind} {name}")
    return registry.get(name)


def names(kind: str, registry: Mapping[str, Any]) -> list[str]:
    """All that `named` knows, sorted; nothing is imported for that."""
    late = (purpose.removeprefix(f"{kind} ") for purpose in _PLACES if purpose.startswith(f"{kind} "))
    return sorted({*registry, *late})

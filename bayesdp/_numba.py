"""Numba, with a cache of compiled code that looks at all compiled files of this package, and how moves are compiled.

Numba keeps what it has compiled from a file until that file changes. But the code of the functions that it calls is compiled into it,
and they may be in files that change alone: so every file of the package with compiled functions is part of Numba's stamp.

Numba counts references to the arrays of a tuple wherever a function takes it apart. The moves only look into arrays that their
caller holds: counting cost two thirds of a sweep (3.5 of 5.4 ms for 5,040 cells), so it is switched off, where a version of Numba
knows that option, which has no public name; a move that made an array would not compile. A call hands over every array of a state,
which costs up to four times what a move itself costs, so that moves are `inlined` in a sweep; a function that is called once a leaf,
or seldom, need not be. Numba's cache does not know of options: who changes them here has to empty it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
from numba.core import caching
from numba.core.options import DefaultOptions

__all__ = ["code_version", "nb", "stamp_of"]

_FOLDER = Path(__file__).resolve().parent


def stamp_of(folder: Path) -> str:
    """A digest of the files in a folder, and in those inside it, that have compiled functions."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if b"numba" in text or b"jit" in text:
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + text + b"\0")
    return digest.hexdigest()


@cache
def _own_stamp() -> str:
    return stamp_of(_FOLDER)


def code_version() -> int:
    """The stamp as a number, for PyTensor: it stores functions of its own, into which kernels of this package are compiled."""
    return int(_own_stamp()[:15], 16)


def _stamp_whole_package() -> None:
    # Numba has no public way to say what compiled code depends on. Where a version has no such class, a test says so.
    locator: Any = getattr(caching, "_SourceFileBackedLocatorMixin", None)
    if locator is None:
        return
    of_file = locator.get_source_stamp

    def get_source_stamp(self: Any) -> Any:
        stamp = of_file(self)
        return (stamp, _own_stamp()) if _FOLDER in Path(self._py_file).resolve().parents else stamp

    locator.get_source_stamp = get_source_stamp


_stamp_whole_package()


_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_MOVES: dict[str, Any] = {"cache": True, "error_model": "numpy", "no_cfunc_wrapper": True, **_UNCOUNTED}
# Taking a state apart for Python is a good part of compiling.
_INSIDE: dict[str, Any] = {**_MOVES, "no_cpython_wrapper": True, "forceinline": False}
_njit: Any = nb.njit  # its types do not know these options


def compiled[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function that makes no arrays."""
    made: Callable[P, T] = _njit(nogil=True, **_MOVES)(function)
    return made


def inside[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function that only compiled functions call."""
    made: Callable[P, T] = _njit(**_INSIDE)(function)
    return made


def inlined[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Compile a short function, which becomes part of its callers: the state is not handed over again at every call."""
    made: Callable[P, T] = _njit(**{**_INSIDE, "forceinline": True})(function)
    return made

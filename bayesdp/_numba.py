"""Numba, with a cache of compiled code that looks at all compiled files of this package.

Numba keeps what it has compiled from a file until that file changes. But the code of the functions that it calls is compiled into it,
and they may be in files that change alone, in an upgrade for example: the old code would be run without a word. Here every file
of the package with compiled functions is part of the stamp by which Numba tells old code from new.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
from numba.core import caching

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
    # Numba has no public way to say what compiled code depends on. Where a version has no such class, it does as it always does, and a
    # test says so.
    locator: Any = getattr(caching, "_SourceFileBackedLocatorMixin", None)
    if locator is None:
        return
    of_file = locator.get_source_stamp

    def get_source_stamp(self: Any) -> Any:
        stamp = of_file(self)
        return (stamp, _own_stamp()) if _FOLDER in Path(self._py_file).resolve().parents else stamp

    locator.get_source_stamp = get_source_stamp


_stamp_whole_package()

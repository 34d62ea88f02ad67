"""How the moves are compiled.

Numba counts references to the arrays of a tuple wherever a function takes it apart. The moves only look into arrays that their
caller holds, and make none: counting cost two thirds of a sweep (3.5 of 5.4 ms for 5,040 cells), so it is switched off. The
option has no public name; where a version of Numba does not know it, the moves are compiled with the counting, and are slower.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core.options import DefaultOptions

__all__ = ["compiled", "inlined", "inside"]

_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_INSIDE = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # taking a state apart for Python is a good part of compiling

compiled = nb.njit(cache=True, error_model="numpy", nogil=True, no_cfunc_wrapper=True, **_UNCOUNTED)
"""Compile a function that makes no arrays."""

inside = nb.njit(cache=True, error_model="numpy", **_UNCOUNTED, **_INSIDE)
"""The same for functions that only compiled functions call."""

inlined = nb.njit(cache=True, error_model="numpy", forceinline=True, **_UNCOUNTED, **_INSIDE)
"""The same for short functions, which become part of their callers: the state is not handed over again at every call."""

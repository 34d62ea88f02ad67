"""How the moves are compiled.

Numba counts references to the arrays of a tuple wherever a function takes it apart. The moves only look into arrays that their
caller holds, and make none: counting cost two thirds of a sweep (3.5 of 5.4 ms for 5,040 cells), so it is switched off.

A call hands over every array of a state, several numbers each, which cost up to four times what a move itself costs (0.65 and 0.12
microseconds for a square). So moves are `inlined` in a sweep; a function that is called once a leaf, or seldom, need not be.

The option has no public name, and so may change. Where a version of Numba does not know it, the moves are compiled with the
counting, and are slower. A move that made an array would not compile without the counting, whatever it was meant to do: Numba
refuses it. That the draws are right is tested by enumeration with the version in use. Numba's cache is read by the version
that wrote it only; but it does not know of options: who changes them here has to empty it. With ``NUMBA_DISABLE_JIT=1``
nothing is compiled, and no option matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.options import DefaultOptions

from bayesdp._numba import nb

_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_MOVES: dict[str, Any] = {"cache": True, "error_model": "numpy", "no_cfunc_wrapper": True, **_UNCOUNTED}
_INSIDE: dict[str, Any] = {
    **_MOVES,
    "no_cpython_wrapper": True,
    "forceinline": False,
}  # taking a state apart for Python is a good part of compiling
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

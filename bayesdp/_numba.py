"""Numba, with a cache of compiled code that looks at all compiled files of this package, how moves are compiled, and random numbers.

Numba keeps what it has compiled from a file until that file changes. But the code of the functions that it calls is compiled into it,
and they may be in files that change alone: so every file of the package with compiled functions is part of Numba's stamp.

Compiled code on disk saves time, and work goes on without it: in Numba an error there (a full disk, a file that lost its end) is an
error of whatever function was called first.

Numba counts references to the arrays of a tuple wherever a function takes it apart. The moves only look into arrays that their
caller holds: counting cost two thirds of a sweep (3.5 of 5.4 ms for 5,040 cells), so it is switched off, where a version of Numba
knows that option, which has no public name; a move that made an array would not compile. A call hands over every array of a state,
which costs up to four times what a move itself costs, so that moves are `inlined` in a sweep; a function that is called once a leaf,
or seldom, need not be. Numba's cache does not know of options: who changes them here has to empty it.

Random numbers are those of xoshiro256++ (Blackman and Vigna, 2021): four 64-bit words of state in a plain array, so that a kernel call
costs nothing to set up (handing a `numpy.random.Generator` to numba costs about ten microseconds a call, as much as forty moves). Each
chain seeds its state from its own `numpy.random.Generator`.
"""

from __future__ import annotations

import hashlib
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
from numba.core import caching, event
from numba.core.options import DefaultOptions

from bayesdp._interrupts import is_terminal, tell
from bayesdp._text import printable

__all__ = ["code_version", "nb", "stamp_of"]

_FOLDER = Path(__file__).resolve().parent
_log = logging.getLogger(__name__)


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


_caches = SimpleNamespace(lock=threading.Lock(), inside=0, warned=set())
"""Of this process: how many `dispensable_caches` are open, and which folders they warned of."""


@contextmanager
def dispensable_caches() -> Iterator[None]:
    """A context in which compiled code that cannot be written or read is compiled for this process alone, with a warning."""
    # The warning names the folder, once. The index of the function in question is removed from the folder: numba writes it before
    # the code that it names, and would take an older file of that name for the code.
    with _caches.lock:
        _caches.inside += 1
    try:
        yield
    finally:
        with _caches.lock:
            _caches.inside -= 1
            if not _caches.inside:
                _caches.warned.clear()


def _replace() -> None:
    """Wrap numba's two methods that touch the disk, and add a last resort to its choice of folders."""
    # For functions of this package at any time: numba chooses a folder for each when its module is imported.

    class Nowhere:
        """The last locator that numba tries: no folder can be written to, so nothing is stored. Without it numba raises an error."""

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            if not (_caches.inside or _FOLDER in Path(py_file).resolve().parents):
                return None
            _tell(str(vars(nb.config)["CACHE_DIR"] or Path(py_file).parent), "cannot be written to")
            return cls()

        def get_cache_path(self) -> str:
            return ""

        def get_source_stamp(self) -> int:
            return 0

        def get_disambiguator(self) -> str:
            return ""

    def sparing(whole: Callable[..., Any], done: str) -> Callable[..., Any]:
        @wraps(whole)
        def spared(self: Any, *args: Any) -> Any:
            if isinstance(self._impl.locator, Nowhere):
                return None
            try:
                return whole(self, *args)
            except Warning:  # where a user makes errors of warnings
                raise
            except Exception as error:  # what is wrong with a pickle can be anything
                if not _caches.inside:
                    raise
                with suppress(OSError):
                    Path(self._cache_file._index_path).unlink(missing_ok=True)
                why = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
                _tell(str(self.cache_path), f"cannot be {done} ({printable(why)})")
                return None

        return spared

    numbas: Any = caching
    numbas.Cache.save_overload = sparing(numbas.Cache.save_overload, "written to")
    numbas.Cache.load_overload = sparing(numbas.Cache.load_overload, "read")
    numbas.CacheImpl._locator_classes.append(Nowhere)


def _tell(folder: str, what: str) -> None:
    with _caches.lock:
        if folder in _caches.warned:
            return
        _caches.warned.add(folder)
    _log.warning(
        "%s, the folder of compiled code, %s. Work goes on; what is not there is compiled again, now and in later runs",
        printable(folder), what,
    )  # fmt: skip


_replace()


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


def part[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Make a function a part of the one compiled function that calls it: it is not optimised for itself before."""
    made: Callable[P, T] = _njit(**_INSIDE, inline="always")(function)
    return made


def seed_state(rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    """Four words of state drawn from a NumPy generator."""
    state = rng.integers(0, 2**64, size=4, dtype=np.uint64)
    # The all-zero state is the generator's one fixed point (probability 2**-256).
    return state if state.any() else np.ones(4, dtype=np.uint64)


@nb.njit(cache=True, inline="always")
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@nb.njit(cache=True, error_model="numpy")
def next_word(state: npt.NDArray[np.uint64]) -> np.uint64:
    """64 random bits."""
    # Loaded once and stored once: going through memory at every line would cost more than the arithmetic.
    a, b, c, d = state[0], state[1], state[2], state[3]
    result: np.uint64 = _rotate(a + d, 23) + a
    c ^= a
    d ^= b
    state[0] = a ^ d
    state[1] = b ^ c
    state[2] = c ^ (b << np.uint64(17))
    state[3] = _rotate(d, 45)
    return result


@nb.njit(cache=True, error_model="numpy")
def uniform(state: npt.NDArray[np.uint64]) -> float:
    """A double in [0, 1) with 53 random bits."""
    return np.float64(np.int64(next_word(state) >> np.uint64(11))) * (1.0 / 9007199254740992.0)


@nb.njit(cache=True, error_model="numpy")
def below(state: npt.NDArray[np.uint64], n: int) -> int:
    """An integer in 0 .. n-1; the bias is below n * 2**-53."""
    return int(uniform(state) * n)


@nb.njit(cache=True, error_model="numpy")
def exponential(state: npt.NDArray[np.uint64]) -> float:
    """A standard exponential draw."""
    return -math.log1p(-uniform(state))


@nb.njit(cache=True, error_model="numpy")
def by_log_weight(state: npt.NDArray[np.uint64], heights: npt.NDArray[np.float64], count: int, largest: float) -> int:
    """One of the first `count` places, in proportion to exp(heights), which become these weights; `largest` is their greatest."""
    total = 0.0
    for i in range(count):
        heights[i] = math.exp(heights[i] - largest)
        total += heights[i]
    u = uniform(state) * total
    for i in range(count):
        u -= heights[i]
        if u < 0.0:
            return i
    return -1


class _Teller(event.Listener):
    """Tells of the first kernel of the package that is compiled, and not read from Numba's cache, and then of each function."""

    def __init__(self) -> None:
        self.told = self.dots = False

    def on_start(self, event: Any) -> None:
        """Look at what is compiled."""
        module = str(event.data["dispatcher"].py_func.__module__)
        if not self.told and module.startswith("bayesdp.") and ".kernel." in module:
            self.told = True
            tell("bayesdp: compiling the moves of tables; this takes up to a minute, and once on a machine")
            self.dots = is_terminal(sys.stderr)

    def on_end(self, event: Any) -> None:
        """A dot on a terminal, so that something moves."""
        if self.dots:
            tell(".", end="")


@contextmanager
def told_while_compiling() -> Iterator[None]:
    """A context in which standard error is told if a kernel has to be compiled."""
    teller = _Teller()
    try:
        with event.install_listener("numba:compile", teller):
            yield
    finally:
        if teller.dots:
            tell("")

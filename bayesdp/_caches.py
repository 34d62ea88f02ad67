"""Compiled code on disk: it saves time, and work goes on without it.

Numba writes what it has compiled to a folder, and an error there (a full disk, a quota) or in what is read from there (a file that
lost its end in a power cut) is an error of whatever function was called first: of a fit that has nothing to do with it.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

from bayesdp._text import printable

_log = logging.getLogger(__name__)


class _State:
    """State of this process: how many `dispensable_caches` are open, which folders they warned of, whether numba is patched."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.warned: set[str] = set()
        self.replaced = False


_state = _State()


@contextmanager
def dispensable_caches() -> Iterator[None]:
    """A context in which compiled code that cannot be written or read is compiled for this process alone, with a warning."""
    # The warning names the folder, once. The index of the function in question is removed from the folder: numba writes it before
    # the code that it names, and would take an older file of that name for the code. Outside of the context numba does as it always
    # does.
    with _state.lock:
        if not _state.replaced:
            _replace()
            _state.replaced = True
        _state.inside += 1
    try:
        yield
    finally:
        with _state.lock:
            _state.inside -= 1
            if not _state.inside:
                _state.warned.clear()


def _replace() -> None:
    """Wrap numba's two methods that touch the disk, and add a last resort to its choice of folders."""
    caching: Any = importlib.import_module("numba.core.caching")

    class Nowhere:
        """The last locator that numba tries: no folder can be written to, so nothing is stored. Without it numba raises an error."""

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            if not _state.inside:
                return None
            from numba import config

            _tell(str(vars(config)["CACHE_DIR"] or Path(py_file).parent), "cannot be written to")
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
                if not _state.inside:
                    raise
                with suppress(OSError):
                    Path(self._cache_file._index_path).unlink(missing_ok=True)
                why = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
                _tell(str(self.cache_path), f"cannot be {done} ({printable(why)})")
                return None

        return spared

    caching.Cache.save_overload = sparing(caching.Cache.save_overload, "written to")
    caching.Cache.load_overload = sparing(caching.Cache.load_overload, "read")
    caching.CacheImpl._locator_classes.append(Nowhere)


def _tell(folder: str, what: str) -> None:
    with _state.lock:
        if folder in _state.warned:
            return
        _state.warned.add(folder)
    _log.warning(
        "%s, the folder of compiled code, %s. Work goes on; what is not there is compiled again, now and in later runs",
        printable(folder), what,
    )  # fmt: skip

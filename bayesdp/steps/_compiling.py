"""A line on standard error while moves are compiled: some seconds, once on a machine, in which nothing else is to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from bayesdp._interrupts import tell


class _Teller(event.Listener):
    """Tells of the first kernel of the package that is compiled, and not read from Numba's cache."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        """Look at what is compiled."""
        module = str(event.data["dispatcher"].py_func.__module__)
        if not self.told and module.startswith("bayesdp.") and ".kernel." in module:
            self.told = True
            tell("bayesdp: compiling the moves of tables; this takes up to a minute, and once on a machine")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


@contextmanager
def told_while_compiling() -> Iterator[None]:
    """A context in which standard error is told if a kernel has to be compiled."""
    with event.install_listener("numba:compile", _Teller()):
        yield

"""Interrupts: the signals that mean one, and what they do just now.

Ctrl-C (SIGINT) means one where Python's own handler is in place, as it is in a script or a notebook. The command line adds
SIGTERM, which batch schedulers send, and SIGHUP, for a terminal or connection that was closed (`bayesdp.cli.errors`). The
library never does: in a user's process these signals are the user's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from types import FrameType

_MEANT = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that may mean an interrupt; Windows has no SIGHUP."""


class Received:
    """The last signal that meant an interrupt; and, set by the command line, what else means one, and what to close off."""

    # `handed_over` are signals other than SIGINT that mean an interrupt in this process, and `terminals` file descriptors that are
    # to be closed off when the terminal is gone.

    def __init__(self) -> None:
        self.number: int | None = None
        self.handed_over: tuple[int, ...] = ()
        self.terminals: tuple[int, ...] = ()

    def note(self, number: int) -> None:
        """Note a signal."""
        self.number = number
        if number == getattr(signal, "SIGHUP", None):
            self.close_off()

    def close_off(self) -> None:
        """Terminals are gone: write nowhere what goes there, so that a progress bar does not fail and take the draws along."""
        if self.terminals:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for terminal in self.terminals:
                os.dup2(nowhere, terminal)
            self.terminals = ()


received = Received()


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise a KeyboardInterrupt: what the command line installs for signals other than SIGINT."""
    received.note(number)
    raise KeyboardInterrupt


@contextmanager
def handled(note: Callable[[int], None], *, own_too: bool = False) -> Iterator[bool]:
    """Call a function at an interrupt, in place of raising KeyboardInterrupt; yields whether that is so."""
    # It is not outside the main thread, nor for signals that have a handler of the user's own (but that for Ctrl-C with `own_too`)
    # or are ignored (as Ctrl-C is in the background of a shell, and SIGHUP under nohup). Processes that are forked meanwhile take
    # no notice of these signals: they are told by the main process what to do. `note` is called between two instructions of the
    # main thread, and may raise.
    process = os.getpid()

    def handler(number: int, frame: FrameType | None) -> None:
        if os.getpid() == process:
            received.note(number)
            note(number)

    before = {}
    if threading.current_thread() is threading.main_thread():  # signals reach the main thread only
        before = {number: signal.getsignal(number) for number in _MEANT}
    ours = [number for number, own in before.items() if own in (signal.default_int_handler, interrupt)]
    if own_too and signal.SIGINT not in ours and callable(before.get(signal.SIGINT)):
        ours.append(signal.SIGINT)
    try:
        for number in ours:
            signal.signal(number, handler)
        yield bool(ours)
    finally:
        for number in ours:
            signal.signal(number, before[number])


@contextmanager
def deferred() -> Iterator[None]:
    """A context that an interrupt does not break off: it is raised when the context has been left."""
    noted: list[int] = []
    with handled(noted.append):
        yield
    if noted:
        raise KeyboardInterrupt


def uninterrupted[**P, T](manager: Callable[P, AbstractContextManager[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make a context manager one that interrupts wait for; see `deferred`."""

    @wraps(manager)
    @contextmanager
    def waited_for(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        with deferred(), manager(*args, **kwargs) as own:
            yield own

    return waited_for


def tell(text: str) -> None:
    """Write a line to standard error, if that can be written to."""
    if sys.stderr is None:  # closed; print would take standard output instead
        return
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)

"""What must not end a run, or end it in good order: interrupts, a closed terminal, workers, freed memory.

Ctrl-C (SIGINT) means an interrupt where Python's own handler is in place. The command line adds SIGTERM, which batch schedulers send,
and SIGHUP, for a terminal that was closed (`bayesdp.cli.errors`). The library never does: these signals are the user's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_MEANT = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that may mean an interrupt; Windows has no SIGHUP."""

_SECONDS = 1.0
"""How often a process looks whether it has another parent."""


class Received:
    """The last signal that meant an interrupt; and, set by the command line, what else means one, and what to close off."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.handed_over: tuple[int, ...] = ()  # signals other than SIGINT that mean an interrupt in this process
        self.terminals: tuple[int, ...] = ()  # file descriptors that are closed off when the terminal is gone

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
    ours = [number for number, current in before.items() if current in (signal.default_int_handler, interrupt)]
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


def tell(text: str, end: str = "\n") -> None:
    """Write a line to standard error, if that can be written to."""
    if sys.stderr is None:  # closed; print would take standard output instead
        return
    with suppress(OSError, ValueError):
        print(text, end=end, file=sys.stderr, flush=True)


class _Dispensable:
    """A text stream on a terminal; what cannot be written to it any more is left out. In all else it is that stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._gone = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, work: Callable[..., object], *args: str) -> None:
        if self._gone:
            return
        try:
            work(*args)
        except OSError:
            self._gone = True
            received.close_off()


@contextmanager
def dispensable_progress() -> Iterator[None]:
    """A context in which a progress bar on a terminal that is gone is left out, and does not end what it tells of."""
    # A closed terminal sends SIGHUP; where that is ignored, as under nohup, a process learns of it by errors when it writes. Files
    # and pipes are left as they are: what cannot be written there is an error.
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Dispensable(stream) if is_terminal(stream) else stream for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def is_terminal(stream: Any) -> bool:
    """Whether a stream is one that is open."""
    try:
        return stream is not None and bool(stream.isatty())
    except (AttributeError, ValueError):  # it is closed, or a stream of others
        return False


def leave_signals_to_the_main_process(*more: int) -> None:
    """In a worker: ignore Ctrl-C and a closed terminal, which reach all processes at once; the main one decides."""
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT), *more):  # Windows has no SIGHUP
        signal.signal(number, signal.SIG_IGN)


def helpers_outlive_hangup() -> None:
    """Start multiprocessing's tracker of shared things so that a closed terminal does not end it."""
    # It ignores Ctrl-C and SIGTERM by itself, but SIGHUP ends it, and the next one then complains, with a traceback, of things that
    # it has never heard of. A signal that is ignored stays ignored in a process that is started.
    number = getattr(signal, "SIGHUP", None)  # Windows has neither
    if number is None or threading.current_thread() is not threading.main_thread():
        return
    from multiprocessing import resource_tracker  # which `bayesdp --help` does without

    before = signal.signal(number, signal.SIG_IGN)
    try:
        resource_tracker.ensure_running()
    finally:
        signal.signal(number, before)


def end_with_parent() -> None:
    """In a worker: end this process within seconds of the end of the one that started it, however that one ends."""
    # A process that is killed cannot tell its workers, and they do not notice by themselves: they wait at a pipe whose other end
    # they hold too, or a sibling that was forked later does. multiprocessing gives each worker a sentinel of the process that asked
    # for it (of which later siblings hold the other end until their own tells them); a forked process also sees another parent.
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is None:
        return
    sentinel, pid = parent.sentinel, parent.pid
    forked = os.getppid() == pid  # from a fork server it is the server's

    def watch() -> None:
        while not (connection.wait([sentinel], _SECONDS) or (forked and os.getppid() != pid)):
            pass
        os._exit(1)  # nobody is there for whom to clean up, and the main thread may be in a kernel

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


def give_back() -> bool:
    """Give pages of freed memory back to the system, where its allocator keeps them, as that of glibc does; whether any were."""
    # It serves arrays of up to 32 MB from heaps, one a thread, once arrays of that size have been freed, and what is free in the
    # midst of a heap is not given back by itself: of a state of 1,500 tracts that was half a gigabyte.
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # none with other C libraries
    return trim is not None and bool(trim(0))

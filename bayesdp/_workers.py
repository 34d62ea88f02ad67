"""Worker processes: they leave signals to the main process, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing import resource_tracker
from multiprocessing.connection import wait

SHARED_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name))
"""Signals that a terminal sends to all processes at once; Windows has no SIGHUP."""

_SECONDS = 1.0
"""How often a process looks whether it has another parent."""


def leave_signals_to_the_main_process(*more: int) -> None:
    """In a worker: ignore Ctrl-C and a closed terminal, which reach all processes at once; the main one decides."""
    for number in (*SHARED_SIGNALS, *more):
        signal.signal(number, signal.SIG_IGN)


def helpers_outlive_hangup() -> None:
    """Start multiprocessing's tracker of shared things so that a closed terminal does not end it."""
    # It ignores Ctrl-C and SIGTERM by itself, but SIGHUP ends it, and the next one then complains, with a traceback, of things that
    # it has never heard of. A signal that is ignored stays ignored in a process that is started.
    number = getattr(signal, "SIGHUP", None)  # Windows has neither
    if number is None or threading.current_thread() is not threading.main_thread():
        return
    before = signal.signal(number, signal.SIG_IGN)
    try:
        resource_tracker.ensure_running()
    finally:
        signal.signal(number, before)


def end_with_parent() -> None:
    """In a worker: end this process within seconds of the end of the one that started it, however that one ends."""
    # A process that is killed cannot tell its workers, and they do not notice by themselves: they wait at a pipe whose other end
    # they hold too, or a sibling that was forked later does. Meanwhile they hold standard output open, for which a shell's pipe or
    # a scheduler waits.
    # multiprocessing gives each worker a sentinel of the process that asked for it, by whatever method it was started. A sibling
    # that was forked later holds a copy of its other end; but that one is told by its own sentinel, and the last one has no such
    # sibling. On POSIX a forked process also sees that it has another parent. A thread looks, which needs no more than a moment of
    # the interpreter.
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel, pid = parent.sentinel, parent.pid
    forked = os.getppid() == pid  # from a fork server it is the server's

    def watch() -> None:
        while not (wait([sentinel], _SECONDS) or (forked and os.getppid() != pid)):
            pass
        os._exit(1)  # nobody is there for whom to clean up, and the main thread may be in a kernel

    threading.Thread(target=watch, name="end with parent", daemon=True).start()

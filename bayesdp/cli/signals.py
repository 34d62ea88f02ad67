"""Signals of a scheduler and of a closed terminal, which end a command as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bayesdp._interrupts import interrupt, received

__all__ = ["interrupt_status", "terminating_signals"]

_NAMES = ("SIGTERM", "SIGHUP")


def interrupt_status() -> int:
    """Exit status of a command that a signal has ended, as shells count: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (received.number or signal.SIGINT)


@contextmanager
def terminating_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for interrupts, as long as a command runs; what is ignored (by nohup) stays ignored."""
    received.number = None
    numbers: list[int] = []
    if threading.current_thread() is threading.main_thread():  # others cannot set handlers
        known = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]  # Windows has no SIGHUP
        numbers = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    received.handed_over = tuple(numbers)
    received.terminals = tuple(number for number in (1, 2) if os.isatty(number))
    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        received.handed_over = received.terminals = ()

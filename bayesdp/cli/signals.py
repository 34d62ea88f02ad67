"""Signals of a scheduler and of a closed terminal, which end a command as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayesdp._interrupts import interrupt, received

_NAMES = ("SIGTERM", "SIGHUP")


def interrupt_status() -> int:
    """Exit status of a command that a signal has ended, as shells count: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (received.number or signal.SIGINT)


@contextmanager
def terminating_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for interrupts, as long as a command runs; what is ignored (by nohup) stays ignored."""
    received.number = None
    outer = received.handed_over, received.terminals  # of a command that runs this one
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # others cannot set handlers
        known = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]  # Windows has no SIGHUP
        before = {number: signal.getsignal(number) for number in known}
    numbers = [number for number, own in before.items() if own in (signal.SIG_DFL, interrupt)]
    received.handed_over = tuple(numbers)
    received.terminals = tuple(number for number in (1, 2) if os.isatty(number))
    try:
        for number in numbers:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])
        received.handed_over, received.terminals = outer

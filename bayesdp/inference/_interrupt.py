"""Ctrl-C during sampling: stop, and keep what was drawn."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from bayesdp.steps import stop_request

__all__ = ["StopOnCtrlC"]


class StopOnCtrlC:
    """A context in which Ctrl-C ends sampling between two draws; call the object after each draw.

    PyMC keeps the draws that it has when a ``KeyboardInterrupt`` reaches its main loop. But chains that run one after the
    other each take it for their own end only, and the next one begins. And a terminal sends Ctrl-C to
    the chains' processes as well; they would close their pipes, and the main process could stumble over a closed
    pipe before it sees its own interrupt, and lose everything. So here the chains ignore Ctrl-C, and the main process
    notes it and raises from the callback, which PyMC calls after each draw, in this chain and in every later one. Before the
    first draw, and at the second Ctrl-C, it is an interrupt like any other, and nothing is kept.

    Where Ctrl-C already means something of the user's own, or outside the main thread, nothing is changed.

    Attributes
    ----------
    interrupted : bool
        Whether sampling was ended early.
    given_up : bool
        Whether nothing is to be kept.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self.given_up = False
        self._drawing = False
        self._process = os.getpid()
        self._before: Any = None
        self._installed = False

    def __enter__(self) -> Self:
        stop_request.asked = False
        if threading.current_thread() is threading.main_thread():  # signals reach the main thread only
            self._before = signal.getsignal(signal.SIGINT)
            self._installed = self._before is signal.default_int_handler
        if self._installed:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stop_request.asked = False
        if self._installed:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # a chain's process, which inherited this handler: the main process decides
        stop_request.asked = True
        if not self._drawing or self.interrupted:
            self.given_up = True
            raise KeyboardInterrupt
        self.interrupted = True
        print("interrupted: stopping after this draw; Ctrl-C again to give everything up", file=sys.stderr, flush=True)

    def __call__(self, trace: Any = None, draw: Any = None) -> None:
        """End sampling if Ctrl-C was pressed since the last draw."""
        self._drawing = True
        stop_request.obey()

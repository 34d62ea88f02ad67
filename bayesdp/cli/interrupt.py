"""Ctrl-C during sampling: stop, and keep what was drawn."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self

from bayesdp.cli.errors import say

__all__ = ["StopOnCtrlC"]


class StopOnCtrlC:
    """A context in which Ctrl-C ends sampling between two draws; give the object to ``pm.sample`` as `callback`.

    PyMC keeps the draws that it has when a ``KeyboardInterrupt`` reaches its main loop. But a terminal sends Ctrl-C to
    the chains' processes as well; they would close their pipes, and the main process could stumble over a closed
    pipe before it sees its own interrupt, and lose everything. So here the chains ignore Ctrl-C, and the main process
    notes it and raises from the callback, which PyMC calls after each draw. Before the first draw, and at the second
    Ctrl-C, it is an interrupt like any other.

    Attributes
    ----------
    interrupted : bool
        Whether sampling was ended early.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._drawing = False
        self._process = os.getpid()
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # a chain's process, which inherited this handler: the main process decides
        if not self._drawing or self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        say("interrupted: stopping after this draw; Ctrl-C again to give everything up")

    def __call__(self, trace: Any = None, draw: Any = None) -> None:
        """End sampling if Ctrl-C was pressed since the last draw."""
        self._drawing = True
        if self.interrupted:
            raise KeyboardInterrupt

"""Processes of chains that end when they should: with the main process, and with sampling."""

from __future__ import annotations

import multiprocessing
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytensor

from bayesdp._caches import dispensable_caches
from bayesdp._interrupts import received
from bayesdp._workers import end_with_parent, helpers_outlive_hangup, leave_signals_to_the_main_process

SAME_BITS = {"numba__fastmath": False}
"""Flags of PyTensor under which a seed says what the draws are. Fast math has sums in any order, and code that was compiled anew had
another one than the same from a file: of four chains of two processes at a time, the first two had other draws the first time."""


class _Context:
    """A multiprocessing context that delegates to another one, but whose processes run `_run`."""

    # PyMC makes its processes and shared arrays through the context that it is given, so nothing of PyMC is changed.

    def __init__(self, inner: Any, ignored: tuple[int, ...]) -> None:
        self._inner, self._ignored = inner, ignored
        self.processes: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def Process(self, *, target: Callable[..., None], args: tuple[Any, ...], **more: Any) -> Any:
        process = self._inner.Process(target=_run, args=(self._ignored, target, args), **more)
        self.processes.append(process)
        return process


def _run(ignored: tuple[int, ...], target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Run the target in the process of a chain: signals are left to the main process, and it ends with that one."""
    leave_signals_to_the_main_process(*ignored)
    end_with_parent()
    with dispensable_caches(), pytensor.config.change_flags(**SAME_BITS):
        target(*args)


@contextmanager
def chain_processes(given: dict[str, Any]) -> Iterator[None]:
    """Have ``pm.sample`` use processes that leave signals to the main process, and end with it or with the context."""
    # PyMC asks its processes to stop, and each does after the draw that it is making. One that makes a long draw would keep the
    # main process from ending; at the end of the context nobody waits for that draw, and it is killed. `given`: arguments of
    # `pm.sample`; `mp_ctx` is changed in place.
    chosen = given.get("mp_ctx")
    if chosen is None and platform.system() == "Darwin":  # as PyMC chooses
        chosen = "fork" if platform.processor() == "arm" else "forkserver"
    if chosen is None or isinstance(chosen, str):
        chosen = multiprocessing.get_context(chosen)
    if given.get("cores") != 1:
        helpers_outlive_hangup()
    # A scheduler may send SIGTERM to all processes; where the main one takes that as an interrupt, it wants the draws.
    context = given["mp_ctx"] = _Context(chosen, received.handed_over)
    try:
        yield
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
                process.join()

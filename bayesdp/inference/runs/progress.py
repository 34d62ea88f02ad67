"""Progress in lines, for logs and pipes, where a bar cannot be drawn."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rich.console import Console

from bayesdp._interrupts import tell

_FIRST, _LONGEST = 5.0, 60.0
"""Seconds before the first line, and between two lines at most; in between, each wait is half of the time that has passed."""


def lines_wanted(given: Any) -> bool:
    """Whether progress was asked for and is to come in lines: standard error is neither a terminal nor in a notebook."""
    # `given`: arguments of `pm.sample`.
    asked = bool(given.get("progressbar", True)) and not given.get("quiet", False)
    return asked and not sys.stderr.isatty() and not Console().is_jupyter


class ProgressLines:
    """A line on standard error now and then.

    Parameters
    ----------
    what : str
        The activity, as the line begins: "sampling".
    unit : str
        The noun of what is counted: "draws".

    Examples
    --------
    >>> told = ProgressLines("sampling", "draws")
    >>> told(10, 100)  # too early for a line
    """

    def __init__(self, what: str, unit: str) -> None:
        self._what, self._unit = what, unit
        self._start = time.monotonic()
        self._next = _FIRST
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Say how much is done, if it is time for a line."""
        passed = time.monotonic() - self._start
        if self._first is None:
            self._first = passed, done  # what came before, such as compiling, says nothing of the time that is left
        if passed < self._next or done >= total:
            return
        self._next = passed + min(max(passed / 2, _FIRST), _LONGEST)
        begun, already = self._first
        line = f"{self._what}: {done:,} of {total:,} {self._unit} ({done / total:.0%}), {_span(passed)} passed"
        if done > already:
            line += f", about {_span((passed - begun) / (done - already) * (total - done))} left"
        tell(line)


def _span(seconds: float) -> timedelta:
    return timedelta(seconds=round(seconds))


def diagnostics_lines() -> Callable[[str, int, int], None]:
    """Lines while diagnostics are computed, for `bayesdp.inference.diagnose`."""
    lines: dict[str, ProgressLines] = {}

    def told(name: str, done: int, total: int) -> None:
        if name not in lines:
            lines[name] = ProgressLines(f"diagnostics of {name} (Ctrl-C leaves them out)", "quantities")
        lines[name](done, total)

    return told

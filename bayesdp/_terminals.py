"""A terminal that is closed while something is shown in it: what is computed goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bayesdp._interrupts import received


class _Dispensable:
    """A text stream on a terminal; what cannot be written to it any more is left out. In all else it is that stream."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self._gone = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def write(self, text: str) -> int:
        self._try(lambda: self._own.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._own.flush)

    def _try(self, work: Callable[[], object]) -> None:
        if self._gone:
            return
        try:
            work()
        except OSError:
            self._gone = True
            received.close_off()


@contextmanager
def dispensable_progress() -> Iterator[None]:
    """A context in which a progress bar on a terminal that is gone is left out, and does not end what it tells of."""
    # A closed terminal sends SIGHUP; where that is ignored, as under nohup, a process learns of it by errors when it writes. Files
    # and pipes are left as they are: what cannot be written there is an error.
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Dispensable(own) if _is_terminal(own) else own for own in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # it is closed
        return False

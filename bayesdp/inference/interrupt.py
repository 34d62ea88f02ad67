"""What ends a run early, or what follows it: Ctrl-C and errors do not lose what was drawn, and the draws say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self

import xarray as xr

from bayesdp._interrupts import handled, tell
from bayesdp.steps import stop_request


class StopOnCtrlC:
    """A context in which Ctrl-C ends sampling between two draws, and then only breaks off what can be left out.

    PyMC keeps the draws made so far when a ``KeyboardInterrupt`` reaches its main loop. But of chains that run one after
    the other it ends one only; and after that loop the interrupt would lose the draws. So here Ctrl-C is noted, and

    - before the first draw it is an interrupt like any other: there is nothing to keep;
    - while draws are made, the first one is raised from the callback after each draw, in this chain and in every later one; the
      second one at once, in the middle of a draw, for PyMC to keep those before it;
    - when no more draws are made it is noted, and raised in what was called by `optional` only.
    """

    def __init__(self) -> None:
        self.pressed = False  # whether there was an interrupt that this context has kept from its caller
        self.interrupted = False  # whether sampling was ended early
        self.given_up = False  # whether nothing is to be kept
        self.skipping = False  # whether what can be left out is: there was an interrupt when no more draws were made
        self._drawing = False  # whether PyMC makes draws, and would keep them
        self._over = False  # whether no more draws are made
        self._at_once = False  # whether the first one is raised in the middle of a draw
        self._skippable = False
        self._handled: AbstractContextManager[bool] = handled(self._note)

    def __enter__(self) -> Self:
        stop_request.asked = False
        self._handled.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stop_request.asked = False
        self._handled.__exit__(kind, error, trace)

    def _note(self, number: int) -> None:
        if self._over:
            self.pressed = self.skipping = True
            if self._skippable:
                self._skippable = False  # so that the handler of this interrupt is not interrupted in turn
                raise KeyboardInterrupt
            return
        stop_request.asked = True
        if not self._drawing:
            self.given_up = True
            raise KeyboardInterrupt
        again, self.pressed = self.pressed, True
        if again or self._at_once:
            self._end_early()
        tell("interrupted: stopping after this draw; Ctrl-C again to stop in the middle of it")

    def _end_early(self) -> None:
        self.interrupted = self._over = True
        raise KeyboardInterrupt

    def __call__(self, trace: Any = None, draw: Any = None) -> None:
        """After a draw: end sampling if Ctrl-C was pressed since the last one."""
        self._drawing = True
        if stop_request.asked:
            self._end_early()

    def raise_at_once(self) -> None:
        """For a sampler without a callback, which returns the draws made so far when it is interrupted."""
        self._drawing = self._at_once = True

    def no_more_draws(self) -> None:
        """All draws have been made."""
        self._over = True

    def optional[T](self, work: Callable[[], T]) -> T | None:
        """What work gives that can be left out; None if an interrupt comes, or has come since the end of sampling."""
        if self.skipping:
            return None
        try:
            try:
                self._skippable = True
                return work()
            finally:
                self._skippable = False
        except KeyboardInterrupt:
            self.pressed = self.skipping = True
            return None


def note_run(tree: xr.DataTree, *, resumed: int, interrupted: bool) -> None:
    """Write how a run went into the attributes of its draws: how often it was resumed, if ever, and whether Ctrl-C ended it early."""
    if resumed:
        tree.attrs["resumed"] = resumed
    if interrupted:
        tree.attrs["interrupted"] = 1


@contextmanager
def attach_draws(tree: xr.DataTree) -> Iterator[None]:
    """Put the draws into the attribute `draws` of any error, so that they are not lost."""
    try:
        yield
    except Exception as error:
        setattr(error, "draws", tree)  # noqa: B010  # no attribute that a type checker could know
        error.add_note("What was drawn is not lost: it is in the attribute `draws` of this error.")
        raise

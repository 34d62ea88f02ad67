"""What the command line says when something is wrong: one line on standard error, and an exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Never

__all__ = [
    "BAD_INPUT",
    "INTERRUPTED",
    "NOT_CALIBRATED",
    "NOT_CONVERGED",
    "OneLineParser",
    "banner",
    "run_safely",
    "say",
]

BAD_INPUT = 2
NOT_CONVERGED = 3
NOT_CALIBRATED = 4
INTERRUPTED = 130
"""As shells report a program that Ctrl-C ended."""


def say(text: str) -> None:
    """Write a line to standard error, if that is possible: what cannot be said changes nothing of what was done."""
    if sys.stderr is None:  # closed; print would take standard output instead
        return
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def banner(text: str) -> None:
    """Write something that must not be overlooked to standard error."""
    line = "!" * 100
    say(f"{line}\n!!  {text}\n{line}")


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaints are one line, without the usage in front."""

    def error(self, message: str) -> Never:
        """Say what is wrong, and leave with status 2."""
        self.exit(BAD_INPUT, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def run_safely(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a subcommand; what is wrong with its input is one line and status 2, never a traceback.

    Only errors that bad input causes are caught. Others are ours, and their traceback is what we need to see.
    """
    try:
        return run(args)
    except (ValueError, TypeError, OSError, NotImplementedError, ImportError, MemoryError, OverflowError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        say(f"bayesdp {args.command}: error: {told}")
        return BAD_INPUT
    except KeyboardInterrupt:
        say(f"bayesdp {args.command}: interrupted, nothing was saved")
        return INTERRUPTED

"""What the command line says, and how: all that it prints goes through `tell` and `say`; what is wrong is one line and a status.

Labels are escaped one by one where they are put into a text (`bayesdp._text.printable`), so that none breaks a line or a row.
What goes through here is looked at once more, as a whole: a path, a model's name or a message of another library may hold
what a terminal obeys.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from typing import Never

from bayesdp._text import printable, printable_lines

__all__ = [
    "BAD_INPUT",
    "INTERRUPTED",
    "NOT_CALIBRATED",
    "NOT_CONVERGED",
    "OneLineParser",
    "banner",
    "log_safely",
    "run_safely",
    "say",
    "tell",
]

BAD_INPUT = 2
NOT_CONVERGED = 3
NOT_CALIBRATED = 4
INTERRUPTED = 130
"""As shells report a program that Ctrl-C ended."""


def say(text: str) -> None:
    """Write a line to standard error."""
    print(printable_lines(text), file=sys.stderr)


def tell(text: str) -> None:
    """Write lines to standard output."""
    print(printable_lines(text))


class _Shown(logging.Filter):
    """Messages of PyMC with the names of variables in them, which hold names of dimensions."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = printable_lines(record.getMessage()), ()
        return True


def log_safely() -> None:
    """Have what PyMC logs looked at as well."""
    import pymc  # noqa: F401  makes its handlers

    for handler in logging.getLogger("pymc").handlers:
        handler.addFilter(_Shown())


def banner(text: str) -> None:
    """Write something that must not be overlooked to standard error."""
    line = "!" * 100
    say(f"{line}\n!!  {text}\n{line}")


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaints are one line, without the usage in front."""

    def error(self, message: str) -> Never:
        """Say what is wrong, and leave with status 2."""
        self.exit(BAD_INPUT, f"{self.prog}: error: {printable(message)} (see {self.prog} --help)\n")


def run_safely(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a subcommand; what is wrong with its input is one line and status 2, never a traceback.

    Only errors that bad input causes are caught. Others are ours, and their traceback is what we need to see.
    """
    try:
        return run(args)
    except BrokenPipeError:
        # `bayesdp summary ... | head`: nobody reads on. Keep the interpreter quiet when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, NotImplementedError, ImportError, MemoryError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        say(f"bayesdp {args.command}: error: {told}")
        return BAD_INPUT
    except KeyboardInterrupt:
        say(f"bayesdp {args.command}: interrupted, nothing was saved")
        return INTERRUPTED

"""What the command line says, and how: what is wrong is one line on standard error, and an exit status.

What goes through `say` and `show` is escaped as a whole, too: a path or a message of another library may hold what a terminal obeys.

A result that is only printed, and cannot be, is an error. A result that is in a file already is not: a user who is told that
`bayesdp release` failed would run it again, and a second release with other noise costs privacy.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Never

from bayesdp._interrupts import handled, interrupt, received, tell
from bayesdp._text import printable, printable_lines

if TYPE_CHECKING:
    from bayesdp.posterior import PosteriorModel

_FULL = {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG")} - {None}

BAD_INPUT = 2
NOT_CONVERGED = 3
NOT_CALIBRATED = 4


def say(text: str) -> None:
    """Write a line to standard error, if there is one that can be written to."""
    tell(printable_lines(text))


def _made_safe(record: logging.LogRecord) -> bool:
    """A filter of messages with names of variables in them, which hold names of dimensions; all pass."""
    record.msg, record.args = printable_lines(record.getMessage()), ()
    return True


def log_safely() -> None:
    """Have what PyMC logs looked at as well."""
    import pymc  # noqa: F401  makes its handlers

    for handler in logging.getLogger("pymc").handlers:
        handler.addFilter(_made_safe)


def banner(text: str) -> None:
    """Write something that must not be overlooked to standard error."""
    line = "!" * 100
    say(f"{line}\n!!  {text}\n{line}")


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaints are one line, without the usage in front."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what a subcommand does not know itself, as its own options are near to it."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and rest[0].startswith("-"):
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> Never:
        """Say what is wrong, and leave with status 2."""
        from bayesdp._text import meant

        choices = re.fullmatch(r".*invalid choice: '(.*)' \(choose from (.*)\)", message)
        option = re.fullmatch(r"unrecognized arguments: (--[^ =]+).*", message)
        wrong, known = (
            choices.groups() if choices else (option[1], ", ".join(self._option_string_actions)) if option else ("", "")
        )
        message += meant(wrong, known.replace("'", "").split(", ")) if wrong else ""
        self.exit(BAD_INPUT, f"{self.prog}: error: {printable(message)} (see {self.prog} --help)\n")


def run_safely(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a subcommand; what is wrong with its input is one line and status 2, never a traceback.

    Only errors that bad input causes are caught. Others are ours, and their traceback is what we need to see.

    Outputs are written in one step, so that one which has changed since the beginning was written, and is complete.
    """
    before = _outputs(args)
    try:
        from bayesdp._numba import dispensable_caches  # `bayesdp --help` does without Numba

        with dispensable_caches():
            return run(args)
    except (ValueError, TypeError, OSError, NotImplementedError, ImportError, MemoryError, OverflowError) as error:
        # Labels may have blanks side by side.
        message = " ".join(filter(None, map(str.strip, str(error).splitlines()))) or type(error).__name__
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            message += f" (it was not said of which file; temporary files are in {tempfile.gettempdir()}, see TMPDIR)"
        say(f"bayesdp {args.command}: error: {message}")
        return BAD_INPUT
    except KeyboardInterrupt:
        with handled(lambda number: None):  # once is enough
            written = [path for path, state in _outputs(args).items() if state not in (None, before[path])]
            nothing = f"nothing was written{''.join(f' to {path}' for path in list(_outputs(args))[:1])}"
            say(
                f"bayesdp {args.command}: interrupted, {f'{" and ".join(written)} was written' if written else nothing}"
            )
        return interrupt_status()


def _outputs(args: argparse.Namespace) -> dict[str, tuple[int, int] | None]:
    """The files that a command may write, and what tells each from any other that was or will be there."""
    found: dict[str, tuple[int, int] | None] = {}
    for option in ("output", "report"):
        path = getattr(args, option, None)
        if path is not None:
            try:
                status = os.stat(path)
                found[path] = status.st_ino, status.st_mtime_ns
            except OSError:
                found[path] = None
    return found


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


def show(text: str) -> None:
    """Print a result that is nowhere else."""
    # Nobody reading on, as with ``bayesdp summary posterior.nc | head``, is no error.
    if sys.stdout is None:
        raise OSError("standard output is closed")
    try:
        print(printable_lines(text), flush=True)
    except BrokenPipeError:
        _discard()
    except (OSError, ValueError) as error:
        _discard()
        raise OSError(f"standard output: {_what_failed(error)}") from error


def announce(path: str, text: str) -> None:
    """Print something about a result that is in a file: where that cannot be printed, standard error names the file."""
    # Never raises: what had to be done is done.
    try:
        show(text)
    except (OSError, KeyboardInterrupt) as error:
        say(f"written to {path}; no more could be said of it ({str(error) or 'interrupted'})")


def _discard() -> None:
    """Let the interpreter, which flushes standard output when it ends, write what it could not write to nowhere."""
    with suppress(OSError, ValueError):  # it is no file of the system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _what_failed(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"its encoding, {error.encoding}, has no {error.object[error.start]!a}"
    return (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())


ADVICE = "Draw more (--draws, --chains), or look at the model."


def status_of(model: PosteriorModel, advice: str = "") -> int:
    """Exit status of a posterior: 0, or 3 where convergence is not shown, which is then said on standard error."""
    # `advice` says what to do, where the message of the diagnostics was printed already; that message if empty.
    # A banner is for chains that look bad. A run that is too short to tell is one calm line.
    if model.converged is not False:
        return 0
    bad, text = model.diagnostics.get("verdict") != "not judged", advice or model.message
    (banner if bad else say)(f"Do not report these results. {text}" if bad else text)
    return NOT_CONVERGED

"""What the command line prints on standard output, and what it does when nobody can read it.

A result that is only printed, and cannot be, is an error. A result that is in a file already is not: a user who is told that
`bayesdp release` failed would run it again, and a second release with other noise costs privacy.
"""

from __future__ import annotations

import os
import sys

from bayesdp._text import printable_lines
from bayesdp.cli.errors import say


def show(text: str) -> None:
    """Print a result that is nowhere else.

    Nobody reading on, as with ``bayesdp summary posterior.nc | head``, is no error.

    Raises
    ------
    OSError
        If standard output is closed, takes no more (a full disk), or has no way to write a character.
    """
    if sys.stdout is None:
        raise OSError("standard output is closed")
    try:
        print(printable_lines(text), flush=True)
    except BrokenPipeError:
        _discard()
    except (OSError, ValueError) as error:
        _discard()
        raise OSError(f"standard output: {_words(error)}") from error


def announce(path: str, text: str) -> None:
    """Print something about a result that is in a file: where that cannot be printed, standard error names the file.

    Never raises: what had to be done is done.
    """
    try:
        show(text)
    except (OSError, KeyboardInterrupt) as error:
        say(f"written to {path}; no more could be said of it ({str(error) or 'interrupted'})")


def _discard() -> None:
    """Let the interpreter, which flushes standard output when it ends, write what it could not write to nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file of the system
        pass


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"its encoding, {error.encoding}, has no {error.object[error.start]!a}"
    return (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())

"""What the command line prints on standard output, and what it does when nobody can read it.

A result that is only printed, and cannot be, is an error. A result that is in a file already is not: a user who is told that
`bayesdp release` failed would run it again, and a second release with other noise costs privacy.

What the command line says of convergence, and with which status it ends.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from bayesdp._text import printable_lines
from bayesdp.cli.errors import NOT_CONVERGED, banner, say

if TYPE_CHECKING:
    import xarray as xr


def show(text: str) -> None:
    """Print a result that is nowhere else.

    Nobody reading on, as with ``bayesdp summary posterior.nc | head``, is no error.
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


ADVICE = "Draw more (--draws, --chains), or look at the model."


def status_of(tree: xr.DataTree, advice: str = "") -> int:
    """Exit status of a posterior: 0, or 3 where convergence is not shown, which is then said on standard error."""
    # A banner is for chains that look bad. A run that is too short to tell is one calm line. `advice`: what to do, where the
    # message of the diagnostics was printed already; that message if empty.
    from bayesdp.composition import converged_of

    if converged_of(tree) is not False:
        return 0
    attrs = tree["diagnostics"].attrs
    bad = attrs.get("verdict") != "not judged"
    text = advice or str(attrs.get("message", ""))
    (banner if bad else say)(f"Do not report these results. {text}" if bad else text)
    return NOT_CONVERGED

"""``bayesdp report``: a posterior in, an HTML page out."""

from __future__ import annotations

import argparse
from typing import Any

from bayesdp.cli.arguments import add_command, add_output

__all__ = ["add", "run"]

_TEXT = """\
One self-contained HTML file: what is exact, the noise law and whom it protects; the prior; convergence;
published value, posterior mean and interval for each cell and total; sensitivity; a methods paragraph to
cite."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    own = add_command(
        commands,
        "report",
        run,
        title="write an HTML report of a posterior",
        text=_TEXT,
        example="bayesdp report posterior.nc -o report.html",
    )
    own.add_argument("posterior", metavar="POSTERIOR", help="file written by `bayesdp fit`")
    own.add_argument("--prob", type=float, default=0.95, help="probability of the intervals (default: 0.95)")
    own.add_argument("--title", help="title of the report")
    add_output(own, "the report, an .html file")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    return 0

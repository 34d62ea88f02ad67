"""``bayesdp report``: a posterior in, an HTML page out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bayesdp.cli.arguments import add_command, add_output, add_table_options, table_options
from bayesdp.cli.verdict import status_of

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
    own.add_argument(
        "--truth",
        metavar="TABLE",
        help="the confidential table, in a simulation; the report then contains it, and says so",
    )
    add_table_options(own)
    add_output(own, "the report, an .html file")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import probability
    from bayesdp.cli.files import read_posterior
    from bayesdp.storage import check_output

    probability(args.prob, "--prob")
    if Path(args.output).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is written to an .html file, got {args.output!r}")
    check_output(args.output, overwrite=args.force)
    posterior, _ = read_posterior(args.posterior)
    truth = None
    if args.truth is not None:
        from bayesdp.tables import read_table

        truth = read_table(args.truth, **table_options(args))
    from bayesdp.report import report

    report(posterior, args.output, prob=args.prob, truth=truth, title=args.title, overwrite=args.force)
    print(f"written to {args.output}")
    return status_of(posterior)

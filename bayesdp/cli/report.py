"""``bayesdp report``: a posterior in, an HTML page out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from bayesdp.cli.arguments import add_command, add_output, add_table_options, check_suffix, table_options
from bayesdp.cli.printing import announce, status_of
from bayesdp.cli.queries import FORMS

if TYPE_CHECKING:
    import xarray as xr

    from bayesdp.queries import Query
    from bayesdp.release import Release

_TEXT = """\
One self-contained HTML file: the result first; what is exact, the noise law and whom it protects; published
value, posterior mean and interval for each cell and total; parameters; the prior; convergence; sensitivity; a
methods paragraph to cite. All tables and releases of the model are in it."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "report",
        run,
        title="write an HTML report of a posterior",
        text=_TEXT,
        example="bayesdp report posterior.nc -o report.html",
    )
    command.add_argument("posterior", metavar="POSTERIOR", help="file written by `bayesdp fit`")
    command.add_argument("--prob", type=float, default=0.95, help="probability of the intervals (default: 0.95)")
    command.add_argument("--title", help="title of the report")
    command.add_argument("--question", metavar="TEXT", help="what you want to know; the report begins with it")
    command.add_argument(
        "--headline",
        metavar="WHAT",
        help=f"what answers it: a parameter of the model, or a query: {FORMS} (default: odds ratio or cells)",
    )
    command.add_argument(
        "--truth",
        metavar="TABLE",
        help="the confidential table, in a simulation; the report then contains it, and says so",
    )
    add_table_options(command)
    add_output(command, "the report, an .html file")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import probability
    from bayesdp.cli.files import read_posterior
    from bayesdp.storage import check_output

    probability(args.prob, "--prob")
    check_suffix(args.output, (".html", ".htm"), "a report is written to an .html file")
    check_output(args.output, overwrite=args.force)
    posterior, release = read_posterior(args.posterior)
    headline = None if args.headline is None else _headline(args.headline, posterior, release)
    truth = None
    if args.truth is not None:
        from bayesdp.tables import read_table

        truth = read_table(args.truth, **table_options(args))
    from bayesdp.report import report

    report(
        posterior,
        args.output,
        prob=args.prob,
        truth=truth,
        title=args.title,
        question=args.question,
        headline=headline,
        overwrite=args.force,
    )
    announce(args.output, f"written to {args.output}")
    return status_of(posterior)


def _headline(text: str, posterior: xr.DataTree, release: Release) -> Query | str:
    """A parameter by its name, else a query of the (first) table."""
    from bayesdp.cli.queries import parse_query

    if text in posterior["posterior"].data_vars:
        return text
    try:
        return parse_query(text, release.frame)
    except ValueError as error:
        variables = ", ".join(str(name) for name in posterior["posterior"].data_vars)
        raise ValueError(f"--headline must be a parameter of the model ({variables}) or a query; {error}") from None

"""The command line: from published files to a posterior and a report.

Each subcommand has a function that adds it to the parser, and one that runs it and returns the exit status. Whatever is slow to
import is imported in the latter, so that ``bayesdp --help`` answers at once.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from collections.abc import Sequence

import bayesdp
from bayesdp.cli import calibrate, demo, fit, import_, posteriors, releases
from bayesdp.cli.errors import OneLineParser, run_safely, terminating_signals

__all__ = ["main", "parser"]

_EXAMPLE = """\
from published files to a report:
  bayesdp import noisy.csv --exact margins.csv --law 'discrete-gaussian sigma=5' -o release.nc
  bayesdp fit release.nc --prior log-linear --seed 1 -o posterior.nc
  bayesdp summary posterior.nc --prob 0.95
  bayesdp report posterior.nc -o report.html
  bayesdp test release.nc -o test.json               (a 2 x 2 table with both margins: the odds ratio)

exit status: 0 done; 2 bad input, with one line that says what; 3 done, but convergence is not shown;
4 done, but the model is not calibrated; 130 interrupted by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP (a closed
terminal): `fit` and `calibrate` have saved what they had, and standard error says what was written
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = OneLineParser(
        prog="bayesdp",
        description="Bayesian inference from differentially private releases that keep exact statistics.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"bayesdp {bayesdp.__version__}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    adding = (
        import_.add, releases.add_release, fit.add, posteriors.add_summary, posteriors.add_report, releases.add_test, calibrate.add,
        demo.add,
    )  # fmt: skip
    for add in adding:
        add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default with the arguments of the process; the exit status, which `_EXAMPLE` explains."""
    given = sys.argv[1:] if argv is None else list(argv)
    args = parser().parse_args(given)
    if argv is None:  # the process is ours: its objects are searched for circles rarely, and not at its end (a second)
        gc.set_threshold(20_000)
        atexit.register(gc.freeze)
    args.argv = given
    with terminating_signals():
        return run_safely(args.run, args)

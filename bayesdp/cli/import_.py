"""``bayesdp import``: published files in, a release out."""

from __future__ import annotations

import argparse
from typing import Any

from bayesdp.cli.arguments import add_command, add_output, add_table_options, table_options

__all__ = ["add", "run"]

_TEXT = """\
The noisy table is a CSV file (long or wide) or netCDF; the exact margins are CSV. The noise law and its
scale are in the agency's methods note:
  discrete-laplace b=4               independent integers, mass ~ exp(-|k| / b): two-sided geometric
  discrete-gaussian sigma=5          independent integers, mass ~ exp(-k^2 / (2 sigma^2))
  laplace b=4                        independent real numbers, density ~ exp(-|z| / b)
  gaussian sigma=5                   independent real numbers, density ~ exp(-z^2 / (2 sigma^2))
  lattice-laplace epsilon=0.25 norm=l1    integers that change no exact value, ~ exp(-epsilon * norm)
  lattice-gaussian sigma=5           integers that change no exact value, ~ exp(-l2^2 / (2 sigma^2))
  projected-gaussian sigma=5         real numbers that change no exact value, same form
For the first four, 'epsilon=0.5 sensitivity=2' stands for b (b = sensitivity / epsilon), 'rho=0.1 sensitivity=1' for
sigma (sigma = sensitivity / sqrt(2 rho)), and 'variance=25' or 'standard deviation=5' for either.

Numbers that were clipped, rounded or made consistent after the noise was added follow no such law: if you know it, say so
with --postprocessing, and they are refused. If the numbers themselves show it, import warns.
docs/FILES.md describes the files."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    own = add_command(
        commands,
        "import",
        run,
        title="make a release from published files",
        text=_TEXT,
        example="bayesdp import noisy.csv --exact margins.csv --law 'discrete-gaussian sigma=5' -o release.nc",
    )
    own.add_argument("table", metavar="NOISY", help="the noisy table, .csv or .nc")
    own.add_argument(
        "--law", required=True, metavar="LAW", help="law of the noise, such as 'discrete-gaussian sigma=5'"
    )
    own.add_argument(
        "--exact",
        action="append",
        default=[],
        metavar="CSV",
        help="file of exact margins or totals; may be repeated",
    )
    own.add_argument(
        "--unmeasured",
        action="append",
        default=[],
        metavar="CELL",
        help="a cell that was not published, as 'county=Alpha, education=Low', or 'blank' for all cells "
        "left empty in the file; may be repeated",
    )
    own.add_argument(
        "--postprocessing",
        default="none",
        metavar="WHAT",
        help="what was done to the table after the noise was added, such as 'clipped at zero'; anything but 'none' is refused, "
        "with the reason",
    )
    own.add_argument(
        "--simulated",
        action="store_true",
        help="the noise came from a seeded generator (an example, not a publication)",
    )
    add_table_options(own)
    add_output(own, "the release: release.nc, or a folder of CSV files (a name without a suffix)")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    import warnings

    import numpy as np

    from bayesdp.cli.errors import say
    from bayesdp.cli.files import check_release_path, write_release
    from bayesdp.consistency import PostProcessedWarning, signs_of_post_processing
    from bayesdp.measurements import Measured
    from bayesdp.noise import parse_law
    from bayesdp.queries import Identity
    from bayesdp.release import Release
    from bayesdp.tables import read_margins, read_table

    check_release_path(args.output, force=args.force)
    law = parse_law(args.law)
    table = read_table(args.table, **table_options(args))
    query = Identity(table)
    exact = [part for path in args.exact for part in read_margins(path, table)]
    names = [name for name in args.unmeasured if name != "blank"]
    if "blank" in args.unmeasured:
        names += [query.names[i] for i in np.flatnonzero(np.isnan(table.values.reshape(-1)))]
    try:
        measured = Measured(query, table, law, unmeasured=names, postprocessing=args.postprocessing)
    except ValueError as error:
        raise ValueError(f"{args.table}: {error}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostProcessedWarning)  # said below, in one line
        release = Release.from_published(table, [measured], exact, simulated=args.simulated)
    told = signs_of_post_processing(release.measurements, release.exact)
    write_release(release, args.output, force=args.force)
    print(f"{release!r}\nwritten to {args.output}")
    if told is not None:
        say(f"bayesdp import: warning: {args.table}: {told}")
    return 0

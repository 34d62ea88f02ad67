"""``bayesdp import``: published files in, a release out."""

from __future__ import annotations

import argparse
from typing import Any

from bayesdp.cli.arguments import add_command, add_output, add_repeatable, add_table_options
from bayesdp.cli.published import FileOrLaw, published_release_parts

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
with --postprocessing, and they are refused. If the numbers themselves show it, import warns; if noisy sums all add up, it refuses
(see --adding-up).

Several noisy files make one release: name further ones with --noisy, each followed by its own --law. They hold margins or
totals in the form of the exact ones, or another noisy table of the same cells:
  bayesdp import cells.csv --law 'discrete-gaussian sigma=5' --noisy margins.csv --law 'discrete-gaussian sigma=2' ...
Lines or columns of totals within the table are declared, --total county=Total: they are measurements under the law of the file.
The noise of the files, and of the margins in one file, must be independent of one another.

A table of an office with symbols, separators of thousands, titles or another encoding is read as --declare says, and nothing is
guessed: --declare '{"delimiter": ";", "skip_rows": 2, "thousands": ".", "symbols": {"..": "suppressed"}}' --unmeasured blank

A file noise.json that came with the data says all of this: the query and the law of each column, what is exact, what was not
published. Then no other option is needed:
  bayesdp import DATA.csv --noise DATA.noise.json -o release.nc

docs/FILES.md describes the files."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "import",
        run,
        title="make a release from published files",
        text=_TEXT,
        example="bayesdp import noisy.csv --exact margins.csv --law 'discrete-gaussian sigma=5' -o release.nc",
    )
    command.add_argument("table", metavar="NOISY", help="the noisy table, .csv or .nc")
    command.add_argument(
        "--law",
        action=FileOrLaw,
        dest="noisy",
        metavar="LAW",
        help="law of the noise of the file before it, such as 'discrete-gaussian sigma=5'",
    )
    command.add_argument(
        "--noisy",
        action=FileOrLaw,
        dest="noisy",
        metavar="FILE",
        help="a further file of noisy margins, totals or cells, followed by its --law; may be repeated",
    )
    command.add_argument(
        "--noise",
        metavar="JSON",
        help="the file noise.json that says what the columns of the table are, in place of other options",
    )
    add_repeatable(command, "--exact", "CSV", "file of exact margins or totals")
    add_repeatable(
        command,
        "--unmeasured",
        "CELL",
        "a noisy cell or sum that was not published, as 'county=Alpha, education=Low', or 'blank' for all "
        "fields left empty in the noisy files",
    )
    command.add_argument(
        "--postprocessing",
        default="none",
        metavar="WHAT",
        help="what was done to the noisy numbers after the noise was added, such as 'clipped at zero'; anything but 'none' "
        "is refused, with the reason",
    )
    command.add_argument(
        "--adding-up",
        choices=("refuse", "warn"),
        default="refuse",
        help="what to do with noisy sums that all add up exactly, which independent noise does not, and with two measurements of the "
        "same that differ by more than their laws explain: they are refused, or taken as they are with a warning",
    )
    command.add_argument(
        "--simulated",
        action="store_true",
        help="the noise came from a seeded generator (an example, not a publication)",
    )
    add_table_options(command)
    add_output(command, "the release: release.nc, or release.csv with release.noise.json beside it")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    import warnings

    from bayesdp.cli.errors import announce, say
    from bayesdp.cli.files import check_release_path, write_release
    from bayesdp.consistency import PostProcessedWarning, signs_of_post_processing
    from bayesdp.release import Release

    check_release_path(args.output, force=args.force)
    if args.noise is not None:
        _check_alone(args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostProcessedWarning)  # said below, in one line
        if args.noise is not None:
            release = Release.from_csv(args.table, noise=args.noise)
        else:
            table, measured, exact = published_release_parts(args)
            release = Release.from_published(table, measured, exact, simulated=args.simulated, adding_up=args.adding_up)
    check = release.law_check
    signs = signs_of_post_processing(release.measurements, release.exact, check.groups), check.warning
    write_release(release, args.output, force=args.force)
    announce(args.output, f"{release!r}\nwritten to {args.output}")
    for told in filter(None, signs):
        say(f"bayesdp import: warning: {args.table}: {told}")
    return 0


_STATED = {
    "noisy": "--law or --noisy", "exact": "--exact", "unmeasured": "--unmeasured", "simulated": "--simulated", "dims": "--dims",
    "value": "--value", "group": "--group", "ignore": "--ignore", "total": "--total",
}  # fmt: skip
"""What ``noise.json`` says itself: where the option is kept, and its name."""


def _check_alone(args: argparse.Namespace) -> None:
    """Refuse options beside --noise: two statements of one thing may contradict each other."""
    given = [option for name, option in _STATED.items() if getattr(args, name)]
    given += ["--postprocessing"] if args.postprocessing != "none" else []
    given += ["--layout"] if args.layout != "auto" else []
    given += ["--declare"] if args.declare != "{}" else []
    if given:
        raise ValueError(f"--noise says what the file is, so leave out {', '.join(given)}; or correct {args.noise}")

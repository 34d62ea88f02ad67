"""``bayesdp release``: a confidential table in, a release out; ``bayesdp test``: releases in, a test of the odds ratio out."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from bayesdp import _text
from bayesdp._text import printable
from bayesdp.cli.arguments import (
    FORMS,
    add_command,
    add_output,
    add_repeatable,
    add_table_options,
    pairs,
    parse_query,
    table_options,
)
from bayesdp.cli.errors import announce, show

if TYPE_CHECKING:
    from bayesdp.frames import Frame
    from bayesdp.significance import OddsRatioResult

_RELEASE_TEXT = """\
For whoever has the confidential table. The invariants are published exactly, the cells with noise that
changes none of them. Without --seed integer noise is made of the operating system's entropy wherever an
exact sampler is known; real noise comes from NumPy's PCG64 generator, which the operating system seeds, and
which is no cryptographic one. The guarantee says which it was. Nothing of it is kept. With --seed the release
is marked as simulated, because whoever knows the seed can subtract the noise.

Labels are published with the release: they must come from a public list. What is wrong with the table is said
by line, column and rule; messages show none of its numbers, and no label with a digit in it."""

_MECHANISMS = (
    "correlated-gaussian", "extended-gaussian", "extended-laplace", "k-norm", "lattice-gaussian", "lattice-laplace",
    "projected-gaussian", "projected-laplace",
)  # fmt: skip
"""``k-norm`` is the class ``KNorm``; written down here so that --help does not import them."""

_PARAMETERS = ("epsilon", "delta", "rho", "mu", "norm", "sensitivity", "neighbours")


def add_release(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "release",
        release,
        title="release a confidential table with noise that keeps its invariants",
        text=_RELEASE_TEXT,
        example="bayesdp release table.csv --invariant margins:county --invariant margins:education "
        "--mechanism lattice-laplace\n      --epsilon 0.25 --norm l1 -o release.nc",
    )
    command.add_argument("table", metavar="TABLE", help="the confidential table, .csv or .nc")
    exact = f"what is published exactly: {FORMS.removesuffix(', cells')}"
    add_repeatable(command, "--invariant", "QUERY", exact, required=True)
    command.add_argument("--mechanism", required=True, choices=_MECHANISMS, help="how the noise is drawn")
    command.add_argument("--epsilon", type=float, help="privacy loss; with --delta for the Gaussian mechanisms")
    command.add_argument("--delta", type=float, help="probability of a larger loss, with --epsilon")
    command.add_argument("--rho", type=float, help="zero-concentrated privacy loss of the Gaussian mechanisms")
    command.add_argument("--mu", type=float, help="Gaussian privacy loss of the mechanisms with real normal noise")
    noisy = f"what the noise is added to, for mechanisms with real noise: {FORMS}; repeat to stack (default: cells)"
    command.add_argument("--query", action="append", metavar="QUERY", help=noisy)
    changes = "what one person can change, for mechanisms with real noise (default: substitution)"
    command.add_argument("--neighbours", choices=("substitution", "add-remove"), help=changes)
    command.add_argument("--norm", choices=("l1", "l2"), help="norm of the lattice Laplace noise (default: l1)")
    command.add_argument("--sensitivity", type=float, help="difference, in counts, that the loss is of (default: 1)")
    command.add_argument("--seed", type=int, help="seed of a simulated release, which protects nobody")
    add_table_options(command)
    add_output(command, "the release: release.nc, or release.csv with release.noise.json beside it")


def release(args: argparse.Namespace) -> int:
    """Do it."""
    from dataclasses import MISSING, fields

    import numpy as np

    from bayesdp import mechanisms
    from bayesdp.cli.files import check_release_path, write_release
    from bayesdp.frames import Frame
    from bayesdp.invariants import Invariants
    from bayesdp.tables import read_table

    check_release_path(args.output, force=args.force)
    table = read_table(args.table, **table_options(args), confidential=True)
    frame = Frame.of(table)
    invariants = Invariants([parse_query(text, frame) for text in args.invariant]).query
    kind = getattr(mechanisms, args.mechanism.title().replace("-", ""))
    required = {item.name: item.default is MISSING for item in fields(kind)}
    given = {key: getattr(args, key) for key in _PARAMETERS if getattr(args, key) is not None}
    for key in given:
        if key not in required:
            known = ", --".join(name for name in required if name in _PARAMETERS)
            raise ValueError(f"--{key} is no parameter of {args.mechanism}, which takes --{known}")
    for key, needed in required.items():
        if needed and key in _PARAMETERS and key not in given:
            raise ValueError(f"{args.mechanism} needs --{key}")
    if args.query:
        if "query" not in required:
            raise ValueError(f"--query is no parameter of {args.mechanism}, whose noise is on the cells")
        first, *others = (parse_query(text, frame) for text in args.query)
        given["query"] = sum(others, first)
    mechanism = kind(invariants, **given)
    rng = None if args.seed is None else np.random.default_rng(args.seed)
    made = mechanism.release(table, rng=rng)
    write_release(made, args.output, force=args.force)
    announce(args.output, f"{made!r}\n\n{made.guarantee}\n\nwritten to {args.output}")
    return 0


_TEST_TEXT = """\
For a release of a 2 x 2 table with both margins exact. Prints an estimate of the odds ratio (median-unbiased: as often
too small as too large), a confidence interval and a p-value, two-sided unless --alternative says otherwise, as R's
fisher.test. The two-sided p-value is twice the smaller one-sided one. P-value and interval are exact in size; with a
one-sided --alternative the output says for which trade-off function the test is uniformly most powerful among unbiased
ones. Nothing but the release is used: no further privacy is spent.

Several releases of the same table, each with noise of its own, make one test: of a mean of all noisy corners, with
weights near the inverse variances of the noise. Its size is exact, too.

Integer noise is made continuous by adding one draw from U(-1/2, 1/2), so that the p-value is random. The uniform is
printed and written with -o: keep the first result. Running the command again draws another one, and choosing among
them makes the p-value wrong."""


def add_test(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "test",
        test,
        title="test the odds ratio of a released 2 x 2 table",
        text=_TEST_TEXT,
        example="bayesdp test release.nc --cell sex=men --cell admission=admitted -o test.json",
    )
    files = "a release: a .nc file, or a .csv file with noise.json; several of the same table"
    command.add_argument("releases", nargs="+", metavar="RELEASE", help=files)
    sides = ("two-sided", "greater", "less")
    where = "where the odds ratio x11 x22 / (x12 x21) lies if not at the null (default: two-sided)"
    command.add_argument("--alternative", choices=sides, default="two-sided", help=where)
    command.add_argument("--null", type=float, default=1.0, metavar="RATIO", help="odds ratio of the null (default: 1)")
    command.add_argument("--level", type=float, default=0.95, help="confidence level of the interval (default: 0.95)")
    corner = "the cell that is x11; once for each dimension (default: the first labels)"
    command.add_argument("--cell", action="append", default=[], metavar="DIM=LABEL", help=corner)
    command.add_argument("--seed", type=int, help="seed of the uniform, for examples and simulations (default: none)")
    command.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")
    add_output(command, "write the result to this file as JSON, too", required=False)


def test(args: argparse.Namespace) -> int:
    """Do it."""
    import numpy as np

    from bayesdp._validate import nonnegative_integer, probability
    from bayesdp.cli.files import need_counts, read_releases
    from bayesdp.significance import odds_ratio_test_from_releases
    from bayesdp.storage import check_output, write_text

    probability(args.level, "--level")
    seed = None if args.seed is None else nonnegative_integer(args.seed, "--seed")
    if args.output:
        check_output(args.output, overwrite=args.force)
    release = read_releases(args.releases)
    need_counts(release, "the tests are about tables of two rows and columns")
    cell, rng = _cell(args.cell, release.frame), None if seed is None else np.random.default_rng(seed)
    result = odds_ratio_test_from_releases(release, args.alternative, args.null, cell=cell, rng=rng)
    content = _content(result, args.level, simulated=release.simulated, seed=seed)
    written = _text.dumps(content, "the result", indent=1)
    text = written if args.format == "json" else _words(result, release.frame, content)
    if args.output:
        write_text(args.output, written + "\n", overwrite=args.force)
        announce(args.output, text)
    else:
        show(text)
    return 0


def _cell(given: list[str], frame: Frame) -> dict[str, Any] | None:
    """Labels as the frame has them: numbers are written as text on the command line."""
    by_text = {
        dim: {str(label): label for label in labels} for dim, labels in zip(frame.dims, frame.labels, strict=True)
    }
    wanted = pairs(given, "--cell")
    return {dim: by_text.get(dim, {}).get(text, text) for dim, text in wanted.items()} or None


def _content(result: OddsRatioResult, level: float, *, simulated: bool, seed: int | None) -> dict[str, Any]:
    """Plain data; an estimate or an end of the interval that is infinite is null."""
    low, high = result.confidence_interval(level)
    estimate, low_shown, high_shown = (own if math.isfinite(own) else None for own in (result.estimate, low, high))
    empty = low == math.inf or high == 0.0
    names = ("statistic", "published", "uniform", "seed", "rows", "column", "tradeoff", "claim", "optimal", "simulated")
    more = {"seed": seed, "simulated": simulated, "rows": list(result.rows)}
    return {
        "test": "odds ratio",
        "cell": result.cell,
        "estimate": estimate,
        "pvalue": result.pvalue,
        "alternative": result.alternative,
        "null": result.null,
        "interval": {"level": level, "low": low_shown, "high": high_shown, "empty": empty},
        **{name: more[name] if name in more else getattr(result, name) for name in names},
    }


def _words(result: OddsRatioResult, frame: Frame, content: dict[str, Any]) -> str:
    """The result as lines for a reader."""
    low, high = result.confidence_interval(content["interval"]["level"])
    interval = f"  {low:.6g} to {_number(high)}"
    if content["interval"]["empty"]:
        interval = ": empty, the noisy corner is far off what the margins allow"
    estimate = f"{_number(result.estimate)}  (median-unbiased)"
    lines = [
        f"odds ratio x11 x22 / (x12 x21) of {printable(frame.dims[0])} by {printable(frame.dims[1])}, "
        f"x11 at {printable(result.cell)}",
        "",
        f"estimate  {'none, the margins determine the table' if result.determined else estimate}",
        f"{100 * content['interval']['level']:.10g}% confidence interval{interval}",
        f"p-value  {result.pvalue:.6g}  (alternative: {result.alternative}, null: {result.null:g})",
        "",
        f"noisy corner  {result.published:.10g}; exact totals: rows {result.rows[0]} and {result.rows[1]}, column {result.column}",
        f"the test is {result.claim}" if result.optimal else result.claim,
    ]
    if result.uniform is not None:
        lines += [
            f"uniform added to the noisy corner  {result.uniform!r}",
            "Keep this result: running the command again draws another uniform, and choosing among p-values makes them wrong.",
        ]
        if content["seed"] is not None:
            lines.append(
                f"The uniform comes from the seed {content['seed']}: whoever chooses the seed chooses the p-value."
            )
    if content["simulated"]:
        lines.append("simulated release: the noise came from a seeded generator")
    return "\n".join(lines)


def _number(value: float) -> str:
    return "infinity" if value == math.inf else f"{value:.6g}"

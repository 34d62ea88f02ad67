"""What ``bayesdp summary`` says of shares, ratios, changes, ranks and probabilities."""

from __future__ import annotations

import argparse
import math
import shlex
from typing import TYPE_CHECKING, Any

from bayesdp._text import aligned, csv_text, dumps, printable, width
from bayesdp.cli.arguments import add_repeatable
from bayesdp.cli.errors import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from bayesdp.posterior import Derived, PosteriorModel
    from bayesdp.release import Release

_TEXT = """\
CELLS are named by labels: 'sex=women', 'age=0-4,5-9' (or), 'sex=women*age=0-4' (and), 'total'; groups like state as
well as dimensions. What holds , * = or an operator between blanks stands in double quotes: 'county="Cook, IL"'."""

_OPTIONS = ("sum", "share", "ratio", "probability", "by", "rank", "top", "ascending", "change")


def add_options(command: Any) -> None:
    """Add what asks for derived quantities."""
    group = command.add_argument_group("quantities that follow from the counts", _TEXT)
    add_repeatable(group, "--sum", "CELLS", "a sum 'A + B', or a difference 'A - B'")
    add_repeatable(group, "--share", "CELLS", "the share of some cells in all (with the same labels of --by)")
    add_repeatable(group, "--ratio", "'A / B'", "a ratio of sums; draws in which B is 0 are left out, and counted")
    add_repeatable(group, "--probability", "'A > B'", "of a comparison (> < >= <= =) of sums, ratios or numbers")
    group.add_argument(
        "--by", metavar="DIM", help="one row for each label of a dimension or group, or several: DIM*DIM"
    )
    rank = "also ranks of the labels of a dimension, 1 the largest, by each sum, share, ratio (default: counts) or its change"
    group.add_argument("--rank", metavar="DIM", help=rank)
    group.add_argument("--top", type=int, metavar="K", help="with --rank: probabilities of being among the K largest")
    group.add_argument("--ascending", action="store_true", help="with --rank: 1 is the smallest")
    change = "also changes since another posterior, of an independent release, or (with --var) since table:NAME of this"
    group.add_argument("--change", metavar="FILE", help=change)


def asked(args: argparse.Namespace) -> bool:
    """Whether there is any such option."""
    given = [getattr(args, name) for name in _OPTIONS]
    return any(own not in (None, []) and own is not False for own in given)  # 0 is an answer, and equals False


def _quantities(args: argparse.Namespace, table: str) -> dict[str, Derived]:
    """What the options ask for, by name."""
    from bayesdp.cli.files import check_distinct, read_posterior
    from bayesdp.posterior import Derived
    from bayesdp.posterior.selections import names_of, split

    if args.rank is None and (args.top is not None or args.ascending):
        raise ValueError("--top and --ascending are about --rank DIM, and there is none")
    by = () if args.by is None else names_of(args.by)
    events = [Derived.probability(text, by=by, table=table) for text in args.probability]
    by = by if args.rank is None or args.rank in by else (*by, args.rank)
    found = [Derived.total(text, by=by, table=table) for text in args.sum]
    found += [Derived.share(text, by=by, table=table) for text in args.share]
    for text in args.ratio:
        sides, _ = split(text, r"\s/\s")
        if len(sides) != 2:
            raise ValueError(f"--ratio is written as 'A / B', with blanks around the stroke, got {text!r}")
        found.append(Derived.ratio(*sides, by=by, table=table))
    if not found and (args.rank is not None or args.change is not None or not events):
        found = [Derived.total(by=by, table=table)]
    ranked = found
    if args.change is not None:
        check_distinct([args.posterior, args.change])
        name = args.change.removeprefix("table:")
        since = name if name != args.change else read_posterior(args.change)[0]
        ranked = [own.change(since) for own in found]
        relative = [own.change(since, relative=True) for own in found]
        found = [*found, *ranked, *relative, *(change.exceeds(0) for change in ranked)]
    if args.rank is not None:
        found = [*found, *(own.rank(args.rank, ascending=args.ascending) for own in ranked)]
    if args.top is not None:
        found += [own.top(args.top, args.rank, ascending=args.ascending) for own in ranked]
    names = {str(own): own for own in [*found, *events]}
    if len(names) < len(found) + len(events):
        raise ValueError("a quantity is asked for twice")
    return names


def summarise(args: argparse.Namespace, form: str, model: PosteriorModel, release: Release) -> tuple[str, bool | None]:
    """The summary as text of some form, and whether all posteriors that it is made from converged."""
    from bayesdp._validate import nearest
    from bayesdp.posterior import summary

    tables = [table.name for table in model.published_tables()]
    if args.query is not None:
        raise ValueError("--query is a summary of its own; for sums by labels there are --sum and --by")
    if args.var is not None and args.var not in tables:
        raise ValueError(f"--var: the posterior has no table {args.var!r}; it has {nearest(args.var, tables)}")
    since = (args.change or "").removeprefix("table:")
    if args.var is None and len(tables) > 1 and since in tables and since != args.change:
        later = shlex.quote(next(name for name in tables if name != since))
        command = f"bayesdp summary {shlex.quote(args.posterior)} --var {later} --change {shlex.quote(args.change)}"
        raise ValueError(f"--change {args.change} needs --var, the table that has changed since: {command}")
    quantities = _quantities(args, tables[0] if args.var is None else args.var)
    table = summary(model.tree, quantities, prob=args.prob, columns=True)
    table.attrs["notes"] += ["simulated release: the noise came from a seeded generator"] * release.simulated
    converged = table.attrs["converged"]
    if form == "table":
        return _text_of(table, f"{100 * args.prob:.10g}"), converged
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    if form == "csv":
        for note in table.attrs["notes"]:
            say(note)
    return written(form, {**table.attrs, "simulated": release.simulated}, table.columns, rows), converged


def written(form: str, heading: dict[Any, Any], names: Iterable[str], rows: Sequence[dict[Any, Any]]) -> str:
    """A summary as CSV under these names, with the labels of `csv_label`, or as JSON, with its heading."""
    if form == "csv":
        return csv_text(names, (row.values() for row in rows)).rstrip("\n")
    return dumps({**heading, "rows": rows}, "the summary", indent=1)


def in_columns(lines: Sequence[Sequence[str]], left: int) -> list[str]:
    """Lines of cells under one another, the first `left` of each line and the last one to the left."""
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    filled = ([aligned(text, widths[k], right=k >= left) for k, text in enumerate(line[:-1])] for line in lines)
    return ["  ".join([*row, line[-1]]).rstrip() for row, line in zip(filled, lines, strict=True)]


def _number(value: float, sd: float = math.nan) -> str:
    """A number, with two digits of its standard deviation at least."""
    if not math.isfinite(value) or value == 0.0:
        return "-" if math.isnan(value) else f"{value:g}"
    whole = math.floor(math.log10(abs(value))) + 1  # digits before the point
    digits = whole - math.floor(math.log10(sd)) + 1 if 0.0 < sd < math.inf else 0
    large = f".{min(max(digits - whole, 0), 9)}f"
    return format(value, large if abs(value) >= 1000 else f".{min(max(digits, 4), 15)}g")


def _text_of(table: pd.DataFrame, percent: str) -> str:
    """One block a quantity, with what the numbers are above and what the marks mean below."""
    chains, draws = table.attrs["chains"], table.attrs["draws"]
    drawn = f"{chains} chains of {draws}" if chains else f"{draws} independent"
    lines = [f"{drawn} draws; {percent}% equal-tailed intervals"]
    ends = [f"eti{percent}_lower", f"eti{percent}_upper"]
    for part, block in table.groupby("part", sort=False):
        labels = [name for name in table.columns[1 : table.columns.get_loc("mean")] if block[name].notna().any()]
        event = block[ends].isna().all(axis=None) and block["mean"].notna().any()
        shown = {"mean": "mean", "sd": "sd", ends[0]: f"[{percent}%", ends[1]: f"{percent}%]"}
        shown = {"mean": "probability", "mcse": "mcse"} if event else shown
        rows = [[*map(printable, labels), *shown.values(), "ess", "rhat", ""]]
        for row in block.to_dict("records"):
            one = row["status"] in ("exact", "determined")
            numbers = ["-" if one and name != "mean" else _number(row[name], row["sd"]) for name in shown]
            rhat = "-" if math.isnan(row["rhat"]) else f"{row['rhat']:.3f}"
            cells = [printable(row[name]) for name in labels]
            rows.append([*cells, *numbers, _number(row["ess_bulk"] // 1), rhat, row["status"]])
        lines += ["", printable(part), *in_columns(rows, len(labels))]
    marks = {
        "exact": "follows from values that are published exactly",
        "determined": "the exact values leave one possible value; nothing protects it",
    }
    seen = set(table["status"])
    told = [f"{mark}: {words}; there is nothing to estimate" for mark, words in marks.items() if mark in seen]
    return "\n".join([*lines, "", table.attrs["message"], *map(printable, table.attrs["notes"]), *told])

"""``bayesdp summary`` and ``bayesdp report``: a posterior in, a table or an HTML page out."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp._text import printable
from bayesdp.cli import derived
from bayesdp.cli.arguments import (
    FORMS,
    add_command,
    add_output,
    add_table_options,
    check_output_file,
    parse_query,
    table_options,
)
from bayesdp.cli.errors import ADVICE, NOT_CONVERGED, announce, banner, show, status_of

if TYPE_CHECKING:
    from bayesdp.posterior import Answers, PosteriorModel
    from bayesdp.queries import Query

_SUFFIXES = {"table": ".txt", "csv": ".csv", "json": ".json"}
"""Forms of a summary, and how the names of their files end."""

_SUMMARY_TEXT = """\
For each cell, each answer of a query, or each element of a parameter (--var): the published noisy value, the
posterior mean and standard deviation, the equal-tailed interval, effective sample sizes and R-hat. Exact sums, and
cells that the exact values determine, are marked and show their one possible value: nothing protects it, and there
is nothing to estimate."""


def add_summary(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "summary",
        summarise,
        title="summarise a posterior as a table",
        text=_SUMMARY_TEXT,
        example="bayesdp summary posterior.nc --prob 0.95 --format csv --query totals:state",
    )
    command.add_argument("posterior", metavar="POSTERIOR", help="file written by `bayesdp fit`")
    command.add_argument("--prob", type=float, default=0.95, help="probability of the intervals (default: 0.95)")
    formats = "(default: that of the output's name, else table)"
    command.add_argument("--format", choices=tuple(_SUFFIXES), help=formats)
    command.add_argument("--query", metavar="QUERY", help=f"sums of the counts to summarise: {FORMS} (default: cells)")
    command.add_argument("--var", metavar="NAME", help="a parameter, or another table (default: the first table)")
    derived.add_options(command)
    add_output(
        command,
        f"write the summary to this file ({', '.join(_SUFFIXES.values())}) and not to the screen",
        required=False,
    )


def summarise(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import nearest, probability
    from bayesdp.cli.files import read_posterior
    from bayesdp.measurements import described
    from bayesdp.posterior import PosteriorModel, SummarisedPosterior, summarise_table, summarise_variable

    probability(args.prob, "--prob")
    ending = "" if args.output is None else Path(args.output).suffix.lower()
    form = args.format or next((name for name, own in _SUFFIXES.items() if own == ending), "table")
    if args.output is not None:
        wanted = f"a summary{f' with --format {form}' if args.format else ''} is written to a file that ends in"
        suffixes = (_SUFFIXES[form],) if args.format else tuple(_SUFFIXES.values())
        check_output_file(args.output, suffixes, f"{wanted} {' or '.join(suffixes)}", force=args.force)
    tree, release = read_posterior(args.posterior)
    model = PosteriorModel(tree)
    if derived.asked(args):
        text, converged = derived.summarise(args, form, model, release)
        status = _deliver(args, form, text, model)
        if status or converged is not False:
            return status
        banner("Do not report these results. The posterior that --change names did not converge: draw more of it.")
        return NOT_CONVERGED
    tables = {table.name: table for table in model.tables}
    if args.var is None and not tables:
        raise ValueError(
            f"the counts that the release is about were not recorded; give --var, one of {', '.join(map(repr, model.names))}"
        )
    name = next(iter(tables)) if args.var is None else args.var
    if name not in model.names:
        raise ValueError(
            f"--var: there is no variable {name!r} in the posterior; there are {nearest(name, model.names)}"
        )
    summarised = next((table for table in tables.values() if isinstance(table, SummarisedPosterior)), None)
    if args.query is not None and name not in tables:
        wrong = f"counts, and {name} is none" if summarised is None else "the cells"
        which = "" if summarised is None else f" {name}"
        raise ValueError(f"--query is about {wrong}; leave one of --query and --var{which} out")
    table, asked = tables.get(name), args.query or "cells"
    if table is not None:
        answers = summarise_table(table, parse_query(asked, table.joint.frame), args.prob)
    elif summarised is not None and name in summarised.recorded:
        table, asked = summarised, described(summarised.recorded[name])
        answers = summarise_table(table, summarised.recorded[name], args.prob)
    else:
        answers = summarise_variable(model.variables[name], args.prob)
    release = release if table is None else table.joint
    heading = {
        "variable": name,
        "query": None if table is None else asked,
        "prob": answers.prob,
        "interval": "equal-tailed",
        "chains": model.chains,
        "draws": int(model.variables.sizes["draw"]),
        "converged": model.converged,
        "simulated": release.simulated,
    }
    if table is not None and release.about == "counts":
        heading["counts"] = "continuous relaxation" if table.relaxed else "whole numbers"
    if form != "table":
        # The names of the interval's columns in CSV say its kind and probability: eti95_lower.
        rows, kind = _rows(answers), f"eti{100 * answers.prob:.10g}"
        columns = [f"{kind}_{column}" if column in ("lower", "upper") else column for column in rows[0]]
        return _deliver(args, form, derived.written(form, {**heading, "message": model.message}, columns, rows), model)
    others = [other for other in model.names if other not in (name, f"{name}_coordinates")]
    more = f"\nother variables: {', '.join(map(printable, others))} (--var NAME)" if others else ""
    return _deliver(args, form, _table(answers, heading, model.message) + more, model)


def _deliver(args: argparse.Namespace, form: str, text: str, model: PosteriorModel) -> int:
    """Print a summary, or write it to the file that was named; the exit status."""
    from bayesdp.storage import write_text

    if args.output is None:
        show(text)
    else:
        write_text(args.output, f"{text}\n", overwrite=args.force)
        announce(args.output, f"written to {args.output}")
    return status_of(model, "" if form == "csv" or args.output is not None else ADVICE)


def _rows(answers: Answers) -> list[dict[str, Any]]:
    """One dictionary an answer: labels, numbers (None where there is none), whether it is determined."""
    columns = answers.columns
    rows = []
    for i in range(len(answers.mean)):
        labels = {dim: own[i] for dim, own in answers.labels.items()}
        numbers = {name: None if math.isnan(own[i]) else float(own[i]) for name, own in columns.items()}
        rows.append({**labels, **numbers, "determined": bool(answers.determined[i])})
    return rows


_FORMATS = {"published": ".6g", "mean": ".2f", "sd": ".2f", "lower": ".6g", "upper": ".6g", "rhat": ".3f"}


def _shown(name: str, value: float | None, counts: bool) -> str:
    """A number as the table has it; parameters and statistics may be small: four digits of these."""
    if value is None:
        return "-"
    small = not counts and name in ("published", "mean", "sd", "lower", "upper")
    return format(value, ".4g" if small else _FORMATS.get(name, ".6g" if name.startswith("published") else ".0f"))


def _table(answers: Answers, heading: dict[str, Any], message: str) -> str:
    """Text in columns, with what the numbers are above and what the marks mean below."""
    percent = f"{100 * answers.prob:.10g}"
    counts = "counts" in heading
    labels = list(answers.labels) or ["answer" if counts else "parameter"]
    names = [name for name in answers.columns if name != "ess_tail"]
    noisy = [name for name in names if name.startswith("published")]
    if not counts and all(map(math.isnan, answers.published)):
        names, noisy = names[len(noisy) :], []
    lines = [[*map(printable, labels), *noisy, "mean", "sd", f"[{percent}%", f"{percent}%]", "ess", "rhat", ""]]
    for i, row in enumerate(_rows(answers)):
        title = [printable(row[dim]) for dim in answers.labels]
        title = title or ["total" if counts else printable(heading["variable"])]
        shown = {name: _shown(name, row[name], counts) for name in names}
        mark = "exact" if answers.exact[i] else "determined" if answers.determined[i] else ""
        if mark:
            # One number is possible: it is not 24.00 with a standard deviation of 0.00.
            shown |= {"mean": f"{answers.value[i]:.0f}", "sd": "-", "lower": "-", "upper": "-"}
        lines.append([*title, *shown.values(), mark])
    of = printable(f"{heading['variable']} ({heading['query']})" if counts else heading["variable"])
    drawn = f"{heading['chains']} chains of {heading['draws']} draws"
    if not heading["chains"]:  # `bayesdp.fit_cells`
        drawn = f"{heading['draws']} independent draws" if counts and heading["query"] != "cells" else "computed"
    first = f"posterior of {of}, {drawn}: mean, standard deviation, {percent}% equal-tailed interval"
    notes = {
        "exact: published exactly, or a sum of such values; there is nothing to estimate": answers.exact.any(),
        "determined: the exact values leave one possible value; nothing protects it, there is nothing to estimate": (
            answers.determined & ~answers.exact
        ).any(),
        "continuous relaxation: real numbers stand for whole ones and are not rounded; cells near 0 are the least accurate": (
            heading.get("counts") == "continuous relaxation"
        ),
        "simulated release: the noise came from a seeded generator": heading["simulated"],
    }
    told = [note for note, holds in notes.items() if holds]
    return "\n".join([first, "", *derived.in_columns(lines, len(labels)), "", message, *told])


_REPORT_TEXT = """\
One self-contained HTML file: the result first; what is exact, the noise law and whom it protects; published
value, posterior mean and interval for each cell and total; parameters; the prior; convergence; sensitivity; a
methods paragraph to cite. All tables and releases of the model are in it."""


def add_report(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "report",
        write_report,
        title="write an HTML report of a posterior",
        text=_REPORT_TEXT,
        example="bayesdp report posterior.nc -o report.html",
    )
    command.add_argument("posterior", metavar="POSTERIOR", help="file written by `bayesdp fit`")
    command.add_argument("--prob", type=float, default=0.95, help="probability of the intervals (default: 0.95)")
    command.add_argument("--title", help="title of the report")
    command.add_argument("--question", metavar="TEXT", help="what you want to know; the report begins with it")
    answer = f"what answers it: a parameter of the model, or a query: {FORMS} (default: odds ratio or cells)"
    command.add_argument("--headline", metavar="WHAT", help=answer)
    truth = "the confidential table, in a simulation; the report then contains it, and says so"
    command.add_argument("--truth", metavar="TABLE", help=truth)
    add_table_options(command)
    add_output(command, "the report, an .html file")


def write_report(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import probability
    from bayesdp.cli.files import read_posterior
    from bayesdp.posterior import PosteriorModel
    from bayesdp.report import report
    from bayesdp.tables import read_table

    probability(args.prob, "--prob")
    check_output_file(args.output, (".html", ".htm"), "a report is written to an .html file", force=args.force)
    posterior, release = read_posterior(args.posterior)
    model = PosteriorModel(posterior)
    headline: Query | str | None = args.headline
    if headline is not None and headline not in model.variables.data_vars:
        try:
            headline = parse_query(args.headline, release.frame)
        except ValueError as error:
            known = ", ".join(map(str, model.variables.data_vars))
            raise ValueError(f"--headline must be a parameter of the model ({known}) or a query; {error}") from None
    report(
        posterior,
        args.output,
        prob=args.prob,
        truth=None if args.truth is None else read_table(args.truth, **table_options(args)),
        title=args.title,
        question=args.question,
        headline=headline,
        overwrite=args.force,
    )
    announce(args.output, f"written to {args.output}")
    return status_of(model)

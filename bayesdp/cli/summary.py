"""``bayesdp summary``: a posterior in, a table of means, standard deviations and intervals out."""

from __future__ import annotations

import argparse
import csv
import io
from typing import TYPE_CHECKING, Any

from bayesdp.cli.arguments import add_command
from bayesdp.cli.queries import FORMS
from bayesdp.cli.verdict import status_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import xarray as xr

    from bayesdp.cli.answers import Answers

__all__ = ["add", "run"]

_TEXT = """\
For each cell, or each answer of a query: the published noisy value, the posterior mean and standard
deviation, the equal-tailed interval, effective sample sizes and R-hat. Cells that the exact values determine
are marked: they have one possible value, nothing protects them, and ESS and R-hat mean nothing there."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    own = add_command(
        commands,
        "summary",
        run,
        title="summarise a posterior as a table",
        text=_TEXT,
        example="bayesdp summary posterior.nc --prob 0.95 --format csv --query totals:state",
    )
    own.add_argument("posterior", metavar="POSTERIOR", help="file written by `bayesdp fit`")
    own.add_argument(
        "--prob", type=float, default=0.95, help="probability of the equal-tailed intervals (default: 0.95)"
    )
    own.add_argument("--format", choices=("table", "csv", "json"), default="table", help="(default: table)")
    own.add_argument("--query", default="cells", metavar="QUERY", help=f"what to summarise: {FORMS} (default: cells)")
    own.add_argument("--var", metavar="NAME", help="the counts in the model (default: those that the release is about)")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import probability
    from bayesdp.cli.answers import summarise
    from bayesdp.cli.files import convergence, read_posterior
    from bayesdp.cli.queries import parse_query
    from bayesdp.storage.counts import counts_name, relaxation_of

    probability(args.prob, "--prob")
    tree, release = read_posterior(args.posterior)
    query = parse_query(args.query, release.frame)
    draws = tree["posterior"].to_dataset()[counts_name(tree, release.dims, args.var)]
    relaxed = relaxation_of(tree, str(draws.name)) is not None
    cells = _determined(tree)
    answers = summarise(draws, query, release, args.prob, cells)
    converged, message = convergence(tree)
    heading = {
        "variable": str(draws.name),
        "query": args.query,
        "prob": answers.prob,
        "interval": "equal-tailed",
        "chains": int(draws.sizes["chain"]),
        "draws": int(draws.sizes["draw"]),
        "converged": converged,
        "simulated": release.simulated,
        "counts": "continuous relaxation" if relaxed else "whole numbers",
    }
    write = {"table": _table, "csv": _csv, "json": _json}[args.format]
    print(write(answers, heading, message))
    return status_of(tree)


def _determined(tree: xr.DataTree) -> npt.NDArray[np.bool_] | None:
    """Which cells have one possible value, where the file says so."""
    if "fiber" not in tree.children:
        return None
    return tree["fiber"].to_dataset()["determined"].values.astype(bool)


_COLUMNS = ("published", "mean", "sd", "lower", "upper", "ess_bulk", "ess_tail", "rhat")


def _rows(answers: Answers) -> list[dict[str, Any]]:
    """One dictionary an answer: labels, numbers (None where there is none), whether it is determined."""
    rows = []
    for i in range(len(answers.mean)):
        labels = {dim: own[i] for dim, own in answers.labels.items()}
        numbers = {name: float(getattr(answers, name)[i]) for name in _COLUMNS}
        shown = {name: None if value != value else value for name, value in numbers.items()}  # NaN differs from itself
        rows.append({**labels, **shown, "determined": bool(answers.determined[i])})
    return rows


def _json(answers: Answers, heading: dict[str, Any], message: str) -> str:
    from bayesdp.storage import strict_json

    return strict_json.dumps({**heading, "message": message, "rows": _rows(answers)}, "the summary", indent=1)


def _percent(prob: float) -> str:
    return f"{100 * prob:.10g}"


def _csv(answers: Answers, heading: dict[str, Any], message: str) -> str:
    """CSV; the names of the interval's columns say its kind and probability: eti95_lower."""
    kind = f"eti{_percent(answers.prob)}"
    names = {"lower": f"{kind}_lower", "upper": f"{kind}_upper"}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = _rows(answers)
    writer.writerow([names.get(name, name) for name in rows[0]])
    writer.writerows(["" if value is None else value for value in row.values()] for row in rows)
    return text.getvalue().rstrip("\n")


_FORMATS = {"published": ".6g", "mean": ".2f", "sd": ".2f", "lower": ".6g", "upper": ".6g", "rhat": ".3f"}


def _table(answers: Answers, heading: dict[str, Any], message: str) -> str:
    """Text in columns, with what the numbers are above and what the marks mean below."""
    percent = _percent(answers.prob)
    labels = list(answers.labels) or ["answer"]
    header = [*labels, "published", "mean", "sd", f"[{percent}%", f"{percent}%]", "ess", "rhat", ""]
    lines = []
    for row in _rows(answers):
        own = [str(row[dim]) for dim in answers.labels] or ["total"]
        shown = {name: "-" if row[name] is None else format(row[name], _FORMATS.get(name, ".0f")) for name in _COLUMNS}
        mark = "determined" if row["determined"] else ""
        lines.append([*own, *(shown[name] for name in _COLUMNS if name != "ess_tail"), mark])
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    text = [
        f"posterior of {heading['variable']} ({heading['query']}), {heading['chains']} chains of "
        f"{heading['draws']} draws: mean, standard deviation, {percent}% equal-tailed interval",
        "",
    ]
    for line in [header, *lines]:
        left = [item.ljust(w) for item, w in zip(line[: len(labels)], widths, strict=False)]
        right = [item.rjust(w) for item, w in zip(line[len(labels) : -1], widths[len(labels) :], strict=False)]
        text.append("  ".join([*left, *right, line[-1]]).rstrip())
    text += ["", message]
    if answers.determined.any():
        text.append("determined: the exact values leave one possible value; ess and rhat mean nothing there")
    if heading["counts"] == "continuous relaxation":
        text.append(
            "continuous relaxation: real numbers stand for whole ones and are not rounded; cells near 0 are the least accurate"
        )
    if heading["simulated"]:
        text.append("simulated release: the noise came from a seeded generator")
    return "\n".join(text)

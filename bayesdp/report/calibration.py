"""A calibration as a page: the verdict, the ranks, the widths of posteriors, what failed, and what could have been noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import xarray as xr

from bayesdp.calibration.sbc import verdict_of
from bayesdp.calibration.verdict import Verdict
from bayesdp.plots.comparisons import calibration_dispersion, calibration_ranks
from bayesdp.report.html import Html, boxed, element, embedded, items, joined, paragraph
from bayesdp.report.page import Section, contents, document
from bayesdp.report.tables import ABSENT, Column, Table, facts, numeric, plural, spread
from bayesdp.storage import check_output, write_text


def calibration_report(
    result: xr.DataTree,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a report of a calibration: one HTML file with everything in it.

    Parameters
    ----------
    result : xarray.DataTree
        What `bayesdp.calibration.sbc` gave, or read from a file.
    path : path
        The file to write, atomically.
    title : str, optional
        Title of the page.
    overwrite : bool, default False
        Whether an existing file may be replaced.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    TypeError
        If the DataTree is something else.
    FileExistsError, FileNotFoundError
        If the file exists and `overwrite` is False, or its folder does not exist.
    """
    target = check_output(path, overwrite=overwrite)
    text = calibration_page(result, title=title)
    write_text(target, text, overwrite=overwrite)
    return target


def calibration_page(result: xr.DataTree, *, title: str | None = None) -> str:
    """The text of the page; arguments as for `calibration_report`."""
    pictures = _pictures(result)  # sees to the type of the result
    verdict = verdict_of(result)
    heading = title or "Simulation-based calibration: a report"
    sections = [
        Section("verdict", "Verdict", _verdict(result, verdict)),
        Section("ranks", "Ranks", pictures[0]),
        Section("widths", "Widths of posteriors", pictures[1]),
        Section("table", "All quantities", _table(verdict)),
        Section("failures", "Simulations that failed", _failures(result)),
        Section("limits", "What this can and cannot notice", _limits(verdict)),
        Section("run", "The run", _run(result)),
    ]
    written = [
        element("section", element("h2", section.title, id=f"{section.anchor}-title"), section.text, id=section.anchor)
        for section in sections
    ]
    body = [
        element("header", element("h1", heading), element("p", _LEAD, class_="lead")),
        contents(sections),
        element("main", *written),
    ]
    return document(heading, body)


_LEAD = (
    "Each simulation drew parameters and a table from the prior, released the table, and fitted the release. Where model, noise "
    "law and sampler are right, the rank of the truth among the posterior's draws is uniform."
)


def _verdict(result: xr.DataTree, verdict: Verdict) -> Html:
    attrs = result["verdict"].attrs
    good, bad = int(attrs["simulations"]), int(attrs["failed"])
    words = "No sign of miscalibration." if verdict.calibrated else "Not calibrated."
    parts = [boxed("good" if verdict.calibrated else "bad", words, str(attrs["message"]))]
    if bad:
        what = (
            f"{bad} of {plural(good + bad, 'simulation')} failed. Ranks are of the others: if fits fail for some truths rather "
            "than at random, the verdict is not about all of the prior."
        )
        parts.append(boxed("warn", "Failures.", what))
    return joined(parts)


def _pictures(result: xr.DataTree) -> tuple[Html, Html]:
    ranks = embedded(
        calibration_ranks(result),
        "Distribution functions of the ranks less the diagonal, the quantities with the smallest p-values first. The bands are "
        "exact: a right quantity leaves the dark one somewhere in 5% of such runs; all of them together leave the light ones with the "
        "probability of a false alarm. Truths that are often in both tails (posteriors too narrow) make a line that rises on both "
        "sides and falls in the middle.",
    )
    drawn = calibration_dispersion(result)
    if drawn is None:
        return ranks, paragraph("No quantity has a posterior of more than one point.")
    widths = embedded(
        drawn,
        "Errors in units of the posterior's standard deviation, root mean square, adapted through ranks to posteriors that "
        "are not normal. Above 1 posteriors are too narrow, below 1 too wide.",
    )
    return ranks, widths


def _table(verdict: Verdict) -> Html:
    rows = sorted(verdict.quantities, key=lambda q: q.p_adjusted)
    table = Table(
        f"P-values of uniform ranks (exact) and of squared standardised errors; the smaller of the two, adjusted for all tests "
        f"(Holm), is compared with {verdict.false_alarm:g}. {ABSENT}: the quantity has no width to be tested.",
        [
            Column("Quantity", [q.name for q in rows], kind="label"),
            numeric("Simulations", [q.n for q in rows], lambda v: f"{v:,.0f}", "simulations"),
            numeric("p, ranks", [q.p_ranks for q in rows], _p, "p_ranks"),
            numeric("p, squared errors", [q.p_dispersion for q in rows], _p, "p_dispersion"),
            numeric("Errors / stated", [q.ratio for q in rows], spread, "ratio"),
            numeric("p, adjusted", [q.p_adjusted for q in rows], _p, "p_adjusted"),
            Column(
                "",
                ["rejected" if q.p_adjusted <= verdict.false_alarm else "" for q in rows],
                kind="text",
                raw={"rejected": [int(q.p_adjusted <= verdict.false_alarm) for q in rows]},
            ),
        ],
        "calibration.csv",
    )
    return table.to_html()


def _p(value: float) -> str:
    return ABSENT if np.isnan(value) else f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _failures(result: xr.DataTree) -> Html:
    group = result["failures"].to_dataset()
    errors = [
        f"simulation {int(k)}: {e}" for k, e in zip(group["simulation"].values, group["error"].values, strict=True)
    ]
    return items(errors, what="failures") if errors else paragraph("None.")


def _limits(verdict: Verdict) -> Html:
    power = verdict.power
    return joined(
        [
            paragraph(f"In one quantity with a normal posterior, {power}."),
            paragraph(
                "Right posteriors of parameters alone do not show that the data were used: the prior itself is calibrated for them. "
                "A prior that is divided by its sum over the tables with the same exact answers, or a fit that leaves out an answer, "
                "shows only in quantities of parameters and data together, such as the log-likelihood or the error of the "
                "exact answers."
            ),
            paragraph(
                "What is calibrated is the model under its own prior. Whether the prior, or the noise that was really added, is that "
                "of the model, no simulation from the model can tell."
            ),
        ]
    )


def _run(result: xr.DataTree) -> Html:
    fits = result["fits"].to_dataset()
    attrs = result.attrs
    reused = {"True": "compiled once for all releases", "False": "built for each release"}
    sampler, versions = (json.loads(attrs[key]) for key in ("sampler", "versions"))
    rows = [
        ("Simulations", str(int(result["verdict"].attrs["simulations"]))),
        ("Failed", str(int(result["verdict"].attrs["failed"]))),
        ("Seed", attrs["seed"]),
        ("Model", reused.get(attrs["model_reused"], "one release only")),
        (
            "Time",
            f"{float(fits['seconds'].sum()):,.0f} s in all, {float(fits['seconds'].median()):.2f} s a simulation (median)",
        ),
        (
            "Smallest effective sample size",
            f"{float(fits['ess'].min()):,.0f}, median {float(fits['ess'].median()):,.0f}",
        ),
        ("Divergences", str(int(fits["divergences"].sum()))),
        ("Sampler", ", ".join(f"{key} {value}" for key, value in sampler.items())),
        ("Versions", ", ".join(f"{key} {value}" for key, value in versions.items())),
    ]
    if attrs.get("command"):
        rows.append(("Command", attrs["command"]))
    if attrs.get("identity"):
        rows.append(("Identity of the model", attrs["identity"]))
    return facts(rows)

"""Pages as a whole: of a posterior, with its sections in their order, and of a calibration."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._validate import instance, probability
from bayesdp.calibration.study import verdict_of
from bayesdp.calibration.verdict import Verdict
from bayesdp.plots.comparisons import calibration_dispersion, calibration_ranks
from bayesdp.posterior import LawComparison, PosteriorModel
from bayesdp.queries import Query
from bayesdp.report import methods, published, reliability, results
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, boxed, element, embedded, items, joined, paragraph
from bayesdp.report.tables import ABSENT, Column, Table, facts, numeric, plural, spread
from bayesdp.storage import check_output, write_text

STYLE = """
:root { color-scheme: light; --ink: #1a1a1a; --soft: #555; --line: #d5d5d5; --ground: #f6f7f9; --accent: #0072b2; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem 1.1rem 4rem; max-width: 60rem; color: var(--ink); background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6rem 0 .2rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; padding-top: .7rem; border-top: 2px solid var(--accent); }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .4rem; }
p, ul, dl { margin: .5rem 0; max-width: 46rem; }
ul { padding-left: 1.3rem; }
a { color: var(--accent); }
.lead, .note, figcaption { color: var(--soft); }
.note, figcaption { font-size: .9rem; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; font-size: .92rem; }
.banner { border-left: 6px solid; padding: .7rem 1rem; margin: .9rem 0; max-width: none; border-radius: 2px; }
.bad { border-color: #b00020; background: #fdecee; } .warn { border-color: #d55e00; background: #fff3e6; }
.good { border-color: #00724f; background: #e9f6f1; }
.banner strong:first-child { display: block; }
.scroll { overflow-x: auto; margin: .4rem 0; -webkit-overflow-scrolling: touch; }
.scroll:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
.caption { margin: 1.2rem 0 .2rem; }
th, td { padding: .28rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
td { white-space: nowrap; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; line-height: 1.25; }
th.label, td.text { text-align: left; }
th.label { font-weight: 600; }
tbody th.label { font-weight: 500; }
tbody th.label:first-child { position: sticky; left: 0; background: #fff; }
td.text { white-space: normal; min-width: 9rem; }
tr.fixed td, tr.fixed th { color: var(--soft); background: var(--ground) !important; }
.facts th { text-align: left; white-space: nowrap; font-weight: 600; } .facts td { text-align: left; white-space: normal; }
figure { margin: 1.1rem 0; }
figure img { width: 100%; max-width: 40rem; height: auto; display: block; }
pre { background: var(--ground); padding: .7rem .9rem; overflow-x: auto; font-size: .86rem; line-height: 1.45;
  white-space: pre-wrap; max-width: 46rem; }
code { font-size: .92em; background: var(--ground); padding: .05em .3em; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--accent); padding: .35rem 0; }
blockquote { margin: .6rem 0; padding: .3rem 0 .3rem 1rem; border-left: 4px solid var(--line); max-width: 46rem; }
.question { font-size: 1.15rem; font-weight: 600; margin: .3rem 0; }
.answer { border-left: 6px solid var(--accent); background: #eef5fa; padding: .3rem 1rem; margin: .6rem 0; border-radius: 2px; }
.answer ul { padding-left: 1rem; }
h4 { font-size: .95rem; margin: 1.2rem 0 .3rem; }
thead th { min-width: 4.2rem; max-width: 9rem; overflow-wrap: break-word; hyphens: auto; }
tbody th.label { max-width: 18rem; overflow-wrap: anywhere; }
.scroll { background: linear-gradient(to right, #fff 30%, rgba(255,255,255,0)),
  linear-gradient(to left, #fff 30%, rgba(255,255,255,0)) 100% 0,
  linear-gradient(to right, rgba(0,0,0,.22), rgba(0,0,0,0)), linear-gradient(to left, rgba(0,0,0,.22), rgba(0,0,0,0)) 100% 0;
  background-repeat: no-repeat; background-size: 40px 100%, 40px 100%, 12px 100%, 12px 100%;
  background-attachment: local, local, scroll, scroll; }
@media screen and (max-width: 44rem) {
  body { padding: .6rem .8rem 3rem; } h1 { font-size: 1.4rem; }
  .scroll { overflow-x: visible; background: none; } table, tbody, tr, th, td { display: block; width: auto; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table { font-size: .92rem; }
  tbody tr { border: 1px solid var(--line); border-radius: 4px; margin: 0 0 .6rem; padding: .35rem .7rem; }
  tbody td, tbody th.label, tbody th.label:first-child { display: flex; justify-content: space-between; gap: 1rem; position: static;
    max-width: none; min-width: 0; border: 0; padding: .1rem 0; white-space: normal; text-align: right; background: none;
    overflow-wrap: anywhere; }
  tbody th.label { font-weight: 600; }
  td::before, th.label[data-label]::before { content: attr(data-label); color: var(--soft); font-weight: 400; text-align: left;
    flex: 0 0 auto; max-width: 55%; overflow-wrap: break-word; }
  .facts td::before { content: none; } .facts tr { border: 0; border-radius: 0; padding: 0; }
  .facts td { display: block; text-align: left; overflow-wrap: anywhere; }
  .facts th { border: 0; padding: .3rem 0 0; white-space: normal; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; } nav, summary, .screen { display: none; }
  h2, h3, .caption { break-after: avoid; } figure, .banner, tr { break-inside: avoid; } thead { display: table-header-group; }
  .scroll { overflow: visible; } td { white-space: normal; } th, td { padding: .15rem .4rem; }
  figure img { max-width: 13cm; max-height: 22cm; width: auto; } a { color: inherit; text-decoration: none; }
  .banner { -webkit-print-color-adjust: exact; print-color-adjust: exact; } @page { margin: 1.8cm; }
}
"""
"""No fonts or pictures from elsewhere. On narrow screens each row of a table becomes a card with its headings, so that no column
is out of sight; wide tables on wide screens scroll in their own frame, whose edge is shaded where more is to be seen."""


_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing. Pictures and style are in it."""


def report(
    posterior: xr.DataTree,
    path: str | os.PathLike[str],
    *,
    prob: float = 0.95,
    truth: Any = None,
    title: str | None = None,
    question: str | None = None,
    headline: Query | str | None = None,
    laws: LawComparison | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a report of a posterior: one HTML file with everything in it, in one step; its path.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` returns it, or read from a file; TypeError or ValueError if it is no posterior of a release. The attribute
        ``prior`` (text) and the groups ``prior`` and ``prior_predictive`` of ``pm.sample_prior_predictive`` are used where they are.
    path, overwrite : path, bool
        FileExistsError if there is such a file that must not be overwritten, FileNotFoundError if there is no such folder.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.
    truth : array_like, shape ``(*table)``, optional
        The confidential table, in a simulation. The page then contains it, and says so. Where the model has several
        tables: a mapping from their names in the model to tables, not necessarily all.
    question : str, optional
        What the reader wants to know, in your words; the page begins with it.
    headline : Query or str, optional
        What answers it: a query of the table, or the name of a parameter of the model. By default the odds ratio of a 2 x 2
        table with exact margins, else the cells: all of a few, the largest of many.
    laws : LawComparison, optional
        What `bayesdp.compare_laws` gave, where the noise law is not known: the page has a section on it, and says that its
        numbers are those of one law.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import bayesdp as bdp
    >>> import pymc as pm
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> measured = bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))
    >>> release = bdp.Release.from_published(county, measured=[measured], exact=[bdp.Exact(bdp.Totals(county), 100)])
    >>> with pm.Model(coords=release.coords):
    ...     bdp.observe(release, bdp.FlatCounts("x", dims="county"))
    ...     posterior = bdp.sample(draws=200, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    >>> with TemporaryDirectory() as folder:
    ...     file = report(posterior, Path(folder) / "report.html")
    ...     text = file.read_text(encoding="utf-8")
    >>> "Grand total: 100" in text
    True
    """
    target = check_output(path, overwrite=overwrite)
    text = page(posterior, prob=prob, truth=truth, title=title, question=question, headline=headline, laws=laws)
    write_text(target, text, overwrite=overwrite)
    return target


def page(
    posterior: xr.DataTree,
    *,
    prob: float = 0.95,
    truth: Any = None,
    title: str | None = None,
    question: str | None = None,
    headline: Query | str | None = None,
    laws: LawComparison | None = None,
) -> str:
    """The text of the page; arguments as for `report`."""
    instance(laws, LawComparison | None, "laws must be what bayesdp.compare_laws gave")
    model = PosteriorModel.checked(posterior)
    fits = model.published_tables()
    level, truths = probability(prob, "prob"), _truths([fit.name for fit in fits], truth)
    tables = tuple(Context(fit, level, fit.truth(truths.get(fit.name)), len(fits) > 1) for fit in fits)
    whole = Whole(model, tables, question or "", headline, laws)
    first, *rest = sections_of(whole)
    main = element("main", _section(first), contents(rest), *(_section(section) for section in rest))
    return document(title or f"{_subject(whole)}: a posterior report", _lead(whole), [*_banners(whole), main])


def _subject(whole: Whole) -> str:
    """The subject of the page, for its title: the dimensions of its tables, or statistics."""
    tables = dict.fromkeys(" and ".join(context.frame.dims) for context in whole.tables if not context.of_statistics)
    statistics = any(context.of_statistics for context in whole.tables)
    if not tables:
        return "Confidential statistics"
    return f"Confidential counts by {', and by '.join(tables)}{', and statistics' if statistics else ''}"


def _truths(names: list[str], truth: Any) -> Mapping[str, Any]:
    """The confidential table of each table of the posterior, where it was given."""
    known = ", ".join(names)
    if truth is None or isinstance(truth, Mapping):
        unknown = [str(name) for name in truth or () if name not in names]
        if unknown:
            raise ValueError(f"truth must be about tables of the posterior, {known}; got {', '.join(unknown)}")
        return truth or {}
    if len(names) > 1:
        raise ValueError(f"truth must say which of the tables {known} it is, as a mapping from the name to the table")
    return {names[0]: truth}


def document(heading: str, lead: str, body: Sequence[Html]) -> str:
    """A whole file, with the head that all our pages share."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", heading),
        element("style", Html(STYLE)),
    )
    top = element("header", element("h1", heading), element("p", lead, class_="lead"))
    return "<!DOCTYPE html>\n" + element("html", head, element("body", top, *body), lang="en") + "\n"


def _lead(whole: Whole) -> str:
    described = "; ".join(
        f"{context.fit.name}: {context.table}" if context.several else context.table for context in whole.tables
    )
    what, about = f"{described[0].upper()}{described[1:]}", "values, given the noisy numbers"
    if not all(context.of_statistics for context in whole.tables):
        what = f"{'Tables' if len(whole.tables) > 1 else 'Table'}: {described}"
        about = "counts, given the noisy and the exact numbers"
    return f"{what}. What is known about the confidential {about} that were published. Intervals: {whole.kind}s."


def _banners(whole: Whole) -> list[Html]:
    """Warnings at the top of the page."""
    shown = []
    if any(release.simulated for context in whole.tables for release in context.fit.releases):
        told = (
            "The noise came from a generator whose seed may be known, and whoever knows it can subtract the noise. The "
            "guarantee below describes the mechanism; these published numbers protect nobody."
        )
        shown.append(boxed("warn", "Simulated release.", told))
    if any(context.truth is not None for context in whole.tables):
        told = "It was given as the truth, for comparison. Do not publish the page if the table is confidential."
        shown.append(boxed("warn", "This page contains the confidential table.", told))
    if any(context.fit.relaxed for context in whole.tables):
        told = "Real numbers stand for the whole numbers that were counted: an approximation for large counts. Nothing is rounded."
        shown.append(boxed("warn", "Continuous relaxation.", told))
    alarm = reliability.banner(whole)
    return shown if alarm is None else [*shown, alarm]


@dataclass(frozen=True)
class Section:
    """A section of a page: its anchor, its title, and its text; None where there is nothing to say."""

    anchor: str
    title: str
    text: Html | None


def sections_of(whole: Whole) -> list[Section]:
    """The sections of one page: the result, what was published, how it was found and what can be wrong with it."""
    about_release = "What is published, and what is protected"
    written = [
        Section("headline", "Result", results.headline(whole)),
        *_of_tables(
            whole,
            ("counts", "release", about_release, published.published),
            ("statistics", "release", about_release, published.published_statistics),
        ),
        *_of_tables(
            whole,
            ("counts", "results", "Counts: published and posterior", results.results),
            ("counts", "odds", "Odds ratio", results.odds_ratio),
            ("statistics", "results", "Statistics: published and posterior", results.statistics),
        ),
        Section("parameters", "Parameters of the model", results.parameters(whole)),
        *_of_tables(whole, ("counts", "noise", "Noise against sampling uncertainty", published.noise_and_sampling)),
        Section("prior", "Prior", reliability.prior(whole)),
        *_of_tables(whole, ("counts", "sensitivity", "Sensitivity to the prior", reliability.sensitivity)),
        Section("laws", "Sensitivity to the noise law", published.noise_laws(whole)),
        Section("convergence", "Convergence", reliability.convergence(whole)),
        Section("errors", "Sources of error", reliability.sources_of_error(whole)),
        Section("methods", "Methods, to cite", methods.methods(whole)),
        Section("provenance", "Versions, seed, command", methods.provenance(whole)),
    ]
    return [section for section in written if section.text is not None]


def _of_tables(whole: Whole, *parts: tuple[str, str, str, Callable[[Context], Html | None]]) -> list[Section]:
    """Sections that are written anew for each table: what the table is of, anchor, title, and what writes it, or nothing."""
    return [
        Section(f"{anchor}-{i + 1}" if i else anchor, f"{title}{context.of_table}", write(context))
        for i, context in enumerate(whole.tables)
        for about, anchor, title, write in parts
        if about == context.fit.release.about
    ]


def contents(sections: Sequence[Section]) -> Html:
    """Links to the sections."""
    links = [element("li", element("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return element("nav", element("ul", *links), aria_label="Sections")


def _section(section: Section) -> Html:
    heading = element("h2", section.title, id=f"{section.anchor}-title")
    return element("section", heading, section.text, id=section.anchor, aria_labelledby=f"{section.anchor}-title")


def calibration_report(
    result: xr.DataTree, path: str | os.PathLike[str], *, title: str | None = None, overwrite: bool = False
) -> Path:
    """Write a report of what `bayesdp.calibration.study` gave (else TypeError), as `report` writes one of a posterior."""
    target = check_output(path, overwrite=overwrite)
    write_text(target, calibration_page(result, title=title), overwrite=overwrite)
    return target


def calibration_page(result: xr.DataTree, *, title: str | None = None) -> str:
    """The text of the page; arguments as for `calibration_report`."""
    pictures = _calibration_pictures(result)  # sees to the type of the result
    verdict = verdict_of(result)
    sections = [
        Section("verdict", "Verdict", _verdict(result, verdict)),
        Section("ranks", "Ranks", pictures[0]),
        Section("widths", "Widths of posteriors", pictures[1]),
        Section("table", "All quantities", _quantity_table(verdict)),
        Section("failures", "Simulations that failed", _failures(result)),
        Section("limits", "What this can and cannot notice", _limits(verdict)),
        Section("run", "The run", _calibration_run(result)),
    ]
    main = element("main", *map(_section, sections))
    return document(title or "Simulation-based calibration: a report", _CALIBRATION_LEAD, [contents(sections), main])


_CALIBRATION_LEAD = (
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


def _calibration_pictures(result: xr.DataTree) -> tuple[Html, Html]:
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


def _quantity_table(verdict: Verdict) -> Html:
    rows = sorted(verdict.quantities, key=lambda q: q.p_adjusted)
    table = Table(
        f"P-values of uniform ranks (exact) and of squared errors; the smaller of the two, adjusted for all tests "
        f"(Holm), is compared with {verdict.false_alarm:g}. {ABSENT}: the quantity has no width to be tested.",
        [
            Column("Quantity", [q.name for q in rows], kind="label"),
            numeric("Simulations", [q.n for q in rows], lambda v: f"{v:,.0f}", "simulations"),
            numeric("p, ranks", [q.p_ranks for q in rows], _pvalue, "p_ranks"),
            numeric("p, squared errors", [q.p_dispersion for q in rows], _pvalue, "p_dispersion"),
            numeric("Errors / stated", [q.ratio for q in rows], spread, "ratio"),
            numeric("p, adjusted", [q.p_adjusted for q in rows], _pvalue, "p_adjusted"),
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


def _pvalue(value: float) -> str:
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


def _calibration_run(result: xr.DataTree) -> Html:
    fits, attrs = result["fits"].to_dataset(), result.attrs
    reused = {"True": "compiled once for all releases", "False": "built for each release"}
    sampler, versions = (json.loads(attrs[key]) for key in ("sampler", "versions"))
    seconds, ess = fits["seconds"], fits["ess"]
    rows = [
        ("Simulations", str(int(result["verdict"].attrs["simulations"]))),
        ("Failed", str(int(result["verdict"].attrs["failed"]))),
        ("Seed", attrs["seed"]),
        ("Model", reused.get(attrs["model_reused"], "one release only")),
        ("Time", f"{float(seconds.sum()):,.0f} s in all, {float(seconds.median()):.2f} s a simulation (median)"),
        ("Smallest effective sample size", f"{float(ess.min()):,.0f}, median {float(ess.median()):,.0f}"),
        ("Divergences", str(int(fits["divergences"].sum()))),
        ("Sampler", ", ".join(f"{key} {value}" for key, value in sampler.items())),
        ("Versions", ", ".join(f"{key} {value}" for key, value in versions.items())),
        ("Command", attrs.get("command")),
        ("Identity of the model", attrs.get("identity")),
    ]
    return facts([(name, value) for name, value in rows if value not in (None, "")])

"""The page as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from bayesdp._validate import probability
from bayesdp.plots.fit import Fit
from bayesdp.queries import Query
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, boxed, element, joined
from bayesdp.report.sections import Section, errors, sections_of
from bayesdp.report.sections.convergence import banner
from bayesdp.report.style import STYLE
from bayesdp.storage import check_output, write_text
from bayesdp.summaries import LawComparison

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing. Pictures and style are in it."""


def report(
    posterior: xr.DataTree,
    path: str | os.PathLike[str],
    *,
    prob: float = 0.95,
    truth: Any = None,
    title: str | None = None,
    command: str | None = None,
    question: str | None = None,
    headline: Query | str | None = None,
    laws: LawComparison | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a report of a posterior: one HTML file with everything in it.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` returns it, or read from a file. The attribute ``prior`` (text) and the groups ``prior`` and
        ``prior_predictive`` of ``pm.sample_prior_predictive`` are used where they are there.
    path : path
        The file to write, atomically.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.
    truth : xarray.DataArray or array_like, shape ``(*table)``, optional
        The confidential table, in a simulation. The page then contains it, and says so. Where the model has several
        tables: a mapping from their names in the model to tables, not necessarily all.
    title : str, optional
        Title of the page.
    command : str, optional
        Command line, for the record; that of the posterior by default.
    question : str, optional
        What the reader wants to know, in your words; the page begins with it.
    headline : Query or str, optional
        What answers it: a query of the table, or the name of a parameter of the model. By default the odds ratio of a 2 x 2
        table with exact margins, else the cells: all of a few, the largest of many.
    laws : LawComparison, optional
        What `bayesdp.compare_laws` gave, where the noise law is not known: the page has a section on it, and says that its
        numbers are those of one law.
    overwrite : bool, default False
        Whether an existing file may be replaced.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    TypeError, ValueError
        If the DataTree is no posterior of a release, or an argument is not valid.
    FileExistsError
        If the file exists and `overwrite` is False.
    FileNotFoundError
        If its folder does not exist.

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
    text = page(
        posterior, prob=prob, truth=truth, title=title, command=command, question=question, headline=headline, laws=laws
    )
    write_text(target, text, overwrite=overwrite)
    return target


def page(
    posterior: xr.DataTree,
    *,
    prob: float = 0.95,
    truth: Any = None,
    title: str | None = None,
    command: str | None = None,
    question: str | None = None,
    headline: Query | str | None = None,
    laws: LawComparison | None = None,
) -> str:
    """The text of the page; arguments as for `report`."""
    given: Any = laws
    if laws is not None and not isinstance(given, LawComparison):
        raise TypeError(f"laws must be what bayesdp.compare_laws gave, got {type(laws).__name__}")
    fits = Fit.all(posterior)
    level, recorded = probability(prob, "prob"), str(posterior.attrs.get("command", ""))
    told = recorded if command is None else command
    truths = _truths(fits, truth)
    several = len(fits) > 1
    whole = Whole(
        tuple(Context(fit, level, fit.truth(truths.get(fit.name)), told, several) for fit in fits),
        question or "",
        headline,
        laws,
    )
    heading = title or f"{_subject(whole)}: a posterior report"
    sections = sections_of(whole)
    first, rest = sections[0], sections[1:]
    body = [
        element("header", element("h1", heading), element("p", _lead(whole), class_="lead")),
        *_banners(whole),
        element("main", _section(first), _contents(rest), *(_section(section) for section in rest)),
    ]
    return document(heading, body)


def _subject(whole: Whole) -> str:
    """The subject of the page, for its title: the dimensions of its tables, or statistics."""
    tables = dict.fromkeys(" and ".join(context.frame.dims) for context in whole.tables if not context.of_statistics)
    statistics = any(context.of_statistics for context in whole.tables)
    if not tables:
        return "Confidential statistics"
    return f"Confidential counts by {', and by '.join(tables)}{', and statistics' if statistics else ''}"


def _truths(fits: list[Fit], truth: Any) -> Mapping[str, Any]:
    """The confidential table of each table of the posterior, where it was given."""
    names = [fit.name for fit in fits]
    if truth is None:
        return {}
    if not isinstance(truth, Mapping):
        if len(fits) > 1:
            raise ValueError(
                f"truth must say which of the tables {', '.join(names)} it is, as a mapping from the name to the table"
            )
        return {names[0]: truth}
    unknown = [str(name) for name in truth if name not in names]
    if unknown:
        raise ValueError(f"truth must be about tables of the posterior, {', '.join(names)}; got {', '.join(unknown)}")
    return truth


def document(heading: str, body: Sequence[Html]) -> str:
    """A whole file, with the head that all our pages share."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", heading),
        element("style", Html(STYLE)),
    )
    return "<!DOCTYPE html>\n" + element("html", head, element("body", *body), lang="en") + "\n"


def _lead(whole: Whole) -> str:
    described = "; ".join(
        f"{context.fit.name}: {context.table}" if context.several else context.table for context in whole.tables
    )
    if all(context.of_statistics for context in whole.tables):
        return (
            f"{described[0].upper()}{described[1:]}. What is known about the confidential values, given the noisy numbers that were "
            f"published. Intervals: {whole.kind}s."
        )
    return (
        f"{'Tables' if len(whole.tables) > 1 else 'Table'}: {described}. What is known about the confidential counts, given the noisy "
        f"and the exact numbers that were published. Intervals: {whole.kind}s."
    )


def _banners(whole: Whole) -> list[Html]:
    """Warnings at the top of the page."""
    shown = []
    if whole.simulated:
        shown.append(
            boxed(
                "warn",
                "Simulated release.",
                "The noise came from a generator whose seed may be known, and whoever knows it can subtract the noise. The "
                "guarantee below describes the mechanism; these published numbers protect nobody.",
            )
        )
    if any(context.truth is not None for context in whole.tables):
        shown.append(
            boxed(
                "warn",
                "This page contains the confidential table.",
                "It was given as the truth, for comparison. Do not publish the page if the table is confidential.",
            )
        )
    if any(context.fit.relaxation is not None for context in whole.tables):
        shown.append(
            boxed(
                "warn",
                "Continuous relaxation.",
                "Real numbers stand for the whole numbers that were counted: an approximation for large counts. Nothing is "
                "rounded. What it costs is stated under ",
                element("a", errors.TITLE, href=f"#{errors.ANCHOR}"),
                ".",
            )
        )
    alarm = banner(whole)
    return [*shown, alarm] if alarm is not None else shown


def _contents(sections: list[Section]) -> Html:
    links = [element("li", element("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return element("nav", element("ul", *links), aria_label="Sections")


def _section(section: Section) -> Html:
    content = joined([element("h2", section.title, id=f"{section.anchor}-title"), section.text])
    return element("section", content, id=section.anchor, aria_labelledby=f"{section.anchor}-title")

"""The page as a whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from bayesdp._validate import probability
from bayesdp.plots.fit import Fit
from bayesdp.report.context import Context
from bayesdp.report.html import Html, element, joined
from bayesdp.report.sections import errors, sections_of
from bayesdp.report.sections.convergence import banner
from bayesdp.report.style import STYLE
from bayesdp.storage import check_output, replacing

__all__ = ["document", "page", "report"]

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
    truth : xarray.DataArray or array_like, shape (*table), optional
        The confidential table, in a simulation. The page then contains it, and says so.
    title : str, optional
        Title of the page.
    command : str, optional
        Command line, for the record; that of the posterior by default.
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
    text = page(posterior, prob=prob, truth=truth, title=title, command=command)
    with replacing(target, overwrite=overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target


def page(
    posterior: xr.DataTree,
    *,
    prob: float = 0.95,
    truth: Any = None,
    title: str | None = None,
    command: str | None = None,
) -> str:
    """The text of the page; arguments as for `report`."""
    fit = Fit.of(posterior)
    recorded = str(posterior.attrs.get("command", ""))
    context = Context(fit, probability(prob, "prob"), fit.truth(truth), recorded if command is None else command)
    heading = title or f"Confidential counts by {' and '.join(fit.release.dims)}: a posterior report"
    sections = sections_of(context)
    body = [
        element("header", element("h1", heading), element("p", _lead(context), class_="lead")),
        *_banners(context),
        _contents(sections),
        element("main", *(_section(own, context) for own in sections)),
    ]
    return document(heading, body)


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


def _lead(context: Context) -> str:
    return (
        f"Table: {context.table}. What is known about the confidential counts, given the noisy and the exact numbers that were "
        f"published. Intervals: {context.kind}s."
    )


def _banners(context: Context) -> list[Html]:
    """What nobody may overlook."""
    shown = []
    if context.simulated:
        shown.append(
            element(
                "p",
                element("strong", "Simulated release."),
                "The noise came from a generator whose seed may be known, and whoever knows it can subtract the noise. The "
                "guarantee below describes the mechanism; these published numbers protect nobody.",
                class_="banner warn",
            )
        )
    if context.truth is not None:
        shown.append(
            element(
                "p",
                element("strong", "This page contains the confidential table."),
                "It was given as the truth, for comparison. Do not publish the page if the table is confidential.",
                class_="banner warn",
            )
        )
    if context.fit.relaxation is not None:
        shown.append(
            element(
                "p",
                element("strong", "Continuous relaxation."),
                "Real numbers stand for the whole numbers that were counted: an approximation for large counts. Nothing is "
                "rounded. What it costs is stated under ",
                element("a", errors.TITLE, href=f"#{errors.ANCHOR}"),
                ".",
                class_="banner warn",
            )
        )
    alarm = banner(context)
    return [*shown, alarm] if alarm is not None else shown


def _contents(sections: list[Any]) -> Html:
    links = [element("li", element("a", own.TITLE, href=f"#{own.ANCHOR}")) for own in sections]
    return element("nav", element("ul", *links), aria_label="Sections")


def _section(own: Any, context: Context) -> Html:
    content = joined([element("h2", own.TITLE, id=f"{own.ANCHOR}-title"), own.write(context)])
    return element("section", content, id=own.ANCHOR, aria_labelledby=f"{own.ANCHOR}-title")

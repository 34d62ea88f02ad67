"""Published value, posterior mean and interval of each cell and total."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.plots import heatmaps, intervals
from bayesdp.plots.cell_intervals import number_of_pages
from bayesdp.plots.style import percent
from bayesdp.queries import Query, SumPart
from bayesdp.report.context import Context
from bayesdp.report.figures import embedded
from bayesdp.report.html import Html, element, joined, paragraph
from bayesdp.report.numbers import count, decimal, interval, plural, spread
from bayesdp.report.tables import Column, Table, labels, numeric

__all__ = ["ANCHOR", "TITLE", "cell_table", "total_table", "write"]

ANCHOR = "results"
TITLE = "Counts: published and posterior"

_PER_PAGE, _MOST_PAGES = 40, 4
_LARGEST_MAP = 40

_RELAXED = (
    " Counts are real numbers here (continuous relaxation): ends of intervals are not rounded, and the next whole numbers "
    "need not have the stated probability."
)

type Floats = npt.NDArray[np.float64]


def write(context: Context) -> Html:
    """The section."""
    return joined(
        [
            paragraph(
                f"Intervals are {percent(context.prob)} equal-tailed: half of the remaining probability is on either side. They are "
                "about the confidential count itself, given everything published and the prior. All numbers are counts."
                + ("" if context.fit.relaxation is None else _RELAXED)
            ),
            _coverage(context),
            *_pictures(context),
            element("h3", "Cells"),
            cell_table(context).to_html(),
            element("h3", "Totals"),
            *(total_table(context, query, i).to_html() for i, query in enumerate(context.totals)),
        ]
    )


def _coverage(context: Context) -> Html:
    """How many intervals hold the truth, where it is known."""
    if context.truth is None:
        return joined([])
    free = ~context.fit.determined
    own = context.summary
    inside = int(((context.truth >= own.lower) & (context.truth <= own.upper))[free].sum())
    return paragraph(
        f"The truth is known here: {inside:,} of the {plural(int(free.sum()), 'interval')} of free cells hold it. (One table proves "
        "nothing about calibration; repeated releases do.)"
    )


def _pictures(context: Context) -> list[Html]:
    size = context.release.frame.size
    truth = None if context.truth is None else context.truth.reshape(context.release.frame.shape)
    pages: list[int | None] = [None]
    if size > _PER_PAGE:
        total = number_of_pages(size, _PER_PAGE)
        pages = list(range(1, total + 1)) if total <= _MOST_PAGES else [None]
    shown = []
    for page in pages:
        which = "" if len(pages) == 1 else f" (part {page} of {len(pages)})"
        if pages == [None] and size > _PER_PAGE:
            which = f" (the {_PER_PAGE} cells with the widest intervals; all cells are in the table below)"
        known = ", and the truth" if truth is not None else ""
        first = "Published value" if not context.fit.published_again else "First published value"
        text = f"{first}, posterior mean and {context.kind} of each cell{known}{which}."
        picture = intervals(context.tree, prob=context.prob, truth=truth, limit=_PER_PAGE, page=page)
        shown.append(embedded(picture, text))
    dims = context.release.dims
    if len(dims) >= 2 and max(context.release.frame.shape[:2]) <= _LARGEST_MAP:
        rest = f", summed over {', '.join(dims[2:])}" if len(dims) > 2 else ""
        text = f"Posterior mean and standard deviation by {dims[0]} and {dims[1]}{rest}, in counts."
        shown.append(embedded(heatmaps(context.tree, dims=(dims[0], dims[1])), text))
    return shown


def _posterior_columns(context: Context, mean: Floats, sd: Floats, lower: Floats, upper: Floats) -> list[Column]:
    name = f"eti{100 * context.prob:.10g}"
    ends = list(zip(lower.tolist(), upper.tolist(), strict=True))
    return [
        numeric("Posterior mean", mean, decimal, "mean"),
        numeric("Posterior sd", sd, spread, "sd"),
        Column(
            context.kind,
            ends,
            lambda own: interval(*own),
            raw={f"{name}_lower": lower.tolist(), f"{name}_upper": upper.tolist()},
        ),
    ]


def cell_table(context: Context) -> Table:
    """The table of all cells."""
    own, fit = context.summary, context.fit
    columns = labels(fit.cells)
    columns.append(numeric("Published (noisy)", fit.published, count, "published"))
    for k, again in enumerate(fit.published_again, start=2):
        columns.append(numeric(f"Published (noisy, {k})", again, count, f"published_{k}"))
    if context.truth is not None:
        columns.append(numeric("Truth", context.truth, count, "truth"))
    columns += _posterior_columns(context, own.mean, own.sd, own.lower, own.upper)
    remarks = np.where(fit.determined, "determined: not protected", "")
    if fit.determined.any():
        columns.append(Column("Remark", remarks.tolist(), kind="text"))
    noisy = "published noisy values" if fit.published_again else "published noisy value"
    caption = f"Each cell: {noisy}, posterior mean, standard deviation and {context.kind} (counts)."
    return Table(caption, columns, "cells.csv", fit.determined.tolist())


def total_table(context: Context, query: Query, number: int = 0) -> Table:
    """The table of a query's answers."""
    own, fit = context.fit.summary(query, context.prob), context.fit
    exact, noisy = _published(context, query)
    columns = labels(query)
    if any(text for text in exact):
        columns.append(Column("Published (exact)", exact))
    if noisy:
        for k, values in enumerate(noisy, start=1):
            title, name = ("Published (noisy)", "noisy") if k == 1 else (f"Published (noisy, {k})", f"noisy_{k}")
            columns.append(numeric(title, values, count, name))
    elif np.isfinite(fit.published).all() and fit.published.size:
        summed = np.asarray(query.apply(fit.published.reshape(context.release.frame.shape))).reshape(-1)
        columns.append(numeric("Sum of noisy cells", summed, count, "sum_of_noisy"))
    if context.truth is not None:
        true = np.asarray(query.apply(context.truth.reshape(context.release.frame.shape))).reshape(-1)
        columns.append(numeric("Truth", true, count, "truth"))
    columns += _posterior_columns(context, own.mean, own.sd, own.lower, own.upper)
    caption = (
        f"{_title(query)}: posterior mean, standard deviation and {context.kind} (counts). Grey rows are known exactly."
    )
    return Table(caption, columns, f"totals-{number + 1}.csv", fit.fixed(query).tolist())


def _title(query: Query) -> str:
    part = query.parts[0]
    if not isinstance(part, SumPart):
        return "Linear combinations"
    return f"Totals by {' and '.join(part.keep)}" if part.keep else "Grand total"


def _published(context: Context, query: Query) -> tuple[list[str], list[Floats]]:
    """What was published about a query's answers: exact values (as text, with bounds) and noisy ones."""
    exact: list[list[str]] = [[] for _ in range(query.rows)]
    words = {"=": "", ">=": "at least ", "<=": "at most "}
    for own in context.release.exact:
        for values in _parts(own.query, own.values, query):
            for i, value in enumerate(values):
                exact[i].append(words[own.sign] + count(float(value)))
    noisy = [
        np.asarray(values, dtype=np.float64)
        for measured in context.release.measurements
        for values in _parts(measured.query, measured.published, query)
    ]
    return [", ".join(texts) for texts in exact], noisy


def _parts(asked: Query, values: Any, query: Query) -> list[npt.NDArray[Any]]:
    """The pieces of an answer that answer `query`."""
    flat = np.asarray(values).reshape(-1)
    ends = np.cumsum([part.rows for part in asked.parts])[:-1]
    return [own for part, own in zip(asked.parts, np.split(flat, ends), strict=True) if part == query.parts[0]]

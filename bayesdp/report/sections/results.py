"""Published value, posterior mean and interval of each cell and total."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.plots import heatmaps, intervals
from bayesdp.plots.cell_intervals import number_of_pages
from bayesdp.plots.streamed_fit import StreamedFit
from bayesdp.plots.style import percent
from bayesdp.queries import Margins, Query, SumPart
from bayesdp.report.context import Context, same_part
from bayesdp.report.html import Html, element, embedded, joined, paragraph
from bayesdp.report.numbers import count, decimal, interval, plural, spread
from bayesdp.report.sections.release import SIGN_WORDS
from bayesdp.report.tables import MOST_ROWS, Column, Table, labels, numeric

ANCHOR = "results"
TITLE = "Counts: published and posterior"

_PER_PAGE, _MOST_PAGES = 40, 4
_LARGEST_MAP = 40

_RELAXED = (
    " Counts are real numbers here (continuous relaxation): ends of intervals are not rounded, and the next whole numbers "
    "need not have the stated probability."
)

_STREAMED = (
    " No draws of the cells were kept: their numbers were gathered while sampling, and totals are those whose draws were "
    "recorded."
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
                + (_STREAMED if isinstance(context.fit, StreamedFit) else "")
            ),
            _coverage(context),
            *_pictures(context),
            element("h3", "Cells"),
            *_cells(context),
            *([element("h3", "Totals")] if context.totals else []),
            *(total_table(context, query, i).to_html() for i, query in enumerate(context.totals)),
        ]
    )


def _cells(context: Context) -> list[Html]:
    """The table of the cells, or why a page does not hold it."""
    size = context.frame.size
    if size <= MOST_ROWS:
        return [cell_table(context).to_html()]
    told = (
        f"The {size:,} cells are too many for a page (at most {MOST_ROWS:,} are listed); bayesdp.summary and the group "
        "of the counts in the posterior file have them all."
    )
    return [paragraph(told)]


def _coverage(context: Context) -> Html:
    """A sentence on how many intervals contain the truth; nothing where it is not known."""
    if context.truth is None:
        return joined([])
    free = ~context.fit.determined
    summary = context.summary
    inside = int(((context.truth >= summary.lower) & (context.truth <= summary.upper))[free].sum())
    return paragraph(
        f"The truth is known here: {inside:,} of the {plural(int(free.sum()), 'interval')} of free cells hold it. (One table proves "
        "nothing about calibration; repeated releases do.)"
    )


def _pictures(context: Context) -> list[Html]:
    size = context.frame.size
    truth = None if context.truth is None else context.truth.reshape(context.frame.shape)
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
        text = f"Published value, posterior mean and {context.kind} of each cell{known}{which}."
        picture = intervals(
            context.tree, prob=context.prob, truth=truth, limit=_PER_PAGE, page=page, var=context.fit.name
        )
        shown.append(embedded(picture, text))
    dims = context.frame.dims
    map_of = Margins(context.frame, list(dims[:2]))
    if len(dims) >= 2 and max(context.frame.shape[:2]) <= _LARGEST_MAP and context.fit.has(map_of):
        rest = f", summed over {', '.join(dims[2:])}" if len(dims) > 2 else ""
        text = f"Posterior mean and standard deviation by {dims[0]} and {dims[1]}{rest}, in counts."
        shown.append(embedded(heatmaps(context.tree, dims=(dims[0], dims[1]), var=context.fit.name), text))
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
            lambda pair: interval(*pair),
            raw={f"{name}_lower": lower.tolist(), f"{name}_upper": upper.tolist()},
        ),
    ]


def cell_table(context: Context) -> Table:
    """The table of all cells."""
    summary, fit = context.summary, context.fit
    columns = labels(fit.cells)
    for i, (title, values) in enumerate(fit.published_cells or [("", fit.published)]):
        columns.append(numeric(_noisy_heading(title), values, count, "published" if i == 0 else f"published_{i + 1}"))
    if context.truth is not None:
        columns.append(numeric("Truth", context.truth, count, "truth"))
    columns += _posterior_columns(context, summary.mean, summary.sd, summary.lower, summary.upper)
    remarks = np.where(fit.determined, "determined: not protected", "")
    if fit.determined.any():
        columns.append(Column("Remark", remarks.tolist(), kind="text"))
    caption = f"Each cell: published noisy value, posterior mean, standard deviation and {context.kind} (counts)."
    return Table(caption, columns, context.file("cells.csv"), fit.determined.tolist())


def total_table(context: Context, query: Query, number: int = 0) -> Table:
    """The table of a query's answers."""
    summary, fit = context.fit.summary(query, context.prob), context.fit
    exact, noisy = _published(context, query)
    columns = labels(query)
    if any(text for text in exact):
        columns.append(Column("Published (exact)", exact))
    for i, (title, values) in enumerate(noisy):
        columns.append(numeric(_noisy_heading(title), values, count, "noisy" if i == 0 else f"noisy_{i + 1}"))
    if not noisy and np.isfinite(fit.published).all() and fit.published.size:
        summed = np.asarray(query.apply(fit.published.reshape(context.frame.shape))).reshape(-1)
        title = fit.published_cells[0][0]
        heading = f"Sum of noisy cells{f' ({title})' if title else ''}"
        columns.append(numeric(heading, summed, count, "sum_of_noisy"))
    if context.truth is not None:
        true = np.asarray(query.apply(context.truth.reshape(context.frame.shape))).reshape(-1)
        columns.append(numeric("Truth", true, count, "truth"))
    columns += _posterior_columns(context, summary.mean, summary.sd, summary.lower, summary.upper)
    caption = (
        f"{_title(query)}: posterior mean, standard deviation and {context.kind} (counts). Grey rows are known exactly."
    )
    return Table(caption, columns, context.file(f"totals-{number + 1}.csv"), fit.fixed(query).tolist())


def _title(query: Query) -> str:
    part = query.parts[0]
    if not isinstance(part, SumPart):
        return "Linear combinations"
    return f"Totals by {' and '.join(part.keep)}" if part.keep else "Grand total"


def _noisy_heading(title: str) -> str:
    return f"Published (noisy{f'; {title}' if title else ''})"


def _published(context: Context, query: Query) -> tuple[list[str], list[tuple[str, Floats]]]:
    """What was published about a query's answers: exact values (as text, with bounds), and noisy ones with their titles."""
    exact: list[list[str]] = [[] for _ in range(query.rows)]
    for part in context.fit.exact:
        for values in _parts(part.query, part.values, query):
            for i, value in enumerate(values):
                exact[i].append(SIGN_WORDS[part.sign] + count(float(value)))
    noisy = [
        (context.fit.titled(m), np.asarray(values, dtype=np.float64))
        for m, measured in enumerate(context.fit.measurements)
        for values in _parts(measured.query, measured.published, query)
    ]
    if len(noisy) == 1:
        noisy = [("", noisy[0][1])]
    return [", ".join(dict.fromkeys(texts)) for texts in exact], noisy


def _parts(released: Query, values: Any, query: Query) -> list[npt.NDArray[Any]]:
    """The answers of those parts of a released query that ask the same as `query`."""
    flat = np.asarray(values).reshape(-1)
    return [flat[rows] for part, rows in released.placed_parts if same_part(part, query.parts[0])]

"""The result: the question and its answer, cells and totals, odds ratios, statistics and parameters."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._arrays import Floats, Ints
from bayesdp.plots import heatmaps, intervals
from bayesdp.plots.style import percent
from bayesdp.posterior import PosteriorModel, SummarisedPosterior, Summary, summarise_draws
from bayesdp.posterior.summaries import answers_to_part
from bayesdp.queries import Margins, Query, SumPart, answer_labels
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, element, embedded, items, joined, label, paragraph
from bayesdp.report.published import SIGN_WORDS
from bayesdp.report.tables import (
    MOST_ROWS,
    Column,
    Table,
    count,
    decimal,
    labels,
    numeric,
    plural,
    significant,
    spread,
)
from bayesdp.significance import posterior_odds_ratio
from bayesdp.significance.corners import is_two_by_two, noisy_corner, pvalue_limits
from bayesdp.significance.posterior import Interval, PosteriorOddsRatio

_FEW = 8
"""Largest number of answers that are all written out; of more, the `_LARGEST` largest."""
_LARGEST = 3


def headline(whole: Whole) -> Html:
    """The result in a few lines: the question, the answer, its interval."""
    parts = [_asked(whole)] if whole.headline is not None else [_of_table(whole, one) for one in whole.tables]
    if whole.model.converged is not True:
        told = (
            "These numbers are not established: see the box above."
            if whole.model.converged is False
            else "Nobody has looked whether the chains converged: see the box above."
        )
        parts.append(element("p", element("strong", told)))
    parts.append(paragraph(f"Intervals are {whole.kind}s, given everything published and the prior.", class_="note"))
    return joined(parts)


def _answered(question: str, answer: Html) -> Html:
    return joined([element("p", question, class_="question"), element("div", answer, class_="answer")])


def _of_table(whole: Whole, context: Context) -> Html:
    """Question and answers about a table: the odds ratio where there is one, and the cells."""
    fit, size = context.fit, context.frame.size
    named = f" in the table {fit.name}" if context.several else ""
    if context.of_statistics:
        what = "is the confidential statistic" if size == 1 else f"are the {size:,} confidential statistics"
        question = f"What {what}{f' {fit.name}' if context.several else ''}?"
        places = np.arange(min(size, _FEW))
        answer = _listed(_labels(fit.cells, places), context.summary, places, counts=False)
    elif has_odds_ratio(context):
        rows, columns = context.frame.dims
        question = f"Are {rows} and {columns} associated{named}?"
        answer = items(_odds(context))
    else:
        by = " × ".join(context.frame.dims)
        question = f"What are the confidential counts of the {plural(size, 'cell')} by {by}{named}?"
        answer = _largest_cells(context)
    return _answered(whole.question or question, answer)


def _odds(context: Context) -> list[Html]:
    return [
        joined([
            f"Odds ratio of {name}: ",
            element("strong", ratio_shown(found.median)),
            f" (posterior median), {context.kind} {ratio_shown(found.low)} to {ratio_shown(found.high)}",
        ])
        for name, found in _named_ratios(_odds_ratio_of(context, "two-sided"))
    ]  # fmt: skip


def _largest_cells(context: Context) -> Html:
    fit, summary = context.fit, context.summary
    free = np.flatnonzero(~fit.determined)
    if not free.size:
        return paragraph("They are known: the exact values determine every cell.")
    parts = []
    if free.size > _FEW:
        width = float(np.median((summary.upper - summary.lower)[free]))
        told = f" is the median width of the {context.kind} of a cell. The largest of {plural(free.size, 'free cell')}:"
        parts.append(paragraph(element("strong", f"{count(width)} count{'' if width == 1 else 's'}"), told))
        free = free[np.argsort(-summary.mean[free], kind="stable")[:_LARGEST]]
    parts.append(_listed(_labels(fit.cells, free), summary, free))
    known = int(fit.determined.sum())
    if known:
        verb = "is" if known == 1 else "are"
        told = f"{plural(known, 'more cell')} {verb} determined by the exact values, and not protected."
        parts.append(paragraph(told))
    return joined(parts)


def _labels(query: Query, rows: Ints) -> list[Html]:
    """The answers of a query by their labels."""
    return [label(*names) for names in answer_labels(query, rows.tolist())]


def _listed(names: list[Html], summary: Summary, places: Ints, *, counts: bool = True, what: str = "entries") -> Html:
    """The posterior mean and interval of some quantities, by name."""
    show_mean, show_end = (decimal, count) if counts else (significant, significant)
    return items(
        (
            joined([
                name,
                ": ",
                element("strong", show_mean(float(summary.mean[i]))),
                f" (posterior mean), interval {show_end(float(summary.lower[i]))} to {show_end(float(summary.upper[i]))}",
            ])
            for name, i in zip(names, places.tolist(), strict=True)
        ),
        what=what,
    )  # fmt: skip


def _asked(whole: Whole) -> Html:
    """Question and answer of the headline that the user has chosen."""
    asked, prob, counts = whole.headline, whole.tables[0].prob, not isinstance(whole.headline, str)
    if isinstance(asked, Query):
        context = next((one for one in whole.tables if one.frame.same_cells(asked.frame)), None)
        if context is None:
            raise ValueError(
                "headline must be a query of a table of the posterior; its dimensions or labels are those of none"
            )
        summary, names = context.fit.summary(asked, prob), _labels(asked, np.arange(asked.rows))
        question = "What are the confidential counts?" if asked.rows > 1 else "What is the confidential count?"
    else:
        if asked not in whole.model.parameters:
            known = ", ".join(whole.model.parameters) or "none"
            raise ValueError(
                f"headline must be a parameter of the model ({known}) or a query of a table, got {asked!r}"
            )
        draws = whole.model.draws_of(asked)
        names = [label(name) for name in element_names(asked, draws)]
        summary, question = summarise_draws(_flattened(draws), prob), f"What is {asked}?"
    listed = _listed(names, summary, np.arange(len(names)), counts=counts, what="answers")
    return _answered(whole.question or question, listed)


def _flattened(draws: xr.DataArray) -> npt.NDArray[Any]:
    """Draws of a variable, chains after one another: shape ``(draws, elements)``."""
    return draws.values.reshape(draws.sizes["chain"] * draws.sizes["draw"], -1)


def element_names(name: str, draws: xr.DataArray) -> list[str]:
    """The name of each number of a variable, with its labels."""
    dims = [dim for dim in draws.dims if dim not in ("chain", "draw")]
    labels = [draws[dim].values if dim in draws.coords else range(draws.sizes[dim]) for dim in dims]
    return [f"{name}[{', '.join(map(str, row))}]" if row else name for row in product(*labels)]


_PER_PAGE, _MOST_PAGES = 40, 4
_LARGEST_MAP = 40

_RELAXED = " Counts are real numbers here (continuous relaxation): ends of intervals are not rounded."
_STREAMED = " No draws of the cells were kept, and totals are those whose draws were recorded."


def results(context: Context) -> Html:
    """Published value, posterior mean and interval of each cell and total."""
    size = context.frame.size
    about = "the confidential count itself, given everything published and the prior. All numbers are counts."
    about += _RELAXED if context.fit.relaxed else ""
    about += _STREAMED if isinstance(context.fit, SummarisedPosterior) else ""
    parts = [_meaning(context, about), *_coverage(context), *_pictures(context), element("h3", "Cells")]
    if size <= MOST_ROWS:
        parts.append(cell_table(context).to_html())
    else:
        told = (
            f"The {size:,} cells are too many for a page (at most {MOST_ROWS:,} are listed); bayesdp.summary and the group "
            "of the counts in the posterior file have them all."
        )
        parts.append(paragraph(told))
    if context.totals:
        parts.append(element("h3", "Totals"))
    return joined([*parts, *(total_table(context, query, i).to_html() for i, query in enumerate(context.totals))])


def _meaning(context: Context, about: str) -> Html:
    """What the intervals are, and what they are about."""
    kind = f"Intervals are {percent(context.prob)} equal-tailed: half of the remaining probability is on either side."
    return paragraph(f"{kind} They are about {about}")


def _coverage(context: Context) -> list[Html]:
    """A sentence on how many intervals contain the truth; nothing where it is not known."""
    if context.truth is None:
        return []
    free, summary = ~context.fit.determined, context.summary
    inside = int(((context.truth >= summary.lower) & (context.truth <= summary.upper))[free].sum())
    told = f"The truth is known here: {inside:,} of the {plural(int(free.sum()), 'interval')} of free cells hold it."
    return [paragraph(told, " (One table proves nothing about calibration; repeated releases do.)")]


def _pictures(context: Context) -> list[Html]:
    size, dims = context.frame.size, context.frame.dims
    truth = None if context.truth is None else context.truth.reshape(context.frame.shape)
    known = ", and the truth" if truth is not None else ""
    total = -(-size // _PER_PAGE)
    shown = []
    for page in range(1, total + 1) if total <= _MOST_PAGES else [None]:
        which = "" if total == 1 else f" (part {page} of {total})"
        if page is None:
            which = f" (the {_PER_PAGE} cells with the widest intervals; all cells are in the table below)"
        text = f"Published value, posterior mean and {context.kind} of each cell{known}{which}."
        picture = intervals(context.fit, prob=context.prob, truth=truth, limit=_PER_PAGE, page=page)
        shown.append(embedded(picture, text))
    map_of = Margins(context.frame, list(dims[:2]))
    if len(dims) >= 2 and max(context.frame.shape[:2]) <= _LARGEST_MAP and context.fit.has(map_of):
        rest = f", summed over {', '.join(dims[2:])}" if len(dims) > 2 else ""
        text = f"Posterior mean and standard deviation by {dims[0]} and {dims[1]}{rest}, in counts."
        shown.append(embedded(heatmaps(context.fit, dims=(dims[0], dims[1])), text))
    return shown


def _posterior_columns(summary: Summary, kind: str, *, counts: bool = True) -> list[Column]:
    """Mean, standard deviation and interval, the latter as two columns of the CSV."""
    show_mean, show_sd, show_end = (decimal, spread, count) if counts else (significant, significant, significant)
    name, lower, upper = f"eti{100 * summary.prob:.10g}", summary.lower.tolist(), summary.upper.tolist()
    return [
        numeric("Posterior mean", summary.mean, show_mean, "mean"),
        numeric("Posterior sd", summary.sd, show_sd, "sd"),
        Column(
            kind,
            list(zip(lower, upper, strict=True)),
            lambda ends: f"{show_end(ends[0])} to {show_end(ends[1])}",
            raw={f"{name}_lower": lower, f"{name}_upper": upper},
        ),
    ]


def cell_table(context: Context) -> Table:
    """The table of all cells, or of all statistics."""
    fit, counts = context.fit, not context.of_statistics
    show = count if counts else significant
    columns = labels(fit.cells)
    for i, (title, values) in enumerate(fit.published_cells or ([("", fit.published)] if counts else [])):
        heading = _noisy_heading(title if counts else "")
        columns.append(numeric(heading, values, show, "published" if i == 0 else f"published_{i + 1}"))
    if context.truth is not None:
        columns.append(numeric("Truth", context.truth, show, "truth"))
    columns += _posterior_columns(context.summary, context.kind, counts=counts)
    if fit.determined.any():
        remarks = np.where(fit.determined, "determined: not protected", "")
        columns.append(Column("Remark", remarks.tolist(), kind="text"))
    noisy = "published noisy value, " if counts or fit.published_cells else ""
    what, unit = ("cell", " (counts)") if counts else ("statistic", "")
    caption = f"Each {what}: {noisy}posterior mean, standard deviation and {context.kind}{unit}."
    return Table(caption, columns, context.file("cells.csv" if counts else "statistics.csv"), fit.determined.tolist())


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
    columns += _posterior_columns(summary, context.kind)
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
        for values in answers_to_part(part.query, part.values, query):
            for i, value in enumerate(values):
                exact[i].append(SIGN_WORDS[part.sign] + count(float(value)))
    noisy = [
        (context.fit.titled(m), values)
        for m, measured in enumerate(context.fit.measurements)
        for values in answers_to_part(measured.query, measured.published, query)
    ]
    if len(noisy) == 1:
        noisy = [("", noisy[0][1])]
    return [", ".join(dict.fromkeys(texts)) for texts in exact], noisy


def has_odds_ratio(context: Context) -> bool:
    """Whether the only release is of a 2 x 2 table with exact margins, none of them 0, and the draws are whole numbers."""
    fit = context.fit
    # Of cells that were summarised there are means only, which are no whole numbers.
    if len(fit.releases) > 1 or not is_two_by_two(fit.release) or fit.counts.dtype.kind not in "iu":
        return False
    table = fit.counts[0, 0].values
    return bool(table.sum(axis=0).all() and table.sum(axis=1).all())


def odds_ratio(context: Context) -> Html | None:
    """The odds ratio of a 2 x 2 table whose margins are exact, and the test of the release beside it; None of other tables."""
    if not has_odds_ratio(context):
        return None
    above, below, both = (_odds_ratio_of(context, alternative) for alternative in ("greater", "less", "two-sided"))
    words = (
        f"The odds ratio is x11 x22 / (x12 x21), with x11 at {both.cell}; it is 1 if rows and columns are independent."
    )
    rows = _named_ratios(both)
    columns = [Column("Odds ratio of", [name for name, _ in rows], kind="label")]
    for heading, raw in (("Median", "median"), ("Lower", "low"), ("Upper", "high")):
        columns.append(numeric(heading, [getattr(found, raw) for _, found in rows], ratio_shown, raw))
    caption = f"Posterior of the odds ratio: median and {context.kind}."
    parts = [paragraph(words), Table(caption, columns, context.file("odds-ratio.csv")).to_html()]
    if both.probability is not None:
        told = f"Posterior probability that the odds ratio of the population is above 1: {both.probability:.3g}."
        parts.append(paragraph(told))
    return joined([*parts, *_pvalues(context, [above, below, both])])


def _odds_ratio_of(context: Context, alternative: str) -> PosteriorOddsRatio:
    posterior = PosteriorModel(context.fit.tree).variables
    return posterior_odds_ratio(posterior, context.fit.name, level=context.prob, alternative=alternative)


def _named_ratios(posterior: PosteriorOddsRatio) -> list[tuple[str, Interval]]:
    population = [] if posterior.population is None else [("the population", posterior.population)]
    return [("the confidential table", posterior.table), *population]


def _pvalues(context: Context, posteriors: list[PosteriorOddsRatio]) -> list[Html]:
    """p-values of an odds ratio of 1 for each alternative."""
    names = [posterior.alternative for posterior in posteriors]
    predictive = [posterior.predictive_pvalue for posterior in posteriors]
    shown = {"Posterior predictive p": predictive}
    try:
        corner = noisy_corner(context.fit.release)
    except (ValueError, NotImplementedError) as reason:
        told = f"There is no p-value from the release itself: {reason}."
    else:
        low, high = map(list, zip(*(pvalue_limits(corner, name, 1.0) for name in names), strict=True))
        why = ""
        if corner.noise.integer:
            shown |= {"p from the release, least": low, "p from the release, largest": high}
            why = (
                "The noise is integer, and the p-value from the release depends on one further draw, which this page does not make: "
                "a page that is written twice must not show two p-values. Its limits are given; bayesdp test draws once and keeps it."
            )
        else:
            shown |= {"p from the release": low}
        canonical = corner.noise.canonical
        best = "uniformly most powerful unbiased" if canonical else "of exact size, though not the most powerful"
        told = (
            f"The p-values from the release use the noisy corner and the exact margins, not the prior. For one-sided "
            f"alternatives the test is {best} under Semi-DP (f: {corner.noise.tradeoff}); the two-sided p-value is twice the "
            f"smaller one. The posterior predictive p-value averages Fisher's exact test over the posterior of the table; it is "
            f"no uniform number under independence. {why}"
        )
    columns = [Column("Alternative to 1", names, kind="label")]
    columns += [Column(heading, values, "{:.3g}".format) for heading, values in shown.items()]
    table = Table("p-values of independence.", columns, context.file("odds-ratio-p.csv"))
    return [table.to_html(), paragraph(told)]


def ratio_shown(value: float) -> str:
    """An odds ratio to three digits."""
    return "∞" if math.isinf(value) else f"{value:,.3g}"


def parameters(whole: Whole) -> Html | None:
    """Mean, interval and diagnostics of each number of the parameters; None where the model has none."""
    if not whole.model.parameters:
        return None
    drawn = {name: whole.model.draws_of(name) for name in whole.model.parameters}
    draws = np.concatenate([_flattened(values).astype(np.float64) for values in drawn.values()], axis=1)
    names = [text for name, values in drawn.items() for text in element_names(name, values)]
    columns = [Column("Parameter", names, kind="label")]
    columns += _posterior_columns(summarise_draws(draws, whole.tables[0].prob), whole.kind, counts=False)
    if "diagnostics" in whole.model.tree.children:
        found = whole.model.tree["diagnostics"].to_dataset()
        for statistic, heading, show in (
            ("ess_bulk", "Effective draws", lambda n: count(float(np.round(n)))),
            ("rhat", "R-hat", spread),
        ):
            values = [
                found[f"{name}_{statistic}"].transpose(*own.dims[2:]).values.reshape(-1)
                if f"{name}_{statistic}" in found
                else np.full(own[0, 0].size, np.nan)
                for name, own in drawn.items()
            ]
            columns.append(numeric(heading, np.concatenate(values), show, statistic))
    caption = f"Each parameter of the model: posterior mean, standard deviation and {whole.kind}, in its own unit."
    return Table(caption, columns, "parameters.csv").to_html()


_DRAWN = 40
"""So many statistics have an interval in the picture."""


def statistics(context: Context) -> Html:
    """Published value, posterior mean and interval of each statistic."""
    pictures = []
    if context.frame.size <= _DRAWN:
        picture = intervals(context.fit, prob=context.prob)
        shown = "Published value, posterior mean" if context.fit.published_cells else "Posterior mean"
        pictures.append(embedded(picture, f"{shown} and {context.kind} of each statistic."))
    about = "the confidential statistic of the data, given everything published and the model."
    return joined([_meaning(context, about), *pictures, cell_table(context).to_html()])

"""The result in a few lines: the question, the answer, its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.plots.fit import Fit, Summary, summarise
from bayesdp.queries import Query, answer_labels
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, element, items, joined, label, paragraph
from bayesdp.report.numbers import count, decimal, interval, plural, significant, spread
from bayesdp.report.sections import odds_ratio, statistics

__all__ = ["ANCHOR", "TITLE", "write"]

ANCHOR = "headline"
TITLE = "Result"

_FEW = 8
"""Largest number of answers that are all written out; of more, the `_LARGEST` largest."""
_LARGEST = 3

type Draws = npt.NDArray[Any]


def write(whole: Whole) -> Html:
    """The section."""
    parts = []
    if whole.headline is not None:
        parts.append(_asked(whole, whole.headline))
    else:
        parts += [_of_table(whole, context) for context in whole.tables]
    if whole.converged is not True:
        told = (
            "These numbers are not established: see the box above."
            if whole.converged is False
            else ("Nobody has looked whether the chains converged: see the box above.")
        )
        parts.append(element("p", element("strong", told)))
    parts.append(paragraph(f"Intervals are {whole.kind}s, given everything published and the prior.", class_="note"))
    return joined(parts)


def _question(text: str) -> Html:
    return element("p", text, class_="question")


def _of_table(whole: Whole, context: Context) -> Html:
    """Question and answers about a table: the odds ratio where there is one, and the cells."""
    named = f" in the table {context.fit.name}" if context.several else ""
    if context.of_statistics:
        size = context.frame.size
        what = "is the confidential statistic" if size == 1 else f"are the {size:,} confidential statistics"
        asked = whole.question or f"What {what}{f' {context.fit.name}' if context.several else ''}?"
        answer = element("div", statistics.answers(context, _FEW), class_="answer")
        return joined([_question(asked), answer])
    if odds_ratio.applies(context):
        rows, columns = context.frame.dims
        question = f"Are {rows} and {columns} associated{named}?"
        answer = items(_odds(context))
    else:
        by = " × ".join(context.frame.dims)
        cells = plural(context.frame.size, "cell")
        question = f"What are the confidential counts of the {cells} by {by}{named}?"
        answer = _cells(context)
    return joined([_question(whole.question or question), element("div", answer, class_="answer")])


def _odds(context: Context) -> list[Html]:
    found = odds_ratio.two_sided(context)
    rows = [("the confidential table", found.table)]
    if found.population is not None:
        rows.append(("the population", found.population))
    return [
        joined([
            f"Odds ratio of {name}: ",
            element("strong", odds_ratio.shown(posterior.median)),
            f" (posterior median), {context.kind} {odds_ratio.shown(posterior.low)} to {odds_ratio.shown(posterior.high)}",
        ])
        for name, posterior in rows
    ]  # fmt: skip


def _cells(context: Context) -> Html:
    fit, summary = context.fit, context.summary
    free = np.flatnonzero(~fit.determined)
    if not free.size:
        return paragraph("They are known: the exact values determine every cell.")
    known = int(fit.determined.sum())
    parts = []
    if free.size <= _FEW:
        parts.append(_listed(_labels(fit.cells, free), summary, free))
    else:
        width = float(np.median((summary.upper - summary.lower)[free]))
        told = (
            f" is the median width of the {context.kind} of a cell"
            f"{_noise_words(context)}. The largest of {plural(free.size, 'free cell')}:"
        )
        parts.append(paragraph(element("strong", plural_count(width)), told))
        largest = free[np.argsort(-summary.mean[free], kind="stable")[:_LARGEST]]
        parts.append(_listed(_labels(fit.cells, largest), summary, largest))
    if known:
        verb = "is" if known == 1 else "are"
        parts.append(
            paragraph(f"{plural(known, 'more cell')} {verb} determined by the exact values, and not protected.")
        )
    return joined(parts)


def _labels(query: Query, rows: npt.NDArray[np.int64]) -> list[Html]:
    """The answers of a query by their labels."""
    return [label(*names) for names in answer_labels(query, rows.tolist())]


def plural_count(value: float) -> str:
    """A width in counts."""
    return f"{count(value)} count{'' if value == 1 else 's'}"


def _noise_words(context: Context) -> str:
    """The size of the noise of the cells, beside the width of their intervals."""
    sds = [
        scale.sd
        for measured, scale in zip(context.fit.measurements, context.noise, strict=True)
        if measured.query.is_identity
    ]
    finite = sds[0][np.isfinite(sds[0])] if sds else np.empty(0)
    return (
        f" (the noise of a published cell has the standard deviation {spread(float(np.median(finite)))})"
        if finite.size
        else ""
    )


def _listed(names: list[Html], summary: Summary, places: npt.NDArray[np.int64]) -> Html:
    return items(
        joined([
            name,
                ": ",
            element("strong", decimal(float(summary.mean[i]))),
            f" (posterior mean), interval {interval(float(summary.lower[i]), float(summary.upper[i]))}",
        ])
        for name, i in zip(names, places.tolist(), strict=True)
    )  # fmt: skip


def _asked(whole: Whole, headline: Query | str) -> Html:
    """Question and answer of the `headline` that the user has chosen."""
    prob = whole.tables[0].prob
    if isinstance(headline, str):
        fit = whole.tables[0].fit
        draws, texts = _variable(fit, whole, headline)
        summary, question = summarise(draws, prob), f"What is {headline}?"
        names = [label(name) for name in texts]
        rows = [
            f" (posterior mean), interval {significant(low)} to {significant(high)}"
            for low, high in zip(summary.lower.tolist(), summary.upper.tolist(), strict=True)
        ]
        means = [significant(value) for value in summary.mean.tolist()]
    else:
        context = _table_of(whole, headline)
        summary, names = context.fit.summary(headline, prob), _labels(headline, np.arange(headline.rows))
        question = "What are the confidential counts?" if headline.rows > 1 else "What is the confidential count?"
        ends = zip(summary.lower.tolist(), summary.upper.tolist(), strict=True)
        rows = [f" (posterior mean), interval {interval(*pair)}" for pair in ends]
        means = [decimal(value) for value in summary.mean.tolist()]
    listed = items(
        (
            joined([name, ": ", element("strong", mean), row])
            for name, mean, row in zip(names, means, rows, strict=True)
        ),
        what="answers",
    )
    return joined([_question(whole.question or question), element("div", listed, class_="answer")])


def _variable(fit: Fit, whole: Whole, name: str) -> tuple[Draws, list[str]]:
    variables = fit.tree["posterior"].to_dataset().data_vars
    if name not in whole.parameters:
        known = ", ".join(whole.parameters) or "none"
        raise ValueError(f"headline must be a parameter of the model ({known}) or a query of a table, got {name!r}")
    values = variables[name].transpose("chain", "draw", ...)
    return values.values.reshape(fit.chains * fit.draws, -1), element_names(name, values)


def element_names(name: str, values: Any) -> list[str]:
    """The name of each number of a variable, with its labels."""
    dims = [dim for dim in values.dims if dim not in ("chain", "draw")]
    places = np.ndindex(*(values.sizes[dim] for dim in dims))
    labels = [
        ", ".join(f"{values[d].values[i]}" if d in values.coords else str(i) for d, i in zip(dims, place, strict=True))
        for place in places
    ]
    return [f"{name}[{label}]" if label else name for label in labels] if dims else [name]


def _table_of(whole: Whole, query: Query) -> Context:
    for context in whole.tables:
        if context.frame.same_cells(query.frame):
            return context
    raise ValueError("headline must be a query of a table of the posterior; its dimensions or labels are those of none")

"""What is written about statistics in place of a table of counts: what was published, and what is known of the confidential values."""

from __future__ import annotations

import numpy as np

from bayesdp.plots import intervals
from bayesdp.plots.style import percent
from bayesdp.queries import answer_labels
from bayesdp.report.context import Context
from bayesdp.report.html import Html, element, embedded, items, joined, label, paragraph
from bayesdp.report.numbers import plural, significant
from bayesdp.report.sections import release
from bayesdp.report.tables import Column, Table, labels, numeric

_DRAWN = 40
"""So many statistics have an interval in the picture."""


def write_release(context: Context) -> Html:
    """What is published, under which law, and whom the noise protects."""
    written = [
        paragraph(
            f"{plural(context.frame.size, 'confidential statistic', 'confidential statistics')} of a data set. Nothing is published "
            "exactly but what the mechanism takes as public, such as bounds and the number of records."
        )
    ]
    for i, own in enumerate(context.fit.measurements):
        written.append(paragraph(f"{context.measurement_title(i)}: law ", element("code", str(own.law)), "."))
        # Some statistics, or sums of them, have no place in the table of all.
        if not own.query.is_identity:
            names = answer_labels(own.query, range(min(own.query.rows, _DRAWN)))
            shown = zip(names, own.published.reshape(-1).tolist(), strict=False)
            written.append(items([joined([label(*name), ": ", significant(value)]) for name, value in shown]))
            if own.query.rows > _DRAWN:
                written.append(paragraph(f"and {own.query.rows - _DRAWN} more."))
    return joined([*written, element("h3", "Whom the noise protects"), *release.guarantees(context)])


def write_results(context: Context) -> Html:
    """Published value, posterior mean and interval of each statistic."""
    pictures = []
    if context.frame.size <= _DRAWN:
        picture = intervals(context.tree, prob=context.prob, var=context.fit.name)
        shown = "Published value, posterior mean" if context.fit.published_cells else "Posterior mean"
        pictures.append(embedded(picture, f"{shown} and {context.kind} of each statistic."))
    return joined(
        [
            paragraph(
                f"Intervals are {percent(context.prob)} equal-tailed: half of the remaining probability is on either side. They are "
                "about the confidential statistic of the data, given everything published and the model."
            ),
            *pictures,
            table_of_statistics(context).to_html(),
        ]
    )


def table_of_statistics(context: Context) -> Table:
    """The table of all statistics."""
    own, fit = context.summary, context.fit
    columns = labels(fit.cells)
    for i, (_, values) in enumerate(fit.published_cells):
        key = "published" if i == 0 else f"published_{i + 1}"
        columns.append(numeric("Published (noisy)", values, significant, key))
    if context.truth is not None:
        columns.append(numeric("Truth", context.truth, significant, "truth"))
    name = f"eti{100 * context.prob:.10g}"
    ends = list(zip(own.lower.tolist(), own.upper.tolist(), strict=True))
    columns += [
        numeric("Posterior mean", own.mean, significant, "mean"),
        numeric("Posterior sd", own.sd, significant, "sd"),
        Column(
            context.kind,
            ends,
            lambda pair: f"{significant(pair[0])} to {significant(pair[1])}",
            raw={f"{name}_lower": own.lower.tolist(), f"{name}_upper": own.upper.tolist()},
        ),
    ]
    noisy = "published noisy value, " if fit.published_cells else ""
    caption = f"Each statistic: {noisy}posterior mean, standard deviation and {context.kind}."
    return Table(caption, columns, context.file("statistics.csv"), [False] * context.frame.size)


def answers(context: Context, most: int) -> Html:
    """The first statistics with their intervals, as a list."""
    own, places = context.summary, np.arange(min(context.frame.size, most))
    names = [label(*each) for each in answer_labels(context.fit.cells, places.tolist())]
    listed = [
        joined([
            name,
            ": ",
            element("strong", significant(float(own.mean[i]))),
            f" (posterior mean), interval {significant(float(own.lower[i]))} to {significant(float(own.upper[i]))}",
        ])
        for name, i in zip(names, places.tolist(), strict=True)
    ]  # fmt: skip
    return items(listed)

"""The prior, and its predictive intervals of the published numbers."""

from __future__ import annotations

import numpy as np

from bayesdp.plots.fit import summarise
from bayesdp.plots.predictive import prior_predictive, prior_predictive_draws
from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, element, embedded, joined, paragraph
from bayesdp.report.numbers import plural

ANCHOR = "prior"
TITLE = "Prior"


def write(whole: Whole) -> Html:
    """The section."""
    parts: list[Html] = []
    described = whole.described
    if described.text or described.model:
        parts.append(element("pre", described.text or described.model))
    else:
        parts.append(
            paragraph(
                "The posterior file does not describe its prior. Say what it was when you cite these results; it is what the "
                "code that built the model says."
            )
        )
    parts.append(element("h3", "Prior predictive check"))
    found = [part for context in whole.tables for part in _predictive(context)]
    return joined([*parts, *(found or [_nothing(whole)])])


def _predictive(context: Context) -> list[Html]:
    written: list[Html] = []
    for i, measured in enumerate(context.fit.measurements):
        found = prior_predictive_draws(context.fit, i)
        picture = prior_predictive(context.tree, prob=context.prob, measurement=i, var=context.fit.name)
        if found is None or picture is None:
            continue
        draws, what = found
        published = np.asarray(measured.published, dtype=np.float64).reshape(-1)
        shown = np.isfinite(published)
        expected = summarise(draws[:, shown], context.prob)
        inside = int(((published[shown] >= expected.lower) & (published[shown] <= expected.upper)).sum())
        text = (
            f"{context.measurement_title(i)}{context.of_table}: {inside:,} of "
            f"{plural(int(shown.sum()), 'published value')} lie in the "
            f"{context.kind} of the {what}. Many outside would say that prior and data disagree."
        )
        written += [
            paragraph(text),
            embedded(picture, f"Prior predictive {context.kind} and published values, in counts."),
        ]
    return written


def _nothing(whole: Whole) -> Html:
    if not any(context.fit.measurements for context in whole.tables):
        return paragraph("Nothing noisy is published that the prior could be compared with.")
    return paragraph(
        "There are no prior draws in the posterior file, so the prior is not compared with the published numbers here. "
        "Add the groups of ",
        element("code", "pm.sample_prior_predictive"),
        " to have the check.",
    )

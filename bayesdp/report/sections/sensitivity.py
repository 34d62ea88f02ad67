"""How much the prior matters: cells on which nothing was published, and cells where the posterior is the prior."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.report.context import Context
from bayesdp.report.html import Html, boxed, items, joined, paragraph
from bayesdp.report.numbers import decimal, plural, spread
from bayesdp.report.tables import Column, Table, labels, numeric

ANCHOR = "sensitivity"
TITLE = "Sensitivity to the prior"

_CLOSE = 0.15
"""Largest distance between the distribution functions of prior and posterior that still counts as the same: with 1,000
prior draws and 400 effective posterior draws, chance alone gives up to 0.08 (95%)."""
_FEWEST = 200
"""With fewer prior draws the distance is chance."""
_SD_RATIO = (0.8, 1.25)

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]


def write(context: Context) -> Html:
    """The section."""
    return joined([_unseen_words(context), *_prior(context)])


def unseen(context: Context) -> Mask:
    """Free cells that no published noisy number involves, shape ``(cells,)``."""
    seen = np.zeros(context.frame.size, dtype=np.int64)
    for measured in context.fit.measurements:
        published = (~measured.unmeasured.reshape(-1)).astype(np.int64)
        seen += abs(measured.query.matrix).T @ published
    return np.asarray((seen == 0) & ~context.fit.determined)


def _unseen_words(context: Context) -> Html:
    cells = [context.frame.cell_name(int(i)) for i in np.flatnonzero(unseen(context))]
    if not cells:
        return paragraph("Every free cell is part of at least one published noisy number.")
    heading = f"No noisy number was published that involves {plural(len(cells), 'free cell')}."
    text = "What the posterior says about them comes from the prior, the exact values and the model's other cells."
    return joined([boxed("warn", heading, text), items(cells, what="cells")])


def prior_distance(prior: npt.NDArray[np.generic], posterior: npt.NDArray[np.generic]) -> Floats:
    """Largest difference between the distribution functions of prior and posterior draws, column by column.

    0 for equal distributions, 1 for disjoint ones (the statistic of Kolmogorov and Smirnov).

    Examples
    --------
    >>> prior_distance(np.array([[1, 1], [2, 2]]), np.array([[1, 5], [2, 6]]))
    array([0., 1.])
    """
    found = np.empty(prior.shape[1])
    for i in range(prior.shape[1]):
        before, after = np.sort(prior[:, i]), np.sort(posterior[:, i])
        at = np.union1d(before, after)
        gap = np.searchsorted(before, at, "right") / before.size - np.searchsorted(after, at, "right") / after.size
        found[i] = np.abs(gap).max()
    return found


def same_as_prior(distance: Floats, ratio: Floats, fixed: Mask) -> Mask:
    """Free cells whose posterior is the prior: distance and ratio of standard deviations both say so."""
    return np.asarray((distance <= _CLOSE) & (ratio >= _SD_RATIO[0]) & (ratio <= _SD_RATIO[1]) & ~fixed)


def prior_table(context: Context) -> tuple[Table, Mask] | None:
    """Prior and posterior of each cell, and the cells where they are the same; None without prior draws."""
    prior = context.fit.prior_draws
    if prior is None:
        return None
    posterior = context.fit.answers(context.fit.cells)
    summary = context.summary
    prior_sd = prior.std(axis=0)
    ratio = np.divide(summary.sd, prior_sd, out=np.full(summary.sd.shape, np.nan), where=prior_sd > 0)
    distance = prior_distance(prior, posterior)
    same = same_as_prior(distance, ratio, context.fit.determined)
    columns = [
        *labels(context.fit.cells),
        numeric("Prior mean", prior.mean(axis=0), decimal, "prior_mean"),
        numeric("Prior sd", prior_sd, decimal, "prior_sd"),
        numeric("Posterior mean", summary.mean, decimal, "posterior_mean"),
        numeric("Posterior sd", summary.sd, spread, "posterior_sd"),
        numeric("Posterior sd / prior sd", ratio, spread, "sd_ratio"),
        numeric("Distance", distance, spread, "distance"),
    ]
    if same.any():
        columns.append(Column("Remark", np.where(same, "posterior is the prior", "").tolist(), kind="text"))
    caption = (
        "Prior (before any published number, exact ones included) and posterior of each cell, in counts. Distance: largest "
        "difference of the two distribution functions, 0 the same, 1 disjoint. Grey rows are known exactly."
    )
    return Table(caption, columns, context.file("prior.csv"), context.fit.determined.tolist()), same


def _prior(context: Context) -> list[Html]:
    found = prior_table(context)
    prior = context.fit.prior_draws
    few = prior is not None and len(prior) < _FEWEST
    if found is None or few:
        there = "no prior draws" if prior is None else f"only {plural(len(prior), 'prior draw')}"
        return [
            paragraph(
                f"There are {there} in the posterior file, so cells where the posterior is the prior cannot be listed. A "
                "first indication is the table above: the further posterior / noise is below 1, the more of the result comes "
                "from the prior and the exact values. To be sure, fit again with another prior."
            )
        ]
    table, same = found
    if same.any():
        cells = [context.frame.cell_name(int(i)) for i in np.flatnonzero(same)]
        told = joined(
            [
                boxed(
                    "warn",
                    f"In {plural(len(cells), 'cell')} the posterior is the prior.",
                    "The published numbers taught next to nothing about them "
                    f"(distance at most {_CLOSE}, ratio of standard deviations {_SD_RATIO[0]} to {_SD_RATIO[1]}).",
                ),
                items(cells, what="cells"),
            ]
        )
    else:
        told = paragraph("There is no free cell where the posterior is the prior.")
    advice = paragraph(
        "This shows where the data spoke, not how another prior would have changed the result; fit again with another prior "
        "to see that.",
        class_="note",
    )
    return [told, table.to_html(), advice]

"""Sources of error other than the noise, which the posterior accounts for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.report.context import Context, Whole
from bayesdp.report.html import Html, element, items, joined, paragraph
from bayesdp.report.numbers import count, spread
from bayesdp.report.tables import Column, Table, numeric

ANCHOR = "errors"
TITLE = "Sources of error"

_LAW = (
    "The noise law: taken as published, and exact. Numbers that were rounded, truncated or made consistent after the noise was "
    "added do not follow it."
)
_MODEL = "The prior and the model of the counts: see the sensitivity to the prior above. The intervals are right if the model is."
_STATISTICS_MODEL = "The prior and the model of the data: the intervals are right if they are."


def write(whole: Whole) -> Html:
    """The section."""
    counted = [
        f"{context.fit.name}: {_whole(context)}" if context.several else _whole(context) for context in whole.tables
    ]
    model = _STATISTICS_MODEL if all(context.of_statistics for context in whole.tables) else _MODEL
    parts = [items([_monte_carlo(whole.tables[0]), *counted, _LAW, model])]
    for context in whole.tables:
        relaxed = context.fit.relaxation
        if relaxed is not None:
            parts += [
                element("h3", f"Error of the continuous relaxation{context.of_table}"),
                paragraph(stated(context, relaxed)),
                relaxation_table(context, relaxed).to_html(),
            ]
    return joined(parts)


def _monte_carlo(context: Context) -> str:
    worst = context.worst_ess
    if np.isnan(worst):
        return "Monte Carlo error: not known, as the posterior file states no effective sample size."
    return (
        "Monte Carlo error: the draws are finitely many. The standard error of a posterior mean is at most about "
        f"{spread(1 / np.sqrt(worst))} posterior standard deviations (smallest effective sample size {worst:,.0f})."
    )


def _whole(context: Context) -> str:
    """Whether counts are whole numbers, or a continuous relaxation of them."""
    if context.of_statistics:
        return "Statistics: real numbers, as functions of the parameters of the model."
    if context.fit.relaxation is None:
        return "Counts: whole numbers, as they are. No approximation."
    return (
        "Counts: a continuous relaxation. Real numbers stand for whole ones, so that the posterior is close to that of the counts "
        "where they are large, and wrong about cells near 0."
    )


def nearest(means: npt.NDArray[np.float64], levels: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Number of cells whose mean is nearest to each level, on the scale of logarithms.

    Examples
    --------
    >>> nearest(np.array([0.2, 3.0, 90.0]), np.array([1.0, 5.0, 100.0]))
    array([1, 1, 1])
    """
    logs = np.log(np.maximum(means, 1e-9))
    middle = np.log(levels[1:] * levels[:-1]) / 2
    return np.bincount(np.searchsorted(middle, logs), minlength=len(levels)).astype(np.int64)


def stated(context: Context, relaxed: xr.Dataset) -> str:
    """The error of the relaxation in a sentence: where the smallest free cell of this table is."""
    free = context.summary.mean[~context.fit.determined]
    if not free.size:
        return "No cell is free, so that the relaxation costs nothing."
    levels = np.asarray(relaxed["mean_count"].values, dtype=np.float64)
    smallest = float(free.min())
    # The next level below, not the nearest: the error shrinks as counts grow, so that it is not understated.
    row = max(int(np.searchsorted(levels, smallest, side="right")) - 1, 0)
    errors = relaxed.isel(mean_count=row)
    more = ", and by more below it" if smallest < levels[0] else ""
    return (
        f"The smallest posterior mean of a free cell is {spread(smallest)}. In the reference case (Sources of error), at a mean "
        f"count of {count(float(levels[row]))}, posterior means are off by up to {_worst(errors['mean_error'])}, and posterior "
        f"standard deviations by up to {_worst(errors['sd_error'])}, of a posterior standard deviation of whole numbers{more}."
    )


def _worst(errors: xr.DataArray) -> str:
    return f"{float(errors.max()):.2f}"


def relaxation_table(context: Context, relaxed: xr.Dataset) -> Table:
    """The stated error, and how many free cells of this table each row speaks of."""
    levels = np.asarray(relaxed["mean_count"].values, dtype=np.float64)
    cells = nearest(context.summary.mean[~context.fit.determined], levels)
    columns = [Column("Mean count", levels.tolist(), count), Column("Free cells here", cells.tolist())]
    for b in relaxed["b"].values:
        for name, what in (("mean_error", "mean"), ("sd_error", "sd")):
            values = relaxed[name].sel(b=b).values
            columns.append(numeric(f"Error of {what}, b = {b:g}", values, spread, f"{name}_b{b:g}"))
    caption = (
        f"Largest error against the posterior of whole numbers, in posterior standard deviations, in one case: "
        f"{relaxed.attrs['case']}. Free cells here: those whose posterior mean is nearest. Another prior or noise law has "
        "other errors; where cells near 0 matter, sample whole numbers (ConfidentialCounts)."
    )
    return Table(caption, columns, context.file("relaxation.csv"))

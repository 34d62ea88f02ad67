"""What the prior expected, against what was published.

A logarithmic axis of counts that zero and negative noisy values are on as well, with ticks that can be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesdp._validate import positive_integer
from bayesdp.plots.fit import Fit, in_range, summarise
from bayesdp.plots.style import COLOURS, PUBLISHED, figure, percent, rows_of, style, together
from bayesdp.queries import answer_labels

_CLOSEST = 1.0 / 10.0
"""Ticks are this share of the axis apart at least: a number with commas fits in between."""
_LEAST_REACH = 10.0
"""With less than this between the linear piece and the end there is nothing logarithmic about an axis."""


def log_axis(axes: Axes, lowest: float, highest: float) -> None:
    """Make the x axis logarithmic for numbers between `lowest` and `highest`, with a linear piece around zero.

    Where that piece would be most of the axis, because noisy values are far below zero, the axis is linear.
    """
    # The linear piece holds the negative values.
    linear = max(10.0, -2.0 * lowest)
    end = 2.0 * highest
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if end < _LEAST_REACH * linear:
        return
    start = min(1.3 * lowest, 0.0)
    axes.set_xscale("symlog", linthresh=linear)
    axes.set_xlim(start, end)
    shown = ticks(start, end, linear)
    axes.set_xticks(shown, [f"{tick:,.0f}" for tick in shown])
    axes.set_xticks([], minor=True)


def ticks(start: float, end: float, linear: float) -> list[float]:
    """Places of the ticks: zero and powers of ten, with 2 and 5 times these or 3 times these as far as there is room.

    There are four at least where the end is ten times the linear piece or more.

    Parameters
    ----------
    start, end : float
        Ends of the axis.
    linear : float
        The axis is linear up to here.

    Examples
    --------
    >>> ticks(0.0, 600.0, 10.0)
    [0.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
    >>> ticks(0.0, 4e7, 10.0)
    [0.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0, 10000000.0]
    """

    def place(value: float) -> float:
        """On the scale of the axis, as Matplotlib has it (a decade is as long as the linear piece from 0)."""
        return float(np.sign(value) * (1 + np.log10(abs(value) / linear))) if abs(value) > linear else value / linear

    decades = np.arange(np.floor(np.log10(linear)), np.ceil(np.log10(end)) + 1)
    room = _CLOSEST * (place(end) - place(start))
    for factors, step in (((1, 2, 5), 1), ((1, 3), 1), *(((1,), step) for step in range(1, len(decades) + 1))):
        values = [factor * 10.0**power for power in decades[::step].tolist() for factor in factors]
        shown = [value for value in values if linear <= value <= end]
        if np.diff([place(value) for value in shown]).min(initial=np.inf) >= room:
            break
    return [0.0, *(value for value in shown if place(value) >= room)]


_LINEAR_UP_TO = 200.0
"""Counts beyond this are drawn on a logarithmic scale: priors have long tails."""


def prior_predictive_draws(fit: Fit, measurement: int = 0) -> tuple[npt.NDArray[np.float64], str] | None:
    """Draws of published values (or of the counts alone) under the prior, shape ``(draws, answers)``, and what they are.

    None where the DataTree has neither.
    """
    measured = fit.measurements[measurement]
    shown = ~measured.unmeasured.reshape(-1)
    name = fit.observed[measurement]
    if name is not None and "prior_predictive" in fit.tree.children and name in fit.tree["prior_predictive"].data_vars:
        own = fit.tree["prior_predictive"].to_dataset()[name]
        dims = [dim for dim in own.dims if dim not in ("chain", "draw")]
        draws = own.transpose("chain", "draw", *dims).values.reshape(own.sizes["chain"] * own.sizes["draw"], -1)
        if draws.shape[1] == int(shown.sum()):
            full = np.full((len(draws), len(shown)), np.nan)
            full[:, shown] = draws
            return full, "noisy value expected under the prior"
    if fit.prior_draws is None:
        return None
    shape = fit.release.frame.shape
    answers = measured.query.apply(fit.prior_draws.reshape(-1, *shape)).reshape(len(fit.prior_draws), -1)
    return np.asarray(answers, dtype=np.float64), "count expected under the prior, without noise"


def prior_predictive(
    posterior: xr.DataTree, *, prob: float = 0.95, measurement: int = 0, limit: int = 40, var: str | None = None
) -> Figure | None:
    """Draw what the prior expected of each published number, and that number.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` returns it, with the groups of ``pm.sample_prior_predictive`` added.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.
    measurement : int, default 0
        Which measurement of the table, those of several releases after one another.
    limit : int, default 40
        Most answers on the picture; of more, those farthest from the prior's median in units of its interval.
    var : str, optional
        The table, by its name in the model; the first one by default.

    Returns
    -------
    matplotlib.figure.Figure or None
        None where the DataTree has no prior draws.

    Raises
    ------
    TypeError, ValueError
        If the DataTree is not a posterior of a release, or an argument is not valid.
    """
    fit = Fit.of(posterior, var)
    positive_integer(limit, "limit")
    in_range(fit, measurement)
    found = prior_predictive_draws(fit, measurement)
    if found is None:
        return None
    draws, what = found
    measured = fit.measurements[measurement]
    published = np.asarray(measured.published, dtype=np.float64).reshape(-1)
    shown = np.flatnonzero(np.isfinite(published))
    expected = summarise(draws[:, shown], prob)
    median = np.median(draws[:, shown], axis=0)
    which = f"all {len(shown)} published values" if len(shown) == len(published) else f"{len(shown)} published values"
    if len(shown) > limit:
        distance = np.abs(published[shown] - median) / np.maximum(expected.upper - expected.lower, 1.0)
        chosen = np.sort(np.argsort(-distance, kind="stable")[:limit])
        which = f"the {limit} of {len(shown)} values that are farthest out"
    else:
        chosen = np.arange(len(shown))
    rows = np.arange(len(chosen))
    with style():
        drawn = figure(1.45 + 0.24 * max(len(chosen), 3))
        axes = drawn.add_subplot()
        look: dict[str, Any] = {"color": COLOURS["prior"], "linewidth": 3, "alpha": 0.55}
        label = f"{percent(prob)} equal-tailed, {what}"
        axes.hlines(rows, expected.lower[chosen], expected.upper[chosen], label=label, **look)
        axes.plot(median[chosen], rows, "|", color=COLOURS["prior"], markersize=9, label="prior median")
        axes.plot(published[shown][chosen], rows, "D", label="published (noisy)", **PUBLISHED)
        rows_of(axes, [together(labels) for labels in answer_labels(measured.query, shown[chosen])])
        ends = np.concatenate([expected.lower[chosen], expected.upper[chosen], published[shown][chosen]])
        if float(np.abs(ends).max()) > _LINEAR_UP_TO:
            log_axis(axes, float(ends.min()), float(ends.max()))
        axes.set_xlabel("count")
        drawn.suptitle(f"Prior against published: {which}", x=0.01, ha="left", fontsize=11)
        drawn.legend(loc="outside lower left", frameon=False, fontsize=9.5)
    return drawn

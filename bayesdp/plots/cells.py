"""Pictures of the cells of a table: posterior intervals, maps of two-way tables, and what the prior expected."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp._validate import positive_integer
from bayesdp.measurements import Measured
from bayesdp.plots.style import COLOURS, PUBLISHED, cell_labels, figure, percent, plain, rows_of, style, together
from bayesdp.posterior import Posterior, Summary, flat, summarise_draws
from bayesdp.queries import Margins, answer_labels

_MARKERS = "D^vs*"
"""One a measurement of the cells."""
_INVISIBLE = 25.0
"""If the counts spread over this many times the typical interval, intervals around counts are too short to see."""


def intervals(
    posterior: xr.DataTree | Posterior,
    *,
    prob: float = 0.95,
    truth: Any = None,
    limit: int = 40,
    page: int | None = None,
    var: str | None = None,
) -> Figure:
    """Draw the posterior interval of each cell beside what was published.

    Where intervals around counts would be too short to see, the axis has the counts minus the published value, the first of several.
    `posterior`, `prob` and `var` are those of all pictures (`bayesdp.plots`).

    Parameters
    ----------
    truth : array_like, shape ``(*table)``, optional
        The confidential table, in a simulation.
    limit, page : int, optional
        The most cells on one picture, and which `limit` cells of the table, in its order, from 1. Without a page a larger table
        shows the cells with the widest intervals; the title says which are shown.
    """
    fit = Posterior.of(posterior, var)
    positive_integer(limit, "limit")
    summary, true = fit.summary(fit.cells, prob), fit.truth(truth)
    cells, which = _chosen(summary, limit, page)
    shift = fit.published if _too_short(summary, fit, cells) else np.zeros(len(summary.mean))
    rows = np.arange(len(cells))
    fixed = fit.determined[cells]
    free = ~fixed
    low, high, mean = (array[cells] - shift[cells] for array in (summary.lower, summary.upper, summary.mean))
    with style():
        drawn = figure(_height(cells))
        axes = drawn.add_subplot()
        look: dict[str, Any] = {"color": COLOURS["posterior"], "linewidth": 3, "alpha": 0.55}
        label = f"posterior: {percent(summary.prob)} equal-tailed interval"
        axes.hlines(rows[free], low[free], high[free], label=label, **look)
        axes.plot(mean[free], rows[free], "o", color=COLOURS["posterior"], markersize=5, label="posterior mean")
        if fixed.any():
            label = "determined by the exact values"
            axes.plot(mean[fixed], rows[fixed], "s", color=COLOURS["determined"], markersize=6, label=label)
        for (title, published), marker in zip(fit.published_cells, cycle(_MARKERS), strict=False):
            if np.isfinite(published[cells]).any():
                label = f"published (noisy{f'; {plain(title)}' if title else ''})"
                axes.plot((published - shift)[cells], rows, marker, label=label, **PUBLISHED)
        if true is not None:
            look = {"color": COLOURS["truth"], "markersize": 6, "markeredgewidth": 1.6}
            axes.plot(true[cells] - shift[cells], rows, "x", label="truth", **look)
        labels, counts = cell_labels(fit.release.frame, cells), fit.release.about == "counts"
        label = "count" if counts else "value"
        if shift.any():
            labels = [f"{own} ({shift[cell]:,.0f})" for own, cell in zip(labels, cells, strict=True)]
            title = fit.published_cells[0][0]
            label = f"count minus published value{f' of {plain(title)}' if title else ''} (in brackets)"
        rows_of(axes, labels)
        if counts:
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params(axis="x", nbins=6, integer=counts)
        axes.set_xlabel(label)
        _titled(drawn, f"Counts: {which}" if counts else f"Statistics: {which.replace('cells', 'values')}", 2)
    return drawn


def _height(rows: Ints) -> float:
    """Inches of a picture with a row for each quantity."""
    return 1.45 + 0.24 * max(len(rows), 3)


def _titled(drawn: Figure, title: str, columns: int) -> None:
    """The title above all, and the key below."""
    drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
    drawn.legend(loc="outside lower left", ncols=columns)


def _chosen(summary: Summary, limit: int, page: int | None) -> tuple[Ints, str]:
    """Which cells are shown, and how the title says so."""
    total = len(summary.mean)
    pages = -(-total // limit)
    if page is not None and positive_integer(page, "page") > pages:
        raise ValueError(f"page must be at most {pages}, the number of pages of {limit} cells, got {page}")
    if total <= limit:
        return np.arange(total), f"all {total} cells"
    if page is None:
        widest = np.argsort(-(summary.upper - summary.lower), kind="stable")[:limit]
        return widest, f"the {limit} of {total} cells with the widest intervals"
    start, stop = (page - 1) * limit, min(page * limit, total)
    return np.arange(start, stop), f"cells {start + 1} to {stop} of {total}"


def _too_short(summary: Summary, fit: Posterior, cells: Ints) -> bool:
    """Whether intervals would be mere dots on the scale of the counts."""
    free = cells[~fit.determined[cells]]
    if not free.size or not np.isfinite(fit.published[cells]).all():
        return False
    typical = float(np.median(summary.upper[free] - summary.lower[free]))
    return bool(np.ptp(summary.mean[cells]) > _INVISIBLE * max(typical, 1.0))


_MOST_ANNOTATED = 14
"""With more columns than this the numbers would not be legible."""
_MOST_CHARACTERS = 56
"""So many fit side by side below the map."""


def heatmaps(
    posterior: xr.DataTree | Posterior, *, dims: tuple[str, str] | None = None, var: str | None = None
) -> Figure:
    """Draw maps of the posterior mean and standard deviation of a two-way table; determined cells carry the sign "=".

    `posterior` and `var` are those of all pictures (`bayesdp.plots`). `dims` are rows and columns, the table's own if it has two;
    other dimensions are summed over. Of a result of `bayesdp.fit_hierarchy` such sums must have been recorded (ValueError
    otherwise).
    """
    fit = Posterior.of(posterior, var)
    names = fit.release.dims if dims is None else tuple(dims)
    if len(names) != 2 or len(set(names)) != 2 or not set(names) <= set(fit.release.dims):
        raise ValueError(
            f"dims must be two dimensions of the table ({printable(', '.join(fit.release.dims))}), got {names!r}"
        )
    query = Margins(fit.release.frame, list(names))
    turned = query.dims != names
    fixed = fit.fixed(query).reshape(query.shape)
    maps = [found.reshape(query.shape) for found in fit.moments(query)]
    if turned:
        fixed, maps = fixed.T, [own.T for own in maps]
    rows, columns = maps[0].shape
    labels = [[plain(label) for label in fit.release.frame.labels_of(name)] for name in names]
    with style():
        # Labels of columns lie flat where they have room side by side, and stand otherwise.
        turned_by = 0 if columns * (max(map(len, labels[1])) + 2) <= _MOST_CHARACTERS else 90
        below = 0.075 * max(map(len, labels[1])) if turned_by else 0.0
        drawn = figure(2 * (1.15 + min(0.36 * rows, 6.0) + below))
        top, bottom = drawn.subplots(2, 1)
        parts = ((top, maps[0], "Blues", "mean"), (bottom, maps[1], "Oranges", "standard deviation"))
        for axes, values, colours, what in parts:
            image = axes.imshow(values, cmap=colours, aspect="auto", vmin=min(0.0, float(values.min())))
            drawn.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
            axes.set_title(f"Posterior {what} (count)")
            axes.set_xticks(range(columns), labels[1], rotation=turned_by)
            axes.set_yticks(range(rows), labels[0])
            axes.set_ylabel(plain(names[0]))
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            if columns <= _MOST_ANNOTATED and rows <= 2 * _MOST_ANNOTATED:
                _annotate(axes, image, values, fixed)
        bottom.set_xlabel(plain(names[1]))
    return drawn


def _annotate(axes: Axes, image: Any, values: Floats, fixed: Mask) -> None:
    """Write the number into each cell, in a colour that can be read on its ground."""
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.cmap(image.norm(value))
        dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5
        text = f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
        if fixed[row, column] and value == round(value):
            text = f"= {value:,.0f}"
        axes.text(column, row, text, ha="center", va="center", color="white" if dark else "black")


_LINEAR_UP_TO = 200.0
"""Counts beyond this are drawn on a logarithmic scale: priors have long tails."""


def prior_predictive(
    posterior: xr.DataTree | Posterior,
    *,
    prob: float = 0.95,
    measurement: int = 0,
    limit: int = 40,
    var: str | None = None,
) -> Figure | None:
    """Draw what the prior expected of each published number, and that number; None where the posterior has no prior draws.

    Those are in the groups of ``pm.sample_prior_predictive``. Arguments are those of all pictures (`bayesdp.plots`); of more than
    `limit` answers those farthest from the prior's median, in units of its interval, are drawn.
    """
    fit = Posterior.of(posterior, var)
    positive_integer(limit, "limit")
    measured = measurement_of(fit, measurement)
    found = fit.prior_predictive(measurement)
    if found is None:
        return None
    draws, what = found
    published = flat(measured.published)
    shown = np.flatnonzero(np.isfinite(published))
    expected = summarise_draws(draws[:, shown], prob)
    median = np.median(draws[:, shown], axis=0)
    which = f"all {len(shown)} published values" if len(shown) == len(published) else f"{len(shown)} published values"
    chosen = np.arange(len(shown))
    if len(shown) > limit:
        distance = np.abs(published[shown] - median) / np.maximum(expected.upper - expected.lower, 1.0)
        chosen = np.sort(np.argsort(-distance, kind="stable")[:limit])
        which = f"the {limit} of {len(shown)} values that are farthest out"
    rows = np.arange(len(chosen))
    with style():
        drawn = figure(_height(chosen))
        axes = drawn.add_subplot()
        look: dict[str, Any] = {"color": COLOURS["prior"], "linewidth": 3, "alpha": 0.55}
        label = f"{percent(prob)} equal-tailed, {what}"
        axes.hlines(rows, expected.lower[chosen], expected.upper[chosen], label=label, **look)
        axes.plot(median[chosen], rows, "|", color=COLOURS["prior"], markersize=9, label="prior median")
        axes.plot(published[shown][chosen], rows, "D", label="published (noisy)", **PUBLISHED)
        rows_of(axes, [together(labels) for labels in answer_labels(measured.query, shown[chosen])])
        ends = np.concatenate([expected.lower[chosen], expected.upper[chosen], published[shown][chosen]])
        lowest, highest = float(ends.min()), float(ends.max())
        linear = max(10.0, -2.0 * lowest)  # a piece of the axis, which holds negative numbers
        if highest > max(_LINEAR_UP_TO, 5.0 * linear):
            axes.set_xscale("symlog", linthresh=linear)
            axes.set_xlim(min(1.3 * lowest, 0.0), 2.0 * highest)
            axes.set_xticks([], minor=True)
        if max(highest, -lowest) > _LINEAR_UP_TO:
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("count")
        _titled(drawn, f"Prior against published: {which}", 1)
    return drawn


def measurement_of(fit: Posterior, number: int) -> Measured:
    """A measurement of a table; ValueError if it has none of that number."""
    if not 0 <= number < len(fit.measurements):
        last = len(fit.measurements) - 1
        noisy = f"from 0 to {last}" if fit.measurements else "that of a noisy table, and there is none"
        raise ValueError(f"measurement must be {noisy}, got {number!r}")
    return fit.measurements[number]

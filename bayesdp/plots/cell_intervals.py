"""Intervals of every cell: what was published, the posterior, and the truth where it is known."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.figure import Figure

from bayesdp._validate import choice, positive_integer
from bayesdp.plots.fit import Fit, Summary
from bayesdp.plots.style import COLOURS, PUBLISHED, cell_labels, figure, percent, plain, rows_of, style

type Floats = npt.NDArray[np.float64]

_MARKERS = "D^vs*"
"""One a measurement of the cells."""
_INVISIBLE = 25.0
"""If the counts spread over this many times the typical interval, intervals around counts are too short to see."""


def number_of_pages(cells: int, limit: int) -> int:
    """How many pages of `limit` cells a table has."""
    return -(-cells // limit)


def intervals(
    posterior: xr.DataTree,
    *,
    prob: float = 0.95,
    truth: Any = None,
    limit: int = 40,
    page: int | None = None,
    scale: str = "auto",
    var: str | None = None,
) -> Figure:
    """Draw the posterior interval of each cell beside what was published.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` returns it.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.
    truth : xarray.DataArray or array_like, shape ``(*table)``, optional
        The confidential table, in a simulation.
    limit : int, default 40
        Most cells on one picture.
    page : int, optional
        Which `limit` cells of the table, in its order, from 1. Without it a larger table shows the cells with the widest
        intervals; the title says which are shown.
    scale : {"auto", "count", "difference"}
        Counts, or counts minus the published value. ``auto`` takes the difference where intervals around the counts
        would be too short to see. Where several noisy values of the cells were published: minus the first.
    var : str, optional
        The table, by its name in the model; the first one by default.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If the DataTree is not a posterior of a release, or an argument is not valid.
    """
    fit = Fit.of(posterior, var)
    positive_integer(limit, "limit")
    choice(scale, ("auto", "count", "difference"), "scale")
    summary = fit.summary(fit.cells, prob)
    cells, which = _chosen(summary, limit, page)
    shift = np.zeros(len(summary.mean))
    if scale == "difference" or (scale == "auto" and _too_short(summary, fit, cells)):
        if not np.isfinite(fit.published[cells]).all():
            raise ValueError("scale='difference' needs a published value of every cell shown; use scale='count'")
        shift = fit.published
    return _draw(fit, summary, cells, which, shift, fit.truth(truth))


def _chosen(summary: Summary, limit: int, page: int | None) -> tuple[npt.NDArray[np.int64], str]:
    """Which cells are shown, and how the title says so."""
    total = len(summary.mean)
    if page is not None:
        pages = number_of_pages(total, limit)
        if positive_integer(page, "page") > pages:
            raise ValueError(f"page must be at most {pages}, the number of pages of {limit} cells, got {page}")
        start, stop = (page - 1) * limit, min(page * limit, total)
        return np.arange(
            start, stop
        ), f"cells {start + 1} to {stop} of {total}" if total > limit else f"all {total} cells"
    if total <= limit:
        return np.arange(total), f"all {total} cells"
    widest = np.argsort(-(summary.upper - summary.lower), kind="stable")[:limit]
    return widest, f"the {limit} of {total} cells with the widest intervals"


def _too_short(summary: Summary, fit: Fit, cells: npt.NDArray[np.int64]) -> bool:
    """Whether intervals would be mere dots on the scale of the counts."""
    free = cells[~fit.determined[cells]]
    if not free.size or not np.isfinite(fit.published[cells]).all():
        return False
    typical = float(np.median(summary.upper[free] - summary.lower[free]))
    return bool(np.ptp(summary.mean[cells]) > _INVISIBLE * max(typical, 1.0))


def _draw(
    fit: Fit, summary: Summary, cells: npt.NDArray[np.int64], which: str, shift: Floats, truth: Floats | None
) -> Figure:
    rows = np.arange(len(cells))
    fixed = fit.determined[cells]
    free = ~fixed
    centred = bool(shift.any())
    labels = cell_labels(fit.release.frame, cells)
    if centred:
        labels = [f"{label} ({shift[cell]:,.0f})" for label, cell in zip(labels, cells, strict=True)]
    low, high, mean = (array[cells] - shift[cells] for array in (summary.lower, summary.upper, summary.mean))
    with style():
        drawn = figure(1.45 + 0.24 * max(len(cells), 3))
        axes = drawn.add_subplot()
        look: dict[str, Any] = {"color": COLOURS["posterior"], "linewidth": 3, "alpha": 0.55}
        label = f"posterior: {percent(summary.prob)} equal-tailed interval"
        axes.hlines(rows[free], low[free], high[free], label=label, **look)
        axes.plot(mean[free], rows[free], "o", color=COLOURS["posterior"], markersize=5, label="posterior mean")
        if fixed.any():
            label = "determined by the exact values"
            axes.plot(mean[fixed], rows[fixed], "s", color=COLOURS["determined"], markersize=6, label=label)
        for (title, published), marker in zip(fit.published_cells, cycle(_MARKERS), strict=False):
            if not np.isfinite(published[cells]).any():
                continue
            label = f"published (noisy{f'; {plain(title)}' if title else ''})"
            axes.plot((published - shift)[cells], rows, marker, label=label, **PUBLISHED)
        if truth is not None:
            look = {"color": COLOURS["truth"], "markersize": 6, "markeredgewidth": 1.6}
            axes.plot(truth[cells] - shift[cells], rows, "x", label="truth", **look)
        rows_of(axes, labels)
        counts = fit.release.about == "counts"
        if counts:
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params(axis="x", nbins=6, integer=counts)
        axes.set_xlabel(_against(fit) if centred else "count" if counts else "value")
        title = f"Counts: {which}" if counts else f"Statistics: {which.replace('cells', 'values')}"
        drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
        drawn.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=9.5)
    return drawn


def _against(fit: Fit) -> str:
    """The label of an axis of differences."""
    title = fit.published_cells[0][0]
    return f"count minus published value{f' of {plain(title)}' if title else ''} (in brackets)"

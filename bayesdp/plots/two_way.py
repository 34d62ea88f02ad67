"""Posterior mean and standard deviation of a two-way table, as two annotated maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesdp._text import printable
from bayesdp.plots.fit import Fit
from bayesdp.plots.style import figure, plain, style
from bayesdp.queries import Margins

_MOST_ANNOTATED = 14
"""With more columns than this the numbers would not be legible."""
_MOST_CHARACTERS = 56
"""So many fit side by side below the map."""


def heatmaps(posterior: xr.DataTree, *, dims: tuple[str, str] | None = None, var: str | None = None) -> Figure:
    """Draw the posterior mean and the posterior standard deviation of a two-way table.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` returns it.
    dims : tuple of str, optional
        Two dimensions of the table, rows and columns; the others are summed over. The table's own if it has two.
    var : str, optional
        The table, by its name in the model; the first one by default.

    Returns
    -------
    matplotlib.figure.Figure
        Two maps, one above the other; determined cells carry the sign "=".

    Raises
    ------
    TypeError, ValueError
        If the DataTree is not a posterior of a release, or `dims` are not two dimensions of its table; of a result of
        `bayesdp.fit_hierarchy` also if the table has more, and these sums were not recorded.
    """
    fit = Fit.of(posterior, var)
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
        turned_by = _rotation(labels[1])
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


def _rotation(labels: list[str]) -> int:
    """Labels of columns lie flat where they have room side by side, and stand otherwise."""
    return 0 if len(labels) * (max(map(len, labels)) + 2) <= _MOST_CHARACTERS else 90


def _annotate(axes: Axes, image: Any, values: npt.NDArray[np.float64], fixed: npt.NDArray[np.bool_]) -> None:
    """Write the number into each cell, in a colour that can be read on its ground."""
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.cmap(image.norm(value))
        dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5
        text = f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
        axes.text(
            column,
            row,
            f"= {value:,.0f}" if fixed[row, column] and value == round(value) else text,
            ha="center",
            va="center",
            color="white" if dark else "black",
        )

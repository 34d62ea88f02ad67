"""The noise law of a measurement: its mass or density, with its standard deviation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesdp.plots.fit import Fit, in_range
from bayesdp.plots.noise_scale import NoiseScale, noise_scale
from bayesdp.plots.style import COLOURS, figure, plain, style, together
from bayesdp.queries import answer_labels
from bayesdp.release import Measured

__all__ = ["noise_law"]

_REACH = 4.0
"""Standard deviations to each side."""
_MOST_BARS = 121


def noise_law(posterior: xr.DataTree, *, measurement: int = 0, var: str | None = None) -> Figure:
    """Draw the law of the noise that was added to one answer of a measurement.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` returns it.
    measurement : int, default 0
        Which measurement of the table, those of several releases after one another.
    var : str, optional
        The table, by its name in the model; the first one by default.

    Returns
    -------
    matplotlib.figure.Figure
        Mass (integer noise) or density of the noise of one answer, with dashed lines at one standard deviation. Where
        scales differ between answers: that with the median scale. Where the marginal law of a cell has no formula:
        relative frequencies of simulated noise.

    Raises
    ------
    TypeError, ValueError
        If the DataTree is not a posterior of a release, or there is no such measurement.
    """
    fit = Fit.of(posterior, var)
    in_range(fit, measurement)
    own = fit.measurements[measurement]
    return draw_noise_law(own, noise_scale(own))


def draw_noise_law(measured: Measured, scale: NoiseScale) -> Figure:
    """Draw the law of a measurement whose scale is known already."""
    known = scale.sd[np.isfinite(scale.sd)]
    # The answer in the middle, not the mean of two: its noise can be looked up.
    answer = int(np.argsort(scale.sd, kind="stable")[len(known) // 2]) if known.size else 0
    sd = float(scale.sd[answer]) if known.size else np.nan
    with style():
        drawn = figure(3.0)
        axes = drawn.add_subplot()
        if not np.isfinite(sd) or sd == 0:
            message = "the noise is always 0 here" if sd == 0 else "the size of the noise is not known here"
            axes.text(0.5, 0.5, message, transform=axes.transAxes, ha="center")
            axes.set_axis_off()
            return drawn
        which = _curve(axes, measured, scale, answer, sd)
        for side in (-1, 1):
            label = f"± 1 standard deviation = {sd:,.3g} counts" if side > 0 else None
            axes.axvline(side * sd, color=COLOURS["truth"], linestyle="--", linewidth=1.2, label=label)
        law = measured.law.uncensored
        before = "" if law is measured.law else ", before answers were held back"
        axes.set_title(f"Noise: {plain(law.name)}{before}{which}")
        axes.set_xlabel("noise (count)")
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", integer=True)
        drawn.legend(loc="outside lower left", frameon=False, fontsize=9.5)
    return drawn


def _curve(axes: Axes, measured: Measured, scale: NoiseScale, answer: int, sd: float) -> str:
    """Draw mass, density or frequencies; say which answer they are of."""
    varies = bool(np.ptp(scale.sd[np.isfinite(scale.sd)]) > 1e-9)
    which = f", {together(answer_labels(measured.query, [answer])[0])}" if varies else ""
    law, shape = measured.law.uncensored, measured.query.shape
    reach = int(np.ceil(_REACH * sd))
    at = np.arange(-reach, reach + 1.0) if law.integer else np.linspace(-reach, reach, 401)
    heights = law.of_answer(answer, shape).picture(at, sd)
    if heights is not None and law.integer:
        _bars(axes, at.astype(np.int64), heights)
        axes.set_ylabel("probability")
        return which
    if heights is not None:
        axes.fill_between(at, heights, color=COLOURS["release"], alpha=0.35)
        axes.plot(at, heights, color=COLOURS["release"])
        axes.set_ylabel("density (per count)")
        return which
    drawn = scale.draws
    if drawn is None:
        size, relations = 4000, measured.noise_invariants
        shape = measured.query.shape if relations is None else relations.frame.shape
        noise = law.draw(np.random.default_rng(0), shape, size=size, invariants=relations)
        drawn = noise.astype(np.float64).reshape(size, -1)
    sample = drawn.reshape(-1) if scale.exchangeable else drawn[:, answer]
    if not law.integer:
        counted, edges = np.histogram(sample, bins=_MOST_BARS, range=(-reach, reach))
        axes.stairs(counted / (len(sample) * np.diff(edges)), edges, fill=True, color=COLOURS["release"], alpha=0.5)
        axes.set_ylabel("density (per count, simulated)")
        return which or ", one answer"
    # Bins of an odd number of integers, so that one of them is centred at zero.
    width = 2 * (2 * reach // (2 * _MOST_BARS)) + 1
    inside = np.rint(sample / width).astype(np.int64)
    values, counts = np.unique(inside, return_counts=True)
    _bars(axes, values * width, counts / (counts.sum() * width), width)
    axes.set_xlim(-reach - 0.5, reach + 0.5)
    axes.set_ylabel("frequency (simulated)")
    return which or ", one cell"


def _bars(axes: Axes, values: npt.NDArray[np.int64], heights: npt.NDArray[np.float64], width: int = 1) -> None:
    """Draw a bar at each integer (or bin of integers), or a line where bars would touch."""
    if len(values) <= _MOST_BARS:
        axes.bar(values, heights, width=(0.7 if width == 1 else 1.0) * width, color=COLOURS["release"], alpha=0.75)
    else:
        axes.plot(values, heights, color=COLOURS["release"])
        axes.fill_between(values, heights, color=COLOURS["release"], alpha=0.35)

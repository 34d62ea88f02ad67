"""The picture of a design: how wide users' intervals would be, against the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Affine2D
from scipy import stats

from bayesdp import _validate
from bayesdp.calibration.designs import Design
from bayesdp.plots.style import COLOURS, figure, percent, plain, style

_MARKERS = "osD^vP*Xph<>"
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MOST = 9
_APART = 0.08
"""Of the range of the losses: so far apart markers of one loss are drawn, a little more than their size."""
_SHORT, _LONG = 34, 80
"""Letters of a name that fit two, or one, in a row of the key."""


def designs(result: Design, *, probability: float | None = None, questions: Sequence[str] | None = None) -> Figure:
    """Draw the mean width of intervals against the loss, one panel for each question.

    Parameters
    ----------
    result : Design
        What `bayesdp.design` gave.
    probability : float, optional
        Of the intervals, one of those of the design; its largest by default.
    questions : sequence of str, optional
        Which, in this order; the first nine by default.

    Returns
    -------
    matplotlib.figure.Figure
        Each candidate has a marker; those of the same loss are side by side. Bars are 95% Monte Carlo limits of the mean width, by
        Student's t. A marker is empty where the 95% limits of the coverage do not hold the probability: below it with a cross
        through it, above it without. A candidate without a finite loss is left out, and named in the title.

    Raises
    ------
    TypeError, ValueError
        If the result is something else, or a question or the probability is not of the design.

    Examples
    --------
    See `bayesdp.design`.
    """
    given: Any = result
    if not isinstance(given, Design):
        raise TypeError(f"result must be what bayesdp.design gave, got {type(result).__name__}")
    data = result.data
    levels = [float(own) for own in data["probability"].values]
    level = levels[-1] if probability is None else _validate.probability(probability, "probability")
    if level not in levels:
        raise ValueError(f"probability must be one of the design, {', '.join(map(str, levels))}, got {probability!r}")
    chosen = result.questions[:_MOST] if questions is None else list(questions)
    unknown = [own for own in chosen if own not in result.questions]
    if unknown or not chosen:
        raise ValueError(
            f"questions must be of the design, {', '.join(map(repr, result.questions[:_MOST]))}, got {questions!r}"
        )
    drawable = [name for name in result.candidates if np.isfinite(data["loss"].sel(candidate=name))]
    columns = min(2, len(chosen))
    rows = -(-len(chosen) // columns)
    losses = {name: float(data["loss"].sel(candidate=name)) for name in drawable}
    step = _APART * (max(losses.values(), default=0.0) - min(losses.values(), default=0.0) or 1.0)
    with style():
        drawn = figure(1.6 + 2.1 * rows + 0.2 * -(-len(drawable) // _key_columns(drawable)))
        places = drawn.subplots(rows, columns, sharex=True, squeeze=False).reshape(-1)
        for axes, question in zip(places, chosen, strict=False):
            for k, name in enumerate(drawable):
                own = data.sel(candidate=name, question=question, probability=level)
                error = float(own["width_error"])
                low, high = float(own["coverage_low"]), float(own["coverage_high"])
                right = low <= level <= high
                alike = [other for other in drawable if losses[other] == losses[name]]
                aside = step * (alike.index(name) - 0.5 * (len(alike) - 1))
                beside = Affine2D().translate(aside, 0.0) + axes.transData  # the data stay those of the loss itself
                marker, _, _ = axes.errorbar(
                    losses[name],
                    float(own["width"]),
                    yerr=float(stats.t.isf(0.025, int(own["used"]) - 1)) * error if np.isfinite(error) else None,
                    marker=_MARKERS[k % len(_MARKERS)],
                    color=_PALETTE[k % len(_PALETTE)],
                    markerfacecolor=_PALETTE[k % len(_PALETTE)] if right else "white",
                    markersize=7,
                    capsize=3,
                    elinewidth=1.2,
                    transform=beside,
                )
                marker.set_clip_on(False)  # a width of 0 is on the axis
                if high < level:
                    axes.plot(
                        losses[name],
                        float(own["width"]),
                        marker="x",
                        markersize=11,
                        color=COLOURS["truth"],
                        transform=beside,
                        clip_on=False,
                    )
            axes.set_title(plain(question), fontsize=10)
            axes.set_ylim(bottom=0.0)
            axes.margins(x=0.15)
            axes.grid(color=COLOURS["grid"])
        for axes in places[len(chosen) :]:
            axes.remove()
        for axes in places[max(len(chosen) - columns, 0) : len(chosen)]:  # the lowest of each column
            axes.set_xlabel(result.loss_name, fontsize=10)
            axes.tick_params(labelbottom=True)
        _words(drawn, result, level, drawable)
    return drawn


def _key_columns(names: Sequence[str]) -> int:
    """Two names in a row where all are short; long ones often differ at their ends only."""
    return 2 if all(len(name) <= _SHORT for name in names) else 1


def _words(drawn: Figure, result: Design, level: float, drawable: Sequence[str]) -> None:
    """Axes, title and the key of the markers."""
    left_out = [name for name in result.candidates if name not in drawable]
    tried = "tables of a prior" if result.data.attrs["tried_on"] == "prior" else "one given table"
    title = f"{result.data.attrs['n']} releases each, of {tried}"
    if left_out:
        title += f"; without a finite loss: {', '.join(plain(name, 20) for name in left_out)}"
    drawn.suptitle(title, fontsize=10, x=0.02, ha="left")
    drawn.supylabel(f"mean width of {percent(level)} intervals", fontsize=10)
    columns = _key_columns(drawable)
    handles = [
        Line2D(
            [],
            [],
            marker=_MARKERS[k % len(_MARKERS)],
            color=_PALETTE[k % len(_PALETTE)],
            linestyle="",
            label=plain(name, _SHORT if columns == 2 else _LONG),
        )
        for k, name in enumerate(drawable)
    ]
    if handles:
        drawn.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)

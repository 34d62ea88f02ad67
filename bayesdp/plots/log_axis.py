"""A logarithmic axis of counts that zero and negative noisy values are on as well, with ticks that can be read."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

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

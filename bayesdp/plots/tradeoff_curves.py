"""Trade-off functions: the smallest type II error of any test against its type I error."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr

from bayesdp.plots.style import COLOURS, figure, plain, style
from bayesdp.privacy import TradeOff

_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
_LEVELS = ndtr(np.linspace(-5.0, 5.0, 601))


def tradeoffs(curves: Mapping[str, TradeOff]) -> Figure:
    """Draw trade-off functions: type II error against type I error of the best test that tells two tables apart.

    The higher a curve, the better the protection; the grey line is that of a release that says nothing.

    Parameters
    ----------
    curves : mapping of str to TradeOff
        Functions and their labels, in the order of the legend.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If `curves` is not a mapping of labels to trade-off functions, or empty.

    Examples
    --------
    Two releases at epsilon = 0.5, of a table whose invariant moves tables two records apart (paper 003, Proposition 21):

    >>> from bayesdp.privacy import approximate_dp, composition_first, semi_first
    >>> releases = [approximate_dp(0.5)] * 2
    >>> picture = tradeoffs(
    ...     {"Semi-DP first": semi_first(releases, 2), "composition first": composition_first(releases, 2)}
    ... )
    >>> picture.axes[0].get_xlabel()
    'type I error'
    """
    if not isinstance(curves, Mapping):
        raise TypeError(f"curves must be a mapping of labels to trade-off functions, got {type(curves).__name__}")
    if not curves:
        raise ValueError("curves must hold at least one trade-off function")
    for label, f in curves.items():
        if not isinstance(f, TradeOff):
            raise TypeError(f"curves[{label!r}] must be a trade-off function, got {type(f).__name__}")
    with style():
        picture = figure(5.2)
        axes = picture.subplots()
        axes.plot([0.0, 1.0], [1.0, 0.0], color=COLOURS["grid"], linewidth=1.0, label="nothing is learned")
        for i, (label, f) in enumerate(curves.items()):
            a = np.unique(np.concatenate([[0.0, 1.0], _LEVELS, f._kinks()]))
            axes.plot(a, f(a), linestyle=_LINES[i % len(_LINES)], linewidth=1.8, label=plain(label))
        axes.set(
            xlabel="type I error",
            ylabel="smallest type II error",
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.0),
            title="How well two tables can be told apart",
        )
        axes.set_aspect("equal")
        axes.legend(frameon=False)
    return picture

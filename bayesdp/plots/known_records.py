"""How a guarantee decays as records become known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from bayesdp.plots.style import COLOURS, figure, style
from bayesdp.privacy import SideInformationCurve

_NAMES = {"epsilon": "ε", "rho": "ρ of zCDP", "mu": "μ of GDP"}


def side_information(curve: SideInformationCurve, loss: Mapping[str, float]) -> Figure:
    """Draw what is left of a guarantee about tables with the same exact answers, against the number of known records.

    Above: the share of records without any alternative, and the share of what records could claim that is still protected; means
    over the random orders, with the range of all orders. Below: the loss at the distance that the remaining records need; it
    may fall because less is left to protect. Where in some orders nothing is left, the mean is of the others.

    Parameters
    ----------
    curve : SideInformationCurve
        Made by `bayesdp.privacy.side_information_curve`.
    loss : mapping
        Of one substituted record, such as ``{"rho": 2.56}``; its first parameter is drawn.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If the curve is none, or the loss is no loss.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.privacy import side_information_curve
    >>> from bayesdp.queries import Margins
    >>> margins = Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> table = [[4, 1], [2, 3]]
    >>> curve = side_information_curve([Exact(margins, margins.apply(table))], table, orders=5, rng=1)
    >>> side_information(curve, {"epsilon": 0.5}).axes[1].get_xlabel()
    'number of known records'
    """
    if not isinstance(curve, SideInformationCurve):
        raise TypeError(f"curve must be a SideInformationCurve, got {type(curve).__name__}")
    losses = curve.losses(loss)
    name = next(iter(loss))
    known = curve.known
    with style():
        picture = figure(6.4)
        above, below = picture.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for values, label, colour, line in (
            (curve.claims, "alternatives still protected", COLOURS["posterior"], "-o"),
            (curve.unprotected, "records without any alternative", COLOURS["release"], "--s"),
        ):
            above.plot(known, values.mean(axis=0), line, color=colour, markersize=4, label=label)
            above.fill_between(known, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, linewidth=0.0)
        above.set(ylim=(-0.03, 1.03), ylabel="share", title="What is left when some records are known")
        above.legend(frameon=False, loc="center left")
        left = ~np.isnan(losses).all(axis=0)
        below.plot(known[left], np.nanmean(losses[:, left], axis=0), "-o", color=COLOURS["truth"], markersize=4)
        low, high = np.nanmin(losses[:, left], axis=0), np.nanmax(losses[:, left], axis=0)
        below.fill_between(known[left], low, high, color=COLOURS["determined"], alpha=0.25, linewidth=0.0)
        below.set(
            xlabel="number of known records",
            ylabel=f"{_NAMES.get(name, name)} of the rest",
            ylim=(0.0, 1.1 * float(np.nanmax(losses[:, left], initial=0.0)) or 1.0),
            xlim=(0, curve.records),
        )
        for axes in (above, below):
            axes.grid(color=COLOURS["grid"])
    return picture

"""The picture of a check of a law: differences of published sums beside what the law says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bayesdp._text import printable
from bayesdp._validate import positive_integer
from bayesdp.consistency import LawCheck
from bayesdp.plots.style import COLOURS, figure, plain, style

__all__ = ["law_check"]


def law_check(check: LawCheck, *, most: int = 4) -> Figure:
    """Draw how many differences of published sums there are of each size, beside what the stated law says.

    Parameters
    ----------
    check : LawCheck
        What `bayesdp.check_law` gave.
    most : int, default 4
        Groups of differences that are drawn, those that fit worst first.

    Returns
    -------
    matplotlib.figure.Figure
        Sizes in counts, or in standard deviations of each difference where these differ. The last bins hold all that is farther
        out. Where the law of a difference depends on unknown remainders (rounding) only what is published is drawn.

    Raises
    ------
    TypeError, ValueError
        If `check` is something else, or has no differences of which the law says anything, or `most` is no positive whole number.

    Examples
    --------
    See `bayesdp.check_law`.
    """
    given: Any = check
    if not isinstance(given, LawCheck):
        raise TypeError(f"check must be what bayesdp.check_law gave, got {type(check).__name__}")
    wanted = positive_integer(most, "most")
    groups = sorted((group for group in check.groups if group.observed.sum()), key=lambda group: group.pvalue)[:wanted]
    if not groups:
        raise ValueError("check has no differences to draw: no published sums of large enough counts have to agree")
    with style():
        drawn = figure(1.0 + 2.3 * len(groups))
        for axes, group in zip(drawn.subplots(len(groups), squeeze=False)[:, 0], groups, strict=True):
            counts = not np.isnan(group.unit)
            at = group.bins * (1.0 if counts else 0.5)
            axes.bar(
                at,
                group.observed,
                width=0.8 * (at[1] - at[0]),
                color=COLOURS["posterior"],
                alpha=0.6,
                label="published",
            )
            if not np.isnan(group.expected).any():
                axes.plot(
                    at,
                    group.expected,
                    color=COLOURS["release"],
                    marker="D",
                    markersize=4,
                    linewidth=1.2,
                    label="by the law",
                )
            axes.set_title(f"{plain(printable(group.words), 90)}\np = {group.pvalue:.2g}", fontsize=10)
            axes.set_xlabel("difference (count)" if counts else "difference (standard deviations by the law)")
            axes.set_ylabel("differences")
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False, fontsize=9.5)
    return drawn

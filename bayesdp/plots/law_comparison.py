"""The picture of a comparison of noise laws: an interval for each law and quantity, and what holds them all.

The picture of a check of a law: differences of published sums beside what the law says of them.
"""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bayesdp._text import printable
from bayesdp._validate import positive_integer
from bayesdp.consistency import LawCheck
from bayesdp.plots.style import COLOURS, figure, percent, plain, rows_of, style
from bayesdp.summaries.law_comparison import LawComparison

_MARKERS = "osD^vP*Xph<>"
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


def law_comparison(result: LawComparison, *, most: int = 12) -> Figure:
    """Draw the posterior mean and interval of each quantity under each law.

    Parameters
    ----------
    result : LawComparison
        What `bayesdp.compare_laws` gave.
    most : int, default 12
        Quantities that are drawn: those whose means are furthest apart in posterior standard deviations, in their order.

    Returns
    -------
    matplotlib.figure.Figure
        The grey bar behind a quantity holds the intervals of all laws; it is no credible interval.

    Raises
    ------
    TypeError, ValueError
        If the result is something else, or `most` is no positive whole number.

    Examples
    --------
    See `bayesdp.compare_laws`.
    """
    given: Any = result
    if not isinstance(given, LawComparison):
        raise TypeError(f"result must be what bayesdp.compare_laws gave, got {type(result).__name__}")
    spread, wanted = result.spread, positive_integer(most, "most")
    furthest = spread["spread_in_sd"].fillna(-1.0).sort_values(ascending=False, kind="stable").index[:wanted]
    keys = [key for key in spread.index if key in set(furthest)]
    step = 0.7 / len(result.laws)
    with style():
        drawn = figure(1.5 + len(keys) * (0.25 + 0.2 * len(result.laws)) + 0.2 * len(result.laws))
        axes = drawn.subplots()
        for row, key in enumerate(keys):
            low, high = (float(spread.loc[key, end]) for end in ("lower", "upper"))
            axes.barh(row, high - low, left=low, height=0.85, color="#DDDDDD", zorder=0)
            for k, law in enumerate(result.laws):
                own = result.table.loc[(*key, law)]
                axes.errorbar(
                    own["mean"], row + (k - 0.5 * (len(result.laws) - 1)) * step,
                    xerr=[[own["mean"] - own["lower"]], [own["upper"] - own["mean"]]],
                    marker=_MARKERS[k % len(_MARKERS)], color=_PALETTE[k % len(_PALETTE)], capsize=2, linestyle="none",
                    label=plain(printable(law)) if row == 0 else None,
                )  # fmt: skip
        rows_of(axes, [plain(printable(f"{part}: {label}" if label else str(part))) for part, label in keys])
        axes.set_xlabel("posterior mean and interval")
        left_out = f"{len(keys)} of {len(spread)} quantities; " if len(keys) < len(spread) else ""
        # Above the labels, too: the title is wider than what is left of the figure beside them.
        drawn.suptitle(
            f"{percent(result.prob)} equal-tailed intervals by noise law\n{left_out}grey holds those of all laws; none is weighed"
        )
        drawn.legend(
            *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9.5
        )
    return drawn


def draw_law_check(check: LawCheck, most: int) -> Figure:
    """Draw how many differences there are of each size, of the groups that fit worst, beside what the law says."""
    wanted = positive_integer(most, "most")
    groups = sorted((group for group in check.groups if group.observed.sum()), key=lambda group: group.pvalue)[:wanted]
    if not groups:
        raise ValueError("there are no differences to draw: no published sums of large enough counts have to agree")
    with style():
        drawn = figure(1.0 + 2.5 * len(groups))
        for axes, group in zip(drawn.subplots(len(groups), squeeze=False)[:, 0], groups, strict=True):
            half, standard = len(group.observed) // 2, bool(np.isnan(group.unit))
            at = np.arange(-half, half + 1) * (0.5 if standard else group.unit)
            axes.bar(
                at, group.observed, 0.8 * (at[1] - at[0]), color=COLOURS["posterior"], alpha=0.6, label="published"
            )
            if not np.isnan(group.expected).any():
                axes.plot(
                    at, group.expected, "D-", color=COLOURS["release"], markersize=4, linewidth=1.2, label="by the law"
                )
            axes.set_title(fill(f"{plain(group.words, 150)} (p = {group.pvalue:.2g})", 76), fontsize=9.5)
            axes.set_xlabel("difference (standard deviations by the law)" if standard else "difference (count)")
            axes.set_ylabel("differences")
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False, fontsize=9.5)
    return drawn

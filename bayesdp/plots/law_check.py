"""The picture of a check of a law: differences of published sums beside what the law says of them."""

from __future__ import annotations

from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from bayesdp._validate import positive_integer
from bayesdp.consistency import LawCheck
from bayesdp.plots.style import COLOURS, figure, plain, style


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

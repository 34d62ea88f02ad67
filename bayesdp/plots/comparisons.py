"""Pictures of calibrations, of designs of releases, and of comparisons and checks of noise laws."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Affine2D
from scipy import stats

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp._text import printable
from bayesdp.calibration.designs import Design
from bayesdp.calibration.study import verdict_of
from bayesdp.calibration.verdict import Verdict, band
from bayesdp.measurements.consistency import LawCheck
from bayesdp.plots.style import COLOURS, MARKERS, PALETTE, figure, panels, percent, plain, rows_of, style
from bayesdp.posterior.law_comparison import LawComparison

_MARKED = COLOURS["release"]


def _judged(result: Any) -> Verdict:
    if not isinstance(result, xr.DataTree) or not {"prior_sbc", "dispersion_sbc", "verdict"} <= set(result.children):
        raise TypeError(f"result must be what bayesdp.calibration.study gave, got {type(result).__name__}")
    return verdict_of(result)


def _level(verdict: Verdict) -> float:
    """The level that is left to each test, of all that share the chance of a false alarm."""
    tests = sum(1 + (not np.isnan(q.p_dispersion)) for q in verdict.quantities)
    return verdict.false_alarm / tests


def calibration_ranks(result: xr.DataTree, *, quantities: int = 9) -> Figure:
    """Draw the distribution functions of ranks, less the diagonal, in their simultaneous bands.

    `result` is what `bayesdp.calibration.study` gave; of its `quantities` so many are drawn, the worst first. The dark band holds
    one right quantity with 95%, the light one all of them together with the probability of the verdict. A line that is above the
    band on the left means truths smaller than the posterior says, a slope like a lying S posteriors too wide, its mirror image too
    narrow.

    Examples
    --------
    >>> import numpy as np
    >>> ranks = xr.Dataset({"rate": (("chain", "draw"), np.random.default_rng(1).random((1, 50)))})
    >>> group = xr.Dataset(attrs={"false_alarm": 0.01})
    >>> tree = xr.DataTree.from_dict({"prior_sbc": ranks, "dispersion_sbc": ranks, "verdict": group})
    >>> calibration_ranks(tree).axes[0].get_title(loc="left")
    'rate'
    """
    verdict = _judged(result)
    most = _validate.positive_integer(quantities, "quantities")
    chosen = sorted(verdict.quantities, key=lambda q: q.p_adjusted)[:most]
    with style():
        drawn, places = panels(len(chosen), min(3, len(chosen)), 0.9, 1.6, sharex=True, sharey=True)
        for axes, quantity in zip(places, chosen, strict=True):
            ranks = np.sort(_values(result, "prior_sbc", quantity.name))
            n = ranks.size
            for level, shade in ((_level(verdict), "#E3EDF4"), (0.05, "#B9D3E6")):
                points, lower, upper = band(n, level)
                axes.fill_between(points, lower / n - points, upper / n - points, color=shade, linewidth=0)
            axes.axhline(0.0, color=COLOURS["determined"], linewidth=0.7)
            z = np.concatenate([[0.0], np.repeat(ranks, 2), [1.0]])
            height = np.repeat(np.arange(n + 1) / n, 2)
            rejected = quantity.p_adjusted <= verdict.false_alarm
            axes.plot(z, height - z, color=_MARKED if rejected else COLOURS["posterior"], linewidth=1.2)
            axes.set_title(plain(quantity.name) + (" ✗" if rejected else ""), fontsize=9)
            axes.set_xlim(0.0, 1.0)
            axes.set_xticks([0.0, 0.5, 1.0], ["0", "½", "1"])
        together = percent(1.0 - verdict.false_alarm)
        drawn.supxlabel(
            f"rank of the truth (bands: 95% for one quantity, light {together} for all together)", fontsize=10
        )
        drawn.supylabel("share of ranks below, less expected", fontsize=10)
    return drawn


def calibration_dispersion(result: xr.DataTree, *, quantities: int = 25) -> Figure | None:
    """Draw how large errors are against what the posteriors state, with the limits of the test.

    `result` is what `bayesdp.calibration.study` gave; of its `quantities` so many are drawn, those farthest from 1 first. None if no
    quantity has a posterior of more than one point.
    """
    verdict = _judged(result)
    _validate.positive_integer(quantities, "quantities")
    measured = [q for q in verdict.quantities if not np.isnan(q.ratio)]
    if not measured:
        return None
    chosen = sorted(measured, key=lambda q: abs(np.log(max(q.ratio, 1e-6))), reverse=True)[:quantities]
    alpha = _level(verdict)
    with style():
        drawn = figure(1.2 + 0.24 * len(chosen))
        axes = drawn.subplots()
        for place, quantity in enumerate(chosen):
            n = int(np.sum(~np.isnan(_values(result, "dispersion_sbc", quantity.name))))
            for level, width in ((alpha, 1.2), (0.05, 5.0)):
                axes.plot(_limits(level, n), [place, place], color="#B9D3E6", linewidth=width, solid_capstyle="butt")
            low, high = _limits(alpha, n)
            outside = not low <= quantity.ratio <= high
            marker, colour = ("X", _MARKED) if outside else ("o", COLOURS["posterior"])
            axes.plot(quantity.ratio, place, markersize=6, marker=marker, color=colour)
        axes.axvline(1.0, color=COLOURS["determined"], linewidth=0.8)
        axes.set_yticks(range(len(chosen)), [plain(q.name) for q in chosen], fontsize=9)
        axes.set_ylim(len(chosen) - 0.4, -0.6)
        axes.set_xlabel("errors over what posteriors state, root mean square")
        together = percent(1.0 - verdict.false_alarm)
        axes.set_title(f"1 if right; thick: 95% for one, thin: {together} for all tests together", fontsize=10)
    return drawn


def _values(result: xr.DataTree, group: str, name: str) -> Floats:
    return np.asarray(result[group].to_dataset()[name].values, dtype=np.float64).reshape(-1)


def _limits(level: float, n: int) -> tuple[float, float]:
    """Limits of the ratio of n right posteriors, at a level."""
    return float(np.sqrt(stats.chi2.ppf(level / 2, n) / n)), float(np.sqrt(stats.chi2.isf(level / 2, n) / n))


_MOST = 9
_APART = 0.08
"""Of the range of the losses: so far apart markers of one loss are drawn, a little more than their size."""
_SHORT, _LONG = 34, 80
"""Letters of a name that fit two, or one, in a row of the key."""


def designs(result: Design, *, probability: float | None = None, questions: Sequence[str] | None = None) -> Figure:
    """Draw the mean width of intervals against the loss, one panel for each question.

    Each candidate has a marker; those of the same loss are side by side. Bars are 95% Monte Carlo limits of the mean width, by
    Student's t. A marker is empty where the 95% limits of the coverage do not hold the probability: below it with a cross
    through it, above it without. A candidate without a finite loss is left out, and named in the title.

    Parameters
    ----------
    result : Design
        What `bayesdp.design` gave; there is an example.
    probability : float, optional
        Of the intervals, one of those of the design; its largest by default.
    questions : sequence of str, optional
        Which, in this order; the first nine by default.
    """
    _validate.instance(result, Design, "result must be what bayesdp.design gave")
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
    losses = {name: float(data["loss"].sel(candidate=name)) for name in result.candidates}
    drawable = [name for name, loss in losses.items() if np.isfinite(loss)]
    known = [losses[name] for name in drawable] or [0.0]
    step = _APART * (max(known) - min(known) or 1.0)
    columns = min(2, len(chosen))
    # Two names in a row where all are short; long ones often differ at their ends only.
    in_a_row, longest = (2, _SHORT) if all(len(name) <= _SHORT for name in drawable) else (1, _LONG)
    with style():
        key = 0.2 * -(-len(drawable) // in_a_row)
        drawn, places = panels(len(chosen), columns, 1.6 + key, 2.1, sharex=True)
        for axes, question in zip(places, chosen, strict=True):
            for k, name in enumerate(drawable):
                own = data.sel(candidate=name, question=question, probability=level)
                error, width = float(own["width_error"]), float(own["width"])
                low, high = float(own["coverage_low"]), float(own["coverage_high"])
                alike = [other for other in drawable if losses[other] == losses[name]]
                aside = step * (alike.index(name) - 0.5 * (len(alike) - 1))
                beside = Affine2D().translate(aside, 0.0) + axes.transData  # the data stay those of the loss itself
                look = _marker(k)
                marker, _, _ = axes.errorbar(
                    losses[name],
                    width,
                    yerr=float(stats.t.isf(0.025, int(own["used"]) - 1)) * error if np.isfinite(error) else None,
                    markerfacecolor=look["color"] if low <= level <= high else "white",
                    markersize=7,
                    capsize=3,
                    elinewidth=1.2,
                    transform=beside,
                    **look,
                )
                marker.set_clip_on(False)  # a width of 0 is on the axis
                if high < level:
                    cross: dict[str, Any] = {"marker": "x", "markersize": 11, "color": COLOURS["truth"]}
                    axes.plot(losses[name], width, transform=beside, clip_on=False, **cross)
            axes.set_title(plain(question), fontsize=10)
            axes.set_ylim(bottom=0.0)
            axes.margins(x=0.15)
            axes.grid(color=COLOURS["grid"])
        for axes in places[-columns:]:  # the lowest of each column
            axes.set_xlabel(result.loss_name, fontsize=10)
            axes.tick_params(labelbottom=True)
        left_out = [name for name in result.candidates if name not in drawable]
        tried = "tables of a prior" if data.attrs["tried_on"] == "prior" else "one given table"
        title = f"{data.attrs['n']} releases each, of {tried}"
        if left_out:
            title += f"; without a finite loss: {', '.join(plain(name, 20) for name in left_out)}"
        drawn.suptitle(title, fontsize=10, x=0.02, ha="left")
        drawn.supylabel(f"mean width of {percent(level)} intervals", fontsize=10)
        handles = [
            Line2D([], [], linestyle="", label=plain(name, longest), **_marker(k)) for k, name in enumerate(drawable)
        ]
        if handles:
            drawn.legend(handles=handles, loc="outside lower center", ncols=in_a_row, fontsize=9)
    return drawn


def _marker(place: int) -> dict[str, Any]:
    """The marker and colour of one of several things that are compared."""
    return {"marker": MARKERS[place % len(MARKERS)], "color": PALETTE[place % len(PALETTE)]}


def law_comparison(result: LawComparison, *, most: int = 12) -> Figure:
    """Draw the posterior mean and interval of each quantity under each law, of what `bayesdp.compare_laws` gave.

    The grey bar behind a quantity holds the intervals of all laws; it is no credible interval. Of more than `most` quantities those
    are drawn whose means are furthest apart in posterior standard deviations, in their order.
    """
    _validate.instance(result, LawComparison, "result must be what bayesdp.compare_laws gave")
    spread, wanted = result.spread, _validate.positive_integer(most, "most")
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
                    capsize=2, linestyle="none", label=plain(printable(law)) if row == 0 else None, **_marker(k),
                )  # fmt: skip
        rows_of(axes, [plain(printable(f"{part}: {label}" if label else str(part))) for part, label in keys])
        axes.set_xlabel("posterior mean and interval")
        left_out = f"{len(keys)} of {len(spread)} quantities; " if len(keys) < len(spread) else ""
        # Above the labels, too: the title is wider than what is left of the figure beside them.
        drawn.suptitle(
            f"{percent(result.prob)} equal-tailed intervals by noise law\n{left_out}grey holds those of all laws; none is weighed"
        )
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawn


def draw_law_check(check: LawCheck, most: int) -> Figure:
    """Draw how many differences there are of each size, of the groups that fit worst, beside what the law says."""
    wanted = _validate.positive_integer(most, "most")
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
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return drawn

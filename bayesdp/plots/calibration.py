"""Pictures of a calibration: where ranks leave their band, and how wide posteriors are against their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

from bayesdp import _validate
from bayesdp.calibration.study import verdict_of
from bayesdp.calibration.verdict import QuantityVerdict, Verdict, band
from bayesdp.plots.style import COLOURS, figure, percent, plain, style

_MARKED = COLOURS["release"]


def _worst_first(verdict: Verdict, quantities: int) -> list[QuantityVerdict]:
    return sorted(verdict.quantities, key=lambda q: q.p_adjusted)[
        : _validate.positive_integer(quantities, "quantities")
    ]


def _judged(result: xr.DataTree) -> Verdict:
    given: Any = result
    if not isinstance(given, xr.DataTree) or not {"prior_sbc", "dispersion_sbc", "verdict"} <= set(given.children):
        raise TypeError(f"result must be what bayesdp.calibration.sbc gave, got {type(result).__name__}")
    return verdict_of(result)


def _level(verdict: Verdict) -> float:
    """The level that is left to each test, of all that share the chance of a false alarm."""
    tests = sum(1 + (not np.isnan(q.p_dispersion)) for q in verdict.quantities)
    return verdict.false_alarm / tests


def calibration_ranks(result: xr.DataTree, *, quantities: int = 9) -> Figure:
    """Draw the distribution functions of ranks, less the diagonal, in their simultaneous bands.

    Parameters
    ----------
    result : xarray.DataTree
        What `bayesdp.calibration.sbc` gave.
    quantities : int, default 9
        How many are drawn, the worst first.

    Returns
    -------
    matplotlib.figure.Figure
        The dark band holds one right quantity with 95%, the light one all of them together with the probability of the verdict.
        A line that is above the band on the left means truths smaller than the posterior says, a slope like a lying S
        posteriors too wide, its mirror image too narrow.

    Raises
    ------
    TypeError
        If the DataTree is something else.

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
    chosen = _worst_first(verdict, quantities)
    columns = min(3, len(chosen))
    rows = -(-len(chosen) // columns)
    with style():
        drawn = figure(0.9 + 1.6 * rows)
        places = drawn.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).reshape(-1)
        for axes, quantity in zip(places, chosen, strict=False):
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
        for axes in places[len(chosen) :]:
            axes.remove()
        together = percent(1.0 - verdict.false_alarm)
        drawn.supxlabel(
            f"rank of the truth (bands: 95% for one quantity, light {together} for all together)", fontsize=10
        )
        drawn.supylabel("share of ranks below, less expected", fontsize=10)
    return drawn


def calibration_dispersion(result: xr.DataTree, *, quantities: int = 25) -> Figure | None:
    """Draw how large errors are against what the posteriors state, with the limits of the test.

    Parameters
    ----------
    result : xarray.DataTree
        What `bayesdp.calibration.sbc` gave.
    quantities : int, default 25
        How many are drawn, those farthest from 1 first.

    Returns
    -------
    matplotlib.figure.Figure or None
        None if no quantity has a posterior of more than one point.

    Raises
    ------
    TypeError
        If the DataTree is something else.
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


def _values(result: xr.DataTree, group: str, name: str) -> npt.NDArray[np.float64]:
    return np.asarray(result[group].to_dataset()[name].values, dtype=np.float64).reshape(-1)


def _limits(level: float, n: int) -> tuple[float, float]:
    """Limits of the ratio of n right posteriors, at a level."""
    return float(np.sqrt(stats.chi2.ppf(level / 2, n) / n)), float(np.sqrt(stats.chi2.isf(level / 2, n) / n))

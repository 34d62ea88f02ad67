"""The odds ratio in a posterior: its interval, posterior predictive p-values, and the UMPU p-value beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable
from bayesdp.frames import Frame
from bayesdp.significance._families import Hypergeometric, checked_null, documented_test
from bayesdp.significance.corners import corner_position, family_of
from bayesdp.significance.odds_ratio import OddsRatioResult, odds_ratio_test_from_release
from bayesdp.storage.posteriors import releases_of_tables


class Interval(NamedTuple):
    """Median and equal-tailed interval of an odds ratio; infinite or 0 where a cell may be empty."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class PosteriorOddsRatio:
    """What a posterior says of the odds ratio ``x11 x22 / (x12 x21)``.

    Parameters
    ----------
    cell : str
        Labels of x11.
    null, alternative, level
        As asked.
    table, population : Interval, Interval or None
        Odds ratio of the confidential table, and that of the population, where the model has its logarithm, for the first labels
        as x11, as a scalar ``log_odds_ratio``.
    probability : float or None
        Posterior probability that the odds ratio of the population is above the null.
    predictive_pvalue : float
        Posterior predictive p-value (Meng, 1994): the p-value of Fisher's test of the confidential table, averaged over
        its posterior. It is no uniform number under the null: noise and prior draw it to the middle.
    test : OddsRatioResult or None
        The p-value from the release itself, exact in size.
    """

    cell: str
    null: float
    alternative: str
    level: float
    table: Interval
    population: Interval | None
    probability: float | None
    predictive_pvalue: float
    test: OddsRatioResult | None

    def __str__(self) -> str:
        percent = f"{100 * self.level:.10g}%"
        lines = [f"odds ratio with x11 at {printable(self.cell)}"]
        for name, found in (("table", self.table), ("population", self.population)):
            if found is not None:
                interval = f"{percent} interval {found.low:.4g} to {found.high:.4g}"
                lines.append(f"  of the {name}: median {found.median:.4g}, {interval}")
        if self.probability is not None:
            lines.append(f"  posterior probability that it is above {self.null:g}: {self.probability:.4g}")
        lines.append(f"  posterior predictive p-value ({self.alternative}): {self.predictive_pvalue:.4g}")
        if self.test is not None:
            ends = self.test.confidence_interval(self.level)
            lines += [
                f"  p-value from the release ({self.alternative}): {self.test.pvalue:.4g}; {self.test.claim}",
                f"  {percent} confidence interval {ends.low:.4g} to {ends.high:.4g}",
            ]
        return "\n".join(lines)


@documented_test
def posterior_odds_ratio(
    posterior: xr.DataTree | xr.Dataset,
    variable: str = "x",
    *,
    null: float = 1.0,
    alternative: str = "greater",
    level: float = 0.95,
    cell: Mapping[str, Any] | None = None,
    test: OddsRatioResult | None = None,
    rng: _validate.Seed = None,
) -> PosteriorOddsRatio:
    """Summarise the odds ratio in a posterior of a 2 x 2 table whose margins are exact.

    Parameters
    ----------
    posterior : xarray.DataTree or xarray.Dataset
        As `bayesdp.sample` returns it, or its posterior group.
    variable : str, default "x"
        Name of the confidential counts, dims ``(chain, draw, rows, columns)``.
    level : float, default 0.95
        Of the equal-tailed intervals.
    test : OddsRatioResult, optional
        The test of the release, where it was made already: its uniform is not to be drawn twice. Without it, and with one
        release in the DataTree, it is made here; for several, give that of `odds_ratio_test_from_releases`.

    See Also
    --------
    odds_ratio_test_from_release : the test alone.

    Examples
    --------
    >>> counts = np.array([[[[12, 3], [4, 9]], [[11, 4], [5, 8]], [[10, 5], [6, 7]]]])
    >>> labels = {"sex": ["men", "women"], "admission": ["yes", "no"]}
    >>> draws = xr.Dataset({"x": (("chain", "draw", *labels), counts)}, coords=labels)
    >>> print(posterior_odds_ratio(draws, level=0.5))
    odds ratio with x11 at sex=men, admission=yes
      of the table: median 4.4, 50% interval 2.333 to 9
      posterior predictive p-value (greater): 0.1067
    """
    ratio = checked_null(alternative, null)
    _validate.probability(level, "level")
    dataset = _posterior(posterior)
    counts, frame = _counts(dataset, variable)
    row, column = corner_position(frame, cell)
    family = _common_margins(counts, frame, row, column)
    corner = counts[:, row, column]
    population, above, parameter = None, None, "log_odds_ratio"
    if parameter in dataset:
        logs = _scalar(dataset, parameter) * (1.0 if (row + column) % 2 == 0 else -1.0)
        population = _interval(np.exp(logs), level)
        above = float(np.mean(logs > math.log(ratio)))
    tables = releases_of_tables(posterior) if isinstance(posterior, xr.DataTree) else []
    releases = next((given for stated, given in tables if stated in (None, variable)), ())
    if test is None and len(releases) == 1:
        [release] = releases
        test = odds_ratio_test_from_release(release, alternative, ratio, cell=cell, rng=rng)
    return PosteriorOddsRatio(
        cell=frame.exact_cell_name(2 * row + column),
        null=ratio,
        alternative=alternative,
        level=level,
        table=_interval(_table_odds_ratio(corner, family), level),
        population=population,
        probability=above,
        predictive_pvalue=_predictive(corner, family, ratio, alternative),
        test=test,
    )


def _posterior(posterior: Any) -> xr.Dataset:
    if isinstance(posterior, xr.DataTree):
        if "posterior" not in posterior.children:
            raise ValueError("posterior has no group 'posterior'")
        return posterior["posterior"].to_dataset()
    if not isinstance(posterior, xr.Dataset):
        raise TypeError(f"posterior must be a DataTree or a Dataset, got {type(posterior).__name__}")
    return posterior


def _counts(dataset: xr.Dataset, variable: str) -> tuple[Ints, Frame]:
    """Draws of the table, shape (draws, 2, 2), and its labels."""
    if variable not in dataset:
        raise ValueError(f"the posterior has no variable {variable!r}; it has {_validate.shown(dataset.data_vars)}")
    array = dataset[variable]
    if not {"chain", "draw"} <= set(array.dims):
        raise ValueError(f"{variable!r} must have the dimensions chain and draw, got {_validate.shown(array.dims)}")
    array = array.transpose("chain", "draw", ...)
    if array.shape[2:] != (2, 2):
        raise ValueError(f"{variable!r} must be draws of a 2 x 2 table, got {array.sizes!r}")
    frame = Frame.of(array[0, 0])
    return _validate.integer_array(array.values, variable).reshape(-1, 2, 2), frame


def _common_margins(counts: Ints, frame: Frame, row: int, column: int) -> Hypergeometric:
    for axis, dim in ((2, frame.dims[0]), (1, frame.dims[1])):
        sums = counts.sum(axis=axis)
        if np.any(sums != sums[0]):
            raise ValueError(
                f"the totals by {dim} differ between draws; they must be exact for the odds ratio given the margins"
            )
    return family_of(counts[0], row, column)


def _scalar(dataset: xr.Dataset, parameter: str) -> Floats:
    array = dataset[parameter]
    if set(array.dims) != {"chain", "draw"}:
        raise ValueError(f"{parameter!r} must be one number a draw, got the dimensions {_validate.shown(array.dims)}")
    return np.asarray(_validate.finite_array(array.values, parameter), dtype=np.float64).reshape(-1)


def _interval(values: Floats, level: float) -> Interval:
    """Quantiles that are values themselves: no mean of a number and infinity."""
    low, median, high = np.quantile(values, [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level], method="inverted_cdf").tolist()
    return Interval(median, low, high)


def _table_odds_ratio(corner: Ints, family: Hypergeometric) -> Floats:
    x = corner.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = x * (family.r2 - family.c1 + x) / ((family.r1 - x) * (family.c1 - x))
    if np.any(np.isnan(ratio)):  # a row or column without counts: 0 / 0
        raise ValueError("the odds ratio of the table is not defined: a margin is 0")
    return np.asarray(ratio)


def _predictive(corner: Ints, family: Hypergeometric, null: float, alternative: str) -> float:
    """Average over the draws of the p-value of Fisher's test."""
    law = family.masses(math.log(null))
    place = corner - law.first
    below = np.concatenate([[0.0], np.cumsum(law.weights)])
    above = np.concatenate([np.cumsum(law.weights[::-1])[::-1], [0.0]])
    greater = above[np.clip(place, 0, law.weights.size)]
    less = below[np.clip(place + 1, 0, law.weights.size)]
    both = np.minimum(2.0 * np.minimum(greater, less), 1.0)
    return float(np.mean({"greater": greater, "less": less, "two-sided": both}[alternative]))

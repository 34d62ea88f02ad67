"""From ranks to a verdict: whether n numbers between 0 and 1 are uniform, and posteriors as wide as they should be.

A rank statistic of simulation-based calibration is uniform if the posterior is right. At each point z of a grid the number of values
up to z is then binomial. A *simultaneous* band holds the counts at all points of the grid with a stated probability. That probability
is computed exactly here, by following the counts from point to point (they are a Markov chain), not by simulation (Säilynoja, Bürkner
and Vehtari, 2022, "Graphical test for discrete uniformity and its applications in goodness-of-fit evaluation and multiple sample
comparison", Statistics and Computing 32; the recursion goes back to Noé, 1972).

A band for a distribution function has its power in the middle; an error in scale moves the tails. The squared error
``(theta - mean)^2``, from the mean of the truth and the posterior's draws together, is a test quantity besides (Modrák et al., 2025,
"Simulation-based calibration checking for Bayesian computation: the choice of test quantities shapes sensitivity", Bayesian
Analysis): the rank of the true one among those of the posterior's draws is uniform too. Its rank u is turned into the quantile of a
chi-squared law with one degree of freedom, and the sum of n of them has n. For normal posteriors whose errors are s times as large as
stated, the sum is s^2 times that: this is the best test of scale there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable

POINTS = 50
"""Points of the grid (fewer for fewer values than that)."""

_ROUNDING = 1e-9
"""Tail probabilities that differ by this share of them, or less, are the same number."""


def _grid(n: int) -> Floats:
    points = min(n, POINTS)
    return np.arange(1, points + 1) / (points + 1)


@lru_cache(maxsize=32)
def _tails(n: int) -> Floats:
    """Two-sided binomial tail probability of each count (rows) at each point of the grid (columns)."""
    counts, z = np.arange(n + 1)[:, None], _grid(n)[None, :]
    low, high = stats.binom.cdf(counts, n, z), stats.binom.sf(counts - 1, n, z)
    tails = np.minimum(1.0, 2.0 * np.minimum(low, high))
    tails.setflags(write=False)
    return np.asarray(tails)


def _limits(n: int, gamma: float) -> tuple[Ints, Ints]:
    """Smallest and largest count at each point whose two-sided tail is greater than gamma; 0 and -1 where there is none."""
    # The tail of i values up to z is that of n - i up to 1 - z, but only to rounding, and both are in or out.
    inside = _tails(n) > gamma * (1.0 + _ROUNDING)
    some = inside.any(axis=0)
    lower = np.where(some, inside.argmax(axis=0), 0)
    upper = np.where(some, n - inside[::-1].argmax(axis=0), -1)
    return lower.astype(np.int64), upper.astype(np.int64)


def crossing_probability(n: int, lower: Ints, upper: Ints, law: Floats) -> float:
    """Probability that the counts of n values leave their limits, both included, at some point of the grid."""
    # `law`: probability that one value is at most that point, the points themselves if values are uniform.
    state, at, reached, left = np.ones(1), np.zeros(1, dtype=np.int64), 0.0, 0.0
    for low, high, probability in zip(lower, upper, law, strict=True):
        counts = np.arange(low, high + 1)
        step = (probability - reached) / (1.0 - reached) if reached < 1.0 else 0.0
        # Of the n - i values beyond the last point, each is up to this one with probability `step`.
        # What leaves here is added up, because one minus what stays has no digits left where it is small.
        outside = stats.binom.cdf(low - 1 - at, n - at, step) + stats.binom.sf(max(high, low - 1) - at, n - at, step)
        left += float(state @ outside)
        moves = stats.binom.pmf(counts[None, :] - at[:, None], n - at[:, None], step)
        state, at, reached = state @ moves, counts, float(probability)
    return min(1.0, left)


@lru_cache(maxsize=64)
def _level(n: int, false_alarm: float) -> float:
    """Largest pointwise level whose simultaneous band is left with probability at most `false_alarm`."""
    tails = np.unique(_tails(n))
    candidates = tails[tails < false_alarm].tolist()
    # The higher the level, the narrower the band.
    small = bisect_right(
        candidates, false_alarm, key=lambda level: crossing_probability(n, *_limits(n, level), _grid(n))
    )
    return float(candidates[small - 1]) if small else 0.0  # 0: no count is excluded


def band(n: int, false_alarm: float = 0.05) -> tuple[Floats, Ints, Ints]:
    """Points, and limits (both included) of the number of values up to each that uniform ones leave with this probability at most."""
    count = _validate.positive_integer(n, "n")
    return (_grid(count), *_limits(count, _level(count, _validate.probability(false_alarm, "false_alarm"))))


def uniformity_pvalue(values: npt.ArrayLike) -> float:
    """P-value of independent uniform values: exact, that some count is as extreme by its binomial tail as the worst one here."""
    given = _ranks(values)
    n = given.size
    counts = np.searchsorted(np.sort(given), _grid(n), side="right")
    worst = float(_tails(n)[counts, np.arange(len(counts))].min())
    return crossing_probability(n, *_limits(n, worst), _grid(n))


def _ranks(values: npt.ArrayLike) -> Floats:
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or given.size == 0 or not np.all((given >= 0.0) & (given <= 1.0)):
        raise ValueError(f"values must be a vector of numbers between 0 and 1, got {values!r}")
    return given


def dispersion_ratio(values: npt.ArrayLike) -> float:
    """Root mean square of errors over what posteriors state, from ranks of squared errors; exact for normal posteriors."""
    return float(np.sqrt(np.mean(stats.chi2.ppf(_ranks(values), 1))))


def dispersion_pvalue(values: npt.ArrayLike) -> float:
    """Two-sided p-value of the hypothesis that the posteriors are as wide as they should be."""
    squares = stats.chi2.ppf(_ranks(values), 1)
    total, n = float(squares.sum()), squares.size
    return float(min(1.0, 2.0 * min(stats.chi2.cdf(total, n), stats.chi2.sf(total, n))))


@dataclass(frozen=True)
class Power:
    """Probability that a named error would have been noticed in one quantity with a normal posterior.

    Attributes
    ----------
    alternative, size
        ``"scale"``, errors `size` times as large as stated, or ``"shift"``, off by `size` posterior standard deviations.
    n, false_alarm
        Simulations, and the level of each test.
    ranks, dispersion : float
        Power of the band for ranks, and of the test of squared errors.
    """

    alternative: str
    size: float
    n: int
    false_alarm: float
    ranks: float
    dispersion: float

    def __str__(self) -> str:
        scale = f"errors {self.size:g} times as large as stated"
        what = scale if self.alternative == "scale" else f"posteriors off by {self.size:g} standard deviations"
        return (
            f"{what} would be noticed with probability {self.ranks:.2f} by ranks and {self.dispersion:.2f} by squared errors "
            f"({self.n} simulations, level {self.false_alarm:.2g}, normal posteriors)"
        )


def power(n: int, alternative: str = "scale", size: float = 1.2, false_alarm: float = 0.05) -> Power:
    """Say what n simulations of many draws can notice in one quantity, with arguments as the attributes of `Power`.

    Examples
    --------
    >>> print(power(300, "scale", 1.2, 0.001))
    errors 1.2 times as large as stated would be noticed with probability 0.31 by ranks
    and 0.90 by squared errors (300 simulations, level 0.001, normal posteriors)
    """
    kind = _validate.choice(alternative, ("scale", "shift"), "alternative")
    amount = _validate.positive_real(size, "size")
    points, lower, upper = band(n, false_alarm)
    low, high = stats.chi2.ppf(false_alarm / 2, n), stats.chi2.isf(false_alarm / 2, n)
    normal = stats.norm.ppf(points)
    if kind == "scale":
        law = stats.norm.cdf(normal / amount)
        squares = stats.chi2.cdf(low / amount**2, n) + stats.chi2.sf(high / amount**2, n)
    else:  # a sum of n squares of normal variables with mean `amount`
        law = stats.norm.cdf(normal - amount)
        squares = stats.ncx2.cdf(low, n, n * amount**2) + stats.ncx2.sf(high, n, n * amount**2)
    return Power(str(kind), amount, n, false_alarm, crossing_probability(n, lower, upper, law), float(squares))


def share_limits(hits: Ints, n: Any, probability: float) -> tuple[Floats, Floats]:
    """Clopper-Pearson limits of a share of which `hits` of n were seen; NaN where n is 0."""
    tail = (1.0 - probability) / 2.0
    low = np.where(hits > 0, stats.beta.ppf(tail, hits, n - hits + 1), 0.0)
    high = np.where(hits < n, stats.beta.isf(tail, hits + 1, n - hits), 1.0)
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


def holm(pvalues: npt.ArrayLike) -> Floats:
    """Adjust p-values for their number (Holm, 1979): the chance of any false alarm is held, however they depend."""
    given = np.asarray(pvalues, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    steps = np.minimum(1.0, given[order] * np.arange(given.size, 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


@dataclass(frozen=True)
class QuantityVerdict:
    """What the ranks of one quantity say.

    Attributes
    ----------
    name, n
        Of the quantity; how many ranks.
    p_ranks, p_dispersion, p_adjusted : float
        P-values of uniform ranks, and of squared errors as large as stated (NaN if the quantity is determined in every simulation, or
        is itself about errors); the smaller one, adjusted for all tests of all quantities.
    ratio : float
        Root mean square of the errors over what the posteriors state.
    """

    name: str
    n: int
    p_ranks: float
    p_dispersion: float
    ratio: float
    p_adjusted: float


@dataclass(frozen=True)
class Verdict:
    """Calibrated as far as n simulations can tell, or not.

    Attributes
    ----------
    quantities, false_alarm
        What each quantity says; chance that a right posterior is called wrong, over all of them together.
    power : Power
        What could have been noticed in one quantity, at the level that is left to each test.
    """

    quantities: tuple[QuantityVerdict, ...]
    false_alarm: float
    power: Power

    @property
    def worst(self) -> QuantityVerdict:
        """The quantity with the smallest adjusted p-value."""
        return min(self.quantities, key=lambda q: q.p_adjusted)

    @property
    def calibrated(self) -> bool:
        """Whether no quantity is rejected."""
        return self.worst.p_adjusted > self.false_alarm

    def __str__(self) -> str:
        worst = self.worst
        count = len(self.quantities)
        tests = f"{count} quantities" if count > 1 else "1 quantity"
        name = printable(worst.name)
        if self.calibrated:
            first = f"No sign of miscalibration in {tests} (smallest adjusted p-value {worst.p_adjusted:.3g}, {name})."
        else:
            rejected = [printable(q.name) for q in self.quantities if q.p_adjusted <= self.false_alarm]
            shown = ", ".join(rejected[:5]) + (f" and {len(rejected) - 5} more" if len(rejected) > 5 else "")
            first = (
                f"NOT calibrated: {len(rejected)} of {tests} rejected ({shown}); worst {name}, adjusted p-value "
                f"{worst.p_adjusted:.3g}, errors {worst.ratio:.2f} times as large as stated."
            )
        return f"{first} Chance of a false alarm over all of them: {self.false_alarm:g}. Power: {self.power}."


def judge(
    ranks: Mapping[str, Sequence[float]], dispersion: Mapping[str, Sequence[float]], false_alarm: float = 0.01
) -> Verdict:
    """Test all quantities together, by the ranks of the truth and of its squared error (NaN where the posterior was one point)."""
    if not ranks:
        raise ValueError("ranks must hold at least one quantity, got none")
    found: list[tuple[str, int, float, float, float]] = []
    for name, values in ranks.items():
        squares = [value for value in dispersion.get(name, ()) if not np.isnan(value)]
        second, ratio = (dispersion_pvalue(squares), dispersion_ratio(squares)) if squares else (np.nan, np.nan)
        found.append((name, len(values), uniformity_pvalue(values), second, ratio))
    tests = np.array([pvalues for _, _, *pvalues, _ in found])
    done = ~np.isnan(tests)
    tests[done] = holm(tests[done])
    adjusted = np.nanmin(tests, axis=1).tolist()
    possible = power(max(map(len, ranks.values())), false_alarm=false_alarm / int(done.sum()))
    quantities = tuple(QuantityVerdict(*own, p) for own, p in zip(found, adjusted, strict=True))
    return Verdict(quantities, false_alarm, possible)

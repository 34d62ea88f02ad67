"""Are n numbers between 0 and 1 uniform? Exact simultaneous bands for their distribution function, and p-values.

A rank statistic of simulation-based calibration is uniform if the posterior is right. At each point z of a grid
the number of values up to z is then binomial. A *simultaneous* band holds the counts at all points of the grid with a
stated probability. That probability is computed exactly here, by following the counts from point to point (they are a
Markov chain), not by simulation.

Source: Säilynoja, Bürkner and Vehtari (2022), "Graphical test for discrete uniformity and its applications in
goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing 32; the recursion goes back to
Noé (1972).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp import _validate

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

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
    """Probability that the counts leave their limits at some point of the grid.

    Parameters
    ----------
    n : int
        Number of independent values.
    lower, upper : ndarray of int, shape (points,)
        Limits of the number of values up to each point, both included; an upper one below the lower one lets nothing in.
    law : ndarray of float, shape (points,)
        Probability that one value is at most that point: the points themselves if values are uniform.


    Examples
    --------
    One value is below 1/2 with probability 1/2:

    >>> crossing_probability(1, np.array([1]), np.array([1]), np.array([0.5]))
    0.5
    """
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
    candidates = np.unique(_tails(n))
    candidates = candidates[candidates < false_alarm]
    low, high = -1, len(candidates) - 1  # -1: no count is excluded
    while low < high:
        middle = (low + high + 1) // 2
        if crossing_probability(n, *_limits(n, candidates[middle]), _grid(n)) <= false_alarm:
            low = middle
        else:
            high = middle - 1
    return float(candidates[low]) if low >= 0 else 0.0


def band(n: int, false_alarm: float = 0.05) -> tuple[Floats, Ints, Ints]:
    """Simultaneous limits for the number of values up to each point of a grid.

    Parameters
    ----------
    n : int
        Number of values.
    false_alarm : float
        Probability that uniform values leave the band at some point; at most that, as near as counts allow.

    Returns
    -------
    points : ndarray of float, shape (points,)
    lower, upper : ndarray of int, shape (points,)
        Both included.


    Examples
    --------
    >>> points, lower, upper = band(100, false_alarm=0.05)
    >>> middle = len(points) // 2
    >>> print(f"{points[middle]:.2f}: {lower[middle]} to {upper[middle]}")
    0.51: 37 to 65
    """
    count = _validate.positive_integer(n, "n")
    return (_grid(count), *_limits(count, _level(count, _probability(false_alarm, "false_alarm"))))


def uniformity_pvalue(values: npt.ArrayLike) -> float:
    """P-value of the hypothesis that values are independent and uniform: exact, from the most extreme point.

    Parameters
    ----------
    values : array_like, shape (n,)
        Between 0 and 1.

    Returns
    -------
    float
        Probability that some count is at least as extreme, by its binomial tail, as the most extreme one here.


    Examples
    --------
    >>> even = (np.arange(100) + 0.5) / 100
    >>> print(f"{uniformity_pvalue(even):.3f} {uniformity_pvalue(even**2):.1e}")
    1.000 5.7e-08
    """
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or given.size == 0 or not np.all((given >= 0.0) & (given <= 1.0)):
        raise ValueError(f"values must be a vector of numbers between 0 and 1, got {values!r}")
    n = given.size
    counts = np.searchsorted(np.sort(given), _grid(n), side="right")
    worst = float(_tails(n)[counts, np.arange(len(counts))].min())
    return crossing_probability(n, *_limits(n, worst), _grid(n))


def detection_probability(n: int, law: Callable[[Floats], Floats], false_alarm: float = 0.05) -> float:
    """Probability that n independent values of another law leave the simultaneous band: the power of the test.

    Parameters
    ----------
    n : int
        Number of values.
    law : callable
        Distribution function of one value, vectorised.
    false_alarm : float
        That of the band.


    Examples
    --------
    >>> print(f"{detection_probability(100, lambda z: z, 0.05):.3f} {detection_probability(100, lambda z: z**1.5):.3f}")
    0.047 0.916
    """
    points, lower, upper = band(n, false_alarm)
    return crossing_probability(n, lower, upper, np.asarray(law(points), dtype=np.float64))


def _probability(value: float, argument: str) -> float:
    number = _validate.positive_real(value, argument)
    if number >= 1.0:
        raise ValueError(f"{argument} must be between 0 and 1, got {value!r}")
    return number

"""Slice sampling of many numbers at once, and exact draws of the centre and spread of normal effects."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["draw_centre", "draw_variance", "slice_draws"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_STEPS = 100
"""Widths that an interval may grow to at most."""

FREEDOM = 3.0
"""Shape of the inverse gamma prior of a variance; its scale is twice the square of the spread that is stated, its mean."""


def slice_draws(
    log_density: Callable[[Floats, Ints], Floats], start: Floats, width: Floats, rng: np.random.Generator
) -> Floats:
    """One slice sampling update of each of n numbers that are independent given everything else.

    Stepping out and shrinkage of Neal (2003, Annals of Statistics 31, 705-767, figures 3 and 5), with at most 100 steps of the
    given width: leaves each density as it is, whatever its shape, if the width does not depend on the number itself.

    Parameters
    ----------
    log_density : callable
        Of values and of their places in 0 .. n - 1, to their log densities, up to a constant a place.
    start : float64 array, shape (n,)
    width : float64 array, shape (n,)
        About twice the standard deviation, for speed.
    rng : numpy.random.Generator

    Returns
    -------
    float64 array, shape (n,)

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x = np.zeros(2000)
    >>> for _ in range(20):
    ...     x = slice_draws(lambda v, i: -0.5 * v**2, x, np.full(2000, 2.0), rng)
    >>> bool(abs(x.std() - 1.0) < 0.1)
    True
    """
    n = len(start)
    level = log_density(start, np.arange(n)) - rng.exponential(size=n)
    left = start - width * rng.random(n)
    right = left + width
    # The steps are shared out between the two ends at random, or a limit would favour one side.
    steps_left = np.floor(_STEPS * rng.random(n))
    for end, sign, steps in ((left, -1.0, steps_left), (right, 1.0, _STEPS - 1 - steps_left)):
        open_ = np.arange(n)
        while len(open_ := open_[steps[open_] > 0]):
            open_ = open_[log_density(end[open_], open_) > level[open_]]
            end[open_] += sign * width[open_]
            steps[open_] -= 1
    drawn = start.copy()
    open_ = np.arange(n)
    while len(open_):
        tried = left[open_] + (right[open_] - left[open_]) * rng.random(len(open_))
        # Where rounding has closed the interval, the number stays.
        inside = (log_density(tried, open_) >= level[open_]) | (tried == start[open_])
        drawn[open_[inside]] = tried[inside]
        open_, tried = open_[~inside], tried[~inside]
        below = tried < start[open_]
        left[open_[below]] = tried[below]
        right[open_[~below]] = tried[~below]
    return drawn


def draw_centre(
    effects: Floats,
    variance: float | Floats,
    mean: float | Floats,
    prior_variance: float | Floats,
    rng: np.random.Generator,
) -> Floats:
    """Draw the centre of normal effects along axis 0, which is ``Normal(mean, prior_variance)`` itself."""
    precision = len(effects) / np.asarray(variance) + 1.0 / np.asarray(prior_variance)
    weighted = effects.sum(axis=0) / variance + np.asarray(mean) / prior_variance
    return np.asarray(rng.normal(weighted / precision, 1.0 / np.sqrt(precision)))


def draw_variance(deviations: Floats, spread: float, rng: np.random.Generator) -> Floats:
    """Draw the variance of normal deviations from 0, which is inverse gamma with mean ``spread**2``."""
    shape = FREEDOM + 0.5 * deviations.size
    scale = (FREEDOM - 1.0) * spread**2 + 0.5 * float(np.square(deviations).sum())
    return np.asarray(scale / rng.standard_gamma(shape))

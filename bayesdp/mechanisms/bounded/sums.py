"""Bounds of statistics whose sum is public, or has public bounds (Liu 2019, Remark 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import finite_array
from bayesdp.noise.base import Floats
from bayesdp.noise.bounded.base import checked_bounds


def bounds_given_sum(bounds: Any, total: Any, weights: npt.ArrayLike | None = None) -> tuple[Floats, Floats]:
    """The bounds that statistics have where a weighted sum of them is public, or has public bounds itself.

    Each bound is attained by some values of the others, so that no tighter ones hold for all data. Give a mechanism these bounds in
    the place of those without the sum. A sum that is confidential must not be used: the bounds would tell it.

    Parameters
    ----------
    bounds : pair of float or array_like, shape (statistics,)
        Lower and upper bound of each statistic without the sum; None on one side where there is none.
    total : float or pair of float
        The sum; or its lower and its upper bound, None on one side where there is none.
    weights : array_like, shape (statistics,), optional
        What each statistic counts for in the sum, none of them 0; 1 by default.

    Returns
    -------
    lower, upper : numpy.ndarray, shape (statistics,)
        Equal where the sum determines a statistic, of which there is nothing to release then; infinite where there is no bound.

    References
    ----------
    Liu (2019), Remark 1, which has two statistics of weight 1 and a sum that is known.

    Examples
    --------
    Two shares that add up to 1, the second at least 0.2, and at most 0.9.

    >>> lower, upper = bounds_given_sum(([0.0, 0.2], [1.0, 0.9]), 1.0)
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.1, 0.2], [0.8, 0.9])

    Costs of three kinds, of which nothing is known but that they are positive and not above 10 together.

    >>> bounds_given_sum(([0.0, 0.0, 0.0], None), (None, 10.0))[1].tolist()
    [10.0, 10.0, 10.0]
    """
    low, high = np.broadcast_arrays(*checked_bounds(bounds, integer=False))
    if low.ndim != 1 or low.size < 2:
        raise ValueError(
            f"bounds must be those of two or more statistics, arrays of shape (statistics,), got shape {low.shape}"
        )
    share = _weights(weights, low.size)
    if isinstance(total, str) or not isinstance(total, Sequence):
        least = most = _number(total)
    elif len(total) != 2:
        raise TypeError(f"total must be one number, or a pair (lower, upper), got {total!r}")
    else:
        least, most = (
            absent if side is None or side == absent else _number(side)
            for side, absent in zip(total, (-math.inf, math.inf), strict=True)
        )
    if least > most:
        raise ValueError(f"total must have the lower bound first, got {total!r}")
    # What each statistic adds to the sum, at the least and at the most.
    down = np.where(share > 0, share * low, share * high)
    up = np.where(share > 0, share * high, share * low)
    if math.fsum(down) > most or math.fsum(up) < least:
        raise ValueError(
            f"total must be a sum that statistics within the bounds can have, {math.fsum(down):.17g} to "
            f"{math.fsum(up):.17g}, got {total!r}"
        )
    lower, upper = low.copy(), high.copy()
    for j in range(low.size):
        others_down, others_up = (math.fsum(np.delete(side, j)) for side in (down, up))
        first, second = (least - others_up) / share[j], (most - others_down) / share[j]
        lower[j] = max(low[j], min(first, second))
        upper[j] = min(high[j], max(first, second))
    # The two are equal where the sum leaves one value only; rounding must not reverse them.
    return np.minimum(lower, upper), np.maximum(lower, upper)


def second_of_sum(first: npt.ArrayLike, bounds: Any, total: float, weights: npt.ArrayLike | None = None) -> Floats:
    """The second of two statistics with a public sum, from the first, which was released within `bounds_given_sum`.

    This is post-processing: the pair costs what the first costs, whose sensitivity is that of the first statistic alone. The second is
    within its own bounds whatever was released. (Of three or more statistics the last can be outside of its bounds, as with
    `AllButOne`.) For a posterior, observe the release of the first: the second says nothing more.

    Parameters
    ----------
    first : array_like
        Released values of the first statistic.
    bounds, total, weights
        As for `bounds_given_sum`, of two statistics and with a sum that is one number.

    Returns
    -------
    numpy.ndarray, shape of `first`

    References
    ----------
    Liu (2019), Remark 1.

    Examples
    --------
    >>> from bayesdp.mechanisms import BoundaryInflatedLaplace
    >>> known = ([0.0, 0.2], [1.0, 0.9])
    >>> lower, upper = bounds_given_sum(known, 1.0)
    >>> mechanism = BoundaryInflatedLaplace(1.0, 1 / 50, (lower[0], upper[0]))
    >>> release = mechanism.release(0.4, rng=1)
    >>> other = second_of_sum(release.values, known, 1.0)
    >>> print(f"{float(release.values):.3f} {float(other):.3f}")
    0.379 0.621
    """
    known = _number(total)
    lower, upper = bounds_given_sum(bounds, known, weights)
    if lower.size != 2:
        raise ValueError(f"bounds must be those of two statistics, got {lower.size}")
    share = _weights(weights, 2)
    values = np.asarray(finite_array(first, "first"), dtype=np.float64)
    outside = values[(values < lower[0]) | (values > upper[0])]
    if outside.size:
        raise ValueError(
            f"first must be within the bounds that the sum leaves, {lower[0]:.17g} to {upper[0]:.17g}, got {outside[0]:.17g}"
        )
    # Clipping takes away the error of rounding, and nothing else: the bounds of the first map onto these.
    second: Floats = np.clip((known - share[0] * values) / share[1], lower[1], upper[1])
    return second


def _weights(weights: npt.ArrayLike | None, count: int) -> Floats:
    found = np.asarray(finite_array(np.ones(count) if weights is None else weights, "weights"), dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(f"weights must be {count} numbers, one for each statistic, got shape {found.shape}")
    for place in np.flatnonzero(found == 0.0)[:1]:
        raise ValueError(
            f"weights must not be 0, but that of statistic {place + 1} is: leave out what is not in the sum"
        )
    return found


def _number(total: Any) -> float:
    found = finite_array(total, "total")
    if found.ndim:
        raise TypeError(f"total must be one number here, got {total!r}")
    return float(found)

"""Perturbation tables of maximum entropy: a mean of zero, a variance, and deviations that are allowed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_EDGE = 1e-9
"""A variance this near to an end of what is feasible, relative to it, is that end: there no entropy is left to choose."""
_STEPS = 500


def feasible_variances(deviations: Ints) -> tuple[float, float] | None:
    """The least and the largest variance of laws with mean zero on these deviations; None if no law has mean zero.

    Parameters
    ----------
    deviations : int64 array, shape (n,)
        Increasing.

    Examples
    --------
    >>> feasible_variances(np.array([-1, 2, 3]))
    (2.0, 3.0)
    >>> feasible_variances(np.array([1, 2])) is None
    True
    """
    low, high = int(deviations[0]), int(deviations[-1])
    if low > 0 or high < 0:
        return None
    if 0 in deviations:
        least = 0.0
    else:  # the nearest deviations on both sides
        least = float(-deviations[deviations < 0].max() * deviations[deviations > 0].min())
    return least, float(-low * high)


def max_entropy_row(deviations: Ints, variance: float, *, at_most: bool = False) -> tuple[Floats, float]:
    """The law of largest entropy with mean zero on these deviations, whose variance is the one given, or the nearest feasible one.

    Parameters
    ----------
    deviations : int64 array, shape (n,)
        Increasing; `feasible_variances` is not None.
    variance : float
    at_most : bool
        Whether smaller variances will do: the law of largest entropy among all that have one.

    Returns
    -------
    probabilities : float64 array, shape (n,)
    variance : float
        That they have.

    Notes
    -----
    The law is ``p_v`` proportional to ``exp(a v + b v**2)``. Its two multipliers are the minimum of
    ``log sum_v exp(a v + b (v**2 - V))``, a convex function, by Newton's method with steps that are halved until it falls. At an end
    of what is feasible, where b is infinite, the law is on the two deviations that are nearest to zero, or furthest away.

    Examples
    --------
    >>> probabilities, variance = max_entropy_row(np.arange(-1, 2), 0.5)
    >>> probabilities.round(3).tolist(), round(variance, 9)
    ([0.25, 0.5, 0.25], 0.5)
    """
    ends = feasible_variances(deviations)
    if ends is None:
        raise ValueError(f"no law on the deviations {deviations.tolist()} has mean zero")
    least, largest = ends
    if variance <= least * (1.0 + _EDGE):
        return _on_two(deviations, _inner(deviations)), least
    v = deviations.astype(np.float64)
    if at_most and least < largest:
        free = _tilted(v[None])
        if (own := float(free @ v**2)) <= variance:
            return free, own
    if variance >= largest * (1.0 - _EDGE):
        return _on_two(deviations, (int(deviations[0]), int(deviations[-1]))), largest
    return _tilted(np.stack([v, v**2 - variance])), variance


def max_entropy_zero_row(deviations: Ints, variance: float, *, at_most: bool = False) -> tuple[Floats, float]:
    """The law of largest entropy on deviations from 0 up with a mean square, or the nearest feasible one: its mean is not zero."""
    largest, mean = float(deviations[-1]) ** 2, float(np.mean(deviations**2))
    if at_most and mean <= variance:
        return np.full(len(deviations), 1.0 / len(deviations)), mean
    if variance >= largest * (1.0 - _EDGE):
        return (deviations == deviations[-1]).astype(np.float64), largest
    v = deviations.astype(np.float64)
    return _tilted((v**2 - variance)[None]), variance


def _inner(deviations: Ints) -> tuple[int, int]:
    """The deviations nearest to zero on both sides, or zero twice."""
    if 0 in deviations:
        return 0, 0
    return int(deviations[deviations < 0].max()), int(deviations[deviations > 0].min())


def _on_two(deviations: Ints, two: tuple[int, int]) -> Floats:
    """The law with mean zero on two deviations."""
    low, high = two
    if low == high or low == 0 or high == 0:
        return np.where(deviations == 0, 1.0, 0.0)
    above = -low / (high - low)
    return np.asarray(np.where(deviations == low, 1.0 - above, np.where(deviations == high, above, 0.0)))


def _tilted(features: Floats) -> Floats:
    """The law ``p_v`` proportional to ``exp(sum_k t_k f_k(v))`` in which all features have mean zero."""
    scale = np.maximum(np.abs(features).max(axis=1, keepdims=True), 1e-300)
    own = features / scale
    t = np.zeros(len(own))
    value, p = _log_sum(t, own)
    gradient = own @ p
    for _ in range(_STEPS):
        norm = float(np.abs(gradient).max())
        if norm < 1e-16:
            break
        centred = own - gradient[:, None]
        step = np.linalg.lstsq((centred * p) @ centred.T, -gradient, rcond=1e-15)[0]
        size, slope = 1.0, float(gradient @ step)
        while size > 1e-8:
            after, moved = _log_sum(t + size * step, own)
            # Near the minimum the function is flat to the last digit, but its gradient still falls.
            if after <= value + 1e-4 * size * slope or np.abs(own @ moved).max() < 0.5 * norm:
                break
            size *= 0.5
        else:
            break
        t, value, p, gradient = t + size * step, after, moved, own @ moved
    return p


def _log_sum(t: Floats, features: Floats) -> tuple[float, Floats]:
    """``log sum_v exp(t . f(v))``, and the law."""
    power = t @ features
    top = float(power.max())
    weight = np.exp(power - top)
    return top + float(np.log(weight.sum())), weight / weight.sum()

"""Thresholds of publication: the smallest and the largest value that is published."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.noise.bounded.bounds import Bound

__all__ = ["check_order", "threshold"]


def threshold(value: Any, absent: float, argument: str, *, integer: bool) -> Bound:
    """Accept a threshold, or one for each answer; None and the infinity `absent` stand for none.

    Parameters
    ----------
    value : float, array_like or None
    absent : float
        Minus infinity for a smallest value, infinity for a largest one.
    argument : str
        For messages.
    integer : bool
        Whether values are integers, so that thresholds are.

    Returns
    -------
    float or read-only float64 array

    Raises
    ------
    TypeError, ValueError
        If it is no number, too large, or fractional where values are integers.

    Examples
    --------
    >>> threshold(None, -np.inf, "below", integer=True), threshold(3, -np.inf, "below", integer=True)
    (-inf, 3.0)
    """
    if value is None:
        return absent
    if isinstance(value, str | bytes | bool):
        raise TypeError(f"{argument} must be a real number, an array of them or None, got {value!r}")
    listed = [absent if item is None else item for item in np.asarray(value, dtype=object).reshape(-1)]
    array = np.asarray(listed)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must be a real number, an array of them or None, got {value!r}")
    array = array.astype(np.float64).reshape(np.shape(value))
    if not array.size:
        raise ValueError(f"{argument} must hold at least one number, got an array of shape {array.shape}")
    if np.any(np.isnan(array)) or np.any(array == -absent):
        raise ValueError(f"{argument} must be a number, or {absent} or None where there is no threshold, got {value!r}")
    known = np.where(np.isinf(array), 0.0, array)
    if np.any(np.abs(known) >= _validate.MAX_COUNT):
        raise ValueError(f"{argument} must be smaller than 2**53 in absolute value, got {value!r}")
    if integer and np.any(known != np.rint(known)):
        raise ValueError(f"{argument} must be a whole number, as values of the law are, got {value!r}")
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array


def check_order(below: Bound, above: Bound, *, integer: bool) -> None:
    """Check that something is published: ``below <= above`` for integers, ``below < above`` for reals.

    Raises
    ------
    ValueError
        If not, with the place.
    """
    try:
        low, high = np.broadcast_arrays(below, above)
    except ValueError:
        raise ValueError(
            f"below and above must be of shapes that fit one another, got {np.shape(below)} and {np.shape(above)}"
        ) from None
    where = np.argwhere((low > high) if integer else (low >= high))
    if len(where):
        place = tuple(int(i) for i in where[0])
        at = f" at position {place}" if place else ""
        most = "at most" if integer else "smaller than"
        raise ValueError(
            f"below must be {most} above, or nothing is ever published, but{at} they are {low[place]:.17g} and {high[place]:.17g}"
        )

"""One limit of a number: a bound of values, or a threshold of publication."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.noise.base import Floats

type Limit = float | Floats


def checked_limit(value: Any, absent: float, argument: str, *, integer: bool) -> Limit:
    """Accept a limit, or one for each cell or answer; None and the infinity `absent` stand for none.

    Parameters
    ----------
    value : float, array_like or None
    absent : float
        Minus infinity for the smallest value, infinity for the largest one.
    argument : str
        For messages.
    integer : bool
        Whether values are integers, so that limits are.

    Returns
    -------
    float or read-only float64 array

    Raises
    ------
    TypeError, ValueError
        If it is no number, too large, empty, or fractional where values are integers.

    Examples
    --------
    >>> checked_limit(None, -np.inf, "below", integer=True), checked_limit(3, -np.inf, "below", integer=True)
    (-inf, 3.0)
    """
    if value is None:
        return absent
    given = np.asarray(value, dtype=object)
    items = [absent if item is None else item for item in given.reshape(-1)]
    for item in items:
        # Text that looks like a number, and booleans, would become numbers.
        if isinstance(item, bool | np.bool) or not isinstance(item, Real):
            raise TypeError(f"{argument} must be a real number, an array of them or None, got {value!r}")
    try:
        array = np.array([float(item) for item in items]).reshape(given.shape)
    except OverflowError:
        raise ValueError(f"{argument} must be smaller than 2**53 in absolute value, got {value!r}") from None
    if not array.size:
        raise ValueError(f"{argument} must hold at least one number, got an array of shape {array.shape}")
    if np.any(np.isnan(array)) or np.any(array == -absent):
        raise ValueError(f"{argument} must be a number, or {absent} or None where there is none, got {value!r}")
    finite = np.where(np.isinf(array), 0.0, array)
    if np.any(np.abs(finite) >= _validate.MAX_COUNT):
        raise ValueError(f"{argument} must be smaller than 2**53 in absolute value, got {value!r}")
    if integer and np.any(finite != np.rint(finite)):
        raise ValueError(f"{argument} must be a whole number, as values of the law are, got {value!r}")
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array

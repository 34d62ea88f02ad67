"""Public bounds of the values of a law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.noise.base import Floats

__all__ = ["Bound", "checked_bounds", "plain_bounds"]

type Bound = float | Floats


def plain_bounds(bounds: tuple[Bound, Bound]) -> list[Any]:
    """Bounds as lists of numbers, None where there is no bound."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value if math.isfinite(value) else None

    return [plain(side.tolist() if isinstance(side, np.ndarray) else side) for side in bounds]


def checked_bounds(bounds: Any, *, integer: bool) -> tuple[Bound, Bound]:
    """Accept a lower and an upper bound, or arrays of them; None or an infinity on one side where there is no bound.

    Raises
    ------
    TypeError, ValueError
        If bounds are not two, not numbers, reversed, equal, infinite on both sides, or fractional for an integer law.
    """
    if isinstance(bounds, str | Mapping) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise TypeError(f"bounds must be a pair (lower, upper), got {bounds!r}")
    lower, upper = _side(bounds[0], -math.inf, "lower", integer), _side(bounds[1], math.inf, "upper", integer)
    try:
        low, high = np.broadcast_arrays(lower, upper)
    except ValueError:
        raise ValueError(
            f"bounds must be of shapes that fit one another, got {np.shape(lower)} and {np.shape(upper)}"
        ) from None
    for wrong, words in (
        (low > high, "must have the lower one first, but they are reversed"),
        (low == high, "must differ, or there is nothing to release, but they are equal"),
        (np.isinf(low) & np.isinf(high), "must have a finite side (use the law without bounds otherwise), but both are infinite"),
    ):  # fmt: skip
        where = np.argwhere(wrong)
        if len(where):
            place = tuple(int(i) for i in where[0])
            at = f" at position {place}" if place else ""
            raise ValueError(f"bounds {words}{at}: {low[place]:.17g} and {high[place]:.17g}")
    return lower, upper


def _side(value: Any, absent: float, which: str, integer: bool) -> Bound:
    """One bound, or one for each cell; None stands for no bound."""
    array = np.asarray([absent if item is None else item for item in np.asarray(value, dtype=object).reshape(-1)])
    if array.dtype.kind not in "iuf":
        raise TypeError(f"the {which} bound must be a real number or None, got {value!r}")
    array = array.astype(np.float64).reshape(np.shape(value))
    if np.any(np.isnan(array)) or np.any(array == -absent):
        raise ValueError(f"the {which} bound must be a number, or {absent} or None where there is none, got {value!r}")
    finite = np.where(np.isfinite(array), array, 0.0)
    if np.any(np.abs(finite) >= _validate.MAX_COUNT):
        raise ValueError(f"the {which} bound must be smaller than 2**53 in absolute value, got {value!r}")
    if integer and np.any(finite != np.rint(finite)):
        raise ValueError(f"the {which} bound of an integer law must be a whole number, got {value!r}")
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array

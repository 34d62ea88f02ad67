"""Public bounds of the values of a law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesdp.noise.limits import Limit, checked_limit


def plain_bounds(bounds: tuple[Limit, Limit]) -> list[Any]:
    """Bounds as lists of numbers, None where there is no bound."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value if math.isfinite(value) else None

    return [plain(side.tolist() if isinstance(side, np.ndarray) else side) for side in bounds]


def checked_bounds(bounds: Any, *, integer: bool) -> tuple[Limit, Limit]:
    """Accept a lower and an upper bound, or arrays of them; None or an infinity on one side where there is no bound."""
    if isinstance(bounds, str | Mapping) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise TypeError(f"bounds must be a pair (lower, upper), got {bounds!r}")
    lower = checked_limit(bounds[0], -math.inf, "the lower bound", integer=integer)
    upper = checked_limit(bounds[1], math.inf, "the upper bound", integer=integer)
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

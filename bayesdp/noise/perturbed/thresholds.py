"""Thresholds of publication: the smallest and the largest value that is published."""

from __future__ import annotations

import numpy as np

from bayesdp.noise.limits import Limit


def check_order(below: Limit, above: Limit, *, integer: bool) -> None:
    """Check that something is published: ``below <= above`` for integers, ``below < above`` for reals."""
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

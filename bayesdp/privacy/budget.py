"""Splits of a privacy budget among several releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bayesdp._validate import positive_integer, positive_real


def split_budget(epsilon: float, parts: int | Sequence[float]) -> tuple[float, ...]:
    """Split a budget over releases about the same records; their losses add up (sequential composition).

    Parameters
    ----------
    epsilon : float
        The whole budget.
    parts : int or sequence of float
        Number of equal parts, or the parts themselves, which must add up to the whole.

    Returns
    -------
    tuple of float
        Equal parts are rounded down, so that their sum does not exceed the whole.

    Raises
    ------
    ValueError
        If parts do not add up to epsilon (to rounding, 1e-12 of it).

    Examples
    --------
    >>> split_budget(1.0, [0.5, 0.25, 0.25])
    (0.5, 0.25, 0.25)
    """
    whole = positive_real(epsilon, "epsilon")
    if isinstance(parts, int) and not isinstance(parts, bool):
        count = positive_integer(parts, "parts")
        each = whole / count
        while math.fsum([each] * count) > whole:
            each = math.nextafter(each, 0.0)
        return (each,) * count
    given: Any = parts
    if isinstance(given, str | bool) or not isinstance(given, Sequence):
        raise TypeError(f"parts must be a number of parts or a sequence of epsilons, got {parts!r}")
    amounts = tuple(positive_real(part, f"parts[{i}]") for i, part in enumerate(given))
    total = math.fsum(amounts)
    if not amounts or abs(total - whole) > 1e-12 * whole:
        raise ValueError(f"parts must add up to epsilon = {whole!r}, but {list(amounts)} add up to {total!r}")
    return amounts

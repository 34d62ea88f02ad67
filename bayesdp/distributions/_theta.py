"""Gaussian sums over the integers as PyTensor graphs: the counterpart of `bayesdp.noise._theta`.

The same formulas with fixed numbers of terms. Both sides of a switch are evaluated, so where a side is not
used it gets a scale that is harmless for it (otherwise gradients would be NaN there).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayesdp.noise._theta import DIRECT_TERMS, DUAL_TERMS, EULER_MACLAURIN, SWITCH

__all__ = ["log_sum", "log_upper_tail"]

_TAIL_SWITCH = 16.0  # scale from which tails are Euler-Maclaurin series
_TAIL_TERMS = 144  # terms summed below it: exp(-i**2 / (2 * 16**2)) < 1e-17 at the last


def log_sum(offset: Any, sigma: Any) -> Any:
    """Logarithm of the sum of ``exp(-j (j - 2 offset) / (2 sigma**2))`` over the integers j.

    Parameters
    ----------
    offset : TensorVariable or None
        Between -1/2 and 1/2. None for zero, which needs half of the terms and no cosine.
    sigma : TensorVariable
        Scale.
    """
    small = sigma < SWITCH
    # The direct sum is a number for every scale; theta would be 0 or less for small ones.
    high = pt.switch(small, 1.0, sigma)
    excess, theta = 0.0, 1.0
    for j in range(1, DIRECT_TERMS + 1):
        if offset is None:
            excess += 2.0 * pt.exp(-0.5 * (j / sigma) ** 2)
        else:
            excess += pt.exp(-0.5 * j * (j - 2.0 * offset) / sigma**2)
            excess += pt.exp(-0.5 * j * (j + 2.0 * offset) / sigma**2)
    for m in range(1, DUAL_TERMS + 1):
        wave = 1.0 if offset is None else pt.cos(2.0 * math.pi * m * offset)
        theta += 2.0 * pt.exp(-2.0 * (math.pi * m * high) ** 2) * wave
    dual = pt.log(high) + 0.5 * math.log(2.0 * math.pi) + pt.log(theta)
    if offset is not None:
        dual += 0.5 * (offset / high) ** 2
    return pt.switch(small, pt.log1p(excess), dual)


def log_upper_tail(start: Any, offset: Any, sigma: Any) -> Any:
    """Logarithm of the same sum over ``j >= start``, for integers ``start >= 1``.

    Relative error of the tail: about 1e-13 within eight scales of the mean, growing to 1e-6 at 38 scales.
    """
    small = sigma < _TAIL_SWITCH
    low, high = pt.switch(small, sigma, _TAIL_SWITCH), pt.switch(small, _TAIL_SWITCH, sigma)
    steps = np.arange(_TAIL_TERMS, dtype=np.float64)
    distance = 2.0 * (start - offset)[..., None] + steps
    direct = pt.sum(pt.exp(-steps * distance / (2.0 * low[..., None] ** 2)), axis=-1)

    t = pt.switch(small, 1.0, (start - offset) / high)
    series = high * math.sqrt(0.5 * math.pi) * pt.erfcx(t / math.sqrt(2.0)) + 0.5
    even, odd = pt.ones_like(t), t  # Hermite polynomials He_0 and He_1
    for m, coefficient in enumerate(EULER_MACLAURIN, start=1):
        series += coefficient * odd / high ** (2 * m - 1)
        even = t * odd - (2 * m - 1) * even
        odd = t * even - 2 * m * odd
    first = -start * (start - 2.0 * offset) / (2.0 * sigma**2)
    return first + pt.log(pt.switch(small, direct, series))

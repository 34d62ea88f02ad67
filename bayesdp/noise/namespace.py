"""Formulas that are written once for NumPy and PyTensor: what the two call differently, or only one of them has.

A function of a law whose first argument is ``xp`` takes `numpy` and arrays, or `pytensor.tensor` and its variables; nothing of
PyTensor is imported here. It uses what both have under one name and with one meaning: arithmetic, comparisons, ``abs``,
``exp``, ``expm1``, ``log``, ``log1p``, ``logaddexp``, ``floor``, ``ceil``, ``round`` (half to even), ``minimum``,
``maximum``, ``clip``, ``where``, ``isinf``, ``broadcast_arrays``, and what stands below. Where one side of a ``where`` is not
used, its argument must be harmless there, because PyTensor differentiates both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special


def whole(variable: Any) -> bool:
    """Whether an array or tensor has an integer (or Boolean) type."""
    return np.dtype(variable.dtype).kind in "iub"


def real(xp: Any, variable: Any) -> Any:
    """The same numbers in double precision."""
    return np.asarray(variable, dtype=np.float64) if xp is np else xp.cast(variable, "float64")


def equal(xp: Any, first: Any, second: Any) -> Any:
    """Where two arrays or tensors are equal."""
    return np.equal(first, second) if xp is np else xp.eq(first, second)


def finite(xp: Any, bound: Any, other: Any) -> Any:
    """A bound where it is finite, and a number in its place where it is not."""
    return xp.where(xp.isinf(bound), other, bound)


def special(xp: Any) -> Any:
    """Where ``erf``, ``erfc``, ``erfcx`` and ``gammainc`` are found."""
    return scipy.special if xp is np else xp


def softplus(xp: Any, x: Any) -> Any:
    """``log(1 + exp(x))``, for large x as well."""
    return np.logaddexp(0.0, x) if xp is np else xp.softplus(x)


def log1mexp(xp: Any, x: Any) -> Any:
    """``log(1 - exp(x))`` for x up to 0, with all digits at both ends."""
    if xp is not np:
        return xp.log1mexp(x)
    with np.errstate(divide="ignore"):
        return np.where(x > -math.log(2.0), np.log(-np.expm1(np.maximum(x, -1.0))), np.log1p(-np.exp(x)))

"""Probabilities in and out of trade-off functions and noise laws: checked arrays in, plain floats or arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""Float64 array of any shape."""


def points(values: npt.ArrayLike, argument: str) -> Floats:
    """Accept real numbers, infinities included, as float64.

    Examples
    --------
    >>> points([1, 2], "x")
    array([1., 2.])
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must hold integers or real numbers, got an array of dtype {array.dtype}")
    array = array.astype(np.float64)
    if np.isnan(array).any():
        where = int(np.flatnonzero(np.isnan(array.reshape(-1)))[0])
        raise ValueError(f"{argument} must not be NaN, but entry {where} is")
    return array


def levels(values: npt.ArrayLike, argument: str) -> Floats:
    """Accept real numbers from 0 to 1, both included, as float64.

    Examples
    --------
    >>> levels([0, 0.5], "alpha")
    array([0. , 0.5])
    """
    array = points(values, argument)
    flat = array.reshape(-1)
    bad = np.flatnonzero((flat < 0.0) | (flat > 1.0))
    if bad.size:
        where = int(bad[0])
        raise ValueError(f"{argument} must lie between 0 and 1, but entry {where} is {float(flat[where])!r}")
    return array


def plain(array: Floats) -> Any:
    """Turn an array without dimensions into a float, leave others as they are."""
    return float(array) if np.ndim(array) == 0 else array

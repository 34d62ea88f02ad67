"""Sums of integers that are exact or refused: int64 wraps silently, and a wrapped sum looks like any other number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_BEYOND = 2**63
"""int64 holds whole numbers that are smaller than this in absolute value."""

_SURE = 2.0**63 * (1.0 - 1e-6)
"""Sums of absolute values below this, added up in float64, are below 2**63: a float64 sum of n terms errs by a share of n
times 1.1e-16 at most, which is less than 1e-6 for anything that fits into memory."""


def exact_integers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Booleans and integers of any width as int64; everything else as it is."""
    # Sums of narrow integers wrap at their own width (`np.add.reduceat` adds int32 in int32, and booleans by "or").
    if values.dtype.kind == "u" and values.dtype.itemsize == 8 and np.any(values >= np.uint64(_BEYOND)):
        raise ValueError("values must be smaller than 2**63, which is the largest that 64-bit integers hold")
    return values.astype(np.int64, copy=False) if values.dtype.kind in "biu" else values


def largest_size(values: npt.NDArray[np.int64]) -> int:
    """The largest absolute value, as a Python integer (that of ``-2**63`` is no int64); 0 for no values."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def check_no_overflow(
    values: npt.NDArray[np.int64],
    largest_weight: int,
    add_up: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    name_of: Callable[[int], str],
) -> None:
    """Refuse sums of integers that int64 might not hold, partial ones included."""
    # `values`: what is added up. `largest_weight`: a bound on the sum of the absolute weights of one sum; with the largest value it
    # mostly settles the matter. `add_up`: the sums of the absolute values with the absolute weights, in float64, sums last: asked
    # where that bound is too coarse. `name_of`: position of a sum to its name.
    if largest_size(values) * largest_weight < _BEYOND:
        return
    sizes = add_up(np.abs(values.astype(np.float64)))
    over = np.argwhere(~(sizes < _SURE))
    if over.size:
        raise ValueError(
            f"the terms of {name_of(int(over[0, -1]))} add up to about 2**63 or more in absolute value, which 64-bit integers "
            "cannot hold exactly: the values, or the weights of the query, are too large"
        )


def exact_product(
    matrix: sp.csr_array, values: npt.NDArray[np.int64], largest_weight: int, name_of: Callable[[int], str]
) -> npt.NDArray[np.int64]:
    """A sparse int64 matrix times each of the vectors of shape ``(many, columns)``: shape ``(many, rows)``, exact.

    `largest_weight` and `name_of` are those of `check_no_overflow`, which refuses what int64 might not hold.
    """
    check_no_overflow(values, largest_weight, lambda sizes: (abs(matrix.astype(np.float64)) @ sizes.T).T, name_of)
    return np.asarray((matrix @ values.T).T)

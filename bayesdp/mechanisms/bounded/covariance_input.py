"""What the mechanisms for covariance matrices take: public bounds, and a confidential matrix that data within them can have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import finite_array
from bayesdp.mechanisms.bounded.statistics import ROUNDING
from bayesdp.privacy import Sensitivity, covariance_sensitivity, variance_sensitivity

type Floats = npt.NDArray[np.float64]


def pairs_of_bounds(data_bounds: Any) -> tuple[tuple[Any, ...], ...]:
    """Bounds of each variable; what they are is checked by the sensitivities."""
    if not hasattr(data_bounds, "__len__") or len(data_bounds) < 1:
        raise TypeError(f"data_bounds must be a pair of bounds for each variable, got {data_bounds!r}")
    return tuple(tuple(pair) for pair in data_bounds)


def element_sensitivities(n: int, data_bounds: Sequence[Any]) -> dict[tuple[int, int], Sensitivity]:
    """Sensitivity of each element of the upper triangle, row by row, under substitution of one of n records."""
    size = len(data_bounds)
    return {
        (i, j): variance_sensitivity(n, data_bounds[i])
        if i == j
        else covariance_sensitivity(n, data_bounds[i], data_bounds[j])
        for i in range(size)
        for j in range(i, size)
    }


def checked_covariance(covariance: Any, names: Sequence[str], largest: Floats, n: int) -> Floats:
    """Accept a confidential sample covariance matrix."""
    # `covariance`, shape (variables, variables). `largest`, shape (variables,): upper bounds of the variances. `n`: number of
    # records, for the message. Returns shape (variables, variables): variances that are beyond 0 or their upper bound by rounding
    # are at it.

    def element_name(position: int) -> str:
        row, column = divmod(position, len(names))
        return f"the element of {' and '.join(names[i % len(names)] for i in (row, column))}"

    truth = np.array(finite_array(covariance, "covariance", element_name, confidential=True), dtype=np.float64)
    size = len(names)
    if truth.shape != (size, size):
        raise ValueError(f"covariance must be symmetric, of shape {(size, size)}, got shape {truth.shape}")
    variances = np.diag(truth).copy()
    deviations = np.sqrt(np.maximum(variances, 0.0))
    if np.any(np.abs(truth - truth.T) > ROUNDING * np.outer(deviations, deviations)):
        raise ValueError(f"covariance must be symmetric, of shape {(size, size)}, but it is not")
    if np.linalg.eigvalsh(truth)[0] < -ROUNDING * max(float(np.trace(truth)), 0.0):
        raise ValueError("covariance must be positive semidefinite, as sample covariance matrices are")
    outside = np.flatnonzero((variances < -ROUNDING * largest) | (variances > largest * (1.0 + ROUNDING)))
    if outside.size:
        bad = int(outside[0])
        raise ValueError(
            f"covariance must have a variance of {printable(names[bad])} of at most {largest[bad]:.6g}, which data within the "
            f"bounds can have at n = {n}: the bounds are wrong, or something else was computed"
        )
    np.fill_diagonal(truth, np.clip(variances, 0.0, largest))
    return truth

"""The elements of a covariance matrix as they are published: their labels, and their law given the released variances.

What the mechanisms for covariance matrices take: public bounds, and a confidential matrix that data within them can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import finite_array, shown
from bayesdp.frames import Frame
from bayesdp.mechanisms.bounded.statistics import ROUNDING
from bayesdp.noise import BoundaryInflatedLaplace, BoundedLaw, TruncatedLaplace
from bayesdp.privacy import Sensitivity, covariance_sensitivity, variance_sensitivity

type Floats = npt.NDArray[np.float64]

LAWS: Mapping[str, type[BoundaryInflatedLaplace | TruncatedLaplace]] = {
    "boundary-inflated": BoundaryInflatedLaplace,
    "truncated": TruncatedLaplace,
}
"""The law of each rule for bounds."""

_DIM = "element"


def covariance_edge(first: float, second: float) -> float:
    """The largest covariance of two variables with these variances."""
    return math.sqrt(first) * math.sqrt(second)


def element_frame(names: Sequence[str]) -> Frame:
    """The upper triangle, row by row, as one dimension: ``a:a``, ``a:b``, ``b:b`` for variables a and b."""
    labels = _labels(names)
    twice = sorted({own for own in labels if labels.count(own) > 1}) if len(set(labels)) < len(labels) else []
    if twice:
        raise ValueError(f"names must give each pair of variables a label of its own, but two pairs are {shown(twice)}")
    return Frame.of({_DIM: labels})


def _labels(names: Sequence[str]) -> list[str]:
    return [f"{first}:{other}" for i, first in enumerate(names) for other in names[i:]]


def variables_of(frame: Frame) -> tuple[str, ...] | None:
    """The variables whose covariances a frame of `element_frame` labels; None for another frame."""
    size = (math.isqrt(8 * frame.size + 1) - 1) // 2
    labels = tuple(map(str, frame.labels[0]))
    if frame.dims != (_DIM,) or size * (size + 1) // 2 != frame.size:
        return None
    # The label of a variance is the name twice, with a colon in the middle; that of row i is at position i (2 size - i + 1) / 2.
    variances = [labels[i * (2 * size - i + 1) // 2] for i in range(size)]
    names = tuple(own[: len(own) // 2] for own in variances)
    return names if tuple(_labels(names)) == frame.labels[0] else None


def upper_triangle(matrix: npt.ArrayLike) -> Floats:
    """Elements of matrices, shape (..., variables, variables), in the order of `element_frame`, shape (..., elements)."""
    array = np.asarray(matrix, dtype=np.float64)
    return np.asarray(array[(..., *np.triu_indices(array.shape[-1]))])


def as_matrix(elements: npt.ArrayLike) -> Floats:
    """The symmetric matrix of elements in the order of `element_frame`, shape (variables, variables)."""
    values = np.asarray(elements, dtype=np.float64)
    size = (math.isqrt(8 * len(values) + 1) - 1) // 2
    matrix = np.empty((size, size))
    rows, columns = np.triu_indices(size)
    matrix[rows, columns] = matrix[columns, rows] = values
    return matrix


def element_law(
    rule: str, scales: Floats, variances: Floats, largest: Floats
) -> tuple[BoundedLaw, npt.NDArray[np.bool_]]:
    """The law of the elements given the released variances, and which covariances are 0 without noise."""
    # `rule`: of `LAWS`. `scales`, shape (elements,): of the noise. `variances`, `largest`, shape (variables,): released variances
    # and their upper bounds. A variance is within 0 and its upper bound, a covariance within plus and minus the root of the product
    # of both released variances. Where a released variance is 0, so is the covariance, and nothing was measured. The law has no
    # meaning there, but needs numbers: bounds and scale are the root of the product of both upper bounds.
    rows, columns = np.triu_indices(len(variances))
    deviations, roots = np.sqrt(variances), np.sqrt(largest)
    diagonal = rows == columns
    edges = np.where(diagonal, largest[rows], deviations[rows] * deviations[columns])
    hidden = edges == 0.0
    widest = roots[rows] * roots[columns]
    upper = np.where(hidden, widest, edges)
    law = LAWS[rule](np.where(hidden, widest, scales), (np.where(diagonal, 0.0, -upper), upper))
    return law, hidden


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

"""Vectors that the shape of Gaussian noise is fitted to, the optimal design that gives it, and its scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp import _validate
from bayesdp.privacy._design import Criterion, Design, optimal_design

__all__ = ["MAX_DIMENSION", "MAX_VECTORS", "Floats", "just_containing", "read_only", "solved", "spanning"]

type Floats = npt.NDArray[np.float64]

MAX_VECTORS = 20_000
"""Most differences that a shape is fitted to."""

MAX_DIMENSION = 300
"""Most dimensions that they may have."""

_RANK = 1e-9
"""Singular values below this share of the largest are zero."""


def spanning(vectors: npt.ArrayLike) -> Floats:
    """Accept vectors that span their space."""
    array = np.asarray(_validate.finite_array(vectors, "vectors"), dtype=np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"vectors must be a matrix with one vector a row, got an array of shape {array.shape}")
    if array.shape[0] > MAX_VECTORS or array.shape[1] > MAX_DIMENSION:
        raise ValueError(
            f"vectors must be at most {MAX_VECTORS}, of at most {MAX_DIMENSION} dimensions, got {array.shape[0]} of "
            f"{array.shape[1]}"
        )
    singular = np.linalg.svd(np.linalg.qr(array, mode="r"), compute_uv=False)
    rank = int(np.count_nonzero(singular > _RANK * singular[0]))
    if rank < array.shape[1]:
        raise ValueError(
            f"vectors must span the space of dimension {array.shape[1]}, but they span {rank} dimensions only; state them "
            "in coordinates of their span"
        )
    return array


def solved(vectors: Floats, criterion: Criterion, tolerance: float, max_iterations: int) -> Design:
    """The optimal design of a criterion, refused if its gap is larger than the tolerance."""
    goal = _validate.positive_real(tolerance, "tolerance")
    design = optimal_design(vectors, criterion, goal, _validate.positive_integer(max_iterations, "max_iterations"))
    if design.excess > goal:
        raise ValueError(
            f"the optimal shape of the noise was not found: the relative gap is {design.excess:.3g} after "
            f"{design.iterations} iterations, more than tolerance={goal!r}; allow more by max_iterations (now "
            f"{max_iterations}), or a larger gap by tolerance"
        )
    return design


def just_containing(shape: Floats, vectors: Floats) -> Floats:
    """Scale a shape so that the largest ``v^T shape^-1 v`` is 1, and make it symmetric to the last bit."""
    even = 0.5 * (shape + shape.T)
    white = scipy.linalg.solve_triangular(scipy.linalg.cholesky(even, lower=True), vectors.T, lower=True)
    return np.asarray(even * float(np.max(np.sum(white**2, axis=0))))


def read_only(array: Floats) -> Floats:
    """The array itself, made read-only."""
    array.flags.writeable = False
    return array

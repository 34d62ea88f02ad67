"""Orthonormal coordinates of the null space of invariants, in PyTensor graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.tensor as pt

from bayesdp.distributions.table_densities import measured
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.coordinates import CoordinateLaw

__all__ = ["linear_coordinates"]

_ENTRIES = 4_000_000
"""Largest dense matrix, dimensions times cells, that is put into a graph."""


def linear_coordinates(
    difference: Any, invariants: Invariants, whitening: npt.NDArray[np.float64] | None = None
) -> Any:
    """Coordinates ``Q^T z`` of tables z, also off the subspace: those of their projection.

    Parameters
    ----------
    difference : tensor variable, shape (..., *table)
    invariants : Invariants
    whitening : numpy.ndarray, shape (n, n), optional
        Multiplies the coordinates from the left.

    Returns
    -------
    tensor variable, shape (..., n)

    Raises
    ------
    NotImplementedError
        If dimensions times cells exceed four million.
    """
    n, cells, ndim = invariants.dimension, invariants.frame.size, len(invariants.frame.shape)
    if n * cells > _ENTRIES:
        raise NotImplementedError(
            f"noise stated in coordinates of a table with {cells} cells and {n} free dimensions needs a dense matrix of "
            f"{n * cells} numbers in the model, more than {_ENTRIES}"
        )
    basis = invariants.from_coordinates(np.eye(n)).reshape(n, cells)
    matrix = basis if whitening is None else whitening @ basis
    lead = [difference.shape[i] for i in range(difference.ndim - ndim)]
    return pt.dot(difference.reshape((*lead, cells)), pt.constant(np.ascontiguousarray(matrix.T)))


@measured.register
def _in_coordinates(law: CoordinateLaw, noise: Any, invariants: Invariants) -> Any:
    return linear_coordinates(noise, invariants, law.whitening)

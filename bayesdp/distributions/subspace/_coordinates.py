"""Orthonormal coordinates of the null space of invariants, in PyTensor graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayesdp.distributions.table_densities import dense_basis, measured
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.coordinates import CoordinateLaw

__all__ = ["linear_coordinates"]


def linear_coordinates(difference: Any, invariants: Invariants, whitening: Floats | None = None) -> Any:
    """Coordinates ``Q^T z`` of tables z, shape ``(..., *table)``, also off the subspace: those of their projection."""
    # `whitening`, shape (n, n), multiplies the coordinates from the left. NotImplementedError as for `dense_basis`.
    basis = dense_basis(invariants, "noise stated in coordinates")
    matrix = basis if whitening is None else whitening @ basis
    lead = [difference.shape[i] for i in range(difference.ndim - len(invariants.frame.shape))]
    return pt.dot(difference.reshape((*lead, basis.shape[1])), pt.constant(np.ascontiguousarray(matrix.T)))


@measured.register
def _in_coordinates(law: CoordinateLaw, noise: Any, invariants: Invariants) -> Any:
    return linear_coordinates(noise, invariants, law.whitening)

"""Log-densities of the laws of whole tables as PyTensor graphs: the kernel of the law, and what needs a graph of its own.

A law writes its kernel for NumPy and PyTensor at once (`TableLaw.log_kernel`). Three things cannot be written so, and are
`functools.singledispatch` functions, with the graphs of a family or a law beside its distributions: coordinates and norms of
polytopes, which NumPy gets from structured or adaptive algorithms and a graph from a dense matrix or an Op with a gradient; sums
over a lattice at an unknown scale, which NumPy cuts off where the scale allows, and a graph cannot; and integrals.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorConstant

from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.lattice.base import LatticeLaw
from bayesdp.noise.tables import TableLaw

_ENTRIES = 4_000_000
"""Largest dense matrix, dimensions times cells, that is put into a graph."""


@singledispatch
def log_density(law: TableLaw, noise: Any, scale: Any, invariants: Invariants) -> Any:
    """Log-mass or log-density at noise, shape (...); finite off the lattice or subspace too."""
    # The scale of `law` is not used. `noise` has the shape `(..., *table)`.
    return law.log_kernel(pt, measured(law, noise, invariants), scale, invariants)


@log_density.register
def _on_a_lattice(law: LatticeLaw, noise: Any, scale: Any, invariants: Invariants) -> Any:
    mass = law.log_kernel(pt, measured(law, noise, invariants), scale, invariants)
    normaliser = log_sum(law, scale, invariants)
    return mass if normaliser is None else mass - normaliser


@singledispatch
def measured(law: TableLaw, noise: Any, invariants: Invariants) -> Any:
    """What of the noise the kernel depends on, as `TableLaw.measured`."""
    return noise


def dense_basis(invariants: Invariants, needed_by: str) -> Floats:
    """Orthonormal coordinates Q^T as a dense matrix, shape (n, cells); NotImplementedError beyond four million entries."""
    n, cells = invariants.dimension, invariants.frame.size
    if n * cells > _ENTRIES:
        raise NotImplementedError(
            f"{needed_by} of a table with {cells} cells and {n} free dimensions needs a dense matrix of {n * cells} numbers in "
            f"the model, more than {_ENTRIES}"
        )
    return invariants.from_coordinates(np.eye(n)).reshape(n, cells)


@singledispatch
def symbolic_log_sum(law: LatticeLaw, scale: Any, invariants: Invariants) -> Any | None:
    """Logarithm of the sum over the lattice at an unknown scale; None where it is not computed."""
    return None


def log_sum(law: LatticeLaw, scale: Any, invariants: Invariants) -> Any | None:
    """Logarithm of the sum over the lattice; of known scales numbers, so that the graph stays as small as it was."""
    if not isinstance(scale, TensorConstant):
        return symbolic_log_sum(law, scale, invariants)
    found = [law.at(float(one)).log_normaliser(invariants) for one in np.asarray(scale.data).ravel()]
    if any(one is None for one in found):
        return None
    return pt.constant(np.reshape(np.array(found, dtype=np.float64), np.shape(scale.data)))


@singledispatch
def check_known(law: TableLaw, scale: Any, invariants: Invariants) -> None:
    """Raise NotImplementedError where the log-density is not available."""


@check_known.register
def _constant_or_known(law: LatticeLaw, scale: Any, invariants: Invariants) -> None:
    if isinstance(scale, TensorConstant) or log_sum(law, scale, invariants) is not None:
        return
    raise NotImplementedError(
        f"{law.scale_name} must be a constant here: the normaliser of the law {law.name!r} with these invariants "
        f"({invariants!r}) depends on {law.scale_name}, and {law.unknown_sum}; they leave {invariants.dimension} dimensions "
        f"free. Give the {law.scale_name} that was published, as a number"
    )

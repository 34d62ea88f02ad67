"""Parameters of the noise laws as PyTensor variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.variable import TensorConstant

from bayesdp.invariants import Invariants


def is_discrete(variable: Any) -> bool:
    """Whether a variable has an integer (or Boolean) type."""
    return variable.dtype in discrete_dtypes


def scale(value: Any, argument: str) -> Any:
    """Accept a scale as float64; a constant must be positive.

    PyTensor stores a Python float such as 2.0, which fits, in single precision, and would go on computing
    with it.

    Raises
    ------
    TypeError, ValueError
        If a constant is not numeric, or not positive and finite.
    """
    variable = pt.as_tensor_variable(value)
    if not isinstance(variable, TensorConstant):
        return variable if variable.dtype == "float64" else pt.cast(variable, "float64")
    number = np.asarray(variable.data)
    if number.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must be a real number, got {value!r}")
    if not np.all((number > 0) & np.isfinite(number)):
        raise ValueError(f"{argument} must be finite and greater than 0, got {value!r}")
    return pt.constant(number.astype(np.float64))


def location(value: Any) -> Any:
    """Accept a location: integers keep their type, real numbers become float64."""
    variable = pt.as_tensor_variable(value)
    if is_discrete(variable) or variable.dtype == "float64":
        return variable
    if isinstance(variable, TensorConstant):
        return pt.constant(np.asarray(variable.data, dtype=np.float64))
    return pt.cast(variable, "float64")


def checked_location(value: Any, invariants: Any) -> Any:
    """Accept a location with exactly the dimensions of the table of the invariants (batches in front)."""
    if not isinstance(invariants, Invariants):
        raise TypeError(f"invariants must be a bayesdp.Invariants, got {type(invariants).__name__}")
    variable = location(value)
    table = invariants.frame.shape
    known = variable.type.shape[max(variable.ndim - len(table), 0) :]
    fits = len(known) == len(table) and all(own is None or own == size for own, size in zip(known, table, strict=True))
    if not fits:
        raise ValueError(f"mu must have the shape of the table, {table}, got {variable.type.shape}")
    return variable

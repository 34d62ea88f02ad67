"""What all distributions are made of: parameters as PyTensor variables, and random variables that are drawn in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.variable import shared_rng
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.variable import TensorConstant

from bayesdp._numba import nb as numba
from bayesdp.invariants import Invariants

PROPS: tuple[str, ...] = RandomVariable.__props__
"""What every Op of a random variable depends on; PyTensor merges and caches Ops that agree in their ``__props__``."""


class PythonRV(RandomVariable):
    """A random variable that is drawn by its `rng_fn`, from compiled code as well.

    It is made with what its Op holds beside the inputs, by name: all that its ``__props__`` have beyond `PROPS`.
    """

    __props__: tuple[str, ...] = PROPS  # type: ignore[assignment]  # PyTensor's has four
    _print_name: tuple[str, str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[no-untyped-call]
        if "name" in vars(cls) and "_print_name" not in vars(cls):
            shown = cls.__name__.removesuffix("RV")
            cls._print_name = (shown, rf"\operatorname{{{shown}}}")

    def __init__(self, **props: Any) -> None:
        for name in self.__props__[len(PROPS) :]:
            if name in props:
                setattr(self, name, props.pop(name))
        super().__init__(**props)


def in_python(function: Any, *result: Any) -> tuple[Any, None]:
    """What PyTensor's numba backend is to call for an Op: a function in Python of all inputs, without PyTensor's warning about it."""
    # `result`: dtype and number of dimensions of each output, None for a number. None in place of a cache key keeps PyTensor from
    # storing a function that refers to this very Op.
    numbers = [(numba.from_dtype(np.dtype(dtype)), ndim) for dtype, ndim in result]
    types = [number if ndim is None else numba.types.Array(number, ndim, "C") for number, ndim in numbers]
    several = numba.types.Tuple(types) if len(types) > 1 else types[0]

    def call(inputs: tuple[Any, ...]) -> Any:
        found = function(*inputs) if len(types) > 1 else (function(*inputs),)
        arrays = [np.asarray(own, order="C") for own in found]
        made = [own.item() if ndim is None else own for own, (_, ndim) in zip(arrays, result, strict=True)]
        return tuple(made) if len(types) > 1 else made[0]

    @numba_njit
    def compiled(*inputs):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        with numba.objmode(out=several):
            out = call(inputs)
        return out

    return compiled, None


@numba_core_rv_funcify.register(PythonRV)
def drawn_in_python(op: Any, node: Any) -> tuple[Any, None]:
    """The `rng_fn` of a random variable, for PyTensor's numba backend."""
    return in_python(lambda *inputs: op.rng_fn(*inputs, None), (op.dtype, op.ndim_supp or None))


def applied(op: Any, *inputs: Any, size: Any, rng: Any) -> Any:
    """The variable of a random variable's Op, with a generator of its own if none is given."""
    own = shared_rng(seed=None) if rng is None else rng
    return op(*inputs, size=size, rng=own, return_next_rng=True)[1]


def is_discrete(variable: Any) -> bool:
    """Whether a variable has an integer (or Boolean) type."""
    return variable.dtype in discrete_dtypes


def as_real(variable: Any) -> Any:
    """A tensor variable in double precision."""
    return variable if variable.dtype == "float64" else pt.cast(variable, "float64")


def scale(value: Any, argument: str) -> Any:
    """Accept a scale as float64; a constant must be a positive number."""
    # PyTensor stores a Python float such as 2.0, which fits, in single precision, and would go on computing with it.
    variable = pt.as_tensor_variable(value)
    if not isinstance(variable, TensorConstant):
        return as_real(variable)
    number = np.asarray(variable.data)
    if number.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must be a real number, got {value!r}")
    if not np.all((number > 0) & np.isfinite(number)):
        raise ValueError(f"{argument} must be finite and greater than 0, got {value!r}")
    return pt.constant(number.astype(np.float64))


def location(value: Any) -> Any:
    """Accept a location: integers keep their type, real numbers become float64."""
    variable = pt.as_tensor_variable(value)
    if is_discrete(variable) or not isinstance(variable, TensorConstant):
        return variable if is_discrete(variable) else as_real(variable)
    return pt.constant(np.asarray(variable.data, dtype=np.float64))


def checked_location(value: Any, invariants: Any) -> Any:
    """Accept a location with exactly the dimensions of the table of the invariants (batches in front)."""
    check_invariants(invariants)
    variable = location(value)
    table = invariants.frame.shape
    known = variable.type.shape[max(variable.ndim - len(table), 0) :]
    fits = len(known) == len(table) and all(own is None or own == size for own, size in zip(known, table, strict=True))
    if not fits:
        raise ValueError(f"mu must have the shape of the table, {table}, got {variable.type.shape}")
    return variable


def check_invariants(given: Any) -> None:
    """Insist on invariants."""
    if not isinstance(given, Invariants):
        raise TypeError(f"invariants must be a bayesdp.Invariants, got {type(given).__name__}")

"""Functions of a point of a model, compiled once and called at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
from pytensor.graph.traversal import ancestors

__all__ = ["Point", "compiled", "depends", "log_density"]

type Ints = npt.NDArray[np.int64]
type Point = Mapping[str, npt.NDArray[Any]]


def compiled(
    model: pm.Model, outputs: list[Any], compile_kwargs: Mapping[str, Any]
) -> tuple[Callable[..., list[Any]], list[str]]:
    """A function from the values of other variables to parameters, and the names of those variables."""
    used = set(ancestors(outputs))
    inputs = [v for v in model.value_vars if v in used]
    function = pytensor.function(inputs, outputs, **compile_kwargs)
    # The point that PyMC hands over has the right types; checking them again would double the cost of a call.
    function.trust_input = True
    return function, [v.name for v in inputs]


def depends(model: pm.Model, variable: Any, value: Any) -> bool:
    """Whether the log-density of a variable or potential depends on a value variable."""
    return value in ancestors([model.logp(vars=[variable], sum=True)])


def log_density(
    model: pm.Model, terms: Sequence[Any], own: str, compile_kwargs: Mapping[str, Any], more: Sequence[Any] = ()
) -> Callable[[Point, Ints], float] | None:
    """Log-density of some terms as a function of the point and of the table that the variable `own` is to have in it.

    None where there are no terms.
    """
    if not terms and not more:
        return None
    expression: Any = sum(more, model.logp(vars=list(terms), sum=True) if terms else 0.0)
    used = set(ancestors([expression]))
    inputs = [v for v in model.value_vars if v in used]
    function = pytensor.function(inputs, expression, **compile_kwargs)
    function.trust_input = True  # as in `compiled`
    names = [v.name for v in inputs]

    def rest(point: Point, counts: Ints) -> float:
        table = np.ascontiguousarray(counts)  # the state of the kernel has strides
        return float(function(*[table if name == own else point[name] for name in names]))

    return rest

"""Functions of a point of a model, compiled once and called at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
from pytensor.graph.basic import equal_computations
from pytensor.graph.traversal import ancestors

type Ints = npt.NDArray[np.int64]
type Point = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class RemainingDensity:
    """A part of a log-density: a function of value variables, and of inputs whose values come from one release."""

    expression: Any
    inputs: tuple[tuple[Any, npt.NDArray[Any]], ...]


def compiled(
    model: pm.Model, outputs: list[Any], compile_kwargs: Mapping[str, Any]
) -> tuple[Callable[..., list[Any]], list[str]]:
    """Compile outputs as a function of the model's value variables, and return the names of those that it takes."""
    used = set(ancestors(outputs))
    inputs = [v for v in model.value_vars if v in used]
    function = _function(model, inputs, outputs, compile_kwargs)
    # The point that PyMC hands over has the right types; checking them again would double the cost of a call.
    function.trust_input = True
    return function, [v.name for v in inputs]


_KEPT: WeakKeyDictionary[pm.Model, list[tuple[list[Any], list[Any], Mapping[str, Any], Any]]] = WeakKeyDictionary()
"""Compiled functions of frozen models, for which PyMC caches its own functions too: refits compile nothing anew."""

_MOST_KEPT = 6


def _function(model: pm.Model, inputs: list[Any], outputs: list[Any], compile_kwargs: Mapping[str, Any]) -> Any:
    if not isinstance(model, pm.FrozenModel):
        return pytensor.function(inputs, outputs, **compile_kwargs)
    kept = _KEPT.setdefault(model, [])
    for known_inputs, graph, options, function in kept:
        # The same computation of the same variables (constants by value, data by identity), however it was built.
        if options == compile_kwargs and _equal(known_inputs, graph, inputs, outputs):
            return function
    made = pytensor.function(inputs, outputs, **compile_kwargs)
    kept.append((inputs, outputs, dict(compile_kwargs), made))
    del kept[:-_MOST_KEPT]  # those that hold released numbers as constants fit one release only
    return made


def _equal(known: list[Any], graph: list[Any], inputs: list[Any], outputs: list[Any]) -> bool:
    """Whether two functions are the same: value variables by identity, other inputs by place and type."""
    if len(known) != len(inputs) or len(graph) != len(outputs):
        return False
    if any(
        a is not b and (a.owner, a.name, a.type) != (b.owner, b.name, b.type)
        for a, b in zip(known, inputs, strict=True)
    ):
        return False
    return bool(equal_computations(graph, outputs, in_xs=known, in_ys=inputs))


def depends(model: pm.Model, variable: Any, value: Any) -> bool:
    """Whether the log-density of a variable or potential depends on a value variable."""
    return value in ancestors([model.logp(vars=[variable], sum=True)])


def log_density(
    model: pm.Model,
    terms: Sequence[Any],
    table: str,
    compile_kwargs: Mapping[str, Any],
    more: Sequence[RemainingDensity] = (),
) -> Callable[[Point, Ints], float] | None:
    """Log-density of some terms (None without any) as a function of a point, the variable named `table` replaced by given counts."""
    if not terms and not more:
        return None
    known: Any = model.logp(vars=list(terms), sum=True) if terms else 0.0
    expression: Any = sum((rest.expression for rest in more), known)
    used = set(ancestors([expression]))
    variables = [v for v in model.value_vars if v in used]
    given = [pair for rest in more for pair in rest.inputs]
    function = _function(model, [*variables, *(variable for variable, _ in given)], [expression], compile_kwargs)
    function.trust_input = True  # as in `compiled`
    return _LogDensity(function, table, [v.name for v in variables], [number for _, number in given])


@dataclass(frozen=True, eq=False)
class _LogDensity:
    """A compiled log-density; a class rather than a function inside of another one, which `pickle` could not write."""

    function: Any
    table: str
    names: list[str]
    fixed: list[npt.NDArray[Any]]

    def __call__(self, point: Point, counts: Ints) -> float:
        contiguous = np.asarray(counts, order="C")  # the state of the kernel has strides
        values = [contiguous if name == self.table else point[name] for name in self.names]
        return float(self.function(*values, *self.fixed)[0])

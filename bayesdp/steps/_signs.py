"""Which entries of a parameter are zero, and which are positive, whatever the values of a model's variables are.

The graph is followed from the parameter to the variables, with the rules of `_sign_rules`. ``rate * mask`` is zero where
the mask is, and positive elsewhere. Where no rule applies, nothing is known of an entry.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.compile import ViewOp
from pytensor.graph.traversal import ancestors
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Max, Prod, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import Softmax
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

from bayesdp.steps._sign_rules import (
    NEEDS_FINITE,
    Signs,
    all_positive,
    matrix_product,
    nothing_known,
    of_numbers,
    reduced,
    rule_of,
)

__all__ = ["Signs", "signs_of"]


def signs_of(model: pm.Model, variable: Any) -> Signs:
    """The signs of a variable of a model's graph, which may contain its random variables."""
    [expression] = model.replace_rvs_by_values([pt.as_tensor_variable(variable)])
    return _Reader(model).read(expression)


class _Reader:
    """Follows the graph of one model from a variable to the value variables, and remembers what it has found."""

    def __init__(self, model: pm.Model) -> None:
        start = model.initial_point()
        self._values = {v: np.asarray(start[v.name]) for v in model.value_vars}
        self._known: dict[Any, Signs] = {}

    def read(self, variable: Any) -> Signs:
        """The signs of one variable, remembered."""
        if variable not in self._known:
            self._known[variable] = self._find(variable)
        return self._known[variable]

    def _find(self, variable: Any) -> Signs:
        if not set(ancestors([variable])) & set(self._values):
            return of_numbers(np.asarray(pytensor.function([], variable, mode="FAST_COMPILE")()))
        if variable.owner is None:
            return nothing_known(self._values[variable].shape)
        op, inputs = variable.owner.op, variable.owner.inputs
        if isinstance(op, Elemwise):
            found = self._elementwise(op.scalar_op, inputs)
        elif isinstance(op, Sum | Prod):
            found = reduced(op, self.read(inputs[0]))
        elif isinstance(op, Softmax):
            found = all_positive(self._shape(variable)) if self._finite(inputs[0]) else None
        elif isinstance(op, Dot) or str(op) == "Matmul":
            found = matrix_product(*map(self.read, inputs))
        else:
            found = self._carried(op, inputs)
        return nothing_known(self._shape(variable)) if found is None else found

    def _finite(self, variable: Any) -> bool:
        """Whether no entry is infinite: exp(-inf) is 0, as of the logarithm of an offset that is 0."""
        if not set(ancestors([variable])) & set(self._values):
            return bool(np.isfinite(pytensor.function([], variable, mode="FAST_COMPILE")()).all())
        if variable.owner is None:
            return True
        op, inputs = variable.owner.op, variable.owner.inputs
        if isinstance(op, Elemwise):
            kind = op.scalar_op
            if isinstance(kind, ps.basic.Log | ps.basic.Reciprocal):
                return bool(self.read(inputs[0]).positive.all()) and self._finite(inputs[0])
            if isinstance(kind, ps.basic.TrueDiv):
                return bool(self.read(inputs[1]).positive.all()) and all(map(self._finite, inputs))
            if not isinstance(kind, _FINITE):
                return False
        elif not isinstance(op, _FINITE_SHAPES):
            return False
        data = [variable for variable in inputs if variable.type.__class__.__name__ == "TensorType"]
        return all(map(self._finite, data))

    def _shape(self, variable: Any) -> tuple[int, ...]:
        used = set(ancestors([variable]))
        inputs = [v for v in self._values if v in used]
        function = pytensor.function(inputs, pt.as_tensor_variable(variable).shape, mode="FAST_COMPILE")
        return tuple(int(n) for n in function(*[self._values[v] for v in inputs]))

    def _elementwise(self, op: Any, inputs: list[Any]) -> Signs | None:
        if isinstance(op, ps.basic.Switch):
            return self._switch(*inputs)
        if isinstance(op, ps.basic.Second):
            signs = self.read(inputs[1])
            return signs.broadcast(np.broadcast_shapes(self._shape(inputs[0]), signs.zero.shape))
        rule = rule_of(op)
        if rule is None or (rule in NEEDS_FINITE and not self._finite(inputs[0])):
            return None
        parts = [self.read(variable) for variable in inputs]
        shape = np.broadcast_shapes(*(part.zero.shape for part in parts))
        found = rule([part.broadcast(shape) for part in parts])
        whole = isinstance(op, ps.basic.Cast) and inputs[0].dtype.startswith("float") and op.o_type.dtype[:5] != "float"
        return replace(found, positive=found.one) if whole else found  # 0.3 becomes 0

    def _switch(self, condition: Any, first: Any, second: Any) -> Signs:
        one, other = self.read(first), self.read(second)
        if set(ancestors([condition])) & set(self._values):
            return Signs(*(np.logical_and(*pair) for pair in zip(one.masks, other.masks, strict=True)))
        which = np.asarray(pytensor.function([], condition, mode="FAST_COMPILE")()).astype(np.bool_)
        return Signs(*(np.where(which, *pair) for pair in zip(one.masks, other.masks, strict=True)))

    def _carried(self, op: Any, inputs: list[Any]) -> Signs | None:
        """Operations that move entries, such as indexing: applied to the four masks as to the array itself."""
        data = next((places for kinds, places in _CARRIERS if isinstance(op, kinds)), None)
        if data is None or (isinstance(op, IncSubtensor | AdvancedIncSubtensor) and not op.set_instead_of_inc):
            return None
        which = range(len(inputs))[data]
        others = [variable for i, variable in enumerate(inputs) if i not in which]
        if set(ancestors(others)) & set(self._values):
            return None
        parts = {i: self.read(inputs[i]) for i in which}
        masks = []
        for k in range(4):
            given = [
                pt.constant(parts[i].masks[k].astype(variable.dtype), dtype=variable.dtype) if i in parts else variable
                for i, variable in enumerate(inputs)
            ]
            moved = op(*given, return_list=True)[0]
            masks.append(np.asarray(pytensor.function([], moved, mode="FAST_COMPILE")()) != 0)
        return Signs(*masks)


_FINITE = (
    *(ps.basic.Mul, ps.basic.Add, ps.basic.Sub, ps.basic.Neg, ps.basic.Exp, ps.basic.Sqr, ps.basic.Abs, ps.basic.Cast),
    *(ps.basic.Identity, ps.basic.Second, ps.basic.ScalarMaximum, ps.basic.ScalarMinimum, Sigmoid, Softplus),
)
_FINITE_SHAPES = (
    *(DimShuffle, Reshape, Subtensor, AdvancedSubtensor, Alloc, SpecifyShape, ViewOp, Join, MakeVector),
    *(IncSubtensor, AdvancedIncSubtensor, Sum, Max, Dot, Softmax),
)
"""Operations that make finite numbers of finite numbers."""

_CARRIERS: list[tuple[Any, slice]] = [
    (DimShuffle | Reshape | Subtensor | AdvancedSubtensor | Alloc | SpecifyShape | ViewOp, slice(0, 1)),
    (IncSubtensor | AdvancedIncSubtensor, slice(0, 2)),
    (Join | MakeVector, slice(None)),
]
"""Operations that move entries, and which of their inputs hold these; the others say where to."""

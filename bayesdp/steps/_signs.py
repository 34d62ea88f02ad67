"""Which entries of a parameter are zero, and which are positive, whatever the variables of a model are.

The graph is followed from the parameter to the variables, with rules for the operations of which models of rates are
made: products, sums, quotients, exponentials, indexing. ``rate * mask`` is zero where the mask is, and positive elsewhere.
Where no rule applies an entry is neither: nothing is known then. The arithmetic is that of real numbers, not of floats
that underflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
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
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

__all__ = ["Signs", "signs_of"]

type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Signs:
    """What is known of the entries of an array.

    Parameters
    ----------
    zero, positive, below : bool arrays of the shape of the array
        Whether an entry is always 0, always above 0, always below 1.
    one : bool array
        Whether it is always 1.
    """

    zero: Mask
    positive: Mask
    below: Mask
    one: Mask

    @property
    def masks(self) -> tuple[Mask, Mask, Mask, Mask]:
        """All four."""
        return self.zero, self.positive, self.below, self.one

    def broadcast(self, shape: tuple[int, ...]) -> Signs:
        """The same for an array of a larger shape."""
        return Signs(*(np.broadcast_to(mask, shape) for mask in self.masks))

    @property
    def nonnegative(self) -> Mask:
        """Entries that are known to be 0, or known to be above."""
        return np.asarray(self.zero | self.positive)


def signs_of(model: pm.Model, variable: Any) -> Signs:
    """The signs of a variable of a model's graph, which may contain its random variables.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     rate = pm.Gamma("rate", 2.0, 0.1)
    >>> signs = signs_of(model, rate * np.array([1.0, 0.0, 3.0]))
    >>> signs.zero.tolist(), signs.positive.tolist()
    ([False, True, False], [True, False, True])
    """
    [expression] = model.replace_rvs_by_values([pt.as_tensor_variable(variable)])
    return _Reader(model).read(expression)


class _Reader:
    def __init__(self, model: pm.Model) -> None:
        self._values = {v: np.asarray(start) for v, start in zip(model.value_vars, _starts(model), strict=True)}
        self._known: dict[Any, Signs] = {}

    def read(self, variable: Any) -> Signs:
        """The signs of one variable, remembered."""
        if variable not in self._known:
            self._known[variable] = self._find(variable)
        return self._known[variable]

    def _find(self, variable: Any) -> Signs:
        if not set(ancestors([variable])) & set(self._values):
            return _of_numbers(np.asarray(pytensor.function([], variable, mode="FAST_COMPILE")()))
        if variable.owner is None:
            return _nothing(self._values[variable].shape)
        op, inputs = variable.owner.op, variable.owner.inputs
        if isinstance(op, Elemwise):
            found = self._elementwise(op.scalar_op, inputs)
        elif isinstance(op, Sum | Prod):
            found = _gathered(op, self.read(inputs[0]))
        elif isinstance(op, Softmax):
            found = _positive(self._shape(variable)) if self._finite(inputs[0]) else None
        elif isinstance(op, Dot) or str(op) == "Matmul":
            found = _product(*(self.read(own) for own in inputs))
        else:
            found = self._carried(op, inputs)
        return _nothing(self._shape(variable)) if found is None else found

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
        data = [own for own in inputs if own.type.__class__.__name__ == "TensorType"]
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
            own = self.read(inputs[1])
            shape = np.broadcast_shapes(self._shape(inputs[0]), own.zero.shape)
            return own.broadcast(shape)
        rule = next((rule for kinds, rule in _RULES if isinstance(op, kinds)), None)
        if rule is None or (rule in (_positive_rule, _sigmoid) and not self._finite(inputs[0])):
            return None
        parts = [self.read(own) for own in inputs]
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
        """Operations that put entries elsewhere: applied to the masks themselves."""
        data = next((places for kinds, places in _CARRIERS if isinstance(op, kinds)), None)
        if data is None or (isinstance(op, IncSubtensor | AdvancedIncSubtensor) and not op.set_instead_of_inc):
            return None
        which = range(len(inputs))[data]
        others = [own for i, own in enumerate(inputs) if i not in which]
        if set(ancestors(others)) & set(self._values):
            return None
        parts = {i: self.read(inputs[i]) for i in which}
        masks = []
        for k in range(4):
            given = [
                pt.constant(parts[i].masks[k].astype(own.dtype), dtype=own.dtype) if i in parts else own
                for i, own in enumerate(inputs)
            ]
            moved = op(*given, return_list=True)[0]
            masks.append(np.asarray(pytensor.function([], moved, mode="FAST_COMPILE")()) != 0)
        return Signs(*masks)


_FINITE = (
    ps.basic.Mul,
    ps.basic.Add,
    ps.basic.Sub,
    ps.basic.Neg,
    ps.basic.Exp,
    ps.basic.Sqr,
    ps.basic.Abs,
    ps.basic.Cast,
    ps.basic.Identity,
    ps.basic.Second,
    ps.basic.ScalarMaximum,
    ps.basic.ScalarMinimum,
    Sigmoid,
    Softplus,
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


def _starts(model: pm.Model) -> list[Any]:
    start = model.initial_point()
    return [start[v.name] for v in model.value_vars]


def _of_numbers(values: npt.NDArray[Any]) -> Signs:
    return Signs(values == 0, values > 0, values < 1, values == 1)


def _nothing(shape: tuple[int, ...]) -> Signs:
    none = np.zeros(shape, dtype=np.bool_)
    return Signs(none, none, none, none)


def _positive(shape: tuple[int, ...]) -> Signs:
    none = np.zeros(shape, dtype=np.bool_)
    return Signs(none, ~none, none, none)


def _times(parts: list[Signs]) -> Signs:
    zero = np.any([p.zero for p in parts], axis=0)
    below = np.all([p.nonnegative & (p.below | p.one) for p in parts], axis=0) & np.any(
        [p.below for p in parts], axis=0
    )
    return Signs(zero, _every(parts, "positive"), below | zero, _every(parts, "one"))


def _plus(parts: list[Signs]) -> Signs:
    zero = _every(parts, "zero")
    alone = np.sum([~p.zero for p in parts], axis=0) <= 1
    return Signs(
        zero,
        np.all([p.nonnegative for p in parts], axis=0) & ~zero,
        alone & np.all([p.below for p in parts], axis=0),
        (alone & np.all([p.zero | p.one for p in parts], axis=0) & ~zero),
    )


def _minus(parts: list[Signs]) -> Signs:
    first, second = parts
    return Signs(
        first.zero & second.zero,
        (first.positive & second.zero) | (first.one & second.below),
        (first.below & second.zero) | (first.one & second.positive),
        first.one & second.zero,
    )


def _over(parts: list[Signs]) -> Signs:
    first, second = parts
    return Signs(
        first.zero & second.positive,
        first.positive & second.positive,
        (first.zero & second.positive) | (first.below & first.positive & second.one),
        first.one & second.one,
    )


def _kept(parts: list[Signs]) -> Signs:
    """Of one number: 0 stays 0, and what is positive stays positive."""
    [own] = parts
    return Signs(own.zero, own.positive, own.zero, np.zeros_like(own.zero))


def _power(parts: list[Signs]) -> Signs:
    base, exponent = parts
    none = np.zeros_like(base.zero)
    zero = base.zero & exponent.positive
    return Signs(zero, base.positive, zero, none)


def _largest(parts: list[Signs]) -> Signs:
    return Signs(
        _every(parts, "zero"),
        np.any([p.positive for p in parts], axis=0),
        _every(parts, "below"),
        _every(parts, "one"),
    )


def _smallest(parts: list[Signs]) -> Signs:
    least = np.all([p.nonnegative for p in parts], axis=0)
    return Signs(
        np.any([p.zero for p in parts], axis=0) & least,
        _every(parts, "positive"),
        np.any([p.below for p in parts], axis=0),
        _every(parts, "one"),
    )


def _every(parts: list[Signs], name: str) -> Mask:
    return np.asarray(np.all([getattr(part, name) for part in parts], axis=0))


def _positive_rule(parts: list[Signs]) -> Signs:
    return _positive(parts[0].zero.shape)


def _sigmoid(parts: list[Signs]) -> Signs:
    some = np.ones(parts[0].zero.shape, dtype=np.bool_)
    return Signs(~some, some, some, ~some)


_RULES: list[tuple[Any, Callable[[list[Signs]], Signs]]] = [
    (ps.basic.Mul, _times),
    (ps.basic.Add, _plus),
    (ps.basic.Sub, _minus),
    (ps.basic.TrueDiv, _over),
    (ps.basic.Cast | ps.basic.Identity, lambda parts: parts[0]),
    (ps.basic.Exp | Softplus, _positive_rule),
    (Sigmoid, _sigmoid),
    (ps.basic.Sqr | ps.basic.Sqrt | ps.basic.Abs | ps.basic.Log1p | ps.basic.Expm1, _kept),
    (
        ps.basic.Reciprocal,
        lambda parts: replace(_kept(parts), zero=np.zeros_like(parts[0].zero), below=np.zeros_like(parts[0].zero)),
    ),
    (ps.basic.Pow, _power),
    (ps.basic.ScalarMaximum, _largest),
    (ps.basic.ScalarMinimum, _smallest),
]
"""Rules of operations that act entry by entry. A cast to whole numbers keeps only what it may: see `_elementwise`."""


def _gathered(op: Any, own: Signs) -> Signs:
    """Sums and products along axes."""
    axes = tuple(range(own.zero.ndim)) if op.axis is None else tuple(op.axis)
    none = np.zeros(own.zero.any(axis=axes).shape, dtype=np.bool_)
    if isinstance(op, Prod):
        return Signs(own.zero.any(axis=axes), own.positive.all(axis=axes), none, none)
    return Signs(own.zero.all(axis=axes), own.nonnegative.all(axis=axes) & own.positive.any(axis=axes), none, none)


def _product(first: Signs, second: Signs) -> Signs:
    """Matrix products: a sum of products for each entry."""
    terms = np.asarray(np.matmul(np.ones_like(first.zero, dtype=np.int64), np.ones_like(second.zero, dtype=np.int64)))

    def count(one: Mask, other: Mask) -> Any:
        return np.matmul(one.astype(np.int64), other.astype(np.int64))

    # A term is 0 if one of its factors is: those where neither is known to be 0 are what is left.
    zero = count(~first.zero, ~second.zero) == 0
    positive = count(first.positive, second.positive)
    least = count(~first.zero, ~second.zero) == positive
    none = np.zeros(terms.shape, dtype=np.bool_)
    return Signs(np.asarray(zero), np.asarray(least & (positive > 0)), none, none)

"""Whether the other terms of a model (beside base, noise and exact answers) give every table a positive density."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import pymc as pm
from pytensor.compile import ViewOp
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.random import basic as laws
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from bayesdp.distributions.confidential_counts import AnswersOp
from bayesdp.distributions.independent import CanonicalNoiseRV, CanonicalOfCountsRV

_LINEAR = (
    *(
        AnswersOp,
        Sum,
        Dot,
        DimShuffle,
        Reshape,
        Subtensor,
        AdvancedSubtensor,
        Alloc,
        Join,
        MakeVector,
        SpecifyShape,
        ViewOp,
    ),
)
_LINEAR_SCALARS = (scalar.Add, scalar.Sub, scalar.Mul, scalar.Neg, scalar.Cast, scalar.Identity, scalar.TrueDiv)
_WHOLE_LINE = dict.fromkeys((laws.NormalRV, laws.LaplaceRV, laws.CauchyRV, laws.LogisticRV, laws.GumbelRV), 0) | {
    laws.StudentTRV: 1
}
"""Laws with a positive density on the whole line, and the position of their location among the parameters."""


def restricting(model: pm.Model, variable: Any, x: Any) -> str:
    """Why a term may forbid tables of the counts x; empty if it gives all of them a positive density."""
    # `variable`: a potential, or an observed or free variable whose law depends on the counts. `x`: the counts.
    if variable in model.potentials:
        return f"which tables the potential {variable.name} allows is not known"
    op, inputs = variable.owner.op, variable.owner.inputs
    known = next((place for kind, place in _WHOLE_LINE.items() if isinstance(op, kind)), None)
    if known is None and _full_support(op):
        known = 0
    reason = f"which tables the law of {variable.name} allows is not known"
    if known is None:
        return reason
    location = inputs[2 + known]
    others = [parameter for parameter in inputs if parameter is not location]
    return reason if x in ancestors(others) or not _linear(location, x) else ""


@singledispatch
def _full_support(op: Any) -> bool:
    """Whether a law states that its density is positive on the whole line, whatever the location."""
    law_type = getattr(op, "law_type", None)
    return law_type is not None and law_type.full_support


@_full_support.register
def _of_canonical(op: CanonicalNoiseRV) -> bool:
    return math.isinf(op.noise.support()[1])


@_full_support.register
def _of_counts(op: CanonicalOfCountsRV) -> bool:
    """Canonical noise of answers about counts: its bounded support has become limits of the fiber (`kernel_reach`)."""
    return True


def _linear(variable: Any, x: Any) -> bool:
    """Whether a variable is finite whatever the counts: sums and multiples of them."""
    if variable is x or x not in ancestors([variable]):
        return True
    op, inputs = variable.owner.op, variable.owner.inputs
    if isinstance(op, Elemwise):
        if not isinstance(op.scalar_op, _LINEAR_SCALARS):
            return False
        if isinstance(op.scalar_op, scalar.TrueDiv) and x in ancestors([inputs[1]]):
            return False
    elif not isinstance(op, _LINEAR):
        return False
    return all(_linear(each, x) for each in inputs)

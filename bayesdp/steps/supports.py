"""Which counts the base of a table allows: limits of the cells where they can be worked out, else the reason why not.

A chain connects what its moves connect *within the support*. Limits that are known become limits of the fiber, for which
moves are chosen. Where the support is not known, nothing is claimed of the moves, and the reason is stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.discrete import DiscreteUniformRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV, _HurdleRV
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random import basic as laws

from bayesdp.distributions.confidential_counts import FlatCountsRV
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.steps._signs import Signs, signs_of

type Ints = npt.NDArray[np.int64]
type Floats = npt.NDArray[np.float64]

_TRIED = 20_000
"""Largest count up to which the probabilities of a base without random parameters are evaluated one by one."""

_ZERO = np.zeros((), dtype=np.int64)
_NO_LIMIT = np.asarray(UNBOUNDED, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Support:
    """The counts that a base allows, cell by cell."""

    # `lower`, `upper`: limits that hold whatever the parameters; `UNBOUNDED` above where there is none, shape (cells,).
    lower: Ints
    upper: Ints
    # Empty if every count between the limits has a positive probability whatever the parameters (of binomial cells, every count up
    # to their number of trials); else why that is not known.
    unknown: str = ""
    # Whether at least every cell has an interval of counts of its own, which may depend on the parameters.
    only_limits: bool = True


def support_of(model: pm.Model, base: Any, most: Floats) -> Support:
    """The support of the base of a `ConfidentialCounts`."""
    # `base`: its parameters may depend on variables of the model. `most`, shape (cells,): the largest count of each cell by the
    # exact answers; infinite where there is none.
    shape = tuple(int(n) for n in base.shape.eval())
    found = _by_rule(model, base)
    if found is None and not _is_random(model, base) and not base.owner.op.ndim_supp:
        found = _by_trying(base, shape, most)
    if found is None:
        name = type(base.owner.op).__name__.removesuffix("RV").removeprefix("_")
        reason = f"which counts the base of the table ({name}) allows is not known"
        return Support(np.zeros_like(most, dtype=np.int64), np.full(most.shape, UNBOUNDED), reason, False)
    lower, upper = (np.broadcast_to(side, shape).reshape(-1) for side in (found.lower, found.upper))
    # The base has one limit for each cell, or one for all of them.
    lower, upper = np.broadcast_to(lower, most.shape), np.broadcast_to(upper, most.shape)
    return Support(np.maximum(lower, 0), upper.copy(), found.unknown, found.only_limits)


def _is_random(model: pm.Model, variable: Any) -> bool:
    """Whether a variable depends on others of the model."""
    return bool(set(ancestors([variable])) & {*model.basic_RVs, *model.value_vars})


def _number(model: pm.Model, variable: Any) -> npt.NDArray[Any] | None:
    """The numbers behind a parameter; None if it is random."""
    if _is_random(model, variable):
        return None
    return np.asarray(pytensor.function([], pt.as_tensor_variable(variable), mode="FAST_COMPILE")())


def _by_rule(model: pm.Model, base: Any) -> Support | None:
    """Laws whose support follows from their parameters, which may be random."""
    op, inputs = base.owner.op, base.owner.inputs
    given = inputs[2:]
    match op:
        case FlatCountsRV():
            return Support(_ZERO, _NO_LIMIT)
        case laws.PoissonRV():
            return _weighted(signs_of(model, given[0]), "the rate of the Poisson base")
        case laws.NegBinomialRV():
            return _negative_binomial(model, *given)
        case laws.MultinomialRV():
            return _weighted(signs_of(model, given[1]), "the probability of the multinomial base")
        case DirichletMultinomialRV():
            positive = signs_of(model, given[1]).positive
            return Support(_ZERO, _NO_LIMIT, "" if positive.all() else _may_be("the Dirichlet-multinomial base's a"))
        case laws.BinomialRV():
            return _binomial(model, *given)
        case laws.BetaBinomialRV():
            return _up_to(model, given[0])
        case laws.GeometricRV():
            p = signs_of(model, given[0])
            return Support(_ZERO + 1, _NO_LIMIT) if np.all(p.positive & p.below) else None
        case DiscreteUniformRV():
            ends = [_number(model, end) for end in given]
            if ends[0] is None or ends[1] is None:
                return None
            return Support(np.ceil(ends[0]).astype(np.int64), np.floor(ends[1]).astype(np.int64))
        case DiracDeltaRV():
            value = _number(model, inputs[1])
            return None if value is None else Support(value.astype(np.int64), value.astype(np.int64))
        case TruncatedRV():
            return _truncated(model, base)
        case MixtureRV() | _HurdleRV():
            return _mixture(model, inputs[1], inputs[2:])
    return None


def _may_be(what: str) -> str:
    return f"{what} is not known to be positive wherever it is not 0 throughout"


def _weighted(signs: Signs, what: str) -> Support:
    unknown = "" if signs.nonnegative.all() else _may_be(what)
    return Support(_ZERO, np.where(signs.zero, 0, UNBOUNDED), unknown)


def _negative_binomial(model: pm.Model, n: Any, p: Any) -> Support:
    """Counts are 0 if p is 1. PyMC makes p of the mean: ``p = sigmoid(log n - log mean)``, which is 1 where the mean is 0."""
    what, many = "the mean of the negative binomial base", signs_of(model, n)
    if p.owner is not None and _is(p.owner, Sigmoid):
        inner = p.owner.inputs[0]
        if inner.owner is not None and _is(inner.owner, scalar.Sub):
            logs = [_bare(each) for each in inner.owner.inputs]
            if all(each.owner is not None and _is(each.owner, scalar.Log) for each in logs):
                found = _weighted(signs_of(model, logs[1].owner.inputs[0]), what)
                return found if many.positive.all() else Support(_ZERO, found.upper, _may_be(what))
    signs = signs_of(model, p)
    good = many.positive & (signs.one | (signs.positive & signs.below))
    return Support(_ZERO, np.where(signs.one, 0, UNBOUNDED), "" if good.all() else _may_be(what))


def _bare(variable: Any) -> Any:
    """The variable below broadcasts and casts."""
    while variable.owner is not None and (
        isinstance(variable.owner.op, DimShuffle) or _is(variable.owner, scalar.Cast)
    ):
        variable = variable.owner.inputs[0]
    return variable


def _is(owner: Any, kind: Any) -> bool:
    return isinstance(owner.op, Elemwise) and isinstance(owner.op.scalar_op, kind)


def _up_to(model: pm.Model, n: Any) -> Support:
    most = _number(model, n)
    if most is None:
        return Support(_ZERO, _NO_LIMIT, "the largest count that the base allows depends on the parameters")
    return Support(_ZERO, most.astype(np.int64))


def _binomial(model: pm.Model, n: Any, p: Any) -> Support:
    found, signs = _up_to(model, n), signs_of(model, p)
    good = signs.zero | (signs.positive & signs.below)
    unknown = "" if good.all() else "the probability of the binomial base is not known to be between 0 and 1"
    return Support(_ZERO, np.where(signs.zero, 0, found.upper), unknown or found.unknown)


def _truncated(model: pm.Model, base: Any) -> Support | None:
    *given, low, high = base.owner.inputs
    ends = [_number(model, low), _number(model, high)]
    inner = _by_rule(model, base.owner.op.base_rv_op.make_node(*given).default_output())
    if inner is None or ends[0] is None or ends[1] is None:
        return None
    lower = np.ceil(np.clip(ends[0], 0, UNBOUNDED)).astype(np.int64)
    upper = np.floor(np.clip(ends[1], -1, UNBOUNDED)).astype(np.int64)
    return Support(np.maximum(inner.lower, lower), np.minimum(inner.upper, upper), inner.unknown, inner.only_limits)


def _mixture(model: pm.Model, weights: Any, components: list[Any]) -> Support | None:
    """Intervals that overlap or follow one another make an interval together; weights must be positive."""
    parts = [_by_rule(model, component) for component in components]
    if len(parts) < 2 or not signs_of(model, weights).positive.all():
        return None
    whole = parts[0]
    for part in parts[1:]:
        if whole is None or part is None or whole.unknown or part.unknown:
            return None
        if np.any(np.maximum(whole.lower, part.lower) > np.minimum(whole.upper, part.upper) + 1):
            return None
        whole = Support(np.minimum(whole.lower, part.lower), np.maximum(whole.upper, part.upper))
    return whole


def _by_trying(base: Any, shape: tuple[int, ...], most: Floats) -> Support | None:
    """Evaluate a base without random parameters at every count that the exact answers allow."""
    top = np.max(most, initial=0.0)
    if top > _TRIED:
        return None
    count = pt.scalar("count", dtype="int64")
    try:
        density = pm.logp(base, pt.alloc(count, *shape))
    except NotImplementedError:
        return None
    function = pytensor.function([count], density, mode="FAST_COMPILE")
    possible = np.array([function(k) > -np.inf for k in range(int(top) + 1)]).reshape(int(top) + 1, -1)
    possible &= np.arange(int(top) + 1)[:, None] <= most
    if not possible.any(axis=0).all():
        raise ValueError("no count that the exact answers allow has a positive probability in some cell")
    lower, upper = possible.argmax(axis=0), int(top) - possible[::-1].argmax(axis=0)
    gaps = possible.sum(axis=0) < upper - lower + 1
    unknown = "the base leaves gaps between the counts that it allows" if gaps.any() else ""
    # Where the base allows all counts up to the limit of the exact answers, it adds none of its own.
    limits = (lower.reshape(shape), np.where(upper >= most, UNBOUNDED, upper).reshape(shape))
    return Support(*limits, unknown, only_limits=not gaps.any())

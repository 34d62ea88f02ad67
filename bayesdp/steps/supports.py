"""Which tables the terms of a model allow: limits of the cells where they can be worked out, else the reason why not.

A chain connects what its moves connect *within the support*. Weights that are 0 limit a cell. Where they are made of the variables
of the model by analytic operations (no steps, no variables of whole numbers), one that is 0 at random points is 0 everywhere, and
one that is not is 0 with probability 0.

Also told is of a prior that is right, and slow: a gamma rate for each cell.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.scalar.math as functions
import pytensor.tensor as pt
from pymc.distributions.discrete import DiscreteUniformRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV, _HurdleRV
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.distributions.truncated import TruncatedRV
from pymc.pytensorf import constant_fold
from pytensor.compile import ViewOp
from pytensor.compile.mode import get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, applys_between
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Prod, Sum
from pytensor.tensor.random import basic as laws
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import Softmax
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.type import discrete_dtypes

from bayesdp._arrays import Floats, Ints
from bayesdp.distributions.confidential_counts import AnswersOp, FlatCountsRV
from bayesdp.distributions.independent import CanonicalNoiseRV, CanonicalOfCountsRV
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.steps.base import is_random, kept_function, shape_of, start_of

_TRIED = 20_000
"""Largest count up to which the probabilities of a base without random parameters are evaluated one by one."""

_POINTS = 8
"""Random points of the variables at which weights are looked at."""

_FEW = 50
"""Up to so many cells gamma rates are not worth a word."""

_NOT_THE_USERS = tuple(f"{folder}{os.sep}" for folder in (Path(pm.__file__).parent, Path(__file__).parents[1]))
"""Folders of PyMC and of this package: a warning names the line of the user's that led here."""

SLOW_RATES = r"each of the \d+ cells of .* has a gamma rate of its own"
"""The beginning of the warning."""

_ZERO = np.zeros((), dtype=np.int64)
_NO_LIMIT = np.asarray(UNBOUNDED, dtype=np.int64)

_LINEAR = (
    *(Sum, Dot, DimShuffle, Reshape, Subtensor, AdvancedSubtensor, Alloc, Join, MakeVector, SpecifyShape, ViewOp),
    *(IncSubtensor, AdvancedIncSubtensor, AnswersOp),
)
_LINEAR_SCALARS = (
    *(scalar.Add, scalar.Sub, scalar.Mul, scalar.Neg, scalar.Cast, scalar.Identity, scalar.Second, scalar.TrueDiv),
)
_ANALYTIC = (*_LINEAR, Prod, Softmax)
_ANALYTIC_SCALARS = (
    *(*_LINEAR_SCALARS, scalar.Reciprocal, scalar.Sqr, scalar.Sqrt, scalar.Pow, scalar.Switch),
    *(scalar.Exp, scalar.Expm1, scalar.Log, scalar.Log1p, scalar.Sin, scalar.Cos, scalar.Tanh),
    *(functions.Sigmoid, functions.Softplus, functions.Erf, functions.Erfc),
)
_WHOLE_LINE = dict.fromkeys((laws.NormalRV, laws.LaplaceRV, laws.CauchyRV, laws.LogisticRV, laws.GumbelRV), 0) | {
    laws.StudentTRV: 1
}
"""Laws with a positive density on the whole line, and the position of their location among the parameters."""


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


def prior_family(base: Any) -> tuple[str, Any, Any, Any] | None:
    """Family, log weight, shape and number of trials of a base; None for a base without fast steps."""
    op, parameters = base.owner.op, base.owner.inputs[2:]
    one = pt.ones(())
    match op:
        case FlatCountsRV():
            return "flat", pt.zeros(()), one, None
        case laws.PoissonRV():
            return "poisson", pt.log(parameters[0]), one, None
        case laws.NegBinomialRV():
            n, p = parameters
            return "negbin", pt.log1p(-p), n, None
        case laws.BinomialRV():
            n, p = parameters
            return "binomial", pt.log(p) - pt.log1p(-p), n, None
        case laws.MultinomialRV():
            n, p = parameters
            return "poisson", pt.log(p), one, n
        case DirichletMultinomialRV():
            n, a = parameters
            return "negbin", pt.zeros(()), a, n
    return None


def support_of(model: pm.Model, base: Any, most: Floats) -> Support:
    """The support of the base of a `ConfidentialCounts`."""
    # `base`: its parameters may depend on variables of the model. `most`, shape (cells,): the largest count of each cell by the
    # exact answers; infinite where there is none.
    shape, found = shape_of(base), _by_rule(model, base)
    if found is None and not is_random(model, [base]) and not base.owner.op.ndim_supp:
        found = _by_trying(base, shape, most)
    if found is None:
        name = type(base.owner.op).__name__.removesuffix("RV").removeprefix("_")
        reason = f"which counts the base of the table ({name}) allows is not known"
        return Support(np.zeros_like(most, dtype=np.int64), np.full(most.shape, UNBOUNDED), reason, False)
    lower, upper = (np.broadcast_to(side, shape).reshape(-1) for side in (found.lower, found.upper))
    # The base has one limit for each cell, or one for all of them.
    lower, upper = np.broadcast_to(lower, most.shape), np.broadcast_to(upper, most.shape)
    return Support(np.maximum(lower, 0), upper.copy(), found.unknown, found.only_limits)


def _number(model: pm.Model, variable: Any) -> npt.NDArray[Any] | None:
    """The numbers behind a parameter; None if it is random."""
    if is_random(model, [variable]):
        return None
    return np.asarray(pytensor.function([], pt.as_tensor_variable(variable), mode="FAST_COMPILE")())


def at_random_points(model: pm.Model, parameter: Any) -> Floats | None:
    """A parameter at random points of the variables, shape (points, *shape); None where that says nothing of other points."""
    near = set(ancestors([parameter], blockers=model.basic_RVs))
    variables = [rv for rv in model.basic_RVs if rv in near]
    if any(rv.dtype in discrete_dtypes for rv in variables) or not _analytic(parameter, variables):
        return None
    [expression] = model.replace_rvs_by_values([parameter])
    used = set(ancestors([expression]))
    inputs = [variable for variable in model.value_vars if variable in used]
    # As the kernel will see it: of log(exp(x)) and log(1 - sigmoid(x)) it sees x.
    function = kept_function(model, inputs, [expression], {"mode": _stable_mode()})
    start, rng = start_of(model) if inputs else {}, np.random.default_rng(0)
    found = []
    with np.errstate(all="ignore"):
        for _ in range(_POINTS if inputs else 1):
            point = [start[variable.name] + rng.normal(size=start[variable.name].shape) for variable in inputs]
            found.append(function(*(variable.astype(by.dtype) for variable, by in zip(point, inputs, strict=True)))[0])
    return None if np.isnan(found).any() else np.asarray(found, dtype=np.float64)


@cache
def _stable_mode() -> Any:
    return get_mode("FAST_COMPILE").including("stabilize")


def _analytic(variable: Any, leaves: Collection[Any]) -> bool:
    """Whether a variable is made of others without steps."""
    for node in _nodes_between(leaves, variable):
        kind = getattr(node.op, "scalar_op", None)
        if not _is_one_of(node, _ANALYTIC, _ANALYTIC_SCALARS):
            return False
        if isinstance(kind, scalar.Cast) and kind.o_type.dtype in discrete_dtypes:
            return False
        if isinstance(kind, scalar.Switch) and set(ancestors([node.inputs[0]])) & set(leaves):
            return False
    return True


def _nodes_between(leaves: Collection[Any], variable: Any) -> list[Any]:
    """The operations by which a variable depends on others."""
    ends, nodes = set(leaves), applys_between(set(leaves), [variable])
    return [node for node in nodes if not ends.isdisjoint(ancestors(node.inputs, blockers=ends))]


def _is_one_of(node: Any, kinds: tuple[Any, ...], scalars: tuple[Any, ...]) -> bool:
    """Whether an operation on tensors, or on their entries, is of some kinds."""
    if isinstance(node.op, Elemwise):
        return isinstance(node.op.scalar_op, scalars)
    return isinstance(getattr(node.op, "core_op", node.op), kinds)  # of products of stacks of matrices


def _by_rule(model: pm.Model, base: Any) -> Support | None:
    """Laws whose support follows from their parameters, which may be random."""
    op, inputs = base.owner.op, base.owner.inputs
    given = inputs[2:]
    match op:
        case FlatCountsRV() | DirichletMultinomialRV():
            return Support(_ZERO, _NO_LIMIT)
        case laws.PoissonRV():
            return _weighted(model, base, "the rate of the Poisson base")
        case laws.NegBinomialRV():
            return _weighted(model, base, "the mean of the negative binomial base")
        case laws.MultinomialRV():
            return _weighted(model, base, "the probability of the multinomial base")
        case laws.BinomialRV():
            trials, found = _up_to(model, given[0]), _weighted(model, base, "the probability of the binomial base")
            return Support(_ZERO, np.minimum(found.upper, trials.upper), found.unknown or trials.unknown)
        case laws.BetaBinomialRV():
            return _up_to(model, given[0])
        case laws.GeometricRV():
            p = at_random_points(model, given[0])
            return None if p is None or np.isin(p, (0.0, 1.0)).any() else Support(_ZERO + 1, _NO_LIMIT)
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


def _weighted(model: pm.Model, base: Any, what: str) -> Support:
    """Of a base that the kernel knows: cells of weight 0 have the count 0, and a weight that is infinite is no weight."""
    prior = prior_family(base)
    assert prior is not None
    weights = at_random_points(model, prior[1])
    unknown = f"{what} is not known to be positive wherever it is not 0 throughout"
    if weights is None:
        return Support(_ZERO, _NO_LIMIT, unknown)
    zero = np.isneginf(weights)
    known = np.all(zero.all(axis=0) | ~zero.any(axis=0)) and not np.isposinf(weights).any()
    return Support(_ZERO, np.where(zero.all(axis=0), 0, UNBOUNDED), "" if known else unknown)


def _up_to(model: pm.Model, n: Any) -> Support:
    most = _number(model, n)
    if most is None:
        return Support(_ZERO, _NO_LIMIT, "the largest count that the base allows depends on the parameters")
    return Support(_ZERO, most.astype(np.int64))


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
    parts, mixed = [_by_rule(model, component) for component in components], at_random_points(model, weights)
    if len(parts) < 2 or mixed is None or np.any(mixed == 0.0):
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


def restricting(model: pm.Model, variable: Any, x: Any) -> str:
    """Why a term (beside base, noise and exact answers) may forbid tables of the counts x; empty if it forbids none."""
    if variable in model.potentials:
        return f"which tables the potential {variable.name} allows is not known"
    op, inputs = variable.owner.op, variable.owner.inputs
    place = next((place for kind, place in _WHOLE_LINE.items() if isinstance(op, kind)), None)
    if place is None and _full_support(op):
        place = 0
    if place is not None:
        location = inputs[2 + place]
        others = [parameter for parameter in inputs if parameter is not location]
        if x not in ancestors(others) and _finite(location, x):
            return ""
    return f"which tables the law of {variable.name} allows is not known"


def _full_support(op: Any) -> bool:
    """Whether a law states that its density is positive on the whole line, whatever the location."""
    if isinstance(op, CanonicalOfCountsRV):  # a bounded support has become limits of the fiber (`KernelTerm.reach`)
        return True
    if isinstance(op, CanonicalNoiseRV):
        return math.isinf(op.noise.support()[1])
    law_type = getattr(op, "law_type", None)
    return law_type is not None and law_type.full_support


def _finite(variable: Any, x: Any) -> bool:
    """Whether a variable is finite whatever the counts: made of sums and multiples of them."""
    nodes = _nodes_between([x], variable)
    divided = [node.inputs[1] for node in nodes if isinstance(getattr(node.op, "scalar_op", None), scalar.TrueDiv)]
    return all(_is_one_of(node, _LINEAR, _LINEAR_SCALARS) for node in nodes) and x not in ancestors(divided)


def warn_slow_rates(model: pm.Model, values: Iterable[Any]) -> None:
    """Warn of Poisson counts with a gamma rate for each cell, which could be integrated out."""
    # Told is what is true only: the rate of each cell is one element of a gamma (or exponential) variable of the model, which may be
    # multiplied or divided by anything else, and which nothing but these counts uses.
    for x in map(model.values_to_rvs.__getitem__, values):
        base = x.owner.inputs[0]
        for rates, alone in _rates_of(base.owner.inputs[-1], model):
            size, poisson = math.prod(shape_of(rates)), isinstance(base.owner.op, laws.PoissonRV)
            if poisson and _FEW < size == math.prod(shape_of(x)) and not _used_elsewhere(rates, x, model):
                warnings.warn(_message(x, rates, size, alone), UserWarning, skip_file_prefixes=_NOT_THE_USERS)
                break


def _rates_of(rate: Any, model: pm.Model) -> list[tuple[Any, bool]]:
    """Gamma variables that a rate is a multiple of, and whether it is just that: [] if it is no product."""
    numerators, others = _factors(rate)
    found = []
    for i, rates in enumerate(numerators):
        if rates in model.free_RVs and isinstance(rates.owner.op, laws.GammaRV | laws.ExponentialRV):
            rest = [*numerators[:i], *numerators[i + 1 :], *others]
            if not any(_has_zeros(factor) for factor in rest) and rates not in ancestors(rest):
                found.append((rates, not rest))
    return found


def _factors(rate: Any) -> tuple[list[Any], list[Any]]:
    """What a variable is the product of, cell by cell, and what that is divided by."""
    op = rate.owner.op if rate.owner is not None else None
    if isinstance(op, ViewOp | Reshape | DimShuffle):  # the same numbers in another form; sizes are compared later
        return _factors(rate.owner.inputs[0])
    if isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Mul):
        both = [_factors(factor) for factor in rate.owner.inputs]
        return [factor for up, _ in both for factor in up], [factor for _, down in both for factor in down]
    if isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.TrueDiv):
        up, down = _factors(rate.owner.inputs[0])
        return up, [*down, rate.owner.inputs[1]]
    return [rate], []


def _has_zeros(factor: Any) -> bool:
    """Whether a factor is a constant or data with zeros, which the mean of a Poisson law may be, and that of PyMC's other not."""
    if isinstance(factor, Constant):
        return bool(np.any(np.asarray(factor.data) == 0))
    return isinstance(factor, SharedVariable) and bool(np.any(factor.get_value(borrow=True) == 0))


def _used_elsewhere(rates: Any, x: Any, model: pm.Model) -> bool:
    """Whether anything that has a density depends on the rates other than through the counts."""
    others = [other for other in [*model.basic_RVs, *model.potentials] if other is not rates and other is not x]
    return bool(others) and rates in ancestors(others, blockers=[x])


def _parameter(variable: Any) -> float | None:
    """What a variable is that depends on constants only, and is the same for all cells; None for anything else."""
    (folded,) = constant_fold([variable], raise_not_constant=False)
    if not isinstance(folded, np.ndarray | np.generic | float | int):
        return None
    values = np.asarray(folded, dtype=np.float64)
    return float(values.flat[0]) if values.size and np.all(values == values.flat[0]) else None


def _message(x: Any, rates: Any, size: int, alone: bool) -> str:
    """What the slow form is, what the fast one would be, and how draws of the rates are had from that."""
    inputs = rates.owner.inputs[2:]
    exponential = isinstance(rates.owner.op, laws.ExponentialRV)
    shape = 1.0 if exponential else _parameter(inputs[0])
    scale = _parameter(inputs[-1])
    alpha = "alpha" if shape is None else f"{shape:.6g}"
    mu = f"mean of {rates.name}" if shape is None or scale is None else f"{shape * scale:.6g}"
    factor = "" if alone else f" times what the rates multiply {rates.name} by"
    where = "" if shape is not None and scale is not None else f", with alpha and the mean as {rates.name} has them"
    rate = "beta + 1" if alone else "beta + what multiplies it"
    return (
        f"each of the {size} cells of {x.name} has a gamma rate of its own ({rates.name}), which nothing else uses: sampled beside "
        f"the counts, rates make chains slow. Integrated out they leave {x.name} the same posterior: write pm.NegativeBinomial.dist("
        f"mu={mu}{factor}, alpha={alpha}) in the place of pm.Poisson.dist{where}. Draws of {rates.name} can be had from "
        f"those of {x.name}: each is Gamma(alpha + count, {rate})"
    )

"""Read a model: what it says about one count variable, and in which form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt
import scipy.linalg
from pymc.distributions.multivariate import DirichletMultinomialRV
from pytensor.compile import SharedVariable, ViewOp
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import (
    BinomialRV,
    MultinomialRV,
    NegBinomialRV,
    PoissonRV,
)
from pytensor.tensor.shape import SpecifyShape

from bayesdp.distributions._bounded import BoundedRV
from bayesdp.distributions.answers import AnswersOp
from bayesdp.distributions.confidential_counts import FlatCountsRV
from bayesdp.distributions.correlated_gaussian import CorrelatedGaussianRV
from bayesdp.distributions.discrete_gaussian import DiscreteGaussianRV
from bayesdp.distributions.discrete_laplace import DiscreteLaplaceRV
from bayesdp.distributions.exact_answers import ExactAnswersRV
from bayesdp.distributions.extended_laplace import ExtendedLaplaceRV
from bayesdp.distributions.lattice_gaussian import LatticeGaussianRV
from bayesdp.distributions.lattice_laplace import LatticeLaplaceRV
from bayesdp.distributions.projected_gaussian import ProjectedGaussianRV
from bayesdp.distributions.projected_laplace import ProjectedLaplaceRV
from bayesdp.distributions.row_noise import ProjectedLaplaceGivenRowsRV
from bayesdp.distributions.subspace_norm import SubspaceNormRV
from bayesdp.distributions.tulap import TulapRV
from bayesdp.fibers import Fiber, NoiseTerm
from bayesdp.frames import Frame
from bayesdp.queries import Identity, Query
from bayesdp.steps._compiled import Rest, depends
from bayesdp.steps.bounded_terms import bounded_term
from bayesdp.steps.tulap_terms import Reach, tulap_term, within_reach

__all__ = ["Reading", "exact_fiber", "prior_zeros", "read_model"]

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Exact:
    query: Query
    values: npt.NDArray[np.int64]
    sign: str


@dataclass(frozen=True, eq=False)
class Reading:
    """What a model says about one count variable.

    Parameters
    ----------
    fiber : Fiber
        From the exact parts, and from noise of bounded support.
    terms : tuple of NoiseTerm
        Noisy parts in a form that the kernel knows; their scale is a placeholder where it is symbolic.
    family : str or None
        The fast prior family, or None for any other base.
    moving : tuple of int
        Terms whose noisy answers are symbolic too: noise of which a part is a variable of the model.
    symbolic : list of tensor variables
        log weight and shape of the prior (each broadcast to the cells, flat), then the scale of each term, then the noisy
        answers of the moving terms, on value variables.
    unknown : list of variables
        Everything else in the model that depends on the counts: reached through the compiled log-density.
    rests : list of Rest
        Log-likelihoods that remain of noisy parts beside what the kernel knows of them.
    trials : tensor variable or None
        For multinomial bases, the number of trials, to be checked against the exact answers.
    trial_cells : int
        How many consecutive cells share one number of trials.
    """

    fiber: Fiber
    terms: tuple[NoiseTerm, ...]
    family: str | None
    moving: tuple[int, ...]
    symbolic: list[Any]
    unknown: list[Any]
    rests: list[Rest]
    trials: Any
    trial_cells: int


def _source(variable: Any) -> Any:
    """Look through casts, views and shape assertions."""
    while variable.owner is not None:
        op = variable.owner.op
        if isinstance(op, ViewOp | SpecifyShape) or (isinstance(op, Elemwise) and isinstance(op.scalar_op, Cast)):
            variable = variable.owner.inputs[0]
        else:
            break
    return variable


def _value_of(variable: Any) -> npt.NDArray[Any]:
    """The number behind data: constants, shared variables, and anything computed from them."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    if isinstance(variable, SharedVariable):
        return np.asarray(variable.get_value())
    inner = _source(variable)
    if inner is not variable and isinstance(inner, Constant | SharedVariable):
        return _value_of(inner)
    return np.asarray(variable.eval())


def _asked(mu: Any, x: Any, frame: Frame) -> tuple[Query, npt.NDArray[np.bool_]] | None:
    """The query between the counts and the location of a noise law, if it is one."""
    source = _source(mu)
    if source is x:
        query: Query = Identity(frame)
        return query, np.ones(frame.size, dtype=np.bool_)
    if source.owner is not None and isinstance(source.owner.op, AnswersOp) and _source(source.owner.inputs[0]) is x:
        op = source.owner.op
        keep = np.ones(op.query.rows, dtype=np.bool_) if op.keep is None else np.asarray(op.keep, dtype=np.bool_)
        return op.query, keep
    return None


_REAL_ENTRIES = 4_000_000
"""Coordinates times cells of a law that is a product in coordinates; larger ones go through the compiled log-density."""

_GAUSSIAN = (DiscreteGaussianRV, LatticeGaussianRV, ProjectedGaussianRV)
_NORMS = (LatticeLaplaceRV, SubspaceNormRV)


def _noise_term(model: pm.Model, rv: Any, x: Any, frame: Frame) -> tuple[NoiseTerm, Any, Any] | None:
    """A noisy term, its symbolic scale, and its symbolic answers or None, if the kernel knows the variable's law."""
    op = rv.owner.op
    if isinstance(op, ProjectedLaplaceGivenRowsRV):
        return _given_rows(model, rv, x, frame)
    if isinstance(op, ExtendedLaplaceRV | CorrelatedGaussianRV):
        return _in_coordinates(model, rv, x, frame)
    independent = isinstance(op, ProjectedLaplaceRV) and not op.invariants.rank
    if not independent and not isinstance(op, (*_GAUSSIAN, DiscreteLaplaceRV, *_NORMS)):
        return None
    if isinstance(op, SubspaceNormRV) and op.norm == "linf":
        return None  # the largest cell is not a sum over cells: left to the compiled log-density
    mu, scale = rv.owner.inputs[2:4]
    found = _asked(mu, x, frame)
    if found is None or x in ancestors([scale]):
        return None
    query, keep = found
    values = np.zeros(query.rows)
    observed = _value_of(model.rvs_to_values[rv]).astype(np.float64).reshape(-1)
    if observed.size != keep.sum():
        return None  # broadcast against the counts: left to the compiled log-density
    values[keep] = observed
    kind = (
        "gaussian"
        if isinstance(op, _GAUSSIAN)
        else "l2"
        if getattr(op, "norm", "l1") == "l2" and isinstance(op, _NORMS)
        else "l1"
    )
    rate = pt.reciprocal(scale) if isinstance(op, DiscreteLaplaceRV | ProjectedLaplaceRV) else scale
    if rate.ndim:
        spread = pt.broadcast_to(rate, rv.shape).flatten()
        rate = pt.set_subtensor(pt.ones(query.rows)[np.flatnonzero(keep)], spread)
    return NoiseTerm(query, values, kind, np.ones(()), keep), pt.cast(rate, "float64"), None


def _published(model: pm.Model, rv: Any, x: Any, frame: Frame) -> tuple[Query, npt.NDArray[np.bool_], Floats] | None:
    """What an observed law asks of the counts, which answers were published, and these; None if it is another law."""
    mu, *parameters = rv.owner.inputs[2:]
    found = _asked(mu, x, frame)
    if found is None or x in ancestors(parameters):
        return None
    observed = _value_of(model.rvs_to_values[rv]).astype(np.float64).reshape(-1)
    # Of another size, it is broadcast against the counts.
    return (*found, observed) if observed.size == found[1].sum() else None


def _within_bounds(model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> tuple[NoiseTerm, Any, Rest | None] | None:
    """Noise within bounds: a term of the kernel, its scale, and what is left of the likelihood or None."""
    _, _, *bounds = rv.owner.inputs[2:]
    found = _published(model, rv, x, fiber.frame)
    free = set(model.value_vars) | set(model.free_RVs)
    if found is None or free & set(ancestors(bounds)):
        return None
    query, keep, observed = found
    shape = _value_of(model.rvs_to_values[rv]).shape
    low, high = (np.broadcast_to(_value_of(side), shape).reshape(-1) for side in bounds)
    return bounded_term(model, rv, fiber, query, keep, observed, (low, high))


def _in_coordinates(model: pm.Model, rv: Any, x: Any, frame: Frame) -> tuple[NoiseTerm, Any, Any] | None:
    """Noise that is independent in coordinates of the answers: as many real combinations of the cells."""
    mu = rv.owner.inputs[2]
    found = _asked(mu, x, frame)
    if found is None or x in ancestors(rv.owner.inputs[3:]) or not found[1].all():
        return None
    query = found[0]
    op = rv.owner.op
    n = op.invariants.dimension
    if n * max(frame.size, query.rows) > _REAL_ENTRIES:
        return None
    combinations = op.invariants.from_coordinates(np.eye(n)).reshape(n, query.rows)
    if isinstance(op, CorrelatedGaussianRV):
        factor = np.linalg.cholesky(op.covariance.values)
        combinations = scipy.linalg.solve_triangular(factor, combinations, lower=True)
    values = combinations @ _value_of(model.rvs_to_values[rv]).astype(np.float64).reshape(-1)
    rows = np.asarray((query.matrix.T @ combinations.T).T, dtype=np.float64)
    laplace = isinstance(op, ExtendedLaplaceRV)
    scale = pt.reciprocal(rv.owner.inputs[3]) if laplace else rv.owner.inputs[3]
    term = NoiseTerm(
        query, values, "l1" if laplace else "gaussian", np.ones(()), np.ones(len(rows), dtype=np.bool_), rows
    )
    return term, pt.cast(scale, "float64"), None


def _given_rows(model: pm.Model, rv: Any, x: Any, frame: Frame) -> tuple[NoiseTerm, Any, Any] | None:
    """Projected Laplace noise, its part in the row space a variable: Laplace noise about answers that move."""
    mu, row_noise, b = rv.owner.inputs[2:5]
    found = _asked(mu, x, frame)
    if found is None or x in ancestors([row_noise, b]) or not found[1].all():
        return None
    observed = _value_of(model.rvs_to_values[rv]).astype(np.float64).reshape(-1)
    term = NoiseTerm(found[0], observed, "l1", np.ones(()), found[1])
    located = pt.as_tensor_variable(observed) + rv.owner.op.spread(row_noise).flatten()
    return term, pt.cast(pt.reciprocal(b), "float64"), pt.cast(located, "float64")


def _prior(base: Any, cells: int) -> tuple[str, Any, Any, Any] | None:
    """Family, log weight, shape and number of trials of a base; None for a base without fast steps."""
    op = base.owner.op
    one = pt.ones(())
    if isinstance(op, FlatCountsRV):
        return "flat", pt.zeros(()), one, None
    if isinstance(op, DirichletMultinomialRV):
        n, a = base.owner.inputs[2:4]
        return "negbin", pt.zeros(()), pt.broadcast_to(a, base.shape), n
    if not isinstance(op, PoissonRV | NegBinomialRV | BinomialRV | MultinomialRV):
        return None
    parameters = base.owner.inputs[2:]
    if isinstance(op, PoissonRV):
        return "poisson", pt.log(parameters[0]), one, None
    if isinstance(op, NegBinomialRV):
        n, p = parameters
        return "negbin", pt.log1p(-p), n, None
    if isinstance(op, BinomialRV):
        n, p = parameters
        return "binomial", pt.log(p) - pt.log1p(-p), n, None
    n, p = parameters
    return "poisson", pt.broadcast_to(pt.log(p), base.shape), one, n


def _flat(variable: Any, base: Any, cells: int) -> Any:
    """A parameter of the base, one number a cell in C order."""
    return pt.cast(pt.broadcast_to(variable, base.shape), "float64").flatten()


def _exact_variables(model: pm.Model, x: Any) -> list[Any]:
    return [
        rv for rv in model.observed_RVs if isinstance(rv.owner.op, ExactAnswersRV) and _source(rv.owner.inputs[0]) is x
    ]


def exact_fiber(model: pm.Model, value: Any) -> Fiber:
    """The tables that agree with the exact answers of a model, as its data stand.

    Parameters
    ----------
    model : pymc.Model
    value : tensor variable
        The value variable of a `ConfidentialCounts`.
    """
    x = model.values_to_rvs[value]
    exact = _exact_variables(model, x)
    parts = [
        _Exact(
            rv.owner.op.query,
            np.rint(_value_of(model.rvs_to_values[rv])).astype(np.int64).reshape(rv.owner.op.query.shape),
            rv.owner.op.sign,
        )
        for rv in exact
    ]
    return Fiber.of(parts, _frame(model, x, exact))


def prior_zeros(model: pm.Model, value: Any) -> npt.NDArray[np.bool_]:
    """Cells that the base says are empty whatever its parameters, shape ``(cells,)``: zero weights that are constants."""
    base = model.values_to_rvs[value].owner.inputs[0]
    cells = int(np.prod(base.shape.eval()))
    prior = _prior(base, cells)
    if prior is None:
        return np.zeros(cells, dtype=np.bool_)
    [weight] = model.replace_rvs_by_values([_flat(prior[1], base, cells)])
    if set(ancestors([weight])) & set(model.value_vars):
        return np.zeros(cells, dtype=np.bool_)
    return np.asarray(np.isneginf(weight.eval()))


def read_model(model: pm.Model, value: Any) -> Reading:
    """Find everything that a model says about a count variable.

    Parameters
    ----------
    model : pymc.Model
    value : tensor variable
        The value variable of a `ConfidentialCounts`.
    """
    x = model.values_to_rvs[value]
    fiber = exact_fiber(model, value)
    frame = fiber.frame
    known = {id(rv) for rv in _exact_variables(model, x)}
    terms: list[NoiseTerm] = []
    scales: list[Any] = []
    answers: list[Any] = []
    moving: list[int] = []
    rests: list[Rest] = []
    reaches: list[Reach] = []
    for rv in model.observed_RVs:
        if isinstance(rv.owner.op, TulapRV):
            published = _published(model, rv, x, frame)
            canonical = None if published is None else tulap_term(model, rv, *published)
            if canonical is not None:
                known.add(id(rv))
                terms.append(canonical[0])
                scales.append(canonical[1])
                reaches += [] if canonical[2] is None else [canonical[2]]
            continue
        if isinstance(rv.owner.op, BoundedRV):
            bounded = _within_bounds(model, rv, x, fiber)
            if bounded is not None:
                known.add(id(rv))
                terms.append(bounded[0])
                scales.append(bounded[1])
                rests += [] if bounded[2] is None else [bounded[2]]
            continue
        found = _noise_term(model, rv, x, frame)
        if found is not None:
            known.add(id(rv))
            if found[2] is not None:
                moving.append(len(terms))
                answers.append(found[2])
            terms.append(found[0])
            scales.append(found[1])
    base = x.owner.inputs[0]
    prior = _prior(base, frame.size)
    trials = None
    if prior is None:
        family, parameters = None, [pt.zeros(frame.size), pt.ones(frame.size)]
    else:
        family, theta, shape, trials = prior
        parameters = [_flat(theta, base, frame.size), _flat(shape, base, frame.size)]
        known.add(id(x))
    others: Sequence[Any] = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    unknown = [rv for rv in others if id(rv) not in known and depends(model, rv, value)]
    outputs = [*parameters, *scales, *answers, *([] if trials is None else [pt.as_tensor_variable(trials)])]
    symbolic = model.replace_rvs_by_values(outputs)
    return Reading(
        within_reach(fiber, reaches) if reaches else fiber,
        tuple(terms),
        family,
        tuple(moving),
        symbolic[: 2 + len(scales) + len(answers)],
        unknown,
        rests,
        symbolic[-1] if trials is not None else None,
        frame.size if base.ndim == 1 else frame.shape[-1],
    )


def _frame(model: pm.Model, x: Any, exact: Sequence[Any]) -> Frame:
    """The labels of the table: from an exact part, else from a query, else from the model's dimensions."""
    if exact:
        frame: Frame = exact[0].owner.op.query.frame
        return frame
    for rv in model.observed_RVs:
        for variable in rv.owner.inputs:
            source = _source(variable)
            if source.owner is not None and isinstance(source.owner.op, AnswersOp):
                frame = source.owner.op.query.frame
                return frame
    shape = tuple(int(n) for n in pytensor.function([], x.shape, mode="FAST_COMPILE", on_unused_input="ignore")())
    dims = model.named_vars_to_dims.get(x.name) or tuple(f"{x.name}_dim_{i}" for i in range(len(shape)))
    labels = tuple(
        tuple(model.coords[dim]) if model.coords.get(dim) is not None else tuple(range(n))
        for dim, n in zip(dims, shape, strict=True)
    )
    return Frame(tuple(dims), labels)

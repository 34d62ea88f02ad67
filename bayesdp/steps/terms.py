"""Read a model: which terms about one count variable the kernel knows, and which are left to the compiled log-density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt

from bayesdp.distributions.confidential_counts import AnswersOp, ExactAnswersRV
from bayesdp.distributions.perturbed import SameRecordsRV
from bayesdp.fibers import Fiber, NoiseTerm
from bayesdp.fibers.determined import propagated_bounds
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.frames import Frame
from bayesdp.queries import Query
from bayesdp.steps._compiled import RemainingDensity, depends
from bayesdp.steps._graph import check_whole, source, value_of
from bayesdp.steps.noise_terms import Known, kernel_reach, kernel_term
from bayesdp.steps.prior_family import flat_parameter, prior_family
from bayesdp.steps.restrictions import restricting
from bayesdp.steps.supports import support_of
from bayesdp.steps.tulap_terms import within_reach


@dataclass(frozen=True, eq=False)
class _Exact:
    query: Query
    values: npt.NDArray[np.int64]
    sign: str


@dataclass(frozen=True, eq=False)
class Reading:
    """The terms of a model about one count variable."""

    fiber: Fiber  # from the exact parts, noise of bounded support, and the limits of the base
    # Noisy parts in a form that the kernel knows; their scale is a placeholder where it is symbolic.
    terms: tuple[NoiseTerm, ...]
    variables: tuple[Any, ...]  # the observed variable of each term, and those of answers about the same records
    family: str | None  # the fast prior family, or None for any other base
    # Terms whose noisy answers are symbolic too: noise of which a part is a variable of the model.
    moving: tuple[int, ...]
    # Log weight and shape of the prior (each broadcast to the cells, flat), then the scale of each term (the log-masses of its windows
    # where those change), then the noisy answers of the moving terms, on value variables.
    symbolic: list[Any]
    # Everything else in the model that depends on the counts: reached through the compiled log-density.
    unknown: list[Any]
    rests: list[RemainingDensity]  # log-likelihoods that remain of noisy parts beside what the kernel knows of them
    trials: Any  # for multinomial bases, the number of trials, to be checked against the exact answers
    trial_cells: int  # how many consecutive cells share one number of trials
    cells_limited: bool  # whether cells may have limits beside those of the fiber, which change with the parameters
    # Why the tables that the model allows are not known to be those of the fiber; empty if they are.
    doubts: tuple[str, ...]


def _exact_variables(model: pm.Model, x: Any) -> list[Any]:
    return [
        rv for rv in model.observed_RVs if isinstance(rv.owner.op, ExactAnswersRV) and source(rv.owner.inputs[0]) is x
    ]


def exact_fiber(model: pm.Model, value: Any) -> Fiber:
    """The tables that agree with the exact answers of a model, as its data stand."""
    # `value`: the value variable of a `ConfidentialCounts`.
    x = model.values_to_rvs[value]
    exact = _exact_variables(model, x)
    parts = [
        _Exact(
            rv.owner.op.query,
            np.rint(value_of(model.rvs_to_values[rv])).astype(np.int64).reshape(rv.owner.op.query.shape),
            rv.owner.op.sign,
        )
        for rv in exact
    ]
    return Fiber.of(parts, _frame(model, x, exact))


def read_model(model: pm.Model, value: Any) -> Reading:
    """Sort the terms of a model about a count variable: fiber, noise and prior in the forms of the kernel, and the others."""
    # `value`: the value variable of a `ConfidentialCounts`.
    check_whole(model)
    x = model.values_to_rvs[value]
    fiber = exact_fiber(model, value)
    frame = fiber.frame
    taken = {id(rv) for rv in _exact_variables(model, x)}
    found: list[Known] = []
    numbers_of: list[Any] = []
    variables: list[Any] = []
    for rv in model.observed_RVs:
        known = kernel_term(rv.owner.op, model, rv, x, fiber)
        if known is not None:
            taken.add(id(rv))
            found.append(known)
            variables.append(rv)
            numbers_of.append(model.rvs_to_values[rv])
    found, shared = _sharing(model, x, found, numbers_of)
    taken |= shared
    variables += [rv for rv in model.observed_RVs if id(rv) in shared]
    base = x.owner.inputs[0]
    prior = prior_family(base)
    trials = None
    if prior is None:
        family, parameters = None, [pt.zeros(frame.size), pt.ones(frame.size)]
    else:
        family, theta, shape, trials = prior
        parameters = [flat_parameter(theta, base), flat_parameter(shape, base)]
        taken.add(id(x))
    others: Sequence[Any] = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    unknown = [rv for rv in others if id(rv) not in taken and depends(model, rv, value)]
    moving = tuple(i for i, known in enumerate(found) if known.answers is not None)
    numbers = [*parameters, *(known.scale for known in found), *(found[i].answers for i in moving)]
    symbolic = model.replace_rvs_by_values([*numbers, *([] if trials is None else [pt.as_tensor_variable(trials)])])
    reaches = [known.reach for known in found if known.reach is not None]
    reaches += [
        reach
        for rv in unknown
        if (reach := kernel_reach(getattr(rv.owner, "op", None), model, rv, x, frame)) is not None
    ]
    fiber = within_reach(fiber, reaches) if reaches else fiber
    fiber, cells_limited, doubts = _within_support(model, x, fiber, family)
    doubts += [restricting(model, rv, x) for rv in unknown if rv is not x]
    doubts += [known.doubt for known in found]
    return Reading(
        fiber,
        tuple(known.term for known in found),
        tuple(variables),
        family,
        moving,
        symbolic[: len(numbers)],
        unknown,
        [known.rest for known in found if known.rest is not None],
        symbolic[-1] if trials is not None else None,
        frame.size if base.ndim == 1 else frame.shape[-1],
        cells_limited,
        tuple(doubt for doubt in doubts if doubt),
    )


def _sharing(model: pm.Model, x: Any, found: list[Known], numbers: list[Any]) -> tuple[list[Known], set[int]]:
    """The terms with the laws by which their answers share perturbations, and the variables that are then known."""
    # Of several variables that say so the last one is about the answers of all. It is left to the compiled log-density where the
    # kernel does not know a law with ends.
    mine = [
        rv for rv in model.observed_RVs if isinstance(rv.owner.op, SameRecordsRV) and source(rv.owner.inputs[0]) is x
    ]
    if not mine:
        return found, set()
    place = {id(source(value)): i for i, value in enumerate(numbers)}
    parts = mine[-1].owner.op.parts
    terms = [place.get(id(source(own))) for own in mine[-1].owner.inputs[1 : len(parts) + 1]]
    windows = [None if i is None else found[i].term.windows for i in terms]
    if any(own is None or np.isfinite([own.below, own.above]).any() for own in windows):
        return found, set()
    several = list(found)
    for i, part in zip(terms, parts, strict=True):
        assert i is not None
        doubt = found[i].doubt or "answers about the same records have one number"
        several[i] = replace(found[i], term=replace(found[i].term, laws=part.shared), doubt=doubt)
    return several, {id(rv) for rv in mine}


def _within_support(model: pm.Model, x: Any, fiber: Fiber, family: str | None) -> tuple[Fiber, bool, list[str]]:
    """The tables that the base allows, whether parameters may limit cells further, and why its support is not known (if so)."""
    try:
        support = support_of(model, x.owner.inputs[0], propagated_bounds(fiber.system)[1])
        lower, upper = support.lower, support.upper
        if family is not None:
            # The kernel keeps the number of trials by itself, and has a fast way to a first table without limits.
            upper = np.where(upper == 0, 0, UNBOUNDED)
        if np.any(lower > 0) or np.any(upper < UNBOUNDED):
            fiber = fiber.with_cells_between(lower, upper)
            fiber.system  # noqa: B018  # worked out here, so that its error is caught here
    except ValueError as error:
        raise ValueError(
            f"no table with the exact answers has a positive prior probability under the base of {x.name}, which bounds its "
            f"cells: {error}"
        ) from error
    if not support.unknown or (support.only_limits and fiber.connected_within_limits):
        return fiber, bool(support.unknown), []
    return fiber, False, [support.unknown]


def _frame(model: pm.Model, x: Any, exact: Sequence[Any]) -> Frame:
    """The labels of the table: from an exact part, else from a query, else from the model's dimensions."""
    if exact:
        frame: Frame = exact[0].owner.op.query.frame
        return frame
    for rv in model.observed_RVs:
        for variable in rv.owner.inputs:
            inner = source(variable)
            if inner.owner is not None and isinstance(inner.owner.op, AnswersOp):
                frame = inner.owner.op.query.frame
                return frame
    shape = tuple(int(n) for n in pytensor.function([], x.shape, mode="FAST_COMPILE", on_unused_input="ignore")())
    dims = model.named_vars_to_dims.get(x.name) or tuple(f"{x.name}_dim_{i}" for i in range(len(shape)))
    labels = tuple(
        tuple(model.coords[dim]) if model.coords.get(dim) is not None else tuple(range(n))
        for dim, n in zip(dims, shape, strict=True)
    )
    return Frame(tuple(dims), labels)

"""Read a model about one count variable: which terms the kernel knows, which are left to the compiled log-density, and its moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.distributions.confidential_counts import AnswersOp, ExactAnswersRV
from bayesdp.distributions.perturbed import SameRecordsRV
from bayesdp.fibers import Fiber, NoiseTerm, Target
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import propagated_bounds
from bayesdp.fibers.target import spread_of
from bayesdp.frames import Frame
from bayesdp.hierarchies.structure import NoStructure, Structure, structure_of
from bayesdp.queries import Query
from bayesdp.steps.base import RemainingDensity, depending_on, shape_of
from bayesdp.steps.noise_terms import KernelTerm, Reach, kernel_term, reach_of_unknown, source, value_of
from bayesdp.steps.supports import prior_family, restricting, support_of

HIERARCHY_CELLS = 100
"""Fewest cells of a table that is moved as a hierarchy, with ten times the smallest effective draws of a cell a CPU second; of smaller
ones either takes a moment, and the moves of hierarchies would have to be compiled for it."""

_SUMS = (
    "basic moves are mixed with random sums of them, which reach every table that the model allows with positive "
    "probability, but how fast is not proved"
)


class _Exact(NamedTuple):
    query: Query
    values: Ints
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


def _about(model: pm.Model, x: Any, kind: type) -> list[Any]:
    """The observed variables with an Op of some kind that are about the counts x."""
    return [rv for rv in model.observed_RVs if isinstance(rv.owner.op, kind) and source(rv.owner.inputs[0]) is x]


def exact_fiber(model: pm.Model, value: Any) -> Fiber:
    """The tables that agree with the exact answers of a model, as its data stand."""
    # `value`: the value variable of a `ConfidentialCounts`.
    x = model.values_to_rvs[value]
    exact = _about(model, x, ExactAnswersRV)
    numbers = [np.rint(value_of(model.rvs_to_values[rv])).astype(np.int64) for rv in exact]
    parts = [
        _Exact(rv.owner.op.query, values.reshape(rv.owner.op.query.shape), rv.owner.op.sign)
        for rv, values in zip(exact, numbers, strict=True)
    ]
    return Fiber.of(parts, _frame(model, x, exact))


def check_whole(model: pm.Model) -> None:
    """Refuse data that the model reads as whole numbers, and that are none: PyMC would cut them to whole numbers without a word."""
    for rv in model.observed_RVs:
        value = model.rvs_to_values[rv]
        inner = source(value)
        exact = isinstance(rv.owner.op, ExactAnswersRV)
        if not isinstance(inner, Constant | SharedVariable) or not (exact or "int" in value.dtype):
            continue
        numbers = np.asarray(value_of(inner), dtype=np.float64)
        wrong = np.argwhere(numbers != np.rint(numbers))
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            raise ValueError(
                f"{inner.name or rv.name} must hold whole numbers, as the law of {rv.name} has no others, but entry "
                f"{place} is {numbers[place]:g}. bayesdp.set_release checks what it sets"
            )


def read_model(model: pm.Model, value: Any) -> Reading:
    """Sort the terms of a model about a count variable: fiber, noise and prior in the forms of the kernel, and the others."""
    # `value`: the value variable of a `ConfidentialCounts`.
    check_whole(model)
    x = model.values_to_rvs[value]
    fiber = exact_fiber(model, value)
    frame = fiber.frame
    known = [(rv, kernel_term(rv.owner.op, model, rv, x, fiber)) for rv in model.observed_RVs]
    variables = [rv for rv, term in known if term is not None]
    found, shared = _sharing(model, x, [term for _, term in known if term is not None], variables)
    variables += shared
    base = x.owner.inputs[0]
    prior = prior_family(base)
    family, theta, shape, trials = (None, pt.zeros(()), pt.ones(()), None) if prior is None else prior
    # Not to the shape of the base: what is compiled would be given its generator, whose type numba looks up for longer than all takes.
    parameters = [pt.cast(pt.broadcast_to(parameter, frame.shape), "float64").flatten() for parameter in (theta, shape)]
    taken = [*variables, *_about(model, x, ExactAnswersRV), *([] if prior is None else [x])]
    unknown = depending_on(model, value, taken)
    moving = tuple(i for i, term in enumerate(found) if term.answers is not None)
    numbers = [*parameters, *(term.scale for term in found), *(found[i].answers for i in moving)]
    symbolic = model.replace_rvs_by_values([*numbers, *([] if trials is None else [pt.as_tensor_variable(trials)])])
    reaches = [*(term.reach for term in found), *(reach_of_unknown(model, rv, x, frame) for rv in unknown)]
    fiber = _within_reach(fiber, [reach for reach in reaches if reach is not None])
    fiber, cells_limited, doubts = _within_support(model, x, fiber, family)
    doubts += [restricting(model, rv, x) for rv in unknown if rv is not x]
    doubts += [term.doubt for term in found]
    return Reading(
        fiber,
        tuple(term.term for term in found),
        tuple(variables),
        family,
        moving,
        symbolic[: len(numbers)],
        unknown,
        [term.rest for term in found if term.rest is not None],
        symbolic[-1] if trials is not None else None,
        frame.size if base.ndim == 1 else frame.shape[-1],
        cells_limited,
        tuple(doubt for doubt in doubts if doubt),
    )


def _sharing(
    model: pm.Model, x: Any, found: list[KernelTerm], variables: list[Any]
) -> tuple[list[KernelTerm], list[Any]]:
    """The terms with the laws by which their answers share perturbations, and the variables that are then known."""
    # Of several variables that say so the last one is about the answers of all. It is left to the compiled log-density where the
    # kernel does not know a law with ends.
    saying = _about(model, x, SameRecordsRV)
    if not saying:
        return found, []
    place = {id(source(model.rvs_to_values[rv])): i for i, rv in enumerate(variables)}
    parts = saying[-1].owner.op.parts
    terms = [place.get(id(source(numbers))) for numbers in saying[-1].owner.inputs[1 : len(parts) + 1]]
    windows = [None if i is None else found[i].term.windows for i in terms]
    if any(window is None or np.isfinite([window.below, window.above]).any() for window in windows):
        return found, []
    several = list(found)
    for i, part in zip(terms, parts, strict=True):
        assert i is not None
        doubt = found[i].doubt or "answers about the same records have one number"
        several[i] = replace(found[i], term=replace(found[i].term, laws=part.shared), doubt=doubt)
    return several, saying


def _within_reach(fiber: Fiber, reaches: list[Reach]) -> Fiber:
    """The tables of a fiber that bounded noise allows."""
    if not reaches:
        return fiber
    limited = replace(
        fiber,
        bounds_below=(*fiber.bounds_below, *((query, lower) for query, lower, _ in reaches)),
        bounds_above=(*fiber.bounds_above, *((query, upper) for query, _, upper in reaches)),
    )
    try:
        limited.system  # noqa: B018  # worked out here, so that its error is caught here
    except ValueError as error:
        raise ValueError(f"noise of bounded support cannot have made the published numbers: {error}") from error
    return limited


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
    inner = [source(variable) for rv in model.observed_RVs for variable in rv.owner.inputs]
    asked = [*exact, *(own for own in inner if own.owner is not None and isinstance(own.owner.op, AnswersOp))]
    if asked:
        frame: Frame = asked[0].owner.op.query.frame
        return frame
    dims = model.named_vars_to_dims.get(x.name) or tuple(f"{x.name}_dim_{i}" for i in range(x.ndim))
    labels = tuple(
        tuple(model.coords[dim]) if model.coords.get(dim) is not None else tuple(range(n))
        for dim, n in zip(dims, shape_of(x), strict=True)
    )
    return Frame(tuple(dims), labels)


@dataclass(frozen=True, eq=False)
class Movement:
    """Whether the moves of a count variable connect all tables, and which cells cannot move."""

    proved: bool  # whether they are proved to connect all tables that the model allows
    claim: str  # what is known, in words
    # Cells with one possible count, by the exact answers, the limits of the base and the reach of bounded noise, shape (cells,).
    determined: Mask
    structure: Structure | None  # of a table that is moved as a hierarchy


def kernel_target(reading: Reading, parameters: Sequence[Floats] | None = None) -> Target:
    """The target of the kernel."""
    # `parameters`: the numbers of `Reading.symbolic` where a chain starts. They decide once and for all which noisy answers are
    # precise beside the others and get directions that keep them; if left out, there are no such directions.
    family = reading.family or "flat"
    if parameters is None:
        return Target(
            reading.fiber, reading.terms, family, bounded=reading.cells_limited, open=bool(reading.doubts), spread=0.0
        )
    theta, shape, *others = parameters
    terms = tuple(t if t.changing else replace(t, scale=s) for t, s in zip(reading.terms, others, strict=False))
    return Target(
        reading.fiber,
        terms,
        family,
        # Weights of 0 at cells that are known anyway limit nothing.
        bounded=bool((np.isneginf(theta) & ~reading.fiber.system.fixed).any()) or reading.cells_limited,
        open=bool(reading.doubts),
        spread=spread_of(family, theta, shape, terms),
    )


def possible(target: Target, table: Ints) -> bool:
    """Whether exact answers, limits and laws allow a flat table."""
    inside, gaps = target.fiber.contains(table.reshape(target.fiber.frame.shape)), target.gaps
    return inside and (gaps is None or not (gaps.met(table).size or gaps.further(table)))


def hierarchy_of(target: Target, reading: Reading) -> Structure | None:
    """The hierarchy as which a table is moved; None for the moves of tables in general."""
    # Precise answers that overlap in three ways are no reason for these: of sparse tables of 100 to 512 cells with three precise
    # two-way margins hierarchies had 3.3 to 4.5 times the smallest effective draws of a cell a CPU second.
    other = reading.unknown or reading.rests or reading.family is None
    if other or target.fiber.frame.size < HIERARCHY_CELLS:
        return None
    try:
        return structure_of(target)
    except NoStructure:
        return None


def said_of(target: Target, reading: Reading, structure: Structure | None) -> tuple[bool, str]:
    """Whether the moves of a target are proved to connect what the model allows, and what is known in words."""
    if reading.doubts:
        return False, f"nothing is proved, because {'; '.join(reading.doubts)}: {_SUMS}"
    if structure is not None:
        return structure.proved, structure.claim
    # The directions that keep noisy answers besides take nothing away, and need not be built to say this.
    return target.fiber_moves.proved, target.fiber_moves.claim


def movement(model: pm.Model, value: object) -> Movement:
    """What is known of the moves that the step method takes for a count variable."""
    reading = read_model(model, value)
    target = kernel_target(reading)
    structure = hierarchy_of(target, reading)
    return Movement(*said_of(target, reading, structure), target.fiber.determined().reshape(-1), structure)

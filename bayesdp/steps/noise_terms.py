"""Observed noise laws about counts in the form in which the kernel knows them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from bayesdp.distributions.independent import BoundedRV, CanonicalOfCountsRV, TulapRV
from bayesdp.distributions.tables import ProjectedLaplaceGivenRowsRV, TableNoiseRV
from bayesdp.fibers import Fiber, NoiseTerm
from bayesdp.frames import Frame
from bayesdp.steps._compiled import RemainingDensity
from bayesdp.steps._graph import published, spread, value_of
from bayesdp.steps.bounded_terms import bounded_term
from bayesdp.steps.tulap_terms import Reach, canonical_reach, tulap_term
from bayesdp.steps.window_terms import law_with_windows, window_term


@dataclass(frozen=True, eq=False)
class Known:
    """The part of one observed variable that the kernel computes."""

    term: NoiseTerm  # its scale is a placeholder
    scale: Any
    answers: Any = None  # the noisy answers, where a part of the noise is a variable of the model
    rest: RemainingDensity | None = None  # the log-likelihood minus what the kernel computes
    reach: Reach | None = None  # the answers that bounded noise allows
    # Why moves that connect the tables within reach need not connect those that the noise allows; empty if they do.
    doubt: str = ""


_REAL_ENTRIES = 4_000_000
"""Coordinates times cells of a law that is a product in coordinates; larger ones go through the compiled log-density."""


@singledispatch
def kernel_term(op: Any, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> Known | None:
    """Read an observed variable: in the form that its law says (`NoiseLaw.kernel_form`), or as registered for its Op."""
    # `op`: of the variable; `law_type` is its law, `unit` that at scale 1 where it is one of tables. `rv`: observed. `x`: the
    # counts. `fiber`: from the exact answers. None if the kernel does not know its law, or its query: the variable is then part of
    # the compiled log-density.
    law = law_with_windows(model, rv)
    if law is not None:
        about = published(model, rv, x, fiber.frame)
        tabulated = None if about is None else window_term(model, rv, law, *about)
        if tabulated is not None:
            term, scale, reach, doubt = tabulated
            return Known(term, scale, reach=reach, doubt=doubt)
    form = getattr(getattr(op, "law_type", None), "kernel_form", None)
    if form is not None and isinstance(op, TableNoiseRV):
        form = op.unit.kernel_of(op.invariants)
    found = None if form is None else published(model, rv, x, fiber.frame)
    if form is None or found is None:
        return None
    query, keep, observed = found
    scale = rv.owner.inputs[3]
    rate = pt.reciprocal(scale) if form.of_scale else scale
    if form.coordinates is None:
        values = np.zeros(query.rows)
        values[keep] = observed
        return Known(NoiseTerm(query, values, form.kind, np.ones(()), keep), spread(rate, rv, keep))
    # A product in coordinates of the answers: as many real combinations of the cells.
    if not keep.all() or op.invariants.dimension * max(fiber.frame.size, query.rows) > _REAL_ENTRIES:
        return None
    combinations = form.coordinates()
    rows = np.asarray((query.matrix.T @ combinations.T).T, dtype=np.float64)
    measured = np.ones(len(rows), dtype=np.bool_)
    term = NoiseTerm(query, combinations @ observed, form.kind, np.ones(()), measured, rows)
    return Known(term, pt.cast(rate, "float64"))


@singledispatch
def kernel_reach(op: Any, model: pm.Model, rv: Any, x: Any, frame: Frame) -> Reach | None:
    """The true answers that bounded noise leaves possible, for a variable that the kernel leaves to the compiled log-density."""
    return None


@kernel_reach.register
def _canonical_reach(op: CanonicalOfCountsRV, model: pm.Model, rv: Any, x: Any, frame: Frame) -> Reach | None:
    found = published(model, rv, x, frame)
    return None if found is None else canonical_reach(rv, *found)


@kernel_term.register
def _tulap(op: TulapRV, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> Known | None:
    """Tulap noise: a Laplace term, and limits where its support is bounded."""
    found = published(model, rv, x, fiber.frame)
    known = None if found is None else tulap_term(model, rv, *found)
    return None if known is None else Known(known[0], known[1], reach=known[2])


@kernel_term.register
def _within_bounds(op: BoundedRV, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> Known | None:
    """Truncated and clipped noise."""
    bounds = rv.owner.inputs[4:]
    found = published(model, rv, x, fiber.frame)
    free = set(model.value_vars) | set(model.free_RVs)
    if found is None or free & set(ancestors(bounds)):
        return None
    query, keep, observed = found
    shape = value_of(model.rvs_to_values[rv]).shape
    low, high = (np.broadcast_to(value_of(side), shape).reshape(-1) for side in bounds)
    known = bounded_term(model, rv, fiber, query, keep, observed, (low, high))
    return None if known is None else Known(known[0], known[1], rest=known[2])


@kernel_term.register
def _given_rows(op: ProjectedLaplaceGivenRowsRV, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> Known | None:
    """Projected Laplace noise, its part in the row space a variable: Laplace noise about answers that move."""
    found = published(model, rv, x, fiber.frame)
    if found is None or not found[1].all():
        return None
    query, keep, observed = found
    row_noise, b = rv.owner.inputs[3:5]
    located = pt.as_tensor_variable(observed) + op.spread(row_noise).flatten()
    term = NoiseTerm(query, observed, "l1", np.ones(()), keep)
    return Known(term, pt.cast(pt.reciprocal(b), "float64"), answers=pt.cast(located, "float64"))

"""Noisy answers within bounds as terms of the kernel, and the factor of their likelihood that remains.

The kernel knows ``-rate |y - x|`` and ``-(y - x)**2 / (2 sigma**2)``. For answers x that the exact parts keep within the
bounds, that is all of the likelihood of clipped Laplace noise: at a bound it is a tail, ``exp(-rate (c1 - x))`` up to a
constant. The normaliser of a truncated law depends on x, as do the tails of clipped Gaussian noise: proposals come from
the exact conditional of the kernel, and are accepted on the ratio of this rest, which varies slowly (by less than a factor
of two an answer for truncated Laplace noise). Answers that may be beyond a bound have likelihoods that are flat there, and
are left to the rest altogether where the kernel would be a poor proposal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt

from bayesdp.distributions.registry import is_discrete
from bayesdp.fibers import Fiber, NoiseTerm
from bayesdp.fibers.determined import propagated_bounds
from bayesdp.queries import Query
from bayesdp.steps._compiled import RemainingDensity
from bayesdp.steps._graph import spread

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]


def bounded_term(
    model: pm.Model, rv: Any, fiber: Fiber, query: Query, keep: Mask, observed: Floats, bounds: tuple[Floats, Floats]
) -> tuple[NoiseTerm, Any, RemainingDensity | None] | None:
    """The term of a `BoundedRV` about counts, its symbolic scale, and the log-likelihood minus what the kernel computes."""
    # `rv`: observed; its parameters do not depend on the counts except through the answers. `keep`, shape (rows,): which answers
    # were published. `observed`, shape (published,). `bounds`, shape (published,). The remainder is None where the kernel has all
    # of the likelihood. None alone if the kernel has nothing of it: the variable is then left to the compiled log-density.
    op = rv.owner.op
    form, clipped = op.law_type.kernel_form, op.law_type.has_atoms
    if form is None:
        return None
    laplace = form.kind == "l1"
    mu, scale = rv.owner.inputs[2:4]
    inside = _stay_within(fiber, query, keep, *bounds)
    between = (observed > bounds[0]) & (observed < bounds[1])
    usable = inside | between if clipped else inside
    if not usable.any():
        return None
    values, measured = np.zeros(query.rows), np.zeros(query.rows, dtype=np.bool_)
    values[keep], measured[keep] = observed, usable
    kernel_scale = spread(pt.reciprocal(scale) if form.of_scale else scale, rv, keep)
    term = NoiseTerm(query, values, form.kind, np.ones(()), measured)
    whole = is_discrete(mu) and np.all(observed == np.rint(observed))
    if clipped and laplace and usable.all() and (whole or op.dtype == "float64"):
        return term, kernel_scale, None
    # Everything that differs between releases is data or an input, so that one compiled function serves them all.
    data = pt.cast(model.rvs_to_values[rv], "float64").flatten()
    mask = pt.vector(f"{rv.name} in the kernel", dtype="bool")
    distance = data - pt.cast(mu, "float64").flatten()
    width = pt.broadcast_to(scale, rv.shape).flatten()
    known = -pt.abs(distance) / width if laplace else -0.5 * (distance / width) ** 2
    [kernel] = model.replace_rvs_by_values([pt.sum(pt.switch(mask, known, 0.0))])
    rest = RemainingDensity(model.logp(vars=[rv], sum=True) - kernel, ((mask, usable),))
    return term, kernel_scale, rest


def _stay_within(fiber: Fiber, query: Query, keep: Mask, lower: Floats, upper: Floats) -> Mask:
    """For each published answer, whether the exact parts keep it within its bounds in every table."""
    low_cells, high_cells = propagated_bounds(fiber.system)
    matrix = query.matrix
    up, down = matrix.maximum(0), -matrix.minimum(0)
    finite_low = np.where(np.isinf(low_cells), 0.0, low_cells)
    finite_high = np.where(np.isinf(high_cells), 0.0, high_cells)
    low = up @ finite_low - down @ finite_high
    high = up @ finite_high - down @ finite_low
    high = np.where(up @ np.isinf(high_cells) + down @ np.isinf(low_cells) > 0, np.inf, high)
    low = np.where(up @ np.isinf(low_cells) + down @ np.isinf(high_cells) > 0, -np.inf, low)
    for sign, parts in ((0, fiber.equalities), (1, fiber.bounds_below), (-1, fiber.bounds_above)):
        for exact, values in parts:
            if exact == query:
                low = np.maximum(low, values.reshape(-1)) if sign >= 0 else low
                high = np.minimum(high, values.reshape(-1)) if sign <= 0 else high
    return np.asarray((low[keep] >= lower) & (high[keep] <= upper))

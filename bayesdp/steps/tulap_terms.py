"""Tulap noise about counts as a term of the kernel, and the tables that its bounded support allows.

About a whole number x the density of a published y is ``b**[y - x]`` up to a constant, with ``[z]`` the integer nearest to
``|z|``: that is ``exp(-epsilon |r - x|)`` for the integer r nearest to y (and for y itself half-way between two), the
kernel's own l1 law. What delta > 0 cuts off leaves an interval of whole numbers for each answer, which are limits of the
fiber: starts are found inside, and no move leaves it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import scipy.sparse as sp
from pytensor.graph.traversal import ancestors

from bayesdp.fibers import Fiber, NoiseTerm
from bayesdp.privacy.canonical import CanonicalNoise, Tulap
from bayesdp.queries import LinearQuery, Query
from bayesdp.steps._graph import spread, value_of

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]
type Reach = tuple[Query, Ints, Ints]


def tulap_term(
    model: pm.Model, rv: Any, query: Query, keep: Mask, observed: Floats
) -> tuple[NoiseTerm, Any, Reach | None] | None:
    """The term of a `Tulap` variable about counts, its symbolic rate, and the answers that its noise reaches."""
    # `rv`: observed; its parameters do not depend on the counts except through the answers. `keep`, shape (rows,): which answers
    # were published. `observed`, shape (published,). The reach is None where the noise is unbounded. None alone if the reach is not
    # known before sampling, as for a free epsilon with delta > 0: leave the variable to the compiled log-density.
    epsilon, delta = rv.owner.inputs[3:5]
    free = set(model.value_vars) | set(model.free_RVs)
    if free & set(ancestors([delta])):
        return None
    shape = value_of(model.rvs_to_values[rv]).shape
    cut = np.broadcast_to(value_of(delta), shape).reshape(-1)
    reach = None
    if cut.any():
        if free & set(ancestors([epsilon])):
            return None
        rates = np.broadcast_to(value_of(epsilon), shape).reshape(-1)
        reach = _reach(rv.name, query, keep, observed, rates, cut)
    values = np.zeros(query.rows)
    whole = np.rint(observed)
    values[keep] = np.where(np.abs(observed - whole) == 0.5, observed, whole)
    return NoiseTerm(query, values, "l1", np.ones(()), keep), spread(epsilon, rv, keep), reach


def canonical_reach(rv: Any, query: Query, keep: Mask, observed: Floats) -> Reach:
    """The answers that canonical noise of bounded support reaches; the log-density itself is left to the compiled one."""
    law, rows = rv.owner.op.noise, np.flatnonzero(keep)
    end = law.support()[1]
    names = [
        f"{rv.name} {query.answer_name(int(row))}, published {y:g} with noise of at most {end:g}"
        for row, y in zip(rows, observed, strict=True)
    ]
    lower, upper = _ends(law, observed)
    return LinearQuery(query.frame, sp.csr_array(query.matrix[rows]), names), lower, upper


def _ends(law: CanonicalNoise, observed: Floats) -> tuple[Ints, Ints]:
    """The smallest and largest whole numbers about which a bounded law gives each published number a positive density."""
    end = law.support()[1]
    low, high = np.ceil(observed - end), np.floor(observed + end)
    # The end may be rounded: the density itself decides.
    low += np.isneginf(law.logpdf(observed - low))
    high -= np.isneginf(law.logpdf(observed - high))
    return low.astype(np.int64), high.astype(np.int64)


def _reach(name: str, query: Query, keep: Mask, observed: Floats, epsilon: Floats, delta: Floats) -> Reach | None:
    """The smallest and largest whole numbers about which the law gives each published number a positive density."""
    lower, upper = np.empty(observed.size, dtype=np.int64), np.empty(observed.size, dtype=np.int64)
    names = [query.answer_name(int(row)) for row in np.flatnonzero(keep)]
    bounded = delta > 0.0
    for pair in set(zip(epsilon[bounded].tolist(), delta[bounded].tolist(), strict=True)):
        law, which = Tulap(*pair), (epsilon == pair[0]) & (delta == pair[1])
        end = law.support()[1]
        lower[which], upper[which] = _ends(law, observed[which])
        for at in np.flatnonzero(which):
            names[at] = f"{name} {names[at]}, published {observed[at]:g} with noise of at most {end:g}"
    rows = np.flatnonzero(keep)[bounded]
    cut = LinearQuery(query.frame, sp.csr_array(query.matrix[rows]), [names[i] for i in np.flatnonzero(bounded)])
    return cut, lower[bounded], upper[bounded]


def within_reach(fiber: Fiber, reaches: list[Reach]) -> Fiber:
    """The tables of a fiber that bounded noise allows."""
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

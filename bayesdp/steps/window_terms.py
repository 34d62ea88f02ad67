"""Noise with a tabulated log-mass as a term of the kernel, and the tables that it allows.

A law that knows, for each published answer, its log-mass as a function of the true one (`NoiseLaw.windows`) has all of its
likelihood in the kernel, whatever its shape. True answers beyond a window that ends are limits of the fiber: starts are found
inside, and no move leaves them. Gaps inside of a window are not limits; moves are then sums of basic ones, too, so that they
can be crossed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from bayesdp.distributions.perturbed import PerturbedRV
from bayesdp.fibers import NoiseTerm
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.windows import spread_of_windows
from bayesdp.noise import NoiseLaw
from bayesdp.queries import LinearQuery, Query
from bayesdp.steps._graph import value_of
from bayesdp.steps.tulap_terms import Reach

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]


def law_with_windows(model: pm.Model, rv: Any) -> NoiseLaw | None:
    """The law of an observed variable, if it tabulates its log-mass; None if not, or if a parameter is not a number.

    It is `law` of its Op, or made from the parameters that follow the location: by `law_of` of its Op, or by their names, which are
    the `kernel_parameters` of the law.
    """
    op = rv.owner.op
    law = getattr(op, "law", None)
    if isinstance(law, NoiseLaw):
        return law if _tabulates(type(law)) else None
    law_type = getattr(op, "law_type", None)
    if law_type is None or not _tabulates(law_type):
        return None
    parameters = rv.owner.inputs[3:]
    if set(ancestors(parameters)) & (set(model.value_vars) | set(model.free_RVs)):
        return None
    if hasattr(op, "law_of"):  # a law within another one
        found: NoiseLaw = op.law_of([value_of(own) for own in parameters])
        return found
    names = law_type.kernel_parameters
    made: NoiseLaw = law_type(**{name: value_of(own) for name, own in zip(names, parameters, strict=True)})
    return made


def _tabulates(law: type) -> bool:
    return getattr(law, "windows", None) is not NoiseLaw.windows


def window_term(
    model: pm.Model, rv: Any, law: NoiseLaw, query: Query, keep: Mask, observed: Floats
) -> tuple[NoiseTerm, Any, Reach | None, str] | None:
    """The term of a variable whose law tabulates its log-mass."""
    # `rv`: observed. `keep`, shape (rows,): which answers were published. `observed`, shape (published,). Returns the term; how
    # widely each row varies, or log-masses that change; the true answers that the law leaves possible, if that limits any; why the
    # moves are not known to connect them (empty if they are). None alone for answers that are no whole numbers of the table.
    if np.any(query.matrix.data != np.rint(query.matrix.data)):
        return None
    shape = value_of(model.rvs_to_values[rv]).shape
    values = (np.rint(observed).astype(np.int64) if law.integer else observed).reshape(shape)
    windows = law.windows(values)
    if windows is None:
        return None
    scale = np.ones(query.rows)
    scale[keep] = spread_of_windows(windows)
    published = np.zeros(query.rows)
    published[keep] = observed
    by_law = partial(_log_likelihood, law, values)
    parameter, op = pt.constant(scale), rv.owner.op
    changing = isinstance(op, PerturbedRV) and not isinstance(op.table(rv), Constant)
    if changing:
        parameter = op.log_mass(op.table(rv)).flatten()[op.law.transitions.window_places(values)]
    term = NoiseTerm(query, published, "windows", scale, keep, windows=windows, changing=changing, by_law=by_law)
    last = windows.low + windows.length - 1
    ends_below, ends_above = np.isneginf(windows.below), np.isneginf(windows.above)
    reach = None
    ending = ends_below | ends_above
    if ending.any():
        rows = np.flatnonzero(keep)[ending]
        names = [
            f"{rv.name} {query.answer_name(int(row))}, published {y:g}, which {_said(low, high)} can lead to"
            for row, y, low, high in zip(
                rows,
                observed[ending],
                np.where(ends_below, windows.low, -UNBOUNDED)[ending],
                np.where(ends_above, last, UNBOUNDED)[ending],
                strict=True,
            )
        ]
        reach = (
            LinearQuery(query.frame, sp.csr_array(query.matrix[rows]), names),
            np.where(ends_below, windows.low, -UNBOUNDED)[ending],
            np.where(ends_above, last, UNBOUNDED)[ending],
        )
    gaps = (
        f"the law of {rv.name} leaves gaps between the true answers that a published one can come from"
        if np.isneginf(windows.log_mass).any()
        else ""
    )
    return term, parameter, reach, gaps


def _log_likelihood(law: NoiseLaw, values: npt.NDArray[Any], answers: npt.NDArray[Any]) -> float:
    return law.logp(values, answers.reshape(values.shape))


def _said(low: int, high: int) -> str:
    """Which true answers, in words."""
    if low == high:
        return f"only {low}"
    if low <= -UNBOUNDED:
        return f"only numbers up to {high}"
    return f"only {low} or more" if high >= UNBOUNDED else f"only {low} to {high}"

"""Reading a model's graph: which query lies between the counts and an observed law, and the numbers behind data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile import SharedVariable, ViewOp
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import SpecifyShape

from bayesdp.distributions.confidential_counts import AnswersOp, ExactAnswersRV
from bayesdp.frames import Frame
from bayesdp.queries import Identity, Query

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]


def source(variable: Any) -> Any:
    """Look through casts, views and shape assertions."""
    while variable.owner is not None:
        op = variable.owner.op
        if isinstance(op, ViewOp | SpecifyShape) or (isinstance(op, Elemwise) and isinstance(op.scalar_op, Cast)):
            variable = variable.owner.inputs[0]
        else:
            break
    return variable


def value_of(variable: Any) -> npt.NDArray[Any]:
    """The number behind data: constants, shared variables, and anything computed from them."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    if isinstance(variable, SharedVariable):
        return np.asarray(variable.get_value())
    inner = source(variable)
    if inner is not variable and isinstance(inner, Constant | SharedVariable):
        return value_of(inner)
    return np.asarray(variable.eval())


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


def query_between(mu: Any, x: Any, frame: Frame) -> tuple[Query, Mask] | None:
    """The query whose answers about the counts x are the location mu, and which of them; None if mu is something else."""
    inner = source(mu)
    if inner is x:
        query: Query = Identity(frame)
        return query, np.ones(frame.size, dtype=np.bool_)
    if inner.owner is not None and isinstance(inner.owner.op, AnswersOp) and source(inner.owner.inputs[0]) is x:
        op = inner.owner.op
        keep = np.ones(op.query.rows, dtype=np.bool_) if op.keep is None else np.asarray(op.keep, dtype=np.bool_)
        return op.query, keep
    return None


def published(model: pm.Model, rv: Any, x: Any, frame: Frame) -> tuple[Query, Mask, Floats] | None:
    """The query of an observed law of noise, which answers were published, and their values; None if it is not about a query."""
    mu, *parameters = rv.owner.inputs[2:]
    found = query_between(mu, x, frame)
    if found is None or x in ancestors(parameters):
        return None
    observed = value_of(model.rvs_to_values[rv]).astype(np.float64).reshape(-1)
    # Numbers of another size are broadcast against the counts, which is not a query with one number for each answer.
    return (*found, observed) if observed.size == found[1].sum() else None


def spread(scale: Any, rv: Any, keep: Mask) -> Any:
    """A scale for each answer of a query, 1 for those that were not published; a single one stays as it is."""
    if not scale.ndim:
        return pt.cast(scale, "float64")
    scales = pt.broadcast_to(scale, rv.shape).flatten()
    return pt.cast(pt.set_subtensor(pt.ones(keep.size)[np.flatnonzero(keep)], scales), "float64")

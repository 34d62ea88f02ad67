"""The noisy part of a release in a model: names, shapes, dimensions and likelihood of a measurement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.raise_op import CheckAndRaise

from bayesdp.distributions.confidential_counts import answers
from bayesdp.distributions.registry import add_likelihood, is_discrete
from bayesdp.measurements import Measured


def shape_of(variable: Any) -> tuple[int, ...]:
    """The shape of a variable, from the model's data and constants.

    Worked out in Python: to compile a function for it would take most of the time of `observe`.

    Examples
    --------
    >>> import pymc as pm
    >>> shape_of(pm.Poisson.dist(2.0, shape=(3, 4)))
    (3, 4)
    """
    return tuple(int(n) for n in variable.shape.eval(mode="FAST_COMPILE"))


def free_name(model: pm.Model, base: str) -> str:
    """A name that is not taken in the model, nor that of its published numbers."""
    taken = set(model.named_vars) | set(model.coords)
    name, count = base, 1
    while name in taken or f"{name}_published" in taken:
        count += 1
        name = f"{base}_{count}"
    return name


def answer_dims(model: pm.Model, name: str, query: Any, measured: Any = None) -> tuple[str, ...]:
    """Dimensions of the answers: those of the query where the model has the same labels, else one of their own."""
    if measured is None and len(query.parts) == 1:
        coords = query.coords
        for dim, labels in coords.items():
            if dim not in model.coords:
                model.add_coord(dim, labels)
        if all(tuple(model.coords[dim]) == tuple(labels) for dim, labels in coords.items()):
            return tuple(query.dims)
    dim_name = f"{name}_answer"
    names = query.names if measured is None else [n for n, m in zip(query.names, measured, strict=True) if m]
    model.add_coord(dim_name, names)
    return (dim_name,)


def _whole(data: Any) -> Any:
    """Data, with a check that raises when a log-density is computed with fractions."""
    check = CheckAndRaise(ValueError, f"{data.name} must hold whole numbers, as its noise law has no others")
    return check(data, pt.all(pt.eq(data, pt.round(data))))


def observe_noisy(model: pm.Model, measured: Measured, x: Any) -> Any:
    """Add the likelihood of a noisy measurement; returns the data variable of its numbers."""
    query, law = measured.query, measured.law
    name = free_name(model, measured.name or "noisy")
    # Laws of whole tables take a grand total for a table of one cell.
    alone = not query.shape and law.keeps_invariants
    keep = ~measured.unmeasured.reshape(-1) if alone or measured.unmeasured.any() else None
    dims = answer_dims(model, name, query, keep)
    shape = query.shape if keep is None and len(dims) == len(query.shape) else (-1,)
    values = measured.values.reshape(-1)[keep] if keep is not None else measured.values.reshape(shape)
    data = pm.Data(f"{name}_published", values.astype(np.float64), dims=dims)
    mu = answers(query, x, keep)
    parameters = law.model_parameters()
    if not law.keeps_invariants:
        for parameter, value in parameters.items():
            if isinstance(value, np.ndarray):
                spread = np.broadcast_to(value, query.shape).reshape(-1)
                parameters[parameter] = spread[keep] if keep is not None else spread.reshape(shape)
    # PyMC would cut fractions set by `pm.set_data` to whole numbers. The step method of counts refuses them; where NUTS samples
    # alone, the graph has to.
    observed = data if is_discrete(mu) or not law.integer else _whole(data)
    add_likelihood(law, name, mu, parameters, invariants=measured.noise_invariants, observed=observed, dims=dims)
    return data

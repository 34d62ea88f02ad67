"""Releases of statistics in a PyMC model: the second argument of `observe` is then the statistic itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from bayesdp.inference.noisy_part import free_name, observe_noisy
from bayesdp.inference.registry import observed_by, remember
from bayesdp.inference.shapes import shape_of
from bayesdp.mechanisms.bounded.covariance_elements import variables_of
from bayesdp.release import Release


def observe_statistics(release: Release, statistic: Any) -> None:
    """Add the noisy part of a release of statistics to the current model."""
    # `release`: about statistics. `statistic`, shape `(*frame)`: the confidential statistics as a function of the parameters of the
    # model; of a single one without a name, a scalar; of a covariance matrix, its elements or the matrix, of which the upper
    # triangle is taken. One that is no variable of the model becomes one, `pm.Deterministic("true_statistic", ...)`, so that its
    # posterior is recorded.
    model = pm.modelcontext(None)
    if any(own == release for _, own, _ in observed_by(model)):
        raise ValueError(
            "release has been observed already: its noisy numbers are data of this model, and would count twice. If a notebook "
            "cell was run again, build the model anew in it"
        )
    variable = _located(release, statistic, model)
    name = getattr(variable, "name", None)
    if name is None or model.named_vars.get(name) is not variable:
        name = free_name(model, "true_statistic")
        variable = pm.Deterministic(name, variable, dims=_dims(release, name, model) if variable.ndim else None)
    located = pt.reshape(variable, release.frame.shape)
    data = [observe_noisy(model, measured, located) for measured in release.measurements]
    remember(model, release, variable, {published.name: published.get_value() for published in data})


def _dims(release: Release, name: str, model: pm.Model) -> tuple[str, ...]:
    """Dimensions of a statistic: those of the release, unless the model has other labels of them."""
    found = []
    for dim, labels in release.coords.items():
        own = dim if dim not in model.coords or tuple(model.coords[dim]) == tuple(labels) else f"{name}_{dim}"
        model.add_coord(own, labels)
        found.append(own)
    return tuple(found)


def _located(release: Release, statistic: Any, model: pm.Model) -> Any:
    """The statistic as a tensor of the right shape that depends on the model."""
    try:
        variable = pt.as_tensor_variable(statistic)
    except (TypeError, NotImplementedError):
        raise TypeError(f"statistic must be a function of variables of the model, got {statistic!r}") from None
    if not set(model.basic_RVs) & set(ancestors([variable])):
        raise TypeError(
            "statistic must be a function of variables of the current model, such as successes / 50, but none of them enters it"
        )
    shape = release.frame.shape
    wanted = [shape, ()] if release.frame.size == 1 else [shape]
    given = shape_of(variable)
    names = variables_of(release.frame)
    if names is not None:
        square = (len(names), len(names))
        if given == square:
            return variable[np.triu_indices(len(names))]
        wanted.append(square)
    if given not in wanted:
        raise ValueError(
            f"statistic must have shape {' or '.join(map(str, wanted))}, as the release has {np.prod(shape)} statistics, got {given}"
        )
    return variable

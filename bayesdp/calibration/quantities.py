"""Simulated releases with their truth, and test quantities: scalar functions of parameters, table and release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr

from bayesdp._arrays import Floats
from bayesdp._validate import instance


@dataclass(frozen=True)
class Simulated:
    """A truth drawn from the prior (values of the model's variables by name), and a release of it: what ``build_model`` gets."""

    truth: Mapping[str, npt.NDArray[Any]]
    release: Any


type Simulate = Callable[[np.random.Generator], Simulated | tuple[Mapping[str, Any], Any]]
"""Draws parameters and a table from the prior and releases the table, all with the generator it gets."""


def simulated(simulate: Simulate, rng: np.random.Generator) -> Simulated:
    """Run a simulator, which may give a pair as well, and check that the truth is finite numbers by name."""
    result: Any = simulate(rng)
    if isinstance(result, Simulated):
        result = (result.truth, result.release)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"simulate must give back Simulated(truth, release) or that pair, got {type(result).__name__}")
    given, release = result
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f"truth must be a mapping from names of variables to values, got {given!r}")
    values = {}
    for name, value in given.items():
        instance(name, str, "truth must have names of variables as keys", quoted=True)
        values[name] = np.asarray(value)
        if values[name].dtype.kind not in "iufb" or not np.all(np.isfinite(values[name])):
            raise ValueError(f"truth[{name!r}] must hold finite numbers, got {value!r}")
    return Simulated(values, release)


LOG_LIKELIHOOD = "log-likelihood"
"""Name of the log-likelihood of the released numbers, a quantity of parameters and data together."""

EXACT_ANSWERS = "error of exact answers"
"""Name of the sum of what a table lacks of the exact answers: zero, unless the model forgets them."""

type Quantity = Callable[[xr.Dataset, Any], Any]
"""From values (dimensions chain, draw and their own) and the release to a DataArray over chain and draw at least."""

type Quantities = Iterable[str] | Mapping[str, Quantity | None] | None


def checked_quantities(quantities: Quantities, available: Iterable[str]) -> dict[str, Quantity | None]:
    """Check the argument `quantities`, names or names with functions: None for all `available` and the log-likelihood."""
    known = [*available, LOG_LIKELIHOOD]
    if quantities is None:
        return dict.fromkeys(known)
    if isinstance(quantities, str):
        raise TypeError(f"quantities must be names in a list, or a mapping, got the text {quantities!r}")
    listed = dict(quantities) if isinstance(quantities, Mapping) else dict.fromkeys(quantities)
    if not listed:
        raise ValueError("quantities must hold at least one, got none")
    for name, function in listed.items():
        instance(name, str, "quantities must have names", quoted=True)
        if function is None and name not in known:
            raise ValueError(f"quantities names {name!r}; known without a function are {', '.join(known)}")
        if function is not None and not callable(function):
            raise TypeError(f"quantities[{name!r}] must be a function of values and release, got {function!r}")
    return listed


def checked_functions(also: Mapping[str, Quantity] | None) -> dict[str, Quantity]:
    """Check the argument `also`: functions that are tested beside other quantities."""
    given: Any = {} if also is None else also
    if not isinstance(given, Mapping):
        raise TypeError(f"also must be a mapping from names to functions, got {type(also).__name__}")
    for name, function in given.items():
        if not isinstance(name, str) or not callable(function):
            raise TypeError(f"also[{name!r}] must be a function of values and release with a name, got {function!r}")
    return dict(given)


def exact_answers(table: str) -> Quantity:
    """Give the quantity `EXACT_ANSWERS` of a table."""
    # A posterior that forgets the invariants can be right for every cell, given the noisy numbers alone. Only a quantity that looks
    # at the exact ones catches it. `table`: name of the table of counts.

    def error(values: xr.Dataset, release: Any) -> xr.DataArray:
        array = values[table]
        draws = array.transpose("chain", "draw", ...).values
        total = np.zeros(draws.shape[:2])
        for part in release.exact:
            lacking = part.query.apply(draws) - np.asarray(part.values)
            if part.sign != "=":
                lacking = np.minimum(lacking, 0) if part.sign == ">=" else np.maximum(lacking, 0)
            total += np.abs(lacking).reshape(*total.shape, -1).sum(axis=-1)
        return xr.DataArray(total, dims=("chain", "draw"))

    return error


def as_points(truth: Simulated, posterior: xr.Dataset) -> xr.Dataset:
    """Put the truth into the form of a posterior with one chain and one draw."""
    arrays = {}
    for name, variable in posterior.data_vars.items():
        if name not in truth.truth:
            continue
        value, shape = truth.truth[str(name)], variable.shape[2:]
        if value.shape != shape:
            raise ValueError(f"simulate gives {name!r} the shape {value.shape}, but the model gives it {shape}")
        labels = {dim: variable.coords[dim] for dim in variable.dims[2:] if dim in variable.coords}
        arrays[name] = xr.DataArray(value[None, None], dims=variable.dims, coords=labels)
    return xr.Dataset(arrays)


def as_draws(model: pm.Model, name: str, draws: npt.NDArray[Any]) -> xr.DataArray:
    """Draws of a variable, chain and draw in front, with the dimensions and labels that the model gives it."""
    dims = [str(dim) for dim in model.named_vars_to_dims.get(name) or (f"{name}_{i}" for i in range(draws.ndim - 2))]
    labels = {dim: list(model.coords[dim]) for dim in dims if model.coords.get(dim) is not None}
    return xr.DataArray(draws, dims=("chain", "draw", *dims), coords=labels)


def evaluate(name: str, function: Quantity | None, values: xr.Dataset, release: Any) -> xr.DataArray:
    """Compute one quantity, with chain and draw in front."""
    return of_draws(values[name] if function is None else function(values, release), f"quantities[{name!r}]")


def of_draws(given: Any, argument: str) -> xr.DataArray:
    """What a function of draws gave back, with chain and draw in front."""
    if not isinstance(given, xr.DataArray):
        raise TypeError(f"{argument} must give back a DataArray, got {type(given).__name__}")
    if not {"chain", "draw"} <= set(given.dims):
        raise ValueError(f"{argument} must keep the dimensions chain and draw, got {given.dims}")
    return given.transpose("chain", "draw", ...)


def scalars(name: str, array: xr.DataArray) -> Iterator[tuple[str, Floats]]:
    """Split a quantity into its elements, named by label: ``x[Alpha, Low]``."""
    labels = [array[dim].values for dim in array.dims[2:]]
    for at in np.ndindex(*array.shape[2:]):
        words = [str(values[i]) for values, i in zip(labels, at, strict=True)]
        label = f"{name}[{', '.join(words)}]" if words else name
        yield label, np.asarray(array.values[(slice(None), slice(None), *at)], dtype=np.float64)

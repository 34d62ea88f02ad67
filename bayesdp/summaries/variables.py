"""Posterior summaries of the variables of a model that are no counts: parameters, rates, effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from bayesdp._validate import probability
from bayesdp.summaries.answers import Answers, interval_and_diagnostics


def variable_names(tree: xr.DataTree, *counts: str) -> list[str]:
    """The variables of a posterior beside given ones.

    Parameters
    ----------
    tree : xarray.DataTree
        With the group ``posterior``.
    *counts : str
        Tables of counts. The coordinates in which continuous counts are sampled are left out with them.
    """
    names = [str(name) for name in tree["posterior"].data_vars]
    hidden = {*counts, *(f"{name}_coordinates" for name in counts)}
    return [name for name in names if name not in hidden]


def summarise_variable(draws: xr.DataArray, prob: float, determined: xr.DataArray | None = None) -> Answers:
    """Summarise a variable, element by element.

    Parameters
    ----------
    draws : xarray.DataArray
        With the dimensions chain and draw, and any others.
    prob : float
        Probability of the equal-tailed intervals; their ends are values that were drawn.
    determined : bool DataArray, optional
        Which elements have one possible value; none by default.

    Returns
    -------
    Answers
        Nothing in it is published.

    Examples
    --------
    >>> draws = xr.DataArray([[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]], dims=("chain", "draw", "group"), name="effect")
    >>> own = summarise_variable(draws, 0.9)
    >>> own.labels, own.mean.tolist(), own.upper.tolist()
    ({'group': [0, 1]}, [2.0, 6.0], [3.0, 7.0])
    """
    level = probability(prob, "prob")
    ordered = draws.transpose("chain", "draw", ...)
    shape = ordered.shape[2:]
    chains = ordered.values.reshape(*ordered.shape[:2], -1)
    nothing = np.zeros(chains.shape[2], dtype=np.bool_)
    known = nothing if determined is None else determined.transpose(*ordered.dims[2:]).values.reshape(-1).astype(bool)
    numbers = interval_and_diagnostics(chains, chains.astype(np.float64), level, known)
    labels: dict[str, list[Any]] = {}
    for dim, places in zip(ordered.dims[2:], np.indices(shape), strict=True):
        own = ordered.coords[dim].values.tolist() if dim in ordered.coords else list(range(ordered.sizes[dim]))
        labels[str(dim)] = [own[i] for i in places.reshape(-1)]
    return Answers(
        labels=labels,
        published=np.full(chains.shape[2], np.nan),
        further=(),
        prob=level,
        exact=nothing,
        determined=known,
        **numbers,
    )

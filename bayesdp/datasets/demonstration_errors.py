"""How far a demonstration release is from the census, by size of the units."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from bayesdp._validate import shown


def demonstration_errors(
    census: xr.DataArray, demonstration: xr.DataArray, edges: Sequence[float] = (10_000, 100_000, 1_000_000)
) -> pd.DataFrame:
    """Errors of demonstration counts against those of the census, by size of the unit.

    Parameters
    ----------
    census, demonstration : xarray.DataArray
        Counts of the same units, one dimension, matched by label: of :func:`read_county_demonstration`, or one code of
        :func:`read_nhgis_demonstration`.
    edges : sequence of float
        Increasing counts of the census at which a class of sizes ends and the next begins.

    Returns
    -------
    pandas.DataFrame
        A row for each class that has units, from small to large, and one for ``all``. Columns: ``units``; ``exact``, how many have no
        error; ``mean``, the mean error (demonstration less census: bias); ``mean_absolute``; ``root_mean_square``; ``largest``, the
        largest absolute error; ``percent``, the mean absolute error in percent of the mean count; ``total``, the error of the
        sum of all units: 0 where it is kept exactly.

    Raises
    ------
    ValueError
        If the tables have not one dimension and the same labels, or the edges do not increase.

    Examples
    --------
    >>> census = xr.DataArray([120, 40_000], coords={"county": ["a", "b"]})
    >>> demonstration = xr.DataArray([126, 39_994], coords={"county": ["a", "b"]})
    >>> demonstration_errors(census, demonstration)[["units", "mean", "total"]].to_dict("index")["all"]
    {'units': 2, 'mean': 0.0, 'total': 0}
    """
    if census.ndim != 1 or census.dims != demonstration.dims:
        raise ValueError(f"both tables must have the same one dimension, got {census.dims} and {demonstration.dims}")
    (dim,) = census.dims
    alone = set(census[dim].values.tolist()) ^ set(demonstration[dim].values.tolist())
    if alone or census.size != demonstration.size:
        raise ValueError(f"both tables must have the same labels of {dim!r}; in one only are {shown(sorted(alone))}")
    limits = np.asarray(edges, dtype=np.float64)
    if limits.ndim != 1 or np.any(np.diff(limits) <= 0):
        raise ValueError(f"edges must increase, got {edges!r}")
    truth = census.values
    error = demonstration.sel({dim: census[dim]}).values - truth
    place = np.searchsorted(limits, truth, side="right")
    ends = ["0", *(f"{edge:,.0f}" for edge in limits)]
    names = [f"{low} to below {high}" for low, high in itertools.pairwise(ends)] + [f"{ends[-1]} and more"]
    rows = {names[i]: _row(truth[place == i], error[place == i]) for i in range(len(names)) if np.any(place == i)}
    return pd.DataFrame.from_dict({**rows, "all": _row(truth, error)}, orient="index")


def _row(truth: np.ndarray, error: np.ndarray) -> dict[str, int | float]:
    size = np.abs(error)
    return {
        "units": int(error.size),
        "exact": int((error == 0).sum()),
        "mean": float(error.mean()),
        "mean_absolute": float(size.mean()),
        "root_mean_square": float(np.sqrt(np.mean(np.square(error.astype(np.float64))))),
        "largest": int(size.max()),
        "percent": 100.0 * float(size.sum()) / float(truth.sum()) if truth.sum() else float("nan"),
        "total": int(error.sum()),
    }

"""The Census Bureau's least-squares estimates of the 2020 redistricting tables, to compare one's own with."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._validate import shown
from bayesdp.datasets.nmf.layout import below
from bayesdp.storage.csv_file import NUMBER, CsvFile, read_csv

_COLUMNS = ("geocode", "query", "estimate", "std_dev", "query_description")
_DRAWS = ("chain", "draw")


def read_gls_estimates(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read files of the "2020 Redistricting Data File Least Squares Estimates", an experimental product of the Census Bureau.

    They hold generalised-least-squares estimates of the counts in tables P1 to P5 for the country, states, counties and tracts, with
    standard deviations, made of the noisy measurements of both the redistricting and the DHC file without the exact state
    totals. A file holds one unit of geography, with the columns ``geocode``, ``query``, ``estimate``, ``std_dev`` and
    ``query_description``, separated by ``|``.

    Parameters
    ----------
    path : path
        A file, or a folder, below which every ``.csv`` file is read, and whose links must stay in it.

    Returns
    -------
    xarray.Dataset
        ``estimate`` and ``sd``, float64, dims ``(geocode, query)``, in the order in which they are found; NaN where a unit lacks a
        query. Queries are the names of the data dictionary ("P0010001"), with the coordinate ``description``.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or no ``.csv`` file in the folder.
    ValueError
        If a column is missing, a number is none, a standard deviation is negative, a geocode is no digits, or a query of a
        unit is there twice, the message names file and line; or if units hardly have a query in common.

    Notes
    -----
    No file of the product, nor noisy measurements of the same places, come with this package. The reader, and the comparison of
    :func:`compare_estimates`, were tried with made-up files in the published form only.

    References
    ----------
    Cumings-Menon (2024), Least Squares Estimation for Hierarchical Data, arXiv:2404.13164.
    """
    target = Path(path)
    paths = [target]
    if target.is_dir():
        paths = [own for own in below(target, target, lambda own: own.suffix == ".csv") if own.suffix == ".csv"]
    if not paths:
        raise FileNotFoundError(f"there is no .csv file in the folder {str(target)!r}")
    found: dict[tuple[str, str], tuple[float, float]] = {}
    description: dict[str, str] = {}
    for own in paths:
        file = read_csv(own, delimiter="|")
        place = [file.column(name) for name in _COLUMNS]
        for line, fields in file.rows:
            geocode, query, estimate, sd, text = (fields[i] for i in place)
            if not query or not (geocode.isascii() and (geocode.isdigit() or not geocode)):
                raise ValueError(
                    f"{file.at(line)}: a geocode is digits and a query has a name, got {geocode!r}, {query!r}"
                )
            if (geocode, query) in found:
                raise ValueError(f"{file.at(line)}: {query} of {geocode!r} is there twice")
            mean, spread = _number(file, line, "estimate", estimate), _number(file, line, "std_dev", sd)
            if spread < 0:
                raise ValueError(f"{file.at(line, 'std_dev')}: a standard deviation is at least 0, got {sd!r}")
            found[geocode, query] = mean, spread
            if description.setdefault(query, text) != text:
                raise ValueError(f"{file.at(line)}: {query} is {text!r} here and {description[query]!r} before")
    if not found:
        raise ValueError(f"{target}: there is no row below the header")
    geocodes, queries = list(dict.fromkeys(code for code, _ in found)), list(description)
    if len(geocodes) * len(queries) > 10 * len(found) + 1000:  # units of the product all have the same queries
        raise ValueError(
            f"{target}: {len(geocodes)} geocodes and {len(queries)} queries, but {len(found)} estimates only: these do not belong "
            "into one table; read files of the same queries together"
        )
    row, column = ({name: i for i, name in enumerate(names)} for names in (geocodes, queries))
    values = np.full((2, len(geocodes), len(queries)), np.nan)
    for (geocode, query), pair in found.items():
        values[:, row[geocode], column[query]] = pair
    dims = ("geocode", "query")
    return xr.Dataset(
        {"estimate": (dims, values[0]), "sd": (dims, values[1])},
        coords={"geocode": geocodes, "query": queries, "description": ("query", [description[own] for own in queries])},
        attrs={
            "title": "2020 Redistricting Data File Least Squares Estimates",
            "source": f"United States Census Bureau; {target.name}",
            "licence": "That of the file: it is the user's own",
        },
    )


def _number(file: CsvFile, line: int, column: str, text: str) -> float:
    if not NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError(f"{file.at(line, column)}: {text!r} is not a finite number")
    return float(text)


def compare_estimates(own: xr.DataArray, published: xr.Dataset, sd: Any = None) -> xr.Dataset:
    """Compare one's own estimates, or posterior draws, with published least-squares estimates, matched by code.

    Parameters
    ----------
    own : xarray.DataArray
        Dims ``(geocode, query)``: estimates, for example of :func:`bayesdp.gls`. With the dims ``chain`` and ``draw`` (or one of
        them) in front: posterior draws, of which means and standard deviations are taken.
    published : xarray.Dataset
        Of :func:`read_gls_estimates`.
    sd : xarray.DataArray, optional
        Standard deviations of estimates, with the dims of `own`; must be None for draws.

    Returns
    -------
    xarray.Dataset
        Dims ``(geocode, query)``, what both have: ``own``, ``own_sd``, ``published``, ``published_sd``; ``difference``, own
        less published; ``in_sd``, the difference in units of the published standard deviation; ``sd_ratio``, the own standard
        deviation over the published one (NaN where that is 0). Attributes ``only_own`` and ``only_published`` say how many
        pairs of code and query one of them lacks.

    Raises
    ------
    ValueError
        If dimensions are others, `sd` is there for draws or missing for estimates, or there is nothing in common.

    Notes
    -----
    Both are made of the same noise, so that `in_sd` does not vary like a standard normal number: it is smaller. For linear
    estimates of which one's own uses all that the published one does and more, the variance of the difference is that of
    the published less the own. Where a published standard deviation is 0, `in_sd` is 0 if the two agree to 1e-6, else infinite.

    Examples
    --------
    >>> coords = {"geocode": ["01001020100"], "query": ["P0010001", "P0010003"]}
    >>> dims = ("geocode", "query")
    >>> published = xr.Dataset({"estimate": (dims, [[1773.9, 1385.2]]), "sd": (dims, [[1.6, 2.3]])}, coords)
    >>> own = xr.DataArray([[1775.5, 1385.2]], coords)
    >>> compare_estimates(own, published, sd=xr.ones_like(own))["in_sd"].values.round(3).tolist()
    [[1.0, 0.0]]
    """
    dims = ("geocode", "query")
    draws = [dim for dim in _DRAWS if dim in own.dims]
    if set(own.dims) != {*dims, *draws}:
        raise ValueError(f"own must have the dims geocode and query, and chain and draw for draws, got {own.dims}")
    if bool(draws) == (sd is not None):
        raise ValueError("sd goes with estimates, and only with these: of draws it is taken from the draws")
    mean = (own.mean(draws) if draws else own).transpose(*dims)
    spread = own.std(draws, ddof=1) if draws else xr.DataArray(sd)
    if set(spread.dims) != set(dims):
        raise ValueError(f"sd must have the dims geocode and query, got {spread.dims}")
    one = xr.Dataset({"own": mean, "own_sd": spread.transpose(*dims)})
    other = published.rename({"estimate": "published", "sd": "published_sd"})
    both = xr.merge([one, other], join="inner", compat="override", combine_attrs="drop")
    shared = both["own"].notnull() & both["published"].notnull()
    count = int(shared.sum())
    if not count:
        raise ValueError(
            f"own and published have no code and query in common: {shown(mean['geocode'].values.tolist(), 2)} and "
            f"{shown(published['geocode'].values.tolist(), 2)}, {shown(mean['query'].values.tolist(), 2)} and "
            f"{shown(published['query'].values.tolist(), 2)}"
        )
    difference = both["own"] - both["published"]
    known = both["published_sd"] > 0
    beyond = np.where(np.abs(difference) <= 1e-6, 0.0, np.sign(difference) * np.inf)
    both["difference"] = difference
    both["in_sd"] = (difference / both["published_sd"].where(known)).where(known, beyond).where(shared)
    both["sd_ratio"] = (both["own_sd"] / both["published_sd"].where(known)).where(shared)
    both.attrs = {
        "only_own": int(mean.notnull().sum()) - count,
        "only_published": int(published["estimate"].notnull().sum()) - count,
    }
    return both

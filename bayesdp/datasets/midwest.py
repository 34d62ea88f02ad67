"""Populations of Midwestern counties by race in the 1990 Census."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
import xarray as xr

_RACES = ("white", "black", "american_indian", "asian", "other")


def midwest_counties() -> xr.DataArray:
    """Population of 437 counties in five Midwestern states by race, 1990 Census.

    Returns
    -------
    xarray.DataArray
        Shape (437, 5), dims ``(county, race)``, int64 counts of persons. County names repeat across
        states, so the labels carry the state ("IL: ADAMS"); the coordinate ``state`` along ``county``
        groups them, for :class:`bayesdp.Totals`. The races are the Census Bureau's five of 1990
        ("asian" is Asian or Pacific Islander); they add up to the population of the county.

    Notes
    -----
    Source: United States Census Bureau, 1990 Census, as the columns ``popwhite`` to ``popother`` of the data
    set ``midwest`` in the Python package plotnine 0.15.9, copied without change (spelling of the names
    included). MIT licence, Copyright (c) 2022 Hassan Kibirige; its text stands beside the data in
    ``midwest_counties.LICENSE``. A few small counties have cells of zero.

    Examples
    --------
    >>> table = midwest_counties()
    >>> table.sel(county="IL: ADAMS").values
    array([63917,  1702,    98,   249,   124])
    >>> table.sum("race").groupby("state").sum().to_series().to_dict()["IL"]
    11430602
    """
    text = files("bayesdp.datasets").joinpath("midwest_counties.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    return xr.DataArray(
        np.array([[int(row[race]) for race in _RACES] for row in rows], dtype=np.int64),
        dims=("county", "race"),
        coords={
            "county": [f"{row['state']}: {row['county']}" for row in rows],
            "race": list(_RACES),
            "state": ("county", [row["state"] for row in rows]),
        },
        name="population",
        attrs={
            "title": "Population of 437 Midwestern counties by race, 1990",
            "source": "United States Census Bureau, 1990 Census; "
            "data set `midwest` of the Python package plotnine 0.15.9",
            "licence": "MIT, Copyright (c) 2022 Hassan Kibirige",
        },
    )


def illinois_counties() -> xr.DataArray:
    """Population of the 102 counties of Illinois, 1990 Census.

    Returns
    -------
    xarray.DataArray
        Shape (102,), dims ``(county,)``, int64 counts of persons, with the coordinate ``state``;
        :func:`midwest_counties` summed over race. The state total is 11,430,602.

    Examples
    --------
    >>> table = illinois_counties()
    >>> int(table.sel(county="IL: COOK"))
    5105067
    >>> int(table.sum())
    11430602
    """
    by_race = midwest_counties()
    illinois = by_race.isel(county=by_race["state"].values == "IL")
    table = illinois.sum("race", keep_attrs=True)
    table.attrs["title"] = "Population of the 102 counties of Illinois, 1990"
    return table

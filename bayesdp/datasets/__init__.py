"""Small real tables, each with its source and licence, for examples and tests.

These tables are public. In the examples they play the part of a confidential table, so that a
posterior can be compared with the truth; nobody's secret is in them. Each is an
:class:`xarray.DataArray` of int64 counts whose attributes ``title``, ``source`` and ``licence`` say
where it is from. :func:`read_county_populations` reads a file that the user has.
"""

from __future__ import annotations

from bayesdp.datasets.berkeley import berkeley_admissions
from bayesdp.datasets.census2010 import read_county_populations
from bayesdp.datasets.delinquent import delinquent_children
from bayesdp.datasets.flights import flights
from bayesdp.datasets.midwest import illinois_counties, midwest_counties
from bayesdp.datasets.nmf import code_query, published_codes, read_nmf, synthetic_spine, write_synthetic_nmf

__all__ = [
    "berkeley_admissions", "code_query", "delinquent_children", "flights", "illinois_counties",
    "midwest_counties", "published_codes", "read_county_populations", "read_nmf", "synthetic_spine",
    "write_synthetic_nmf",
]  # fmt: skip

"""The delinquent children of the Federal Committee on Statistical Methodology."""

from __future__ import annotations

import numpy as np
import xarray as xr

_COUNTS = [[15, 1, 3, 1], [20, 10, 10, 15], [3, 10, 10, 2], [12, 14, 7, 2]]


def delinquent_children() -> xr.DataArray:
    """Delinquent children by county and education of the household head: a fictitious 4 x 4 table.

    The standard small example of statistical disclosure limitation, and the sensitive contingency
    table with known margins of Dharangutte et al. (2023), Section 5.

    Returns
    -------
    xarray.DataArray
        Shape (4, 4), dims ``(county, education)``, int64 counts of children; they sum to 135.

    Notes
    -----
    Source: Federal Committee on Statistical Methodology, *Report on Statistical Disclosure Limitation
    Methodology*, Statistical Policy Working Paper 22 (second version, 2005), Table 4. The report invented
    the numbers. It is a work of the United States government, in the public domain.

    Examples
    --------
    >>> table = delinquent_children()
    >>> table.sel(county="Alpha").values
    array([15,  1,  3,  1])
    >>> int(table.sum())
    135
    """
    return xr.DataArray(
        np.array(_COUNTS, dtype=np.int64),
        dims=("county", "education"),
        coords={"county": ["Alpha", "Beta", "Gamma", "Delta"], "education": ["Low", "Medium", "High", "Very High"]},
        name="children",
        attrs={
            "title": "Delinquent children by county and education of the household head (fictitious)",
            "source": "Federal Committee on Statistical Methodology, Statistical Policy Working Paper 22 "
            "(second version, 2005), Table 4",
            "licence": "Public domain (work of the United States government)",
        },
    )

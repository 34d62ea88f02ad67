"""Graduate admissions at the University of California, Berkeley, in 1973."""

from __future__ import annotations

import numpy as np
import xarray as xr

# Departments A to F in the columns.
_MEN_ADMITTED = [512, 353, 120, 138, 53, 22]
_MEN_REJECTED = [313, 207, 205, 279, 138, 351]
_WOMEN_ADMITTED = [89, 17, 202, 131, 94, 24]
_WOMEN_REJECTED = [19, 8, 391, 244, 299, 317]


def berkeley_admissions() -> xr.DataArray:
    """Applicants to the six largest graduate departments at Berkeley in 1973: a 2 x 2 x 6 table.

    The textbook case of Simpson's paradox: over all departments men are admitted more often, within most
    departments women are.

    Returns
    -------
    xarray.DataArray
        Shape (2, 2, 6), dims ``(sex, admission, department)``, int64 counts of applicants; they sum
        to 4,526.

    Notes
    -----
    Source: the counts of P. J. Bickel, E. A. Hammel and J. W. O'Connell (1975), "Sex bias in graduate
    admissions: data from Berkeley", *Science* 187, 398-404, as printed for the six largest departments by
    D. Freedman, R. Pisani and R. Purves, *Statistics*. The numbers are facts, typed in here, and carry no
    licence.

    Examples
    --------
    >>> table = berkeley_admissions()
    >>> table.sum("department").values
    array([[1198, 1493],
           [ 557, 1278]])
    """
    counts = [[_MEN_ADMITTED, _MEN_REJECTED], [_WOMEN_ADMITTED, _WOMEN_REJECTED]]
    return xr.DataArray(
        np.array(counts, dtype=np.int64),
        dims=("sex", "admission", "department"),
        coords={
            "sex": ["men", "women"],
            "admission": ["admitted", "rejected"],
            "department": ["A", "B", "C", "D", "E", "F"],
        },
        name="applicants",
        attrs={
            "title": "Applicants to six graduate departments at Berkeley in 1973, by sex and admission",
            "source": "Bickel, Hammel and O'Connell (1975), Science 187, 398-404; "
            "departments as in Freedman, Pisani and Purves, Statistics",
            "licence": "Facts; no licence needed",
        },
    )

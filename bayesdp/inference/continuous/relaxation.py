"""The declaration in a posterior of continuous counts: which table is a relaxation, and the error of that in a known case."""

from __future__ import annotations

import numpy as np
import xarray as xr

MEAN_COUNTS = (1, 5, 20, 100, 1000)
"""Mean counts of the three cells for which the error is known."""

SCALES = (2.0, 10.0)
"""Scales b of the discrete Laplace noise for which it is known."""

MEAN_ERROR = ((0.37, 0.09), (0.05, 0.05), (0.00, 0.01), (0.00, 0.00), (0.00, 0.00))
"""Largest error of a posterior mean, in posterior standard deviations: a row a mean count, a column a scale."""

SD_ERROR = ((0.25, 0.28), (0.02, 0.05), (0.03, 0.00), (0.03, 0.00), (0.03, 0.00))
"""Largest error of a posterior standard deviation, in the same units."""

_CASE = (
    "three cells of half, once and one and a half times the mean count, their sum exact, discrete Laplace noise of scale b, "
    "Poisson counts with a Gamma(2) rate each; by summation and quadrature"
)


def declaration(name: str) -> xr.Dataset:
    """The group ``relaxation`` of a posterior.

    Parameters
    ----------
    name : str
        The table.

    Returns
    -------
    xarray.Dataset
        ``mean_error`` and ``sd_error``, shape (mean_count, b): the error against the posterior of whole numbers in the
        case that the attribute ``case`` describes, in posterior standard deviations.
    """
    dims = ("mean_count", "b")
    return xr.Dataset(
        {"mean_error": (dims, np.array(MEAN_ERROR)), "sd_error": (dims, np.array(SD_ERROR))},
        coords={"mean_count": list(MEAN_COUNTS), "b": list(SCALES)},
        attrs={
            "variable": name,
            "kind": "continuous relaxation",
            "text": f"{name} holds real numbers that stand for whole ones; draws are not rounded",
            "case": _CASE,
        },
    )

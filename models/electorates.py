"""New Zealand's electorates in the census of 2013: age by sex, and tenure of households, rounded at random to base 3.

The office moves every number to a multiple of 3 next to it, totals on their own, with probabilities that it publishes. Women and men
do not add up to people, nor ages to all ages; each published total is a measurement of its own of one table of whole numbers. Whether
the posterior is right can be seen without the truth: leave published totals out, and predict them. (`benchmarks/left_out.py` does so
with totals, margins and both: of 3,959 predictions 67.6, 98.2 and 98.7 % are right, in intervals of 68.0, 98.2 and 98.7 %.)

Read from top to bottom: this is how a model of such tables is written. Run it with ``python models/electorates.py``, and with the
path of a file of tenures (``tenure_by_electorate.csv`` of the data set nzcensus2013) for the second table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr

import bayesdp as bdp

__all__ = ["build_model", "leave_out", "predict", "tenures"]


def tenures(path: str | os.PathLike[str]) -> bdp.Release:
    """People by general electorate and tenure of their dwelling, with sums of kinds of tenures, of those stated, and of all.

    Parameters
    ----------
    path : path
        ``tenure_by_electorate.csv`` of the data set nzcensus2013.
    """

    def read(tenure: str, totals: str | list[str]) -> tuple[bdp.tables.OfficeTable, ...]:
        return bdp.tables.read_office_csv(
            path,
            dims=["row_header3", "col_header2"],
            groups={"row_header2": "row_header3"},
            ignore=["sheet", "dimensions", "population", "row", "col", "col_header1", "row_header1"],
            lines={
                "sheet": "Table 24",
                "row_header2": "(North|South) Island general electorates",
                "col_header2": tenure,
            },
            totals={"col_header2": totals},
            decimal=".",
        )

    cells, people = read("(?!Total people( in|,)).*", "Total people")
    (kinds,) = read("Total people in .*", [])
    (stated,) = read("Total people, households stated.*", [])
    electorate, tenure = cells.query.dims
    labels = cells.query.frame.labels_of(tenure)
    begins = {"Dwelling owned": 0, "Dwelling not owned": 1, "Dwelling held": 2}
    names = kinds.labelled[tenure].values.tolist()
    kind = [next((names[i] for begin, i in begins.items() if str(own).startswith(begin)), str(own)) for own in labels]
    said = ["stated" if own in names else "not stated" for own in kind]
    frame = bdp.Frame.of({
        electorate: list(cells.query.frame.labels_of(electorate)),
        tenure: list(labels),
        "kind": (tenure, kind),
        "stated": (tenure, said),
    })  # fmt: skip
    law = bdp.noise.RandomRounding(3)
    by_kind, by_stated = bdp.Margins(frame, [electorate, "kind"]), bdp.Margins(frame, [electorate, "stated"])
    unknown = np.full((len(frame.labels[0]), 1), np.nan)  # of those not stated the cell is all there is
    measured = [
        bdp.Measured(query, values, law, unmeasured=np.isnan(values))
        for query, values in (
            (bdp.Identity(frame), cells.values),
            (by_kind, np.hstack([kinds.values, unknown])),
            (by_stated, np.hstack([stated.values, unknown])),
            (bdp.Margins(frame, [electorate]), people.values),
        )
    ]
    return bdp.Release.from_published(frame, measured)


def leave_out(release: bdp.Release, *tables: int) -> tuple[bdp.Release, list[bdp.Measured]]:
    """The release without some of its tables (by place; the first are the cells), and these."""
    kept = [own for i, own in enumerate(release.measurements) if i not in tables]
    return bdp.Release.from_published(release.frame, kept), [release.measurements[i] for i in tables]


def build_model(release: bdp.Release, variation: float | None = None) -> pm.Model:
    """Electorates of different sizes that share a profile, from which each cell departs by a factor of its own.

    Parameters
    ----------
    release : Release
        Of a table of electorates by something, cells first.
    variation : float, optional
        Standard deviation of the factors; learnt if left out.

    Notes
    -----
    ``x`` is negative binomial, with a mean from sums of published cells: Poisson counts whose gamma factors are integrated out. A
    rounded number leaves five counts possible; among these the prior is nearly flat, except where they are close to 0.
    """
    cells = np.asarray(release.measurements[0].values, dtype=float) + 0.5
    rest = tuple(range(1, cells.ndim))
    mean = cells.sum(axis=rest, keepdims=True) * cells.sum(axis=0) / cells.sum()
    with pm.Model(coords=release.coords) as model:
        spread = pm.HalfNormal("variation", 1.0) if variation is None else variation
        base = pm.NegativeBinomial.dist(mu=mean, alpha=np.ones_like(mean) / spread**2)
        x = bdp.ConfidentialCounts("x", base, dims=release.dims)
        bdp.observe(release, x)
    return model


def predict(left_out: Sequence[bdp.Measured], counts: npt.NDArray[np.int64], level: float) -> xr.Dataset:
    """Intervals for published totals that the posterior has not seen, and whether they hold them.

    Parameters
    ----------
    left_out : sequence of Measured
        What the posterior is not given.
    counts : array of int, shape (draws, *table)
        Draws of the table.
    level : float
        Such as 0.9. Limits are quantiles of a law on multiples of 3, so that an interval's probability is higher.

    Returns
    -------
    xarray.Dataset
        By answer: ``lower``, ``upper``, ``published``, ``probability`` of the interval, and ``held``.
    """
    flat, rows = counts.reshape(len(counts), -1), []
    for own in left_out:
        law: Any = own.law
        sums = (own.query.matrix.astype(np.int64) @ flat.T).T
        for i in np.flatnonzero(~own.unmeasured.reshape(-1)):
            found, times = np.unique(sums[:, i], return_counts=True)
            grid = np.arange(max(found[0] - 3, 0), found[-1] + 4)
            mass = times @ np.exp(law.log_each(grid, found[:, None])) / len(flat)
            ends = np.searchsorted(np.cumsum(mass), [0.5 - level / 2 - 1e-9, 0.5 + level / 2 - 1e-9])
            low, high = np.minimum(ends, len(grid) - 1)
            rows.append((grid[low], grid[high], own.values.reshape(-1)[i], mass[low : high + 1].sum()))
    lower, upper, published, probability = np.array(rows, dtype=float).T
    data = {"lower": lower, "upper": upper, "published": published, "probability": probability}
    data["held"] = (lower <= published) & (published <= upper)
    return xr.Dataset({name: ("answer", own) for name, own in data.items()})


if __name__ == "__main__":
    # Totals of both sexes are left out (with them those of all ages), then sums of kinds of tenures, of those stated, and of all.
    cases: list[tuple[bdp.Release, tuple[int, ...]]] = [(bdp.datasets.statsnz_age_by_sex(), (1, 4, 5, 7))]
    cases += [(tenures(path), (1, 2, 3)) for path in sys.argv[1:2]]
    for published, left in cases:
        given, hidden = leave_out(published, *left)
        print(given)
        with build_model(given, variation=0.4):
            posterior = bdp.sample(draws=500, chains=2, random_seed=1, fiber_gibbs={"sweeps": 5})
        print(posterior["diagnostics"].attrs["message"])
        drawn = posterior["posterior"].dataset["x"].values
        for stated in (0.5, 0.9, 0.95):
            own = predict(hidden, drawn.reshape(-1, *drawn.shape[2:]), stated)
            print(
                f"{own.sizes['answer']} totals that were left out: {float(own['held'].mean()):.1%} in {stated:.0%} intervals, "
                f"of probability {float(own['probability'].mean()):.1%}, mean width {float((own['upper'] - own['lower']).mean()):.1f}"
            )

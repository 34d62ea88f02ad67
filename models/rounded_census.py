"""A census table that was rounded at random to base 3, with margins that do not add up: Wisconsin's counties by race, 1990.

An office that rounds at random moves every number of a table to one of the two nearest multiples of 3, on its own: cells,
totals of counties, totals of races and the grand total. So cells do not add up to the published totals, and each total says
something of its own about the cells. Here all of them are measurements of one table of whole numbers, whose posterior adds up.
No privacy is claimed: random rounding is not differentially private.

Read from top to bottom: this is how a model of rounded counts is written. Run it with ``python models/rounded_census.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

import bayesdp as bdp

__all__ = ["BASE", "build_model", "disagreements", "make_release", "questions", "summed_cells", "true_table"]

BASE = 3
_NORMAL_90 = 1.6449


def true_table() -> xr.DataArray:
    """The counts that the office has: 72 counties by five races."""
    counties = bdp.datasets.midwest_counties()
    return counties.isel(county=np.flatnonzero(counties["state"].values == "WI"))


def make_release(seed: int | None = 1990) -> bdp.Release:
    """Play the office: round the cells and each margin on their own.

    Parameters
    ----------
    seed : int, optional
        Seed of a simulated release; None publishes for real, with the operating system's entropy.
    """
    table = true_table()
    law = bdp.noise.RandomRounding(BASE)  # from the office's methods note; the probabilities are the unbiased ones
    rng = np.random.default_rng(seed)
    queries = [bdp.Identity(table), bdp.Margins(table, ["county"]), bdp.Margins(table, ["race"]), bdp.Totals(table)]
    rounded = law.draw_answers(rng, queries, table.values)
    parts = [bdp.Measured(query, values, law) for query, values in zip(queries, rounded, strict=True)]
    return bdp.Release.from_published(table, measured=parts, simulated=seed is not None)


def build_model(release: bdp.Release) -> pm.Model:
    """Overdispersed counts with effects of rows and columns, given rounded cells and rounded margins.

    Parameters
    ----------
    release : Release
        Of a two-way table.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``x[row, column]`` is negative binomial with mean ``exp(level + row + column)``: independence, with a gamma factor for each cell
    that is integrated out. Of a large count the rounded one says nearly everything; the prior matters for counts as small as
    the base. A rounded number is no reason to be timid: which counts can have led to it, and how likely, is the likelihood.
    """
    rows, columns = release.dims
    cells = np.asarray(release.measurements[0].values, dtype=float)

    with pm.Model(coords=release.coords) as model:
        # Published numbers set the scale; the prior is wide beside them.
        level = pm.Normal("level", np.log1p(cells).mean(), 2.0)
        row_effect = pm.ZeroSumNormal("row_effect", 1.5, dims=rows)
        column_effect = pm.ZeroSumNormal("column_effect", 3.0, dims=columns)
        variation = pm.HalfNormal("variation", 1.0)
        mean = pm.math.exp(level + row_effect[:, None] + column_effect[None, :])
        base = pm.NegativeBinomial.dist(mu=mean, alpha=pm.math.ones_like(mean) / (variation**2 + 1e-6))

        # The counts that nobody outside the office has seen, and everything that was published of them.
        x = bdp.ConfidentialCounts("x", base, dims=release.dims)
        bdp.observe(release, x)
    return model


def questions(counts: xr.DataArray) -> xr.Dataset:
    """What is asked of draws of the table, or of the truth: totals of counties, shares of races, and the grand total."""
    total = counts.sum(["county", "race"])
    return xr.Dataset(
        {
            "counties": counts.sum("race"),
            "races": counts.sum("county"),
            "share": counts.sum("county") / total,
            "total": total,
        }
    )


def summed_cells(release: bdp.Release) -> xr.Dataset:
    """What users do without a likelihood: add up the rounded cells of a county, and their variances.

    Returns
    -------
    xarray.Dataset
        By county: ``sum`` of the rounded cells; ``lower`` and ``upper``, 90 % normal intervals around it, with the
        largest variance that a rounded count can have.
    """
    cells = np.asarray(release.measurements[0].values, dtype=float)
    half = _NORMAL_90 * np.sqrt(cells.shape[1] * BASE**2 / 4)
    found: dict[str, Any] = {"sum": cells.sum(axis=1)}
    found |= {"lower": found["sum"] - half, "upper": found["sum"] + half}
    return xr.Dataset({name: ("county", own) for name, own in found.items()}, {"county": release.coords["county"]})


def disagreements(release: bdp.Release) -> xr.DataArray:
    """By how much the rounded cells of each county miss its rounded total."""
    cells, counties = (np.asarray(own.values) for own in release.measurements[:2])
    return xr.DataArray((cells.sum(axis=1) - counties).astype(np.int64), {"county": release.coords["county"]})


if __name__ == "__main__":
    published = make_release()
    print(published)
    off = disagreements(published)
    print(f"{int((off != 0).sum())} of {off.size} counties have cells that do not add up to the published total")
    with build_model(published):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc", fiber_gibbs={"sweeps": 8})
    print(posterior["diagnostics"].attrs["message"])
    drawn = questions(posterior["posterior"].dataset["x"])
    truth = questions(true_table())
    low, high = (drawn["counties"].quantile(q, ("chain", "draw")) for q in (0.05, 0.95))
    simple = summed_cells(published)
    print(f"90% intervals of county totals, mean width: {float((high - low).mean()):.1f}; ", end="")
    print(f"of sums of rounded cells: {float((simple['upper'] - simple['lower']).mean()):.1f}")
    true = truth["counties"]
    held, simply = (low <= true) & (true <= high), (simple["lower"] <= true) & (true <= simple["upper"])
    print(f"the truth is within {float(held.mean()):.0%} of the first, and {float(simply.mean()):.0%} of the second")

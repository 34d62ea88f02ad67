"""A census table perturbed by cell keys at three levels of geography: counties of two states by race, 1990.

An office that perturbs by cell keys adds a small deviation to each number of a table, zeros excepted, with probabilities that
depend on the count: a perturbation table. The deviation belongs to the people in a cell, so that the same cell has the same one
wherever it is published, and another sum of people has another one: counties do not add up to their states, nor races to
totals. Here every published number is a measurement of one table of whole numbers, whose posterior adds up. No privacy is
claimed: cell keys are not differentially private.

Read from top to bottom: this is how a model of such counts is written. Run it with ``python models/cell_key_census.py``.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr

import bayesdp as bdp

__all__ = ["build_model", "disagreements", "make_release", "ptable", "true_table"]

STATES = ("IN", "OH")
COUNTIES = 15
"""Of each state, those with the fewest people."""


def true_table() -> xr.DataArray:
    """The counts that the office has: 30 counties of two states by five races."""
    table = bdp.datasets.midwest_counties()
    people, states = table.sum("race").values, table["state"].values
    small = [
        np.sort(np.flatnonzero(states == state)[np.argsort(people[states == state])[:COUNTIES]]) for state in STATES
    ]
    return table.isel(county=np.concatenate(small))


def ptable() -> bdp.noise.CellKey:
    """The perturbation table: deviations up to 4 with a variance of 2, 1 and 2 never published, zeros kept.

    These numbers are made up. Of an office that publishes its table, `bayesdp.noise.read_ptable` reads it; where it is secret, fit
    several plausible ones and tell how far the answers differ.
    """
    return bdp.noise.CellKey(max_deviation=4, variance=2.0, not_smaller_than=3)


def make_release(seed: int | None = 2022) -> bdp.Release:
    """Play the office: perturb cells, states by race, totals of counties, of states and of races, and the grand total.

    Parameters
    ----------
    seed : int, optional
        Seed of a simulated release; None publishes for real, with the operating system's entropy.
    """
    table, law = true_table(), ptable()
    rng = np.random.default_rng(seed)
    sums = (["state", "race"], ["county"], ["state"], ["race"])
    queries = [bdp.Identity(table), *(bdp.Margins(table, dims) for dims in sums), bdp.Totals(table)]
    # Sums that differ in empty cells only are about the same records, and get one perturbation.
    perturbed = law.draw_answers(rng, queries, table.values)
    parts = [bdp.Measured(query, values, law) for query, values in zip(queries, perturbed, strict=True)]
    return bdp.Release.from_published(table, measured=parts, simulated=seed is not None)


def build_model(release: bdp.Release) -> pm.Model:
    """Counties of different sizes whose races have shares of their own, given everything that was published.

    Parameters
    ----------
    release : Release
        Of a table of counties by categories, cells first.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``x[county, race]`` is negative binomial with mean ``exp(size[county] + race_effect[race])``: Poisson counts whose gamma rates are
    integrated out. What the perturbation table forbids is structure: a published 0 is 0, or a small count (1 to 4 here), and a
    published 3 was no 0.
    """
    counties, races = release.dims
    cells = np.asarray(release.measurements[0].values, dtype=float)

    with pm.Model(coords=release.coords) as model:
        centre = pm.Normal("centre", np.log1p(cells).mean(), 2.0)  # published numbers set the scale of a wide prior
        size = pm.Normal("size", centre, 1.5, dims=counties)
        race_effect = pm.ZeroSumNormal("race_effect", 3.0, dims=races)
        variation = pm.HalfNormal("variation", 1.0)
        mean = pm.math.exp(size[:, None] + race_effect[None, :])
        base = pm.NegativeBinomial.dist(mu=mean, alpha=pm.math.ones_like(mean) / (variation**2 + 1e-6))
        x = bdp.ConfidentialCounts("x", base, dims=release.dims)
        bdp.observe(release, x)
    return model


def disagreements(release: bdp.Release) -> xr.DataArray:
    """By how much the perturbed cells of each county miss its perturbed total."""
    cells, counties = np.asarray(release.measurements[0].values), np.asarray(release.measurements[2].values)
    return xr.DataArray((cells.sum(axis=1) - counties).astype(np.int64), {"county": release.coords["county"]})


if __name__ == "__main__":
    published = make_release()
    print(published)
    off = disagreements(published)
    print(f"{int((off != 0).sum())} of {off.size} counties have cells that do not add up to the published total")
    with build_model(published):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc", fiber_gibbs={"sweeps": 8})
    print(posterior["diagnostics"].attrs["message"])
    counts, truth = posterior["posterior"].dataset["x"], true_table()
    print("race, published in Indiana, 90% interval, sum of published cells, truth:")
    indiana = [str(label).startswith("IN") for label in counts["county"].values]
    for place, race in enumerate(counts["race"].values):
        own = counts.sel(race=race).isel(county=indiana).sum("county")
        low, high = own.quantile([0.05, 0.95]).values
        stated = int(published.measurements[1].values[0, place])
        summed = int(published.measurements[0].values[indiana, place].sum())
        print(
            f"  {race}: {stated:,}; {low:,.0f} to {high:,.0f}; {summed:,}; {int(truth.sel(race=race)[indiana].sum()):,}"
        )

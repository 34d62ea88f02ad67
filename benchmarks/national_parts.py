"""Memory and time of `fit_parts` for the United States: 51 states of 3,143 counties, a part a state, in a pool of processes.

The populations are those of 2010, from a file that the user has; their split into groups is made up, see `national_hierarchy`. State
totals are exact; cells of counties, totals of counties and cells of states have noise. The driver keeps the states of chains in a
folder, which the workers read and write: it holds sums only. Not collected by `make bench`; run it by hand:
``python -m benchmarks.national_parts census2010_us_counties.csv FOLDER [--draws N] [--groups N]``. It prints the highest memory of the
driver before the parts ran, while they ran, and with the result.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas as pd
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from benchmarks.national_hierarchy import with_groups


def release_of(path: str, state: str, groups: int) -> bdp.Release:
    """The simulated release of one state: the same each time."""
    listed = pd.read_csv(path, dtype={"state_fips": str, "county_fips": str})
    rows = listed[listed["state"] == state]
    names = (rows["state_fips"] + rows["county_fips"]).tolist()
    counts = xr.DataArray(rows["pop2010"].to_numpy(), dims=("county",), coords={"county": names})
    seed = int(names[0])
    table = with_groups(counts, [f"g{i:02d}" for i in range(groups)], seed)
    rng = np.random.default_rng(seed)
    queries = [bdp.Identity(table)]
    if len(names) > 1:  # the District of Columbia is one county
        queries += [bdp.Totals(table, by="county"), bdp.Totals(table, by="group")]
    noisy = [bdp.mechanisms.DiscreteGaussian(query, rho=0.1).release(table, rng=rng) for query in queries]
    exact = bdp.Release.from_published(table, exact=[bdp.Exact(bdp.Totals(table), int(table.sum()))])
    return bdp.compose(*noisy, exact).release


def _peak() -> float:
    """The highest memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Fit, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("counties")
    parser.add_argument("folder")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--groups", type=int, default=63)
    given = parser.parse_args()
    listed = pd.read_csv(given.counties)
    states = listed["state"].unique().tolist()
    print(f"{len(listed):,} counties of {len(states)} states, {len(listed) * given.groups:,} cells")
    prior = FixedNegativeBinomial(mean=listed["pop2010"].mean() / given.groups, shape=0.2)
    print(f"before: {_peak():,.0f} MB")
    begun = time.monotonic()
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        tree = bdp.fit_parts(
            {state: partial(release_of, given.counties, state, given.groups) for state in states},
            prior, draws=given.draws, tune=given.draws, chains=2, client=pool, folder=given.folder, random_seed=1, leaves="county",
        )  # fmt: skip
    print(f"after: {_peak():,.0f} MB, {time.monotonic() - begun:,.0f} s, result of {tree.nbytes / 1e6:,.0f} MB")
    print(f"workers: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:,.0f} MB the largest")
    print(dict(tree["diagnostics"].attrs))


if __name__ == "__main__":
    main()

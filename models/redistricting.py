"""From noisy measurement files to a posterior: the blocks of one made-up county, as in the redistricting file of 2020.

The Census Bureau published its noisy measurements beside the tables that it made of them: several queries of the same 2,016 cells
(group quarters x voting age x Hispanic x race) for every county, tract, block group and block, each with a noise of its own. The files
are too large to be kept here, so this writes synthetic ones in the same layout, with the published noise allocation, from a
county that is made up; the rest is what one would do with the real ones.

Run it with ``python models/redistricting.py``; it needs pyarrow (``pip install 'bayesdp[census]'``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
from bayesdp.hierarchies.priors import VaryingShares

__all__ = [
    "build_model", "fit", "make_county", "make_release", "queries_of", "questions", "read_county", "true_districts", "true_table",
    "write_county",
]  # fmt: skip

COUNTY = "05010001"
LEVELS = ("County", "Tract", "Block_Group", "Block")
EMPTY = 0.3
"""Share of blocks in which nobody lives: of the blocks of the 2020 Census about that many."""
RACES = {0: 0.62, 1: 0.20, 2: 0.01, 3: 0.06, 4: 0.002, 5: 0.05, 6: 0.015, 7: 0.015, 8: 0.008, 10: 0.02}
"""Places of combinations of races in the files, and their shares in the county; the rest are rarer."""


def make_county(
    seed: int | None = 2020, *, tracts: int = 3, groups: int = 2, blocks: int = 5, dormitories: float = 0.1
) -> dict[str, npt.NDArray[np.int64]]:
    """Make up a county: geocodes of blocks, each with its histogram of persons.

    Parameters
    ----------
    seed : int, optional
    tracts, groups, blocks : int
        Tracts of the county, block groups of a tract, blocks of a block group.
    dormitories : float
        Share of blocks with group quarters, on average.

    Returns
    -------
    dict
        Geocode -> int64 array, shape (8, 2, 2, 63).

    Notes
    -----
    Neighbours are alike: the shares of a tract scatter around the county's, those of a block around its tract's. Sizes of blocks are
    skewed, some three in ten are empty.
    """
    rng = np.random.default_rng(seed)
    races = np.full(63, 2e-5)
    races[list(RACES)] = list(RACES.values())
    hispanic = np.where(np.arange(63) == 5, 0.85, 0.08)  # of those of some other race, most
    joint = races[:, None] * np.stack([1.0 - hispanic, hispanic], axis=1)
    county = (joint[None] * np.array([0.24, 0.76])[:, None, None]).transpose(0, 2, 1).reshape(-1)
    county /= county.sum()
    spine = synthetic_spine("50", counties=1, tracts=tracts, groups=groups, blocks=blocks)
    found = {}
    tract = county
    for place, geocode in enumerate(spine):
        if place % (groups * blocks) == 0:
            tract = rng.dirichlet(25.0 * county)
        shares = rng.dirichlet(40.0 * tract + 1e-9)
        histogram = np.zeros((8, 2, 2, 63), dtype=np.int64)
        if rng.random() >= EMPTY:
            people = 1 + int(rng.gamma(0.9, 70.0))
            histogram[0] = rng.multinomial(people, shares).reshape(2, 2, 63)
        if rng.random() < dormitories:
            adults = shares.reshape(2, 2, 63)[1].reshape(-1)
            histogram[5, 1] = rng.multinomial(5 + int(rng.gamma(2.0, 60.0)), adults / adults.sum()).reshape(2, 63)
        found[geocode] = histogram
    return found


def write_county(folder: str | Path, county: Mapping[str, npt.NDArray[np.int64]], seed: int | None = 1) -> Path:
    """Write noisy measurement files of the county, with the production settings' noise; they are in a folder in this one."""
    return write_synthetic_nmf(folder, county, rng=seed)


def read_county(folder: str | Path, total: int) -> bdp.Release:
    """Read them, as one would read the published ones.

    Parameters
    ----------
    folder : path
    total : int
        The county's population. Totals of states are exact, and not in the files: here the state has one county.
    """
    return read_nmf(folder, COUNTY, levels=LEVELS, totals={COUNTY: total}).release


def make_release(seed: int | None = 1, county: Mapping[str, npt.NDArray[np.int64]] | None = None) -> bdp.Release:
    """Play the agency, and read what it published.

    Parameters
    ----------
    seed : int, optional
        Seed of a simulated release; None publishes for real, with the operating system's entropy.
    county : mapping, optional
        What `make_county` made.
    """
    truth = make_county(tracts=2, groups=2, blocks=3) if county is None else county
    with TemporaryDirectory() as folder:
        write_county(folder, truth, seed)
        release = read_county(folder, sum(int(own.sum()) for own in truth.values()))
    return dataclasses.replace(release, simulated=seed is not None)


def true_table(release: bdp.Release, county: Mapping[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """The county as a table of the release, shape (blocks, 8, 2, 2, 63)."""
    return np.stack([county[str(block)] for block in release.coords["block"]])


def true_districts(release: bdp.Release, county: Mapping[str, npt.NDArray[np.int64]]) -> xr.DataArray:
    """The true people of the two districts of `queries_of`."""
    query = queries_of(release)["districts"]
    return xr.DataArray(query.apply(true_table(release, county)), dims=query.dims, coords=query.coords)


def queries_of(release: bdp.Release) -> dict[str, Any]:
    """What is asked of the posterior: sums at every level, and people of two districts that cut through block groups.

    Returns
    -------
    dict
        ``totals``: of blocks; ``groups`` and ``tracts``: by Hispanic and race; ``districts``: by voting age too. Every
        second block of the table is in the first district, the others are in the second.
    """
    frame = release.frame
    source: dict[str, Any] = dict(zip(frame.dims, frame.labels, strict=True))
    source |= {name: (dim, list(labels)) for name, dim, labels in frame.groups}
    source["district"] = ("block", [f"district {1 + place % 2}" for place in range(len(source["block"]))])
    districts = bdp.Frame.of(source)
    return {
        "totals": bdp.Margins(frame, ["block"]),
        "groups": bdp.Margins(frame, ["block_group", "hispanic", "cenrace"]),
        "tracts": bdp.Margins(frame, ["tract", "hispanic", "cenrace"]),
        "districts": bdp.Margins(districts, ["district", "votingage", "hispanic", "cenrace"]),
    }


def questions(districts: xr.DataArray) -> xr.Dataset:
    """Questions about districts, from draws of their people or from the truth.

    Parameters
    ----------
    districts : xarray.DataArray
        With the dimensions district, votingage, hispanic and cenrace, and any others.

    Returns
    -------
    xarray.Dataset
        ``total``; ``black_share``, of adults who are Black alone, not Hispanic; ``more_hispanic``: whether there are more Hispanic
        adults than Black ones.
    """
    adults = districts.sel(votingage="voting_age")
    everybody = adults.sum(["hispanic", "cenrace"])
    black = adults.sel(hispanic="not_hispanic", cenrace="black")
    hispanic = adults.sel(hispanic="hispanic").sum("cenrace")
    found = xr.Dataset({"total": districts.sum(["votingage", "hispanic", "cenrace"])})
    found["black_share"] = black / everybody.where(everybody > 0)
    found["more_hispanic"] = hispanic > black
    return found.drop_vars(["votingage", "hispanic", "cenrace"], errors="ignore")


def fit(release: bdp.Release, **options: Any) -> xr.DataTree:
    """The posterior of all blocks: `bayesdp.fit_hierarchy` with shares that vary by block, and the rates integrated out.

    Parameters
    ----------
    release : Release
    **options
        Of `bayesdp.fit_hierarchy`; by default `queries_of` are recorded.

    Notes
    -----
    Why `VaryingShares` without a level: of the priors of `bayesdp.hierarchies.priors` its hyperparameters move
    fastest where most cells are empty, as here (figures in their docstrings), and in made-up counties, whose tracts do
    differ, its 95 % intervals of shares of tracts hold the truth as often as they say, as far as 24 of them can tell
    (notebook 08). How often those of the other priors do there was not counted.
    """
    return bdp.fit_hierarchy(release, VaryingShares(), **({"record": queries_of(release)} | options))


def build_model(release: bdp.Release) -> pm.Model:
    """A model of the same kind in PyMC, for tables so small that all draws can be kept.

    Parameters
    ----------
    release : Release
        What `make_release` gives, or any other whose first dimension are the areas.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``x[block, cell]`` is negative binomial with mean ``size[block] * share[cell]`` and shape ``concentration * share[cell]``: Poisson
    counts whose gamma rates are integrated out. Chains with the rates as variables mix far more slowly.
    """
    areas, *others = release.dims
    shape = release.frame.shape
    with pm.Model(coords=release.coords) as model:
        centre = pm.Normal("centre", np.log(50.0), 1.5)
        log_size = pm.Normal("log_size", centre, 1.5, dims=areas)
        log_share = pm.ZeroSumNormal("log_share", sigma=2.0, shape=int(np.prod(shape[1:])))
        share = pm.Deterministic("share", pm.math.softmax(log_share).reshape(shape[1:]), dims=tuple(others))
        concentration = pm.LogNormal("concentration", np.log(10.0), 1.0)
        size = pm.math.exp(log_size).reshape((-1,) + (1,) * len(others))
        base = pm.NegativeBinomial.dist(mu=size * share, alpha=concentration * share * pm.math.ones_like(size))
        x = bdp.ConfidentialCounts("x", base, dims=release.dims)
        bdp.observe(release, x)
    return model


if __name__ == "__main__":
    county = make_county()
    published = make_release(county=county)
    posterior = fit(published, draws=1000, random_seed=1)
    print(posterior["diagnostics"].attrs["message"])
    answers = questions(posterior["posterior"].to_dataset()["districts"])
    truth = questions(true_districts(published, county))
    for district in answers["district"].values:
        own = answers.sel(district=district)
        low, high = np.quantile(own["black_share"], [0.025, 0.975])
        true = truth.sel(district=district)
        print(
            f"{district}: {float(own['total'].mean()):.0f} people (truly {int(true['total'])}); Black share of adults 95% between "
            f"{low:.3f} and {high:.3f} (truly {float(true['black_share']):.3f}); more Hispanic than Black adults with probability "
            f"{float(own['more_hispanic'].mean()):.2f} (truly {bool(true['more_hispanic'])})"
        )

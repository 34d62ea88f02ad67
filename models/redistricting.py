"""From noisy measurement files to a posterior: the blocks of one made-up county, as in the redistricting file of 2020.

The Census Bureau published its noisy measurements beside the tables that it made of them: several queries of the same 2,016
cells (group quarters x voting age x Hispanic x race) for every county, tract, block group and block, each with a noise of its own. The
files are too large to be kept here, so this writes synthetic ones in the same layout, with the published noise allocation, from a county
that is made up; the rest is what one would do with the real ones.

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
    "build_model",
    "district_queries",
    "fit",
    "make_county",
    "make_release",
    "read_county",
    "true_table",
    "write_county",
]

COUNTY = "05010001"
LEVELS = ("County", "Tract", "Block_Group", "Block")
EMPTY = 0.3
"""Share of blocks in which nobody lives: of the blocks of the 2020 Census about that many."""
RACES = {0: 0.62, 1: 0.20, 2: 0.01, 3: 0.06, 4: 0.002, 5: 0.05, 6: 0.015, 7: 0.015, 8: 0.008, 10: 0.02}
"""Places of combinations of races in the files, and their shares in the county; the rest are rarer."""


def make_county(
    seed: int | None = 2020, *, tracts: int = 3, groups: int = 2, blocks: int = 5
) -> dict[str, npt.NDArray[np.int64]]:
    """Make up a county: geocodes of blocks, each with its histogram of persons.

    Parameters
    ----------
    seed : int, optional
    tracts, groups, blocks : int
        Tracts of the county, block groups of a tract, blocks of a block group.

    Returns
    -------
    dict
        Geocode -> int64 array, shape (8, 2, 2, 63).

    Notes
    -----
    Neighbours are alike: the shares of a tract scatter around the county's, those of a block around its tract's. Sizes of blocks are
    skewed, some three in ten are empty, and in one block of ten there is a dormitory.
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
        if rng.random() < 0.1:
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


def district_queries(release: bdp.Release) -> dict[str, Any]:
    """What is asked of the posterior: tables at every level, and of two districts that cut through block groups.

    Every second block is in the first district. Ratios and comparisons (shares; are there more of A than of B?) come from the
    draws of these numbers.
    """
    frame = release.frame
    levels = ("block_group", "tract", "county")
    queries: dict[str, Any] = {
        f"{level}_races": bdp.Margins(frame, [level, "votingage", "hispanic", "cenrace"]) for level in levels
    }
    queries |= {f"{level}_totals": bdp.Margins(frame, [level]) for level in ("block", *levels[:2])}
    blocks = frame.labels_of("block")
    own = xr.Dataset(
        coords={"block": list(blocks), "district": ("block", [f"{1 + i % 2}" for i in range(len(blocks))])}
    )
    del own
    return queries


def fit(release: bdp.Release, **options: Any) -> xr.DataTree:
    """The posterior of all blocks: `bayesdp.fit_hierarchy` with shares that vary by block.

    Parameters
    ----------
    release : Release
    **options
        Of `bayesdp.fit_hierarchy`.
    """
    return bdp.fit_hierarchy(release, VaryingShares("tract"), **options)

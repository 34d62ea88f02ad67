"""People at work in Australia by area, sex, age and hours, 2016: every number published, every number perturbed on its own.

The office perturbs each number of a table by a cell key, and publishes cells, all margins, and larger areas: women and men do
not add up to persons, nor areas to states, by up to 9 people and more. Its law is not published; the one used here is an assumption
(`bayesdp.datasets.working_population` says which, and what for). Every published number is a measurement of one table of whole
numbers, whose posterior adds up. Whether it is right can be seen without the truth: leave published numbers out, and predict them.

Read from top to bottom: this is how a model of such tables is written. Run it with ``python models/working_population.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr

import bayesdp as bdp

__all__ = ["build_model", "by_hand", "coverage", "full_time_share", "leave_out", "predict", "without_areas"]

OVER_55 = ["55_59", "60_64", "65_69", "70_74", "75ov"]


def leave_out(release: bdp.Release, *levels: str) -> tuple[bdp.Release, list[bdp.Measured]]:
    """The release without what was published of these levels of areas (names of groups), and that."""
    out = [own for own in release.measurements if set(levels) & set(own.query.dims)]
    kept = [own for own in release.measurements if not set(levels) & set(own.query.dims)]
    return bdp.Release.from_published(release.frame, kept), out


def without_areas(release: bdp.Release, areas: Sequence[str]) -> tuple[bdp.Release, list[bdp.Measured]]:
    """The release without all 210 numbers of some of its smallest areas, and what was published of these."""
    smallest, kept, out = release.dims[0], [], []
    for own in release.measurements:
        if smallest not in own.query.dims:
            kept.append(own)
            continue
        there = np.isin(own.query.coords[smallest], areas).reshape(-1, *[1] * (own.values.ndim - 1))
        for mask, to in ((there, kept), (~there, out)):
            unmeasured = np.broadcast_to(mask, own.values.shape)
            to.append(bdp.Measured(own.query, np.where(unmeasured, np.nan, own.values), own.law, unmeasured=unmeasured))
    return bdp.Release.from_published(release.frame, kept), out


def build_model(release: bdp.Release) -> pm.Model:
    """Areas of different sizes with a common profile of sex, age and status, from which each cell departs.

    Parameters
    ----------
    release : Release
        Of a table of areas by sex, age and status, cells first.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``x[area, sex, age, status]`` is negative binomial with mean ``exp(size[area] + profile[sex, age, status])``: Poisson counts whose
    gamma rates are integrated out. Of most cells the published numbers say nearly everything; the prior matters where counts
    are as small as deviations, and in areas of which nothing was published.
    """
    area, *rest = release.dims
    cells = np.asarray(release.measurements[0].values, dtype=float)
    level = np.log1p(cells).mean()

    with pm.Model(coords=release.coords) as model:
        size = pm.Normal("size", level, 3.0, dims=area)
        profile = pm.ZeroSumNormal("profile", 3.0, n_zerosum_axes=len(rest), dims=rest)
        variation = pm.HalfNormal("variation", 1.0)
        mean = pm.math.exp(size[:, None, None, None] + profile[None])
        base = pm.NegativeBinomial.dist(mu=mean, alpha=pm.math.ones_like(mean) / (variation**2 + 1e-6))
        x = bdp.ConfidentialCounts("x", base, dims=release.dims)
        bdp.observe(release, x)
    return model

"""A small model with an exact total, and a quiet way to sample it."""

from __future__ import annotations

import numpy as np
import pymc as pm

import bayesdp as bdp

COUNTY = {"county": ["p", "q", "r", "s"]}
PUBLISHED = np.array([11, 19, 6, 2])
TOTAL = 40
RATE = np.array([10.0, 20.0, 5.0, 8.0])
"""Adds up to 43: the start that PyMC takes from the prior is off the fiber."""


def release(total: int = TOTAL) -> bdp.Release:
    return bdp.Release.from_published(
        COUNTY,
        measured=[bdp.Measured(bdp.Identity(COUNTY), PUBLISHED, bdp.noise.DiscreteLaplace(b=3.0))],
        exact=[bdp.Exact(bdp.Totals(COUNTY), total)],
    )


def build(before: bool = True, after: bool = False, total: int = TOTAL) -> pm.Model:
    """Counts with NUTS variables declared before or after them."""
    with pm.Model(coords=COUNTY) as model:
        scale = pm.LogNormal("scale", 0.0, 0.1) if before else 1.0
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE * scale), dims="county")
        if after:
            pm.Normal("later", 0.0, 1.0)
        bdp.observe(release(total), x)
    return model


def run(model: pm.Model, draws: int = 60, tune: int = 20, chains: int = 2, cores: int = 1, seed=1, **kwargs):
    with model:
        return pm.sample(
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            **kwargs,
        )

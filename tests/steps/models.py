"""A small model with an exact total, and a quiet way to sample it."""

from functools import partial

import numpy as np
import pymc as pm

import bayesdp as bdp
from tests.inference.oracle import noisy_cells, sample

COUNTY = {"county": ["p", "q", "r", "s"]}
PUBLISHED = np.array([11, 19, 6, 2])
TOTAL = 40
RATE = np.array([10.0, 20.0, 5.0, 8.0])
"""Adds up to 43: the start that PyMC takes from the prior is off the fiber."""

run = partial(sample, draws=60, tune=20)


def release(total=TOTAL):
    return noisy_cells(COUNTY, PUBLISHED, bdp.noise.DiscreteLaplace(b=3.0), bdp.Exact(bdp.Totals(COUNTY), total))


def build(before=True, after=False):
    """Counts with NUTS variables declared before or after them."""
    with pm.Model(coords=COUNTY) as model:
        scale = pm.LogNormal("scale", 0.0, 0.1) if before else 1.0
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE * scale), dims="county")
        if after:
            pm.Normal("later", 0.0, 1.0)
        bdp.observe(release(), x)
    return model


def begun(made):
    """A step method, as a chain gets it."""
    made.setup_chain(np.random.default_rng(3), 10, 10)
    return made

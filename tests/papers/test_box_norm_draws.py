"""What PyMC draws of noise in the norm of the largest entry: the radius is a gamma variable of as many degrees as entries."""

from __future__ import annotations

import numpy as np
import pymc as pm
from scipy.stats import gamma, kstest

from bayesdp.papers.models import BoxNorm


def test_the_radius_of_draws_is_that_of_the_law():
    """False alarms: one in 10,000 seeds; the seed is fixed."""
    mu, b = np.array([1.0, -2.0, 5.0]), np.array([0.5, 1.0, 2.0])
    drawn = pm.draw(BoxNorm.dist(mu=mu, b=b), draws=4000, random_seed=1)
    radius = (np.abs(drawn - mu) / b).max(axis=1)
    assert kstest(radius, gamma(len(mu)).cdf).pvalue > 1e-4

"""The posterior of a regression from noisy sums of any values within bounds: the records are unknowns of the model."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.mechanisms import TruncatedGaussian
from bayesdp.privacy import StatisticGuarantee


@pytest.mark.system
def test_any_values_within_bounds_given_public_groups() -> None:
    """Sums over records with |y| <= 2 and public x: guarantee, law, and the posterior with the records as unknowns.

    By importance sampling from the prior: 5 standard errors, those of the weights included.
    """
    x, limit = np.array([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0]), 2.0
    size = len(x)
    # One record changes its y within [-2, 2]: sum y by at most 4, sum xy by 4 max|x|, sum y^2 by 4.
    most = [2 * limit, 2 * limit * np.abs(x).max(), limit**2]
    bounds = ([-size * limit, -limit * np.abs(x).sum(), 0.0], [size * limit, limit * np.abs(x).sum(), size * limit**2])
    mechanism = TruncatedGaussian(most, bounds, rho=8.0, names=["sum y", "sum xy", "sum yy"])
    rng = np.random.default_rng(3)
    y = rng.uniform(-limit, limit, size=(200, size))
    y[0], y[1] = limit, -limit
    moved = y.copy()
    moved[:, 2] = rng.choice([-limit, 0.0, limit], size=200)

    def sums(values):
        return np.stack([values.sum(-1), (values * x).sum(-1), (values**2).sum(-1)], axis=-1)

    change = sums(moved) - sums(y)
    assert np.all(np.abs(change) <= np.array(most) + 1e-12)
    # zCDP of noise of one sigma: rho is |change|^2 / (2 sigma^2) at most.
    assert (change**2).sum(axis=1).max() / (2 * mechanism.sigma**2) <= 8.0 + 1e-12
    released = mechanism.release(sums(y[5]), rng=4)
    assert isinstance(released.guarantee, StatisticGuarantee)
    with pm.Model():
        slope = pm.Normal("slope", 0.0, 1.0)
        own = pm.TruncatedNormal("y", mu=slope * x, sigma=1.0, lower=-limit, upper=limit)
        bdp.observe(released, pm.math.stack([own.sum(), (own * x).sum(), (own**2).sum()]))
        drawn = bdp.sample(
            1500, tune=500, chains=2, cores=1, random_seed=1, nuts_sampler="pymc", quiet=True, progressbar=False
        )
    slopes = rng.normal(size=200_000)
    a, b = (-limit - slopes[:, None] * x), (limit - slopes[:, None] * x)
    records = slopes[:, None] * x + stats.truncnorm.ppf(rng.random((len(slopes), size)), a, b)
    [measured] = released.measurements
    weights = np.exp(
        measured.law.log_each(np.broadcast_to(measured.values, (len(slopes), 3)), sums(records)).sum(axis=1)
    )
    weights /= weights.sum()
    mean = weights @ slopes
    spread = np.sqrt(weights @ (slopes - mean) ** 2)
    effective = 1.0 / np.sum(weights**2)
    assert effective > 1000
    found = np.asarray(drawn.posterior["slope"])
    assert abs(found.mean() - mean) < 5 * spread * np.sqrt(1 / effective + 1 / 1000)
    assert found.std() == pytest.approx(spread, rel=0.12)
    assert spread < 0.8  # the release tells of the slope

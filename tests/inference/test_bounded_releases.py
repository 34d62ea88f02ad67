"""Posteriors of counts from releases within bounds, by the step method, against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp import noise
from bayesdp.steps.reading import read_model
from tests.inference.oracle import LINE, assert_posterior, counts_model, posterior_of, sample, tables_of

pytestmark = pytest.mark.system

LAWS = [
    (noise.TruncatedLaplace(2.0, (0.0, 9.0)), [0.4, 8.6, 3.3]),
    (noise.BoundaryInflatedLaplace(2.0, (0.0, 9.0)), [0.0, 9.0, 3.3]),
    (noise.TruncatedGaussian(2.5, (0.0, 9.0)), [0.4, 8.6, 3.3]),
    (noise.BoundaryInflatedGaussian(2.5, (0.0, 9.0)), [0.0, 9.0, 3.3]),
    (noise.TruncatedDiscreteLaplace([2.0, 1.0, 4.0], (0, [9, 9, 12])), [0, 8, 11]),
    (noise.BoundaryInflatedDiscreteLaplace(2.0, (0, 9)), [0, 9, 4]),
    (noise.BoundaryInflatedDiscreteGaussian(2.5, (0, 9)), [0, 9, 4]),
]


def _release(law: Any, values: Any, *, limited: bool, total: int | None = None) -> bdp.Release:
    query = bdp.Identity(LINE)
    high = np.broadcast_to(law.upper, (3,)).astype(int)
    exact = [bdp.Exact(query, high, "<=")] if limited else []
    exact += [] if total is None else [bdp.Exact(bdp.Totals(LINE), total)]
    return bdp.Release.from_published(LINE, [bdp.Measured(query, values, law)], exact)


def _check(
    release: bdp.Release, law: Any, values: Any, tables: Any, exact_conditional: bool, draws: int = 2500
) -> None:
    rate = np.array([3.0, 7.0, 5.0])
    model = counts_model(release, pm.Poisson.dist(rate))
    reading = read_model(model, model.rvs_to_values[model["x"]])
    assert not reading.unknown
    assert bool(reading.rests) != exact_conditional
    prior = stats.poisson.logpmf(tables, rate).sum(axis=-1)
    likelihood = np.array([law.logp(values, table) for table in tables])
    assert_posterior(sample(model, draws=draws), tables, posterior_of(prior + likelihood))


@pytest.mark.parametrize(("law", "values"), LAWS, ids=lambda own: getattr(own, "name", ""))
def test_posterior_of_bounded_counts(law: Any, values: Any) -> None:
    """Counts that the exact parts keep within the bounds: clipped Laplace noise needs no accepting and rejecting."""
    release = _release(law, values, limited=True, total=15)
    exact = "boundary-inflated" in law.name and "laplace" in law.name
    _check(release, law, values, tables_of(release), exact)


@pytest.mark.parametrize(
    ("law", "values"), [LAWS[0], LAWS[2], LAWS[5], LAWS[6]], ids=lambda own: getattr(own, "name", "")
)
def test_posterior_of_counts_that_may_be_beyond_a_bound(law: Any, values: Any) -> None:
    """Without the limits the law is the one for locations outside; counts up to 25 a cell have all but 1e-7 of the prior."""
    release = _release(law, values, limited=False)
    grid = np.arange(26)
    tables = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3)
    rate = np.array([3.0, 7.0, 5.0])
    each = [
        posterior_of(stats.poisson.logpmf(grid, rate[i]) + np.array([_one(law, values[i], float(k)) for k in grid]))
        for i in range(3)
    ]
    model = counts_model(release, pm.Poisson.dist(rate))
    probability = each[0][tables[:, 0]] * each[1][tables[:, 1]] * each[2][tables[:, 2]]
    assert_posterior(sample(model, draws=2500), tables, probability)


def _one(law: Any, value: float, location: float) -> float:
    return float(type(law)(law.scale, law.bounds).logp(value, location))


def test_posterior_with_an_unknown_rate() -> None:
    """Values of a truncated law, and NUTS for the rate: it runs and is finite."""
    release = _release(noise.TruncatedDiscreteLaplace(3.0, (0, 20)), [2, 11, 5], limited=True)
    with pm.Model(coords=release.coords):
        rate = pm.Gamma("rate", 2.0, 0.4)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate, shape=3), dims=release.dims)
        bdp.observe(release, x)
        tree = bdp.sample(draws=200, tune=200, chains=2, cores=1, random_seed=2, progressbar=False)
    drawn = tree.posterior["x"].values
    assert drawn.min() >= 0
    assert drawn.max() <= 20
    assert len(np.unique(drawn)) > 3

"""Perturbed counts whose prior has parameters that NUTS draws: it may begin before the counts are where they are possible."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln

import bayesdp as bdp
from bayesdp import noise
from bayesdp.distributions.exact_answers import OFF_FIBER

TABLE = {"area": ["Alpha", "Beta"]}


@pytest.fixture(scope="module")
def model():
    """Published 30 and 45, base 3; PyMC starts both counts at 4, which lead to neither."""
    release = bdp.Release.from_published(
        TABLE, measured=[bdp.Measured(bdp.Identity(TABLE), [30, 45], noise.RandomRounding(3), name="published")]
    )
    with pm.Model(coords=release.coords) as own:
        rate = pm.Exponential("rate", 1 / 4.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="area")
        bdp.observe(release, x)
    return own


def test_an_impossible_start_has_a_finite_log_mass_that_is_a_constant(model):
    logp = model.compile_logp(vars=[model["published"]], sum=False)
    point = model.initial_point()
    assert logp({**point, "x": np.array([4, 4])})[0].tolist() == [OFF_FIBER, OFF_FIBER]
    # 31 leads to 30 with probability 2/3, 43 to 45 with 1/3.
    np.testing.assert_allclose(logp({**point, "x": np.array([31, 43])})[0], np.log([2 / 3, 1 / 3]))


def test_counts_that_are_given_have_none_where_they_are_impossible(model):
    given = pm.do(model, {"x": np.array([4, 31])})
    rest = given.compile_logp(vars=[given["published"]], sum=False)
    np.testing.assert_array_equal(rest(given.initial_point())[0], [-np.inf, -np.inf])


def test_a_variable_outside_of_observe_is_not_held():
    with pm.Model() as own:
        x = pm.Poisson("x", 30.0)
        bdp.distributions.RandomRounding("published", mu=x, base=3, observed=30)
    assert own.compile_logp(vars=[own["published"]])({"x": np.array(4)}) == -np.inf


def test_nuts_draws_the_rate_and_counts_stay_possible(model):
    """The posterior of the rate by enumeration; false alarm at another seed 1e-5 a number (4.5 standard errors)."""
    with model:
        drawn = bdp.sample(600, tune=300, chains=2, cores=1, random_seed=4, quiet=True, progressbar=False).posterior
    x = drawn["x"].values.reshape(-1, 2)
    law = noise.RandomRounding(3)
    assert np.isfinite(law.log_each([30, 45], x)).all()
    # The integral of rate^s exp(-2 rate) exp(-rate / 4) is s! / 2.25^(s + 1), s the sum; given it, the rate is Gamma(s + 1, 2.25).
    first, second = np.meshgrid(np.arange(28, 33), np.arange(43, 48), indexing="ij")
    total = first + second
    log_mass = gammaln(total + 1.0) - total * np.log(2.25) - gammaln(first + 1.0) - gammaln(second + 1.0)
    log_mass = log_mass + law.log_each(30, first) + law.log_each(45, second)
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    mean = float((mass * (total + 1) / 2.25).sum())
    variance = float((mass * (total + 1) * (total + 2) / 2.25**2).sum()) - mean**2
    rate = drawn["rate"].values
    assert abs(rate.mean() - mean) < 4.5 * np.sqrt(variance / 300)  # at least 300 effective draws of 1,200
    assert abs(x[:, 0].mean() - (mass.sum(1) * first[:, 0]).sum()) < 4.5 * np.sqrt(2.0 / 300)

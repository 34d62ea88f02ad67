"""What `observe` makes of perturbed counts: the log-mass of the law, finite while the counts are free and their start is anywhere.

NUTS may move the rate of a prior before the counts are where they are possible.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln

import bayesdp as bdp
from bayesdp import noise
from bayesdp.distributions.confidential_counts import OFF_FIBER
from bayesdp.distributions.perturbed import counts_of

LABELS = {"area": ["Alpha", "Beta"]}
PUBLISHED = np.array([30, 45])
LAW = noise.RandomRounding(3)


def released() -> bdp.Release:
    return bdp.Release.from_published(
        LABELS, measured=[bdp.Measured(bdp.Identity(LABELS), PUBLISHED, LAW, name="published")]
    )


@pytest.fixture(scope="module")
def model():
    """PyMC starts both counts at 4, which lead to neither published number."""
    release = released()
    with pm.Model(coords=release.coords) as own:
        rate = pm.Exponential("rate", 1 / 4.0)
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="area"))
    return own


def test_log_mass_given_free_counts(model):
    """By hand: 31 becomes 30 with probability 2/3, 43 becomes 45 with 1/3; 30 and 45 stay; 4 and 33 become neither."""
    logp = model.compile_logp(vars=[model["published"]], sum=False)
    point = model.initial_point()
    assert point["x"].tolist() == [4, 4]
    for counts, expected in (
        ([31, 43], np.log([2 / 3, 1 / 3])),
        ([30, 45], [0.0, 0.0]),
        ([33, 45], [OFF_FIBER, 0.0]),
        ([4, 4], [OFF_FIBER, OFF_FIBER]),
    ):
        np.testing.assert_allclose(logp({**point, "x": np.array(counts)})[0], expected, rtol=1e-12)


def test_counts_that_are_given_have_none_where_they_are_impossible(model):
    given = pm.do(model, {"x": np.array([4, 31])})
    rest = given.compile_logp(vars=[given["published"]], sum=False)
    np.testing.assert_array_equal(rest(given.initial_point())[0], [-np.inf, -np.inf])


def test_log_mass_given_known_counts_is_that_of_the_law():
    own = bdp.distributions.PerturbedByRows.dist(np.array([31, 33]), LAW.transitions.mass, LAW)
    np.testing.assert_allclose(pm.logp(own, PUBLISHED[[0, 0]]).eval(), [np.log(2 / 3), -np.inf], rtol=1e-12)


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
    assert np.isfinite(LAW.log_each(PUBLISHED, x)).all()
    # The integral of rate^s exp(-2 rate) exp(-rate / 4) is s! / 2.25^(s + 1), s the sum; given it, the rate is Gamma(s + 1, 2.25).
    first, second = np.meshgrid(np.arange(28, 33), np.arange(43, 48), indexing="ij")
    total = first + second
    log_mass = gammaln(total + 1.0) - total * np.log(2.25) - gammaln(first + 1.0) - gammaln(second + 1.0)
    log_mass = log_mass + LAW.log_each(30, first) + LAW.log_each(45, second)
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    mean = float((mass * (total + 1) / 2.25).sum())
    variance = float((mass * (total + 1) * (total + 2) / 2.25**2).sum()) - mean**2
    rate = drawn["rate"].values
    assert abs(rate.mean() - mean) < 4.5 * np.sqrt(variance / 300)  # at least 300 effective draws of 1,200
    assert abs(x[:, 0].mean() - (mass.sum(1) * first[:, 0]).sum()) < 4.5 * np.sqrt(2.0 / 300)


def test_real_numbers_in_the_place_of_counts_are_refused():
    with pm.Model(), pytest.raises(TypeError, match="whole numbers, under the law 'random-rounding'"):
        counts_of(pm.Gamma("x", 2.0, 0.5), "random-rounding")

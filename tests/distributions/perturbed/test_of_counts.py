"""What `observe` makes of perturbed counts: the log-mass of the law, finite while the counts are free and their start is anywhere."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.distributions.exact_answers import OFF_FIBER

LABELS = {"area": ["Alpha", "Beta"]}
PUBLISHED = np.array([3, 12])
LAW = bdp.noise.RandomRounding(3)


@pytest.fixture(scope="module")
def model():
    release = bdp.Release.from_published(LABELS, [bdp.Measured(bdp.Identity(LABELS), PUBLISHED, LAW)])
    with pm.Model(coords=release.coords) as own:
        rate = pm.Gamma("rate", 2.0, 0.2)
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="area"))
    return own


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # By hand: 4 becomes 3 with probability 2/3, 10 becomes 12 with 1/3; 3 stays 3; 6 cannot become 3.
        ([4, 10], np.log(2 / 3) + np.log(1 / 3)),
        ([3, 12], 0.0),
        ([6, 12], OFF_FIBER),
        ([6, 9], 2 * OFF_FIBER),
    ],
)
def test_log_mass_given_free_counts(model, counts, expected):
    found = model.compile_logp(vars=model.observed_RVs)({"x": np.array(counts), "rate_log__": np.array(1.0)})
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_log_mass_given_known_counts_is_that_of_the_law():
    own = bdp.distributions.perturbed.of_counts.PerturbedOfCounts.dist(np.array([4, 6]), LAW)
    np.testing.assert_allclose(pm.logp(own, PUBLISHED[[0, 0]]).eval(), [np.log(2 / 3), -np.inf], rtol=1e-12)


def test_other_variables_may_be_sampled_before_the_start_has_moved(model):
    """NUTS moves the rate first, from counts that cannot have been published so: it refused to begin."""
    assert model.compile_logp()(model.initial_point()) < OFF_FIBER
    with model:
        tree = bdp.sample(60, tune=60, chains=2, cores=1, random_seed=1, quiet=True, progressbar=False)
    drawn = tree.posterior["x"].to_numpy().reshape(-1, 2)
    assert np.isfinite([LAW.logp(PUBLISHED, own) for own in drawn]).all()
    assert np.unique(drawn[:, 0]).tolist() == [1, 2, 3, 4, 5]


def test_real_numbers_in_the_place_of_counts_are_refused():
    release = bdp.Release.from_published(LABELS, [bdp.Measured(bdp.Identity(LABELS), PUBLISHED, LAW)])
    with pm.Model(coords=release.coords):
        x = bdp.ContinuousCounts("x", pm.Poisson.dist(8.0), release)
        with pytest.raises(TypeError, match="whole numbers, under the law 'random-rounding'"):
            bdp.observe(release, x)

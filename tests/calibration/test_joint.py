"""The joint distribution test passes for every step method, and fails for one that is broken on purpose."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.calibration import joint_distribution_test
from bayesdp.calibration.joint import _two_sample
from bayesdp.steps import FiberGibbs
from tests.calibration import models
from tests.calibration.test_coverage import odd_fails


def release_pair(truth, rng):
    return models.PAIR_MECHANISM.release(truth["x"], rng=rng)


def test_fiber_gibbs_and_nuts_keep_the_law():
    rates = models.simulate_rates, release_pair, models.build_rates
    found = joint_distribution_test(*rates, n=30, seed=4, rounds=2, progressbar=False)
    assert found.passed, str(found)  # false alarm 0.01 for another seed
    assert list(found.pvalues) == ["rate", "x[Alpha]", "x[Beta]"]
    assert "No sign" in str(found)
    assert (found.n, found.rounds, found.steps, found.failures) == (30, 2, 5, {})


BOTH = bdp.Invariants(bdp.Margins({"row": ["a", "b"], "column": ["u", "v", "w"]}, ["row"], ["column"]))
LATTICE = bdp.LatticeLaplace(BOTH, epsilon=0.4)


def lattice_test(epsilon, quantities=None):
    def look(truth, rng):
        return np.asarray(truth["noise"], dtype=float) + rng.normal(0.0, 2.0, size=(2, 3))

    def simulate(rng):
        truth = {"noise": LATTICE.law.draw(rng, (2, 3), None, BOTH)}
        return truth, look(truth, rng)

    def build(seen):
        with pm.Model() as model:
            noise = bdp.distributions.LatticeLaplace("noise", np.zeros((2, 3), dtype=int), epsilon, invariants=BOTH)
            pm.Normal("seen", noise, 2.0, observed=pm.Data("look", seen))
        return model

    call = {"n": 24, "seed": 4, "rounds": 2, "update": lambda seen: {"look": seen}, "progressbar": False}
    return joint_distribution_test(simulate, look, build, quantities, **call)


def test_lattice_noise_gibbs_keeps_the_law_and_another_scale_is_caught():
    found = lattice_test(LATTICE.law.epsilon)
    assert found.passed, str(found)
    spread = {"spread": lambda values, release: abs(values["noise"]).sum(("noise_0", "noise_1"))}
    assert not lattice_test(0.05, spread).passed


def pair_test(quantities=None, n=20, rounds=2):
    pair = models.simulate_pair, release_pair, models.build_pair
    return joint_distribution_test(*pair, quantities, n=n, seed=4, rounds=rounds, progressbar=False)


def test_a_broken_step_is_caught(monkeypatch):
    step = FiberGibbs.step

    def sluggish(self, point):
        new, statistics = step(self, point)
        return (dict(point), statistics) if new["x"][0] > point["x"][0] else (new, statistics)

    monkeypatch.setattr(FiberGibbs, "step", sluggish)
    found = pair_test()
    assert not found.passed
    assert "The steps CHANGE the law" in str(found)
    assert min(found.adjusted.values()) < 1e-3


def test_chains_that_fail_are_counted():
    found = pair_test({"total": odd_fails}, 6, 1)
    assert 0 < len(found.failures) < 12
    assert f"{len(found.failures)} chains failed" in str(found)
    with pytest.raises(ValueError, match="all 4 chains failed; the first one: ZeroDivisionError: "):
        pair_test({"x": lambda values, release: 1 // 0}, 2)


def test_two_samples_of_integers_with_ties():
    """500 pairs of samples of one law with three values: p-values are not too small, nor (as without breaking ties) too large."""
    rng = np.random.default_rng(3)

    def sample(values):
        return np.column_stack([values, rng.random(30)])

    pvalues = np.array([_two_sample(*(sample(rng.integers(3, size=30)) for _ in range(2))) for _ in range(500)])
    for level in (0.05, 0.2, 0.5):
        share = np.mean(pvalues <= level)
        # The statistic is discrete: the p-value of the largest that is at most the level may be lower. Four standard errors.
        assert share < level + 4 * np.sqrt(level * (1 - level) / 500)
        assert share > 0.55 * level
    one, other = np.arange(30), np.arange(30) + 15.5
    assert _two_sample(sample(one), sample(other)) == pytest.approx(stats.ks_2samp(one, other).pvalue)

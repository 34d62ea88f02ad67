"""A model that is fitted again and again gives what a new model of each release gives, and compiles nothing anew."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.calibration.fits import SAMPLER, Refit, quiet_sample
from bayesdp.steps.base import _COMPILED, compiled
from benchmarks.calibration.cases import SHAPE, TABLE, Case

pytestmark = pytest.mark.system

SETTINGS = SAMPLER | {"draws": 60, "tune": 20}


class Clipped(Case):
    """Counts that were clipped to public bounds after noise, by a law that no mechanism draws."""

    def simulate(self, rng):
        x = rng.negative_binomial(3.0, 3.0 / 11.0, size=SHAPE)
        law = bdp.noise.BoundaryInflatedDiscreteGaussian(3.5, (0, 60))
        noisy = bdp.Measured(bdp.Identity(TABLE), law.draw(rng, SHAPE, location=x), law)
        return {"x": x}, bdp.Release.from_published(TABLE, [noisy], [bdp.Exact(bdp.Totals(TABLE), x.sum())])


CASES = [
    # Part of the likelihood is left to a compiled rest, and which answers are in it changes with the release.
    Clipped("clipped discrete Gaussian", "negative binomial", "total"),
    # Two releases: exact totals of counts, and a noisy share of them.
    Case("boundary-inflated Laplace", "negative binomial", "total"),
    # NUTS draws the rate, and the scale of the noise is constant beside it.
    pytest.param(Case("discrete Laplace", "Poisson, gamma rate", "both margins"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_draws_are_those_of_a_new_model(case):
    releases = [case.simulate(np.random.default_rng(seed))[1] for seed in range(4)]
    refit = Refit(case.build_model, releases[0])
    kept = []
    for seed, release in enumerate(releases):
        again = quiet_sample(refit.model(release), SETTINGS, seed)["posterior"]
        new = quiet_sample(case.build_model(release), SETTINGS, seed)["posterior"]
        for name in new.data_vars:
            np.testing.assert_allclose(again[name].values, new[name].values, rtol=1e-9, err_msg=name)
        kept.append(len(_COMPILED[refit.model(release)]))
    assert refit.reused
    assert kept == [kept[0]] * 4  # nothing was compiled after the first


def test_two_releases_of_one_kind_do_not_change_places():
    """A model that observes them in another order than they are given in is built anew for each pair."""
    mechanism = bdp.mechanisms.TruncatedLaplace(1.0, 0.1, (0.0, 1.0))
    pairs = [tuple(mechanism.release(value, rng=seed) for value in (0.1, 0.9)) for seed in (1, 2)]

    def model_of(pair, order):
        with pm.Model() as model:
            for k in order:
                bdp.observe(pair[k], pm.Beta(f"share_{k}", 1.0, 1.0))
        return model

    for order, reused in (((0, 1), True), ((1, 0), None)):
        refit = Refit(lambda pair, order=order: model_of(pair, order), pairs[0])
        model = refit.model(pairs[1])
        assert refit.reused is reused
        for k, name in zip(order, ("noisy", "noisy_2"), strict=True):
            assert model[f"{name}_published"].get_value().item() == float(pairs[1][k].values)


def test_functions_of_the_same_inputs_are_told_apart():
    case = Case("lattice Laplace, l1", "Poisson, gamma rate", "total")
    one, other = (case.simulate(np.random.default_rng(seed))[1] for seed in (1, 2))
    frozen = Refit(case.build_model, one).model(other)
    [rate] = [value for value in frozen.value_vars if value.name.startswith("rate")]
    values = [compiled(frozen, [factor * rate], {})[0](np.array(1.5))[0] for factor in (2.0, 3.0, 2.0)]
    assert [float(value) for value in values] == [3.0, 4.5, 3.0]
    both = compiled(frozen, [2.0 * rate, 3.0 * rate], {})[0](np.array(1.5))
    assert [float(value) for value in both] == [3.0, 4.5]

"""Canonical noise of bounded support about counts: exact steps, starts within reach, posteriors against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, poisson

import bayesdp as bdp
from bayesdp.calibration import sbc
from bayesdp.mechanisms import CanonicalNoise
from bayesdp.privacy.canonical import Tulap
from bayesdp.steps.fiber_gibbs import CountTable

pytestmark = pytest.mark.system

TABLE = {"row": ["a", "b"], "column": ["u", "v", "w"]}
TOTAL = bdp.Totals(TABLE)
QUIET = {"nuts_sampler": "pymc", "cores": 1, "progressbar": False, "quiet": True}
MECHANISM = CanonicalNoise(TABLE, epsilon=0.6, delta=1e-3)


def table_of(model, name="x"):
    return CountTable(model, model.rvs_to_values[model[name]], np.random.default_rng(1), {})


def simulate(rng):
    """Counts far from where the prior starts, beyond the reach of the noise."""
    rate = rng.gamma(2.0, 150.0)
    x = rng.poisson(rate, size=(2, 3))
    release = MECHANISM.release(x, rng=rng)
    return {"rate": rate, "x": x}, release


def simulate_with_total(rng):
    truth, release = simulate(rng)
    return truth, bdp.Release(release.frame, release.measurements, (bdp.Exact(TOTAL, truth["x"].sum()),))


def build(release):
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2.0, 1.0 / 150.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims)
        bdp.observe(release, x)
    return model


def test_large_counts_beside_a_rate_that_nuts_draws():
    truth, release = simulate(np.random.default_rng(3))
    y = release.values.values.reshape(-1)
    law = Tulap(0.3, 1.0 - np.sqrt(1.0 - 1e-3))
    assert law.logpdf(0.2) == pytest.approx(release.measurements[0].law.log_density(0.2), abs=1e-12)
    k = np.arange(1500)
    with build(release):
        # The prior starts at rate 300, these counts are far from there.
        assert abs(truth["rate"] - 300.0) > 50.0
        found = bdp.sample(draws=3000, tune=500, chains=2, random_seed=4, **QUIET)
    drawn = found.posterior["x"].values.reshape(-1, 6)
    assert np.all(np.abs(drawn - y) <= law.support()[1])

    # Given the rate the cells are independent: sums over counts, and one integral over the rate.
    density = np.array([law.pdf(own - k) for own in y])

    def weight(rate):
        return gamma.pdf(rate, 2.0, scale=150.0) * np.prod(density @ poisson.pmf(k, rate) * 1e3)

    guess = y.mean()
    limits = (guess - 60.0, guess + 60.0)
    mass = quad(weight, *limits, limit=200)[0]
    mean = quad(lambda rate: rate * weight(rate), *limits, limit=200)[0] / mass
    variance = quad(lambda rate: (rate - mean) ** 2 * weight(rate), *limits, limit=200)[0] / mass
    rates = found.posterior["rate"].values.reshape(-1)
    # An effective sample size of 1000 of 6000; 5 standard errors of the mean, below 1e-6 for another seed.
    assert rates.mean() == pytest.approx(mean, abs=5.0 * np.sqrt(variance / 1000.0))
    assert rates.var() == pytest.approx(variance, rel=0.25)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(simulate, marks=pytest.mark.slow, id="nothing exact"),
        pytest.param(simulate_with_total, id="an exact total"),
    ],
)
def test_no_simulation_with_large_counts_fails_and_one_model_serves_all(draw):
    result = sbc(draw, build, ["rate", "x"], n=20, seed=5, draws=200, tune=200, progressbar=False)
    assert result["verdict"].attrs["failed"] == 0
    assert result["verdict"].attrs["calibrated"] == 1  # false alarm 0.01 for another seed
    assert result.attrs["model_reused"] == "True"


def test_steps_are_exact_conditional_and_starts_are_within_reach():
    _, release = simulate_with_total(np.random.default_rng(3))
    model = build(release)
    table = table_of(model)
    assert table.exact_conditional
    end = release.measurements[0].law.standard.support()[1]
    for seed in range(5):
        table.begin(model.initial_point(), np.random.default_rng(seed))
        assert np.all(np.abs(table.value - release.values.values) <= end)
        assert table.value.sum() == release.exact[0].values


@pytest.mark.parametrize("exact", [False, True])
def test_margins_with_missing_and_half_way_numbers_against_enumeration(exact):
    frame = {"row": ["a", "b"], "column": ["u", "v"]}
    law = bdp.noise.Tulap(0.7, 0.05)
    sums, cells = bdp.Margins(frame, ["row"]), bdp.Identity(frame)
    release = bdp.Release.from_published(
        frame,
        measured=[
            bdp.Measured(sums, [3.5, 1.2], law),
            bdp.Measured(cells, [[1.7, np.nan], [-0.4, 2.5]], law, unmeasured=[("a", "v")]),
        ],
        exact=[bdp.Exact(bdp.Totals(frame), 5)] if exact else [],
    )
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist([[2.0, 1.0], [0.5, 1.5]]), dims=release.dims)
        bdp.observe(release, x)
        assert table_of(model).exact_conditional
        found = bdp.sample(draws=6000, tune=100, chains=1, random_seed=7, **QUIET)
    weights = {}
    for own in product(range(12), repeat=4):
        counts = np.array(own).reshape(2, 2)
        if exact and counts.sum() != 5:
            continue
        noise = [3.5 - counts[0].sum(), 1.2 - counts[1].sum(), 1.7 - own[0], -0.4 - own[2], 2.5 - own[3]]
        density = law.standard.pdf(noise).prod() * poisson.pmf(own, [2.0, 1.0, 0.5, 1.5]).prod()
        if density > 0.0:
            weights[own] = density
    total = sum(weights.values())
    drawn, counts = np.unique(found.posterior["x"].values.reshape(-1, 4), axis=0, return_counts=True)
    seen = dict(zip(map(tuple, drawn.tolist()), counts.tolist(), strict=True))
    assert set(seen) <= set(weights)
    for own, weight in weights.items():
        p = weight / total
        if p > 0.01:
            # Single moves repeat themselves a little: half of the draws count; 5 standard errors.
            assert seen.get(own, 0) / 6000 == pytest.approx(p, abs=5.0 * np.sqrt(p * (1 - p) / 3000)), own


def test_parameters_that_are_variables():
    # Without delta epsilon may be free, and the steps are exact; with both, what the noise reaches is unknown.
    y = np.array([4.2, 7.4])
    for delta, exact in ((0.0, True), (0.01, False)):
        with pm.Model() as model:
            epsilon = pm.Uniform("epsilon", 0.2, 2.0)
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist([5.0, 6.0]))
            bdp.distributions.Tulap("noisy", x, epsilon, delta, observed=y)
        assert table_of(model).exact_conditional is exact
    with pm.Model() as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist([5.0, 6.0]))
        bdp.distributions.Tulap("noisy", x, [0.5, 1.0], [0.0, 0.05], observed=y)
    table = table_of(model)
    assert table.exact_conditional
    end = Tulap(1.0, 0.05).support()[1]
    low, high = np.ceil(7.4 - end), np.floor(7.4 + end)
    assert (table.target.fiber.system.lower[1], table.target.fiber.system.upper[1]) == (low, high)
    assert table.target.fiber.system.lower[0] == 0


def test_numbers_that_no_table_explains():
    law = bdp.noise.Tulap(1.0, 0.1)
    release = bdp.Release.from_published(
        TABLE, measured=[bdp.Measured(bdp.Identity(TABLE), np.full((2, 3), -9.0), law)]
    )
    with (
        build(release),
        pytest.raises(
            ValueError,
            match=r"noise of bounded support cannot have made .*noisy row=.*published -9 with noise of at most",
        ),
    ):
        bdp.sample(draws=10, tune=10, chains=1, **QUIET)
    release = bdp.Release.from_published(
        TABLE, measured=[bdp.Measured(bdp.Identity(TABLE), np.full((2, 3), 9.0), law)], exact=[bdp.Exact(TOTAL, 3)]
    )
    with build(release), pytest.raises(ValueError, match=r"no table is left for x"):
        bdp.sample(draws=10, tune=10, chains=1, **QUIET)


def test_given_counts_beyond_reach_have_no_density():
    _, release = simulate(np.random.default_rng(3))
    model = build(release)
    given = pm.do(model, {"x": np.zeros((2, 3), dtype=np.int64)})
    value = given.compile_logp(vars=[given["noisy"]])({"rate_log__": 0.0})
    assert value == -np.inf
    free = model.compile_logp(vars=[model["noisy"]])
    point = model.initial_point()
    assert np.isfinite(free(point | {"x": np.zeros((2, 3), dtype=np.int64)}))


def test_a_start_that_the_rest_of_the_model_allows_is_not_scattered_away():
    # A law that the kernel does not know, of small support: from 30 away no random walk finds it.
    start = np.array([[300, 310, 320], [330, 340, 350]])
    with pm.Model():
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(np.full((2, 3), 200.0)))
        pm.Potential("near", pm.math.switch(pm.math.all(abs(x - start) <= 1), 0.0, -np.inf))
        found = bdp.sample(draws=50, tune=10, chains=1, random_seed=1, initvals={"x": start}, **QUIET)
    assert np.all(np.abs(found.posterior["x"].values - start) <= 1)

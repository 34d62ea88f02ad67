"""Canonical noise of bounded support about counts: exact steps, starts within reach, posteriors against enumeration."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy.stats import poisson

import bayesdp as bdp
from bayesdp.calibration import sbc
from bayesdp.mechanisms import CanonicalNoise
from bayesdp.privacy.canonical import Tulap
from bayesdp.steps.fiber_gibbs import CountTable
from tests.inference.oracle import Exactly, counts_model, noisy_cells, sample
from tests.refusals import refused

TABLE = {"row": ["a", "b"], "column": ["u", "v", "w"]}
TOTAL = bdp.Totals(TABLE)
MECHANISM = CanonicalNoise(TABLE, epsilon=0.6, delta=1e-3)


def table_of(model, name="x"):
    return CountTable(model, model.rvs_to_values[model[name]], np.random.default_rng(1), {})


def simulate(rng):
    """Counts far from where the prior starts, beyond the reach of the noise, and their total."""
    rate = rng.gamma(2.0, 150.0)
    x = rng.poisson(rate, size=(2, 3))
    release = MECHANISM.release(x, rng=rng)
    return {"rate": rate, "x": x}, bdp.Release(release.frame, release.measurements, (bdp.Exact(TOTAL, x.sum()),))


def build(release):
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2.0, 1.0 / 150.0)
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims))
    return model


@pytest.mark.system
def test_no_simulation_with_large_counts_fails_and_one_model_serves_all():
    result = sbc(simulate, build, ["rate", "x"], n=8, seed=5, draws=100, tune=100, progressbar=False)
    assert result["verdict"].attrs["failed"] == 0
    assert result.attrs["model_reused"] == "True"


def test_steps_are_exact_conditional_starts_are_within_reach_and_given_counts_beyond_it_have_no_density():
    _, release = simulate(np.random.default_rng(3))
    model = build(release)
    table = table_of(model)
    assert table.exact_conditional
    law = Tulap(0.3, 1.0 - np.sqrt(1.0 - 1e-3))
    assert law.logpdf(0.2) == pytest.approx(release.measurements[0].law.log_density(0.2), abs=1e-12)
    end = law.support()[1]
    for seed in range(5):
        table.begin(model.initial_point(), np.random.default_rng(seed))
        assert np.all(np.abs(table.value - release.values.values) <= end)
        assert table.value.sum() == release.exact[0].values
    beyond = {"x": np.zeros((2, 3), dtype=np.int64)}
    given = pm.do(model, beyond)
    assert given.compile_logp(vars=[given["noisy"]])({"rate_log__": 0.0}) == -np.inf
    free = model.compile_logp(vars=[model["noisy"]])
    assert np.isfinite(free(model.initial_point() | beyond))


@pytest.mark.parametrize("exact", [False, True])
def test_margins_with_missing_and_half_way_numbers_against_enumeration(exact):
    frame = {"row": ["a", "b"], "column": ["u", "v"]}
    law, rate = bdp.noise.Tulap(0.7, 0.05), np.array([[2.0, 1.0], [0.5, 1.5]])
    rows = bdp.Measured(bdp.Margins(frame, ["row"]), [3.5, 1.2], law)
    cells = bdp.Measured(bdp.Identity(frame), [[1.7, np.nan], [-0.4, 2.5]], law, unmeasured=[("a", "v")])
    release = bdp.Release.from_published(frame, [rows, cells], [bdp.Exact(bdp.Totals(frame), 5)] * exact)

    def logs(tables):
        (a, b), (c, d) = np.moveaxis(tables, 0, -1)
        noise = np.array([3.5 - a - b, 1.2 - c - d, 1.7 - a, -0.4 - c, 2.5 - d])
        with np.errstate(divide="ignore"):
            return np.log(law.standard.pdf(noise)).sum(axis=0) + poisson.logpmf(tables, rate).sum(axis=(1, 2))

    tables = np.array(list(product(range(12), repeat=4))).reshape(-1, 2, 2)
    tables = tables[tables.sum(axis=(1, 2)) == 5] if exact else tables[np.isfinite(logs(tables))]
    case = Exactly(counts_model(release, pm.Poisson.dist(rate)), tables, logs)
    case.check_densities()
    if exact:
        assert not np.isfinite(logs(tables)).all()
    else:
        case.check_draws(draws=700, tune=50)


def test_parameters_that_are_variables():
    # Without delta epsilon may be free, and the steps are exact; with both, what the noise reaches is unknown.
    for epsilon, delta, exact in ((None, 0.0, True), (None, 0.01, False), ([0.5, 1.0], [0.0, 0.05], True)):
        with pm.Model() as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist([5.0, 6.0]))
            own = epsilon or pm.Uniform("epsilon", 0.2, 2.0)
            bdp.distributions.Tulap("noisy", x, own, delta, observed=np.array([4.2, 7.4]))
        table = table_of(model)
        assert table.exact_conditional is exact
    system, end = table.target.fiber.system, Tulap(1.0, 0.05).support()[1]
    assert (system.lower[1], system.upper[1]) == (np.ceil(7.4 - end), np.floor(7.4 + end))
    assert system.lower[0] == 0


def unexplained(published, *total):
    sample(build(noisy_cells(TABLE, np.full((2, 3), published), bdp.noise.Tulap(1.0, 0.1), *total)), 10, tune=10)


test_numbers_that_no_table_explains = refused(
    ([-9.0], "noise of bounded support cannot have made .*noisy row=.*published -9 with noise of at most"),
    ([9.0, bdp.Exact(TOTAL, 3)], "no table is left for x"),
    of=lambda given: unexplained(*given),
)


def test_a_start_that_the_rest_of_the_model_allows_is_not_scattered_away():
    # A law that the kernel does not know, of small support: from 30 away no random walk finds it.
    start = np.array([[300, 310, 320], [330, 340, 350]])
    with pm.Model() as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(np.full((2, 3), 200.0)))
        pm.Potential("near", pm.math.switch(pm.math.all(abs(x - start) <= 1), 0.0, -np.inf))
    found = sample(model, 50, tune=10, chains=1, initvals={"x": start})
    assert np.all(np.abs(found.posterior["x"].values - start) <= 1)

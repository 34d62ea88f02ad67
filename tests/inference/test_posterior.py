"""Posteriors through ``pm.sample`` against enumeration and quadrature: every base, and other terms of the model.

False alarms: see `oracle.STANDARD_ERRORS`.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayesdp as bdp
from bayesdp import noise
from tests.inference.oracle import (
    GRID,
    assert_posterior,
    counts_model,
    is_exact_conditional,
    laplace,
    log_binomial,
    log_negative_binomial,
    log_poisson,
    posterior_of,
    sample,
    tables_of,
    three_counties,
)


class TestFastFamilies:
    """The prior depends on a parameter that NUTS moves."""

    def test_poisson_with_a_shared_slope(self):
        release = three_counties()
        z = np.array([-1.0, 0.0, 1.5])
        with pm.Model(coords=release.coords) as model:
            slope = pm.Normal("slope", 0.0, 1.0)
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(pm.math.exp(0.3 + slope * z)), dims="county")
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.linspace(-5, 5, 801)
        prior = log_poisson(tables[:, None, :], np.exp(0.3 + grid[:, None] * z)).sum(axis=-1)
        joint = posterior_of(prior + laplace(tables)[:, None] - grid**2 / 2)
        assert is_exact_conditional(model)
        assert_posterior(sample(model), tables, joint, theta="slope", grid=grid)

    def test_what_the_exact_total_says_about_the_rate_is_used(self):
        # Given the total, the rate has a Gamma(2 + 7, 0.5 + 3) posterior whatever the noise; a prior renormalised over
        # the fiber would leave it at Gamma(2, 0.5).
        release = three_counties()
        with pm.Model(coords=release.coords) as model:
            rate = pm.Gamma("rate", 2.0, 0.5)
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="county")
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.linspace(1e-3, 12, 1201)
        log_rate = stats.gamma(9.0, scale=1 / 3.5).logpdf(grid)
        log_tables = laplace(tables) - special.gammaln(tables + 1.0).sum(axis=1)
        joint = posterior_of(log_tables[:, None] + log_rate)
        assert_posterior(sample(model), tables, joint, theta="rate", grid=grid)

    @pytest.mark.system
    def test_negative_binomial_with_unknown_shape(self):
        # The shape goes to both sides of 1: log-concave and not.
        release = three_counties()
        mu = np.array([2.0, 1.0, 4.0])
        with pm.Model(coords=release.coords) as model:
            alpha = pm.LogNormal("alpha", -0.3, 1.0)
            x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=mu, alpha=alpha), dims="county")
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.exp(np.linspace(-6, 5, 1001))
        prior = log_negative_binomial(tables[:, None, :], mu, grid[:, None]).sum(axis=-1)
        # The grid is even in log(alpha), whose prior is normal.
        joint = posterior_of(prior + laplace(tables)[:, None] - (np.log(grid) + 0.3) ** 2 / 2)
        assert 0.2 < joint[:, grid < 1].sum() < 0.8
        assert is_exact_conditional(model)
        assert_posterior(sample(model, draws=3000), tables, joint, theta="alpha", grid=grid)

    @pytest.mark.system
    def test_binomial_with_unknown_probability_and_a_small_n(self):
        # n = 4 cuts the fiber, and the noisy table lies outside of the cut.
        release = three_counties(values=[9, -1, 0])
        weight = np.array([1.0, 0.5, 0.8])
        with pm.Model(coords=release.coords) as model:
            p = pm.Beta("p", 2.0, 2.0)
            x = bdp.ConfidentialCounts("x", pm.Binomial.dist(n=4, p=p * weight), dims="county")
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.linspace(1e-4, 1 - 1e-4, 801)
        prior = log_binomial(tables[:, None, :], 4, grid[:, None] * weight).sum(axis=-1)
        logs = prior + laplace(tables, [9, -1, 0])[:, None] + stats.beta(2, 2).logpdf(grid)
        assert is_exact_conditional(model)
        assert_posterior(sample(model), tables, posterior_of(logs), theta="p", grid=grid)

    @pytest.mark.system
    def test_dirichlet_multinomial_with_unknown_concentration(self):
        release = three_counties()
        with pm.Model(coords=release.coords) as model:
            a = pm.LogNormal("a", -1.0, 1.0)
            x = bdp.ConfidentialCounts(
                "x", pm.DirichletMultinomial.dist(n=7, a=a * np.array([1.0, 2.0, 0.5])), dims="county"
            )
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.exp(np.linspace(-7, 5, 801))
        shapes = grid[:, None] * np.array([1.0, 2.0, 0.5])
        prior = stats_dirichlet_multinomial(tables[:, None, :], shapes)
        joint = posterior_of(prior + laplace(tables)[:, None] - (np.log(grid) + 1) ** 2 / 2)
        assert is_exact_conditional(model)
        assert_posterior(sample(model, draws=3000), tables, joint, theta="a", grid=grid)

    @pytest.mark.system
    def test_multinomial_rows_of_a_table(self):
        # Row totals exact and multinomial within rows, probabilities from a parameter; column totals exact as well.
        rows, columns = bdp.Margins(GRID, ["county"]), bdp.Margins(GRID, ["education"])
        release = bdp.Release.from_published(
            GRID,
            measured=[bdp.Measured(rows + columns, [7, 5, 5, 4, 3], noise.DiscreteGaussian(sigma=2.0))],
            exact=[bdp.Exact(rows, [6, 5]), bdp.Exact(columns, [5, 4, 2])],
        )
        tilt = np.array([[0.0, 1.0, 0.5], [0.2, -0.5, 1.0]])
        with pm.Model(coords=release.coords) as model:
            t = pm.Normal("t", 0.0, 1.0)
            p = pm.math.softmax(t * tilt, axis=-1)
            x = bdp.ConfidentialCounts("x", pm.Multinomial.dist(n=np.array([6, 5]), p=p), dims=("county", "education"))
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.linspace(-5, 5, 601)
        logp = special.log_softmax(grid[:, None, None] * tilt, axis=-1)
        prior = (tables[:, None] * logp - special.gammaln(tables[:, None] + 1.0)).sum(axis=(-1, -2))
        assert is_exact_conditional(model)
        assert_posterior(sample(model), tables, posterior_of(prior - grid**2 / 2), theta="t", grid=grid)


def stats_dirichlet_multinomial(tables, shapes):
    total = shapes.sum(axis=-1)
    return (
        (special.gammaln(tables + shapes) - special.gammaln(shapes) - special.gammaln(tables + 1.0)).sum(axis=-1)
        + special.gammaln(total)
        - special.gammaln(total + tables.sum(axis=-1))
    )


@pytest.mark.system
class TestOtherTermsOfTheModel:
    """What the kernel does not know is accounted for by accepting or rejecting."""

    def test_a_base_without_fast_steps(self):
        release = three_counties()
        with pm.Model(coords=release.coords) as model:
            psi = pm.Beta("psi", 2.0, 2.0)
            x = bdp.ConfidentialCounts("x", pm.ZeroInflatedPoisson.dist(psi=psi, mu=3.0, shape=3), dims="county")
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.linspace(1e-4, 1 - 1e-4, 801)
        each = np.log(
            grid[:, None] * np.exp(log_poisson(tables[:, None, :], np.array(3.0)))
            + (1 - grid[:, None]) * (tables[:, None, :] == 0)
        )
        joint = posterior_of(each.sum(axis=-1) + laplace(tables)[:, None] + stats.beta(2, 2).logpdf(grid))
        assert not is_exact_conditional(model)
        assert_posterior(sample(model, fiber_gibbs={"sweeps": 4}), tables, joint, theta="psi", grid=grid)

    def test_a_base_with_bounds_of_its_own(self):
        # The noisy table and so the first point lie outside of 0 .. 4.
        release = three_counties(values=[9, -1, 0])
        model = counts_model(release, pm.DiscreteUniform.dist(0, 4, shape=3))
        tables = tables_of(release)
        logs = np.where((tables <= 4).all(axis=1), laplace(tables, [9, -1, 0]), -np.inf)
        assert_posterior(sample(model, tune=100, fiber_gibbs={"sweeps": 6}), tables, posterior_of(logs))

    def test_a_second_likelihood_and_a_potential(self):
        # Every counted person answers a survey with probability q; and a judgement about two of the cells.
        release = three_counties()
        with pm.Model(coords=release.coords) as model:
            q = pm.Beta("q", 3.0, 2.0)
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0, shape=3), dims="county")
            bdp.observe(release, x)
            pm.Binomial("answers", n=x, p=q, observed=[2, 0, 1])
            pm.Potential("judgement", -0.3 * (x[0] - x[1] - 1) ** 2)
        tables, grid = tables_of(release), np.linspace(1e-4, 1 - 1e-4, 801)
        inside = (tables >= [2, 0, 1]).all(axis=1)
        tables = tables[inside]
        logs = log_poisson(tables, np.array(2.0)).sum(axis=1) + laplace(tables)
        logs = logs - 0.3 * (tables[:, 0] - tables[:, 1] - 1.0) ** 2
        survey = sum(
            log_binomial(np.array(o), tables[:, i, None].astype(float), grid) for i, o in enumerate([2.0, 0.0, 1.0])
        )
        joint = posterior_of(logs[:, None] + survey + stats.beta(3, 2).logpdf(grid))
        assert_posterior(sample(model, fiber_gibbs={"sweeps": 4}), tables, joint, theta="q", grid=grid)

    def test_a_free_child_of_the_counts(self):
        # Another latent variable depends on the counts, and is observed in turn; it is sampled by NUTS.
        release = three_counties()
        with pm.Model(coords=release.coords) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0, shape=3), dims="county")
            cost = pm.Normal("cost", 2.0 * x[0] - x[2], 3.0)
            pm.Normal("bill", cost, 2.0, observed=9.0)
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.linspace(-25, 30, 1101)
        mean = 2.0 * tables[:, 0] - tables[:, 2]
        logs = log_poisson(tables, np.array(2.0)).sum(axis=1) + laplace(tables)
        joint = posterior_of(logs[:, None] - (grid - mean[:, None]) ** 2 / 18 - (grid - 9.0) ** 2 / 8)
        assert_posterior(sample(model, draws=4000, fiber_gibbs={"sweeps": 4}), tables, joint, theta="cost", grid=grid)

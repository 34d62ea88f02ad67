"""Posteriors through ``pm.sample`` against enumeration and quadrature: step method, NUTS, reading of the model.

False alarms: see `oracle.STANDARD_ERRORS`.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayesdp as bdp
from bayesdp import noise
from bayesdp.inference import FiberGibbs
from tests.inference.oracle import (
    GRID,
    LINE,
    assert_posterior,
    log_binomial,
    log_negative_binomial,
    log_poisson,
    posterior_of,
    sample,
    tables_of,
)

NOISY = np.array([4, 0, 3])


def three_counties(total: int = 7, law: noise.NoiseLaw | None = None, values=NOISY) -> bdp.Release:
    """Three cells, their sum exact (36 tables), and noisy counts."""
    return bdp.Release.from_published(
        LINE,
        measured=[bdp.Measured(bdp.Identity(LINE), values, law or noise.DiscreteLaplace(b=2.0))],
        exact=[bdp.Exact(bdp.Totals(LINE), total)],
    )


def laplace(tables, values=NOISY, b=2.0):
    return -(np.abs(tables - values) / b).reshape(len(tables), -1).sum(axis=1)


def is_exact_conditional(model: pm.Model) -> bool:
    """Whether the kernel knows every term (no accepting or rejecting)."""
    with model:
        step = FiberGibbs()
    return all(table.exact_conditional for table in step.tables)


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
        with pm.Model(coords=release.coords) as model:
            x = bdp.ConfidentialCounts("x", pm.DiscreteUniform.dist(0, 4, shape=3), dims="county")
            bdp.observe(release, x)
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
        # Another latent variable depends on the counts; it is sampled by NUTS.
        release = three_counties()
        with pm.Model(coords=release.coords) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0, shape=3), dims="county")
            pm.Normal("cost", 2.0 * x[0] - x[2], 3.0)
            bdp.observe(release, x)
        tables, grid = tables_of(release), np.linspace(-25, 30, 1101)
        mean = 2.0 * tables[:, 0] - tables[:, 2]
        logs = log_poisson(tables, np.array(2.0)).sum(axis=1) + laplace(tables)
        joint = posterior_of(logs[:, None] - (grid - mean[:, None]) ** 2 / 18)
        assert_posterior(sample(model, draws=4000, fiber_gibbs={"sweeps": 4}), tables, joint, theta="cost", grid=grid)


class TestReleases:
    """Everything that may be published about a table."""

    def test_several_noisy_queries_unmeasured_cells_and_limits(self):
        identity, rows, total = bdp.Identity(GRID), bdp.Margins(GRID, ["county"]), bdp.Totals(GRID)
        columns = bdp.Margins(GRID, ["education"])
        b = np.array([[1.0, 2.0, 3.0], [2.0, 1.5, 0.7]])
        values = np.array([[3.0, 0.0, np.nan], [1.0, 4.0, 2.0]])
        release = bdp.Release.from_published(
            GRID,
            measured=[
                bdp.Measured(identity, values, noise.DiscreteLaplace(b=b), unmeasured=[("p", "high")]),
                bdp.Measured(identity, values + 1, noise.DiscreteLaplace(b=4.0), unmeasured=[("p", "high")]),
                bdp.Measured(rows, [6, 5], noise.DiscreteGaussian(sigma=np.array([1.5, 3.0]))),
                bdp.Measured(total, 12, noise.DiscreteLaplace(b=1.0)),
            ],
            exact=[bdp.Exact(columns, [4, 4, 3]), bdp.Exact(rows, [3, 4], ">=")],
        )
        with pm.Model(coords=release.coords) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0), dims=("county", "education"))
            bdp.observe(release, x)
        tables = tables_of(release)
        seen = ~np.isnan(values)
        first = -(np.abs(tables - values) / b)[:, seen].sum(axis=1) - (np.abs(tables - values - 1) / 4)[:, seen].sum(
            axis=1
        )
        second = -((tables.sum(axis=2) - [6, 5]) ** 2 / (2 * np.array([1.5, 3.0]) ** 2)).sum(axis=1)
        third = -np.abs(tables.sum(axis=(1, 2)) - 12.0)
        logs = first + second + third + log_poisson(tables, np.array(2.0)).sum(axis=(1, 2))
        assert is_exact_conditional(model)
        assert_posterior(sample(model, tune=50), tables, posterior_of(logs))

    def test_several_releases_and_two_tables_with_a_common_parameter(self):
        groups = {"county": ["p", "q", "r", "s"], "state": ("county", ["N", "N", "S", "S"])}
        first = bdp.Release.from_published(
            groups,
            measured=[bdp.Measured(bdp.Identity(groups), [2, 3, 1, 0], noise.DiscreteGaussian(sigma=1.5))],
            exact=[bdp.Exact(bdp.Totals(groups, "state"), [5, 3])],
        )
        second = bdp.Release.from_published(
            {"county": ["p", "q", "r", "s"]},
            measured=[bdp.Measured(bdp.Totals({"county": ["p", "q", "r", "s"]}), 9, noise.DiscreteLaplace(b=3.0))],
            exact=[bdp.Exact(bdp.LinearQuery({"county": ["p", "q", "r", "s"]}, [[1, 0, 1, 0]], ["p and r"]), [4])],
        )
        other = three_counties()
        with pm.Model(coords={**first.coords, "place": ["p", "q", "r"]}) as model:
            rate = pm.Gamma("rate", 3.0, 1.0)
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="county")
            bdp.observe(first, x)
            bdp.observe(second, x)
            z = bdp.ConfidentialCounts("z", pm.Poisson.dist(2 * rate, shape=3))
            bdp.observe(other, z)
        tables, others = tables_of(first, *second.exact), tables_of(other)
        grid = np.linspace(1e-3, 12, 801)

        def logs(t, noisy, factor):
            return log_poisson(t[:, None, :], factor * grid[:, None]).sum(axis=-1) + noisy[:, None]

        of_x = logs(tables, -((tables - [2, 3, 1, 0]) ** 2 / 4.5).sum(axis=1), 1.0)
        of_z = logs(others, laplace(others), 2.0)
        prior = stats.gamma(3.0).logpdf(grid)
        tree = sample(model)
        assert is_exact_conditional(model)
        assert_posterior(
            tree, tables, posterior_of(of_x + special.logsumexp(of_z, axis=0) + prior), theta="rate", grid=grid
        )
        assert_posterior(
            tree,
            others,
            posterior_of(of_z + special.logsumexp(of_x, axis=0) + prior),
            name="z",
            theta="rate",
            grid=grid,
        )

    def test_every_law_on_the_cells(self):
        # One model, a table for each law; equal prior weights.
        published = np.array([4, 0, 3])
        laws = {
            "a": (noise.LatticeLaplace(epsilon=0.4), lambda r: -0.4 * np.abs(r).sum(axis=1)),
            "b": (noise.LatticeLaplace(epsilon=0.5, norm="l2"), lambda r: -0.5 * np.sqrt((r**2).sum(axis=1))),
            "c": (noise.LatticeGaussian(sigma=2.0), lambda r: -(r**2).sum(axis=1) / 8),
            "d": (noise.ProjectedGaussian(sigma=1.5), lambda r: -(r**2).sum(axis=1) / 4.5),
            "e": (noise.DiscreteGaussian(sigma=1.0), lambda r: -(r**2).sum(axis=1) / 2),
            "f": (noise.DiscreteLaplace(b=2.0), lambda r: -np.abs(r).sum(axis=1) / 2),
        }
        with pm.Model(coords=LINE) as model:
            for name, (law, _) in laws.items():
                values = published + (np.array([0.4, -0.1, -0.3]) if law.name == "projected-gaussian" else 0)
                release = three_counties(law=law, values=values)
                bdp.observe(release, bdp.FlatCounts(name, dims="county"))
        tables = tables_of(release)
        tree = sample(model, tune=50)
        for name, (law, log_law) in laws.items():
            values = published + (np.array([0.4, -0.1, -0.3]) if law.name == "projected-gaussian" else 0)
            assert_posterior(tree, tables, posterior_of(log_law(tables - values)), name=name)

    def test_unknown_noise_scale(self):
        # The law's normaliser matters when its scale is a parameter.
        with pm.Model(coords=LINE) as model:
            b = pm.LogNormal("b", 0.0, 0.7)
            x = bdp.FlatCounts("x", dims="county")
            total = bdp.Exact(bdp.Totals(LINE), 7)
            bdp.observe(bdp.Release.from_published(LINE, measured=[], exact=[total]), x)
            bdp.distributions.DiscreteLaplace("y", mu=x, b=b, observed=np.array([5, -1, 2]))
        tables, grid = tables_of(three_counties()), np.exp(np.linspace(-5, 5, 801))
        norm = np.log(np.tanh(0.5 / grid))
        logs = laplace(tables, [5, -1, 2], b=1.0)[:, None] / grid + 3 * norm - np.log(grid) ** 2 / (2 * 0.49)
        assert is_exact_conditional(model)
        assert_posterior(sample(model), tables, posterior_of(logs), theta="b", grid=grid)


class TestPriorZeros:
    """Cells that the prior says are empty."""

    def test_zero_rates_are_structural_zeros(self):
        # Zero rates on the diagonal of a 3x3 table: no 2x2 move is left, only 6-cycles.
        frame = {"a": [0, 1, 2], "b": [0, 1, 2]}
        truth = np.array([[0, 3, 2], [1, 0, 4], [2, 1, 0]])
        queries = [bdp.Margins(frame, [d]) for d in frame]
        release = bdp.Release.from_published(
            frame,
            measured=[bdp.Measured(bdp.Identity(frame), truth + 2, noise.DiscreteLaplace(b=3.0))],
            exact=[bdp.Exact(q, q.apply(truth)) for q in queries],
        )
        rate = 2.0 * (1.0 - np.eye(3))
        with pm.Model(coords=frame) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=("a", "b"))
            bdp.observe(release, x)
        tables = tables_of(release)
        tables = tables[tables[:, [0, 1, 2], [0, 1, 2]].sum(axis=1) == 0]
        assert len(tables) == 4
        logs = laplace(tables, truth + 2, 3.0) - special.gammaln(tables + 1.0).sum(axis=(1, 2))
        assert_posterior(sample(model, tune=50), tables, posterior_of(logs))

    def test_zeros_that_leave_no_table_are_an_error(self):
        release = three_counties()
        with pm.Model(coords=LINE) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(np.zeros(3)), dims="county")
            bdp.observe(release, x)
        with pytest.raises(ValueError, match="prior"):
            sample(model)

"""Posteriors through ``pm.sample`` against enumeration: everything that may be published about a table.

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
    LINE,
    assert_posterior,
    counts_model,
    is_exact_conditional,
    laplace,
    log_poisson,
    posterior_of,
    sample,
    tables_of,
    three_counties,
)

pytestmark = pytest.mark.system


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
        model = counts_model(release, pm.Poisson.dist(2.0))
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

"""Posteriors against enumeration: everything that may be published about a table.

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
    Exactly,
    assert_posterior,
    counts_model,
    laplace,
    posterior_of,
    sample,
    tables_of,
    three_counties,
)


def test_several_noisy_queries_unmeasured_cells_and_limits():
    identity, rows, columns = bdp.Identity(GRID), bdp.Margins(GRID, ["county"]), bdp.Margins(GRID, ["education"])
    b, sigma = np.array([[1.0, 2.0, 3.0], [2.0, 1.5, 0.7]]), np.array([1.5, 3.0])
    values = np.array([[3.0, 0.0, np.nan], [1.0, 4.0, 2.0]])
    release = bdp.Release.from_published(
        GRID,
        measured=[
            bdp.Measured(identity, values, noise.DiscreteLaplace(b=b), unmeasured=[("p", "high")]),
            bdp.Measured(identity, values + 1, noise.DiscreteLaplace(b=4.0), unmeasured=[("p", "high")]),
            bdp.Measured(rows, [6, 5], noise.DiscreteGaussian(sigma=sigma)),
            bdp.Measured(bdp.Totals(GRID), 12, noise.DiscreteLaplace(b=1.0)),
        ],
        exact=[bdp.Exact(columns, [4, 4, 3]), bdp.Exact(rows, [3, 4], ">=")],
    )

    def logs(tables):
        cells = -np.nansum(np.abs(tables - values) / b + np.abs(tables - values - 1) / 4, axis=(1, 2))
        sums = -np.square((tables.sum(axis=2) - [6, 5]) / sigma).sum(axis=1) / 2 - np.abs(tables.sum(axis=(1, 2)) - 12)
        return cells + sums + stats.poisson.logpmf(tables, 2.0).sum(axis=(1, 2))

    case = Exactly(counts_model(release, pm.Poisson.dist(2.0)), tables_of(release), logs)
    case.check_densities()
    case.check_draws(tune=50)


@pytest.mark.system
def test_several_releases_and_two_tables_with_a_common_parameter():
    groups = {"county": ["p", "q", "r", "s"], "state": ("county", ["N", "N", "S", "S"])}
    counties = {"county": groups["county"]}
    first = bdp.Release.from_published(
        groups,
        measured=[bdp.Measured(bdp.Identity(groups), [2, 3, 1, 0], noise.DiscreteGaussian(sigma=1.5))],
        exact=[bdp.Exact(bdp.Totals(groups, "state"), [5, 3])],
    )
    second = bdp.Release.from_published(
        counties,
        measured=[bdp.Measured(bdp.Totals(counties), 9, noise.DiscreteLaplace(b=3.0))],
        exact=[bdp.Exact(bdp.LinearQuery(counties, [[1, 0, 1, 0]], ["p and r"]), [4])],
    )
    other = three_counties()
    with pm.Model(coords={**first.coords, "place": ["p", "q", "r"]}) as model:
        rate = pm.Gamma("rate", 3.0, 1.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="county")
        bdp.observe(first, x)
        bdp.observe(second, x)
        bdp.observe(other, bdp.ConfidentialCounts("z", pm.Poisson.dist(2 * rate, shape=3)))
    tables, others, grid = tables_of(first, *second.exact), tables_of(other), np.linspace(1e-3, 12, 801)

    def logs(t, noisy, factor):
        return stats.poisson.logpmf(t[:, None, :], factor * grid[:, None]).sum(axis=-1) + noisy[:, None]

    of_x = logs(tables, -((tables - [2, 3, 1, 0]) ** 2 / 4.5).sum(axis=1), 1.0)
    of_z = logs(others, laplace(others), 2.0)
    prior, tree = stats.gamma(3.0).logpdf(grid), sample(model)
    given_z, given_x = (special.logsumexp(own, axis=0) + prior for own in (of_z, of_x))
    assert_posterior(tree, tables, posterior_of(of_x + given_z), theta="rate", grid=grid)
    assert_posterior(tree, others, posterior_of(of_z + given_x), name="z", theta="rate", grid=grid)


def test_unknown_noise_scale():
    """The law's normaliser matters when its scale is a parameter."""
    with pm.Model(coords=LINE) as model:
        b = pm.LogNormal("b", 0.0, 0.7)
        x = bdp.FlatCounts("x", dims="county")
        bdp.observe(bdp.Release.from_published(LINE, measured=[], exact=[bdp.Exact(bdp.Totals(LINE), 7)]), x)
        bdp.distributions.DiscreteLaplace("y", mu=x, b=b, observed=np.array([5, -1, 2]))

    def logs(tables, b):
        return laplace(tables, [5, -1, 2], b) + 3 * np.log(np.tanh(0.5 / b)) + stats.lognorm.logpdf(b, 0.7)

    Exactly(model, tables_of(three_counties()), logs, "b", np.exp(np.linspace(-5, 5, 401))).check_densities()


def test_zero_rates_are_structural_zeros():
    """Zero rates on the diagonal of a 3x3 table: no 2x2 move is left, only 6-cycles."""
    frame = {"a": [0, 1, 2], "b": [0, 1, 2]}
    truth = np.array([[0, 3, 2], [1, 0, 4], [2, 1, 0]])
    release = bdp.Release.from_published(
        frame,
        measured=[bdp.Measured(bdp.Identity(frame), truth + 2, noise.DiscreteLaplace(b=3.0))],
        exact=[bdp.Exact(q, q.apply(truth)) for q in (bdp.Margins(frame, ["a"]), bdp.Margins(frame, ["b"]))],
    )
    model = counts_model(release, pm.Poisson.dist(2.0 * (1.0 - np.eye(3))))
    tables = tables_of(release)
    tables = tables[tables[:, [0, 1, 2], [0, 1, 2]].sum(axis=1) == 0]
    assert len(tables) == 4

    def logs(tables):
        return laplace(tables, truth + 2, 3.0) - special.gammaln(tables + 1.0).sum(axis=(1, 2))

    Exactly(model, tables, logs).check_draws(tune=50)


def test_zeros_that_leave_no_table_are_an_error():
    with pytest.raises(ValueError, match="prior"):
        sample(counts_model(three_counties(), pm.Poisson.dist(np.zeros(3))))

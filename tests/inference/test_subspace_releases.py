"""Posteriors given real noise on the space that invariants leave free, against enumeration.

The densities here are written out for their small cases: Helmert contrasts by hand, row-space noise by quadrature.
False alarms: see `oracle.STANDARD_ERRORS`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from scipy import integrate

import bayesdp as bdp
from bayesdp import noise
from tests.inference.oracle import (
    GRID,
    LINE,
    assert_posterior,
    counts_model,
    is_exact_conditional,
    log_poisson,
    posterior_of,
    sample,
    tables_of,
)

pytestmark = pytest.mark.system

TOTAL = bdp.Totals(LINE)
# Coordinates of three cells with a known sum, by the rule helmert-1.
HELMERT = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
COVARIANCE = np.array([[6.0, 2.0], [2.0, 3.0]])
NOISY = np.array([4.5, -0.75, 3.25])


def _projected_laplace(residuals, b):
    """Density up to a constant: all noise that is projected to the residual, by quadrature along (1, 1, 1)."""

    def one(residual):
        knots = np.sort(-residual)
        pieces = [-np.inf, *knots, np.inf]
        return sum(
            integrate.quad(lambda w: np.exp(-np.abs(residual + w).sum() / b), low, high)[0]
            for low, high in pairwise(pieces)
        )

    return np.log([one(r) for r in residuals])


LAWS = {
    "projected gaussian": (noise.ProjectedGaussian(sigma=2.0), lambda r: -(r**2).sum(axis=1) / 8),
    "projected laplace": (noise.ProjectedLaplace(b=1.5), lambda r: _projected_laplace(r, 1.5)),
    "extended laplace": (noise.ExtendedLaplace(b=1.5), lambda r: -np.abs(r @ HELMERT.T).sum(axis=1) / 1.5),
    "correlated gaussian": (
        noise.CorrelatedGaussian(COVARIANCE),
        lambda r: -0.5 * np.einsum("ti,ij,tj->t", r @ HELMERT.T, np.linalg.inv(COVARIANCE), r @ HELMERT.T),
    ),
    # The hull of the differences of two unit vectors: half of the l1 norm.
    "k-norm": (
        noise.KNorm(0.8, HELMERT.T[[0, 0, 1]] - HELMERT.T[[1, 2, 2]]),
        lambda r: -0.8 * np.abs(r).sum(axis=1) / 2,
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_every_law_on_the_cells(name):
    law, log_density = LAWS[name]
    release = bdp.Release.from_published(
        LINE, measured=[bdp.Measured(bdp.Identity(LINE), NOISY, law)], exact=[bdp.Exact(TOTAL, 7)]
    )
    model = counts_model(release, pm.Poisson.dist([1.0, 2.0, 3.0]))
    tables = tables_of(release)
    logs = log_density(NOISY - tables) + log_poisson(tables, np.array([1.0, 2.0, 3.0])).sum(axis=1)
    assert is_exact_conditional(model) == (name != "k-norm")
    assert_posterior(sample(model, tune=100), tables, posterior_of(logs))


def test_noise_on_a_margin_and_on_stacked_queries():
    # A margin whose sum is exact, and at the same time cells stacked with a margin: their relations hold for the noise too.
    counties, columns = bdp.Margins(GRID, ["county"]), bdp.Margins(GRID, ["education"])
    stacked = bdp.Identity(GRID) + counties
    table = np.array([[2, 0, 1], [1, 3, 0]])
    rng = np.random.default_rng(3)
    invariants = bdp.Invariants(columns)
    on_margin = bdp.ProjectedGaussian(bdp.Totals(GRID), mu=1.0, query=counties).noise(rng)[0]
    on_both = bdp.ExtendedGaussian(columns, mu=0.8, query=stacked)
    noisy = stacked.apply(table) + on_both.noise(rng)[0]
    release = bdp.Release.from_published(
        GRID,
        measured=[
            bdp.Measured(
                counties, counties.apply(table) + on_margin, noise.ProjectedGaussian(sigma=2.0), bdp.Totals(GRID)
            ),
            bdp.Measured(stacked, noisy, noise.ProjectedGaussian(sigma=3.0), invariants, name="both"),
        ],
        exact=[bdp.Exact(columns, columns.apply(table)), bdp.Exact(bdp.Totals(GRID), int(table.sum()))],
    )
    model = counts_model(release, pm.Poisson.dist(2.0))
    tables = tables_of(release)
    first = -((counties.apply(tables) - counties.apply(table) - on_margin) ** 2).sum(axis=1) / 8
    second = -((stacked.apply(tables) - noisy) ** 2).sum(axis=1) / 18
    logs = first + second + log_poisson(tables, np.array(2.0)).sum(axis=(1, 2))
    assert is_exact_conditional(model)
    assert_posterior(sample(model, tune=50), tables, posterior_of(logs))


@pytest.mark.slow
def test_unknown_scale_of_projected_laplace_noise():
    # The row-space noise, its scale and the counts are sampled together; quadrature over the scale.
    release = bdp.Release.from_published(
        LINE,
        measured=[bdp.Measured(bdp.Identity(LINE), NOISY, noise.ProjectedLaplace(b=1.0))],
        exact=[bdp.Exact(TOTAL, 7)],
    )
    invariants = release.invariants
    with pm.Model(coords=release.coords) as model:
        b = pm.Uniform("b", 0.5, 3.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0), dims="county")
        rows = bdp.distributions.RowSpaceNoise("rows", b, invariants=invariants)
        bdp.distributions.ProjectedLaplaceGivenRows("noisy", x, rows, b, invariants=invariants, observed=NOISY)
        exact = bdp.Release.from_published(LINE, exact=release.exact)
        bdp.observe(exact, x)
    tables, grid = tables_of(release), np.linspace(0.5, 3.0, 126)
    weight = np.array([_projected_laplace(NOISY - tables, value) - 3 * np.log(value) for value in grid]).T
    logs = weight + log_poisson(tables, np.array(2.0)).sum(axis=1)[:, None]
    logs[:, [0, -1]] -= np.log(2.0)  # trapezoids
    tree = sample(model, draws=4000)
    assert_posterior(tree, tables, posterior_of(logs), theta="b", grid=grid)

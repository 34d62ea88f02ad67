"""Posteriors given plain Laplace and Gaussian noise on real published numbers, against enumeration and quadrature.

Densities are written out or taken from SciPy. False alarms: see `oracle.STANDARD_ERRORS`.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp import noise
from tests.inference.oracle import (
    GRID,
    LINE,
    assert_mean,
    assert_posterior,
    counts_model,
    is_exact_conditional,
    log_poisson,
    posterior_of,
    sample,
    tables_of,
)

RATE = np.array([1.0, 2.0, 3.0])
NOISY = np.array([4.37, -0.81, 3.5])
SCALES = np.array([1.5, 0.7, 4.0])
LAWS = {"laplace": (noise.Laplace, stats.laplace.logpdf), "gaussian": (noise.Gaussian, stats.norm.logpdf)}


def released(law: noise.NoiseLaw, *, exact: bool = True) -> bdp.Release:
    return bdp.Release.from_published(
        LINE,
        measured=[bdp.Measured(bdp.Identity(LINE), NOISY, law)],
        exact=[bdp.Exact(bdp.Totals(LINE), 7)] if exact else [],
    )


@pytest.mark.parametrize("exact", [True, False], ids=["an exact total", "nothing exact"])
@pytest.mark.parametrize("name", LAWS)
def test_cells_off_the_lattice_with_a_scale_each(name, exact):
    law, log_density = LAWS[name]
    release = released(law(SCALES), exact=exact)
    model = counts_model(release, pm.Poisson.dist(RATE))
    # Without the total, cells up to 14 hold all but 1e-5 of the posterior.
    tables = tables_of(release) if exact else np.stack(np.meshgrid(*[np.arange(15)] * 3), axis=-1).reshape(-1, 3)
    logs = log_density(NOISY, tables, SCALES).sum(axis=1) + log_poisson(tables, RATE).sum(axis=1)
    assert is_exact_conditional(model)
    assert_posterior(sample(model, tune=100), tables, posterior_of(logs))


@pytest.mark.system
@pytest.mark.parametrize("name", LAWS)
def test_noisy_margins_and_cells_with_a_gap_and_a_rate(name):
    # Two measurements with the same cells in both, so that one of two Laplace terms is kept as rows of the kernel.
    law, log_density = LAWS[name]
    rows, cells, columns = bdp.Margins(GRID, ["county"]), bdp.Identity(GRID), bdp.Margins(GRID, ["education"])
    noisy = np.array([[1.3, -0.4, np.nan], [0.9, 2.2, 1.0]])
    again = np.array([[0.45, 1.0, 2.75], [2.0, 1.5, -1.25]])
    release = bdp.Release.from_published(
        GRID,
        measured=[
            bdp.Measured(cells, noisy, law(1.2), unmeasured=[("p", "high")]),
            bdp.Measured(rows, [3.6, 2.5], law([0.8, 2.0])),
            bdp.Measured(cells, again, law(2.0)),
        ],
        exact=[bdp.Exact(columns, [2, 3, 1])],
    )
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 3.0, 2.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims)
        bdp.observe(release, x)
    tables, grid = tables_of(release), np.linspace(0.02, 6.0, 300)
    logs = np.nansum(log_density(noisy, tables, 1.2), axis=(1, 2))
    logs = logs + log_density([3.6, 2.5], tables.sum(axis=2), [0.8, 2.0]).sum(axis=1)
    logs = logs + log_density(again, tables, 2.0).sum(axis=(1, 2))
    prior = log_poisson(tables[:, None], grid[:, None, None]).sum(axis=(2, 3)) + stats.gamma(3.0, scale=0.5).logpdf(
        grid
    )
    assert is_exact_conditional(model)
    assert_posterior(sample(model), tables, posterior_of(logs[:, None] + prior), theta="rate", grid=grid)


@pytest.mark.system
@pytest.mark.parametrize("name", LAWS)
def test_an_unknown_scale(name):
    # The scale is a variable: NUTS moves it, and the normaliser counts.
    _, log_density = LAWS[name]
    release = released(noise.Laplace(1.0))
    own = {"laplace": bdp.distributions.Laplace, "gaussian": bdp.distributions.Gaussian}[name]
    with pm.Model(coords=release.coords) as model:
        scale = pm.Uniform("scale", 0.3, 4.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims="county")
        own("noisy", x, scale, observed=NOISY)
        bdp.observe(bdp.Release.from_published(LINE, exact=release.exact), x)
    tables, grid = tables_of(release), np.linspace(0.3, 4.0, 371)
    logs = (
        log_density(NOISY, tables[:, None], grid[:, None]).sum(axis=2) + log_poisson(tables, RATE).sum(axis=1)[:, None]
    )
    logs[:, [0, -1]] -= np.log(2.0)  # trapezoids
    assert is_exact_conditional(model)
    assert_posterior(sample(model), tables, posterior_of(logs), theta="scale", grid=grid)


def test_posterior_predictive_numbers_have_the_law():
    release = released(noise.Laplace(SCALES))
    model = counts_model(release, pm.Poisson.dist(RATE))
    tree = sample(model, tune=50)
    with model:
        drawn = pm.sample_posterior_predictive(tree, random_seed=2, progressbar=False)
    residuals = drawn.posterior_predictive["noisy"].values - tree.posterior["x"].values
    for i, scale in enumerate(SCALES):
        assert_mean(np.abs(residuals[..., i]), scale, scale, f"mean size of the noise of cell {i}")


@pytest.mark.parametrize(
    ("law", "log_density"),
    [
        (bdp.noise.Tulap(0.7), lambda d: bdp.noise.Tulap(0.7).log_density(d)),
        (bdp.noise.ProjectedGaussian(2.0), lambda d: -(d**2) / 8.0),
    ],
    ids=["tulap", "projected gaussian"],
)
def test_a_noisy_grand_total_alone(law, log_density):
    """What `CanonicalNoise` publishes of a total; both laws were refused once."""
    release = bdp.Release.from_published(LINE, [bdp.Measured(bdp.Totals(LINE), 6.3, law)])
    model = counts_model(release, pm.Poisson.dist(np.array([1.0, 2.0, 1.5])))
    assert is_exact_conditional(model)
    total = np.arange(60)
    probability = posterior_of(log_density(6.3 - total.astype(float)) + stats.poisson.logpmf(total, 4.5))
    mean = float(probability @ total)
    drawn = sample(model, draws=1500, tune=100)["posterior"]["x"].sum("county").values
    assert_mean(drawn, mean, float(np.sqrt(probability @ (total - mean) ** 2)), "total")

"""Posteriors given each family of laws, against enumeration and quadrature.

Laplace and Gaussian noise on real published numbers; releases of the Semi-DP mechanisms, with norms written out; real noise on the
space that invariants leave free (Helmert contrasts by hand, row-space noise by quadrature); releases within bounds. Densities are
written out or taken from SciPy. False alarms: see `oracle.STANDARD_ERRORS`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import bayesdp as bdp
from bayesdp import noise
from bayesdp.mechanisms import SemiLatticeLaplace
from bayesdp.steps.reading import read_model
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


BOTH = bdp.Margins(GRID, ["county"], ["education"])
COUNTS = np.array([[3, 1, 4], [2, 5, 0]])
RATES = np.arange(1.0, 7.0).reshape(2, 3)

# Of a table with two rows, whose differences are (a, -a), under any number of records: sensitivities 4, 2 and 1.
MECHANISMS = {
    "gaussian": (bdp.SemiGaussian(BOTH, mu=1.1), lambda a: -((1.1 / 2) ** 2) * (a**2).sum(axis=1)),
    "l1": (bdp.SemiNorm(BOTH, 1.2, "l1"), lambda a: -1.2 * np.abs(a).sum(axis=1) / 2),
    "l2": (bdp.SemiNorm(BOTH, 1.2, "l2"), lambda a: -1.2 * np.sqrt((a**2).sum(axis=1) / 2)),
    "linf": (bdp.SemiNorm(BOTH, 1.2, "linf"), lambda a: -1.2 * np.abs(a).max(axis=1)),
    "k-norm": (bdp.SemiKNorm(BOTH, 1.2), lambda a: -1.2 * np.abs(a).sum(axis=1) / 2),
    "lattice": (SemiLatticeLaplace(BOTH, 1.2, "l2"), lambda a: -1.2 * np.sqrt((a**2).sum(axis=1) / 2)),
}


@pytest.mark.system
@pytest.mark.parametrize("name", MECHANISMS)
def test_both_margins_of_a_2x3_table(name):
    mechanism, log_density = MECHANISMS[name]
    release = mechanism.release(COUNTS, rng=np.random.default_rng(8))
    model = counts_model(release, pm.Poisson.dist(RATES))
    tables = tables_of(release)
    logs = log_density((release.values.values - tables)[:, 0]) + log_poisson(tables, RATES).sum(axis=(1, 2))
    assert is_exact_conditional(model) == (name not in ("linf", "k-norm"))
    # What PyMC has, up to a constant of the fiber, is what NumPy says.
    with model:
        term = model.compile_logp(vars=[model["noisy"]], jacobian=False)
    some = tables[:: max(1, len(tables) // 5)]
    found = np.array([float(term({"x": table})) for table in some])
    assert found == pytest.approx([mechanism.logp(release.values, table) for table in some], rel=1e-9)
    assert_posterior(sample(model, draws=1500, tune=100), tables, posterior_of(logs))


TOTAL = bdp.Totals(LINE)
# Coordinates of three cells with a known sum, by the rule helmert-1.
HELMERT = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
COVARIANCE = np.array([[6.0, 2.0], [2.0, 3.0]])
PUBLISHED = np.array([4.5, -0.75, 3.25])


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


ON_A_SPACE = {
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


@pytest.mark.system
@pytest.mark.parametrize("name", ON_A_SPACE)
def test_every_law_on_the_cells(name):
    law, log_density = ON_A_SPACE[name]
    release = bdp.Release.from_published(
        LINE, measured=[bdp.Measured(bdp.Identity(LINE), PUBLISHED, law)], exact=[bdp.Exact(TOTAL, 7)]
    )
    model = counts_model(release, pm.Poisson.dist([1.0, 2.0, 3.0]))
    tables = tables_of(release)
    logs = log_density(PUBLISHED - tables) + log_poisson(tables, np.array([1.0, 2.0, 3.0])).sum(axis=1)
    assert is_exact_conditional(model) == (name != "k-norm")
    assert_posterior(sample(model, tune=100), tables, posterior_of(logs))


@pytest.mark.system
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


@pytest.mark.system
@pytest.mark.slow
def test_unknown_scale_of_projected_laplace_noise():
    # The row-space noise, its scale and the counts are sampled together; quadrature over the scale.
    release = bdp.Release.from_published(
        LINE,
        measured=[bdp.Measured(bdp.Identity(LINE), PUBLISHED, noise.ProjectedLaplace(b=1.0))],
        exact=[bdp.Exact(TOTAL, 7)],
    )
    invariants = release.invariants
    with pm.Model(coords=release.coords) as model:
        b = pm.Uniform("b", 0.5, 3.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0), dims="county")
        rows = bdp.distributions.RowSpaceNoise("rows", b, invariants=invariants)
        bdp.distributions.ProjectedLaplaceGivenRows("noisy", x, rows, b, invariants=invariants, observed=PUBLISHED)
        exact = bdp.Release.from_published(LINE, exact=release.exact)
        bdp.observe(exact, x)
    tables, grid = tables_of(release), np.linspace(0.5, 3.0, 126)
    weight = np.array([_projected_laplace(PUBLISHED - tables, value) - 3 * np.log(value) for value in grid]).T
    logs = weight + log_poisson(tables, np.array(2.0)).sum(axis=1)[:, None]
    logs[:, [0, -1]] -= np.log(2.0)  # trapezoids
    tree = sample(model, draws=4000)
    assert_posterior(tree, tables, posterior_of(logs), theta="b", grid=grid)


WITHIN_BOUNDS = [
    (noise.TruncatedLaplace(2.0, (0.0, 9.0)), [0.4, 8.6, 3.3]),
    (noise.BoundaryInflatedLaplace(2.0, (0.0, 9.0)), [0.0, 9.0, 3.3]),
    (noise.TruncatedGaussian(2.5, (0.0, 9.0)), [0.4, 8.6, 3.3]),
    (noise.BoundaryInflatedGaussian(2.5, (0.0, 9.0)), [0.0, 9.0, 3.3]),
    (noise.TruncatedDiscreteLaplace([2.0, 1.0, 4.0], (0, [9, 9, 12])), [0, 8, 11]),
    (noise.BoundaryInflatedDiscreteLaplace(2.0, (0, 9)), [0, 9, 4]),
    (noise.BoundaryInflatedDiscreteGaussian(2.5, (0, 9)), [0, 9, 4]),
]


def _release(law: Any, values: Any, *, limited: bool, total: int | None = None) -> bdp.Release:
    query = bdp.Identity(LINE)
    high = np.broadcast_to(law.upper, (3,)).astype(int)
    exact = [bdp.Exact(query, high, "<=")] if limited else []
    exact += [] if total is None else [bdp.Exact(bdp.Totals(LINE), total)]
    return bdp.Release.from_published(LINE, [bdp.Measured(query, values, law)], exact)


def _check_bounded(
    release: bdp.Release, law: Any, values: Any, tables: Any, exact_conditional: bool, draws: int = 2500
) -> None:
    rate = np.array([3.0, 7.0, 5.0])
    model = counts_model(release, pm.Poisson.dist(rate))
    reading = read_model(model, model.rvs_to_values[model["x"]])
    assert not reading.unknown
    assert bool(reading.rests) != exact_conditional
    prior = stats.poisson.logpmf(tables, rate).sum(axis=-1)
    likelihood = np.array([law.logp(values, table) for table in tables])
    assert_posterior(sample(model, draws=draws), tables, posterior_of(prior + likelihood))


@pytest.mark.system
@pytest.mark.parametrize(("law", "values"), WITHIN_BOUNDS, ids=lambda own: getattr(own, "name", ""))
def test_posterior_of_bounded_counts(law: Any, values: Any) -> None:
    """Counts that the exact parts keep within the bounds: clipped Laplace noise needs no accepting and rejecting."""
    release = _release(law, values, limited=True, total=15)
    exact = "boundary-inflated" in law.name and "laplace" in law.name
    _check_bounded(release, law, values, tables_of(release), exact)


@pytest.mark.system
@pytest.mark.parametrize(
    ("law", "values"),
    [WITHIN_BOUNDS[0], WITHIN_BOUNDS[2], WITHIN_BOUNDS[5], WITHIN_BOUNDS[6]],
    ids=lambda own: getattr(own, "name", ""),
)
def test_posterior_of_counts_that_may_be_beyond_a_bound(law: Any, values: Any) -> None:
    """Without the limits the law is the one for locations outside; counts up to 25 a cell have all but 1e-7 of the prior."""
    release = _release(law, values, limited=False)
    grid = np.arange(26)
    tables = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3)
    rate = np.array([3.0, 7.0, 5.0])
    each = [
        posterior_of(stats.poisson.logpmf(grid, rate[i]) + np.array([_one(law, values[i], float(k)) for k in grid]))
        for i in range(3)
    ]
    model = counts_model(release, pm.Poisson.dist(rate))
    probability = each[0][tables[:, 0]] * each[1][tables[:, 1]] * each[2][tables[:, 2]]
    assert_posterior(sample(model, draws=2500), tables, probability)


def _one(law: Any, value: float, location: float) -> float:
    return float(type(law)(law.scale, law.bounds).logp(value, location))


@pytest.mark.system
def test_posterior_with_an_unknown_rate() -> None:
    """Values of a truncated law, and NUTS for the rate: it runs and is finite."""
    release = _release(noise.TruncatedDiscreteLaplace(3.0, (0, 20)), [2, 11, 5], limited=True)
    with pm.Model(coords=release.coords):
        rate = pm.Gamma("rate", 2.0, 0.4)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate, shape=3), dims=release.dims)
        bdp.observe(release, x)
        tree = bdp.sample(draws=200, tune=200, chains=2, cores=1, random_seed=2, progressbar=False)
    drawn = tree.posterior["x"].values
    assert drawn.min() >= 0
    assert drawn.max() <= 20
    assert len(np.unique(drawn)) > 3

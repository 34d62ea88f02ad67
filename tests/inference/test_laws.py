"""Posteriors given each family of laws, against enumeration and quadrature of densities written out or taken from SciPy.

Each law on three cells with an exact total: the contract in `tests/noise`. False alarms: see `oracle.STANDARD_ERRORS`.
"""

from itertools import pairwise, product

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import bayesdp as bdp
from bayesdp import noise
from bayesdp.mechanisms import SemiLatticeLaplace
from tests.inference.oracle import GRID, LINE, Exactly, assert_mean, counts_model, noisy_cells, sample, tables_of

TOTAL = bdp.Totals(LINE)
SEVEN = [bdp.Exact(TOTAL, 7)]
RATE = np.array([1.0, 2.0, 3.0])
NOISY = np.array([4.37, -0.81, 3.5])
SCALES = np.array([1.5, 0.7, 4.0])
LAWS = {"laplace": (noise.Laplace, stats.laplace.logpdf), "gaussian": (noise.Gaussian, stats.norm.logpdf)}


def log_poisson(tables, rate=RATE):
    return stats.poisson.logpmf(tables, rate).reshape(len(tables), -1).sum(axis=1)


@pytest.mark.parametrize("name", LAWS)
def test_cells_off_the_lattice_with_a_scale_each_and_nothing_exact(name):
    """Cells up to 14 hold all but 1e-5 of the posterior. Numbers of the posterior predictive law have the scales."""
    law, log_density = LAWS[name]
    model = counts_model(noisy_cells(LINE, NOISY, law(SCALES)), pm.Poisson.dist(RATE))
    tables = np.array(list(product(range(15), repeat=3)))
    Exactly(model, tables, lambda t: log_density(NOISY, t, SCALES).sum(axis=1) + log_poisson(t)).check_densities()
    if name == "laplace":
        tree = sample(model, draws=500, tune=50)
        with model:
            drawn = pm.sample_posterior_predictive(tree, random_seed=2, progressbar=False)
        residuals = drawn.posterior_predictive["noisy"].values - tree.posterior["x"].values
        for i, scale in enumerate(SCALES):
            assert_mean(np.abs(residuals[..., i]), scale, scale, f"mean size of the noise of cell {i}")


@pytest.mark.parametrize("name", LAWS)
def test_noisy_margins_and_cells_with_a_gap_and_a_rate(name):
    """Two measurements with the same cells in both, so that one of two Laplace terms is kept as rows of the kernel."""
    law, log_density = LAWS[name]
    rows, cells, columns = bdp.Margins(GRID, ["county"]), bdp.Identity(GRID), bdp.Margins(GRID, ["education"])
    noisy = np.array([[1.3, -0.4, np.nan], [0.9, 2.2, 1.0]])
    again = np.array([[0.45, 1.0, 2.75], [2.0, 1.5, -1.25]])
    measured = [
        bdp.Measured(cells, noisy, law(1.2), unmeasured=[("p", "high")]),
        bdp.Measured(rows, [3.6, 2.5], law([0.8, 2.0])),
        bdp.Measured(cells, again, law(2.0)),
    ]
    release = bdp.Release.from_published(GRID, measured, [bdp.Exact(columns, [2, 3, 1])])
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 3.0, 2.0)
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims))

    def logs(tables, rate):
        own = np.nansum(log_density(noisy, tables, 1.2), axis=(1, 2))
        own += log_density(again, tables, 2.0).sum(axis=(1, 2))
        own += log_density([3.6, 2.5], tables.sum(axis=2), [0.8, 2.0]).sum(axis=1)
        return own + log_poisson(tables, rate) + stats.gamma(3.0, scale=0.5).logpdf(rate)

    Exactly(model, tables_of(release), logs, "rate", np.linspace(0.02, 6.0, 300)).check_densities()


@pytest.mark.parametrize("name", LAWS)
def test_an_unknown_scale(name):
    """The scale is a variable, and the normaliser counts."""
    _, log_density = LAWS[name]
    own = {"laplace": bdp.distributions.Laplace, "gaussian": bdp.distributions.Gaussian}[name]
    exact = bdp.Release.from_published(LINE, exact=SEVEN)
    with pm.Model(coords=LINE) as model:
        scale = pm.Uniform("scale", 0.3, 4.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims="county")
        own("noisy", x, scale, observed=NOISY)
        bdp.observe(exact, x)

    def logs(tables, scale):
        return log_density(NOISY, tables, scale).sum(axis=1) + log_poisson(tables)

    Exactly(model, tables_of(exact), logs, "scale", np.linspace(0.3, 4.0, 371)).check_densities()


@pytest.mark.parametrize("law", [noise.Tulap(0.7), noise.ProjectedGaussian(2.0)], ids=str)
def test_a_noisy_grand_total_alone(law):
    """What `CanonicalNoise` publishes of a total; both laws were refused once. Tables of up to 7 a cell."""
    release = bdp.Release.from_published(LINE, [bdp.Measured(TOTAL, 6.3, law)])
    tables = np.array(list(product(range(8), repeat=3)))

    def logs(tables):
        off = 6.3 - tables.sum(axis=1, dtype=float)
        return (law.log_density(off) if law.name == "tulap" else -(off**2) / 8.0) + log_poisson(tables)

    Exactly(counts_model(release, pm.Poisson.dist(RATE)), tables, logs).check_densities(most=80)


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


@pytest.mark.parametrize("name", MECHANISMS)
def test_both_margins_of_a_2x3_table(name):
    mechanism, log_density = MECHANISMS[name]
    release = mechanism.release(COUNTS, rng=np.random.default_rng(8))
    published = release.values.values

    def logs(tables):
        return log_density((published - tables)[:, 0]) + log_poisson(tables, RATES)

    known = name not in ("linf", "k-norm")
    case = Exactly(counts_model(release, pm.Poisson.dist(RATES)), tables_of(release), logs, known=known)
    case.check_densities()
    # Up to a constant of the fiber it is what NumPy says.
    tables = case.tables
    by_mechanism = [mechanism.logp(release.values, table) for table in tables]
    assert np.ptp(by_mechanism - log_density((published - tables)[:, 0])) < 1e-9
    if name == "linf":
        case.check_draws(draws=500, tune=20)


def _projected_laplace(residuals, b):
    """Density up to a constant: all noise that is projected to the residual, by quadrature along (1, 1, 1)."""

    def one(r):
        pieces = pairwise([-np.inf, *np.sort(-r), np.inf])
        return sum(integrate.quad(lambda w: np.exp(-np.abs(r + w).sum() / b), *ends)[0] for ends in pieces)

    return np.log([one(r) for r in residuals])


def test_noise_on_a_margin_and_on_stacked_queries():
    """A margin whose sum is exact, and at the same time cells stacked with a margin: their relations hold for the noise too."""
    counties, columns = bdp.Margins(GRID, ["county"]), bdp.Margins(GRID, ["education"])
    stacked = bdp.Identity(GRID) + counties
    table = np.array([[2, 0, 1], [1, 3, 0]])
    rng = np.random.default_rng(3)
    on_margin = bdp.ProjectedGaussian(bdp.Totals(GRID), mu=1.0, query=counties).noise(rng)[0]
    on_both = bdp.ExtendedGaussian(columns, mu=0.8, query=stacked).noise(rng)[0]
    first, second = counties.apply(table) + on_margin, stacked.apply(table) + on_both
    law, totals = noise.ProjectedGaussian, bdp.Totals(GRID)
    measured = [
        bdp.Measured(counties, first, law(sigma=2.0), totals),
        bdp.Measured(stacked, second, law(sigma=3.0), bdp.Invariants(columns), name="both"),
    ]
    exact = [bdp.Exact(columns, columns.apply(table)), bdp.Exact(totals, int(table.sum()))]
    release = bdp.Release.from_published(GRID, measured, exact)

    def logs(tables):
        squares = np.square(counties.apply(tables) - first).sum(axis=1) / 8
        squares += np.square(stacked.apply(tables) - second).sum(axis=1) / 18
        return log_poisson(tables, 2.0) - squares

    Exactly(counts_model(release, pm.Poisson.dist(2.0)), tables_of(release), logs).check_densities()


@pytest.mark.system
def test_projected_laplace_noise_and_its_unknown_scale():
    """The row-space noise, its scale and the counts are sampled together; quadrature over both."""
    published = np.array([4.5, -0.75, 3.25])
    exact = bdp.Release.from_published(LINE, exact=SEVEN)
    kept = exact.invariants
    with pm.Model(coords=LINE) as model:
        b = pm.Uniform("b", 0.5, 3.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.0), dims="county")
        rows = bdp.distributions.RowSpaceNoise("rows", b, invariants=kept)
        bdp.distributions.ProjectedLaplaceGivenRows("noisy", x, rows, b, invariants=kept, observed=published)
        bdp.observe(exact, x)

    def logs(tables, b):
        return _projected_laplace(published - tables, b) - 3 * np.log(b) + log_poisson(tables, 2.0)

    Exactly(model, tables_of(exact), logs, "b", np.linspace(0.5, 3.0, 126)).check_draws(draws=2000)

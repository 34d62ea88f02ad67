"""Posteriors against enumeration and quadrature: every base, other terms of the model, and all that may be published of a table."""

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayesdp as bdp
from bayesdp import noise
from tests.inference.oracle import (
    GRID,
    NOISY,
    Exactly,
    assert_posterior,
    counts_model,
    laplace,
    noisy_cells,
    posterior_of,
    sample,
    tables_of,
    three_counties,
)

WEIGHT, MU, Z, ANSWERS = np.array([1.0, 0.5, 0.8]), np.array([2.0, 1.0, 4.0]), np.array([-1.0, 0.0, 1.5]), [2, 0, 1]
ON_A_LINE, SHARES, BEYOND = np.linspace(-5, 5, 401), np.linspace(1e-4, 1 - 1e-4, 401), [9, -1, 0]
poisson, nbinom, binom, lognorm = stats.poisson, stats.nbinom, stats.binom, stats.lognorm

LINES = {  # a base, the log-density of tables and a parameter but for the noise, the parameter, and what else there is
    "a shared slope": (
        lambda: pm.Poisson.dist(pm.math.exp(0.3 + pm.Normal("slope", 0.0, 1.0) * Z)),
        lambda x, slope: poisson.logpmf(x, np.exp(0.3 + slope * Z)).sum(axis=1) - slope**2 / 2,
        {"slope": ON_A_LINE},
    ),
    "an unknown shape, log-concave and not": (
        lambda: pm.NegativeBinomial.dist(mu=MU, alpha=pm.LogNormal("shape", -0.3, 1.0)),
        lambda x, a: nbinom.logpmf(x, a, a / (a + MU)).sum(axis=1) + lognorm.logpdf(a, 1.0, scale=np.exp(-0.3)),
        {"shape": np.exp(np.linspace(-6, 5, 501))},
    ),
    "a small n that cuts the fiber, and a noisy table outside of the cut": (
        lambda: pm.Binomial.dist(n=4, p=pm.Beta("p", 2.0, 2.0) * WEIGHT),
        lambda x, p: binom.logpmf(x, 4, p * WEIGHT).sum(axis=1) + stats.beta(2, 2).logpdf(p),
        {"p": SHARES},
        {"noisy": BEYOND},
    ),
    "an unknown concentration": (
        lambda: pm.DirichletMultinomial.dist(n=7, a=pm.LogNormal("a", -1.0, 1.0) * WEIGHT),
        lambda x, a: stats.dirichlet_multinomial.logpmf(x, a * WEIGHT, 7) + lognorm.logpdf(a, 1.0, scale=np.exp(-1.0)),
        {"a": np.exp(np.linspace(-7, 5, 401))},
    ),
    # Given the exact total the rate has a Gamma(2 + 7, 0.5 + 3) posterior; a prior renormalised over the fiber would leave the prior.
    "a rate, of which the exact total tells": (
        lambda: pm.Poisson.dist(pm.Gamma("rate", 2.0, 0.5)),
        lambda x, rate: stats.gamma(9.0, scale=1 / 3.5).logpdf(rate) - special.gammaln(x + 1.0).sum(axis=1),
        {"rate": np.linspace(1e-3, 12, 601)},
    ),
    "a base without fast steps": (
        lambda: pm.ZeroInflatedPoisson.dist(psi=pm.Beta("psi", 2.0, 2.0), mu=3.0, shape=3),
        lambda x, psi: (
            np.log(psi * poisson.pmf(x, 3.0) + (1 - psi) * (x == 0)).sum(axis=1) + stats.beta(2, 2).logpdf(psi)
        ),
        {"psi": SHARES},
        {"known": False},
    ),
    "bounds, and a first point outside of them": (
        lambda: pm.DiscreteUniform.dist(0, 4, shape=3),
        lambda x: np.where((x <= 4).all(axis=1), 0.0, -np.inf),
        {},
        {"noisy": BEYOND, "known": False},
    ),
    "a survey, and a judgement about two of the cells": (
        lambda: pm.Poisson.dist(2.0, shape=3),
        lambda x, q: (
            (binom.logpmf(ANSWERS, x, q) + poisson.logpmf(x, 2.0)).sum(axis=1)
            - 0.3 * (x[:, 0] - x[:, 1] - 1.0) ** 2
            + stats.beta(3, 2).logpdf(q)
        ),
        {"q": SHARES},
        {
            "more": lambda x: (
                pm.Binomial("answers", n=x, p=pm.Beta("q", 3.0, 2.0), observed=ANSWERS),
                pm.Potential("judgement", -0.3 * (x[0] - x[1] - 1) ** 2),
            ),
            "known": False,
        },
    ),
    "another latent variable that depends on the counts, and is observed in turn": (
        lambda: pm.Poisson.dist(2.0, shape=3),
        lambda x, cost: (
            poisson.logpmf(x, 2.0).sum(axis=1) - (cost - 2.0 * x[:, 0] + x[:, 2]) ** 2 / 18 - (cost - 9.0) ** 2 / 8
        ),
        {"cost": np.linspace(-25, 30, 551)},
        {
            "more": lambda x: pm.Normal("bill", pm.Normal("cost", 2.0 * x[0] - x[2], 3.0), 2.0, observed=9.0),
            "known": False,
        },
    ),
}


def exactly(name):
    """Three counties, their total exact and the counts noisy."""
    base, logs, grid, *more = LINES[name]
    given, [(theta, values)] = more[0] if more else {}, grid.items() or [(None, None)]
    noisy = given.get("noisy", NOISY)
    release = three_counties(values=noisy)
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", base(), dims=release.dims)
        given.get("more", id)(x)
        bdp.observe(release, x)

    def both(tables, *value):
        return logs(tables, *value) + laplace(tables, noisy)

    return Exactly(model, tables_of(release), both, theta, values, given.get("known", True))


@pytest.mark.parametrize("name", LINES)
def test_densities(name):
    exactly(name).check_densities()


@pytest.mark.system
def test_draws_of_three_models():
    exactly("an unknown shape, log-concave and not").check_draws(draws=2000)
    exactly("a base without fast steps").check_draws(draws=1500, fiber_gibbs={"sweeps": 4})
    more = "another latent variable that depends on the counts, and is observed in turn"
    exactly(more).check_draws(draws=2500, fiber_gibbs={"sweeps": 4})


def test_multinomial_rows():
    """Row totals exact and multinomial within rows; column totals exact as well."""
    rows, columns = bdp.Margins(GRID, ["county"]), bdp.Margins(GRID, ["education"])
    law, tilt = noise.DiscreteGaussian(sigma=2.0), np.array([[0.0, 1.0, 0.5], [0.2, -0.5, 1.0]])
    measured = [bdp.Measured(rows + columns, [7, 5, 5, 4, 3], law)]
    exact = [bdp.Exact(rows, [6, 5]), bdp.Exact(columns, [5, 4, 2])]
    release = bdp.Release.from_published(GRID, measured, exact)
    with pm.Model(coords=release.coords) as model:
        p = pm.math.softmax(pm.Normal("t", 0.0, 1.0) * tilt, axis=-1)
        base = pm.Multinomial.dist(n=np.array([6, 5]), p=p)
        bdp.observe(release, bdp.ConfidentialCounts("x", base, dims=release.dims))

    def logs(tables, t):
        p = special.softmax(t * tilt, axis=-1)
        return sum(stats.multinomial.logpmf(tables[:, i], n, p[i]) for i, n in enumerate((6, 5))) - t**2 / 2

    Exactly(model, tables_of(release), logs, "t", ON_A_LINE).check_densities()


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
    case.check_draws(draws=700, tune=50)


@pytest.mark.system
def test_several_releases_and_two_tables_with_a_common_parameter():
    groups = {"county": ["p", "q", "r", "s"], "state": ("county", ["N", "N", "S", "S"])}
    counties = {"county": groups["county"]}
    law, states = noise.DiscreteGaussian(sigma=1.5), bdp.Exact(bdp.Totals(groups, "state"), [5, 3])
    first = noisy_cells(groups, [2, 3, 1, 0], law, states)
    measured = [bdp.Measured(bdp.Totals(counties), 9, noise.DiscreteLaplace(b=3.0))]
    exact = [bdp.Exact(bdp.LinearQuery(counties, [[1, 0, 1, 0]], ["p and r"]), [4])]
    second = bdp.Release.from_published(counties, measured, exact)
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
    prior, tree = stats.gamma(3.0).logpdf(grid), sample(model, 1200)
    given_z, given_x = (special.logsumexp(own, axis=0) + prior for own in (of_z, of_x))
    assert_posterior(tree, tables, posterior_of(of_x + given_z), theta="rate", grid=grid)
    assert_posterior(tree, others, posterior_of(of_z + given_x), name="z", theta="rate", grid=grid)


def test_zero_rates_are_structural_zeros_and_may_leave_no_table():
    """Zero rates on the diagonal of a 3x3 table: no 2x2 move is left, only 6-cycles."""
    frame = {"a": [0, 1, 2], "b": [0, 1, 2]}
    truth = np.array([[0, 3, 2], [1, 0, 4], [2, 1, 0]])
    exact = [bdp.Exact(q, q.apply(truth)) for q in (bdp.Margins(frame, ["a"]), bdp.Margins(frame, ["b"]))]
    release = noisy_cells(frame, truth + 2, noise.DiscreteLaplace(b=3.0), *exact)
    model = counts_model(release, pm.Poisson.dist(2.0 * (1.0 - np.eye(3))))
    tables = tables_of(release)
    tables = tables[tables[:, [0, 1, 2], [0, 1, 2]].sum(axis=1) == 0]
    assert len(tables) == 4

    def logs(tables):
        return laplace(tables, truth + 2, 3.0) - special.gammaln(tables + 1.0).sum(axis=(1, 2))

    Exactly(model, tables, logs).check_draws(draws=700, tune=50)
    with pytest.raises(ValueError, match="prior"):
        sample(counts_model(three_counties(), pm.Poisson.dist(np.zeros(3))))

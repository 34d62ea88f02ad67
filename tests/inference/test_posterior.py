"""Posteriors against enumeration and quadrature: every base, other terms of the model, and all that may be published about a table.

Densities of model and kernel are compared with formulas, at tables and at values of the parameter; some cases are sampled by
``pm.sample`` besides. False alarms: see `oracle.STANDARD_ERRORS`.
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
    Exactly,
    assert_posterior,
    counts_model,
    laplace,
    posterior_of,
    sample,
    tables_of,
    three_counties,
)

WEIGHT = np.array([1.0, 0.5, 0.8])
ON_A_LINE = np.linspace(-5, 5, 401)
SHARES = np.linspace(1e-4, 1 - 1e-4, 401)


def counts(base, release):
    x = bdp.ConfidentialCounts("x", base, dims=release.dims)
    bdp.observe(release, x)
    return x


def poisson_with_a_shared_slope():
    release, z = three_counties(), np.array([-1.0, 0.0, 1.5])
    with pm.Model(coords=release.coords) as model:
        counts(pm.Poisson.dist(pm.math.exp(0.3 + pm.Normal("slope", 0.0, 1.0) * z)), release)

    def logs(tables, slope):
        return stats.poisson.logpmf(tables, np.exp(0.3 + slope * z)).sum(axis=1) + laplace(tables) - slope**2 / 2

    return Exactly(model, tables_of(release), logs, "slope", ON_A_LINE)


def negative_binomial_with_unknown_shape():
    """On both sides of 1: log-concave and not."""
    release, mu = three_counties(), np.array([2.0, 1.0, 4.0])
    with pm.Model(coords=release.coords) as model:
        counts(pm.NegativeBinomial.dist(mu=mu, alpha=pm.LogNormal("alpha", -0.3, 1.0)), release)

    def logs(tables, alpha):
        prior = stats.nbinom.logpmf(tables, alpha, alpha / (alpha + mu)).sum(axis=1)
        return prior + laplace(tables) + stats.lognorm.logpdf(alpha, 1.0, scale=np.exp(-0.3))

    return Exactly(model, tables_of(release), logs, "alpha", np.exp(np.linspace(-6, 5, 501)))


def binomial_with_a_small_n():
    """n = 4 cuts the fiber, and the noisy table lies outside of the cut."""
    noisy = [9, -1, 0]
    release = three_counties(values=noisy)
    with pm.Model(coords=release.coords) as model:
        counts(pm.Binomial.dist(n=4, p=pm.Beta("p", 2.0, 2.0) * WEIGHT), release)

    def logs(tables, p):
        prior = stats.binom.logpmf(tables, 4, p * WEIGHT).sum(axis=1)
        return prior + laplace(tables, noisy) + stats.beta(2, 2).logpdf(p)

    return Exactly(model, tables_of(release), logs, "p", SHARES)


def dirichlet_multinomial_with_unknown_concentration():
    release = three_counties()
    with pm.Model(coords=release.coords) as model:
        counts(pm.DirichletMultinomial.dist(n=7, a=pm.LogNormal("a", -1.0, 1.0) * WEIGHT), release)

    def logs(tables, a):
        prior = stats.dirichlet_multinomial.logpmf(tables, a * WEIGHT, 7)
        return prior + laplace(tables) + stats.lognorm.logpdf(a, 1.0, scale=np.exp(-1.0))

    return Exactly(model, tables_of(release), logs, "a", np.exp(np.linspace(-7, 5, 401)))


def multinomial_rows():
    """Row totals exact and multinomial within rows; column totals exact as well."""
    rows, columns = bdp.Margins(GRID, ["county"]), bdp.Margins(GRID, ["education"])
    release = bdp.Release.from_published(
        GRID,
        measured=[bdp.Measured(rows + columns, [7, 5, 5, 4, 3], noise.DiscreteGaussian(sigma=2.0))],
        exact=[bdp.Exact(rows, [6, 5]), bdp.Exact(columns, [5, 4, 2])],
    )
    tilt = np.array([[0.0, 1.0, 0.5], [0.2, -0.5, 1.0]])
    with pm.Model(coords=release.coords) as model:
        p = pm.math.softmax(pm.Normal("t", 0.0, 1.0) * tilt, axis=-1)
        counts(pm.Multinomial.dist(n=np.array([6, 5]), p=p), release)

    def logs(tables, t):
        p = special.softmax(t * tilt, axis=-1)
        return sum(stats.multinomial.logpmf(tables[:, i], n, p[i]) for i, n in enumerate((6, 5))) - t**2 / 2

    return Exactly(model, tables_of(release), logs, "t", ON_A_LINE)


def zero_inflated():
    """A base without fast steps."""
    release = three_counties()
    with pm.Model(coords=release.coords) as model:
        counts(pm.ZeroInflatedPoisson.dist(psi=pm.Beta("psi", 2.0, 2.0), mu=3.0, shape=3), release)

    def logs(tables, psi):
        each = np.log(psi * stats.poisson.pmf(tables, 3.0) + (1 - psi) * (tables == 0))
        return each.sum(axis=1) + laplace(tables) + stats.beta(2, 2).logpdf(psi)

    return Exactly(model, tables_of(release), logs, "psi", SHARES, known=False)


def uniform_with_bounds():
    """The noisy table and so the first point lie outside of 0 .. 4."""
    release = three_counties(values=[9, -1, 0])
    model = counts_model(release, pm.DiscreteUniform.dist(0, 4, shape=3))

    def logs(tables):
        return np.where((tables <= 4).all(axis=1), laplace(tables, [9, -1, 0]), -np.inf)

    return Exactly(model, tables_of(release), logs, known=False)


def survey_and_judgement():
    """Every counted person answers a survey with probability q; and a judgement about two of the cells."""
    release, answers = three_counties(), np.array([2, 0, 1])
    with pm.Model(coords=release.coords) as model:
        q = pm.Beta("q", 3.0, 2.0)
        x = counts(pm.Poisson.dist(2.0, shape=3), release)
        pm.Binomial("answers", n=x, p=q, observed=answers)
        pm.Potential("judgement", -0.3 * (x[0] - x[1] - 1) ** 2)

    def logs(tables, q):
        survey = stats.binom.logpmf(answers, tables, q) + stats.poisson.logpmf(tables, 2.0)
        judgement = -0.3 * (tables[:, 0] - tables[:, 1] - 1.0) ** 2
        return survey.sum(axis=1) + judgement + laplace(tables) + stats.beta(3, 2).logpdf(q)

    return Exactly(model, tables_of(release), logs, "q", SHARES, known=False)


def a_free_child_of_the_counts():
    """Another latent variable depends on the counts, and is observed in turn."""
    release = three_counties()
    with pm.Model(coords=release.coords) as model:
        x = counts(pm.Poisson.dist(2.0, shape=3), release)
        pm.Normal("bill", pm.Normal("cost", 2.0 * x[0] - x[2], 3.0), 2.0, observed=9.0)

    def logs(tables, cost):
        off = (cost - 2.0 * tables[:, 0] + tables[:, 2]) ** 2 / 18 + (cost - 9.0) ** 2 / 8
        return stats.poisson.logpmf(tables, 2.0).sum(axis=1) + laplace(tables) - off

    return Exactly(model, tables_of(release), logs, "cost", np.linspace(-25, 30, 551), known=False)


CASES = [
    poisson_with_a_shared_slope,
    negative_binomial_with_unknown_shape,
    binomial_with_a_small_n,
    dirichlet_multinomial_with_unknown_concentration,
    multinomial_rows,
    zero_inflated,
    uniform_with_bounds,
    survey_and_judgement,
    a_free_child_of_the_counts,
]


@pytest.mark.parametrize("case", CASES, ids=lambda own: own.__name__)
def test_densities(case):
    case().check_densities()


@pytest.mark.system
@pytest.mark.parametrize(
    ("case", "options"),
    [
        (negative_binomial_with_unknown_shape, {"draws": 2000}),
        (zero_inflated, {"fiber_gibbs": {"sweeps": 4}}),
        (a_free_child_of_the_counts, {"draws": 2500, "fiber_gibbs": {"sweeps": 4}}),
    ],
    ids=lambda own: getattr(own, "__name__", ""),
)
def test_draws(case, options):
    case().check_draws(**options)


def test_what_the_exact_total_says_about_the_rate_is_used():
    """Given it the rate has a Gamma(2 + 7, 0.5 + 3) posterior; a prior renormalised over the fiber would leave Gamma(2, 0.5)."""
    release = three_counties()
    with pm.Model(coords=release.coords) as model:
        counts(pm.Poisson.dist(pm.Gamma("rate", 2.0, 0.5)), release)

    def logs(tables, rate):
        multinomial = laplace(tables) - special.gammaln(tables + 1.0).sum(axis=1)
        return multinomial + stats.gamma(9.0, scale=1 / 3.5).logpdf(rate)

    Exactly(model, tables_of(release), logs, "rate", np.linspace(1e-3, 12, 601)).check_densities()


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

    Exactly(model, tables, logs).check_draws(draws=700, tune=50)


def test_zeros_that_leave_no_table_are_an_error():
    with pytest.raises(ValueError, match="prior"):
        sample(counts_model(three_counties(), pm.Poisson.dist(np.zeros(3))))

"""Continuous counts under noise on a subspace, against quadrature over the real tables; and their prior draws.

The laws are those of `test_subspace_releases`, where they are written out. Tests that sample: see `oracle` for false alarms.
"""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import integrate, special

import bayesdp as bdp
from bayesdp import noise
from bayesdp.inference import add_prior_predictive
from tests.inference.oracle import LINE, assert_mean, posterior_of
from tests.inference.test_subspace_releases import LAWS, NOISY, TOTAL

pytestmark = pytest.mark.system

RATE = np.array([1.0, 2.0, 3.0])
SQUARE = {"row": ["p", "q"], "column": ["low", "high"]}


def evaluated(model: pm.Model, points: list[dict[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Flat tables and log-densities at points of the unconstrained space, by one compiled function."""
    outputs = [model.logp(), *model.replace_rvs_by_values([model["x"]])]
    function = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore")
    logs, tables = zip(*(function(point) for point in points), strict=True)
    return np.array([np.ravel(table) for table in tables]), np.array(logs)


def continuous(release: bdp.Release, base=None) -> pm.Model:
    with pm.Model(coords=release.coords) as model:
        own = pm.Poisson.dist(3.0) if base is None else base()
        bdp.observe(release, bdp.ContinuousCounts("x", own, release))
    return model


def under_a_total(law: noise.NoiseLaw, values=NOISY) -> bdp.Release:
    return bdp.Release.from_published(
        LINE, measured=[bdp.Measured(bdp.Identity(LINE), values, law)], exact=[bdp.Exact(TOTAL, 7)]
    )


def triangle(nodes: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Real tables of three cells with sum 7, and the logs of their quadrature weights."""
    own, weight = np.polynomial.legendre.leggauss(nodes)
    s, t = np.meshgrid((own + 1) / 2, (own + 1) / 2, indexing="ij")
    x = 7 * np.stack([s, (1 - s) * t, (1 - s) * (1 - t)], axis=-1).reshape(-1, 3)
    return x, np.log(np.outer(weight, weight) * (1 - s)).ravel()


def log_poisson_of_reals(x, rate):
    return (x * np.log(rate) - special.gammaln(x + 1.0)).sum(axis=-1)


def projected_laplace(residuals, b=1.5):
    """Log of the integral of exp(-sum |r + w| / b) over w: it is exponential between the knots, with slopes -3, -1, 1, 3."""
    knots = np.sort(-residuals, axis=1)
    heights = np.exp(-np.abs(residuals[:, None, :] + knots[:, :, None]).sum(axis=2) / b)
    inner = sum(np.abs(heights[:, j] - heights[:, i]) for i, j in pairwise(range(3)))
    return np.log(b * inner + (heights[:, 0] + heights[:, 2]) * b / 3)


def assert_same_moments(found, expected, tolerance=4e-3):
    (x, p), (exact_x, exact_p) = found, expected
    mean, exact = p @ x, exact_p @ exact_x
    sd = np.sqrt(exact_p @ (exact_x - exact) ** 2)
    assert np.abs(mean - exact).max() < tolerance * sd.max()
    second = np.einsum("p,pi,pj->ij", p, x - mean, x - mean)
    exact_second = np.einsum("p,pi,pj->ij", exact_p, exact_x - exact, exact_x - exact)
    assert np.abs(second - exact_second).max() < 3 * tolerance * sd.max() ** 2


def test_the_written_out_law_is_the_quadrature():
    residuals = np.array([[1.0, -2.0, 1.0], [0.3, 0.1, -0.4]])
    np.testing.assert_allclose(projected_laplace(residuals), LAWS["projected laplace"][1](residuals), rtol=1e-8)


@pytest.mark.parametrize("name", LAWS)
def test_every_law_under_a_total(name):
    law, log_density = LAWS[name]
    log_density = projected_laplace if name == "projected laplace" else log_density
    model = continuous(under_a_total(law), lambda: pm.Poisson.dist(RATE))
    assert [rv.name for rv in model.free_RVs] == ["x_coordinates"]  # nothing latent: NUTS alone
    axis = np.linspace(-3.5, 3.5, 70)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    x, logs = evaluated(model, [{"x_coordinates": u} for u in np.sinh(grid)])
    p = posterior_of(logs + np.log(np.cosh(grid)).sum(axis=1))
    exact, weight = triangle()
    expected = posterior_of(log_density(NOISY - exact) + log_poisson_of_reals(exact, RATE) + weight)
    assert_same_moments((x, p), (exact, expected))


def test_projected_laplace_under_overlapping_totals_with_its_row_space_noise():
    # Totals of cells 1 and 2, and of 2 and 3: one free direction, and two latent coordinates that are integrated out.
    rows = bdp.LinearQuery(LINE, [[1, 1, 0], [0, 1, 1]], ["first", "second"])
    noisy = np.array([2.5, 3.5, 1.5])
    release = bdp.Release.from_published(
        LINE,
        measured=[bdp.Measured(bdp.Identity(LINE), noisy, noise.ProjectedLaplace(b=1.5))],
        exact=[bdp.Exact(rows, [6, 5])],
    )
    model = continuous(release)
    assert [rv.name for rv in model.free_RVs] == ["x_coordinates", "noisy_rows"]
    u, w = np.linspace(-2.5, 2.5, 30), np.linspace(-1, 1, 36)
    points = [(a, b, c) for a in u for b in w for c in w]
    own = [{"x_coordinates": np.sinh([a]), "noisy_rows": 12 * np.array([b, c])} for a, b, c in points]
    x, logs = evaluated(model, own)
    p = posterior_of(logs + np.log(np.cosh([a for a, _, _ in points])))
    # The noise along (1, -1, 1) / sqrt(3) is a third of the sum of three Laplace variables, in frequencies.
    cell = np.linspace(0.0, 5.0, 201)[1:-1]
    tables = np.stack([cell + 1.0, 5.0 - cell, cell], axis=1)
    along = (noisy - tables) @ [1.0, -1.0, 1.0] / 3
    density = [integrate.quad(lambda t, c=c: np.cos(t * c) * (1 + (0.5 * t) ** 2) ** -3, 0, 80)[0] for c in along]
    expected = posterior_of(np.log(density) + log_poisson_of_reals(tables, 3.0))
    assert_same_moments((x, p), (tables, expected), 0.02)


def square(noisy=((3.5, 2.5), (4.5, 0.5))) -> bdp.Release:
    return bdp.Release.from_published(
        SQUARE,
        measured=[bdp.Measured(bdp.Identity(SQUARE), np.array(noisy), noise.ProjectedLaplace(b=2.0))],
        exact=[bdp.Exact(bdp.Margins(SQUARE, ["row"]), [6, 5]), bdp.Exact(bdp.Margins(SQUARE, ["column"]), [8, 3])],
    )


def test_sampling_with_row_space_noise():
    # bdp.sample must not take nutpie here, which PyMC refuses next to the step method of the row-space noise.
    model = continuous(square())
    with model:
        tree = bdp.sample(draws=2500, tune=400, chains=2, cores=1, random_seed=3, progressbar=False, quiet=True)
    assert "row_noise_l1" in tree.sample_stats
    cell = np.linspace(3.0, 6.0, 601)  # x[0, 0]; the others follow from the margins
    tables = np.stack([cell, 6 - cell, 8 - cell, cell - 3], axis=1)
    along = (np.array([3.5, 2.5, 4.5, 0.5]) - tables) @ [1.0, -1.0, -1.0, 1.0] / 2
    density = [integrate.quad(lambda t, c=c: np.cos(t * c) * (1 + t**2) ** -4, 0, 60)[0] for c in along]
    expected = posterior_of(np.log(density) + log_poisson_of_reals(tables, 3.0))
    mean = expected @ cell
    sd = np.sqrt(expected @ (cell - mean) ** 2)
    draws = tree.posterior["x"].values[..., 0, 0]
    assert_mean(draws, mean, sd, "first cell")
    assert_mean((draws - mean) ** 2, sd**2, 1.5 * sd**2, "its variance")


@pytest.mark.slow
def test_sampling_by_nutpie():
    pytest.importorskip("nutpie")
    law, _ = LAWS["projected laplace"]
    with continuous(under_a_total(law), lambda: pm.Poisson.dist(RATE)):
        tree = bdp.sample(
            draws=2000, tune=400, chains=2, cores=1, random_seed=4, progressbar=False, quiet=True, nuts_sampler="nutpie"
        )
    exact, weight = triangle()
    expected = posterior_of(projected_laplace(NOISY - exact) + log_poisson_of_reals(exact, RATE) + weight)
    for i in range(3):
        mean = expected @ exact[:, i]
        sd = np.sqrt(expected @ (exact[:, i] - mean) ** 2)
        assert_mean(tree.posterior["x"].values[..., i], mean, sd, f"cell {i}")


class TestPriorDraws:
    def test_tables_from_the_base_and_noise_around_them(self):
        # Gamma(4) rates of mean 20 give negative binomial counts; the noise adds its own variance.
        release = under_a_total(noise.DiscreteGaussian(sigma=6.0), [4, 0, 3])
        with pm.Model(coords=release.coords) as model:
            rate = pm.Gamma("rate", 4.0, 0.2)
            x = bdp.ContinuousCounts("x", pm.Poisson.dist(rate), release)
            pm.Deterministic("twice", 2 * x)
            bdp.observe(release, x)
        tree = xr.DataTree()
        assert add_prior_predictive(tree, model, draws=4000, random_seed=5)
        prior = tree["prior"].to_dataset()
        assert "x_coordinates" not in prior
        assert prior["x"].dims == ("chain", "draw", "county")
        x, noisy = prior["x"].values[0], tree["prior_predictive"]["noisy"].values[0]
        np.testing.assert_array_equal(prior["twice"].values[0], 2 * x)
        np.testing.assert_array_equal(x, np.round(x))
        # Standard errors of a mean and of a covariance over 4,000 draws: 0.2 and 4; five of them.
        np.testing.assert_allclose(x.mean(axis=0), 20, atol=1.0)
        np.testing.assert_allclose(np.cov(x.T), 100 + 20 * np.eye(3), atol=20)
        np.testing.assert_allclose((noisy - x).std(axis=0), 6.0, atol=0.35)  # standard error 0.07
        np.testing.assert_allclose(np.corrcoef((noisy - x).T), np.eye(3), atol=0.08)

    def test_a_multinomial_base_keeps_its_total(self):
        release = under_a_total(noise.LatticeGaussian(2.0), [4, 0, 3])
        model = continuous(release, lambda: pm.Multinomial.dist(n=7, p=RATE / 6))
        tree = xr.DataTree()
        assert add_prior_predictive(tree, model, draws=600, random_seed=6)
        x = tree["prior"]["x"].values[0]
        assert (x.sum(axis=1) == 7).all()
        np.testing.assert_allclose(x.mean(axis=0), 7 * RATE / 6, atol=0.3)  # standard error at most 0.055
        assert (tree["prior_predictive"]["noisy"].values.sum(axis=-1) == 7).all()

    @pytest.mark.parametrize(
        "base", [lambda: pm.Flat.dist(), lambda: pm.HalfFlat.dist(), lambda: pm.Gamma.dist(2.0, 0.5)]
    )
    def test_none_where_there_are_none(self, base):
        tree = xr.DataTree()
        assert not add_prior_predictive(tree, continuous(under_a_total(noise.LatticeLaplace(0.5), [4, 0, 3]), base))
        assert not tree.children

    @pytest.mark.parametrize("law", [noise.ProjectedGaussian(sigma=2.0), noise.DiscreteLaplace(b=2.0)])
    def test_real_tables(self, law):
        values = NOISY if law.support == "subspace" else [4, 0, 3]
        model = continuous(under_a_total(law, values), lambda: pm.Gamma.dist(4.0, 0.5))
        tree = xr.DataTree()
        assert add_prior_predictive(tree, model, draws=2000, random_seed=7)
        x, noisy = tree["prior"]["x"].values[0], tree["prior_predictive"]["noisy"].values[0]
        np.testing.assert_allclose(x.mean(axis=0), 8.0, atol=0.5)  # standard error 0.09
        if law.support == "subspace":
            np.testing.assert_allclose(noisy.sum(axis=1), x.sum(axis=1))
        else:
            np.testing.assert_allclose((noisy - x).mean(axis=0), 0.0, atol=0.4)  # standard error 0.06

    def test_other_potentials_are_said_to_be_left_out(self):
        release = under_a_total(noise.DiscreteGaussian(sigma=6.0), [4, 0, 3])
        model = continuous(release)
        with model:
            pm.Potential("more", -model["x"].sum())
        with pytest.warns(UserWarning, match="leave the model's Potentials out"):
            assert add_prior_predictive(xr.DataTree(), model, draws=5, random_seed=8)

    def test_pymc_itself_is_refused_with_the_reason(self):
        with continuous(under_a_total(noise.DiscreteGaussian(sigma=6.0), [4, 0, 3])), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyMC's about the Potential, PyTensor's about a draw in Python
            with pytest.raises(NotImplementedError, match=r"no prior of their own.*add_prior_predictive"):
                pm.sample_prior_predictive(5)

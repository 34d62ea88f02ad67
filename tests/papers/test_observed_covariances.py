"""Covariances from noisy releases: the Wishart law of the model, its likelihood, and a posterior by importance sampling."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from bayesdp.papers.covariance_cone import CovarianceMatrix
from bayesdp.papers.models import observe_covariance, sample_covariance

SIGMA = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.5], [0.0, -0.5, 0.7]])


def test_sample_covariance_is_wishart() -> None:
    """20,000 draws: means and variances of the six elements within 4.5 standard errors (false alarm 1e-4)."""
    with pm.Model():
        matrix = sample_covariance("s", np.linalg.cholesky(SIGMA), 12, 3)
    drawn = pm.draw(matrix, 4_000, random_seed=4)
    wishart = stats.wishart(11, SIGMA / 11)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - wishart.mean()) < 4.5 * error)
    squares = (drawn - wishart.mean()) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - wishart.var()) < 4.5 * squares.std(axis=0) / np.sqrt(len(drawn)))
    determinants = np.linalg.slogdet(drawn)[1]
    other = np.linalg.slogdet(wishart.rvs(4_000, random_state=5))[1]
    assert stats.ks_2samp(determinants, other).pvalue > 1e-4


@pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
def test_likelihood_in_the_model_is_that_of_the_release(rule: str) -> None:
    bounds = [(-3.0, 3.0), (-4.0, 4.0), (-2.5, 2.5)]
    release = CovarianceMatrix(2.0, 60, bounds, rule=rule).release(SIGMA, rng=np.random.default_rng(6))
    with pm.Model() as model:
        matrix = observe_covariance(release, np.linalg.cholesky(SIGMA))
    point = {
        "sample_covariance_squares_log__": np.log([55.0, 62.0, 50.0]),
        "sample_covariance_normals": [0.3, -1.0, 2.0],
    }
    value = model.compile_fn(model.replace_rvs_by_values([matrix])[0], inputs=model.value_vars)(point)
    found = model.compile_logp(vars=model.observed_RVs)(point)
    assert found == pytest.approx(float(release.log_likelihood(value)), rel=1e-9)


@pytest.mark.slow
def test_posterior_of_the_correlation_by_importance_sampling() -> None:
    """NUTS against 200,000 weighted draws of prior and Wishart law: mean of the correlation within 4.5 errors of both."""
    release = CovarianceMatrix(8.0, 60, [(-3.0, 3.0), (-3.0, 3.0)]).release(
        [[1.0, 0.6], [0.6, 1.2]], rng=np.random.default_rng(3)
    )
    with pm.Model():
        rho_variable = pm.Deterministic("rho", 2 * pm.Beta("half", 2.0, 2.0) - 1)  # LKJ(eta = 2) of two variables
        sd = pm.HalfNormal("sd", 1.5, shape=2)
        rows = [[sd[0], 0.0], [rho_variable * sd[1], pt.sqrt(1 - rho_variable**2) * sd[1]]]
        chol = pt.stack([pt.stack(row) for row in rows])
        observe_covariance(release, chol)
        fit = pm.sample(1000, tune=800, chains=2, cores=1, random_seed=2, progressbar=False, target_accept=0.9)
    correlation = fit.posterior["rho"].values
    rng, size = np.random.default_rng(9), 200_000
    rho = 2 * rng.beta(2.0, 2.0, size) - 1
    deviations = np.abs(rng.normal(0, 1.5, (size, 2)))
    chol_11, chol_21 = deviations[:, 0], rho * deviations[:, 1]
    chol_22 = np.sqrt(1 - rho**2) * deviations[:, 1]
    a, c, z = rng.chisquare(59, size), rng.chisquare(58, size), rng.normal(size=size)
    first, second = chol_11 * np.sqrt(a), chol_21 * np.sqrt(a) + chol_22 * z
    third = chol_22 * np.sqrt(c)
    s = np.stack([np.stack([first**2, first * second], -1), np.stack([first * second, second**2 + third**2], -1)], -1)
    weights = np.exp(release.log_likelihood(s / 59))
    weights /= weights.sum()
    mean = float(weights @ rho)
    error = np.sqrt(float(weights**2 @ (rho - mean) ** 2))
    own = float(correlation.std() / np.sqrt(400))  # at least 400 effective draws of 2000
    assert own < 0.03
    assert error < 0.01
    assert abs(correlation.mean() - mean) < 4.5 * np.hypot(error, own)

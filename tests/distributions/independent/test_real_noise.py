"""The Laplace and Gaussian laws as PyMC distributions, against `bayesdp.noise`, which is compared with SciPy elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

from bayesdp import distributions, noise

KINDS = {
    "laplace": (distributions.Laplace, noise.Laplace, stats.laplace),
    "gaussian": (distributions.Gaussian, noise.Gaussian, stats.norm),
}


@pytest.fixture(scope="module", params=KINDS)
def compiled(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """Log-density, log-cdf and the gradient of the log-density of one vector."""
    value, mu, scale = pt.vector("value"), pt.vector("mu"), pt.vector("scale")
    variable = KINDS[request.param][0].dist(mu, scale)
    logp = pm.logp(variable, value)
    outputs = [logp, pm.logcdf(variable, value), *pt.grad(logp.sum(), [value, mu, scale])]
    return request.param, pytensor.function([value, mu, scale], outputs)


def test_density_cdf_and_gradients(compiled: tuple[str, Any]) -> None:
    kind, function = compiled
    _, law, _ = KINDS[kind]
    mu = np.array([0.3, -4.2, 1e6 + 0.5, 0.0])
    for scale in (0.01, 1.0, 40.0):
        spread = np.full(4, scale)
        for z in (-30.0, -1.25, 0.4, 3.0):
            value = mu + z * scale
            logp, logcdf, by_value, by_mu, by_scale = function(value, mu, spread)
            own = law(scale)
            np.testing.assert_allclose(logp, own.log_density(value, mu), rtol=1e-12)
            np.testing.assert_allclose(logcdf, own.log_cdf(value, mu), rtol=1e-8)
            step = 1e-4 * scale
            slope = (own.log_density(value + step, mu) - own.log_density(value - step, mu)) / (2 * step)
            np.testing.assert_allclose(by_value, slope, rtol=1e-3, atol=1e-8 / scale)
            np.testing.assert_allclose(by_mu, -by_value, rtol=1e-12)
            wider, narrower = law(scale + step), law(scale - step)
            slope = (wider.log_density(value, mu) - narrower.log_density(value, mu)) / (2 * step)
            np.testing.assert_allclose(by_scale, slope, rtol=1e-3, atol=1e-6 / scale)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_and_checks(kind: str) -> None:
    # False alarm 1e-4 each, for another seed.
    own, _, exact = KINDS[kind]
    variable = own.dist(np.array([2.5, -1.0]), np.array([0.5, 3.0]))
    draws = pm.draw(variable, 20_000, random_seed=4)
    assert draws.dtype == np.float64
    assert stats.kstest(draws[:, 0], exact(2.5, 0.5).cdf).pvalue > 1e-4
    assert stats.kstest(draws[:, 1], exact(-1.0, 3.0).cdf).pvalue > 1e-4
    with pytest.raises(ValueError, match="must be finite and greater than 0"):
        own.dist(0.0, -1.0)
    with pm.Model() as model:
        own("noisy", 3, 2.0, observed=[1.25, 7.0])
    assert model.compile_logp()({}) == pytest.approx(KINDS[kind][1](2.0).logp([1.25, 7.0], [3, 3]), rel=1e-12)
    assert own.dist(3, 2.0, shape=2).eval().shape == (2,)

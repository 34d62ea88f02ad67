"""Canonical noise in PyMC: densities against the NumPy laws, draws, and posteriors against enumeration."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.stats import binom, kstest, poisson

import bayesdp as bdp
from bayesdp import distributions
from bayesdp.mechanisms import CanonicalNoise
from bayesdp.privacy import canonical, tradeoff

COIN = tradeoff(binom.pmf(range(6), 5, 0.3), binom.pmf(range(6), 5, 0.7))
X = np.concatenate([np.linspace(-7.0, 7.0, 57) + 0.003, [-1e4, 2e4]])


def test_density_and_distribution_of_tulap() -> None:
    epsilon, delta, value = pt.dscalar(), pt.dscalar(), pt.dvector()
    rv = distributions.Tulap.dist(mu=1.0, epsilon=epsilon, delta=delta)
    logs = pytensor.function([value, epsilon, delta], [pm.logp(rv, value), pm.logcdf(rv, value)], mode="FAST_COMPILE")
    for e, d in ((1.0, 0.0), (0.5, 1e-7), (0.3, 0.05), (30.0, 1e-3), (1e-3, 0.0)):
        law = canonical.Tulap(e, d)
        density, below = logs(X + 1.0, e, d)
        np.testing.assert_allclose(density, law.logpdf(X), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(below, law.logcdf(X), rtol=1e-8, atol=1e-12)


def test_gradient_of_tulap_is_zero_and_finite() -> None:
    mu = pt.dscalar()
    density = pm.logp(distributions.Tulap.dist(mu=mu, epsilon=1.0, delta=0.01), 0.3)
    slope = pytensor.function([mu], pt.grad(density, mu), mode="FAST_COMPILE")
    assert [float(slope(m)) for m in (0.0, 0.3, 1.7, 100.0)] == [0.0] * 4


def test_draws_of_tulap() -> None:
    # Two false alarms of 1e-4; the seed is fixed. The compiled sampler, and the one in NumPy.
    for d in (0.0, 0.05):
        law = canonical.Tulap(0.7, d)
        draws = pm.draw(distributions.Tulap.dist(mu=3.0, epsilon=0.7, delta=d, size=4000), random_seed=1)
        assert kstest(draws - 3.0, law.cdf).pvalue > 1e-4
        plain = distributions.Tulap.rv_type.rng_fn(np.random.default_rng(1), [3.0, 5.0], 0.7, d, (4000, 2))
        assert kstest((plain - [3.0, 5.0]).ravel(), law.cdf).pvalue > 1e-4


def test_generic_canonical_noise() -> None:
    law = COIN.canonical_noise()
    rv = distributions.CanonicalNoise.dist(mu=[0.0, 1.0], tradeoff=COIN)
    np.testing.assert_allclose(pm.logp(rv, [0.3, 2.7]).eval(), law.logpdf([0.3, 1.7]), rtol=1e-12)
    draws = pm.draw(distributions.CanonicalNoise.dist(mu=2.0, tradeoff=COIN, size=3000), random_seed=2)
    assert kstest(draws - 2.0, law.cdf).pvalue > 1e-4
    with pytest.raises(TypeError, match="tradeoff must be a trade-off function"):
        distributions.CanonicalNoise.dist(mu=0.0, tradeoff=0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be symmetric"):
        distributions.CanonicalNoise.dist(mu=0.0, tradeoff=tradeoff([0.5, 0.5], [0.1, 0.9]))
    with pytest.raises(ValueError, match="epsilon must be"):
        distributions.Tulap.dist(mu=0.0, epsilon=-1.0)


@pytest.mark.parametrize("delta", [None, 0.02])
def test_posterior_of_counts_is_that_of_enumeration(delta: float | None) -> None:
    # Means of 4000 draws: alarm at 6 standard errors for 4 quantities, below 1e-7 if the draws are independent.
    frame = {"county": ["Alpha", "Beta"]}
    mechanism = CanonicalNoise(frame, epsilon=0.8, delta=delta, neighbours="add-remove")
    release = mechanism.release([9, 4], rng=np.random.default_rng(8))
    k = np.arange(80)
    with pm.Model(coords=release.coords):
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist([8.0, 6.0]), dims=("county",))
        bdp.observe(release, x)
        found = bdp.sample(draws=4000, tune=200, chains=1, random_seed=1, progressbar=False, quiet=True)
    drawn = found.posterior["x"].values.reshape(-1, 2)
    for j, rate in enumerate((8.0, 6.0)):
        y = float(release.values.values[j])
        weight = poisson.pmf(k, rate) * mechanism.count_tradeoff.canonical_noise().pdf(y - k)
        weight /= weight.sum()
        mean = float(weight @ k)
        variance = float(weight @ (k - mean) ** 2)
        assert drawn[:, j].mean() == pytest.approx(mean, abs=6 * np.sqrt(variance / len(drawn)))
        assert drawn[:, j].var() == pytest.approx(variance, rel=0.2)

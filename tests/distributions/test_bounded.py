"""PyMC distributions within bounds against the laws without PyMC, PyMC's own Truncated and Censored, and finite differences."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import stats

from bayesdp import distributions, noise
from tests.refusals import refused

NAMES = [way + law for way in ("Truncated", "BoundaryInflated") for law in ("Laplace", "Gaussian", "DiscreteLaplace")]
"""Beside BoundaryInflatedDiscreteGaussian."""

SETTINGS = [(1.7, -2.0, 5.0), (0.4, -1.0, np.inf), (25.0, -np.inf, 6.0), (6.0, 0.0, 3.0)]
MUS = np.array([-3.3, -1.0, 0.0, 0.45, 2.5, 4.9, 5.0, 7.2])
VALUES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 9.0])


@pytest.mark.system
@pytest.mark.parametrize("name", NAMES)  # that of the discrete Gaussian takes ten seconds to compile, of the same parts
@pytest.mark.compiled  # far out a gradient needs the stable forms that compilation chooses
def test_logp_and_gradient(name):
    parameters = y, mu, scale, lower, upper = [pt.dvector() if i < 2 else pt.dscalar() for i in range(5)]
    logp = pm.logp(getattr(distributions, name).dist(mu, scale, lower, upper, shape=y.shape), y)
    gradient = pt.grad(pt.switch(pt.isinf(logp), 0.0, logp).sum(), [mu, scale])
    # The stable forms of all of them; one is compiled to the end.
    mode = None if name == "TruncatedGaussian" else Mode("py", "fast_run").excluding("fusion")
    f = pytensor.function(parameters, [logp, *gradient], mode=mode, on_unused_input="ignore")
    for scale, lower, upper in SETTINGS:
        law = getattr(noise, name)(scale, (lower, upper))
        y, mu = (grid.ravel() for grid in np.meshgrid(VALUES, MUS))
        found, by_mu, by_scale = f(y, mu, scale, lower, upper)
        expected = law.log_each(y, mu)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        # Finite differences of the law without PyMC, away from kinks: where mu is a value, a bound or a half-integer.
        smooth, h = np.isfinite(expected) & np.isin(mu, [-3.3, 0.45, 4.9, 7.2]), 1e-6
        wide, narrow = (getattr(noise, name)(scale + d, (lower, upper)).log_each(y, mu) for d in (h, -h))
        with np.errstate(invalid="ignore"):
            slope, steep = (law.log_each(y, mu + h) - law.log_each(y, mu - h)) / (2 * h), (wide - narrow) / (2 * h)
        np.testing.assert_allclose(by_mu[smooth], slope[smooth], rtol=1e-5, atol=1e-7)
        assert by_scale == pytest.approx(float(np.sum(steep[np.isfinite(expected)])), rel=1e-5, abs=1e-6)
        assert np.all(np.isfinite(by_mu))


@pytest.mark.parametrize("name", [*NAMES, "BoundaryInflatedDiscreteGaussian"])
def test_cumulative_and_draws(name):
    """Kolmogorov and Smirnov on 2,000 draws: 7 tests, a false alarm in 10,000 each."""
    kind, law = getattr(distributions, name), getattr(noise, name)(1.3, (-2, 4))
    y = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 5.0])
    found = pm.logcdf(kind.dist(0.7, 1.3, -2.0, 4.0), y).eval()
    np.testing.assert_allclose(found, law.log_cdf(y, 0.7), rtol=1e-8, atol=1e-12)
    drawn = pm.draw(kind.dist(0.7, 1.3, -2, 4, shape=2000), random_seed=3, mode="FAST_COMPILE")
    assert np.all((drawn >= -2) & (drawn <= 4))
    values, counts = np.unique(drawn, return_counts=True)
    distance = np.max(np.abs(np.cumsum(counts) / drawn.size - law.cdf(values.astype(float), 0.7)))
    assert distance < stats.kstwobign.isf(1e-4) / np.sqrt(drawn.size)


def test_support_points_and_transforms():
    with pm.Model() as model:
        distributions.TruncatedLaplace("free", mu=0.0, b=1.0, lower=0.0, upper=1.0, shape=3)
        distributions.TruncatedLaplace("half", mu=0.0, b=1.0, lower=0.0)
        distributions.BoundaryInflatedDiscreteGaussian("count", mu=9.0, sigma=1.0, lower=0, upper=4)
    point = model.initial_point()
    assert np.isfinite(model.compile_logp()(point))
    assert set(point) == {"free_interval__", "half_interval__", "count"}


test_refusals = refused(
    ((0.0, 1.0, 1, 0), "reversed"),
    ((0.0, 1.0), "both are infinite"),
    ((0.0, -1.0, 0, 1), "greater than 0"),
    ((0.0, 1.0, 0, 1.5), "whole number"),
    error=ValueError,
    of=lambda parameters: distributions.TruncatedDiscreteLaplace.dist(*parameters),
)

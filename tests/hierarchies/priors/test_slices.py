"""Slice sampling from exact draws leaves a density as it is; centres and variances of normal effects are drawn exactly."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from bayesdp.hierarchies.priors.base import draw_centre, draw_variance, gamma_terms, gather, slice_draws

DRAWS, RATE = 60_000, 1e-6  # false alarms of a comparison


def two_modes(x):
    return np.log(0.8 * stats.norm.pdf(x, 0.0, 0.5) + 0.2 * stats.norm.pdf(x, 3.0, 0.3))


def draws_of_two(rng):
    return np.where(rng.random(DRAWS) < 0.8, rng.normal(0, 0.5, DRAWS), rng.normal(3, 0.3, DRAWS))


@pytest.mark.parametrize("width", [0.4, 3.0])
@pytest.mark.parametrize(
    ("log_density", "draws"),
    [(two_modes, draws_of_two), (stats.expon.logpdf, lambda rng: rng.exponential(size=DRAWS))],
)
def test_one_update_from_exact_draws(log_density, draws, width):
    rng = np.random.default_rng(4)
    start = draws(rng)
    after = slice_draws(lambda value, _: log_density(value), start, np.full(DRAWS, width), rng)
    assert np.mean(after != start) == 1.0
    assert stats.ks_2samp(after, draws(rng)).pvalue > RATE
    # Pairs are as likely as the reversed pairs.
    assert stats.ks_2samp((start - after)[: DRAWS // 2], (after - start)[DRAWS // 2 :]).pvalue > RATE


def test_centre_and_variance_against_grids():
    rng, effects = np.random.default_rng(5), np.array([[0.3, 2.0], [1.5, -1.0], [0.2, 0.4]])

    def compare(drawn, grid, *logs):
        cumulated = np.cumsum(np.exp(sum(logs) - sum(logs).max()))
        assert stats.kstest(np.interp(drawn, grid, cumulated / cumulated[-1]), "uniform").pvalue > RATE

    drawn, grid = np.array([draw_centre(effects, 0.7, 0.5, 2.0, rng) for _ in range(4_000)]), np.linspace(-6, 6, 4_001)
    for own, of_effects in zip(
        drawn.T, stats.norm.logpdf(effects[..., None], grid, np.sqrt(0.7)).sum(axis=0), strict=True
    ):
        compare(own, grid, of_effects, stats.norm.logpdf(grid, 0.5, np.sqrt(2.0)))
    drawn, grid = np.array([draw_variance(effects, 0.8, rng) for _ in range(4_000)]), np.linspace(1e-3, 60, 60_001)
    logs = stats.norm.logpdf(effects.reshape(-1, 1), 0.0, np.sqrt(grid)).sum(axis=0)
    compare(drawn, grid, logs, stats.invgamma.logpdf(grid, 3.0, scale=2 * 0.8**2))


def test_gamma_terms():
    """Against sums of log gamma functions, with counts on both sides of the limit."""
    rng = np.random.default_rng(6)
    counts = rng.integers(0, 3, (30, 4)) * rng.integers(1, 40_000, (30, 4)) ** rng.integers(0, 2, (30, 4))
    counts[:3, 0] = 15, 16, 17
    free = rng.random(counts.shape) < 0.8
    terms = gather(np.where(free, counts, 0), np.repeat([0, 4], 15), np.arange(4), 8)
    which = np.arange(8)
    for log_shape in (-9.0, -1.0, 3.0):
        a = np.exp(log_shape)
        cells = np.where(free, gammaln(counts + a) - gammaln(a), 0.0)
        expected = np.concatenate([cells[:15].sum(axis=0), cells[15:].sum(axis=0)])
        np.testing.assert_allclose(gamma_terms(np.full(8, log_shape), which, terms), expected, rtol=1e-10, atol=1e-9)

"""Posteriors of proportions from releases that add up to 1, against enumeration and quadrature of their own."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from bayesdp.papers import bounded_statistics
from bayesdp.papers.bounded_statistics import posterior_of_proportions

NAMES = ["a", "b", "c"]


def _clipped(values: Any, location: Any, b: float) -> float:
    noise = stats.laplace(loc=np.asarray(location), scale=b)
    each = np.where(values == 0, noise.cdf(0), np.where(values == 1, noise.sf(1), noise.pdf(values)))
    return float(np.prod(each))


def test_two_categories_by_quadrature() -> None:
    """All but one of two: the posterior of p by quadrature over p and a sum over the count."""
    mechanism = bounded_statistics.AllButOne(0.7, 12, ["yes", "no"])
    release = mechanism.release([3, 9], rng=np.random.default_rng(5))
    assert release.noisy is not None
    y, b = release.noisy.values, 1 / (12 * 0.7)

    likelihoods = [math.comb(12, x) * _clipped(y, [x / 12], b) for x in range(13)]

    def target(p: float) -> float:
        """Up to a constant, with a Beta(2, 1.5) prior."""
        return p * (1 - p) ** 0.5 * sum(w * p**x * (1 - p) ** (12 - x) for x, w in enumerate(likelihoods))

    posterior = posterior_of_proportions(mechanism, release, [2.0, 1.5])
    whole = integrate.quad(target, 0, 1)[0]
    low, high = posterior.interval(0, 0.9)
    assert posterior.mean[0] == pytest.approx(integrate.quad(lambda p: p * target(p), 0, 1)[0] / whole, rel=1e-8)
    assert integrate.quad(target, 0, low)[0] / whole == pytest.approx(0.05, abs=1e-8)
    assert integrate.quad(target, high, 1)[0] / whole == pytest.approx(0.05, abs=1e-8)
    assert posterior.cdf(0.3, 0) == pytest.approx(integrate.quad(target, 0, 0.3)[0] / whole, abs=1e-8)


def _ratio_density(shares: Any, mu: Any, b: float) -> float:
    """Three positive shares of clipped values, one of them the largest: quadrature over the first value."""
    j = int(np.argmax(shares))
    ratio = shares / shares[j]
    noise = stats.laplace(loc=mu, scale=b)
    edges = sorted({0.0, 1.0, *(float(x) for x in mu / ratio if 0 < x < 1)})
    # y_j = t, others t * ratio: density of ratios is the integral of t^2 f(t) prod f(t ratio), plus the atom at t = 1.
    inner = sum(
        integrate.quad(lambda t: float(t**2 * np.prod(noise.pdf(t * ratio))), a, c, epsrel=1e-10)[0]
        for a, c in itertools.pairwise(edges)
    )
    others = np.delete(noise.pdf(ratio), j)
    return inner + float(np.asarray(noise.sf(1.0))[j] * np.prod(others))


@pytest.mark.parametrize(
    "kind", [bounded_statistics.RescaledProportions, bounded_statistics.AllButOne, bounded_statistics.MultipleSynthesis]
)
def test_three_categories_by_enumeration(kind: Any) -> None:
    n, rng = 6, np.random.default_rng(8)
    if kind is bounded_statistics.MultipleSynthesis:
        source: Any = bounded_statistics.MultipleSynthesis.split(
            bounded_statistics.RescaledProportions, 4.0, n, NAMES, parts=2
        )
    else:
        source = kind(2.0, n, NAMES)
    release = source.release([1, 2, 3], rng)
    parts = release if isinstance(release, tuple) else (release,)
    logs = {}
    for x in itertools.product(range(n + 1), repeat=3):
        if sum(x) != n:
            continue
        mu, weight = np.array(x) / n, 1.0  # a Dirichlet(1, 1, 1) prior makes all tables as likely
        for part in parts:
            if part.noisy is None:
                assert np.all(part.shares > 0)
                weight *= _ratio_density(part.shares, mu, 2 / (n * 2.0))
            else:
                weight *= _clipped(part.noisy.values, mu[:2], 2 / (n * 2.0))
        logs[x] = weight
    total = sum(logs.values())
    posterior = posterior_of_proportions(source, release)
    assert len(posterior.weights) == len(logs) == 28
    for table, weight in zip(posterior.counts, posterior.weights, strict=True):
        assert weight == pytest.approx(logs[tuple(int(v) for v in table)] / total, rel=1e-7)
    expected = sum((np.array(x) + 1) * w for x, w in logs.items()) / total / (n + 3)
    assert np.allclose(posterior.mean, expected)
    # Sums of categories, and draws: 20,000 within 4.5 standard errors (1e-5).
    assert posterior.cdf(0.4, [0, 1]) == pytest.approx(1 - posterior.cdf(0.6, 2), abs=1e-12)
    draws = posterior.draw(np.random.default_rng(1), 20_000)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - posterior.mean) < 4.5 * error)


def test_tree_of_four_by_enumeration() -> None:
    mechanism = bounded_statistics.UniversalHistogram(3.0, 5, [*NAMES, "d"])
    release = mechanism.release([0, 1, 2, 2], rng=np.random.default_rng(3))
    assert release.noisy is not None
    posterior = posterior_of_proportions(mechanism, release, 2.0)
    weights = []
    for x in posterior.counts:
        prior = stats.dirichlet_multinomial.pmf(x, np.full(4, 2.0), 5)
        nodes = np.array([x[0] + x[1], x[2] + x[3], *x]) / 5
        weights.append(prior * _clipped(release.noisy.values, nodes, 4 / (5 * 3.0)))
    assert len(weights) == 56
    assert np.allclose(posterior.weights, np.array(weights) / np.sum(weights), rtol=1e-9)


def test_refusals() -> None:
    mechanism = bounded_statistics.AllButOne(1.0, 400, [*NAMES, "d", "e"])
    release = mechanism.release([100, 100, 100, 50, 50], rng=np.random.default_rng(1))
    with pytest.raises(NotImplementedError, match="more than 2000000 to enumerate"):
        posterior_of_proportions(mechanism, release)
    small = bounded_statistics.AllButOne(1.0, 4, NAMES)
    for prior in (0.0, [1.0, 1.0], [1.0, -1.0, 1.0]):
        with pytest.raises(ValueError, match="prior must be greater than 0"):
            posterior_of_proportions(small, small.release([1, 1, 2], rng=np.random.default_rng(1)), prior)

"""The posterior of proportions under bounded noise, against the listing of all tables of three categories."""

from itertools import product

import numpy as np
import pytest
from scipy import integrate, special, stats

from bayesdp import noise
from notebooks.bounded_posterior import log_likelihoods, posterior

N = 12
TABLES = np.array([x for x in product(range(N + 1), repeat=3) if sum(x) == N])
LAWS = {"truncated": noise.TruncatedLaplace, "inflated": noise.BoundaryInflatedLaplace}


def test_log_likelihoods_are_those_of_the_laws_and_releases_of_the_same_data_multiply():
    values = np.array([[0.0, 1.0], [0.31, 0.995]])
    for rule in LAWS:
        law = LAWS[rule](0.07, (0.0, 1.0))
        expected = [[[law.logp(value, k / N) for k in range(N + 1)] for value in row] for row in values]
        np.testing.assert_allclose(log_likelihoods(values, N, 0.07, rule), expected, rtol=1e-12, atol=1e-12)
    values = [[0.2, 0.3, 0.4], [0.25, 0.5, 0.3]]
    found = posterior(log_likelihoods(values, N, 0.1, "truncated").sum(axis=0, keepdims=True))
    expected = of_counts(by_enumeration(values, "truncated", 0.1, [1.0] * 3))
    np.testing.assert_allclose(found.counts[0], expected, rtol=1e-9)
    terms = np.zeros((1, 3, 5))
    far = log_likelihoods([[0.9, 0.9, 0.9]], 1000, 0.001, "truncated")
    for call, message in (
        (lambda: log_likelihoods([0.1, 1.2], 5, 0.1, "truncated"), r"between 0 and 1, got 1\.2"),
        (lambda: log_likelihoods(0.1, 5, 0.1, "clipped"), "rule"),
        (lambda: posterior(terms, alpha=[1.0, 0.0, 1.0]), "alpha must be 3 positive"),
        (lambda: posterior(terms, np.zeros((1, 3, 5))), "sums must have shape"),
        (lambda: posterior(np.zeros((3, 5))), "two categories"),
        (lambda: posterior(far), "data set 0 contradicts n=1000"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def by_enumeration(data_sets, rule, scale, alpha, sums=None):
    """Probability of every table: law of the library, Dirichlet-multinomial mass of SciPy."""
    law = LAWS[rule](scale, (0.0, 1.0))
    logs = stats.dirichlet_multinomial(alpha, N).logpmf(TABLES)
    logs = logs + np.array([sum(law.logp(values, table / N) for values in data_sets) for table in TABLES])
    if sums is not None:
        below = TABLES.cumsum(axis=1)[:, :2] / N
        logs = logs + np.array([law.logp(np.array(sums), own) for own in below])
    return np.exp(logs - special.logsumexp(logs))


def of_counts(masses):
    return np.array([np.bincount(TABLES[:, j], masses, N + 1) for j in range(3)])


def test_posterior_is_that_of_the_enumeration():
    for rule, values, scale, alpha, sums in (
        ("truncated", [0.2, 0.31, 0.55], 0.08, [1.0, 1.0, 1.0], None),
        ("truncated", [0.9, 0.02, 0.3], 0.2, [0.4, 2.5, 1.0], None),
        ("inflated", [0.0, 0.4, 0.7], 0.15, [1.0, 3.0, 0.7], [0.2, 0.63]),
        ("truncated", [0.25, 0.5, 0.25], 0.002, [1.0, 1.0, 1.0], None),
    ):
        masses = by_enumeration([values], rule, scale, alpha, sums)
        # A second data set before it, which must not matter.
        terms = log_likelihoods([[0.3, 0.3, 0.3], values], N, scale, rule)
        chain = None if sums is None else log_likelihoods([[0.9, 0.1], sums], N, scale, rule)
        found = posterior(terms, chain, alpha)
        np.testing.assert_allclose(found.counts[1], of_counts(masses), rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(found.mean[1], masses @ (TABLES + alpha) / (N + sum(alpha)), rtol=1e-12)
        p = np.array([0.15, 0.4, 0.6])
        beta = stats.beta(np.array(alpha) + TABLES, sum(alpha) - np.array(alpha) + N - TABLES)
        below = masses @ beta.cdf(p)
        np.testing.assert_allclose(found.cdf(p)[1], below, rtol=1e-10)
        np.testing.assert_allclose(found.cdf([p, p])[1], below, rtol=1e-10)
        for end, share in zip(found.interval(0.9), (0.05, 0.95), strict=True):
            assert np.all(found.cdf(np.maximum(end - 1e-3, 0.0)) <= share)
            assert np.all(found.cdf(end + 1e-3) >= share)
            if scale == 0.08:  # flat
                np.testing.assert_allclose(found.cdf(end), share, atol=2e-5)


def test_one_proportion_by_quadrature_over_p():
    """Two categories, one of them published: the posterior density of p from the binomial likelihood, by quadrature."""
    law = noise.TruncatedLaplace(0.1, (0.0, 1.0))
    weights = np.exp([law.logp(0.35, k / N) for k in range(N + 1)])

    def density(p):
        return float(stats.binom(N, p).pmf(np.arange(N + 1)) @ weights)

    terms = np.zeros((1, 2, N + 1))
    terms[0, 0] = log_likelihoods(0.35, N, 0.1, "truncated")
    found = posterior(terms)
    total = integrate.quad(density, 0.0, 1.0)[0]
    for p in (0.2, 0.5):
        assert found.cdf([p, 1 - p])[0, 0] == pytest.approx(integrate.quad(density, 0.0, p)[0] / total, rel=1e-8)

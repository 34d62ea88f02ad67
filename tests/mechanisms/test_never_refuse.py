"""No release is refused because of confidential values that data within the public bounds can have: a refusal would tell."""

import itertools

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.papers import covariance_cone
from bayesdp.papers.bounded_statistics import AllButOne, RescaledProportions, UniversalHistogram
from bayesdp.privacy import covariance_sensitivity, mean_sensitivity, variance_sensitivity

EITHER_RULE = pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
RANGES = [(0.0, 1.0), (0.1, 0.7), (-3.0, 4.7), (1e6 + 0.1, 1e6 + 0.7)]


def data_sets(n, low, high, rng):
    """All at a bound, all but one, half and half, random: of n records."""
    for at_low in {0, 1, n // 2, (n + 1) // 2, n - 1, n}:
        yield np.repeat([low, high], [at_low, n - at_low])
    yield rng.uniform(low, high, n)
    yield np.full(n, rng.uniform(low, high))
    yield rng.choice([low, high, 0.5 * (low + high)], n)


def naive_mean(x):
    """Adding up from left to right, as many programs do: more rounding than NumPy's."""
    return float(sum(x.tolist()) / len(x))


STATISTICS = [(mean_sensitivity, naive_mean)]
STATISTICS += [(variance_sensitivity, lambda x: sum(((x - naive_mean(x)) ** 2).tolist()) / (len(x) - 1))]
STATISTICS += [(covariance_sensitivity, lambda x: float(np.cov(x, x)[0, 1]))]


@pytest.mark.parametrize("limits", RANGES, ids=str)
@pytest.mark.parametrize(("of", "statistic"), STATISTICS)
def test_statistics(of, statistic, limits):
    rng = np.random.default_rng(5)
    for n, neighbours in ((7, "substitution"), (20, "add-remove")):
        own = of(n, *[limits] * (2 if of is covariance_sensitivity else 1), neighbours)
        sizes = (n,) if neighbours == "substitution" else (n - 1, n, n + 1)
        data = [statistic(own) for size in sizes for own in data_sets(size, *limits, rng)]
        for kind in (bdp.TruncatedLaplace, bdp.BoundaryInflatedLaplace):
            mechanism = kind(1.0, own, own.bounds)
            for value in data:
                mechanism.release(value, rng)


def test_a_statistic_that_is_outside_is_refused_and_not_printed():
    own = bdp.TruncatedLaplace(1.0, 0.1, (0.0, 1.0))
    for value in (1.0 + 9e-10, -9e-10):
        own.release(value, np.random.default_rng(1))
    for value in (1.0 + 1.1e-9, 1.23456, -1.1e-9):
        with pytest.raises(ValueError, match="within its bounds, 0 to 1, but the statistic does not: the bounds are"):
            own.release(value)
    # A one-sided bound, and a vector of which one is outside.
    half = bdp.BoundaryInflatedLaplace(1.0, [0.1, 0.1], ([2.0, None], [None, 3.0]), names=["a", "b"])
    half.release([2.0, 3.0 + 2e-9], np.random.default_rng(1))
    with pytest.raises(ValueError, match=r"-inf to 3, but b does not"):
        half.release([2.0, 3.1])


@EITHER_RULE
@pytest.mark.parametrize("kind", [RescaledProportions, AllButOne, UniversalHistogram])
def test_proportions(kind, rule):
    rng, names = np.random.default_rng(3), ["a", "b", "c", "d"]
    mechanism = kind(30.0, 3, names, rule=rule)
    for table in itertools.product(range(4), repeat=4):
        if sum(table) == 3:
            mechanism.release(table, rng)
    large = kind(1.0, 10**6 + 1, names, rule=rule)
    for table in ([10**6 + 1, 0, 0, 0], [1, 0, 0, 10**6], [333_333, 333_333, 333_333, 2]):
        large.release(table, rng)
    with pytest.raises(ValueError, match="add up to the public n = 1000001, but they do not"):
        large.release([333, 0, 0, 0])


@EITHER_RULE
@pytest.mark.parametrize("limits", [RANGES[:2], [RANGES[3], RANGES[2]]], ids=["small", "large"])
def test_covariance_matrices(rule, limits):
    rng = np.random.default_rng(8)
    for n in (7, 20):
        mechanism = covariance_cone.CovarianceMatrix(3.0, n, limits, rule=rule)
        first, second = (list(data_sets(n, *own, rng)) for own in limits)
        for x, y in [*zip(first, second, strict=True), (first[2], -second[2] + sum(limits[1])), (first[0], second[2])]:
            a, b = x - naive_mean(x), y - naive_mean(y)
            matrix = np.array([[a @ a, a @ b], [sum((b * a).tolist()), b @ b]]) / (n - 1)
            mechanism.release(matrix, rng)

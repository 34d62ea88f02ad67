"""Statistics whose function was released: values, density and posterior of the back-transformation, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate

import bayesdp as bdp
from bayesdp.mechanisms import StatisticRelease
from bayesdp.noise import BoundaryInflatedLaplace, TruncatedLaplace
from bayesdp.privacy import variance_sensitivity

KNOWN = variance_sensitivity(50, (-3.0, 3.0))


@pytest.mark.parametrize("kind", [bdp.TruncatedLaplace, bdp.BoundaryInflatedLaplace])
def test_the_standard_deviation_of_a_released_variance(kind: Any) -> None:
    one = kind(2.0, KNOWN, KNOWN.bounds).release(1.44, rng=4)
    assert float(one.back_transformed(np.sqrt)) == np.sqrt(float(one.values))
    two = kind(2.0, [KNOWN.l1] * 2, KNOWN.bounds, names=["a", "b"]).release([1.44, 4.0], rng=4)
    found = two.back_transformed(np.sqrt)
    assert found.coords["statistic"].values.tolist() == ["a", "b"]
    np.testing.assert_array_equal(found, np.sqrt(two.values))
    np.testing.assert_array_equal(two.back_transformed(lambda t: 1.0 / (1.0 + t)), 1.0 / (1.0 + two.values))


def test_bounds_and_atoms_become_bounds_and_atoms() -> None:
    low, high = KNOWN.bounds
    law = BoundaryInflatedLaplace(1.0, KNOWN.bounds)
    for edge in (low, high):
        assert float(StatisticRelease(edge, law).back_transformed(np.sqrt)) == np.sqrt(edge)


def test_the_posterior_is_that_of_what_was_released() -> None:
    """Density of s* = sqrt(t*) by finite differences of its distribution function: proportional to that of t* in the parameter."""
    law = TruncatedLaplace(0.4, (0.0, 9.0))
    truth = np.linspace(0.1, 2.9, 30)
    published, step = 1.3, 1e-5
    density = (law.cdf((published + step) ** 2, truth**2) - law.cdf((published - step) ** 2, truth**2)) / (2 * step)
    expected = np.exp(law.log_each(published**2, truth**2))
    np.testing.assert_allclose(density / expected, 2 * published, rtol=1e-6)


def test_the_mean_does_not_become_the_mean() -> None:
    """The docstring's warning, by quadrature: the mean of sqrt(t*) is below the root of the mean of t*."""
    law = TruncatedLaplace(0.4, (0.0, 9.0))
    mean = integrate.quad(lambda t: np.sqrt(t) * np.exp(law.log_each(t, 1.44)), 0.0, 9.0, points=[1.44])[0]
    assert mean < np.sqrt(law.mean(1.44)) - 0.01


@pytest.mark.parametrize(
    ("inverse", "error", "message"),
    [
        (3.0, TypeError, "inverse must be a function"),
        (lambda t: np.append(t, t), ValueError, r"inverse must return an array of shape \(2,\)"),
        (lambda t: (t - 4.0) ** 2, ValueError, "strictly increasing or strictly decreasing .* for a it is 16, 9, 25"),
        (np.ones_like, ValueError, "strictly increasing or strictly decreasing .* for a it is"),
        (np.log, ValueError, "finite at the released values, but for b it is -inf, -inf"),
        (lambda t: np.sqrt(t - 0.5), ValueError, "inverse must be finite .* for b it is nan"),
        (lambda t: np.sqrt(t - 1e-300 - np.array([0.5, 0.0])), ValueError, "finite .* for b"),
        (lambda t: np.sqrt(8.0 - t), ValueError, "defined at the bounds, but for a it is"),
    ],
)
def test_bad_input(inverse: Any, error: type[Exception], message: str) -> None:
    release = StatisticRelease([1.0, 0.0], BoundaryInflatedLaplace(1.0, (0.0, 9.0)), ["a", "b"])
    with pytest.raises(error, match=message):
        release.back_transformed(inverse)


def test_a_function_that_is_infinite_at_a_bound_that_was_not_released() -> None:
    release = StatisticRelease(1.0, BoundaryInflatedLaplace(1.0, (0.0, None)))
    assert float(release.back_transformed(np.log)) == 0.0

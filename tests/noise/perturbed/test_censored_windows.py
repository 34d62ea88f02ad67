"""Windows of censored laws against their log-mass around every true answer, in the window and far beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayesdp.noise import Censored, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, LogMassWindows


def evaluated(windows: LogMassWindows, i: int, v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The definition of the interface, by hand."""
    low, length, start = int(windows.low[i]), int(windows.length[i]), int(windows.start[i])
    inside = windows.log_mass[start + np.clip(v - low, 0, length - 1)]
    left = np.where(v < low, windows.below[i] * (low - v), 0.0)
    return inside + left + np.where(v >= low + length, windows.above[i] * (v - (low + length - 1)), 0.0)


LAPLACE = [
    Censored(DiscreteLaplace(3.0), below=10),
    Censored(DiscreteLaplace(0.3), below=10, above=14),
    Censored(DiscreteLaplace(40.0), above=12),
    Censored(Laplace(3.0), below=10.25, above=12.5),
    Censored(Laplace(2.0), below=10.0),
]
NORMAL = [
    Censored(DiscreteGaussian(3.0), below=10),
    Censored(DiscreteGaussian(0.4), below=10, above=14),
    Censored(Gaussian(3.0), below=10.25, above=12.5),
    Censored(Gaussian(5.0), above=12.0),
]


def published(law: Censored) -> np.ndarray[Any, Any]:
    values = [11, 12] if law.integer else [10.5, 11.0, 12.0]
    return np.array([*(side for side in law.limits if np.isfinite(side)), *values])


@pytest.mark.parametrize("law", LAPLACE, ids=str)
def test_laplace_is_exact_everywhere(law: Censored) -> None:
    y, v = published(law), np.arange(-3000, 3001)
    windows = law.windows(y)
    assert windows is not None
    for i, value in enumerate(y):
        np.testing.assert_allclose(evaluated(windows, i, v), law.log_each(value, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("law", NORMAL, ids=str)
def test_gaussian_is_exact_for_40_scales_and_falls_beyond(law: Censored) -> None:
    scale = float(law.uncensored.scale)  # type: ignore[attr-defined]
    reach = max(int(40 * scale), 60)
    y, v = published(law), np.arange(10 - reach, 12 + reach)
    windows = law.windows(y)
    assert windows is not None
    for i, value in enumerate(y):
        np.testing.assert_allclose(evaluated(windows, i, v), law.log_each(value, v), rtol=1e-11, atol=1e-12)
        far = evaluated(windows, i, np.arange(-1000, 1001))
        assert np.all(np.diff(np.diff(far)) <= 1e-7)  # log-concave, tangents included
        lost = far[-1] if value <= 12 and not value == law.limits[1] else far[0]
        assert lost < -700


def test_answers_share_windows() -> None:
    law = Censored(DiscreteGaussian(5.0), below=[10] * 4 + [90] * 4)
    windows = law.windows(np.array([9, 9, 12, 400, 89, 89, 1000, 95]))
    assert windows is not None
    assert len(set(windows.start.tolist())) == 2  # published, and under a threshold
    np.testing.assert_array_equal(windows.low[4] - windows.low[0], 80)
    table = Censored(DiscreteLaplace(2.0), below=3).windows(np.full((2, 3), 2))
    assert table is not None
    assert table.low.shape == (6,)


def test_left_to_the_compiled_density() -> None:
    """Windows that would be too long."""
    assert Censored(DiscreteLaplace(1e7), below=3).windows(np.array([2])) is None
    assert Censored(DiscreteLaplace(1e4), below=3).windows(np.array([2])) is not None

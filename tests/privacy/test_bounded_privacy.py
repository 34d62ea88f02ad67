"""The stated epsilon of truncated noise against a dense search over pairs of values and outputs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from bayesdp.noise import BoundaryInflatedLaplace, TruncatedLaplace
from bayesdp.privacy.bounded import truncated_epsilon, truncated_loss, truncated_scale


def searched(law: Any, distance: float, points: int = 400) -> float:
    """The largest log-ratio of densities over a grid of pairs within a distance, and of outputs."""
    low, high = float(law.lower), min(float(law.upper), float(law.lower) + 40 * law.b)
    s = np.linspace(low, high, points + 1)
    y = np.unique(np.concatenate([s[::8], [low, high]]))
    density = np.stack([law.log_density(y, np.full_like(y, mu)) for mu in s])
    step = round(distance / (s[1] - s[0]))
    assert abs(step * (s[1] - s[0]) - distance) < 1e-9
    return max(float(np.max(np.abs(density[k:] - density[:-k]))) for k in range(1, step + 1))


@pytest.mark.parametrize(
    ("b", "width", "distance"), [(1.0, 1.0, 0.1), (0.1, 1.0, 0.25), (0.5, 4.0, 2.0), (2.0, 80.0, 2.0)]
)
def test_scalar_loss_is_what_a_search_finds(b: float, width: float, distance: float) -> None:
    stated = truncated_epsilon(b, width, distance)
    assert searched(TruncatedLaplace(b, (0.0, width)), distance) == pytest.approx(stated, rel=1e-9)
    assert truncated_loss(distance, b, width) == pytest.approx(stated, rel=1e-12)
    # Clipping costs what the noise costs.
    assert searched(BoundaryInflatedLaplace(b, (0.0, width)), distance) == pytest.approx(distance / b, rel=1e-9)


def test_published_numbers() -> None:
    """A scalar on [0, 1], n = 50, epsilon 1 at scale 1/50 costs 1.49; vectors 1.66, 1.80 and 1.91."""
    assert truncated_epsilon(1 / 50, 1.0, 1 / 50) == pytest.approx(1.49, abs=0.005)
    for r, expected in ((2, 1.66), (4, 1.80), (10, 1.91)):
        assert truncated_epsilon(np.full(r, 1.0), np.inf, 1.0) == pytest.approx(expected, abs=0.005)
    t = 1.0
    assert truncated_epsilon(1.0, np.inf, t) == pytest.approx(t + np.log(2 - np.exp(-t)), rel=1e-14)


@pytest.mark.parametrize(
    ("b", "width", "total", "cap"),
    [
        ([1.0, 1.0], [1.0, 3.0], 1.5, [np.inf, np.inf]),
        ([0.5, 1.0], [2.0, 2.0], 1.0, [0.3, np.inf]),
        ([1.0, 2.0], [np.inf, 1.0], 3.0, [np.inf, np.inf]),
        ([0.2, 3.0], [5.0, 5.0], 2.0, [np.inf, np.inf]),
    ],
)
def test_vector_loss_is_the_best_split(b: Any, width: Any, total: float, cap: Any) -> None:
    """Two coordinates: the split of the l1 distance between them by brute force."""
    most = [min(w, c, total) for w, c in zip(width, cap, strict=True)]
    first = np.linspace(max(total - most[1], 0.0) if sum(most) > total else 0.0, most[0], 200_001)
    second = np.minimum(total - first, most[1])
    values = truncated_loss(first, b[0], width[0]) + truncated_loss(second, b[1], width[1])
    found = truncated_epsilon(b, width, total, largest=cap)
    assert found == pytest.approx(values.max(), rel=1e-8)
    assert found >= values.max() - 1e-12
    one = max(truncated_loss(most[0], b[0], width[0]), truncated_loss(most[1], b[1], width[1]))
    assert truncated_epsilon(b, width, total, largest=cap, changed=1) == pytest.approx(one, rel=1e-12)


def test_a_vector_pair_that_attains_the_loss() -> None:
    """Densities of a pair of vectors, both coordinates moved away from their bounds by half of the distance."""
    b, bounds, total = 0.3, (0.0, 1.0), 0.4
    law = TruncatedLaplace(b, bounds)
    grid = np.linspace(0.0, 1.0, 21)
    worst = 0.0
    for split in np.linspace(0.0, total, 9):
        near, far = np.array([0.0, 1.0]), np.array([split, 1.0 - (total - split)])
        for a, c in product(grid, grid):
            worst = max(worst, abs(law.logp([a, c], near) - law.logp([a, c], far)))
    assert worst == pytest.approx(truncated_epsilon([b, b], 1.0, total), rel=1e-9)


def test_proportions_change_in_two_places_only() -> None:
    n, k = 50, 4
    own = truncated_epsilon(np.full(k, 2 / n), 1.0, 2 / n, largest=1 / n, changed=2)
    assert own == pytest.approx(2 * truncated_loss(1 / n, 2 / n, 1.0), rel=1e-12)
    assert own < truncated_epsilon(np.full(k, 2 / n), 1.0, 2 / n)


@pytest.mark.parametrize(("epsilon", "width", "delta", "r", "cap", "changed"), [
    (1.0, 1.0, 1 / 50, 1, np.inf, None),
    (0.1, 1.0, 2 / 50, 4, 1 / 50, 2),
    (3.0, 0.01, 0.02, 2, np.inf, None),
    (1.0, np.inf, 5.0, 10, np.inf, None),
    (1.0, 1e12, 1e-9, 2, np.inf, None),
    (1e-6, 1.0, 1e-3, 3, np.inf, None),
])  # fmt: skip
def test_calibration_makes_epsilon_true(
    epsilon: float, width: float, delta: float, r: int, cap: float, changed: int | None
) -> None:
    widths = np.full(r, width)
    b = truncated_scale(epsilon, widths, delta, largest=cap, changed=changed)
    true = truncated_epsilon(np.full(r, b), widths, delta, largest=cap, changed=changed)
    assert true <= epsilon
    assert true == pytest.approx(epsilon, rel=1e-9)
    assert b <= 2 * delta / epsilon * (1 + 1e-9)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="width must be positive"):
        truncated_epsilon(1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="sensitivity must be"):
        truncated_scale(1.0, 1.0, 0.0)

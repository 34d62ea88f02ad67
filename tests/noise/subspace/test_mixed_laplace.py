"""The mixed Laplace law: its density by the laws that it mixes, and its loss by a search over the plane."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bayesdp.invariants import Invariants
from bayesdp.noise import ExtendedLaplace, MixedLaplace, NoiseLaw
from bayesdp.queries import Identity, Totals

LINE = {"county": ["p", "q", "r"]}
TOTAL = Invariants(Totals(LINE))
LAW = MixedLaplace(1.5, [1.0, 4.0, 0.5], [0.5, 0.3, 0.2])


def test_the_density_is_the_mixture() -> None:
    for value in ([0.0, 0.0, 0.0], [1.5, -2.0, 0.5], [40.0, -10.0, -30.0]):
        parts = [
            math.log(weight) + ExtendedLaplace(1.5 * ratio).logp(value, np.zeros(3), TOTAL)
            for ratio, weight in zip(LAW.ratios, LAW.weights, strict=True)
        ]
        assert LAW.logp(value, np.zeros(3), TOTAL) == pytest.approx(np.logaddexp.reduce(parts), abs=1e-12)


def test_the_loss_is_the_largest_log_ratio_of_the_plane() -> None:
    """Over a grid of noise and the differences of two records that move: attained at 0, exceeded nowhere, below length / b."""
    grid = np.linspace(-6, 6, 41)
    points = TOTAL.from_coordinates(np.array([[x, y] for x in grid for y in grid]))
    known = LAW.pair_loss(Identity(LINE), TOTAL)
    assert known is not None
    for change in ([1.0, -1.0, 0.0], [2.0, -1.0, -1.0]):
        length = float(np.abs(TOTAL.coordinates(np.array([change]))).sum())
        ratios = [
            LAW.logp(point, np.zeros(3), TOTAL) - LAW.logp(point, change, TOTAL)
            for point in [*points, np.zeros(3), np.array(change)]
        ]
        assert known.loss(length, None)["epsilon"] == pytest.approx(max(ratios), abs=1e-12)
        assert max(ratios) < 0.95 * length / 0.75


@pytest.mark.parametrize("dimension", [1, 5, 400, 3000])
def test_the_loss_of_many_dimensions_neither_overflows_nor_exceeds_the_worst(dimension: int) -> None:
    loss = LAW.loss(2.0, dimension)
    assert 2.0 / 6.0 < loss <= 2.0 / 0.75 + 1e-12
    assert LAW.loss(0.0, dimension) == 0.0
    assert LAW.loss(4.0, dimension) <= 2 * loss + 1e-12  # groups: at most in proportion


def test_one_scale_is_drawn_for_all_answers() -> None:
    """40,000 draws: mean squares within 5 standard errors; absolute values are correlated, as they share the scale."""
    draws = LAW.draw(3, (3,), 40_000, TOTAL)
    squares = draws**2
    expected = LAW.variance((3,), TOTAL)
    assert np.all(np.abs(squares.mean(axis=0) - expected) < 5 * squares.std(axis=0) / 200)
    free = TOTAL.coordinates(draws)
    assert np.corrcoef(np.abs(free).T)[0, 1] > 0.2

    def cdf(value: np.ndarray) -> np.ndarray:
        """Of one coordinate, by SciPy."""
        return sum(
            w * stats.laplace.cdf(value, scale=1.5 * r) for r, w in zip((1.0, 4.0, 0.5), (0.5, 0.3, 0.2), strict=True)
        )

    assert stats.kstest(free[:, 0], cdf).pvalue > 1e-4  # one false alarm in 10,000; tells weights in another order


def test_descriptions_and_bad_input() -> None:
    assert NoiseLaw.from_description(LAW.describe()) == LAW
    with pytest.raises(ValueError, match="weights must be positive and add up to 1"):
        MixedLaplace(1.0, [1.0, 2.0], [0.5, 0.6])
    with pytest.raises(ValueError, match="ratios must be as many as weights, 2"):
        MixedLaplace(1.0, [1.0, 2.0, 3.0], [0.5, 0.5])
    with pytest.raises(ValueError, match="weights must be a list of two or more numbers"):
        MixedLaplace(1.0, [1.0], [1.0])
    with pytest.raises(ValueError, match="ratios"):
        MixedLaplace(1.0, [1.0, -2.0], [0.5, 0.5])

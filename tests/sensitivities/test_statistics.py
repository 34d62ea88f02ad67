"""Global sensitivities and bounds against all pairs of neighbouring small data sets on a grid: the data have n records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from bayesdp.privacy import split_budget
from bayesdp.sensitivities import statistics as s

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)


def pairs(n: int, grid: tuple[Any, ...], neighbours: str) -> Iterator[tuple[Any, Any]]:
    """Neighbouring data sets as multisets, of which one has n records."""
    for rest in combinations_with_replacement(grid, n - 1):
        for x in grid:
            if neighbours == "add-remove":
                yield (*rest, x), rest
                continue
            for other in grid:
                yield (*rest, x), (*rest, other)
    if neighbours == "add-remove":
        for data in combinations_with_replacement(grid, n):
            for x in grid:
                yield (*data, x), data


def extremes(n: int, grid: tuple[Any, ...], neighbours: str, statistic: Callable[[Any], Any]) -> tuple[float, float]:
    """The smallest and the largest value over all data sets that have n records, or are neighbours of such."""
    found = [float(np.max(statistic(own))) for pair in pairs(n, grid, neighbours) for own in pair]
    return min(found), max(found)


def largest(n: int, grid: tuple[Any, ...], neighbours: str, statistic: Callable[[Any], Any]) -> float:
    return max(float(np.sum(np.abs(statistic(a) - statistic(b)))) for a, b in pairs(n, grid, neighbours))


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_mean_and_variance(n: int, neighbours: str) -> None:
    found = s.mean_sensitivity(n, (0.0, 1.0), neighbours)
    assert largest(n, GRID, neighbours, np.mean) == pytest.approx(found.l1)
    for ddof in (0, 1):
        own = s.variance_sensitivity(n, (0.0, 1.0), neighbours, ddof=ddof)
        assert largest(n, GRID, neighbours, lambda x, d=ddof: np.var(x, ddof=d)) == pytest.approx(own.l1)
        _, top = extremes(n, GRID, neighbours, lambda x, d=ddof: np.var(x, ddof=d))
        assert own.bounds == (0.0, pytest.approx(top))
    scaled = s.variance_sensitivity(n, (-2.0, 3.0), neighbours)
    assert scaled.l1 == pytest.approx(25 * s.variance_sensitivity(n, (0.0, 1.0), neighbours).l1)


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("ddof", [0, 1])
def test_covariance(n: int, ddof: int, neighbours: str) -> None:
    grid = tuple((x, y) for x in (0.0, 0.5, 1.0) for y in (0.0, 0.5, 1.0))
    own = s.covariance_sensitivity(n, (0.0, 1.0), (0.0, 1.0), neighbours, ddof=ddof)

    def covariance(data: Any) -> float:
        x, y = np.asarray(data).T
        return float(np.sum((x - x.mean()) * (y - y.mean())) / (len(x) - ddof))

    assert largest(n, grid, neighbours, covariance) == pytest.approx(own.l1)
    low, high = extremes(n, grid, neighbours, covariance)
    assert (low, high) == (pytest.approx(own.bounds[0]), pytest.approx(own.bounds[1]))


def test_bounds_of_variances_hold_for_neighbours_of_an_odd_number_of_records() -> None:
    """51 records: half of 50 at each bound have a larger variance than any 51 can have."""
    half = np.repeat([0.0, 1.0], 25)
    assert np.var(half, ddof=1) == pytest.approx(0.25510, abs=5e-6)
    for n in (49, 50, 51):
        low, high = s.variance_sensitivity(n, (0.0, 1.0), "add-remove").bounds
        assert high is not None
        assert low == 0.0 <= np.var(half, ddof=1) <= high * (1 + 1e-12)
        assert s.covariance_sensitivity(n, (0.0, 1.0), (0.0, 1.0), "add-remove").bounds == (-high, high)
    assert s.variance_sensitivity(51, (0.0, 1.0)).bounds[1] == pytest.approx(0.25490, abs=5e-6)


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_proportions(n: int, neighbours: str) -> None:
    categories = (0, 1, 2)
    proportions = s.proportion_sensitivity(n, 3, neighbours)

    def histogram(x: Any) -> Any:
        return np.bincount(np.asarray(x, dtype=int), minlength=3)

    share = largest(n, categories, neighbours, lambda x: histogram(x) / len(x))
    assert share == pytest.approx(proportions.l1)
    each = max(
        np.max(np.abs(histogram(a) / len(a) - histogram(b) / len(b))) for a, b in pairs(n, categories, neighbours)
    )
    assert each == pytest.approx(proportions.largest)
    assert proportions.statistics == 3
    if neighbours == "substitution":
        moved = max(np.count_nonzero(histogram(a) - histogram(b)) for a, b in pairs(n, categories, neighbours))
        assert moved == proportions.changed == 2
    single = s.proportion_sensitivity(n, neighbours=neighbours)
    assert largest(n, (0.0, 1.0), neighbours, np.mean) == pytest.approx(single.l1)


def test_budgets_add_up() -> None:
    thirds = split_budget(1.0, 3)
    assert sum(thirds) <= 1.0
    assert sum(thirds) == pytest.approx(1.0, abs=1e-15)
    assert split_budget(0.3, [0.1, 0.2]) == (0.1, 0.2)
    for parts in ([0.5, 0.4], [0.5, 0.6], []):
        with pytest.raises(ValueError, match=r"parts must add up to epsilon = 1.0, but .* add up to"):
            split_budget(1.0, parts)
    with pytest.raises(ValueError, match=r"parts\[1\] must be a finite number greater than 0, got -0.5"):
        split_budget(1.0, [1.5, -0.5])
    with pytest.raises(TypeError, match="parts must be a number of parts"):
        split_budget(1.0, "half")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: s.mean_sensitivity(10, (1.0, 0.0)), ValueError, "lower one first, got 1.0 and 0.0"),
        (lambda: s.mean_sensitivity(10, (1.0, np.inf)), ValueError, "data_bounds must be finite"),
        (lambda: s.mean_sensitivity(0, (0.0, 1.0)), ValueError, "n must be an integer greater than 0"),
        (lambda: s.mean_sensitivity(1, (0.0, 1.0), "add-remove"), ValueError, "n must be at least 2"),
        (lambda: s.variance_sensitivity(2, (0, 1), "add-remove"), ValueError, "n must be at least 3"),
        (lambda: s.variance_sensitivity(5, (0, 1), ddof=2), ValueError, "ddof must be 0 or 1, got 2"),
        (lambda: s.variance_sensitivity(5, 1.0), TypeError, "data_bounds must be a pair"),  # type: ignore[arg-type]
        (lambda: s.proportion_sensitivity(5, neighbours="swap"), ValueError, "neighbours must be one of"),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

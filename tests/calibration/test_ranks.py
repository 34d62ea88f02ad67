from __future__ import annotations

import numpy as np
import pytest

from bayesdp.calibration.study import squared_error_rank, uniform_rank
from bayesdp.calibration.verdict import uniformity_pvalue


@pytest.mark.parametrize("draws", [1, 4, 37])
@pytest.mark.parametrize("spread", [1, 3, 1000])
def test_ranks_among_exchangeable_integers_are_uniform_whatever_the_ties(draws, spread):
    rng = np.random.default_rng(draws * spread)
    ranks = []
    for _ in range(3000):
        values = rng.integers(spread, size=draws + 1)
        ranks.append(uniform_rank(values[0], values[1:], rng))
    assert uniformity_pvalue(ranks) > 1e-5  # false alarm 1e-4 over the nine cases


def test_ties_counted_as_larger_would_be_noticed():
    rng = np.random.default_rng(1)
    draws = rng.integers(3, size=(500, 21))
    strict = [(np.sum(row[1:] < row[0]) + rng.random()) / 21 for row in draws]
    assert uniformity_pvalue(strict) < 1e-6


def test_ranks_of_squared_errors_are_uniform():
    rng = np.random.default_rng(4)
    values = rng.standard_normal((3000, 41))
    assert uniformity_pvalue([squared_error_rank(row[0], row[1:], rng) for row in values]) > 1e-4


def test_a_mean_that_has_seen_the_draws_would_be_noticed():
    rng = np.random.default_rng(4)
    values = rng.standard_normal((6000, 9))
    centres = values[:, 1:].mean(axis=1, keepdims=True)
    squares = (values - centres) ** 2
    seen = [uniform_rank(row[0], row[1:], rng) for row in squares]
    assert uniformity_pvalue(seen) < 1e-6


def test_a_posterior_of_one_point_has_no_dispersion():
    assert np.isnan(squared_error_rank(3.0, [3.0] * 10, np.random.default_rng(1)))


def test_bad_draws():
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match="at least one number"):
        uniform_rank(1.0, [], rng)
    with pytest.raises(ValueError, match="NaN"):
        uniform_rank(float("nan"), [1.0], rng)
    with pytest.raises(ValueError, match="at least four"):
        squared_error_rank(1.0, [1.0, 2.0], rng)

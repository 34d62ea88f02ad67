"""Perturbed counts under a threshold, against sums over the law without it."""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.noise import (
    CellKey,
    ConventionalRounding,
    DiscreteLaplace,
    NoiseLaw,
    RandomRounding,
    TransitionTable,
    censored_counts,
)

LAWS = [
    RandomRounding(base=3),
    RandomRounding(base=5),
    ConventionalRounding(base=10),
    CellKey(max_deviation=4, variance=2.0),
    CellKey(max_deviation=3, variance=2.0, not_smaller_than=2, zeros="perturbed"),
    TransitionTable.by_count({0: {0: 1}, 1: {-1: 0.25, 0: 0.5, 1: 0.25}, 2: {-1: 0.5, 0: 0.5}}, period=0),
]


@pytest.mark.parametrize("below", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("law", LAWS, ids=["base 3", "base 5", "to tens", "keys", "keys from 2", "full"])
def test_the_code_has_the_probability_of_all_that_it_stands_for(law, below):
    coded = censored_counts(law, below)
    last = int(min(law.transitions.largest_count, 60))
    for x in range(last + 1):
        y = np.arange(-20, x + 80)
        plain = np.exp(law.log_each(y, x))
        found = np.exp(coded.log_each(y, x))
        expected = np.where(y >= below, plain, 0.0)
        expected[y == below - 1] = plain[y < below].sum()
        np.testing.assert_allclose(found, expected, atol=1e-15)
    assert coded.same_cell_same_value == law.same_cell_same_value
    again = NoiseLaw.from_description(coded.describe())
    assert again == coded
    withheld = again.withheld([below - 1, below])
    assert {why: which.tolist() for why, which in withheld.items()} == {f"under {below}": [True, False]}
    assert law.withheld([0, below]) == {}


def test_posterior_of_a_table_with_rows_that_were_left_out():
    """Three counts with an exact total; one published, two under the threshold. Means against enumeration, at 5 standard errors."""
    query = bdp.Identity({"area": ["a", "b", "c"]})
    law = CellKey(max_deviation=3, variance=2.0)
    noisy = bdp.thresholded(query, {"a": 6}, law, 4, candidates=True)
    assert noisy.values.tolist() == [6, 3, 3]
    np.testing.assert_array_equal(noisy.published, [6, np.nan, np.nan])
    assert repr(noisy).startswith("<Measured: 3 answers by area, 2 of them under 4, law cell-key ptable=<")
    release = bdp.Release.from_published(query.frame, measured=[noisy], exact=[bdp.Exact(bdp.Totals(query.frame), 11)])
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist([8.0, 2.0, 3.0]), dims=release.dims))
        drawn = bdp.sample(6000, tune=200, chains=2, cores=1, random_seed=5, quiet=True, progressbar=False)
    rate = np.array([8.0, 2.0, 3.0])
    total, mean = 0.0, np.zeros(3)
    for table in itertools.product(range(12), repeat=3):
        if sum(table) == 11:
            x = np.array(table)
            weight = np.exp(sum(v * np.log(r) - sum(np.log(np.arange(1, v + 1))) for v, r in zip(x, rate, strict=True)))
            weight *= np.exp(law.log_each(6, x[0]))
            for own in x[1:]:
                weight *= np.exp(law.log_each(np.arange(-3, 4), own)).sum()
            total, mean = total + weight, mean + weight * x
    draws = drawn.posterior["x"].to_numpy().reshape(-1, 3)
    error = draws.std(axis=0) / np.sqrt(len(draws) / 10)  # an effective draw in ten at worst
    assert np.all(np.abs(draws.mean(axis=0) - mean / total) < 5 * error)
    assert np.abs(mean / total - rate * 11 / 13).max() > 0.1  # the threshold says something


def test_bad_input():
    with pytest.raises(TypeError, match="one of perturbed counts"):
        censored_counts(DiscreteLaplace(1.0), 3)
    with pytest.raises(ValueError, match="below"):
        censored_counts(LAWS[0], 0)
    with pytest.raises(ValueError, match="one whole number for all"):
        censored_counts(LAWS[0], [1, 2])
    with pytest.raises(TypeError, match="censored_counts"):
        bdp.noise.Censored(LAWS[0], below=3)
    query = bdp.Identity({"area": ["a", "b"]})
    with pytest.raises(ValueError, match="area=a = 3, which is under the threshold"):
        bdp.thresholded(query, {"a": 3}, LAWS[0], 6, candidates=True)


def test_a_table_that_publishes_numbers_under_its_own_threshold_is_refused():
    with pytest.raises(ValueError, match="numbers under 3 stand as 2, but row x = 0 gives 0 a probability"):
        TransitionTable([0, 1], [[1, 0], [0.5, 0.5]], below=3)
    with pytest.raises(ValueError, match="row x = 3 gives 1 a probability"):  # of a row that repeats
        TransitionTable(
            [-2, -1, 0, 1, 2],
            [[0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0.5, 0, 0.5, 0, 0]],
            below=3,
        )
    assert TransitionTable([0, 2], [[0, 1], [1, 0]], period=0, below=1).withheld([0, 2])["under 1"].tolist() == [
        True,
        False,
    ]

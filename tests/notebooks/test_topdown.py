"""Simulated releases in the manner of TopDown, and the projection onto one total that they are made with."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from notebooks import topdown


@pytest.mark.parametrize("rounded", [False, True])
def test_releases_keep_totals_and_sign_and_favour_small_units(rounded):
    # A large unit and nine units of zeros: clipping adds about b/2 to each zero cell, which the large one pays for.
    truth = np.zeros((10, 3), dtype=np.int64)
    truth[0] = 1000
    found = topdown.simulate(truth, ["only"] * 10, 5.0, np.random.default_rng(5), 400, rounded=rounded)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=(1, 2)), 3000, rtol=1e-12)
    error = (found - truth).sum(axis=2)
    mean, deviation = error.mean(axis=0), error.std(axis=0, ddof=1) / 20
    # Five standard deviations: false alarms below 1e-5 for the ten cells together.
    assert mean[0] < -5 * deviation[0]
    assert np.all(mean[1:] > 5 * deviation[1:])


def test_groups_do_not_mix():
    truth = np.array([[50, 10], [60, 0], [5, 5]])
    found = topdown.simulate(truth, ["A", "B", "A"], 3.0, np.random.default_rng(6), 30)
    np.testing.assert_array_equal(found[:, [0, 2]].sum(axis=(1, 2)), 70)
    np.testing.assert_array_equal(found[:, 1].sum(axis=1), 60)


def test_large_cells_are_not_biased():
    # Where nothing is clipped the simulation is the projected mechanism: errors of mean zero.
    truth = np.full((6, 2), 10_000)
    found = topdown.simulate(truth, ["only"] * 6, 5.0, np.random.default_rng(7), 2000, rounded=False)
    z = (found - truth).mean(axis=0) / ((found - truth).std(axis=0, ddof=1) / np.sqrt(2000))
    assert np.abs(z).max() < 4.5  # 12 cells: false alarm below 1e-4


def by_enumeration(values, total, weights):
    """The projection from its definition: over all sets of positive cells, the best solution that is nonnegative."""
    best, least = None, np.inf
    for size in range(1, len(values) + 1):
        for chosen in combinations(range(len(values)), size):
            own = list(chosen)
            x = np.zeros(len(values))
            x[own] = values[own] - (values[own].sum() - total) / (1 / weights[own]).sum() / weights[own]
            loss = np.sum(weights * (x - values) ** 2)
            if x.min() >= 0 and loss < least:
                best, least = x, loss
    return best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("total", [0.5, 10.0, 200.0])
def test_projection_agrees_with_enumeration(weighted, total):
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.2, 5.0, 6) if weighted else np.ones(6)
    values = rng.normal(3.0, 10.0, (20, 6))
    found = topdown.onto_total(values, np.full(20, total), weights if weighted else None)
    for row, x in zip(values, found, strict=True):
        np.testing.assert_allclose(x, by_enumeration(row, total, weights), atol=1e-9)


def test_a_table_that_is_right_already_does_not_move():
    values = np.array([3.0, 0.0, 5.5])
    np.testing.assert_allclose(topdown.onto_total(values, 8.5), values, atol=1e-12)
    np.testing.assert_array_equal(topdown.onto_total([4.0, -2.0], 0.0), [0.0, 0.0])


@pytest.mark.parametrize(
    ("total", "weights", "message"),
    [(-1.0, None, "at least 0"), (1.0, [1.0, 0.0], "2 positive numbers"), (1.0, [1.0], "2")],
)
def test_bad_input_is_refused(total, weights, message):
    with pytest.raises(ValueError, match=message):
        topdown.onto_total([1.0, 2.0], total, weights)


def test_rounding_keeps_the_total_and_moves_no_cell_by_one():
    rng = np.random.default_rng(4)
    values = rng.dirichlet(np.full(7, 0.3), 50) * 100
    whole = topdown.round_to_total(values, np.full(50, 100))
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(whole.sum(axis=1), 100)
    assert np.abs(whole - values).max() < 1
    up, down = whole > values, whole <= values
    remainder = values - np.floor(values)
    largest_down = np.where(down, remainder, 0).max(axis=1)
    assert np.all(np.where(up, remainder, 1).min(axis=1) >= largest_down)
    with pytest.raises(ValueError, match="do not add up"):
        topdown.round_to_total([1.0, 2.0], 7)


def test_weights_may_differ_from_table_to_table():
    rng = np.random.default_rng(9)
    values, weights = rng.normal(3.0, 10.0, (8, 5)), rng.uniform(0.2, 5.0, (8, 5))
    found = topdown.onto_total(values, np.full(8, 7.0), weights)
    for row, own, x in zip(values, weights, found, strict=True):
        np.testing.assert_allclose(x, by_enumeration(row, 7.0, own), atol=1e-9)


def test_a_whole_number_stays_whole_whatever_floating_point_made_of_it():
    assert topdown.round_to_total([3.0 - 1e-12, 4.5, 2.5 + 1e-12], 10).tolist() == [3, 4, 3]

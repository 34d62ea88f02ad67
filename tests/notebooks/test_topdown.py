from __future__ import annotations

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

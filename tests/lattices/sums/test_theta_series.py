"""Gaussian sums over lattices, against vectors enumerated one by one and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import fmpz_mat

from bayesdp.lattices.parts import lattice_parts
from bayesdp.lattices.sums import _theta_of_rows, squared_lengths, theta_series
from bayesdp.noise.lattice.laws import gaussian_log_sum
from tests.lattices.oracles import GENERAL, lattice_points, one_way, two_way_margins

CASES = {"3x3": (one_way(3, 3), 8), "2x2x2": (one_way(2, 2, 2), 9), "general": (GENERAL, 16)}


@pytest.mark.parametrize("name", CASES)
def test_both_sides_of_the_switch_against_enumeration(name):
    invariants, reach = CASES[name]
    [part] = lattice_parts(invariants)
    series = theta_series(part)
    points = lattice_points(invariants.matrix.toarray(), reach)
    squares = (points**2).sum(axis=1)
    assert 0.4 < series.switch < 1.0
    for sigma in (0.1, 0.4, 0.999 * series.switch, series.switch, 1.0):
        direct = math.log(np.exp(-0.5 * squares / sigma**2).sum())
        assert series.log_sum(sigma) == pytest.approx(direct, rel=1e-12, abs=1e-14)


def test_zero_sums_in_closed_form():
    for cells in (3, 5, 8):
        series = _theta_of_rows(((1,) * cells,))
        for sigma in (0.05, 0.3, 0.6, 0.9, 2.0, 7.0, 1e6):
            assert series.log_sum(sigma) == pytest.approx(gaussian_log_sum(cells, sigma), rel=1e-12, abs=1e-14)


def test_the_volume_of_a_cell():
    # Of the lattice of 3 x 3 x 3 tables with all two-way margins: sqrt(det) of differences is 3**(3 * 4 / 2) = 27**2.
    [part] = lattice_parts(two_way_margins(3, 3, 3))
    series = theta_series(part)
    factor = fmpz_mat([[2, -1], [-1, 2]]).det()
    assert math.exp(2.0 * series.log_volume) == pytest.approx(int(factor) ** 12, rel=1e-10)
    expected = 8 * math.log(5.0 * math.sqrt(2.0 * math.pi)) - 6.0 * math.log(3.0)
    assert series.log_sum(5.0) == pytest.approx(expected, rel=1e-13)


def test_short_vectors_of_known_lattices():
    # The cubic lattice: numbers of ways to write m as a sum of four squares (Jacobi).
    lengths, counts = squared_lengths(np.eye(4), 1.0, 20.0, 10**6)
    jacobi = [1] + [8 * sum(d for d in range(1, m + 1) if m % d == 0 and d % 4) for m in range(1, 21)]
    assert lengths.tolist() == list(range(21))
    assert counts.tolist() == jacobi
    # E8: 240 sigma_3(m) vectors of squared length 2 m.
    e8 = 2 * np.eye(8) - np.eye(8, k=1) - np.eye(8, k=-1)
    e8[6, 7] = e8[7, 6] = 0
    e8[4, 7] = e8[7, 4] = -1
    assert round(np.linalg.det(e8)) == 1
    lengths, counts = squared_lengths(e8, 1.0, 6.0, 10**6)
    assert lengths.tolist() == [0, 2, 4, 6]
    assert counts.tolist() == [1, 240, 240 * 9, 240 * 28]
    assert squared_lengths(e8, 1.0, 6.0, 9000) is None


def test_large_lattices_are_refused():
    for invariants in (one_way(5, 5), one_way(20, 30), one_way(4, 5)):
        [part] = lattice_parts(invariants)
        assert theta_series(part) is None

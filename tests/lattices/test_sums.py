"""Series of lattices: numbers of vectors by size, theta series, against enumeration."""

import math
from itertools import product

import numpy as np
import pytest
from flint import fmpz_mat

from bayesdp.invariants import Invariants
from bayesdp.lattices.fixed_sum import log_normaliser
from bayesdp.lattices.parts import lattice_parts
from bayesdp.lattices.sums import _l1_of_rows, l1_log_sum, l1_series, l1_shells, squared_lengths, theta_series
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import GENERAL, labels, lattice_points, one_way, two_way_margins

VENN = Invariants(LinearQuery(labels(7), [[v >> b & 1 for v in range(1, 8)] for b in range(3)], ["a", "b", "c"]))
"""One cell for each region of three overlapping sets."""

CASES = {
    "3x3": (one_way(3, 3), 11, 22),
    "2x2x2": (one_way(2, 2, 2), 11, 20),
    "general": (GENERAL, 40, 40),
    "three sets": (VENN, 13, 13),
}
"""Invariants, how far to enumerate free cells, and the largest size at which no vector is missed then."""


def series_of(invariants, make=l1_series):
    [part] = lattice_parts(invariants)
    return make(part)


def expanded(series, largest):
    """Coefficients of the rational function, by the binomial series."""
    counts = [0] * (largest + 1)
    for exponent, log_coefficient in zip(series.exponents, series.log_coefficients, strict=True):
        for power in range((largest - int(exponent)) // series.period + 1):
            ways = math.comb(series.power - 1 + power, power)
            counts[int(exponent) + power * series.period] += round(math.exp(log_coefficient)) * ways
    return counts


@pytest.mark.parametrize("name", CASES)
def test_all_shells_follow_from_the_first_ones(name):
    invariants, reach, largest = CASES[name]
    points = lattice_points(invariants.matrix.toarray(), reach)
    sizes = np.abs(points).sum(axis=1)
    expected = np.bincount(sizes[sizes <= largest], minlength=largest + 1).tolist()
    assert l1_shells(invariants.matrix.toarray(), largest).tolist() == expected
    assert expanded(series_of(invariants), largest) == expected
    direct = math.log(np.exp(-3.0 * sizes).sum())  # at a rate where nothing is left beyond the enumeration
    assert l1_log_sum(invariants, 3.0) == pytest.approx(direct, rel=1e-12)


def test_lines_and_fixed_sums_have_series_of_their_own_the_sum_of_which_is_the_legendre_polynomial():
    closed, counted = series_of(Invariants(Totals(labels(5)))), _l1_of_rows(((1,) * 5,), ())
    assert expanded(closed, 30) == expanded(counted, 30)
    assert expanded(series_of(Invariants(LinearQuery(labels(2), [[1, 2]], ["sum"]))), 7) == [1, 0, 0, 2, 0, 0, 2, 0]
    for cells, rate in product((3, 6), (1e-7, 1e-3, 0.25, 1.0, 5.0, 60.0)):
        found = _l1_of_rows(((1,) * cells,), ()).log_sum(rate)
        assert found == pytest.approx(log_normaliser(cells, rate), rel=1e-13, abs=1e-15)


def test_fourteen_cells_with_three_overlapping_sets():
    # Each region twice: the sum over a pair of cells with sum s is exp(-eps |s|) (|s| + coth eps).
    matrix = [[v >> b & 1 for v in range(1, 8) for _ in range(2)] for b in range(3)]
    invariants = Invariants(LinearQuery(labels(14), matrix, ["a", "b", "c"]))
    assert invariants.dimension == 11
    sums = np.abs(lattice_points(VENN.matrix.toarray(), 13))
    for epsilon in (2.0, 3.0):
        terms = np.prod(np.exp(-epsilon * sums) * (sums + 1.0 / math.tanh(epsilon)), axis=1)
        assert l1_log_sum(invariants, epsilon) == pytest.approx(math.log(terms.sum()), rel=1e-9)


def test_parts_and_copies():
    frame = labels(3, 3, 2)  # 3 x 3 tables side by side, and one written twice
    separate = Invariants(Margins(frame, ["a", "c"], ["b", "c"]))
    assert l1_log_sum(separate, 0.7) == pytest.approx(2 * l1_log_sum(one_way(3, 3), 0.7), rel=1e-13)
    twice = two_way_margins(3, 3, 2)
    assert l1_log_sum(twice, 0.7) == pytest.approx(l1_log_sum(one_way(3, 3), 1.4), rel=1e-13)


def test_large_lattices_are_refused_at_once():
    for invariants in (one_way(20, 30), one_way(4, 5)):
        assert series_of(invariants, theta_series) is None
    for invariants in (one_way(4, 4), one_way(5, 5), one_way(30, 40), two_way_margins(4, 4, 4)):
        assert l1_log_sum(invariants, 1.0) is None
    assert l1_log_sum(Invariants(LinearQuery(labels(3), [[100, 201, 3]], ["odd"])), 1.0) is None
    assert l1_log_sum(Invariants(Totals(labels(3))), 1.0) is not None


THETA = {"3x3": (one_way(3, 3), 8), "2x2x2": (one_way(2, 2, 2), 9), "general": (GENERAL, 16)}


@pytest.mark.parametrize("name", THETA)
def test_both_sides_of_the_switch_against_enumeration(name):
    invariants, reach = THETA[name]
    series, points = series_of(invariants, theta_series), lattice_points(invariants.matrix.toarray(), reach)
    squares = (points**2).sum(axis=1)
    assert 0.4 < series.switch < 1.0
    for sigma in (0.1, 0.4, 0.999 * series.switch, series.switch, 1.0):
        direct = math.log(np.exp(-0.5 * squares / sigma**2).sum())
        assert series.log_sum(sigma) == pytest.approx(direct, rel=1e-12, abs=1e-14)


def test_the_volume_of_a_cell():
    # Of the lattice of 3 x 3 x 3 tables with all two-way margins: sqrt(det) of differences is 3**(3 * 4 / 2) = 27**2.
    series, factor = series_of(two_way_margins(3, 3, 3), theta_series), fmpz_mat([[2, -1], [-1, 2]]).det()
    assert math.exp(2.0 * series.log_volume) == pytest.approx(int(factor) ** 12, rel=1e-10)
    expected = 8 * math.log(5.0 * math.sqrt(2.0 * math.pi)) - 6.0 * math.log(3.0)
    assert series.log_sum(5.0) == pytest.approx(expected, rel=1e-13)


def test_short_vectors_of_known_lattices():
    # The cubic lattice: numbers of ways to write m as a sum of four squares (Jacobi).
    lengths, counts = squared_lengths(np.eye(4), 1.0, 20.0, 10**6)
    jacobi = [1] + [8 * sum(d for d in range(1, m + 1) if m % d == 0 and d % 4) for m in range(1, 21)]
    assert lengths.tolist() == list(range(21))
    assert counts.tolist() == jacobi
    e8 = 2 * np.eye(8) - np.eye(8, k=1) - np.eye(8, k=-1)  # E8: 240 sigma_3(m) vectors of squared length 2 m
    e8[[6, 7, 4, 7], [7, 6, 7, 4]] = 0, 0, -1, -1
    assert round(np.linalg.det(e8)) == 1
    lengths, counts = squared_lengths(e8, 1.0, 6.0, 10**6)
    assert lengths.tolist() == [0, 2, 4, 6]
    assert counts.tolist() == [1, 240, 240 * 9, 240 * 28]
    assert squared_lengths(e8, 1.0, 6.0, 9000) is None

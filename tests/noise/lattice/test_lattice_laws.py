"""The laws on the lattice of tables that change no invariant: masses and normalisers against enumeration."""

import math

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.noise import LatticeGaussian, LatticeLaplace
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import law_on
from tests.noise.oracles import all_margins, frame_of, lattice_points
from tests.refusals import refused

LATTICES = {  # small lattices, and how far to enumerate each so that nothing is missing at the scales used
    "2x2 margins": (all_margins(2, 2), 14),
    "3 x 1 total": (Invariants(Totals(frame_of(3))), 60),
    "two pairs": (Invariants(Margins(frame_of(2, 2), ["d0"])), 14),
    "uneven": (Invariants(LinearQuery(frame_of(2), [[2, 4]], ["weighted"])), 100),
    "pair and free cell": (Invariants(LinearQuery(frame_of(3), [[1, 1, 0]], ["pair"])), 40),
    "free cells": (Invariants(None, frame_of(2)), 60),
    "3 x 3 margins": (all_margins(3, 3), 13),
}
LAWS = [LatticeLaplace(1.0), LatticeLaplace(1.5, "l2"), LatticeGaussian(0.3), LatticeGaussian(2.1)]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("name", LATTICES)
def test_mass_and_variance_against_enumeration(name, law):
    invariants, reach = LATTICES[name]
    points, shape = lattice_points(invariants, reach), invariants.frame.shape
    mass = law_on(points, getattr(law, "norm", "gaussian"), getattr(law, law.scale_name))
    normaliser, variance = law.log_normaliser(invariants), law.variance(shape, invariants)
    assert normaliser == pytest.approx(-math.log(mass[~points.any(axis=1)][0]), rel=1e-9, abs=1e-12)
    if variance is None:
        assert name == "3 x 3 margins" or getattr(law, "norm", "") == "l2"
    else:
        assert variance.reshape(-1) == pytest.approx(mass @ points**2, rel=1e-6)
    location, likely = np.arange(invariants.frame.size).reshape(shape), np.flatnonzero(mass > 1e-200)
    for i in likely[:: max(1, len(likely) // 7)]:
        found = law.logp(location + points[i].reshape(shape), location, invariants)
        assert found == pytest.approx(math.log(mass[i]), rel=1e-9, abs=1e-9)


def test_102_counties_with_a_fixed_total():
    counties = Invariants(Totals(frame_of(102)))
    assert LatticeLaplace(0.192).log_normaliser(counties) == pytest.approx(234.1172, abs=5e-5)
    # A Gaussian has no step where the formula changes.
    below, above = LatticeGaussian(1.9999999999), LatticeGaussian(2.0)
    assert below.log_normaliser(counties) == pytest.approx(above.log_normaliser(counties), rel=1e-9)
    assert below.variance((102,), counties) == pytest.approx(above.variance((102,), counties), rel=1e-8)
    for epsilon in (400.0, 2.0**40, 2.0**400):  # extreme rates have a variance
        variance = LatticeLaplace(epsilon).variance((3,), Invariants(Totals(frame_of(3))))
        assert variance == pytest.approx(np.zeros(3), abs=1e-300)


@pytest.mark.parametrize("law", [LatticeLaplace(1.0), LatticeLaplace(1.0, "l2"), LatticeGaussian(1.0)], ids=str)
def test_off_the_lattice_there_is_no_mass(law):
    invariants, table, move = all_margins(2, 2), np.array([[5, 3], [2, 7]]), np.array([[1, -1], [-1, 1]])
    one, large = np.array([[1, 0], [0, 0]]), np.full((2, 2), 2**52)
    assert np.isfinite(law.logp(table + move, table, invariants))
    # Exactly, also where floating point would no longer see a difference of one.
    for values, location in ((table + move + one, table), (table + 0.5 * move, table), (large + one, large)):
        assert law.logp(values, location, invariants) == -math.inf
    zero, many = np.zeros((9, 9), dtype=int), all_margins(9, 9)  # too large for a normaliser
    assert (law.log_normaliser(many), law.logp(zero, zero, many)) == (None, 0.0)


def test_l2_with_a_fixed_total_and_with_free_cells():
    i, j = np.meshgrid(np.arange(-900, 901), np.arange(-900, 901))
    for invariants, form in ((Invariants(Totals(frame_of(3))), 1), (Invariants(None, frame_of(2)), 0)):
        length = np.sqrt(i**2 + j**2 + form * (i + j) ** 2)  # squared length of (i, j, -i - j), or of (i, j)
        for epsilon in (0.06, 2.0, 30.0):
            found = LatticeLaplace(epsilon, "l2").log_normaliser(invariants)
            assert found == pytest.approx(math.log(np.exp(-epsilon * length).sum()), rel=1e-12, abs=1e-14)


def test_l2_for_small_epsilon_is_the_volume():
    # By Poisson's formula the volume of the unit ball, n! / epsilon**n of it, over that of a cell, sqrt(102) here.
    counties = Invariants(Totals(frame_of(102)))
    log_ball = 0.5 * 101 * math.log(math.pi) - math.lgamma(0.5 * 101 + 1)
    volume = log_ball + math.lgamma(102) - 0.5 * math.log(102)
    for epsilon in (2e-14, 1e-8, 1e-5, 1e-3):
        found = LatticeLaplace(epsilon, "l2").log_normaliser(counties)
        assert found == pytest.approx(volume - 101 * math.log(epsilon), rel=1e-13)
    # And for a large one: k ones and k minus ones; other vectors are 2e-7 of these.
    rest = sum(math.comb(102, k) * math.comb(102 - k, k) * math.exp(-20.0 * math.sqrt(2.0 * k)) for k in range(1, 20))
    assert LatticeLaplace(20.0, "l2").log_normaliser(counties) == pytest.approx(math.log1p(rest), rel=1e-5)


PAIR, SQUARE = np.zeros((2, 2), dtype=int), all_margins(2, 2)
UNIT = LatticeLaplace(1.0)
test_bad_arguments_are_named = refused(
    (lambda: UNIT.logp(PAIR.reshape(-1), PAIR, SQUARE), r"values must have the shape of the table, \(2, 2\), got \(4,\)"),
    (lambda: UNIT.draw(None, (3, 3), invariants=SQUARE), r"shape must be that of the table .*\(2, 2\), got \(3, 3\)"),
    (lambda: UNIT.draw(None, (2, 2), None, SQUARE, PAIR + 0.5), r"location must hold whole numbers, but d0=0\.0, d1=1\.0 is"),
    (lambda: UNIT.logp([[1.0, 2.0], [math.nan, 0.0]], PAIR, SQUARE), r"values must be finite, but d0=0\.1, d1=1\.0 is"),
    error=ValueError,
)  # fmt: skip


def test_a_table_written_twice():
    twice = Invariants(Margins(frame_of(3, 3, 2), ["d0", "d1"], ["d1", "d2"], ["d0", "d2"]))
    once, root = all_margins(3, 3), math.sqrt(2.0)
    for law, same in (
        (LatticeLaplace(0.4), LatticeLaplace(0.8)),
        (LatticeLaplace(0.4, "l2"), LatticeLaplace(0.4 * root, "l2")),
        (LatticeGaussian(0.7), LatticeGaussian(0.7 / root)),
        (LatticeGaussian(3.0), LatticeGaussian(3.0 / root)),
    ):
        assert law.log_normaliser(twice) == pytest.approx(same.log_normaliser(once), rel=1e-12)

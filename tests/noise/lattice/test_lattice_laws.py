"""The laws on the lattice of tables that change no invariant, against enumeration and numbers from elsewhere.

False-alarm rate of the tests with draws: 1e-4 each, with fixed seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.noise import LatticeGaussian, LatticeLaplace
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import Floats, Ints, all_margins, chi_square_pvalue, frame_of, lattice_points

# Small lattices, and how far to enumerate each so that nothing is missing at the scales used.
LATTICES = {
    "2x2 margins": (all_margins(2, 2), 14),
    "3 x 1 total": (Invariants(Totals(frame_of(3))), 60),
    "pair": (Invariants(Totals(frame_of(2))), 100),
    "two pairs": (Invariants(Margins(frame_of(2, 2), ["d0"])), 14),
    "uneven": (Invariants(LinearQuery(frame_of(2), [[2, 4]], ["weighted"])), 100),
    "pair and free cell": (Invariants(LinearQuery(frame_of(3), [[1, 1, 0]], ["pair"])), 40),
    "free cells": (Invariants(None, frame_of(2)), 60),
}
LAWS = [
    LatticeLaplace(1.0),
    LatticeLaplace(1.5, "l2"),
    LatticeGaussian(0.3),
    LatticeGaussian(1.0),
    LatticeGaussian(2.1),
]
type Law = LatticeLaplace | LatticeGaussian


def weights_of(law: Law, points: Ints) -> Floats:
    """The definition."""
    if isinstance(law, LatticeGaussian):
        return np.exp(-np.sum(points**2, axis=1) / (2 * law.sigma**2))
    order = 1 if law.norm == "l1" else 2
    return np.exp(-law.epsilon * np.linalg.norm(points, ord=order, axis=1))


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("name", LATTICES)
def test_mass_and_variance_against_enumeration(name: str, law: Law) -> None:
    invariants, reach = LATTICES[name]
    points = lattice_points(invariants, reach)
    weights = weights_of(law, points)
    shape = invariants.frame.shape
    normaliser = law.log_normaliser(invariants)
    assert normaliser == pytest.approx(math.log(weights.sum()), rel=1e-9, abs=1e-12)
    variance = law.variance(shape, invariants)
    if variance is None:
        assert isinstance(law, LatticeLaplace)
        assert law.norm == "l2"
        assert invariants.dimension > 1
    else:
        exact = weights @ points**2 / weights.sum()
        assert variance.reshape(-1) == pytest.approx(exact, rel=1e-6)
    location = np.arange(invariants.frame.size).reshape(shape)
    likely = points[weights > 1e-200]
    for point in likely[:: max(1, len(likely) // 7)]:
        expected = math.log(weights_of(law, point[None])[0]) - normaliser
        found = law.logp(location + point.reshape(shape), location, invariants)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("shape", "epsilon", "variance", "at_zero"),
    [((2, 2), 0.25, 1.8413471884, 0.4621171573), ((2, 3), 0.5, 0.661233036, 0.479365131)],
)
def test_laplace_numbers_from_elsewhere(
    shape: tuple[int, int], epsilon: float, variance: float, at_zero: float
) -> None:
    law, invariants, zero = LatticeLaplace(epsilon), all_margins(*shape), np.zeros(shape, dtype=int)
    assert law.variance(shape, invariants) == pytest.approx(np.full(shape, variance), rel=1e-9)
    assert math.exp(law.logp(zero, zero, invariants)) == pytest.approx(at_zero, rel=1e-9)


def test_gaussian_numbers_from_elsewhere() -> None:
    law, invariants, zero = LatticeGaussian(1.0), all_margins(2, 3), np.zeros((2, 3), dtype=int)
    assert law.variance((2, 3), invariants) == pytest.approx(np.full((2, 3), 0.3152159508), abs=5e-11)
    assert math.exp(law.logp(zero, zero, invariants)) == pytest.approx(0.5467746409, abs=5e-11)


def test_102_counties_with_a_fixed_total() -> None:
    counties = Invariants(Totals(frame_of(102)))
    log_z = LatticeLaplace(0.192).log_normaliser
    assert log_z(counties) == pytest.approx(234.1172, abs=5e-5)
    # E ||z||_1 is minus the derivative of log Z.
    step = 1e-5
    up, down = (LatticeLaplace(0.192 + sign * step).log_normaliser(counties) for sign in (1, -1))
    assert up is not None
    assert down is not None
    assert (down - up) / (2 * step) == pytest.approx(522.78, abs=5e-3)


def test_extreme_rates_have_a_variance() -> None:
    counties = Invariants(Totals(frame_of(3)))
    for epsilon in (400.0, 2.0**40, 2.0**400):
        assert LatticeLaplace(epsilon).variance((3,), counties) == pytest.approx(np.zeros(3), abs=1e-300)


def test_gaussian_with_a_fixed_total_has_no_step_where_the_formula_changes() -> None:
    counties = Invariants(Totals(frame_of(102)))
    for below, above in [(1.9999999999, 2.0)]:
        sums = [LatticeGaussian(s).log_normaliser(counties) for s in (below, above)]
        variances = [LatticeGaussian(s).variance((102,), counties) for s in (below, above)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-9)
        assert variances[0] == pytest.approx(variances[1], rel=1e-8)


@pytest.mark.parametrize("law", [LatticeLaplace(1.0), LatticeGaussian(1.0)], ids=str)
def test_off_the_lattice_there_is_no_mass(law: Law) -> None:
    invariants = all_margins(2, 2)
    table = np.array([[5, 3], [2, 7]])
    move = np.array([[1, -1], [-1, 1]])
    assert np.isfinite(law.logp(table + move, table, invariants))
    assert np.isfinite(law.logp((table + move).astype(float), table, invariants))
    broken = table + move
    broken[0, 0] += 1
    assert law.logp(broken, table, invariants) == -math.inf
    assert law.logp(table + 0.5 * move, table, invariants) == -math.inf
    # Exactly, also where floating point would no longer see a difference of one.
    large = np.full((2, 2), 2**52)
    assert law.logp(large + np.array([[1, 0], [0, 0]]), large, invariants) == -math.inf


def test_unknown_normalisers_are_left_out() -> None:
    invariants, zero = all_margins(5, 5), np.zeros((5, 5), dtype=int)
    for law in LAWS:
        assert law.log_normaliser(invariants) is None
        assert law.logp(zero, zero, invariants) == 0.0


@pytest.mark.parametrize(
    ("law", "name"),
    [
        (LatticeLaplace(0.7), "3 x 1 total"),
        (LatticeLaplace(0.7, "l2"), "pair"),
        (LatticeGaussian(1.3), "pair"),
    ],
    ids=str,
)
def test_exact_draws_have_the_law(law: Law, name: str) -> None:
    # Gibbs samplers are compared with enumeration in tests/lattices.
    invariants, _ = LATTICES[name]
    shape, cells = invariants.frame.shape, invariants.frame.size
    draws = law.draw(np.random.default_rng(5), shape, size=100_000, invariants=invariants)
    assert draws.dtype == np.int64
    points = lattice_points(invariants, 40)
    weights = weights_of(law, points)
    code = 101 ** np.arange(cells)  # one number for each table
    pvalue = chi_square_pvalue(draws.reshape(-1, cells) @ code, points @ code, weights / weights.sum())
    assert pvalue > 1e-4


def test_draws_around_a_table() -> None:
    invariants = all_margins(3, 3)
    table = np.arange(9).reshape(3, 3)
    noisy = LatticeLaplace(0.5, "l2").draw(np.random.default_rng(6), (3, 3), 20, invariants, table)
    assert noisy.shape == (20, 3, 3)
    assert all(invariants.is_null(one - table) for one in noisy)
    assert len(np.unique(noisy, axis=0)) > 5
    one = LatticeGaussian(2.0).draw(np.random.default_rng(6), (3, 3), invariants=invariants)
    assert one.shape == (3, 3)


def test_bad_arguments_are_named() -> None:
    law, invariants, zero = LatticeLaplace(1.0), all_margins(2, 2), np.zeros((2, 2), dtype=int)
    with pytest.raises(TypeError, match="the law 'lattice-laplace' needs invariants"):
        law.logp(zero, zero)
    with pytest.raises(ValueError, match=r"values must have the shape of the table, \(2, 2\), got \(4,\)"):
        law.logp(zero.reshape(-1), zero, invariants)
    with pytest.raises(ValueError, match=r"shape must be that of the table .*\(2, 2\), got \(3, 3\)"):
        law.draw(None, (3, 3), invariants=invariants)
    with pytest.raises(ValueError, match=r"location must hold whole numbers, but d0=0\.0, d1=1\.0 is"):
        law.draw(None, (2, 2), invariants=invariants, location=zero + 0.5)
    with pytest.raises(ValueError, match=r"values must be finite, but d0=0\.1, d1=1\.0 is"):
        law.logp([[1.0, 2.0], [math.nan, 0.0]], zero, invariants)

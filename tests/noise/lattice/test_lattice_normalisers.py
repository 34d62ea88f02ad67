"""Normalisers of the lattice laws where there is no closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.noise import LatticeGaussian, LatticeLaplace
from bayesdp.queries import Margins, Totals
from tests.noise.oracles import Ints, all_margins, frame_of


def three_by_three(reach: int) -> Ints:
    """All 3 x 3 tables with zero margins and free cells within `reach` of zero."""
    side = np.arange(-reach, reach + 1)
    free = np.stack(np.meshgrid(side, side, side, side, indexing="ij"), axis=-1).reshape(-1, 2, 2)
    rows = np.concatenate([free, -free.sum(axis=2, keepdims=True)], axis=2)
    return np.concatenate([rows, -rows.sum(axis=1, keepdims=True)], axis=1).reshape(-1, 9)


POINTS = three_by_three(11)
ZERO = np.zeros((3, 3), dtype=int)


@pytest.mark.parametrize("law", [LatticeLaplace(2.0), LatticeLaplace(2.5, "l2"), LatticeGaussian(1.2)], ids=str)
def test_probabilities_of_3x3_tables(law: LatticeLaplace | LatticeGaussian) -> None:
    if isinstance(law, LatticeGaussian):
        weights = np.exp(-0.5 * (POINTS**2).sum(axis=1) / law.sigma**2)
    else:
        weights = np.exp(-law.epsilon * np.linalg.norm(POINTS, ord=int(law.norm[1]), axis=1))
    weights /= weights.sum()
    for at in np.argsort(weights)[[-1, -2, -10, -100, -2000]]:
        found = math.exp(law.logp(POINTS[at].reshape(3, 3), ZERO, all_margins(3, 3)))
        assert found == pytest.approx(weights[at], rel=1e-11)


def test_numbers_from_elsewhere() -> None:
    assert math.exp(LatticeLaplace(1.0).logp(ZERO, ZERO, all_margins(3, 3))) == pytest.approx(0.71698655, abs=5e-9)


def test_l2_with_a_fixed_total_and_with_free_cells() -> None:
    side = np.arange(-900, 901)
    for invariants, form in ((Invariants(Totals(frame_of(3))), 1), (Invariants(None, frame_of(2)), 0)):
        # Squared length of (i, j, -i - j), or of (i, j).
        i, j = np.meshgrid(side, side)
        length = np.sqrt(i**2 + j**2 + form * (i + j) ** 2)
        for epsilon in (0.06, 0.5, 2.0, 30.0):
            direct = math.log(np.exp(-epsilon * length).sum())
            found = LatticeLaplace(epsilon, "l2").log_normaliser(invariants)
            assert found == pytest.approx(direct, rel=1e-12, abs=1e-14)


def test_l2_for_small_epsilon_is_the_volume() -> None:
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


def test_l2_on_two_lines_and_on_one() -> None:
    pairs = Invariants(Margins(frame_of(2, 2), ["d0"]))
    j = np.arange(-300, 301)
    length = np.sqrt(2.0 * (j[:, None] ** 2 + j**2))
    expected = math.log(np.exp(-0.3 * length).sum())
    assert LatticeLaplace(0.3, "l2").log_normaliser(pairs) == pytest.approx(expected, rel=1e-12)
    single = Invariants(Totals(frame_of(2)))
    assert LatticeLaplace(0.3, "l2").log_normaliser(single) == pytest.approx(
        math.log(np.exp(-0.3 * math.sqrt(2.0) * np.abs(j)).sum()), rel=1e-13
    )
    nothing = Invariants(Margins(frame_of(2), ["d0"]))
    assert LatticeLaplace(0.3, "l2").log_normaliser(nothing) == 0.0


def test_a_table_written_twice() -> None:
    twice = Invariants(Margins(frame_of(3, 3, 2), ["d0", "d1"], ["d1", "d2"], ["d0", "d2"]))
    once, root = all_margins(3, 3), math.sqrt(2.0)
    for law, same in (
        (LatticeLaplace(0.4), LatticeLaplace(0.8)),
        (LatticeLaplace(0.4, "l2"), LatticeLaplace(0.4 * root, "l2")),
        (LatticeGaussian(0.7), LatticeGaussian(0.7 / root)),
        (LatticeGaussian(3.0), LatticeGaussian(3.0 / root)),
    ):
        assert law.log_normaliser(twice) == pytest.approx(same.log_normaliser(once), rel=1e-12)


def test_large_lattices_are_left_out() -> None:
    invariants, zero = all_margins(5, 6), np.zeros((5, 6), dtype=int)
    for law in (LatticeLaplace(1.0), LatticeLaplace(1.0, "l2"), LatticeGaussian(1.0)):
        assert law.log_normaliser(invariants) is None
        assert law.logp(zero, zero, invariants) == 0.0

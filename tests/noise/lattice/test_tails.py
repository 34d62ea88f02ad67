"""Tails of the norm of noise on a lattice, against enumeration, closed forms and exact draws."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from bayesdp.invariants import Invariants
from bayesdp.noise import LatticeGaussian, LatticeLaplace
from bayesdp.queries import Totals
from tests.comparison.enumeration import lattice_points
from tests.lattices.oracles import CASES, law_on, one_way

LAWS = {
    "l1": (LatticeLaplace(1.5), 1),
    "l2": (LatticeLaplace(2.5, "l2"), 2),
    "gaussian": (LatticeGaussian(0.9), 2),
}
TABLES = ["2x2", "2x3", "3x3", "totals", "loose", "general"]


def enumerated(name: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    invariants, reach = CASES[name]
    points = lattice_points(invariants.matrix.toarray(), min(reach, 15 if name != "3x3" else 6))
    scale = getattr(LAWS[kind][0], LAWS[kind][0].scale_name)
    return points, law_on(points, kind, scale)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("name", TABLES)
def test_tails_of_the_norm_are_those_of_enumerated_noise(name: str, kind: str) -> None:
    law, order = LAWS[kind]
    points, mass = enumerated(name, kind)
    norms = np.linalg.norm(points, ord=order, axis=1)
    for t in (0.0, 1.0, math.sqrt(6.0), 4.0, 5.0):
        low, high = law.tail(t, CASES[name][0])
        own = mass[norms >= t * (1 - 1e-12)].sum()
        assert low <= own * (1 + 1e-6) + 1e-9
        assert own <= high * (1 + 1e-6) + 1e-9
        assert high - low <= 1e-9


def test_far_tails_keep_their_digits() -> None:
    """A pair of cells: geometric, by hand; 60 of them: the sum of 60 such sizes, by its generating function."""
    pair = Invariants(Totals({"c": ["a", "b"]}))
    low, high = LatticeLaplace(0.5).tail(600, pair)
    assert low == pytest.approx(2.0 * math.exp(-300.0) / (1.0 + math.exp(-1.0)), rel=1e-9, abs=0.0)
    assert high == pytest.approx(low, rel=1e-9, abs=0.0)
    wave = np.exp(2j * np.pi * np.arange(4096) / 4096)
    x = math.exp(-1.0)
    masses = np.fft.fft(((1 - x) / (1 + x) * (1 + x * wave) / (1 - x * wave)) ** 60).real / 4096
    sums = masses[(-np.arange(4096)) % 4096] if masses[1] < 0 else masses
    many = Invariants(Totals({"c": list(range(120)), "g": ("c", [i // 2 for i in range(120)])}, by="g"))
    for t in (100, 140):
        own = max(sums[t // 2 : 2000].sum(), masses[t // 2 : 2000].sum())
        assert LatticeLaplace(0.5).tail(t, many)[1] == pytest.approx(own, rel=1e-6)


def test_tails_where_sizes_are_counted_below_t_only() -> None:
    """A pair at sigma = 40: noise k (1, -1) of mass exp(-k**2 / 1600), whose sizes go too far to be counted up to the end."""
    pair, law = Invariants(Totals({"c": ["a", "b"]})), LatticeGaussian(40.0)
    with mpmath.workdps(40):
        mass = [mpmath.exp(-(mpmath.mpf(k) ** 2) / 1600) for k in range(1500)]
        whole = 2 * mpmath.fsum(mass) - 1
        for k in range(20, 90):
            own = 2 * mpmath.fsum(mass[k:]) / whole
            low, high = law.tail(math.sqrt(2.0) * k, pair)
            assert low <= own <= high
            assert high - low < 1e-10


def test_where_vectors_cannot_be_counted_the_bound_holds() -> None:
    """4 x 4 tables at sigma = 6: nine dimensions; 4000 exact draws, each comparison wrong with probability 1e-6."""
    invariants = one_way(4, 4)
    law = LatticeGaussian(6.0)
    draws = np.linalg.norm(law.noise(np.random.default_rng(5), 4000, invariants).reshape(4000, -1), axis=1)
    for t in (15.0, 20.0, 25.0, 30.0):
        low, high = law.tail(t, invariants)
        seen = int((draws >= t).sum())
        assert stats.binom.cdf(seen, 4000, low) > 1e-6
        assert stats.binom.sf(seen - 1, 4000, high) > 1e-6
    # Noise so wide is that of nine normal variables: the bound is within a factor of it that Theorem 12 leaves open.
    exact = stats.chi2.sf((45.0 / 6.0) ** 2, 9)
    assert exact < law.tail(45.0, invariants)[1] < 40.0 * exact


def test_bad_input() -> None:
    law, pair = LatticeGaussian(2.0), Invariants(Totals({"c": ["a", "b"]}))
    with pytest.raises(ValueError, match="t must"):
        law.tail(-1.0, pair)
    with pytest.raises(NotImplementedError, match="normaliser"):
        law.tail(3.0, one_way(9, 9))

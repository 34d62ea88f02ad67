"""Lattice noise with integers only: its law by enumeration and by moments, where it applies, and what releases say."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices import sample_noise
from bayesdp.lattices.secure import (
    _composition,
    _finite_mass,
    draw_secure,
    has_secure,
    zero_sum_laplace,
)
from bayesdp.mechanisms import LatticeGaussian, LatticeLaplace
from bayesdp.privacy import FLOATING_POINT_CAVEAT
from bayesdp.privacy.caveats import GENERATOR_CAVEAT
from bayesdp.queries import Totals
from tests.comparison.chi_square import chi_square_pvalue
from tests.lattices.oracles import BLOCKS, GENERAL, LEVEL, LOOSE, lattice_points, law_on, one_way, pvalue
from tests.lattices.secure.bits import Counted

KNOWN = {"2x2": (one_way(2, 2), 30), "2x3": (one_way(2, 3), 14), "totals": (BLOCKS, 14), "loose": (LOOSE, 16)}


@pytest.mark.parametrize("law", ["l1", "gaussian"])
@pytest.mark.parametrize("case", list(KNOWN))
def test_law_by_enumeration(case, law):
    invariants, reach = KNOWN[case]
    scale = 0.8 if law == "l1" else 1.3
    draws = draw_secure(invariants, law, scale, 4000, Counted(7)).reshape(4000, -1)
    points = lattice_points(invariants.matrix.toarray(), reach)
    assert pvalue(draws, points, law_on(points, law, scale)) > LEVEL


def test_a_wrong_law_is_noticed():
    invariants, reach = KNOWN["2x3"]
    draws = draw_secure(invariants, "l1", 0.8, 4000, Counted(7)).reshape(4000, -1)
    points = lattice_points(invariants.matrix.toarray(), reach)
    assert pvalue(draws, points, law_on(points, "l1", 0.9)) < LEVEL


@pytest.mark.parametrize(
    ("n", "rate"), [(1, Fraction(1, 2)), (6, Fraction(1, 5)), (9, Fraction(3)), (40, Fraction(0.1))]
)
def test_the_finite_part_of_the_mass(n, rate):
    bits = Counted(8)
    draws = np.bincount([_finite_mass(bits, n, rate) for _ in range(5000)], minlength=n + 1)
    weight = np.array([(math.comb(n, k) * math.exp(-k * rate)) ** 2 for k in range(n + 1)])
    expected = 5000 * weight / weight.sum()
    assert chi_square_pvalue(draws, expected) > LEVEL


def test_more_bits_are_asked_for_where_the_first_do_not_tell():
    # With one of two values, the border is at 1 / (1 + x), x = exp(-2): its first 64 bits leave open on which side a number is.
    with mpmath.workdps(60):
        share = mpmath.nstr(1 / (1 + mpmath.exp(-2)), 55)
    border = int(Fraction(share) * 2**128)
    for beyond in (0, 1):
        left = [border >> 64, border % 2**64 + (2 if beyond else -2)]
        assert _finite_mass(lambda _, left=left: left.pop(0), 1, Fraction(1)) == beyond
        assert not left


def test_compositions_are_uniform():
    bits = Counted(10)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        parts = tuple(_composition(bits, 4, 3))
        assert sum(parts) == 4
        seen[parts] = seen.get(parts, 0) + 1
    assert len(seen) == math.comb(6, 2)
    assert chi_square_pvalue(list(seen.values()), np.full(len(seen), 6000 / len(seen))) > LEVEL
    assert _composition(bits, 5, 1) == [5]


def test_moments_at_102_counties():
    # checks.md: E||z||_1 = 522.78 at epsilon = 0.192; the standard deviation is the root of the second derivative of log Z.
    # Four standard errors: one false alarm in 15,000.
    bits = Counted(11)
    sizes = [sum(map(abs, zero_sum_laplace(bits, 102, Fraction(0.192)))) for _ in range(400)]
    assert abs(np.mean(sizes) - 522.78) < 4.0 * np.std(sizes) / 20.0
    exact = np.abs(
        sample_noise(Invariants(Totals({"c": range(102)})), "l1", 0.192, np.random.default_rng(1), 4000)
    ).sum(axis=1)
    assert abs(np.std(sizes) / exact.std() - 1.0) < 4.0 / math.sqrt(800)


def test_where_it_applies():
    assert has_secure(BLOCKS, "l1")
    assert not has_secure(BLOCKS, "l2")
    assert not has_secure(one_way(3, 3), "l1")
    assert not has_secure(GENERAL, "gaussian")
    assert not has_secure(Invariants(Totals({"c": range(20_000)})), "gaussian")
    with pytest.raises(NotImplementedError, match="no integers-only sampler of l2 noise"):
        draw_secure(BLOCKS, "l2", 1.0)


def test_noise_that_would_not_be_exact_is_refused():
    with pytest.raises(OverflowError, match="too wide"):
        draw_secure(LOOSE, "l1", 1e-17, bits=Counted(1))


LABELS = {"county": ["Alpha", "Beta", "Gamma"]}


class TestReleases:
    @pytest.mark.parametrize("make", [lambda q: LatticeLaplace(q, 0.5), lambda q: LatticeGaussian(q, rho=0.1)])
    def test_without_a_generator_integers_only_and_the_guarantee_says_so(self, make, monkeypatch):
        mechanism = make(Totals(LABELS))

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("noise from floating point")

        monkeypatch.setattr(sys.modules[type(mechanism).__module__], "sample_noise", refuse)
        release = mechanism.release([20, 10, 5])
        assert int(release.values.sum()) == 35
        said = release.guarantee.caveats
        assert any(
            "integer arithmetic only" in sentence and "Nobody outside has vetted" in sentence for sentence in said
        )
        assert FLOATING_POINT_CAVEAT not in said
        assert GENERATOR_CAVEAT not in said
        assert release.guarantee.certified
        assert not release.guarantee.simulated

    def test_with_a_generator_or_another_lattice_the_caveats_stay(self):
        simulated = LatticeLaplace(Totals(LABELS), 0.5).release([20, 10, 5], rng=np.random.default_rng(1))
        assert FLOATING_POINT_CAVEAT in simulated.guarantee.caveats
        for mechanism in (LatticeLaplace(Totals(LABELS), 0.5, norm="l2"), LatticeLaplace(one_way(3, 3), 0.5)):
            release = mechanism.release(np.full(mechanism.frame.shape, 5))
            assert {FLOATING_POINT_CAVEAT, GENERATOR_CAVEAT} <= set(release.guarantee.caveats)
            assert not any("integer arithmetic only, from" in sentence for sentence in release.guarantee.caveats)

    def test_mcmc_that_is_asked_for_is_floating_point(self):
        release = LatticeLaplace(Totals(LABELS), 0.5, sweeps=20).release([20, 10, 5], method="mcmc")
        assert {FLOATING_POINT_CAVEAT, GENERATOR_CAVEAT} <= set(release.guarantee.caveats)
        assert not release.guarantee.certified

    def test_the_mechanism_says_beforehand_what_a_release_will(self):
        mechanism = LatticeLaplace(Totals(LABELS), 0.5)
        assert set(mechanism.release([20, 10, 5]).guarantee.caveats) <= set(mechanism.guarantee.caveats)

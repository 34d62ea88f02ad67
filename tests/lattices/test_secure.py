"""Draws by integers only: rational laws from random bits (seeded; a right sampler fails 1 test in 10,000), noise of fixed totals."""

import ast
import inspect
import math
import random
import sys
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binomtest

from bayesdp.invariants import Invariants
from bayesdp.lattices import secure
from bayesdp.mechanisms import LatticeGaussian, LatticeLaplace
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from bayesdp.privacy import FLOATING_POINT_CAVEAT
from bayesdp.privacy.caveats import GENERATOR_CAVEAT
from bayesdp.queries import Totals
from tests.comparison.chi_square import chi_square_pvalue, draws_pvalue
from tests.lattices.oracles import BLOCKS, GENERAL, LEVEL, LOOSE, assert_follows, one_way


class Counted:
    """Random bits with a seed, counted, that are asked for by integers only."""

    def __init__(self, seed):
        self._source = random.Random(seed)
        self.used = 0

    def __call__(self, count):
        assert type(count) is int
        self.used += count
        return self._source.getrandbits(count)


def fits(draws, log_mass):
    """Chi-square of integers against an exact mass; values expected fewer than ten times are one class."""
    support = np.arange(min(draws) - 1, max(draws) + 2)
    return draws_pvalue(draws, support, np.exp(log_mass(support))) > LEVEL


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(9, 4)])
def test_coins(rate):
    bits = Counted(1)
    heads = sum(secure.bernoulli_exp(bits, rate) for _ in range(10_000))
    assert binomtest(heads, 10_000, math.exp(-rate)).pvalue > LEVEL


@pytest.mark.parametrize("n", [1, 2, 10, 2**70 + 1])
def test_uniform_integers(n):
    assert all(0 <= secure.uniform_integer(Counted(seed), n) < n for seed in range(4))
    if 1 < n < 100:
        bits = Counted(5)
        draws = [secure.uniform_integer(bits, n) for _ in range(5000)]
        assert chi_square_pvalue(np.bincount(draws, minlength=n), np.full(n, 5000 / n)) > LEVEL
    assert n > 1 or secure.uniform_integer(lambda count: pytest.fail("no bits are needed"), 1) == 0


@pytest.mark.parametrize("scale", [0.1 + 0.2, 0.4, 2.5, 3.7])
def test_discrete_laplace_and_gaussian(scale):
    bits = Counted(3)
    draws = [secure.draw_discrete_laplace(bits, Fraction(scale)) for _ in range(8000)]
    assert fits(draws, DiscreteLaplace(scale).log_mass)
    draws = [secure.draw_discrete_gaussian(bits, Fraction(scale) ** 2) for _ in range(5000)]
    assert fits(draws, DiscreteGaussian(scale).log_mass)
    assert binomtest(sum(own > 0 for own in draws), sum(own != 0 for own in draws)).pvalue > LEVEL


def test_fractions_stay_fractions(monkeypatch):
    # A float anywhere in the arithmetic of a fraction gives a float: refuse to be turned into one.
    def refuse(self):
        raise AssertionError("a fraction was rounded")

    monkeypatch.setattr(Fraction, "__float__", refuse)
    bits, rate = Counted(6), Fraction(0.192)
    assert sum(secure.zero_sum_laplace(bits, 20, rate)) == 0
    assert sum(secure.zero_sum_gaussian(bits, 5, rate)) == 0
    assert bits.used > 500


KNOWN = {"2x2": (one_way(2, 2), 30), "2x3": (one_way(2, 3), 14), "totals": (BLOCKS, 14), "loose": (LOOSE, 16)}


@pytest.mark.parametrize("law", ["l1", "gaussian"])
@pytest.mark.parametrize("case", list(KNOWN))
def test_law_by_enumeration(case, law):
    invariants, reach = KNOWN[case]
    scale = 0.8 if law == "l1" else 1.3
    draws = secure.draw_secure(invariants, law, scale, 2000, Counted(7)).reshape(2000, -1)
    assert_follows(draws, invariants.matrix.toarray(), reach, law, scale)


@pytest.mark.parametrize(("n", "rate"), [(6, Fraction(1, 5)), (9, Fraction(3)), (40, Fraction(0.1))])
def test_the_finite_part_of_the_mass(n, rate):
    bits = Counted(8)
    draws = np.bincount([secure._finite_mass(bits, n, rate) for _ in range(5000)], minlength=n + 1)
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
        assert secure._finite_mass(lambda _, left=left: left.pop(0), 1, Fraction(1)) == beyond
        assert not left


def test_compositions_are_uniform():
    bits = Counted(10)
    seen = Counter(tuple(secure._composition(bits, 4, 3)) for _ in range(4000))
    assert {sum(parts) for parts in seen} == {4}
    assert len(seen) == math.comb(6, 2)
    assert chi_square_pvalue(list(seen.values()), np.full(len(seen), 4000 / len(seen))) > LEVEL
    assert secure._composition(bits, 5, 1) == [5]


def test_the_mean_size_at_102_counties():
    # checks.md: E||z||_1 = 522.78 at epsilon = 0.192. Four standard errors: one false alarm in 15,000.
    bits = Counted(11)
    sizes = [sum(map(abs, secure.zero_sum_laplace(bits, 102, Fraction(0.192)))) for _ in range(225)]
    assert abs(np.mean(sizes) - 522.78) < 4.0 * np.std(sizes) / 15.0


def test_where_it_applies_and_noise_that_would_not_be_exact():
    assert secure.has_secure(BLOCKS, "l1")
    assert not secure.has_secure(BLOCKS, "l2")
    assert not secure.has_secure(one_way(3, 3), "l1")
    assert not secure.has_secure(GENERAL, "gaussian")
    assert not secure.has_secure(Invariants(Totals({"c": range(20_000)})), "gaussian")
    with pytest.raises(NotImplementedError, match="no integers-only sampler of l2 noise"):
        secure.draw_secure(BLOCKS, "l2", 1.0)
    with pytest.raises(OverflowError, match="too wide"):
        secure.draw_secure(LOOSE, "l1", 1e-17, bits=Counted(1))


COUNTIES = Totals({"county": ["Alpha", "Beta", "Gamma"]})


@pytest.mark.parametrize("mechanism", [LatticeLaplace(COUNTIES, 0.5), LatticeGaussian(COUNTIES, rho=0.1)])
def test_releases_without_a_generator_are_of_integers_only_and_the_guarantee_says_so(mechanism, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("noise from floating point")

    monkeypatch.setattr(sys.modules[type(mechanism).__module__], "sample_noise", refuse)
    release = mechanism.release([20, 10, 5])
    assert int(release.values.sum()) == 35
    said = release.guarantee.caveats
    assert any("integer arithmetic only" in own and "Nobody outside has vetted" in own for own in said)
    assert not {FLOATING_POINT_CAVEAT, GENERATOR_CAVEAT} & set(said)
    assert release.guarantee.certified
    assert not release.guarantee.simulated
    assert set(said) <= set(mechanism.guarantee.caveats)  # the mechanism says it beforehand


def test_with_a_generator_a_chain_or_another_lattice_the_caveats_stay():
    simulated = LatticeLaplace(COUNTIES, 0.5).release([20, 10, 5], rng=np.random.default_rng(1))
    assert FLOATING_POINT_CAVEAT in simulated.guarantee.caveats
    chain = LatticeLaplace(COUNTIES, 0.5, sweeps=20).release([20, 10, 5], method="mcmc")
    assert not chain.guarantee.certified
    others = (LatticeLaplace(COUNTIES, 0.5, norm="l2"), LatticeLaplace(one_way(3, 3), 0.5))
    for release in (chain, *(own.release(np.full(own.frame.shape, 5)) for own in others)):
        assert {FLOATING_POINT_CAVEAT, GENERATOR_CAVEAT} <= set(release.guarantee.caveats)
        assert not any("integer arithmetic only, from" in sentence for sentence in release.guarantee.caveats)


def test_no_float_is_in_the_way_of_the_noise():
    # No float literal, nothing of `math` that gives floats, no NumPy arithmetic or generator.
    tree = ast.parse(inspect.getsource(secure))
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), ast.unparse(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("math", "np"):
            assert ast.unparse(node) in {"math.isqrt", "np.zeros", "np.int64"}, ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "float":  # of the scale, which is then a fraction
            assert ast.unparse(node) == "float(scale)"

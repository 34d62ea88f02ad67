"""Coins and discrete noise with integers only, against their laws."""

from __future__ import annotations

import ast
import inspect
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from bayesdp.lattices import secure
from bayesdp.lattices.secure import (
    bernoulli_exp,
    draw_discrete_gaussian,
    draw_discrete_laplace,
    geometric_exp,
    uniform_integer,
)
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from tests.comparison.chi_square import chi_square_pvalue
from tests.lattices.secure.bits import Counted

LEVEL = 1e-4
"""A right sampler fails one test in ten thousand; the bits have seeds."""

RATES = [Fraction(1, 7), Fraction(1), Fraction(9, 4), Fraction(0.1), Fraction(1, 10**30)]


def fits(draws: list[int], log_mass) -> bool:
    """Chi-square of integers against an exact mass; values expected fewer than ten times are one class on each side."""
    support = np.arange(min(draws) - 1, max(draws) + 2)
    expected = len(draws) * np.exp(log_mass(support))
    common = expected >= 10
    low, high = support[common].min(), support[common].max()
    inside = [draws.count(int(k)) for k in support[common]]
    observed = [sum(k < low for k in draws), *inside, sum(k > high for k in draws)]
    tail = (len(draws) - expected[common].sum()) / 2.0
    return chi_square_pvalue(observed, [tail, *expected[common], tail], least=0.0) > LEVEL


@pytest.mark.parametrize("rate", [Fraction(0), *RATES])
def test_coins(rate):
    bits = Counted(1)
    a = math.exp(-rate)
    heads = sum(bernoulli_exp(bits, rate) for _ in range(20_000))
    assert binomtest(heads, 20_000, min(a, 1.0)).pvalue > LEVEL


@pytest.mark.parametrize("n", [1, 2, 3, 10, 64, 2**70 + 1])
def test_uniform_integers(n):
    draws = [uniform_integer(Counted(seed), n) for seed in range(3)] + [uniform_integer(random.getrandbits, n)]
    assert all(0 <= value < n for value in draws)
    if 1 < n < 100:
        bits = Counted(5)
        draws = [uniform_integer(bits, n) for _ in range(10_000)]
        assert chi_square_pvalue(np.bincount(draws, minlength=n), np.full(n, 10_000 / n)) > LEVEL
    assert n > 1 or uniform_integer(lambda count: pytest.fail("no bits are needed"), 1) == 0


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(5, 2), Fraction(0.1)])
def test_geometric(rate):
    bits = Counted(2)
    draws = [geometric_exp(bits, rate) for _ in range(20_000)]
    assert min(draws) == 0
    log_a = -float(rate)
    expected = [math.exp(log_a * k) * -math.expm1(log_a) for k in range(4)]
    observed = [draws.count(k) for k in range(4)]
    rest = 1.0 - sum(expected)
    assert (
        chi_square_pvalue([*observed, 20_000 - sum(observed)], 20_000 * np.array([*expected, rest]), least=0.0) > LEVEL
    )


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 0.1 + 0.2, 7.0])
def test_discrete_laplace(scale):
    bits = Counted(3)
    draws = [draw_discrete_laplace(bits, Fraction(scale)) for _ in range(20_000)]
    assert all(type(k) is int for k in draws)
    assert fits(draws, DiscreteLaplace(scale).log_mass)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.0, 3.7])
def test_discrete_gaussian(sigma):
    bits = Counted(4)
    draws = [draw_discrete_gaussian(bits, Fraction(sigma) ** 2) for _ in range(10_000)]
    assert fits(draws, DiscreteGaussian(sigma).log_mass)


def test_a_wrong_law_is_noticed():
    bits = Counted(3)
    draws = [draw_discrete_laplace(bits, Fraction(5, 2)) for _ in range(20_000)]
    assert not fits(draws, DiscreteLaplace(2.3).log_mass)
    doubled = [k for k in draws for _ in range(2 if k == 0 else 1)]  # what comes of keeping minus zero
    assert not fits(doubled, DiscreteLaplace(2.5).log_mass)


def test_no_float_is_in_the_way_of_the_noise():
    # Types of what the source shows: no float literal, no true division except of fractions, nothing of `math` that
    # gives floats, no NumPy arithmetic or generator.
    tree = ast.parse(inspect.getsource(secure))
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), ast.unparse(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math":
            assert node.attr in {"isqrt"}, ast.unparse(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np":
            assert node.attr in {"zeros", "int64"}, ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "float":
            assert ast.unparse(node) == "float(scale)", (
                "only the scale that is given is a float, and is then a fraction"
            )


def test_fractions_stay_fractions(monkeypatch):
    # A float anywhere in the arithmetic of a fraction gives a float: refuse to be turned into one.
    def refuse(self: Fraction) -> float:
        raise AssertionError("a fraction was rounded")

    monkeypatch.setattr(Fraction, "__float__", refuse)
    bits = Counted(6)
    rate = Fraction(0.192)
    assert sum(secure.zero_sum_laplace(bits, 20, rate)) == 0
    assert sum(secure.zero_sum_gaussian(bits, 5, rate)) == 0
    assert bits.used > 500

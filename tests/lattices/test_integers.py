"""Single integers drawn inside kernels. Each chi-square test is at LEVEL."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp._random import seed_state
from bayesdp.lattices.integers import discrete_gaussian, discrete_laplace, geometric, spare_bits, uniform_below
from tests.lattices.oracles import LEVEL, pvalue

K = np.arange(-300, 301)[:, None]


@pytest.mark.parametrize("rate", [0.05, 1.0, 4.5])
def test_discrete_laplace(rate, make_rng):
    state = seed_state(make_rng(1))
    draws = np.array([[discrete_laplace(state, rate)] for _ in range(5000)])
    mass = np.exp(-rate * np.abs(K[:, 0])) * np.tanh(rate / 2)
    assert pvalue(draws, K, mass) > LEVEL


@pytest.mark.parametrize("sigma", [0.35, 0.6, 1.0, 7.3])
def test_discrete_gaussian(sigma, make_rng):
    state = seed_state(make_rng(2))
    draws = np.array([[discrete_gaussian(state, sigma)] for _ in range(5000)])
    mass = np.exp(-(K[:, 0] ** 2) / (2 * sigma**2))
    assert pvalue(draws, K, mass / mass.sum()) > LEVEL


def test_geometric(make_rng):
    state = seed_state(make_rng(3))
    draws = np.array([[geometric(state, 0.3)] for _ in range(5000)])
    k = np.arange(200)
    assert pvalue(draws, k[:, None], np.exp(-0.3 * k) * -np.expm1(-0.3)) > LEVEL


@pytest.mark.parametrize("n", [1, 2, 5, 8, 11])
def test_uniform_below(n, make_rng):
    state = seed_state(make_rng(4))
    draws = np.array([[uniform_below(state, n, spare_bits(n))] for _ in range(3000)])
    assert draws.min() >= 0
    assert n == 1 or pvalue(draws, np.arange(n)[:, None], np.full(n, 1 / n)) > LEVEL


@pytest.mark.parametrize(("n", "bits"), [(1, 63), (2, 63), (3, 62), (4, 62), (5, 61), (2**40, 24), (2**40 + 1, 23)])
def test_spare_bits_leave_room_for_n(n, bits):
    assert spare_bits(n) == bits

"""Draws of single integers inside numba kernels, from the state of `bayesdp._random`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, next_word, uniform

type Words = npt.NDArray[np.uint64]


@nb.njit(cache=True, error_model="numpy")
def spare_bits(n: int) -> int:
    """How many of 64 random bits are left over when an integer in 0 .. n-1 is drawn."""
    bits = 1
    while bits < 63 and (1 << bits) < n:
        bits += 1
    return 64 - bits


@nb.njit(cache=True, error_model="numpy")
def uniform_below(state: Words, n: int, spare: int) -> int:
    """An integer in 0 .. n-1, uniform without any rounding: too large bit patterns are drawn again.

    `spare` is `spare_bits` of n, or of anything a little larger.
    """
    while True:
        value = int(next_word(state) >> np.uint64(spare))
        if value < n:
            return value


@nb.njit(cache=True, error_model="numpy")
def geometric(state: Words, rate: float) -> int:
    """An integer g >= 0 with probability ``(1 - a) a**g``, ``a = exp(-rate)``."""
    return int(exponential(state) / rate)


@nb.njit(cache=True, error_model="numpy")
def discrete_laplace(state: Words, rate: float) -> int:
    """An integer k with mass proportional to ``exp(-rate |k|)``: the difference of two geometric ones."""
    return geometric(state, rate) - geometric(state, rate)


@nb.njit(cache=True, error_model="numpy")
def discrete_gaussian(state: Words, sigma: float) -> int:
    """An integer k with mass proportional to ``exp(-k**2 / (2 sigma**2))``.

    Rejection from the discrete Laplace law of scale ``t = floor(sigma) + 1`` (Canonne, Kamath and Steinke,
    2020, Algorithm 3); more than a third of the proposals are accepted, whatever sigma.
    """
    t = math.floor(sigma) + 1.0
    while True:
        k = discrete_laplace(state, 1.0 / t)
        excess = (abs(k) - sigma * sigma / t) / sigma
        if uniform(state) < math.exp(-0.5 * excess * excess):
            return k

"""A small random generator that lives inside numba kernels.

xoshiro256++ (Blackman and Vigna, 2021): four 64-bit words of state in a plain array, so that a kernel call
costs nothing to set up (handing a `numpy.random.Generator` to numba costs about ten microseconds a call, as
much as forty moves). Each chain seeds its state from its own `numpy.random.Generator`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb


def seed_state(rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    """Four words of state drawn from a NumPy generator."""
    state = rng.integers(0, 2**64, size=4, dtype=np.uint64)
    # The all-zero state is the generator's one fixed point (probability 2**-256).
    return state if state.any() else np.ones(4, dtype=np.uint64)


@nb.njit(cache=True, inline="always")
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@nb.njit(cache=True, error_model="numpy")
def next_word(state: npt.NDArray[np.uint64]) -> np.uint64:
    """64 random bits."""
    # Loaded once and stored once: going through memory at every line would cost more than the arithmetic.
    a, b, c, d = state[0], state[1], state[2], state[3]
    result: np.uint64 = _rotate(a + d, 23) + a
    c ^= a
    d ^= b
    state[0] = a ^ d
    state[1] = b ^ c
    state[2] = c ^ (b << np.uint64(17))
    state[3] = _rotate(d, 45)
    return result


@nb.njit(cache=True, error_model="numpy")
def uniform(state: npt.NDArray[np.uint64]) -> float:
    """A double in [0, 1) with 53 random bits."""
    return np.float64(np.int64(next_word(state) >> np.uint64(11))) * (1.0 / 9007199254740992.0)


@nb.njit(cache=True, error_model="numpy")
def below(state: npt.NDArray[np.uint64], n: int) -> int:
    """An integer in 0 .. n-1; the bias is below n * 2**-53."""
    return int(uniform(state) * n)


@nb.njit(cache=True, error_model="numpy")
def exponential(state: npt.NDArray[np.uint64]) -> float:
    """A standard exponential draw."""
    return -math.log1p(-uniform(state))


@nb.njit(cache=True, error_model="numpy")
def by_log_weight(state: npt.NDArray[np.uint64], heights: npt.NDArray[np.float64], count: int, largest: float) -> int:
    """One of the first `count` places, in proportion to exp(heights), which become these weights; `largest` is their greatest."""
    total = 0.0
    for i in range(count):
        heights[i] = math.exp(heights[i] - largest)
        total += heights[i]
    u = uniform(state) * total
    for i in range(count):
        u -= heights[i]
        if u < 0.0:
            return i
    return -1

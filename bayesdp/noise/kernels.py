"""Compiled scalar samplers of the independent laws, and one tail sum.

The samplers of integers are shared by `bayesdp.noise` (loops over arrays) and by the PyMC distributions (PyTensor's
numba backend calls the scalar functions), so that both draw the same numbers from the same generator.
"""

import math

import numpy as np

from bayesdp._numba import nb as numba


@numba.njit(cache=True)
def laplace(rng, mu, b):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw a real number with density proportional to ``exp(-|y - mu| / b)``."""
    return rng.laplace(mu, b)


@numba.njit(cache=True)
def gaussian(rng, mu, sigma):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw a real number with density proportional to ``exp(-(y - mu)**2 / (2 sigma**2))``."""
    return rng.normal(mu, sigma)


@numba.njit(cache=True)
def tulap(rng, mu, epsilon, delta):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw a real number of the Tulap law: discrete Laplace plus uniform.

    And again where that is beyond the ends that delta leaves: the same law as Tulap noise given that q/2 <= F <= 1 - q/2, with
    ``q = 2 delta b / (1 - b + 2 delta b)`` and ``b = exp(-epsilon)``.
    """
    b = math.exp(-epsilon)
    q = 2.0 * delta * b / (1.0 - b + 2.0 * delta * b)
    while True:
        first = math.floor(rng.standard_exponential() / epsilon)
        second = math.floor(rng.standard_exponential() / epsilon)
        noise = first - second + rng.random() - 0.5
        if delta == 0.0:
            return mu + noise
        z = -abs(noise)
        steps = math.ceil(-z - 0.5)
        tail = b**steps * (b / (1.0 + b) + (1.0 - b) / (1.0 + b) * (z + steps + 0.5))
        if tail >= 0.5 * q:
            return mu + noise


@numba.njit(cache=True)
def discrete_laplace(rng, mu, b):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw an integer with mass proportional to ``exp(-|k - mu| / b)``.

    Both sides of mu are geometric; the integers above floor(mu) have probability
    ``q**(1 - f) / (q**f + q**(1 - f))`` with ``f = mu - floor(mu)`` and ``q = exp(-1/b)``.
    """
    base = math.floor(mu)
    above = 1.0 / (1.0 + math.exp(min((1.0 - 2.0 * (mu - base)) / b, 709.0)))
    steps = np.int64(math.floor(b * rng.standard_exponential()))  # geometric: P(steps >= n) = exp(-n / b)
    if rng.random() < above:
        return np.int64(base) + np.int64(1) + steps
    return np.int64(base) - steps


@numba.njit(cache=True)
def discrete_gaussian(rng, mu, sigma):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw an integer with mass proportional to ``exp(-(k - mu)**2 / (2 sigma**2))``.

    Rejection from the discrete Laplace of scale sigma around the same mu (Canonne, Kamath and Steinke,
    2020, Algorithm 3, for a real location): the ratio of the masses is ``exp(-(|k - mu| - sigma)**2 /
    (2 sigma**2))`` up to a constant. Dividing by its largest value over the integers, which is not 1 when
    sigma is small, keeps the acceptance above one half for every mu and sigma.
    """
    base = math.floor(mu)
    below = mu - base  # distances to the integers at and below mu: below, below + 1, ...
    over = 1.0 - below  # and above it
    gap = min(
        abs(below + max(0.0, np.rint(sigma - below)) - sigma),
        abs(over + max(0.0, np.rint(sigma - over)) - sigma),
    )
    best = gap / sigma
    while True:
        step = discrete_laplace(rng, below, sigma)
        excess = (abs(step - below) - sigma) / sigma
        if 2.0 * rng.standard_exponential() >= excess * excess - best * best:
            return np.int64(base) + step


@numba.njit(cache=True)
def fill_discrete_laplace(rng, mu, b, out):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Fill ``out`` (draws by cells) with draws around ``mu`` with scales ``b`` (one each a cell)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = discrete_laplace(rng, mu[j], b[j])


@numba.njit(cache=True)
def fill_discrete_gaussian(rng, mu, sigma, out):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Fill ``out`` (draws by cells) with draws around ``mu`` with scales ``sigma`` (one each a cell)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = discrete_gaussian(rng, mu[j], sigma[j])


@numba.njit(cache=True)
def upper_tails(start, offset, sigma):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Sum ``exp(-(j (j - 2 offset) - n (n - 2 offset)) / (2 sigma**2))`` over ``j >= n = start >= 1``.

    That is the tail in units of its first term, which is its largest because ``|offset| <= 1/2``.
    """
    out = np.empty(start.size)
    for i in range(start.size):
        total = 0.0
        term = 1.0
        steps = 0.0
        while term > 1e-18 * total:
            total += term
            steps += 1.0
            term = math.exp(-steps * (2.0 * (start[i] - offset[i]) + steps) / (2.0 * sigma[i] * sigma[i]))
        out[i] = total
    return out

"""Sums of a Gaussian over the integers: normaliser, moments and tails of the discrete Gaussian.

With mu = c + d, c the nearest integer, everything is written for ``j = k - c`` in units of the mass at
``j = 0``: ``w(j) = exp(-j (j - 2 d) / (2 sigma**2))``, which never overflows because ``|d| <= 1/2``. The sum
over j converges at once for small scales; for large ones Poisson's summation formula gives

``sum w = sigma sqrt(2 pi) exp(d**2 / (2 sigma**2)) theta(d)``,
``theta(d) = 1 + 2 sum over m >= 1 of exp(-2 pi**2 sigma**2 m**2) cos(2 pi m d)``.

Both are used at ``sigma = 1/2``, where 5 terms each side of the one and 4 of the other leave less than 1e-17. The logarithms
of sums are for PyTensor as well.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayesdp._arrays import Floats
from bayesdp.noise.arrays import special
from bayesdp.noise.kernels import upper_tails

SWITCH = 0.5
"""Scale from which Poisson's formula is used."""

DIRECT_TERMS = 5
"""Integers summed on each side of the nearest one below `SWITCH`."""

DUAL_TERMS = 4
"""Terms of theta from `SWITCH` on."""

_SUMMED_BELOW = 50.0  # tails: below, term by term; from here on by Euler and Maclaurin
_SUMMED_BELOW_IN_GRAPHS = 16.0  # the same for PyTensor, which adds up so many terms:
_TERMS_IN_GRAPHS = 144  # exp(-i**2 / (2 * 16**2)) < 1e-17 at the last

EULER_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
"""B_2m / (2m)! for m = 1, ..., 7."""


def log_sum(offset: Any, sigma: Any, xp: Any = np) -> Any:
    """Logarithm of the sum of w over the integers, relative error about 1e-15."""
    # `offset`: d, between -1/2 and 1/2. None for zero, which needs half of the terms and no cosine. `sigma`: scales. `xp`: see
    # `bayesdp.noise.arrays`. Both sums are evaluated, each with a scale that is harmless for it.
    small = sigma < SWITCH
    # The direct sum is a number for every scale; theta would be 0 or less for small ones.
    high = xp.where(small, 1.0, sigma)
    excess, theta = 0.0, 1.0
    for j in range(1, DIRECT_TERMS + 1):
        if offset is None:
            excess = excess + 2.0 * xp.exp(-0.5 * (j / sigma) ** 2)
        else:
            excess = excess + xp.exp(-0.5 * j * (j - 2.0 * offset) / sigma**2)
            excess = excess + xp.exp(-0.5 * j * (j + 2.0 * offset) / sigma**2)
    for m in range(1, DUAL_TERMS + 1):
        wave = 1.0 if offset is None else xp.cos(2.0 * math.pi * m * offset)
        theta = theta + 2.0 * xp.exp(-2.0 * (math.pi * m * high) ** 2) * wave
    dual = xp.log(high) + 0.5 * math.log(2.0 * math.pi) + xp.log(theta)
    if offset is not None:
        dual = dual + 0.5 * (offset / high) ** 2
    return xp.where(small, xp.log1p(excess), dual)


def moments(offset: Floats, sigma: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of j, the distance to the nearest integer of mu."""
    small = sigma < SWITCH
    low, high = np.where(small, sigma, SWITCH), np.where(small, SWITCH, sigma)
    j = np.arange(-DIRECT_TERMS, DIRECT_TERMS + 1.0).reshape(-1, *[1] * low.ndim)
    weights = np.exp(-j * (j - 2.0 * offset) / (2.0 * low**2))
    total = weights.sum(axis=0)
    mean = (j * weights).sum(axis=0) / total
    variance = ((j - mean) ** 2 * weights).sum(axis=0) / total
    # And its derivatives by the offset.
    theta, first, second = np.ones_like(high), np.zeros_like(high), np.zeros_like(high)
    for m in range(1, DUAL_TERMS + 1):
        weight = 2.0 * np.exp(-2.0 * (math.pi * m * high) ** 2)
        wave = 2.0 * math.pi * m
        theta += weight * np.cos(wave * offset)
        first -= weight * wave * np.sin(wave * offset)
        second -= weight * wave**2 * np.cos(wave * offset)
    slope = first / theta
    dual = high**2 + high**4 * (second / theta - slope**2)
    return np.where(small, mean, offset + high**2 * slope), np.where(small, variance, dual)


def log_upper_tail(start: Any, offset: Any, sigma: Any, xp: Any = np) -> Any:
    """Logarithm of the sum of w over ``j >= start``, for integers ``start >= 1``; all of one shape.

    NumPy adds up as many terms as matter. PyTensor adds a fixed number, and goes over to the series at a smaller scale: its
    relative error is about 1e-13 within eight scales of the mean, and grows to 1e-6 at 38 scales.
    """
    border = _SUMMED_BELOW if xp is np else _SUMMED_BELOW_IN_GRAPHS
    small = sigma < border
    high = xp.where(small, border, sigma)
    t = xp.where(small, 1.0, (start - offset) / high)
    # Euler and Maclaurin, in units of the first term, with R Mills' ratio:
    # sigma R(t) + 1/2 + sum over m of B_2m/(2m)! He_(2m-1)(t) / sigma^(2m-1).
    # The terms fall by (t / (2 pi sigma))**2 each, 0.015 at 38 scales from the mean.
    series = high * math.sqrt(0.5 * math.pi) * special(xp).erfcx(t / math.sqrt(2.0)) + 0.5
    even, odd = xp.ones_like(t), t  # Hermite polynomials He_0 and He_1
    for m, coefficient in enumerate(EULER_MACLAURIN, start=1):
        series = series + coefficient * odd / high ** (2 * m - 1)
        even = t * odd - (2 * m - 1) * even
        odd = t * even - 2 * m * odd
    if xp is np:
        direct = np.ones(np.shape(sigma))
        direct[small] = upper_tails(start[small], offset[small], sigma[small])
    else:
        low = xp.where(small, sigma, border)[..., None]
        steps = np.arange(_TERMS_IN_GRAPHS, dtype=np.float64)
        distance = 2.0 * (start - offset)[..., None] + steps
        direct = xp.sum(xp.exp(-steps * distance / (2.0 * low**2)), axis=-1)
    return xp.log(xp.where(small, direct, series)) - start * (start - 2.0 * offset) / (2.0 * sigma**2)

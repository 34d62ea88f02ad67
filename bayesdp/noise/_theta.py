"""Sums of a Gaussian over the integers: normaliser, moments and tails of the discrete Gaussian.

With mu = c + d, c the nearest integer, everything is written for ``j = k - c`` in units of the mass at
``j = 0``: ``w(j) = exp(-j (j - 2 d) / (2 sigma**2))``, which never overflows because ``|d| <= 1/2``. The sum
over j converges at once for small scales; for large ones Poisson's summation formula gives

``sum w = sigma sqrt(2 pi) exp(d**2 / (2 sigma**2)) theta(d)``,
``theta(d) = 1 + 2 sum over m >= 1 of exp(-2 pi**2 sigma**2 m**2) cos(2 pi m d)``.

Both are used at ``sigma = 1/2``, where 5 terms each side of the one and 4 of the other leave less than 1e-17.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx

from bayesdp.noise._kernels import upper_tails
from bayesdp.noise.base import Floats

__all__ = ["DIRECT_TERMS", "DUAL_TERMS", "EULER_MACLAURIN", "SWITCH", "log_sum", "log_upper_tail", "moments"]

SWITCH = 0.5
"""Scale from which Poisson's formula is used."""

DIRECT_TERMS = 5
"""Integers summed on each side of the nearest one below `SWITCH`."""

DUAL_TERMS = 4
"""Terms of theta from `SWITCH` on."""

_SUMMED_BELOW = 50.0  # tails: below, term by term; from here on by Euler and Maclaurin

EULER_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
)
"""B_2m / (2m)! for m = 1, ..., 7."""


def log_sum(offset: Floats, sigma: Floats) -> Floats:
    """Logarithm of the sum of w over the integers, relative error about 1e-15.

    Parameters
    ----------
    offset : ndarray
        d, between -1/2 and 1/2.
    sigma : ndarray
        Scales, of the same shape.
    """
    small = sigma < SWITCH
    result = np.empty_like(sigma)
    if np.any(small):
        weights = _weights(offset[small], sigma[small])
        result[small] = np.log1p(weights.sum(axis=0) - 1.0)
    if not np.all(small):
        d, s = offset[~small], sigma[~small]
        theta = _theta(d, s)[0]
        result[~small] = np.log(s) + 0.5 * math.log(2.0 * math.pi) + 0.5 * (d / s) ** 2 + np.log(theta)
    return result


def moments(offset: Floats, sigma: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of j, the distance to the nearest integer of mu."""
    small = sigma < SWITCH
    mean, variance = np.empty_like(sigma), np.empty_like(sigma)
    if np.any(small):
        weights = _weights(offset[small], sigma[small])
        j = np.arange(-DIRECT_TERMS, DIRECT_TERMS + 1.0).reshape(-1, *[1] * weights[0].ndim)
        total = weights.sum(axis=0)
        mean[small] = (j * weights).sum(axis=0) / total
        variance[small] = ((j - mean[small]) ** 2 * weights).sum(axis=0) / total
    if not np.all(small):
        d, s = offset[~small], sigma[~small]
        theta, first, second = _theta(d, s)
        slope = first / theta
        mean[~small] = d + s**2 * slope
        variance[~small] = s**2 + s**4 * (second / theta - slope**2)
    return mean, variance


def log_upper_tail(start: Floats, offset: Floats, sigma: Floats) -> Floats:
    """Logarithm of the sum of w over ``j >= start``, for integers ``start >= 1``; flat arrays."""
    tail = np.empty_like(sigma)
    small = sigma < _SUMMED_BELOW
    if np.any(small):
        tail[small] = upper_tails(start[small], offset[small], sigma[small])
    if not np.all(small):
        d, s = offset[~small], sigma[~small]
        t = (start[~small] - d) / s
        # Euler and Maclaurin, in units of the first term, with R Mills' ratio:
        # sigma R(t) + 1/2 + sum over m of B_2m/(2m)! He_(2m-1)(t) / sigma^(2m-1).
        # The terms fall by (t / (2 pi sigma))**2 each, 0.015 at 38 scales from the mean.
        total = s * math.sqrt(0.5 * math.pi) * erfcx(t / math.sqrt(2.0)) + 0.5
        even, odd = np.ones_like(t), t  # Hermite polynomials He_0 and He_1
        for m, coefficient in enumerate(EULER_MACLAURIN, start=1):
            total += coefficient * odd / s ** (2 * m - 1)
            even = t * odd - (2 * m - 1) * even
            odd = t * even - 2 * m * odd
        tail[~small] = total
    return np.log(tail) - start * (start - 2.0 * offset) / (2.0 * sigma**2)


def _weights(offset: Floats, sigma: Floats) -> Floats:
    """Give w(j) for j = -DIRECT_TERMS, ..., DIRECT_TERMS along a new first axis."""
    j = np.arange(-DIRECT_TERMS, DIRECT_TERMS + 1.0).reshape(-1, *[1] * offset.ndim)
    return np.asarray(np.exp(-j * (j - 2.0 * offset) / (2.0 * sigma**2)))


def _theta(offset: Floats, sigma: Floats) -> tuple[Floats, Floats, Floats]:
    """Theta and its first two derivatives with respect to the offset."""
    theta, first, second = np.ones_like(sigma), np.zeros_like(sigma), np.zeros_like(sigma)
    for m in range(1, DUAL_TERMS + 1):
        weight = 2.0 * np.exp(-2.0 * (math.pi * m * sigma) ** 2)
        wave = 2.0 * math.pi * m
        theta += weight * np.cos(wave * offset)
        first -= weight * wave * np.sin(wave * offset)
        second -= weight * wave**2 * np.cos(wave * offset)
    return theta, first, second

"""Sums over integers that add up to zero: normalisers and variances of noise with a fixed total.

The normaliser for the l1 norm stands with its exact sampler, in `bayesdp.lattices.exact.fixed_sum`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from bayesdp.noise.base import Floats

GAUSSIAN_SWITCH = 2.0
"""Scale from which a Gaussian sum over the lattice equals the integral to double precision."""


def log_squared_binomials(count: int) -> Floats:
    """``2 log C(count - 1, k)`` for k = 0, ..., count - 1."""
    k = np.arange(count)
    return np.asarray(2.0 * (gammaln(count) - gammaln(k + 1.0) - gammaln(count - k)))


def laplace_variance(count: int, rate: float) -> float:
    """Variance of one of `count` integers with sum zero and mass proportional to ``exp(-rate ||z||_1)``.

    z is the difference of two independent uniform weak compositions of a random mass s, with ``s = K +
    NegBin(2 count - 1, 1 - x)`` and ``P(K = k)`` in proportion to ``C(count-1, k)**2 x**k``; given s each
    part of a composition has the variance ``s (s + count) (count - 1) / (count**2 (count + 1))``.
    """
    k = np.arange(count)
    terms = log_squared_binomials(count) - 2.0 * rate * k
    weights = np.exp(terms - logsumexp(terms))
    ratio = 1.0 / math.expm1(min(2.0 * rate, 700.0))  # x / (1 - x), a number for every rate
    first, second = float(weights @ k), float(weights @ (k * k))
    mean = (2 * count - 1) * ratio
    square = mean * (1.0 + ratio) + mean * mean  # second moment of the negative binomial
    moment = second + 2.0 * first * mean + square + count * (first + mean)  # E s (s + count)
    return 2.0 * moment * (count - 1) / (count * count * (count + 1.0))


def trapezoid(count: int, largest: float) -> tuple[Floats, Floats]:
    """Nodes of the trapezoidal rule and terms of the series that it needs, for scales up to `largest`.

    The condition that z sums to zero is the mean of ``exp(i t sum z)`` over t in a full circle. With M
    equal steps that mean also keeps the z whose sum is another multiple of M, which for ``M >= 10 largest
    sqrt(count)`` have less than ``exp(-50)`` of the mass.
    """
    nodes = math.ceil(10.0 * largest * math.sqrt(count)) + 10
    return 2.0 * math.pi * np.arange(nodes) / nodes, np.arange(1.0, math.ceil(9.0 * largest) + 2.0)


def gaussian_log_sum(count: int, sigma: float) -> float:
    """Logarithm of the sum of ``exp(-||z||_2**2 / (2 sigma**2))`` over integers z with sum zero.

    For large scales, by Poisson's formula, ``(sigma sqrt(2 pi))**(count-1) / sqrt(count)``: the shortest
    vectors of the dual lattice have squared length (count - 1) / count, at least 1/2.

    Examples
    --------
    >>> print(f"{gaussian_log_sum(2, 1.0):.6f}")
    0.572468
    """
    if sigma >= GAUSSIAN_SWITCH:
        return (count - 1) * math.log(sigma * math.sqrt(2.0 * math.pi)) - 0.5 * math.log(count)
    wave = _waves(count, sigma)[0]
    return float(logsumexp(count * np.log(wave))) - math.log(wave.size)


def gaussian_variance(count: int, sigma: float) -> float:
    """Variance of one of the integers under the mass of `gaussian_log_sum`."""
    if sigma >= GAUSSIAN_SWITCH:
        return sigma * sigma * (1.0 - 1.0 / count)
    wave, second = _waves(count, sigma)
    log_weights = count * np.log(wave)
    weights = np.exp(log_weights - log_weights.max())
    return float(weights @ (second / wave) / weights.sum())


def _waves(count: int, sigma: float) -> tuple[Floats, Floats]:
    """Sums over k of ``exp(-k**2 / (2 sigma**2)) cos(k t)``, and of k**2 times that, at the nodes t."""
    nodes, k = trapezoid(count, sigma)
    weights = 2.0 * np.exp(-0.5 * (k / sigma) ** 2)
    cosines = np.cos(np.outer(nodes, k))
    # Positive in exact arithmetic; where rounding leaves nothing, its power adds nothing either.
    return np.maximum(1.0 + cosines @ weights, 1e-17), cosines @ (weights * k * k)

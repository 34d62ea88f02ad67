"""Zero-concentrated differential privacy (zCDP) of Gaussian noise, and its conversion to (epsilon, delta).

A mechanism is rho-zCDP when every Renyi divergence between its outputs on two neighbouring tables is
bounded, ``D_alpha <= rho * alpha`` for all ``alpha > 1`` (Bun and Steinke, 2016).

Two conversions are offered. ``"tight"`` (the default) minimises the bound of Canonne, Kamath and
Steinke (2020, Proposition 12) over alpha. ``"bun-steinke"`` is the closed form
``epsilon = rho + 2 sqrt(rho log(1/delta))`` that agencies and papers print; it is never smaller.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from bayesdp import _validate

CONVERSIONS = ("tight", "bun-steinke")
"""Names of the conversions from zCDP to (epsilon, delta)."""

_XTOL = 1e-15  # absolute, on logarithms
_RTOL = 4 * np.finfo(float).eps  # the smallest that brentq accepts


def gaussian_rho(sigma: float, sensitivity: float = 1.0) -> float:
    r"""Give the zCDP parameter of Gaussian noise: ``rho = sensitivity**2 / (2 sigma**2)``.

    The same number holds for the continuous Gaussian, the discrete Gaussian on the integers (Canonne,
    Kamath and Steinke, 2020, Theorem 4) and the Gaussian on any lattice, whatever its dimension: by
    Poisson summation the mass of a shifted lattice is never larger than that of the lattice itself.

    Parameters
    ----------
    sigma : float
        Scale of the noise, in counts.
    sensitivity : float, default 1
        Largest l2 distance between two neighbouring tables, in counts.

    Examples
    --------
    >>> gaussian_rho(sigma=2.0)
    0.125
    """
    scale = _validate.positive_real(sigma, "sigma")
    distance = _validate.nonnegative_real(sensitivity, "sensitivity")
    ratio = distance / scale
    rho = 0.5 * ratio * ratio
    if math.isinf(rho):
        raise ValueError(
            f"sigma of {sigma!r} is so small beside a distance of {sensitivity!r} that rho is beyond all floats"
        )
    return rho


def gaussian_sigma_for_rho(rho: float, sensitivity: float = 1.0) -> float:
    """Give the Gaussian scale that spends exactly rho: ``sensitivity / sqrt(2 rho)``.

    Parameters
    ----------
    rho : float
        zCDP parameter.
    sensitivity : float, default 1
        Largest l2 distance between two neighbouring tables, in counts.

    Examples
    --------
    >>> gaussian_sigma_for_rho(0.125)
    2.0
    """
    loss = _validate.positive_real(rho, "rho")
    distance = _validate.positive_real(sensitivity, "sensitivity")
    return distance / math.sqrt(2.0 * loss)


def rho_to_epsilon(rho: float, delta: float, method: str = "tight") -> float:
    """Convert rho-zCDP to the epsilon of (epsilon, delta)-differential privacy.

    Parameters
    ----------
    rho : float
        zCDP parameter, zero or greater.
    delta : float
        Strictly between 0 and 1.
    method : {"tight", "bun-steinke"}
        See the module's description.

    Notes
    -----
    Tight: ``epsilon(alpha) = alpha rho + log(1 - 1/alpha) - log(alpha delta) / (alpha - 1)`` has the
    derivative ``rho + log(alpha delta) / (alpha - 1)**2``, which changes sign once.

    Examples
    --------
    >>> print(f"{rho_to_epsilon(2.56, 1e-10, method='bun-steinke'):.5f}")
    17.91528
    >>> print(f"{rho_to_epsilon(2.56, 1e-10):.5f}")
    17.15831
    """
    rho = _validate.nonnegative_real(rho, "rho")
    log_delta = math.log(_validate.probability(delta, "delta"))
    if _validate.choice(method, CONVERSIONS, "method") == "bun-steinke":
        return rho + 2.0 * math.sqrt(-rho * log_delta)
    # h = alpha - 1 solves h**2 rho + log(1 + h) = log(1/delta); either term alone bounds it from above.
    largest = math.expm1(min(-log_delta, 700.0))
    if rho > 0.0:
        largest = min(largest, math.sqrt(-log_delta / rho))

    def slope(h: float) -> float:
        return h * h * rho + math.log1p(h) + log_delta

    h = largest if slope(largest) <= 0.0 else float(brentq(slope, 0.0, largest, xtol=1e-300, rtol=_RTOL))
    epsilon = (1.0 + h) * rho - math.log1p(1.0 / h) - (log_delta + math.log1p(h)) / h
    return max(0.0, epsilon)


def rho_to_delta(rho: float, epsilon: float, method: str = "tight") -> float:
    """Convert rho-zCDP to the delta of (epsilon, delta)-differential privacy.

    Parameters
    ----------
    rho : float
        zCDP parameter, zero or greater.
    epsilon : float
        Zero or greater.
    method : {"tight", "bun-steinke"}
        See the module's description.

    Returns
    -------
    float
        delta, between 0 and 1. 1 says that the bound is empty.

    Examples
    --------
    >>> print(f"{rho_to_delta(0.5, 1.0):.4f}")
    0.2468
    >>> print(f"{rho_to_delta(0.5, 1.0, method='bun-steinke'):.4f}")
    0.8825
    """
    rho = _validate.nonnegative_real(rho, "rho")
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    _validate.choice(method, CONVERSIONS, "method")
    return math.exp(_log_delta(rho, epsilon, method))


def rho_within(epsilon: float, delta: float, method: str = "tight") -> float:
    """Give the largest rho whose conversion stays within (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Zero or greater; positive for ``"bun-steinke"``, which gives nothing at zero.
    delta : float
        Strictly between 0 and 1.
    method : {"tight", "bun-steinke"}
        See the module's description.

    Returns
    -------
    float
        rho. The tight one is found by bisection and is the lower end of the last interval, so that the
        delta of the result does not exceed the one asked for.

    Examples
    --------
    >>> rho = rho_within(1.0, 1e-6)
    >>> print(f"{rho:.6f} {rho_to_epsilon(rho, 1e-6):.6f}")
    0.024356 1.000000
    """
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    log_delta = math.log(_validate.probability(delta, "delta"))
    if _validate.choice(method, CONVERSIONS, "method") == "bun-steinke":
        if epsilon == 0.0:
            raise ValueError("epsilon must be greater than 0 for method='bun-steinke', got 0")
        # (sqrt(epsilon + L) - sqrt(L))**2 with L = log(1/delta), without its cancellation.
        return (epsilon / (math.sqrt(epsilon - log_delta) + math.sqrt(-log_delta))) ** 2
    low = high = 1.0
    while _log_delta(low, epsilon, method) > log_delta:
        low *= 0.25
    while _log_delta(high, epsilon, method) <= log_delta:
        high *= 4.0
    while high / low > 1.0 + 1e-14:
        middle = math.sqrt(low * high)
        if _log_delta(middle, epsilon, method) <= log_delta:
            low = middle
        else:
            high = middle
    return low


def _log_delta(rho: float, epsilon: float, method: str) -> float:
    """Logarithm of the delta at epsilon of a rho-zCDP mechanism, at most 0."""
    if method == "bun-steinke":
        if epsilon <= rho:
            return 0.0
        return -((epsilon - rho) ** 2) / (4.0 * rho) if rho > 0.0 else -math.inf
    if rho == 0.0:
        return -math.inf  # equal laws: delta = 0 (the limit alpha -> infinity)
    if rho - epsilon > 700.0:
        return 0.0  # the best alpha is nearer to 1 than floats can say, and delta is 1 to 300 digits

    # Canonne, Kamath and Steinke, Proposition 12: with h = alpha - 1,
    # log delta = h ((1 + h) rho - epsilon) - h log(1 + 1/h) - log(1 + h), convex in h, with this derivative.
    def slope(log_h: float) -> float:
        h = math.exp(log_h)
        return (2.0 * h + 1.0) * rho - epsilon - math.log1p(1.0 / h)

    low, high = -1.0, 1.0
    while slope(low) > 0.0:
        low -= 2.0 - 0.5 * low
    while slope(high) < 0.0:
        high += 2.0
    h = math.exp(float(brentq(slope, low, high, xtol=_XTOL, rtol=_RTOL)))
    value = h * ((1.0 + h) * rho - epsilon) - h * math.log1p(1.0 / h) - math.log1p(h)
    return min(0.0, value)

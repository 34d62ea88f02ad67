"""The exact (epsilon, delta) profile of the one-dimensional discrete Gaussian.

For noise with mass proportional to ``exp(-k**2 / (2 sigma**2))`` on the integers and two tables whose
statistics differ by the integer m, the loss at k is ``(m**2 + 2 k m) / (2 sigma**2)`` and (Canonne, Kamath
and Steinke, 2020, Theorem 7)

``delta(epsilon) = sum over k with loss(k) > epsilon of p(k) (1 - exp(epsilon - loss(k)))``.

Every term is positive, so nothing cancels. It is not the profile of the continuous Gaussian: at sigma
= 1 and epsilon = 1 it is 0.141, against 0.127.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from bayesdp import _validate
from bayesdp.privacy.gaussian import log_normal_density, mills, mills_difference
from bayesdp.privacy.zcdp import rho_to_epsilon

_SUMMED_BELOW = 5000.0
"""Terms are added one by one for smaller scales; for larger ones by Euler and Maclaurin, see `_log_tail`."""

_RTOL = 4 * np.finfo(float).eps  # the smallest that brentq accepts


def discrete_gaussian_delta(epsilon: float, sigma: float, shift: int = 1) -> float:
    """Give the smallest delta at which discrete Gaussian noise is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon : float
        Zero or greater.
    sigma : float
        Scale parameter of the noise, in counts.
    shift : int, default 1
        Difference between the counts of two neighbouring tables.

    Returns
    -------
    float
        delta, between 0 and 1, with a relative error of about 1e-14 at scales up to 100 and below 1e-9 at any
        scale (0 where delta is below the smallest double).

    Examples
    --------
    >>> print(f"{discrete_gaussian_delta(1.0, sigma=1.0):.10f}")
    0.1413513394
    >>> print(f"{discrete_gaussian_delta(1.0, sigma=2.0):.10f}")
    0.0072487768
    """
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    sigma = _validate.positive_real(sigma, "sigma")
    shift = _validate.positive_integer(shift, "shift")
    return math.exp(_log_delta(epsilon, sigma, shift))


def discrete_gaussian_epsilon(delta: float, sigma: float, shift: int = 1) -> float:
    """Give the smallest epsilon at which discrete Gaussian noise is (epsilon, delta)-differentially private.

    Parameters
    ----------
    delta : float
        Strictly between 0 and 1.
    sigma, shift : float, int
        As in `discrete_gaussian_delta`.

    Examples
    --------
    >>> print(f"{discrete_gaussian_epsilon(0.1413513394, sigma=1.0):.8f}")
    1.00000000
    """
    log_delta = math.log(_validate.probability(delta, "delta"))
    sigma = _validate.positive_real(sigma, "sigma")
    shift = _validate.positive_integer(shift, "shift")
    if _log_delta(0.0, sigma, shift) <= log_delta:
        return 0.0
    high = rho_to_epsilon(0.5 * (shift / sigma) ** 2, delta)

    def excess(epsilon: float) -> float:
        return max(_log_delta(epsilon, sigma, shift), -1e4) - log_delta  # a finite floor for the root finder

    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=_RTOL))


def _log_delta(epsilon: float, sigma: float, shift: int) -> float:
    """Logarithm of delta, at most 0."""
    # The first integer whose loss exceeds epsilon; a loss of exactly epsilon contributes nothing either way.
    crossing = epsilon * sigma * sigma / shift - 0.5 * shift
    if crossing > 1e7 * max(sigma, 1.0):
        return -math.inf  # below exp(-1e13)
    start = math.floor(crossing) + 1
    method = _log_sum if sigma < _SUMMED_BELOW else _log_tail
    return min(0.0, method(start, epsilon, sigma, shift) - _log_normaliser(sigma))


def _log_normaliser(sigma: float) -> float:
    """Logarithm of the sum of exp(-k^2 / (2 sigma^2)) over the integers, by the shorter of two series."""
    if sigma < 0.5:
        return math.log1p(2.0 * math.fsum(math.exp(-0.5 * (k / sigma) ** 2) for k in range(1, 6)))
    dual = math.fsum(math.exp(-2.0 * (math.pi * sigma * k) ** 2) for k in range(1, 5))
    return math.log(sigma) + 0.5 * math.log(2.0 * math.pi) + math.log1p(2.0 * dual)


def _log_sum(start: int, epsilon: float, sigma: float, shift: int) -> float:
    """Add the terms one by one, leaving out less than 1e-15 of their sum."""
    # A term is a Gaussian mass times a factor that grows from about 1/sigma^2 or more to 1. Eleven scales
    # past max(start, 0) the mass has fallen by exp(-60), against at most sigma^2 < 2.5e7 from the factor.
    stop = max(start, 0) + math.ceil(11.0 * sigma) + 2
    # Far below zero, if the sum goes there, masses are negligible against those at zero, with a factor of 1.
    first = max(start, -math.ceil(11.0 * sigma) - 2)
    k = np.arange(first, stop + 1, dtype=np.float64)
    excess = (shift * shift + 2.0 * k * shift) / (2.0 * sigma * sigma) - epsilon
    with np.errstate(divide="ignore"):  # log(0) = -inf where the loss equals epsilon to rounding
        terms = -0.5 * (k / sigma) ** 2 + np.log(-np.expm1(-np.maximum(excess, 0.0)))
    largest = float(terms.max())
    return largest + math.log(math.fsum(np.exp(terms - largest))) if largest > -math.inf else -math.inf


def _log_tail(start: int, epsilon: float, sigma: float, shift: int) -> float:
    """Sum the same terms for a large scale: Euler and Maclaurin up to the third derivative.

    With ``g(k)`` the term at k, the sum is ``int_start^inf g + g/2 - g'/12 + g'''/720 - ...`` at `start`. A
    derivative costs a factor of at most 40/sigma wherever g is not below 1e-300 of its maximum, so that the
    first omitted term, g^(5)/30240, is below (40/5000)**6 / 30240 = 1e-17 of the integral.
    """
    x, y = start / sigma, (start + shift) / sigma
    excess = (shift * shift + 2.0 * start * shift) / (2.0 * sigma * sigma) - epsilon
    ratio = math.exp(-excess)  # exp(epsilon) phi(y) = ratio * phi(x)
    # In units of phi(x): derivatives of phi are Hermite polynomials, one power of 1/sigma each.
    value = -math.expm1(-excess)
    first = -(x - ratio * y)
    third = -((x**3 - 3.0 * x) - ratio * (y**3 - 3.0 * y))
    boundary = 0.5 * value - first / (12.0 * sigma) + third / (720.0 * sigma**3)
    log_unit = 0.5 * math.log(2.0 * math.pi)
    if x < -5.0:
        # The sum is nearly the normaliser (and Mills' ratio would overflow): subtract what is missing.
        density = math.exp(log_normal_density(x))
        missing = density * (mills(-x) + ratio * mills(y) - boundary / sigma)
        return log_unit + math.log(sigma) + math.log1p(-missing)
    integral = mills_difference(x, y - x) + value * mills(y)
    return log_unit + log_normal_density(x) + math.log(sigma * integral + boundary)

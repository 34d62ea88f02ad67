"""Gaussian noise: zCDP and its conversion, the exact (epsilon, delta) of the continuous and of the discrete Gaussian, and mu.

A mechanism is rho-zCDP when every Renyi divergence between its outputs on two neighbouring tables is bounded,
``D_alpha <= rho * alpha`` for all ``alpha > 1`` (Bun and Steinke, 2016). The conversion minimises the bound of Canonne, Kamath and
Steinke (2020, Proposition 12) over alpha; ``epsilon = rho + 2 sqrt(rho log(1/delta))``, which agencies and papers print, is never
smaller.

Balle and Wang (2018, Theorem 8): Gaussian noise of scale sigma on a statistic of l2 sensitivity ``D`` satisfies (epsilon, delta)
if and only if, with ``mu = D / sigma``, ``delta >= Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)``. It is mu-GDP
(Dong, Roth and Su, 2022, Theorem 1). The difference is taken in log space through Mills' ratio ``R(x) = (1 - Phi(x)) / phi(x)``,
so that deltas far below 1e-16 keep their relative accuracy.

For noise with mass proportional to ``exp(-k**2 / (2 sigma**2))`` on the integers and two tables whose statistics differ by the
integer m, the loss at k is ``(m**2 + 2 k m) / (2 sigma**2)`` and (Canonne, Kamath and Steinke, 2020, Theorem 7)
``delta(epsilon) = sum over k with loss(k) > epsilon of p(k) (1 - exp(epsilon - loss(k)))``. Every term is positive, so nothing
cancels. It is not the profile of the continuous Gaussian: at sigma = 1 and epsilon = 1 it is 0.141, against 0.127.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from scipy.special import erfcx

from bayesdp import _validate
from bayesdp._docs import documented

CONVERSIONS = ("tight", "bun-steinke")
"""Names of the conversions from zCDP to (epsilon, delta)."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_SERIES_FROM = 12.0  # from here on 30 terms of the asymptotic series of Mills' ratio are exact to double precision
_SUMMED_BELOW = 5000.0  # scale: discrete Gaussian tails term by term below, else by Euler and Maclaurin
_FLOOR = -1e4  # of log delta, so that the root finder never sees an infinity
_RTOL = 4 * np.finfo(float).eps  # the smallest that brentq accepts

_documented = documented(
    {
        "Parameters": """
sigma : float
    Scale of the noise: its standard deviation, or the parameter of the discrete Gaussian, which is in counts.
sensitivity : float, default 1
    Largest l2 distance between the statistics of two neighbouring tables, in the unit of sigma.
shift : int, default 1
    Difference between the counts of two neighbouring tables.
rho : float
    Parameter of zCDP, zero or greater.
mu : float
    Parameter of Gaussian differential privacy.
epsilon : float
    Zero or greater.
delta : float
    Strictly between 0 and 1.
method : {"tight", "bun-steinke"}
    The bound of Canonne, Kamath and Steinke (2020, Proposition 12), or ``rho + 2 sqrt(rho log(1/delta))``, which papers print."""
    }
)


@_documented
def gaussian_rho(sigma: float, sensitivity: float = 1.0) -> float:
    r"""Give the zCDP parameter of Gaussian noise: ``rho = sensitivity**2 / (2 sigma**2)``.

    The same number holds for the continuous Gaussian, the discrete Gaussian on the integers (Canonne,
    Kamath and Steinke, 2020, Theorem 4) and the Gaussian on any lattice, whatever its dimension: by
    Poisson summation the mass of a shifted lattice is never larger than that of the lattice itself.

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


@_documented
def gaussian_sigma_for_rho(rho: float, sensitivity: float = 1.0) -> float:
    """Give the Gaussian scale that spends exactly rho: ``sensitivity / sqrt(2 rho)``.

    Examples
    --------
    >>> gaussian_sigma_for_rho(0.125)
    2.0
    """
    loss = _validate.positive_real(rho, "rho")
    distance = _validate.positive_real(sensitivity, "sensitivity")
    return distance / math.sqrt(2.0 * loss)


@_documented
def rho_to_epsilon(rho: float, delta: float, method: str = "tight") -> float:
    """Convert rho-zCDP to the epsilon of (epsilon, delta)-differential privacy.

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
    # epsilon(alpha) = alpha rho + log(1 - 1/alpha) - log(alpha delta) / (alpha - 1) has the derivative
    # rho + log(alpha delta) / (alpha - 1)**2, which changes sign once, where h = alpha - 1 solves
    # h**2 rho + log(1 + h) = log(1/delta); either term alone bounds it from above.
    largest = math.expm1(min(-log_delta, 700.0))
    if rho > 0.0:
        largest = min(largest, math.sqrt(-log_delta / rho))

    def slope(h: float) -> float:
        return h * h * rho + math.log1p(h) + log_delta

    h = largest if slope(largest) <= 0.0 else float(scipy.optimize.brentq(slope, 0.0, largest, xtol=1e-300, rtol=_RTOL))
    epsilon = (1.0 + h) * rho - math.log1p(1.0 / h) - (log_delta + math.log1p(h)) / h
    return max(0.0, epsilon)


@_documented
def rho_to_delta(rho: float, epsilon: float) -> float:
    """Convert rho-zCDP to the delta of (epsilon, delta)-differential privacy; 1 says that the bound is empty.

    Examples
    --------
    >>> print(f"{rho_to_delta(0.5, 1.0):.4f}")
    0.2468
    """
    rho = _validate.nonnegative_real(rho, "rho")
    return math.exp(_zcdp_log_delta(rho, _validate.nonnegative_real(epsilon, "epsilon")))


@_documented
def rho_within(epsilon: float, delta: float) -> float:
    """Give the largest rho whose conversion stays within (epsilon, delta).

    Examples
    --------
    >>> rho = rho_within(1.0, 1e-6)
    >>> print(f"{rho:.6f} {rho_to_epsilon(rho, 1e-6):.6f}")
    0.024356 1.000000
    """
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    log_delta = math.log(_validate.probability(delta, "delta"))
    low = high = 1.0
    while _zcdp_log_delta(low, epsilon) > log_delta:
        low *= 0.25
    while _zcdp_log_delta(high, epsilon) <= log_delta:
        high *= 4.0
    while high / low > 1.0 + 1e-14:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _zcdp_log_delta(middle, epsilon) <= log_delta else (low, middle)
    return low


def _zcdp_log_delta(rho: float, epsilon: float) -> float:
    """Logarithm of the delta at epsilon of a rho-zCDP mechanism, at most 0 (Canonne, Kamath and Steinke, 2020, Proposition 12)."""
    if rho == 0.0:
        return -math.inf  # equal laws: delta = 0 (the limit alpha -> infinity)
    if rho - epsilon > 700.0:
        return 0.0  # the best alpha is nearer to 1 than floats can say, and delta is 1 to 300 digits

    # With h = alpha - 1, log delta = h ((1 + h) rho - epsilon) - h log(1 + 1/h) - log(1 + h), convex in h, with this derivative.
    def slope(log_h: float) -> float:
        h = math.exp(log_h)
        return (2.0 * h + 1.0) * rho - epsilon - math.log1p(1.0 / h)

    low, high = -1.0, 1.0
    while slope(low) > 0.0:
        low -= 2.0 - 0.5 * low
    while slope(high) < 0.0:
        high += 2.0
    h = math.exp(float(scipy.optimize.brentq(slope, low, high, xtol=1e-15, rtol=_RTOL)))
    value = h * ((1.0 + h) * rho - epsilon) - h * math.log1p(1.0 / h) - math.log1p(h)
    return min(0.0, value)


def log_normal_density(x: float) -> float:
    """Logarithm of the standard normal density."""
    return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def mills(x: float) -> float:
    """Mills' ratio; overflows below about -37."""
    return math.sqrt(0.5 * math.pi) * float(erfcx(x / math.sqrt(2.0)))


def mills_difference(x: float, width: float) -> float:
    """``R(x) - R(x + width)``, accurate to about 1e-13 relative for ``x >= -6`` and ``width >= 0``."""
    # For a short interval the difference of two nearly equal numbers is replaced by the integral of
    # -R'(t) = 1 - t R(t) > 0, smooth on the scale of max(1, t): 24 Gauss-Legendre nodes are enough.
    if width > max(1.0, 0.5 * x):
        return mills(x) - mills(x + width)
    points = x + 0.5 * width * (1.0 + _NODES)
    return 0.5 * width * float(_WEIGHTS @ [_minus_slope(point) for point in points.tolist()])


def _minus_slope(t: float) -> float:
    if t < _SERIES_FROM:
        return 1.0 - t * mills(t)
    # 1 - t R(t) ~ 1/t^2 - 3/t^4 + 15/t^6 - ...
    total, term = 0.0, 1.0 / (t * t)
    for k in range(1, 31):
        total += term
        term *= -(2 * k + 1) / (t * t)
    return total


@_documented
def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Give the smallest delta at which Gaussian noise is (epsilon, delta)-differentially private.

    Examples
    --------
    >>> print(f"{gaussian_delta(1.0, sigma=1.0):.6f}")
    0.126937
    """
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    return math.exp(_log_delta(epsilon, gaussian_mu(sigma, sensitivity)))


@_documented
def gaussian_epsilon(delta: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Give the smallest epsilon at which Gaussian noise is (epsilon, delta)-differentially private.

    Examples
    --------
    >>> epsilon = gaussian_epsilon(1e-10, sigma=5.0)
    >>> print(f"{epsilon:.6f} {gaussian_delta(epsilon, sigma=5.0):.3e}")
    1.181601 1.000e-10
    """
    log_delta = math.log(_validate.probability(delta, "delta"))
    mu = gaussian_mu(sigma, sensitivity)
    # mu-GDP implies mu**2/2-zCDP, so Bun and Steinke's epsilon is an upper end.
    high = 0.5 * mu * mu + mu * math.sqrt(-2.0 * log_delta)
    return _smallest_epsilon(lambda epsilon: _log_delta(epsilon, mu), log_delta, high)


def _smallest_epsilon(log_delta_at: Callable[[float], float], log_delta: float, high: float) -> float:
    """Where a falling profile takes a value, between 0 and `high`."""
    if log_delta_at(0.0) <= log_delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return max(log_delta_at(epsilon), _FLOOR) - log_delta

    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-300, rtol=_RTOL))


@_documented
def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Give the smallest Gaussian scale that is (epsilon, delta)-differentially private.

    Examples
    --------
    >>> print(f"{gaussian_sigma(1.0, 1e-6):.6f}")
    4.224679
    """
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    log_delta = math.log(_validate.probability(delta, "delta"))
    distance = _validate.positive_real(sensitivity, "sensitivity")

    def excess(log_mu: float) -> float:
        return max(_log_delta(epsilon, math.exp(log_mu)), _FLOOR) - log_delta

    low, high = -1.0, 1.0
    while excess(low) > 0.0:
        low -= 2.0
    while excess(high) < 0.0:
        high += 1.0
    log_mu = float(scipy.optimize.brentq(excess, low, high, xtol=1e-15, rtol=_RTOL))
    return distance / math.exp(log_mu)


@_documented
def gaussian_mu(sigma: float, sensitivity: float = 1.0) -> float:
    """Give the parameter of Gaussian differential privacy: ``mu = sensitivity / sigma``.

    Examples
    --------
    >>> gaussian_mu(sigma=4.0, sensitivity=2.0)
    0.5
    """
    return _validate.positive_real(sensitivity, "sensitivity") / _validate.positive_real(sigma, "sigma")


@_documented
def gaussian_sigma_for_mu(mu: float, sensitivity: float = 1.0) -> float:
    """Give the Gaussian scale that is exactly mu-GDP: ``sensitivity / mu``.

    Examples
    --------
    >>> gaussian_sigma_for_mu(0.5, sensitivity=2.0)
    4.0
    """
    return _validate.positive_real(sensitivity, "sensitivity") / _validate.positive_real(mu, "mu")


def _log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of delta: ``phi(x) (R(x) - R(x + mu))`` with ``x = epsilon/mu - mu/2``.

    Because ``exp(epsilon) phi(x + mu) = phi(x)``.
    """
    x = epsilon / mu - 0.5 * mu
    if x < -5.0:
        # delta is nearly 1: subtract its small complement, Phi(x) + phi(x) R(x + mu).
        density = math.exp(log_normal_density(x))
        return math.log1p(-density * (mills(-x) + mills(x + mu)))
    difference = mills_difference(x, mu)
    return log_normal_density(x) + math.log(difference) if difference > 0.0 else -math.inf


@_documented
def lemma_3_4_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Give the scale of Lemma 3.4, ``sensitivity (1 + sqrt(1 + log(1/delta))) / epsilon``, where it is private.

    The paper states the lemma for all positive epsilon and delta, but it does not hold for all. The exact delta of that
    scale is computed by `gaussian_delta`, and the scale is refused if it exceeds the one asked for. Use `gaussian_sigma`,
    which always holds and is never larger than a scale that holds. See docs/CORRECTIONS.md.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Lemma 3.4.

    Examples
    --------
    >>> print(f"{lemma_3_4_sigma(1.0, 1e-6):.4f}")
    4.8491
    >>> lemma_3_4_sigma(2.0, 1e-10)
    Traceback (most recent call last):
        ...
    ValueError: Lemma 3.4 does not hold at epsilon=2, delta=1e-10: ...
    """
    epsilon = _validate.positive_real(epsilon, "epsilon")
    delta = _validate.probability(delta, "delta")
    distance = _validate.positive_real(sensitivity, "sensitivity")
    sigma = distance * (1.0 + math.sqrt(1.0 - math.log(delta))) / epsilon
    exact = gaussian_delta(epsilon, sigma, distance)
    if exact > delta:
        raise ValueError(
            f"Lemma 3.4 does not hold at epsilon={epsilon:g}, delta={delta:g}: noise of its scale {sigma:.6g} has the exact "
            f"delta {exact:.3g}; gaussian_sigma gives {gaussian_sigma(epsilon, delta, distance):.6g}, which holds"
        )
    return sigma


@_documented
def discrete_gaussian_delta(epsilon: float, sigma: float, shift: int = 1) -> float:
    """Give the smallest delta at which discrete Gaussian noise is (epsilon, delta)-differentially private.

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
    return math.exp(_discrete_log_delta(epsilon, sigma, shift))


@_documented
def discrete_gaussian_epsilon(delta: float, sigma: float, shift: int = 1) -> float:
    """Give the smallest epsilon at which discrete Gaussian noise is (epsilon, delta)-differentially private.

    Examples
    --------
    >>> print(f"{discrete_gaussian_epsilon(0.1413513394, sigma=1.0):.8f}")
    1.00000000
    """
    log_delta = math.log(_validate.probability(delta, "delta"))
    sigma = _validate.positive_real(sigma, "sigma")
    shift = _validate.positive_integer(shift, "shift")
    high = rho_to_epsilon(0.5 * (shift / sigma) ** 2, delta)
    return _smallest_epsilon(lambda epsilon: _discrete_log_delta(epsilon, sigma, shift), log_delta, high)


def _discrete_log_delta(epsilon: float, sigma: float, shift: int) -> float:
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

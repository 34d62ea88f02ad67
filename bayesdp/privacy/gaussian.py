"""The Gaussian mechanism, exactly: its (epsilon, delta) profile and its mu in Gaussian differential privacy.

Balle and Wang (2018, Theorem 8): Gaussian noise of scale sigma on a statistic of l2 sensitivity ``D``
satisfies (epsilon, delta) if and only if, with ``mu = D / sigma``,

``delta >= Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)``.

It is mu-GDP (Dong, Roth and Su, 2022, Theorem 1). The difference is taken in log space through Mills'
ratio, so that deltas far below 1e-16 keep their relative accuracy.

The Gaussian scale of the paper's Lemma 3.4, with the check that it lacks.

Mills' ratio of the normal law, ``R(x) = (1 - Phi(x)) / phi(x)``, and its differences.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx

from bayesdp import _validate

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_SERIES_FROM = 12.0  # from here on 30 terms of the asymptotic series are exact to double precision


def log_normal_density(x: float) -> float:
    """Logarithm of the standard normal density."""
    return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def mills(x: float) -> float:
    """Mills' ratio; overflows below about -37."""
    return math.sqrt(0.5 * math.pi) * float(erfcx(x / math.sqrt(2.0)))


def mills_difference(x: float, width: float) -> float:
    """``R(x) - R(x + width)``, accurate to about 1e-13 relative for ``x >= -6`` and ``width >= 0``.

    For a short interval the difference of two nearly equal numbers is replaced by the integral of
    ``-R'(t) = 1 - t R(t) > 0``, smooth on the scale of max(1, t): 24 Gauss-Legendre nodes are enough.

    Examples
    --------
    >>> print(f"{mills_difference(1e4, 1e-3):.6e}")
    9.999999e-12
    """
    if width > max(1.0, 0.5 * x):
        return mills(x) - mills(x + width)
    points = x + 0.5 * width * (1.0 + _NODES)
    return 0.5 * width * float(_WEIGHTS @ np.array([_minus_slope(float(point)) for point in points]))


def _minus_slope(t: float) -> float:
    if t < _SERIES_FROM:
        return 1.0 - t * mills(t)
    # 1 - t R(t) ~ 1/t^2 - 3/t^4 + 15/t^6 - ...
    total, term = 0.0, 1.0 / (t * t)
    for k in range(1, 31):
        total += term
        term *= -(2 * k + 1) / (t * t)
    return total


_RTOL = 4 * np.finfo(float).eps  # the smallest that brentq accepts


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Give the smallest delta at which Gaussian noise is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon : float
        Zero or greater.
    sigma : float
        Standard deviation of the noise.
    sensitivity : float, default 1
        Largest l2 distance between the statistics of two neighbouring tables, in the unit of sigma.

    Examples
    --------
    >>> print(f"{gaussian_delta(1.0, sigma=1.0):.6f}")
    0.126937
    """
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    return math.exp(_log_delta(epsilon, gaussian_mu(sigma, sensitivity)))


def gaussian_epsilon(delta: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Give the smallest epsilon at which Gaussian noise is (epsilon, delta)-differentially private.

    Parameters
    ----------
    delta : float
        Strictly between 0 and 1.
    sigma, sensitivity : float
        As in `gaussian_delta`.

    Examples
    --------
    >>> epsilon = gaussian_epsilon(1e-10, sigma=5.0)
    >>> print(f"{epsilon:.6f} {gaussian_delta(epsilon, sigma=5.0):.3e}")
    1.181601 1.000e-10
    """
    log_delta = math.log(_validate.probability(delta, "delta"))
    mu = gaussian_mu(sigma, sensitivity)
    if _log_delta(0.0, mu) <= log_delta:
        return 0.0
    # mu-GDP implies mu**2/2-zCDP, so Bun and Steinke's epsilon is an upper end.
    high = 0.5 * mu * mu + mu * math.sqrt(-2.0 * log_delta)
    return float(brentq(lambda value: _log_delta(value, mu) - log_delta, 0.0, high, xtol=1e-300, rtol=_RTOL))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Give the smallest Gaussian scale that is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon : float
        Zero or greater.
    delta : float
        Strictly between 0 and 1.
    sensitivity : float, default 1
        As in `gaussian_delta`.

    Examples
    --------
    >>> print(f"{gaussian_sigma(1.0, 1e-6):.6f}")
    4.224679
    """
    epsilon = _validate.nonnegative_real(epsilon, "epsilon")
    log_delta = math.log(_validate.probability(delta, "delta"))
    distance = _validate.positive_real(sensitivity, "sensitivity")

    def excess(log_mu: float) -> float:
        floor = -1e4  # so that the root finder never sees an infinity
        return max(_log_delta(epsilon, math.exp(log_mu)), floor) - log_delta

    low, high = -1.0, 1.0
    while excess(low) > 0.0:
        low -= 2.0
    while excess(high) < 0.0:
        high += 1.0
    log_mu = float(brentq(excess, low, high, xtol=1e-15, rtol=_RTOL))
    return distance / math.exp(log_mu)


def gaussian_mu(sigma: float, sensitivity: float = 1.0) -> float:
    """Give the parameter of Gaussian differential privacy: ``mu = sensitivity / sigma``.

    Parameters
    ----------
    sigma, sensitivity : float
        As in `gaussian_delta`.

    Examples
    --------
    >>> gaussian_mu(sigma=4.0, sensitivity=2.0)
    0.5
    """
    return _validate.positive_real(sensitivity, "sensitivity") / _validate.positive_real(sigma, "sigma")


def gaussian_sigma_for_mu(mu: float, sensitivity: float = 1.0) -> float:
    """Give the Gaussian scale that is exactly mu-GDP: ``sensitivity / mu``.

    Parameters
    ----------
    mu : float
        Parameter of Gaussian differential privacy.
    sensitivity : float, default 1
        As in `gaussian_delta`.

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


def lemma_3_4_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Give the scale of Lemma 3.4, ``sensitivity (1 + sqrt(1 + log(1/delta))) / epsilon``, where it is private.

    The paper states the lemma for all positive epsilon and delta, but it does not hold for all. The exact delta of that
    scale is computed by `gaussian_delta`, and the scale is refused if it exceeds the one asked for. Use `gaussian_sigma`,
    which always holds and is never larger than a scale that holds. See docs/CORRECTIONS.md.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float
        Strictly between 0 and 1.
    sensitivity : float, default 1
        Largest l2 distance between the statistics of two neighbouring tables, in counts.

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

"""Renyi differential privacy: its conversions to (epsilon, delta), and from and to zCDP.

A mechanism is (alpha, r)-RDP if ``D_alpha(M(x) || M(x')) <= r`` for neighbouring x and x' (Mironov, 2017); rho-zCDP is
(alpha, rho alpha)-RDP for all alpha > 1 (Bun and Steinke, 2016), so that there is nothing to convert at one alpha but a
factor; mu-GDP implies ``rho = mu**2 / 2``, which is `gaussian_rho`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.privacy.canonical import Floats, points

__all__ = ["renyi_to_delta", "renyi_to_epsilon", "renyi_to_rho"]

RENYI_CONVERSIONS = ("tight", "mironov")
"""Names of the conversions from RDP to (epsilon, delta)."""


def renyi_to_epsilon(alpha: npt.ArrayLike, divergence: npt.ArrayLike, delta: float, method: str = "tight") -> float:
    """Convert Renyi differential privacy, at one order or several, to the epsilon of (epsilon, delta).

    Parameters
    ----------
    alpha : float or array_like
        Orders greater than 1.
    divergence : float or array_like
        Bound on the Renyi divergence at each order, zero or greater.
    delta : float
        Strictly between 0 and 1.
    method : {"tight", "mironov"}
        ``r + log(1 - 1/alpha) - log(alpha delta) / (alpha - 1)`` (Canonne, Kamath and Steinke, 2020, Proposition 12), or
        ``r + log(1/delta) / (alpha - 1)`` (Mironov, 2017, Proposition 3), which is never smaller.

    Returns
    -------
    float
        The smallest epsilon of all orders, zero or greater.

    Raises
    ------
    TypeError, ValueError
        If an order is not above 1, a divergence negative, the shapes differ, delta is not in (0, 1), or the method is unknown.

    Examples
    --------
    >>> orders = np.linspace(1.5, 30.0, 20_000)
    >>> print(f"{renyi_to_epsilon(orders, 2.56 * orders, 1e-10):.4f}")  # the zCDP conversion, found on a grid
    17.1583
    >>> print(f"{renyi_to_epsilon(orders, 2.56 * orders, 1e-10, method='mironov'):.4f}")
    17.9153
    """
    order, bound = _curve(alpha, divergence)
    log_delta = math.log(_validate.probability(delta, "delta"))
    if _validate.choice(method, RENYI_CONVERSIONS, "method") == "mironov":
        found = bound - log_delta / (order - 1.0)
    else:
        found = bound + np.log1p(-1.0 / order) - (log_delta + np.log(order)) / (order - 1.0)
    return max(0.0, float(np.min(found)))


def renyi_to_delta(alpha: npt.ArrayLike, divergence: npt.ArrayLike, epsilon: float, method: str = "tight") -> float:
    """Convert Renyi differential privacy, at one order or several, to the delta of (epsilon, delta).

    Parameters
    ----------
    alpha, divergence, method : float or array_like, str
        As in `renyi_to_epsilon`.
    epsilon : float
        Zero or greater.

    Returns
    -------
    float
        The smallest delta of all orders, at most 1.

    Raises
    ------
    TypeError, ValueError
        As `renyi_to_epsilon`, or if epsilon is negative or not finite.

    Examples
    --------
    >>> print(f"{renyi_to_delta(4.0, 2.0, 3.0):.6f} {renyi_to_delta(4.0, 2.0, 3.0, method='mironov'):.6f}")
    0.005251 0.049787
    """
    order, bound = _curve(alpha, divergence)
    budget = _validate.nonnegative_real(epsilon, "epsilon")
    log_delta = (order - 1.0) * (bound - budget)
    if _validate.choice(method, RENYI_CONVERSIONS, "method") == "tight":
        log_delta = log_delta + (order - 1.0) * np.log1p(-1.0 / order) - np.log(order)
    return math.exp(min(0.0, float(np.min(log_delta))))


def renyi_to_rho(alpha: npt.ArrayLike, divergence: npt.ArrayLike) -> float:
    """Give the smallest rho for which a curve of Renyi divergences stays below ``rho alpha``.

    That is rho-zCDP only if the curve covers *all* orders: at the orders between and beyond those that are given, nothing has
    been looked at.

    Parameters
    ----------
    alpha, divergence : array_like
        As in `renyi_to_epsilon`.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        As `renyi_to_epsilon`.

    Examples
    --------
    >>> renyi_to_rho([2.0, 4.0], [1.0, 2.0])
    0.5
    """
    order, bound = _curve(alpha, divergence)
    return float(np.max(bound / order))


def _curve(alpha: npt.ArrayLike, divergence: npt.ArrayLike) -> tuple[Floats, Floats]:
    order, bound = points(alpha, "alpha").reshape(-1), points(divergence, "divergence").reshape(-1)
    if order.shape != bound.shape or not order.size:
        raise ValueError(
            f"alpha and divergence must list the same orders, at least one, but hold {order.size} and {bound.size}"
        )
    for values, name, bad, valid in (
        (order, "alpha", ~((order > 1.0) & np.isfinite(order)), "finite and greater than 1"),
        (bound, "divergence", ~(bound >= 0.0), "zero or greater"),
    ):
        if bad.any():
            where = int(np.flatnonzero(bad)[0])
            raise ValueError(f"{name} must be {valid}, but entry {where} is {float(values[where])!r}")
    return order, bound

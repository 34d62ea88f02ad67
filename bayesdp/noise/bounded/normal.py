"""Integrals of a normal density over an interval that keep their digits: narrow, far from the location, or both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayesdp.noise.base import Floats
from bayesdp.noise.namespace import finite, special

_ROOT = math.sqrt(2.0)
_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)
_NEGLIGIBLE = 45.0
_FAR = 40.0
"""In standard deviations: the error function of this is 1."""

_FEW = tuple(
    (0.5 * (1.0 + float(node)), 0.5 * float(weight))
    for node, weight in zip(*np.polynomial.legendre.leggauss(8), strict=True)
)
"""Places within (0, 1) and weights; exact to 1e-16 for integrands that fall by less than ``exp(-1/2)``."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def log_share(xp: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
    """Logarithm of the integral of the normal density from lower to upper, over its largest value there in units of that at mu.

    That is ``exp(-((y - mu)**2 - (near - mu)**2) / (2 scale**2)) / (scale sqrt(2 pi))``, integrated, where `near` is mu moved into
    the interval. Locations may be anywhere; one end may be infinite. `xp` is NumPy or PyTensor.
    """
    low, high = finite(xp, (lower - mu) / scale, -_FAR), finite(xp, (upper - mu) / scale, _FAR)
    erf = special(xp)
    # Around a location inside, two positive parts.
    inner = 0.5 * (erf.erf(xp.maximum(high, 0.0) / _ROOT) + erf.erf(-xp.minimum(low, 0.0) / _ROOT))
    # Around one that is d outside, ratios of Mills where the density falls a lot, else quadrature: neither cancels.
    d = xp.maximum(xp.maximum(low, -high), 0.0)
    endless = xp.isinf((upper - lower) / scale)
    width = finite(xp, (upper - lower) / scale, 1.0)
    flat = xp.where(endless, 1.0, width * (d + 0.5 * width)) < 0.5
    w = xp.where(flat, 1.0, width)
    rest = xp.where(endless, 0.0, xp.exp(-w * (d + 0.5 * w)) * erf.erfcx((d + w) / _ROOT))
    steep = 0.5 * (erf.erfcx(d / _ROOT) - rest)
    short, slope = xp.where(flat, width, 0.1), xp.where(flat, d, 0.0)
    even = sum(weight * xp.exp(-place * short * (slope + 0.5 * place * short)) for place, weight in _FEW)
    outer = xp.where(flat, xp.log(short * even) - _LOG_ROOT, xp.log(steep))
    return xp.where(d > 0.0, outer, xp.log(inner))


def log_excess(y: Any, near: Any, mu: Any, scale: Any) -> Any:
    """How much larger the log-density at `near` is than at y, of a normal law around mu, as a product."""
    return 0.5 * ((y - near) / scale) * ((y + near - 2.0 * mu) / scale)


def half_moments(x: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
    """Integrals of ``t**i exp(-t**2 / 2 - d t)`` from 0 to x, i = 0, 1, 2, for x up to infinity and d of at least 0."""
    end = np.minimum(x, 2.0 * _NEGLIGIBLE / (d + np.sqrt(d**2 + 2.0 * _NEGLIGIBLE)))[..., None]
    t = 0.5 * end * (1.0 + _NODES)
    mass = 0.5 * end * _WEIGHTS * np.exp(-t * (d[..., None] + 0.5 * t))
    return np.sum(mass, axis=-1), np.sum(mass * t, axis=-1), np.sum(mass * t**2, axis=-1)

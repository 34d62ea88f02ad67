"""Compiled samplers of laws on an interval, for `bayesdp.noise` and the PyMC distributions; integrals and sums over it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayesdp._numba import nb as numba


@numba.njit(cache=True)
def truncated_laplace(rng, mu, b, lower, upper):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw from the Laplace law given the bounds: a side, then an exponential given that it stays within."""
    # Outside the bounds the law is that around the nearer bound, because exponentials have no memory.
    mu = min(max(mu, lower), upper)
    below, above = -math.expm1((lower - mu) / b), -math.expm1((mu - upper) / b)
    if rng.random() * (below + above) < above:
        return min(max(mu - b * math.log1p(-rng.random() * above), lower), upper)
    return min(max(mu + b * math.log1p(-rng.random() * below), lower), upper)


@numba.njit(cache=True)
def boundary_inflated_laplace(rng, mu, b, lower, upper):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Draw from the Laplace law and move what is outside to the nearer bound."""
    distance = b * rng.standard_exponential()
    value = mu + distance if rng.random() < 0.5 else mu - distance
    return min(max(value, lower), upper)


def clipped(sampler: Any, kind: Any = np.float64) -> Any:
    """From a compiled function that draws one value to one that moves what is outside to the nearer bound."""

    @numba.njit
    def draw(rng, mu, scale, lower, upper):  # type: ignore[no-untyped-def]  # compiled for what it meets
        return kind(min(max(float(sampler(rng, mu, scale)), lower), upper))

    return draw


@numba.njit(cache=True)
def truncated_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # as above
    """Draw from the Gaussian law given the bounds, by rejection that accepts at least one proposal in eight or so."""
    far = max(lower - mu, mu - upper) / sigma
    width = (upper - lower) / sigma
    if far > 1.0:  # the law falls almost exponentially from the nearer bound
        start = lower if mu < lower else upper
        sign = 1.0 if mu < lower else -1.0
        share = -math.expm1(-far * width)
        while True:
            t = -math.log1p(-rng.random() * share) / far
            if rng.standard_exponential() >= 0.5 * t * t:
                return min(max(start + sign * sigma * t, lower), upper)
    if width <= 2.0:
        near = min(max(mu, lower), upper)
        while True:
            y = min(lower + rng.random() * (upper - lower), upper)
            if rng.standard_exponential() >= 0.5 * ((y - near) / sigma) * ((y + near - 2.0 * mu) / sigma):
                return y
    while True:
        y = mu + sigma * rng.standard_normal()
        if lower <= y <= upper:
            return y


@numba.njit(cache=True)
def _truncated_geometric(rng, rate, width):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw from 0 .. width with mass proportional to ``exp(-rate j)``."""
    return min(math.floor(-math.log1p(rng.random() * math.expm1(-rate * (width + 1.0))) / rate), width)


@numba.njit(cache=True)
def truncated_discrete_laplace(rng, mu, b, lower, upper):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Draw an integer within the bounds: the nearest one, or a side and a truncated geometric number."""
    mu = min(max(mu, lower), upper)
    m = np.rint(mu)
    width_down, width_up = m - lower, upper - m
    one = -math.expm1(-1.0 / b)
    # How much farther than m its two neighbours are; later ones are 1 farther each.
    down = math.exp(-(1.0 + 2.0 * min(mu - m, 0.0)) / b) * -math.expm1(-width_down / b) / one
    up = math.exp(-(1.0 - 2.0 * max(mu - m, 0.0)) / b) * -math.expm1(-width_up / b) / one
    u = rng.random() * (1.0 + down + up)
    if u < 1.0:
        return np.int64(m)
    if u < 1.0 + down:
        return np.int64(m - 1.0 - _truncated_geometric(rng, 1.0 / b, width_down - 1.0))
    return np.int64(m + 1.0 + _truncated_geometric(rng, 1.0 / b, width_up - 1.0))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_TERMS = 20_000.0
_NEGLIGIBLE = 45.0


@numba.njit(cache=True)
def _excess(t, d, scale, laplace):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """How much smaller the log-density is t beyond a point than at it, where the location is d beyond it, on the same side."""
    if laplace:
        return (abs(t - d) - abs(d)) / scale
    return 0.5 * (t / scale) * ((t - 2.0 * d) / scale)


@numba.njit(cache=True)
def _geometric(log_q, n):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Sums over j = 1 .. n of ``j**i q**(j-1)``, i = 0, 1, 2; positive terms only, by doubling n from its leading bit."""
    if -n * log_q > 800.0:
        one = -math.expm1(log_q)
        return 1.0 / one, 1.0 / one**2, (2.0 - one) / one**3
    whole, bits = np.int64(n), 0
    while whole >> (bits + 1):
        bits += 1
    t0, t1, t2, have = 1.0, 1.0, 1.0, 1.0
    for place in range(bits - 1, -1, -1):
        factor = math.exp(have * log_q)
        t2 += factor * (t2 + 2.0 * have * t1 + have * have * t0)
        t1 += factor * (t1 + have * t0)
        t0 += factor * t0
        have *= 2.0
        if (whole >> place) & 1:
            term = math.exp(have * log_q)
            have += 1.0
            t0, t1, t2 = t0 + term, t1 + have * term, t2 + have * have * term
    return t0, t1, t2


@numba.njit(cache=True)
def _one_side(d, scale, width, laplace, integer):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Integrals over t from 0 to width of ``t**i exp(-excess)``, i = 0, 1, 2; for integers sums over t = 1 .. width, d up to 1/2.

    Sums of Laplace masses are geometric. Else up to 20,000 terms that matter are added up. Where there are more, the terms change by
    less than 0.5% from one to the next: the midpoint rule (an integral by Gauss and Legendre), with its first correction, is exact to
    1e-13.
    """
    if width <= 0.0:
        return 0.0, 0.0, 0.0
    s0, s1, s2 = 0.0, 0.0, 0.0
    if laplace and integer:
        first = math.exp((d + abs(d) - 1.0) / scale)
        s0, s1, s2 = _geometric(-1.0 / scale, width)
        return first * s0, first * s1, first * s2
    reach = _NEGLIGIBLE * scale
    if not laplace:
        root = math.hypot(d, math.sqrt(2.0 * _NEGLIGIBLE) * scale)
        reach = root + d if d > 0.0 else 2.0 * reach * (scale / (root - d))
    start, end = 0.0, min(width, reach)
    if integer:
        end = min(width, math.floor(reach) + 2.0)
        if end <= _TERMS:
            for j in range(1, int(end) + 1):
                mass = math.exp(-_excess(j, d, scale, laplace))
                s0, s1, s2 = s0 + mass, s1 + mass * j, s2 + mass * j * j
            return s0, s1, s2
        start, end = 0.5, end + 0.5
    half = 0.5 * (end - start)
    for place in range(_NODES.size):
        t = start + half * (1.0 + _NODES[place])
        mass = half * _WEIGHTS[place] * math.exp(-_excess(t, d, scale, laplace))
        s0, s1, s2 = s0 + mass, s1 + mass * t, s2 + mass * t * t
    if integer:
        for t, sign in ((start, 1.0), (end, -1.0)):
            mass = sign / 24.0 * math.exp(-_excess(t, d, scale, laplace))
            fall = (t - d) / scale / scale
            s0, s1, s2 = s0 - mass * fall, s1 + mass * (1.0 - t * fall), s2 + mass * t * (2.0 - t * fall)
    return s0, s1, s2


@numba.njit(cache=True)
def add_up(d, scale, below, above, laplace, integer, out):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Integrals, or sums over the integers, of ``t**i exp(-excess)`` over t from -below to above, i = 0, 1, 2, into ``out[i]``.

    All arrays are flat; d is how far the location is from the point that t is counted from.
    """
    for i in range(d.size):
        up0, up1, up2 = _one_side(d[i], scale[i], above[i], laplace, integer)
        down0, down1, down2 = _one_side(-d[i], scale[i], below[i], laplace, integer)
        out[0, i] = up0 + down0 + (1.0 if integer else 0.0)
        out[1, i] = up1 - down1
        out[2, i] = up2 + down2


def filler(sampler: Any) -> Any:
    """From a compiled function that draws one value to one that fills ``out``, shape (draws, cells)."""

    @numba.njit
    def fill(rng, mu, scale, lower, upper, out):  # type: ignore[no-untyped-def]  # compiled for what it meets
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = sampler(rng, mu[j], scale[j], lower[j], upper[j])

    return fill

"""Compiled samplers of laws on an interval, for `bayesdp.noise` and the PyMC distributions, and sums over its integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayesdp._numba import nb as numba
from bayesdp.noise.kernels import discrete_gaussian, discrete_laplace


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


@numba.njit(cache=True)
def boundary_inflated_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Draw from the Gaussian law and move what is outside to the nearer bound."""
    return min(max(mu + sigma * rng.standard_normal(), lower), upper)


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
def boundary_inflated_discrete_laplace(rng, mu, b, lower, upper):  # type: ignore[no-untyped-def]  # as above
    """Draw an integer and move what is outside to the nearer bound."""
    return np.int64(min(max(float(discrete_laplace(rng, mu, b)), lower), upper))


@numba.njit(cache=True)
def boundary_inflated_discrete_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # as above
    """Draw an integer and move what is outside to the nearer bound."""
    return np.int64(min(max(float(discrete_gaussian(rng, mu, sigma)), lower), upper))


@numba.njit(cache=True)
def _truncated_geometric(rng, rate, width):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Draw from 0 .. width with mass proportional to ``exp(-rate j)``."""
    return min(math.floor(-math.log1p(rng.random() * math.expm1(-rate * (width + 1.0))) / rate), width)


@numba.njit(cache=True)
def _steps(d):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """How much farther than m the integers m - 1 and m + 1 are from m + d; later ones are 1 farther each."""
    if d >= 0.0:
        return 1.0, max(1.0 - 2.0 * d, -1.0)
    return max(1.0 + 2.0 * d, -1.0), 1.0


@numba.njit(cache=True)
def truncated_discrete_laplace(rng, mu, b, lower, upper):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Draw an integer within the bounds: the nearest one, or a side and a truncated geometric number."""
    mu = min(max(mu, lower), upper)
    m = np.rint(mu)
    first_down, first_up = _steps(mu - m)
    width_down, width_up = m - lower, upper - m
    one = -math.expm1(-1.0 / b)
    down = math.exp(-first_down / b) * -math.expm1(-width_down / b) / one
    up = math.exp(-first_up / b) * -math.expm1(-width_up / b) / one
    u = rng.random() * (1.0 + down + up)
    if u < 1.0:
        return np.int64(m)
    if u < 1.0 + down:
        return np.int64(m - 1.0 - _truncated_geometric(rng, 1.0 / b, width_down - 1.0))
    return np.int64(m + 1.0 + _truncated_geometric(rng, 1.0 / b, width_up - 1.0))


@numba.njit(cache=True)
def truncated_discrete_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # as above
    """Draw an integer within the bounds, by rejection that accepts at least one proposal in ten or so."""
    far = max(lower - mu, mu - upper)
    width = upper - lower
    if far > sigma:  # the law falls almost geometrically from the nearer bound
        start = lower if mu < lower else upper
        sign = 1.0 if mu < lower else -1.0
        while True:
            j = _truncated_geometric(rng, far / sigma / sigma, width)
            if rng.standard_exponential() >= 0.5 * (j / sigma) ** 2:
                return np.int64(start + sign * j)
    if width <= 4.0 * sigma:
        m = np.rint(min(max(mu, lower), upper))
        d = mu - m
        while True:
            k = min(lower + math.floor(rng.random() * (width + 1.0)), upper)
            if rng.standard_exponential() >= 0.5 * (k - m) * (k - m - 2.0 * d) / sigma**2:
                return np.int64(k)
    while True:
        value = float(discrete_gaussian(rng, mu, sigma))
        if lower <= value <= upper:
            return np.int64(value)


@numba.njit(cache=True)
def _geometric_powers(q, log_q, n):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Sums over j = 1 .. n of ``j**i q**(j-1)``, i = 0, 1, 2; positive terms only, by doubling n from its leading bit."""
    if n <= 0.0:
        return 0.0, 0.0, 0.0
    one = -math.expm1(log_q)
    if n == math.inf or -n * log_q > 800.0:
        return 1.0 / one, 1.0 / one**2, (1.0 + q) / one**3
    t0, t1, t2 = 1.0, 1.0, 1.0
    whole = np.int64(n)
    bits = 0
    while whole >> (bits + 1):
        bits += 1
    have = 1.0
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
def laplace_sums(mu, b, lower, upper, out):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Sums over the integers k from lower to upper of ``(k - m)**i exp(-(|k - mu| - |m - mu|) / b)``, i = 0, 1, 2.

    m, the nearest integer of mu within the bounds, goes into the last column of `out`, shape (cells, 4). Arrays are flat.
    """
    for i in range(mu.size):
        m = np.rint(min(max(mu[i], lower[i]), upper[i]))
        first_down, first_up = _steps(mu[i] - m)
        q = math.exp(-1.0 / b[i])
        d0, d1, d2 = _geometric_powers(q, -1.0 / b[i], m - lower[i])
        u0, u1, u2 = _geometric_powers(q, -1.0 / b[i], upper[i] - m)
        down = math.exp(-first_down / b[i]) if d0 > 0.0 else 0.0
        up = math.exp(-first_up / b[i]) if u0 > 0.0 else 0.0
        out[i, 0] = 1.0 + down * d0 + up * u0
        out[i, 1] = up * u1 - down * d1
        out[i, 2] = up * u2 + down * d2
        out[i, 3] = m


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANELS = 40
_TERMS = 20_000.0
_NEGLIGIBLE = 45.0


@numba.njit(cache=True)
def _gaussian_powers(g, n, sigma):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """Sums over j = 1 .. n of ``j**i exp(-(j**2 + 2 j g) / (2 sigma**2))``, i = 0, 1, 2, with g >= -1/2.

    Up to 20,000 terms that matter are added up. Where there are more, the terms change by less than 0.5% from one to the
    next: the midpoint rule (an integral by Gauss and Legendre), with its first correction, is exact to 1e-13.
    """
    s0, s1, s2 = 0.0, 0.0, 0.0
    if n <= 0.0:
        return s0, s1, s2
    twice = 2.0 * sigma * sigma
    reach = 2.0 * _NEGLIGIBLE * sigma * (sigma / (g + math.sqrt(g * g + 2.0 * _NEGLIGIBLE * sigma * sigma))) + 2.0
    last = min(n, reach)
    if last <= _TERMS:
        j = 1.0
        while j <= last:
            term = math.exp(-j * (j + 2.0 * g) / twice)
            s0 += term
            s1 += j * term
            s2 += j * j * term
            j += 1.0
        return s0, s1, s2
    start, end = 0.5, last + 0.5
    half = 0.5 * (end - start) / _PANELS
    for panel in range(_PANELS):
        middle = start + (2.0 * panel + 1.0) * half
        for node in range(16):
            j = middle + half * _NODES[node]
            term = half * _WEIGHTS[node] * math.exp(-j * (j + 2.0 * g) / twice)
            s0 += term
            s1 += j * term
            s2 += j * j * term
    for j, sign in ((start, 1.0), (end, -1.0)):
        term = sign / 24.0 * math.exp(-j * (j + 2.0 * g) / twice)
        fall = 2.0 * (j + g) / twice
        s0 -= term * fall
        s1 += term * (1.0 - j * fall)
        s2 += term * (2.0 * j - j * j * fall)
    return s0, s1, s2


@numba.njit(cache=True)
def gaussian_sums(mu, sigma, lower, upper, out):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    """The same as `laplace_sums`, of ``(k - m)**i exp(-((k - mu)**2 - (m - mu)**2) / (2 sigma**2))``."""
    for i in range(mu.size):
        m = np.rint(min(max(mu[i], lower[i]), upper[i]))
        d = mu[i] - m
        d0, d1, d2 = _gaussian_powers(d, m - lower[i], sigma[i])
        u0, u1, u2 = _gaussian_powers(-d, upper[i] - m, sigma[i])
        out[i, 0] = 1.0 + d0 + u0
        out[i, 1] = u1 - d1
        out[i, 2] = u2 + d2
        out[i, 3] = m


def filler(sampler: Any) -> Any:
    """From a compiled function that draws one value to one that fills ``out``, shape (draws, cells)."""

    @numba.njit
    def fill(rng, mu, scale, lower, upper, out):  # type: ignore[no-untyped-def]  # compiled for what it meets
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = sampler(rng, mu[j], scale[j], lower[j], upper[j])

    return fill

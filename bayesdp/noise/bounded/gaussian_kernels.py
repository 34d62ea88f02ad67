"""Compiled samplers of the Gaussian laws on an interval; see `bayesdp.noise.bounded.kernels`."""

from __future__ import annotations

import math

from bayesdp._numba import nb as numba


@numba.njit(cache=True)
def boundary_inflated_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Draw from the Gaussian law and move what is outside to the nearer bound."""
    return min(max(mu + sigma * rng.standard_normal(), lower), upper)


@numba.njit(cache=True)
def truncated_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # as above
    """Draw from the Gaussian law given the bounds, by rejection that accepts at least one proposal in eight or so.

    Far outside the bounds the law falls almost exponentially from the nearer one; narrow intervals take uniform proposals;
    otherwise the law without bounds seldom leaves them on both sides.
    """
    far = max(lower - mu, mu - upper) / sigma
    width = (upper - lower) / sigma
    if far > 1.0:
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

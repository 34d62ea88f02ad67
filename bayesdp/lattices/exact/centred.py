"""Single integers with Gaussian mass around any real centre, inside numba kernels."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import uniform

type Words = npt.NDArray[np.uint64]

SMALL = 0.5
"""Below this scale six integers on each side of the centre have all but ``exp(-60)`` of the mass."""

_LARGE = 1.5
"""From this scale the mass is the same around every centre, to double precision."""

_SQRT_2PI = math.sqrt(2.0 * math.pi)


@nb.njit(cache=True, error_model="numpy")
def normal(state: Words) -> float:
    """A standard normal draw (Marsaglia's polar method)."""
    while True:
        u = 2.0 * uniform(state) - 1.0
        v = 2.0 * uniform(state) - 1.0
        square = u * u + v * v
        if 0.0 < square < 1.0:
            return u * math.sqrt(-2.0 * math.log(square) / square)


@nb.njit(cache=True, error_model="numpy")
def mass_ratio(centre: float, sigma: float, wave: float) -> float:
    """Sum of ``exp(-(k - centre)**2 / (2 sigma**2))`` over the integers, divided by that with centre 0."""
    # It is at most one, because the Fourier coefficients are positive. `wave`: `exp(-2 pi**2 sigma**2)`, the first Fourier
    # coefficient.
    if sigma >= _LARGE:
        return 1.0
    if sigma >= SMALL:
        # Poisson's formula; the next terms are below 1e-34.
        t = 2.0 * math.pi * centre
        w4, w9 = wave**4, wave**9
        numerator = 1.0 + 2.0 * (wave * math.cos(t) + w4 * math.cos(2.0 * t) + w9 * math.cos(3.0 * t))
        return numerator / (1.0 + 2.0 * (wave + w4 + w9))
    rest = centre - math.floor(centre + 0.5)
    scale = -0.5 / (sigma * sigma)
    around, zero = 0.0, 0.0
    for k in range(-6, 7):
        around += math.exp(scale * (k - rest) * (k - rest))
        zero += math.exp(scale * k * k)
    return around / zero


@nb.njit(cache=True, error_model="numpy")
def centred_gaussian(state: Words, centre: float, sigma: float) -> int:
    """An integer k with mass proportional to ``exp(-(k - centre)**2 / (2 sigma**2))``.

    Small scales: inversion. Else a real number y is drawn, with density in proportion to 1 within 1/2 of the
    centre and to the Gaussian of ``|y - centre| - 1/2`` beyond, and rounded to k: the density at y is nowhere
    below the mass at k, which is at least 1/2 closer to the centre at most. ``sigma sqrt(2 pi) / (1 + sigma
    sqrt(2 pi))`` of the proposals are accepted on average over centres: .56 at the smallest scale, .91 at 4.
    """
    scale = 0.5 / (sigma * sigma)
    if sigma < SMALL:
        nearest = math.floor(centre + 0.5)
        rest = centre - nearest
        total = 0.0
        for k in range(-6, 7):
            total += math.exp(-scale * k * (k - 2.0 * rest))
        left = uniform(state) * total
        for k in range(-6, 6):
            left -= math.exp(-scale * k * (k - 2.0 * rest))
            if left < 0.0:
                return int(nearest) + k
        return int(nearest) + 6
    flat = 1.0 / (1.0 + sigma * _SQRT_2PI)
    while True:
        u = uniform(state)
        beyond = 0.0
        if u < flat:
            y = u / flat - 0.5
        else:
            x = sigma * normal(state)
            beyond = abs(x)
            y = x + math.copysign(0.5, x)
        k = math.floor(centre + y + 0.5)
        distance = k - centre
        if uniform(state) < math.exp(-scale * (distance * distance - beyond * beyond)):
            return int(k)

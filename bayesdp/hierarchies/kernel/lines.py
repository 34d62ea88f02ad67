"""Draws of a step k along a line, from the exact law of k given the line.

Along the line the log-density is ``B k - A k^2 / 2`` from the noise and the log weights, plus the logarithm of the prior's h
of every cell
that the line changes. k = 0 is the table as it stands, and k goes from `low` to `high`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import compiled, inlined, inside
from bayesdp._random import below, uniform

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Generator = npt.NDArray[np.uint64]

_FIXED_SHARE = 15.0 / 16.0
"""How often a long line is cut at places that do not depend on where the table is."""

_TOO_LARGE = 1e290
"""Weights that add up to more are worked out again by their logarithms."""


@inlined
def _window(generator: Generator, low: int, high: int, a: float, b: float, room: int) -> tuple[int, int]:
    """The points of the line among which k is drawn.

    All of them, if there are not many more than the noise leaves likely. Otherwise a coin that does not look at the table
    decides
    between two windows. The fixed one is a function of the line alone: 4.5 standard deviations about the peak of the noise,
    up to
    an end of the line that is within 9; a table outside of it stays where it is. The other has a fixed length, and its offset
    from the table is uniform. Given the window, k has the law of the line cut to it. With the first, all tables of the line
    have the
    same window or stay; with the second, a window is as likely to be drawn from each of its points. Both leave the law of
    the line
    as it is, whatever the prior, and the second reaches all of it.
    """
    n = high - low + 1
    if n <= 4:
        return low, high
    length = room
    sd = 0.0
    if a > 0.0:
        sd = 1.0 / math.sqrt(a)
        if 8.0 * sd + 3.0 < room:
            length = int(8.0 * sd) + 3
    if n <= length + length // 2 and n <= room:
        return low, high
    if a > 0.0 and uniform(generator) < _FIXED_SHARE:
        peak = min(max(b / a, float(low)), float(high))
        near, far = 4.5 * sd + 1.0, 9.0 * sd + 1.0
        start = low if peak - far <= low else math.floor(peak - near)
        end = high if peak + far >= high else math.ceil(peak + near)
        if end - start < room:
            if start <= 0 <= end:
                return int(start), int(end)
            return 0, 0
    offset = below(generator, length)
    return max(low, -offset), min(high, length - 1 - offset)


@inlined
def _pick(sums: Floats, n: int, u: float) -> int:
    """The first of n points whose sum of weights, with those before it, is above u; the last one where rounding leaves none."""
    # Counting them all takes no guess of where to stop, and a processor guesses worse than it counts.
    found = 0
    for i in range(n - 1):
        found += sums[i] <= u
    return found


@compiled
def draw_pair(
    generator: Generator,
    weights: Floats,
    up: int,
    up_alpha: float,
    down: int,
    down_alpha: float,
    beta: float,
    low: int,
    high: int,
    a: float,
    b: float,
    end: float,
) -> int:
    """Draw k for a line that adds k to one cell, with count `up`, and takes it from another, with count `down`.

    Where one of the two cells would be 0 the weight is multiplied by `end`: the chance of this line there, in units of its
    chance elsewhere, where lines are chosen by which cells are 0.
    """
    lo, hi = _window(generator, low, high, a, b, len(weights))
    if lo >= hi:
        return 0
    # Sums of weights, in units of the weight of the first point. Windows begin at most some 12 standard deviations below the peak of
    # the noise, so that few lines need logarithms. Counts as floats, and one quotient a point: conversions and quotients are slow.
    weights[0] = total = w = 1.0
    factor, step = math.exp(b - a * (lo + 0.5)), math.exp(-a)
    x, y = float(up + lo), float(down - lo)
    for i in range(1, hi - lo + 1):
        w *= factor * (((up_alpha + beta * x) * y) / ((x + 1.0) * (down_alpha + beta * (y - 1.0))))
        factor *= step
        total += w
        weights[i] = total
        x += 1.0
        y -= 1.0
    if not total < _TOO_LARGE:
        w, total = _pair_by_logarithms(weights, up, up_alpha, down, down_alpha, beta, lo, hi, a, b)
    first = last = 0.0
    if end != 1.0:
        if lo == -up:
            first = (end - 1.0) * weights[0]
        if hi == down:
            last = (end - 1.0) * w
    u = uniform(generator) * (total + first + last)
    return lo + _pick(weights, hi - lo + 1, u - first)


@inside
def _pair_by_logarithms(
    weights: Floats,
    up: int,
    up_alpha: float,
    down: int,
    down_alpha: float,
    beta: float,
    lo: int,
    hi: int,
    a: float,
    b: float,
) -> tuple[float, float]:
    height = largest = 0.0
    weights[0] = 0.0
    for k in range(lo, hi):
        x, y = float(up + k), float(down - k)
        height += b - a * (k + 0.5)
        height += math.log(((up_alpha + beta * x) * y) / ((x + 1.0) * (down_alpha + beta * (y - 1.0))))
        weights[k + 1 - lo] = height
        largest = max(largest, height)
    return _exponentials(weights, hi - lo + 1, largest)


@compiled
def draw_square(
    generator: Generator,
    weights: Floats,
    counts: Ints,
    entries: Ints,
    alphas: Floats,
    beta: float,
    low: int,
    high: int,
    a: float,
    b: float,
) -> int:
    """Draw k for a line that adds k to the first and the last of four cells, and takes it from the two between them."""
    lo, hi = _window(generator, low, high, a, b, len(weights))
    if lo >= hi:
        return 0
    weights[0] = total = w = 1.0  # as in `draw_pair`
    factor, step = math.exp(b - a * (lo + 0.5)), math.exp(-a)
    alpha, beside, across, far = alphas[0], alphas[1], alphas[2], alphas[3]
    x, y, z, v = float(counts[0] + lo), float(counts[1] - lo), float(counts[2] - lo), float(counts[3] + lo)
    for i in range(1, hi - lo + 1):
        rise = ((alpha + beta * x) * y) * (z * (far + beta * v))
        fall = ((x + 1.0) * (beside + beta * (y - 1.0))) * ((across + beta * (z - 1.0)) * (v + 1.0))
        w *= factor * (rise / fall)
        factor *= step
        total += w
        weights[i] = total
        x += 1.0
        y -= 1.0
        z -= 1.0
        v += 1.0
    if not total < _TOO_LARGE:
        w, total = _by_logarithms(weights, counts, entries, alphas, 4, beta, lo, hi, a, b)
    return lo + _pick(weights, hi - lo + 1, uniform(generator) * total)


@inlined
def _exponentials(weights: Floats, n: int, largest: float) -> tuple[float, float]:
    """Sums of weights from their logarithms; the last weight, and the sum of all."""
    total = w = 0.0
    for i in range(n):
        w = math.exp(weights[i] - largest)
        total += w
        weights[i] = total
    return w, total


@compiled
def draw_many(
    generator: Generator,
    weights: Floats,
    counts: Ints,
    entries: Ints,
    alphas: Floats,
    n: int,
    beta: float,
    low: int,
    high: int,
    a: float,
    b: float,
) -> int:
    """Draw k for a line that adds ``entries[i] k`` to the cell with ``counts[i]``, for n cells; entries are not 0."""
    lo, hi = _window(generator, low, high, a, b, len(weights))
    if lo >= hi:
        return 0
    _, total = _by_logarithms(weights, counts, entries, alphas, n, beta, lo, hi, a, b)
    return lo + _pick(weights, hi - lo + 1, uniform(generator) * total)


@inside
def _by_logarithms(
    weights: Floats,
    counts: Ints,
    entries: Ints,
    alphas: Floats,
    n: int,
    beta: float,
    lo: int,
    hi: int,
    a: float,
    b: float,
) -> tuple[float, float]:
    height = largest = 0.0
    weights[0] = 0.0
    for k in range(lo, hi):
        height += b - a * (k + 0.5)
        for i in range(n):
            x, e = counts[i] + k * entries[i], entries[i]
            while e > 0:
                height += math.log((alphas[i] + beta * x) / (x + 1))
                x, e = x + 1, e - 1
            while e < 0:
                height += math.log(x / (alphas[i] + beta * (x - 1)))
                x, e = x - 1, e + 1
        weights[k + 1 - lo] = height
        largest = max(largest, height)
    return _exponentials(weights, hi - lo + 1, largest)

"""Draws of a step k along a line, from the exact law of k given the line.

Along the line the log-density is ``B k - A k^2 / 2`` from the noise and the log weights, plus the logarithm of the prior's h
of every cell
that the line changes. k = 0 is the table as it stands, and k goes from `low` to `high`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._random import below, uniform
from bayesdp.hierarchies.kernel.jit import compiled, inlined, inside

__all__ = ["draw_many", "draw_pair", "draw_square"]

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
def _pick(generator: Generator, weights: Floats, n: int, total: float) -> int:
    u = uniform(generator) * total
    for i in range(n):
        u -= weights[i]
        if u < 0.0:
            return i
    return n - 1  # rounding: u was as good as the total


@inlined
def _peak(low: int, high: int, a: float, b: float) -> int:
    """Where the noise is least surprising within the window; its lower end where there is no noise."""
    if a <= 0.0:
        return low
    return int(min(max(b / a, float(low)), float(high)))


@inlined
def _rise(up: int, up_alpha: float, down: int, down_alpha: float, beta: float, k: int) -> float:
    """How h of two cells grows from k to k + 1 counts moved: the factor of their product."""
    return ((up_alpha + beta * (up + k)) * (down - k)) / ((up + k + 1) * (down_alpha + beta * (down - k - 1)))


@inlined
def _fall(up: int, up_alpha: float, down: int, down_alpha: float, beta: float, k: int) -> float:
    """The same from k to k - 1."""
    return ((up + k) * (down_alpha + beta * (down - k))) / ((up_alpha + beta * (up + k - 1)) * (down - k + 1))


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
    s = _peak(lo, hi, a, b)
    weights[s - lo] = 1.0
    total = 1.0
    step = math.exp(-a)
    factor, w = math.exp(b - a * (s + 0.5)), 1.0
    for k in range(s, hi):
        w *= factor * _rise(up, up_alpha, down, down_alpha, beta, k)
        factor *= step
        weights[k + 1 - lo] = w
        total += w
    factor, w = math.exp(-b + a * (s - 0.5)), 1.0
    for k in range(s, lo, -1):
        w *= factor * _fall(up, up_alpha, down, down_alpha, beta, k)
        factor *= step
        weights[k - 1 - lo] = w
        total += w
    if not total < _TOO_LARGE:
        total = _pair_by_logarithms(weights, up, up_alpha, down, down_alpha, beta, lo, hi, a, b)
    if end != 1.0:
        if lo == -up:
            total += (end - 1.0) * weights[0]
            weights[0] *= end
        if hi == down:
            total += (end - 1.0) * weights[hi - lo]
            weights[hi - lo] *= end
    return lo + _pick(generator, weights, hi - lo + 1, total)


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
) -> float:
    height = largest = 0.0
    weights[0] = 0.0
    for k in range(lo, hi):
        height += b - a * (k + 0.5) + math.log(_rise(up, up_alpha, down, down_alpha, beta, k))
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
    s = _peak(lo, hi, a, b)
    weights[s - lo] = 1.0
    total = 1.0
    step = math.exp(-a)
    factor, w = math.exp(b - a * (s + 0.5)), 1.0
    for k in range(s, hi):
        w *= factor * _rise(counts[0], alphas[0], counts[1], alphas[1], beta, k)
        w *= _rise(counts[3], alphas[3], counts[2], alphas[2], beta, k)
        factor *= step
        weights[k + 1 - lo] = w
        total += w
    factor, w = math.exp(-b + a * (s - 0.5)), 1.0
    for k in range(s, lo, -1):
        w *= factor * _fall(counts[0], alphas[0], counts[1], alphas[1], beta, k)
        w *= _fall(counts[3], alphas[3], counts[2], alphas[2], beta, k)
        factor *= step
        weights[k - 1 - lo] = w
        total += w
    if not total < _TOO_LARGE:
        total = _by_logarithms(weights, counts, entries, alphas, 4, beta, lo, hi, a, b)
    return lo + _pick(generator, weights, hi - lo + 1, total)


@inlined
def _exponentials(weights: Floats, n: int, largest: float) -> float:
    total = 0.0
    for i in range(n):
        weights[i] = math.exp(weights[i] - largest)
        total += weights[i]
    return total


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
    total = _by_logarithms(weights, counts, entries, alphas, n, beta, lo, hi, a, b)
    return lo + _pick(generator, weights, hi - lo + 1, total)


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
) -> float:
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

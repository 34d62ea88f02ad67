"""Random integers with integer arithmetic only, for releases: no rounding anywhere between entropy and noise.

Every function takes `bits`, which gives so many random bits as one integer: `secrets.randbits`, the operating system's
entropy, unless a test hands in something that repeats. Probabilities are exact fractions, and ``exp(-p/q)`` is never
computed where a coin of that probability can be tossed without it (Canonne, Kamath and Steinke, 2020, Algorithm 1).

These are loops of random length in plain Python: how long one takes depends on the number that it gives. Nobody who is
not to know the noise must be able to time it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction

type Bits = Callable[[int], int]
"""From k >= 1 to a uniform integer in 0 .. 2**k - 1."""

system_bits: Bits = secrets.randbits
"""Entropy of the operating system."""


def exact_fraction(value: float) -> Fraction:
    """Give the fraction that a float is; nothing is rounded.

    Examples
    --------
    >>> exact_fraction(0.1)
    Fraction(3602879701896397, 36028797018963968)
    """
    return Fraction(value)


def uniform_integer(bits: Bits, n: int) -> int:
    """Draw from 0 .. n-1, uniformly: bit patterns that are too large are drawn again."""
    size = (n - 1).bit_length()
    if size == 0:
        return 0
    while True:
        value = bits(size)
        if value < n:
            return value


def bernoulli_exp(bits: Bits, rate: Fraction) -> bool:
    """Toss a coin that is true with probability ``exp(-rate)``, for any fraction ``rate >= 0``.

    Canonne, Kamath and Steinke (2020), Algorithm 1. Up to 1, ``exp(-rate)`` is the probability that the first false of
    coins with probability ``rate/1, rate/2, rate/3, ...`` comes in an odd place.

    Examples
    --------
    >>> import random
    >>> bits = random.Random(1).getrandbits
    >>> sum(bernoulli_exp(bits, Fraction(1, 2)) for _ in range(1000))  # about 607
    617
    """
    p, q = rate.numerator, rate.denominator
    while p > q:
        if not _bernoulli_exp_one(bits, 1, 1):
            return False
        p -= q
    return _bernoulli_exp_one(bits, p, q)


def _bernoulli_exp_one(bits: Bits, p: int, q: int) -> bool:
    place = 1
    while uniform_integer(bits, q * place) < p:
        place += 1
    return place % 2 == 1


def geometric_exp(bits: Bits, rate: Fraction) -> int:
    """Draw an integer g >= 0 with probability ``(1 - a) a**g``, ``a = exp(-rate)``, for any fraction ``rate > 0``.

    Canonne, Kamath and Steinke (2020), Algorithm 2, without the sign: with rate ``p/q``, a geometric number of rate
    ``1/q`` is put together from its remainder and its quotient by q, and divided by p.
    """
    p, q = rate.numerator, rate.denominator
    while True:
        rest = uniform_integer(bits, q)
        if _bernoulli_exp_one(bits, rest, q):
            break
    whole = 0
    while _bernoulli_exp_one(bits, 1, 1):
        whole += 1
    return (rest + q * whole) // p


def odds_exp(bits: Bits, rate: Fraction) -> bool:
    """Toss a coin with odds ``exp(-rate)`` to one, that is with probability ``a / (1 + a)``, ``a = exp(-rate)``.

    A fair coin proposes; false stands, true stands with probability a.
    """
    while bits(1):
        if bernoulli_exp(bits, rate):
            return True
    return False


def exp_bounds(rate: Fraction, precision: int) -> tuple[int, int]:
    """Integers that enclose ``2**precision * exp(-rate)``, by a series whose remainder and roundings are bounded.

    The enclosure is a few units wide. Only comparisons of a coin with a number that no fraction is need it; a
    comparison that it leaves open is made again with a higher precision.

    Examples
    --------
    >>> low, high = exp_bounds(Fraction(1, 2), 32)
    >>> low <= 2605029348 <= high, high - low < 8
    (True, True)
    """
    # exp(-rate) = exp(-rate / 2**halvings) ** (2**halvings), the inner exponent at most 1/2. Each squaring doubles an error.
    halvings = max(0, math.ceil(2 * rate).bit_length())
    work = precision + 2 * halvings + 16
    one = 1 << work
    down = (rate.numerator << work) // (rate.denominator << halvings)
    low, high = _series(down + 1, one, work)[0], _series(down, one, work)[1]
    for _ in range(halvings):
        low, high = (low * low) >> work, -((-high * high) >> work)
    drop = work - precision
    return max(low >> drop, 0), -((-high) >> drop)


def _series(x: int, one: int, work: int) -> tuple[int, int]:
    """Bounds on ``one * exp(-x / one)`` for ``0 <= x <= one / 2 + 1``: terms fall and alternate, so that the next bounds the rest."""
    low = high = one
    above = below = one  # the magnitude of the term, rounded up and down
    place = 0
    while above > 1:
        place += 1
        above, below = -((-above * x) // (place << work)), (below * x) // (place << work)
        low, high = (low - above, high - below) if place % 2 else (low + below, high + above)
    return low - above, high + above

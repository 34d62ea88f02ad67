"""Discrete Laplace and discrete Gaussian noise with exact fractions: Canonne, Kamath and Steinke (2020), Algorithms 2 and 3.

The algorithms are published and proved; this implementation of them is short, and nobody outside has vetted it. With the
extra ``secure`` independent noise comes from OpenDP instead, see `bayesdp.noise.secure`.
"""

from __future__ import annotations

from fractions import Fraction

from bayesdp.lattices.secure.coins import Bits, bernoulli_exp, geometric_exp


def draw_discrete_laplace(bits: Bits, scale: Fraction) -> int:
    """Draw an integer with mass proportional to ``exp(-|k| / scale)`` (Algorithm 2).

    A geometric number with a random sign; minus zero is drawn again, or zero would come twice as often.

    Parameters
    ----------
    bits : callable
        Random bits, see `bayesdp.lattices.secure.coins`.
    scale : Fraction
        Greater than 0.

    Examples
    --------
    >>> import random
    >>> bits = random.Random(1).getrandbits
    >>> [draw_discrete_laplace(bits, Fraction(7, 2)) for _ in range(8)]
    [-3, 7, 8, 4, -2, 2, -2, -1]
    """
    rate = 1 / scale
    while True:
        size = geometric_exp(bits, rate)
        if not bits(1):
            return size
        if size:
            return -size


def draw_discrete_gaussian(bits: Bits, variance: Fraction) -> int:
    """Draw an integer with mass proportional to ``exp(-k**2 / (2 variance))`` (Algorithm 3)."""
    # Rejection from the discrete Laplace law of scale `t = floor(sigma) + 1`; more than a third of the proposals is kept.
    # `variance`: sigma squared, greater than 0: sigma itself need not be a fraction.
    t = _floor_root(variance) + 1
    while True:
        k = draw_discrete_laplace(bits, Fraction(t))
        if bernoulli_exp(bits, (abs(k) - variance / t) ** 2 / (2 * variance)):
            return k


def _floor_root(value: Fraction) -> int:
    """The whole part of a square root: that of the whole part's root."""
    from math import isqrt

    return isqrt(value.numerator // value.denominator)

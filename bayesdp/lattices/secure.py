"""Random integers and lattice noise with integer arithmetic only, for releases: no rounding anywhere between entropy and noise.

Every function takes `bits`, which gives so many random bits as one integer: `secrets.randbits`, the operating system's
entropy, unless a test hands in something that repeats. Probabilities are exact fractions, and ``exp(-p/q)`` is never
computed where a coin of that probability can be tossed without it; elsewhere it is enclosed (FLINT's ball arithmetic), at a higher
precision wherever the bounds leave a comparison open. Discrete Laplace and discrete Gaussian noise: Canonne,
Kamath and Steinke (2020), Algorithms 1 to 3.

These are loops of random length in plain Python: how long one takes depends on the number that it gives. Nobody who is
not to know the noise must be able to time it. The algorithms are published and proved; this implementation of them is short,
and nobody outside has vetted it. With the extra ``secure`` independent noise comes from OpenDP instead, see `bayesdp.noise.secure`.

For noise on a lattice, that must fall into parts of two kinds (`bayesdp.lattices.parts`): the multiples of one vector, and m
integers that sum to zero. That covers free cells, disjoint totals, and 2 x c tables with both margins.

line
    discrete Laplace or discrete Gaussian multiples.
zero sum, l1
    the difference of two uniform compositions of a common mass K + N (see `bayesdp.lattices.fixed_sum`). K has probability
    proportional to ``(C(n, k) a**k)**2``, ``n = m - 1``, ``a = exp(-rate)``, and is drawn by inversion; N is a sum of 2m - 1
    geometric numbers.
zero sum, Gaussian
    n independent discrete Gaussian numbers; the last is minus their sum S, and the whole is kept with probability
    ``exp(-S**2 / (2 sigma**2))``. About one try in ``sqrt(m)`` is kept.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
from flint import arb, ctx, fmpq

from bayesdp._arrays import Ints
from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import Line, Table, lattice_parts

type Bits = Callable[[int], int]
"""From k >= 1 to a uniform integer in 0 .. 2**k - 1."""

system_bits: Bits = secrets.randbits
"""Entropy of the operating system."""


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
    """Toss a coin that is true with probability ``exp(-rate)``, for any fraction ``rate >= 0`` (Algorithm 1)."""
    # Up to 1, exp(-rate) is the probability that the first false of coins with probability rate/1, rate/2, rate/3, ... comes in an
    # odd place.
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
    """Draw an integer g >= 0 with probability ``(1 - a) a**g``, ``a = exp(-rate)``, for any fraction ``rate > 0``."""
    # Algorithm 2, without the sign: with rate p/q, a geometric number of rate 1/q is put together from its remainder and its quotient
    # by q, and divided by p.
    p, q = rate.numerator, rate.denominator
    while True:
        rest = uniform_integer(bits, q)
        if _bernoulli_exp_one(bits, rest, q):
            break
    whole = 0
    while _bernoulli_exp_one(bits, 1, 1):
        whole += 1
    return (rest + q * whole) // p


def draw_discrete_laplace(bits: Bits, scale: Fraction) -> int:
    """Draw an integer with mass proportional to ``exp(-|k| / scale)`` (Algorithm 2)."""
    # A geometric number with a random sign; minus zero is drawn again, or zero would come twice as often.
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
    t = math.isqrt(variance.numerator // variance.denominator) + 1
    while True:
        k = draw_discrete_laplace(bits, Fraction(t))
        if bernoulli_exp(bits, (abs(k) - variance / t) ** 2 / (2 * variance)):
            return k


_MOST_CELLS = {"l1": 1_000_000, "gaussian": 10_000}
"""Larger blocks would take minutes: the work grows as m (l1) and m**1.5 (Gaussian), at some 30 microseconds a unit."""

_LARGEST = 2**53  # noise must stay exact when it is added to a count


def has_secure(invariants: Invariants, law: str) -> bool:
    """Whether the law, l1, l2 or gaussian, can be drawn with integer arithmetic only, in seconds."""
    return _parts(invariants, law) is not None


def _parts(invariants: Invariants, law: str) -> list[Line | Table] | None:
    """The parts of the lattice, if there is a sampler for each."""
    if law not in _MOST_CELLS:  # l2 lengths are square roots
        return None
    parts, most = lattice_parts(invariants), _MOST_CELLS[law]
    lines = [part for part in parts if isinstance(part, Line)]
    sums = [part for part in parts if isinstance(part, Table) and len(part.shape) == 1 and part.shape[0] <= most]
    return [*lines, *sums] if len(lines) + len(sums) == len(parts) else None


def draw_secure(invariants: Invariants, law: str, scale: float, size: int = 1, bits: Bits = system_bits) -> Ints:
    """Draw lattice noise of the law "l1" or "gaussian" with integer arithmetic only, shape ``(size, *table)``.

    The invariants must be such that `has_secure`; the parameters are those of `bayesdp.lattices.sample_noise`, and the scale is
    taken as the fraction that the float is.
    """
    parts = _parts(invariants, law)
    if parts is None:
        raise NotImplementedError(f"no integers-only sampler of {law} noise under {invariants!r} is known")
    exact = Fraction(float(scale))
    out = np.zeros((size, invariants.frame.size), dtype=np.int64)
    for row in out:
        for part in parts:
            for cells, values in _of_part(part, law, exact, bits):
                row[cells] = [_small(value) for value in values]
    return out.reshape(size, *invariants.frame.shape)


def _of_part(part: Line | Table, law: str, scale: Fraction, bits: Bits) -> Iterator[tuple[Ints, list[int]]]:
    """Flat cells of one part, and their noise."""
    if isinstance(part, Line):
        entries = part.entries.tolist()
        if law == "l1":
            multiple = draw_discrete_laplace(bits, 1 / (scale * sum(map(abs, entries))))
        else:
            multiple = draw_discrete_gaussian(bits, scale**2 / sum(entry * entry for entry in entries))
        yield part.cells, [multiple * entry for entry in entries]
        return
    count = part.shape[0]
    if law == "l1":
        values = zero_sum_laplace(bits, count, scale * part.copies)
    else:
        values = zero_sum_gaussian(bits, count, scale**2 / part.copies)
    for cells, signs in zip(part.cells, part.signs.tolist(), strict=True):
        yield cells, [sign * value for sign, value in zip(signs, values, strict=True)]


def _small(value: int) -> int:
    if abs(value) >= _LARGEST:
        raise OverflowError(
            "noise of 2**53 or more was drawn, and cannot be added to a count exactly; the scale is too wide"
        )
    return value


def zero_sum_laplace(bits: Bits, count: int, rate: Fraction) -> list[int]:
    """Draw integers with sum zero and mass proportional to ``exp(-rate ||z||_1)``."""
    mass = _finite_mass(bits, count - 1, rate) + sum(geometric_exp(bits, 2 * rate) for _ in range(2 * count - 1))
    first, second = _composition(bits, mass, count), _composition(bits, mass, count)
    return [a - b for a, b in zip(first, second, strict=True)]


def zero_sum_gaussian(bits: Bits, count: int, variance: Fraction) -> list[int]:
    """Draw integers with sum zero and mass proportional to ``exp(-||z||_2**2 / (2 variance))``."""
    while True:
        values = [draw_discrete_gaussian(bits, variance) for _ in range(count - 1)]
        total = sum(values)
        if bernoulli_exp(bits, Fraction(total * total) / (2 * variance)):
            return [*values, -total]


def _finite_mass(bits: Bits, n: int, rate: Fraction) -> int:
    """K, with probability proportional to ``(C(n, k) a**k)**2``: by inversion, from as many bits of a uniform number as tell K."""
    precision = 64
    uniform = bits(precision)
    while True:
        with ctx.workprec(2 * precision + n.bit_length()):
            x = (-arb(fmpq(2 * rate.numerator, rate.denominator))).exp()
            weight, sums = arb(1), [arb(1)]
            for k in range(n):
                weight *= x * (n - k) ** 2 / (k + 1) ** 2
                sums.append(sums[-1] + weight)
            low, high = (sums[-1] * arb(end) / arb(1 << precision) for end in (uniform, uniform + 1))
            # A comparison of balls, numbers with bounds on their errors, is true only where it holds for all of them.
            found = next((k for k in range(n) if high <= sums[k]), n)
            if not found or low >= sums[found - 1]:
                return found
        uniform = (uniform << precision) | bits(precision)
        precision *= 2


def _composition(bits: Bits, mass: int, count: int) -> list[int]:
    """A uniform weak composition of `mass` into `count` parts: count - 1 bars among all places (Floyd's subset)."""
    places = mass + count - 1
    bars: set[int] = set()
    for last in range(mass, places):
        place = uniform_integer(bits, last + 1)
        bars.add(last if place in bars else place)
    edges = [-1, *sorted(bars), places]
    return [right - left - 1 for left, right in pairwise(edges)]

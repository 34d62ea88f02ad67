"""Sums of independent discrete Laplace variables: their law, and the variables given their sum.

For n variables with mass ``exp(-epsilon |z|)`` the sum s has mass proportional to

    w_n(s) = exp(-epsilon |s|) sum_t C(t + |s| + n - 1, n - 1) C(t + n - 1, n - 1) x**t,   x = exp(-2 epsilon),

because z is the difference of two vectors of independent geometric variables, with sums t + |s| and t (or the
other way round), each, given its sum, a uniform weak composition. ``w_n`` is symmetric and falls from zero on.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import uniform
from bayesdp.lattices.exact.fixed_sum import compose, scratch
from bayesdp.lattices.integers import geometric

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

_NEGLIGIBLE = 1e-19
"""Terms of the series below this share of the largest one are left out: they fall faster and faster."""

_LONGEST = 1 << 16
"""Longest table of ratios."""


def sum_ratios(count: int, epsilon: float) -> Floats:
    """``w_n(s) / w_n(0)`` for s = 0, 1, ..., until it is below 1e-12 (or for 65536 values).

    Examples
    --------
    >>> sum_ratios(1, 1.0)[:3]
    array([1.        , 0.36787944, 0.13533528])
    """
    zero = log_sum_mass(count, 0, epsilon)
    # Two thirds of the slope are reached soon; for larger s the kernel evaluates the series itself.
    longest = min(_LONGEST, math.ceil(30.0 * (1.0 + math.sqrt(count)) / epsilon) + 2)
    ratios = _ratios(count, epsilon, longest)
    return np.asarray(np.exp(ratios[ratios - zero > math.log(1e-12)] - zero))


@nb.njit(cache=True, error_model="numpy")
def _ratios(count: int, epsilon: float, longest: int) -> Floats:
    out = np.full(longest, -np.inf)
    for s in range(longest):
        out[s] = log_sum_mass(count, s, epsilon)
        if out[s] < out[0] - 30.0:
            break
    return out


@nb.njit(cache=True, error_model="numpy")
def _mode(count: int, s: int, x: float) -> int:
    """Where the terms of the series for ``w_n(s)``, s >= 0, are largest."""
    # x (t + s + n)(t + n) = (t + 1 + s)(t + 1), a quadratic equation in t.
    a = 1.0 - x
    b = (s + 2.0) - x * (s + 2.0 * count)
    c = (s + 1.0) - x * count * (s + count)
    inside = b * b - 4.0 * a * c
    if inside <= 0.0:
        return 0
    return max(0, int((-b + math.sqrt(inside)) / (2.0 * a)))


@nb.njit(cache=True, error_model="numpy")
def _up(count: int, s: int, x: float, t: int) -> float:
    """The term at t + 1 divided by the one at t."""
    return x * (t + s + count) * (t + count) / ((t + 1.0 + s) * (t + 1.0))


@nb.njit(cache=True, error_model="numpy")
def _series(count: int, s: int, x: float, mode: int) -> float:
    """The sum of the terms of the series for ``w_n(s)``, s >= 0, in units of the largest one."""
    total, term, t = 1.0, 1.0, mode
    while term > _NEGLIGIBLE:
        term *= _up(count, s, x, t)
        total += term
        t += 1
    term, t = 1.0, mode
    while t > 0 and term > _NEGLIGIBLE:
        t -= 1
        term /= _up(count, s, x, t)
        total += term
    return total


@nb.njit(cache=True, error_model="numpy")
def log_sum_mass(count: int, s: int, epsilon: float) -> float:
    """``log w_n(s)``."""
    s = abs(s)
    x = math.exp(-2.0 * epsilon)
    if count == 1:
        return -epsilon * s - math.log1p(-x)
    if count == 2:
        return -epsilon * s + math.log(s + 1.0 + 2.0 * x / (1.0 - x)) - 2.0 * math.log1p(-x)
    mode = _mode(count, s, x)
    highest = (
        math.lgamma(mode + s + count) - math.lgamma(mode + s + 1.0)
        + math.lgamma(mode + count) - math.lgamma(mode + 1.0)
        - 2.0 * math.lgamma(count) - 2.0 * epsilon * mode
    )  # fmt: skip
    return highest + math.log(_series(count, s, x, mode)) - epsilon * s


@nb.njit(cache=True, error_model="numpy")
def pair_given_sum(state: Words, s: int, epsilon: float) -> int:
    """An integer a with mass proportional to ``exp(-epsilon (|a| + |s - a|))``.

    The mass is flat from 0 to s, and falls by ``exp(-2 epsilon)`` with every step beyond.
    """
    reach = abs(s)
    tail = 1.0 / math.expm1(2.0 * epsilon)
    u = uniform(state) * (reach + 1.0 + 2.0 * tail)
    if u < reach + 1.0:
        a = min(int(u), reach)
    else:
        a = 1 + geometric(state, 2.0 * epsilon)
        a = -a if u < reach + 1.0 + tail else reach + a
    return a if s >= 0 else -a


@nb.njit(cache=True, error_model="numpy")
def split_sum(state: Words, s: int, epsilon: float, cells: Ints, row: Ints, bits: Words) -> Words:
    """Add independent discrete Laplace variables, given that their sum is s, to some cells of a row.

    `bits` is scratch, see `bayesdp.lattices.exact.fixed_sum.add_fixed_sum`; what is returned replaces it.
    """
    count = len(cells)
    if count == 1:
        row[cells[0]] += s
        return bits
    if count == 2:
        a = pair_given_sum(state, s, epsilon)
        row[cells[0]] += a
        row[cells[1]] += s - a
        return bits
    sign = 1 if s >= 0 else -1
    s = abs(s)
    mass = _smaller_mass(state, count, s, epsilon)
    bits = scratch(bits, mass + s, count)
    compose(state, mass + s, cells, sign, row, bits)
    compose(state, mass, cells, -sign, row, bits)
    return bits


@nb.njit(cache=True, error_model="numpy")
def _smaller_mass(state: Words, count: int, s: int, epsilon: float) -> int:
    """The index t of a term of the series, in proportion to its size: inversion, from the largest one outwards."""
    x = math.exp(-2.0 * epsilon)
    mode = _mode(count, s, x)
    total = _series(count, s, x, mode)
    left = uniform(state) * total - 1.0
    if left < 0.0:
        return mode
    term, t = 1.0, mode
    while term > _NEGLIGIBLE:
        term *= _up(count, s, x, t)
        t += 1
        left -= term
        if left < 0.0:
            return t
    term, t = 1.0, mode
    while t > 0 and term > _NEGLIGIBLE:
        t -= 1
        term /= _up(count, s, x, t)
        left -= term
        if left < 0.0:
            return t
    return mode  # by rounding only

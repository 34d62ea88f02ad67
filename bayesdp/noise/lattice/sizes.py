r"""How many vectors of each size a lattice has: exact tails of noise, in place of bounds "for large enough t".

The vectors are counted part by part, and the parts are put together by convolution:

- multiples of one vector: two of each size;
- m integers with sum zero, in l1: with positive entries in exactly j cells there are ``C(m, j) C(s-1, j-1) C(s+m-j-1, m-j-1)``
  of size 2 s (s split among the j cells, and among the others, which may be zero);
- other small lattices, in l1: the coefficients of their rational function (`bayesdp.lattices.sums.l1_series`), for every size;
- in l2: by listing the vectors (`bayesdp.lattices.sums.short_vectors`).

All numbers are positive and multiplied by ``exp(-tilt size)``, so that nothing cancels, and nothing overflows.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import Line, Part, Table, lattice_parts
from bayesdp.lattices.sums.l1_series import L1Series, l1_series, part_matrix
from bayesdp.lattices.sums.short_vectors import squared_lengths
from bayesdp.moves.basis import integer_kernel
from bayesdp.noise.base import Floats, Ints

_SIZES = 20_000
"""Largest size counted: convolving two such lists takes half a second."""

_POINTS = 20_000_000
"""Vectors listed, at most: about half a second."""

_DIMENSIONS = 12
"""Lattices of more dimensions are not listed."""


def size_masses(invariants: Invariants, order: int, tilt: float, most: int) -> Floats | None:
    """The number of vectors of size n times ``exp(-tilt n)``, for n = 0, 1, ..., most.

    Parameters
    ----------
    invariants : Invariants
    order : {1, 2}
        1: the size is ``||z||_1``. 2: it is ``||z||_2**2``.
    tilt : float
    most : int

    Returns
    -------
    float64 array, shape (most + 1,), or None
        None where there are too many sizes or vectors.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> three = Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]}))
    >>> size_masses(three, 1, 0.0, 6).round(9).tolist(), size_masses(three, 2, 0.0, 6).round(9).tolist()
    ([1.0, 0.0, 6.0, 0.0, 12.0, 0.0, 18.0], [1.0, 0.0, 6.0, 0.0, 0.0, 0.0, 6.0])
    """
    if most > _SIZES:
        return None
    whole = np.zeros(most + 1)
    whole[0] = 1.0
    for part in lattice_parts(invariants):
        own = _part_masses(part, order, tilt, most)
        if own is None:
            return None
        whole = np.convolve(whole, own)[: most + 1]
    return whole


def _part_masses(part: Part, order: int, tilt: float, most: int) -> Floats | None:
    if isinstance(part, Line):
        length = int(np.sum(np.abs(part.entries) ** order))
        steps = np.arange(1, most + 1)
        return _scattered(length * steps**order, np.full(most, math.log(2.0)), tilt, most)
    copies = part.copies if isinstance(part, Table) else 1
    if order == 1 and isinstance(part, Table) and len(part.shape) == 1:
        half = np.arange(1, most // 2 + 1)
        return _scattered(2 * copies * half, _zero_sums(part.shape[0], half), tilt, most)
    if order == 1:
        series = l1_series(part)
        return None if series is None else _coefficients(series, copies, tilt, most)
    basis = integer_kernel(part_matrix(part))
    if len(basis) > _DIMENSIONS:
        return None
    found = squared_lengths((basis @ basis.T).astype(np.float64), 1.0, most / copies, _POINTS)
    if found is None:
        return None
    return _scattered(copies * found[0][1:], np.log(found[1][1:].astype(np.float64)), tilt, most)


def _scattered(sizes: Ints, log_counts: Floats, tilt: float, most: int) -> Floats:
    """Masses from sizes above 0 and the logarithms of their numbers; the vector zero is added."""
    masses = np.zeros(most + 1)
    masses[0] = 1.0
    seen = sizes <= most
    masses[sizes[seen]] = np.exp(log_counts[seen] - tilt * sizes[seen])
    return masses


def _zero_sums(count: int, half: Ints) -> Floats:
    """Logarithms of how many vectors of `count` integers with sum zero have positive entries that add up to `half`."""
    j = np.arange(1, count)[:, None]
    s = half[None, :].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = (
            gammaln(count + 1.0) - gammaln(j + 1.0) - gammaln(count - j + 1.0)
            + gammaln(s) - gammaln(j) - gammaln(s - j + 1.0)
            + gammaln(s + count - j) - gammaln(count - j) - gammaln(s + 1.0)
        )  # fmt: skip
    return np.asarray(logsumexp(np.where(j <= s, terms, -np.inf), axis=0))


def _coefficients(series: L1Series, copies: int, tilt: float, most: int) -> Floats:
    """Coefficients of the rational function: each term of the numerator, continued with the period."""
    masses = np.zeros(most + 1)
    for exponent, log_coefficient in zip(series.exponents.astype(int), series.log_coefficients, strict=True):
        k = np.arange(max(0, (most // copies - exponent) // series.period + 1))
        sizes = copies * (exponent + series.period * k)
        log_ways = gammaln(k + series.power) - gammaln(series.power) - gammaln(k + 1.0)
        masses[sizes] += np.exp(log_coefficient + log_ways - tilt * sizes)
    return masses


def cell_masses(part: Line | Table, entry: int, rate: float, most: int) -> Floats:
    """Masses of one cell at 0, 1, ..., most under l1 noise: of a multiple of a vector, or of one of m integers with sum zero.

    Parameters
    ----------
    part : Line or Table
        A table of one way.
    entry : int
        That of the vector in the cell, not zero; 1 for a table.
    rate : float
        Per count.
    most : int

    Returns
    -------
    float64 array, shape (most + 1,)
        Up to a factor that is the same for all.

    Notes
    -----
    The others of m integers with sum zero are m - 1 independent discrete Laplace variables, whose sum is minus the cell.
    """
    k = np.arange(most + 1)
    if isinstance(part, Line):
        step, length = abs(entry), int(np.sum(np.abs(part.entries)))
        return np.where(k % step == 0, np.exp(-rate * length * (k / step)), 0.0)
    rate *= part.copies
    one = np.exp(-rate * np.abs(np.arange(-most, most + 1)))
    one /= one.sum()
    power, others, count = one, np.ones(1), part.shape[0] - 1
    while count:  # by repeated squaring; values beyond the list are left out
        if count & 1:
            others = _middle(np.convolve(others, power), most)
        power, count = _middle(np.convolve(power, power), most), count >> 1
    return np.asarray(np.exp(-rate * k) * others[others.size // 2 :][: most + 1])


def _middle(masses: Floats, most: int) -> Floats:
    """The entries for -most, ..., most."""
    centre = masses.size // 2
    return masses[max(0, centre - most) : centre + most + 1]

"""How many vectors of each size a lattice has, and what one difference of two tables loses under lattice Gaussian noise.

Vectors are counted part by part, and the parts are put together by convolution: in l1 the coefficients of the parts' rational
functions (`bayesdp.lattices.sums`), for every size; in l2 by listing the vectors. All numbers are
positive and multiplied by ``exp(-tilt size)``, so that nothing cancels, and nothing overflows.

For lattice Gaussian noise z and a difference u of the lattice L the loss is ``(||u||**2 + 2 <z, u>) / (2 sigma**2)``: a function of
``<z, u>``. Let g be the greatest common divisor of ``<z, u>`` over L, so that ``<z, u> = g k``, and split z into its component along
u and the rest:

``P(<z, u> = g k)`` is in proportion to ``exp(-k**2 / (2 scale**2)) T_k``, ``scale = sigma ||u|| / g``,

where ``T_k`` is the Gaussian sum over a shifted copy of ``L_u = {z in L : <z, u> = 0}``. By Poisson's formula, with V the
volume of a cell of L_u, n its dimension and w its dual vectors, ``T_k V / (sigma sqrt(2 pi))**n`` is the sum of
``exp(-2 pi**2 sigma**2 ||w||**2)`` times a cosine, which for k = 0 is 1. So ``T_k <= T_0``, and ``T_k >= T_0 (1 - eta) / (1 +
eta)`` with eta the sum of the exponentials without w = 0. With b*_i the vectors of Gram and Schmidt of a basis of L_u, whose
lengths are the inverses of those of the dual basis in opposite order, ``1 + eta <= prod_i sum_j exp(-2 pi**2 sigma**2 j**2 /
||b*_i||**2)`` (`bayesdp.lattices.sums` has the argument and the bound on the one-dimensional sums).

In steps of g, u is a shift by ``||u||**2 / g``, and scale and shift give the same loss. Hence the exact (epsilon, delta) profile at u
is that of the one-dimensional discrete Gaussian of this scale at that shift, up to a factor between ``spread = (1 - eta) / (1 +
eta)`` and ``1 / spread``, which is 1 to many digits from about the length of a basis vector on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

import numpy as np
from scipy.special import gammaln

from bayesdp._arrays import Floats, Ints
from bayesdp.fibers.moves.basis import integer_kernel
from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import General, Line, Part, Table, lattice_parts
from bayesdp.lattices.sums import L1Series, l1_series, log_gaussian_bound, part_matrix, squared_lengths
from bayesdp.privacy import Difference, PairLoss, discrete_gaussian_epsilon, gaussian_pairs, rho_to_epsilon
from bayesdp.privacy.losses import ZCDP, ApproximateDP, all_of

_SIZES = 20_000  # largest size counted: convolving two such lists takes half a second
_POINTS = 20_000_000  # vectors listed, at most: about half a second
_MOST_BASIS_VECTORS = 12  # lattices of more dimensions are not listed


def size_masses(invariants: Invariants, order: int, tilt: float, most: int) -> Floats | None:
    """The number of vectors of size n times ``exp(-tilt n)``, for n = 0, 1, ..., most; None for too many sizes or vectors.

    The size is ``||z||_1`` (`order` 1) or ``||z||_2**2`` (2).
    """
    if most > _SIZES:
        return None
    whole = np.zeros(most + 1)
    whole[0] = 1.0
    for part in lattice_parts(invariants):
        masses = _part_masses(part, order, tilt, most)
        if masses is None:
            return None
        whole = np.convolve(whole, masses)[: most + 1]
    return whole


def _part_masses(part: Part, order: int, tilt: float, most: int) -> Floats | None:
    copies = part.copies if isinstance(part, Table) else 1
    if order == 1:
        series = l1_series(part)
        return None if series is None else _coefficients(series, copies, tilt, most)
    masses = np.zeros(most + 1)
    masses[0] = 1.0
    if isinstance(part, Line):
        squares = int(np.sum(part.entries**2)) * np.arange(1, math.isqrt(most) + 1) ** 2
        logs = np.full(squares.size, math.log(2.0))
    else:
        basis = integer_kernel(part_matrix(part))
        if len(basis) > _MOST_BASIS_VECTORS:
            return None
        found = squared_lengths((basis @ basis.T).astype(np.float64), 1.0, most / copies, _POINTS)
        if found is None:
            return None
        squares, logs = copies * found[0][1:], np.log(found[1][1:].astype(np.float64))
    seen = squares <= most
    masses[squares[seen]] = np.exp(logs[seen] - tilt * squares[seen])
    return masses


def _coefficients(series: L1Series, copies: int, tilt: float, most: int) -> Floats:
    """Coefficients of the rational function: each term of the numerator, continued with the period."""
    masses = np.zeros(most + 1)
    for exponent, log_coefficient in zip(series.exponents.astype(int), series.log_coefficients, strict=True):
        k = np.arange(max(0, (most // copies - exponent) // series.period + 1))
        sizes = copies * (exponent + series.period * k)
        log_ways = gammaln(k + series.power) - gammaln(series.power) - gammaln(k + 1.0)
        masses[sizes] += np.exp(log_coefficient + log_ways - tilt * sizes)
    return masses


_DIMENSIONS = 300  # of larger tables a corner is enough
_CORNER = 5  # labels of each way of that corner, the last of which the difference must leave as it is


@dataclass(frozen=True)
class LatticeProfile:
    """The profile of lattice Gaussian noise at one difference."""

    scale: float  # of the one-dimensional discrete Gaussian
    shift: int  # by how many steps the difference moves it
    spread: float  # every delta is its delta up to a factor between `spread` and ``1 / spread``

    def epsilon(self, delta: float) -> float:
        """An upper bound of the smallest epsilon at which the two tables are (epsilon, delta)-indistinguishable."""
        known = rho_to_epsilon(0.5 * (self.shift / self.scale) ** 2, delta)
        if not self.spread:
            return known
        return min(discrete_gaussian_epsilon(delta * self.spread, self.scale, self.shift), known)


def lattice_profiles(invariants: Invariants, difference: Difference, sigma: float) -> tuple[LatticeProfile, ...] | None:
    """The profiles of all differences of a kind, one for each part of the lattice that has such differences.

    None where the kind is not known to be the same difference everywhere up to the symmetry of the lattice: in parts that
    are no tables, for entries other than 0, 1 and -1, and for differences that may reach into several parts.
    """
    # In a table of one way, all vectors with the same number of entries 1 and -1 are alike up to the order of labels. With two
    # ways and both sums zero, those with 4 entries are 2x2 moves, and those with 6 are 3-cycles; with three ways and all sums over
    # one way zero, those with 8 entries are 2x2x2 moves.
    entries = round(difference.l1)
    if difference.l1 != entries or not math.isclose(difference.l2**2, entries) or difference.found:
        return None
    kinds: dict[tuple[object, ...], Line | Table] = {}
    for part in lattice_parts(invariants):
        if isinstance(part, General) or 2 * _fewest(part) <= entries:
            return None
        kinds[_key(part)] = part
    found = []
    for part in kinds.values():
        if entries < _fewest(part) or entries % (part.copies if isinstance(part, Table) else 1):
            continue  # it has no such vector
        if isinstance(part, Line):
            if np.all(np.abs(part.entries) == 1) and part.entries.size == entries:
                found.append(LatticeProfile(sigma / float(np.linalg.norm(part.entries.astype(np.float64))), 1, 1.0))
            continue
        table = _vector(part.shape, entries // part.copies)
        profile = None if table is None else _profile(table, sigma / math.sqrt(part.copies))
        if profile is None:
            return None
        found.append(profile)
    return tuple(found)


def _profile(vector: Ints, sigma: float) -> LatticeProfile | None:
    """The profile at a difference in the lattice of the tables of its shape, all of whose sums over one way are zero."""
    shape = vector.shape
    if math.prod(size - 1 for size in shape) > _DIMENSIONS:
        # Basis vectors are differences of neighbouring labels: only those near the labels of the difference meet it.
        vector = vector[tuple(slice(_CORNER) for _ in shape)]
        if any(np.any(np.take(vector, -1, axis=way)) for way in range(len(shape))):
            return None
    steps = [
        np.eye(size - 1, size, dtype=np.int64) - np.eye(size - 1, size, 1, dtype=np.int64) for size in vector.shape
    ]
    basis = np.asarray(reduce(np.kron, steps))
    others = math.prod(size - 1 for size in shape) - len(basis)
    inner = basis @ vector.ravel()
    step = int(np.gcd.reduce(inner))
    reached = np.flatnonzero(inner)
    turned = integer_kernel(inner[None, reached] // step) @ basis[reached]
    left = np.concatenate([np.delete(basis, reached, axis=0), turned]).astype(np.float64)
    # The lengths of Gram and Schmidt, and for the basis vectors outside of the corner their own lengths, which are no smaller.
    lengths = np.abs(np.diag(np.linalg.qr(left.T, mode="r"))) if not others else np.linalg.norm(left, axis=1)
    log_sum = float(_log_excess(sigma, lengths).sum())
    log_sum += others * float(_log_excess(sigma, np.array([math.sqrt(2.0) ** len(shape)]))[0])
    eta = math.expm1(log_sum) if log_sum < 1.0 else 1.0
    square = int(np.sum(vector**2))
    return LatticeProfile(sigma * math.sqrt(square) / step, square // step, max(0.0, 1.0 - eta) / (1.0 + eta))


def _log_excess(sigma: float, lengths: Floats) -> Floats:
    """Logarithm of a bound on ``sum_j exp(-2 pi**2 sigma**2 j**2 / length**2)``."""
    return log_gaussian_bound(2.0 * (math.pi * sigma / lengths) ** 2)


def lattice_pairs(
    invariants: Invariants, sigma: float, differences: tuple[Difference, ...], delta: float | None
) -> tuple[PairLoss, ...]:
    """Rows of a guarantee as `bayesdp.privacy.gaussian_pairs` makes them, with the smaller epsilon where the profile is known."""
    rows = gaussian_pairs(sigma, differences, delta=delta)
    if delta is None:
        return rows
    found = []
    for row, difference in zip(rows, differences, strict=True):
        profiles = lattice_profiles(invariants, difference, sigma)
        if profiles:
            exact = max(profile.epsilon(delta) for profile in profiles)
            row = replace(row, loss=all_of([ZCDP(row.loss["rho"]), ApproximateDP(exact, delta)]))
        found.append(row)
    return tuple(found)


def _key(part: Line | Table) -> tuple[object, ...]:
    """Parts with the same key are one lattice up to the names of their cells."""
    if isinstance(part, Line):
        return ("line", *np.sort(np.abs(part.entries)).tolist())
    return "table", part.shape, part.copies


def _fewest(part: Line | Table) -> int:
    """The least number of cells that a vector of the part changes."""
    return part.entries.size if isinstance(part, Line) else part.copies * 2 ** len(part.shape)


def _vector(shape: tuple[int, ...], entries: int) -> Ints | None:
    """The only table up to symmetry with so many entries 1 and -1, others 0, and sums of zero; None where it is not known."""
    table = np.zeros(shape, dtype=np.int64)
    if len(shape) == 1 and entries % 2 == 0 and entries <= shape[0]:
        table[: entries // 2], table[entries // 2 : entries] = 1, -1
        return table
    if entries == 2 ** len(shape):
        for corner in product((0, 1), repeat=len(shape)):
            table[corner] = (-1) ** sum(corner)
        return table
    if len(shape) == 2 and entries == 6:  # ways have three labels or more
        for i in range(3):
            table[i, i], table[i, (i + 1) % 3] = 1, -1
        return table
    return None

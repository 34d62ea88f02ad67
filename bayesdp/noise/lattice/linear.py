"""How many vectors of each size a lattice has: exact tails of noise, in place of bounds "for large enough t".

The vectors are counted part by part, and the parts are put together by convolution:

- multiples of one vector: two of each size;
- m integers with sum zero, in l1: with positive entries in exactly j cells there are ``C(m, j) C(s-1, j-1) C(s+m-j-1, m-j-1)``
  of size 2 s (s split among the j cells, and among the others, which may be zero);
- other small lattices, in l1: the coefficients of their rational function (`bayesdp.lattices.l1_series`), for every size;
- in l2: by listing the vectors (`bayesdp.lattices.sums`).

All numbers are positive and multiplied by ``exp(-tilt size)``, so that nothing cancels, and nothing overflows.

The law of a whole-number combination ``<z, v>`` of lattice Gaussian noise: a cell, or what a difference of tables reveals.

Let g be the greatest common divisor of ``<z, v>`` over the lattice L, so that ``<z, v> = g k``, and split z into its
component along the projection of v onto the span of L, of length ``l``, and the rest:

``P(<z, v> = g k)`` is in proportion to ``exp(-k**2 / (2 scale**2)) T_k``, ``scale = sigma l / g``,

where ``T_k`` is the Gaussian sum over a shifted copy of ``L_v = {z in L : <z, v> = 0}``. By Poisson's formula, with V the
volume of a cell of L_v, n its dimension and w its dual vectors, ``T_k V / (sigma sqrt(2 pi))**n`` is the sum of
``exp(-2 pi**2 sigma**2 ||w||**2)`` times a cosine, which for k = 0 is 1. So ``T_k <= T_0``, and ``T_k >= T_0 (1 - eta) / (1 +
eta)`` with eta the sum of the exponentials without w = 0. With b*_i the vectors of Gram and Schmidt of a basis of L_v, whose
lengths are the inverses of those of the dual basis in opposite order, ``1 + eta <= prod_i sum_j exp(-2 pi**2 sigma**2 j**2 /
||b*_i||**2)`` (`bayesdp.lattices.sums` has the argument and the bound on the one-dimensional sums).

Hence every probability of the combination is that of a discrete Gaussian of this scale up to a factor between
``spread = (1 - eta) / (1 + eta)`` and ``1 / spread``, which is 1 to many digits from about the length of a basis vector on.

Hence the exact (epsilon, delta) profile at a difference of two tables, with bounds on both sides. For noise z and a difference u
of the lattice the loss is ``(||u||**2 + 2 <z, u>) / (2 sigma**2)``: a function of ``<z, u>``, whose law is that of a discrete
Gaussian in steps of g. In these steps u is a shift by ``||u||**2 / g``, and scale and shift give the same loss. So delta is that
of the one-dimensional discrete Gaussian of scale ``sigma ||u|| / g`` at that shift, up to the factor between `spread` and
``1 / spread``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from bayesdp.invariants import Invariants
from bayesdp.lattices.l1_series import L1Series, l1_series, part_matrix
from bayesdp.lattices.parts import General, Line, Part, Table, lattice_parts
from bayesdp.lattices.sums import log_gaussian_bound, squared_lengths
from bayesdp.moves.basis import integer_kernel
from bayesdp.noise import theta
from bayesdp.noise.base import Floats, Ints
from bayesdp.privacy import (
    Difference,
    PairLoss,
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    gaussian_pairs,
    rho_to_delta,
    rho_to_epsilon,
)
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
    if len(basis) > _MOST_BASIS_VECTORS:
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
    """Masses of one cell at 0, 1, ..., most under l1 noise, up to a factor: in a line or a table of one way.

    The cell has this entry, other than zero, in the vector of the line; 1 for a table.
    """
    k = np.arange(most + 1)
    if isinstance(part, Line):
        step, length = abs(entry), int(np.sum(np.abs(part.entries)))
        return np.where(k % step == 0, np.exp(-rate * length * (k / step)), 0.0)
    rate *= part.copies
    # The others are m - 1 independent discrete Laplace variables, whose sum is minus the cell.
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


_DIMENSIONS = 300  # larger parts that are no tables have no basis here; of tables a corner is enough
_CORNER = 5  # labels of each way of the corner of a large table in which the combination must lie


@dataclass(frozen=True)
class LinearLaw:
    """The law of ``<z, v>``, between bounds."""

    step: int  # g: the values are its multiples; 0 if the combination is always 0
    scale: float  # of k, the value in steps
    # Every probability is that of the discrete Gaussian of this scale up to a factor between `spread` and ``1 / spread``; 0 where
    # nothing is known.
    spread: float

    def tail(self, value: float) -> tuple[float, float]:
        """A lower and an upper bound of the probability that ``|<z, v>|`` is at least `value`."""
        if value <= 0.0:
            return 1.0, 1.0
        if not self.step:
            return 0.0, 0.0
        start, scale = np.array([math.ceil(value / self.step)], dtype=np.float64), np.array([self.scale])
        zero = np.zeros(1)
        log_tail = theta.log_upper_tail(start, zero, scale) - theta.log_sum(zero, scale)
        each = 2.0 * float(np.exp(log_tail[0]))
        return each * self.spread, min(1.0, each / self.spread) if self.spread else 1.0


def linear_law(invariants: Invariants, vector: npt.ArrayLike, sigma: float) -> LinearLaw | None:
    """Find the law of ``<z, v>`` for lattice Gaussian noise z of scale sigma, v of the shape of the table; None where not known."""
    flat = np.asarray(vector, dtype=np.int64).ravel()
    touched = [part for part in lattice_parts(invariants) if _reaches(part, flat)]
    if not touched:
        return LinearLaw(0, 0.0, 1.0)
    if len(touched) > 1:
        return None
    [part] = touched
    if isinstance(part, Line):
        step = abs(int(flat[part.cells] @ part.entries))
        return LinearLaw(step, sigma / float(np.linalg.norm(part.entries.astype(np.float64))), 1.0)
    found = _basis(part, flat)
    if found is None:
        return None
    basis, values, others, longest, copies = found
    scale = sigma / math.sqrt(copies)
    inner = basis @ values
    step = int(np.gcd.reduce(inner))
    if not step:
        return LinearLaw(0, 0.0, 1.0)
    reached = np.flatnonzero(inner)
    turned = integer_kernel(inner[None, reached] // step) @ basis[reached]
    left = np.concatenate([np.delete(basis, reached, axis=0), turned]).astype(np.float64)
    # The lengths of Gram and Schmidt, and for the basis vectors outside of the corner their own lengths, which are no smaller.
    lengths = np.abs(np.diag(np.linalg.qr(left.T, mode="r"))) if not others else np.linalg.norm(left, axis=1)
    log_sum = float(_log_excess(scale, lengths).sum()) + others * float(_log_excess(scale, np.array([longest]))[0])
    eta = math.expm1(log_sum) if log_sum < 1.0 else 1.0
    along = math.sqrt(_projected_square(part, basis, inner, flat))
    return LinearLaw(step, scale * along / step, max(0.0, 1.0 - eta) / (1.0 + eta))


def _reaches(part: Part, flat: Ints) -> bool:
    """Whether the combination is other than 0 for some vector of the part."""
    if isinstance(part, Line):
        return bool(flat[part.cells] @ part.entries)
    if isinstance(part, Table):
        values = (part.signs * flat[part.cells]).sum(axis=0)
        for way in range(values.ndim):
            values = np.diff(values, axis=way)  # a combination of sums over the ways has no such differences
        return bool(np.any(values))
    return bool(np.any(flat[part.cells]))


def _basis(part: Table | General, flat: Ints) -> tuple[Ints, Ints, int, float, int] | None:
    """A basis, the combination in its cells, further basis vectors that it does not meet with their length, and copies."""
    if isinstance(part, General):
        if part.cells.size > _DIMENSIONS:
            return None
        return integer_kernel(part.matrix.toarray().astype(np.int64)), flat[part.cells], 0, 1.0, 1
    values = (part.signs * flat[part.cells]).sum(axis=0)
    shape, dimension = part.shape, math.prod(size - 1 for size in part.shape)
    if dimension > _DIMENSIONS:
        # Basis vectors are differences of neighbouring labels: only those near the labels of v meet it. Labels can be
        # reordered, so that v, if it is small, lies in a corner.
        for way in range(len(shape)):
            used = np.flatnonzero(np.any(values != 0, axis=tuple(a for a in range(len(shape)) if a != way)))
            rest = np.setdiff1d(np.arange(shape[way]), used)
            values = np.take(values, np.concatenate([used, rest]), axis=way)
            if used.size >= min(shape[way], _CORNER):
                return None
            values = np.take(values, np.arange(min(shape[way], _CORNER)), axis=way)
    basis: Ints = np.ones((1, 1), dtype=np.int64)
    for size in values.shape:
        steps = np.eye(size - 1, size, dtype=np.int64) - np.eye(size - 1, size, 1, dtype=np.int64)
        basis = np.asarray(np.kron(basis, steps), dtype=np.int64)
    return basis, values.ravel(), dimension - len(basis), math.sqrt(2.0) ** len(shape), part.copies


def _projected_square(part: Table | General, basis: Ints, inner: Ints, flat: Ints) -> float:
    """Squared length of the projection of v onto the span of the lattice, in the cells of the basis."""
    if isinstance(part, Table):
        # Centring along each way is that projection; the table is larger than the corner.
        centred = (part.signs * flat[part.cells]).sum(axis=0).astype(np.float64)
        for way in range(centred.ndim):
            centred = centred - centred.mean(axis=way, keepdims=True)
        return float(np.sum(centred**2))
    gram = (basis @ basis.T).astype(np.float64)
    return float(inner @ np.linalg.solve(gram, inner.astype(np.float64)))


def _log_excess(scale: float, lengths: Floats) -> Floats:
    """Logarithm of a bound on ``sum_j exp(-2 pi**2 scale**2 j**2 / length**2)``."""
    return log_gaussian_bound(2.0 * (math.pi * scale / lengths) ** 2)


@dataclass(frozen=True)
class LatticeProfile:
    """The profile of lattice Gaussian noise at one difference."""

    scale: float  # of the one-dimensional discrete Gaussian
    shift: int  # by how many steps the difference moves it
    spread: float  # every delta is its delta up to a factor between `spread` and ``1 / spread``

    def delta(self, epsilon: float) -> tuple[float, float]:
        """A lower and an upper bound of the smallest delta at which the two tables are (epsilon, delta)-indistinguishable."""
        found = discrete_gaussian_delta(epsilon, self.scale, self.shift)
        above = min(1.0, found / self.spread) if self.spread else 1.0
        return found * self.spread, min(above, rho_to_delta(self._rho, epsilon))

    def epsilon(self, delta: float) -> tuple[float, float]:
        """A lower and an upper bound of the smallest epsilon at a delta."""
        known = rho_to_epsilon(self._rho, delta)
        if not self.spread:
            return 0.0, known
        above = discrete_gaussian_epsilon(delta * self.spread, self.scale, self.shift)
        least = delta / self.spread
        below = discrete_gaussian_epsilon(least, self.scale, self.shift) if least < 1.0 else 0.0
        return below, min(above, known)

    @property
    def _rho(self) -> float:
        """The loss in zCDP."""
        return 0.5 * (self.shift / self.scale) ** 2


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
            if np.any(np.abs(part.entries) != 1) or part.entries.size != entries:
                continue
            values = part.entries
        else:
            table = _vector(part.shape, entries // part.copies)
            if table is None:
                return None
            values = part.signs * table
        vector = np.zeros(invariants.frame.size, dtype=np.int64)
        vector[part.cells] = values
        law = linear_law(invariants, vector, sigma)
        if law is None:
            return None
        found.append(LatticeProfile(law.scale, entries // law.step, law.spread))
    return tuple(found)


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
            exact = max(profile.epsilon(delta)[1] for profile in profiles)
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

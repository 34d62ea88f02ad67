"""Gaussian and l2 noise on any lattice, by the orthogonal vectors of Gram and Schmidt, in closed form for tables.

Neighbouring differences ``b_i = e_i - e_{i+1}`` have ``b*_i = (1/(i+1)) (e_0 + ... + e_i) - e_{i+1}``, of
squared length ``(i+2) / (i+1)``, and ``b_{i+1} = b*_{i+1} - (i+1)/(i+2) b*_i``: the triangle has one diagonal
below the main one. Triangles and lengths of product bases are products, in lexicographic order, so that a table
with k ways needs fewer than 2**k numbers a cell, and never a matrix of cells by cells.

Gaussian noise: randomised nearest planes (Klein), with the rejection that makes it exact.
The coordinates in a basis are drawn from the last to the first, each a discrete Gaussian around the centre that
the later ones leave, with scale ``sigma / ||b*_i||``. The mass of what is drawn is the Gaussian mass of the
vector, divided by the sum of each one-dimensional mass around its centre; keeping it with the product of these
sums over their largest values, those at centre zero, leaves the Gaussian mass alone (Brakerski, Langlois,
Peikert, Regev and Stehle, 2013, Lemma 2.3; without the rejection: Gentry, Peikert and Vaikuntanathan, 2008, used
in Theorem 16 of Dharangutte et al.). Each factor is known before its coordinate is drawn, so a vector is given
up as soon as it can be. Orthogonal pieces of the lattice are drawn apart.

Mass ``exp(-epsilon ||z||_2)``: a vector v with density proportional to ``exp(-epsilon ||v||)`` on the space that the lattice
spans (a Gamma radius, a uniform direction) is rounded to the lattice point z of its nearest planes (Babai) and kept with
probability ``exp(-epsilon (||z|| - ||v|| + rho))``. The points that are rounded to z are a half-open box around
it, the same for every z, with no point further off than ``rho = sqrt(sum ||b*_i||**2) / 2``. Hence the
probability is at most one, and z is drawn and kept in proportion to the integral over its box of ``exp(-epsilon
||v||) exp(-epsilon (||z|| - ||v|| + rho))``, which is ``exp(-epsilon ||z||)`` times a constant.
The sum over the lattice times the volume of the box is at least the integral (by Poisson's formula: the Fourier
transform of the density is positive), so at least ``exp(-epsilon rho)`` of the proposals are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import exponential, nb, seed_state, uniform
from bayesdp.fibers.moves.basis import integer_kernel, kernel_basis
from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import General, Line, Table, lattice_parts

_REDUCED_CELLS = 250  # general parts with more cells get no LLL-reduced basis: it would take minutes
_DENSE = 1500  # other triangles with more rows are not computed: they are dense
_ZERO = 1e-13  # entries of a computed triangle below this are rounding errors of zero


@dataclass(frozen=True, eq=False)
class GramSchmidt:
    """A lattice basis ``b_i = b*_i + sum_{l < i} mu[i, l] b*_l`` with orthogonal ``b*_i``."""

    basis: sp.csr_array  # shape (n, cells)
    lengths: Floats  # Euclidean lengths of the orthogonal vectors, shape (n,)
    triangle: sp.csr_array  # ``mu`` below the diagonal, shape (n, n)
    pieces: Ints  # where sets of basis vectors start that are orthogonal to all others, shape (pieces + 1,)

    @property
    def reach(self) -> float:
        """Largest distance of a point of the space from the lattice point that nearest planes find for it."""
        return 0.5 * float(np.sqrt(np.square(self.lengths).sum()))

    def filled(self, fill: Callable[..., int], size: int, *arguments: Any) -> tuple[Ints, int]:
        """Vectors of the lattice, shape (size, cells), by a kernel that fills in their coordinates; and what it returns."""
        steps = np.zeros((size, len(self.lengths)), dtype=np.int64)
        mu = self.triangle
        tries = fill(*arguments, mu.indptr.astype(np.int64), mu.indices.astype(np.int64), mu.data, steps)
        return np.asarray((self.basis.T @ steps.T).T, dtype=np.int64), int(tries)


@lru_cache(maxsize=16)
def gram_schmidt(invariants: Invariants) -> GramSchmidt | None:
    """Orthogonalise a basis of the integer vectors that change no invariant; None if it would take too long."""
    found, bases = [], []
    for part in lattice_parts(invariants):
        piece = _of_general(part, invariants) if isinstance(part, General) else _of_simple(part)
        if piece is None:
            return None
        found.append(piece)
        bases.append(_placed(piece[0], part.cells.ravel(), invariants.frame.size))
    if not found:
        return None
    lengths = [lengths for _, lengths, _ in found]
    return GramSchmidt(
        sp.csr_array(sp.vstack(bases, format="csr")),
        np.concatenate(lengths),
        sp.csr_array(sp.block_diag([triangle for _, _, triangle in found], format="csr")),
        np.cumsum([0, *map(len, lengths)]).astype(np.int64),
    )


type _Piece = tuple[sp.csr_array, Floats, sp.csr_array]
"""Basis, lengths and triangle of one part, see `GramSchmidt`."""


def _placed(basis: sp.csr_array, cells: Ints, size: int) -> sp.csr_array:
    """Basis vectors on some cells as vectors on all of them."""
    return sp.csr_array((basis.data, cells[basis.indices], basis.indptr), shape=(basis.shape[0], size))


def _of_simple(part: Line | Table) -> _Piece:
    if isinstance(part, Line):
        length = np.sqrt(np.square(part.entries).sum(keepdims=True).astype(np.float64))
        return sp.csr_array(part.entries[None]), length, sp.csr_array((1, 1))
    ones = [np.ones(size - 1, dtype=np.int64) for size in part.shape]
    rows = [sp.diags_array([o, -o], offsets=[0, 1], shape=(o.size, o.size + 1), dtype=np.int64) for o in ones]
    one = sp.csr_array(reduce(lambda a, b: sp.kron(a, b, format="csr"), rows))
    basis = sp.csr_array(sp.hstack([one] * part.copies, format="csr"))
    basis.data *= part.signs.ravel()[basis.indices]
    shares = [np.arange(1.0, size - 1) / np.arange(2.0, size) for size in part.shape]
    lower = [sp.diags_array([np.ones(s.size + 1), -s], offsets=[0, -1], format="csr") for s in shares]
    triangle = sp.csr_array(reduce(lambda a, b: sp.kron(a, b, format="csr"), lower))
    squares = reduce(np.kron, [np.arange(2.0, size + 1) / np.arange(1.0, size) for size in part.shape])
    return basis, np.sqrt(part.copies * squares), sp.csr_array(sp.tril(triangle, -1, format="csr"))


def _of_general(part: General, invariants: Invariants) -> _Piece | None:
    basis = _general_basis(part, invariants)
    if basis is None or basis.shape[0] > _DENSE:
        return None
    lower = np.linalg.cholesky((basis @ basis.T).toarray().astype(np.float64))
    lengths = np.diag(lower).copy()
    triangle = np.tril(lower / lengths, -1)
    return basis, lengths, sp.csr_array(np.where(np.abs(triangle) > _ZERO, triangle, 0.0))


def _general_basis(part: General, invariants: Invariants) -> sp.csr_array | None:
    if part.cells.size <= _REDUCED_CELLS:
        return sp.csr_array(integer_kernel(part.matrix.toarray()))
    if invariants.nested is None or len(lattice_parts(invariants)) > 1:
        return None
    return sp.csr_array(kernel_basis(invariants)[:, part.cells])


SMALL = 0.5  # below this scale six integers on each side of the centre have all but ``exp(-60)`` of the mass
_LARGE = 1.5  # from this scale the mass is the same around every centre, to double precision

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
    """An integer k with mass proportional to ``exp(-(k - centre)**2 / (2 sigma**2))``."""
    # Small scales: inversion. Else a real number y is drawn, with density in proportion to 1 within 1/2 of the centre and to the
    # Gaussian of |y - centre| - 1/2 beyond, and rounded to k: the density at y is nowhere below the mass at k, which is at least
    # 1/2 closer to the centre at most. sigma sqrt(2 pi) / (1 + sigma sqrt(2 pi)) of the proposals are accepted on average over
    # centres: .56 at the smallest scale, .91 at 4.
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


def klein_acceptance(lattice: GramSchmidt, sigma: float) -> float:
    """A lower bound on the acceptance rate of the worst orthogonal piece of the lattice."""
    # The share is the Gaussian sum over the piece, divided by the product of the one-dimensional sums at centre zero. That sum is
    # at least the integral (Poisson), and at least one, the mass of the zero vector.
    scales = sigma / lattice.lengths
    sums = np.log([_sum_at_zero(float(s)) for s in np.unique(scales)])[np.unique(scales, return_inverse=True)[1]]
    # A single direction is never rejected: its centre is zero.
    integral = np.log(scales * math.sqrt(2.0 * math.pi))
    starts = lattice.pieces[:-1]
    bound = np.maximum(np.add.reduceat(integral, starts), 0.0) - np.add.reduceat(sums, starts)
    bound[np.diff(lattice.pieces) == 1] = 0.0
    return float(np.exp(min(bound.min(), 0.0)))


def _sum_at_zero(sigma: float) -> float:
    if sigma >= 1.0:
        j = np.arange(1, 4)
        return sigma * math.sqrt(2.0 * math.pi) * (1.0 + 2.0 * float(np.exp(-2.0 * (math.pi * sigma * j) ** 2).sum()))
    return 1.0 + 2.0 * float(np.exp(-0.5 * (np.arange(1, 10) / sigma) ** 2).sum())


def draw_klein(lattice: GramSchmidt, sigma: float, rng: np.random.Generator, size: int) -> tuple[Ints, int]:
    """Draw vectors with mass proportional to ``exp(-||z||_2**2 / (2 sigma**2))``; and how many proposals were made."""
    scales = sigma / lattice.lengths
    waves = np.exp(-2.0 * (math.pi * scales) ** 2)
    return lattice.filled(_fill_by_klein, size, seed_state(rng), scales, waves, lattice.pieces)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_by_klein(
    state: Words, scales: Floats, waves: Floats, pieces: Ints, starts: Ints, columns: Ints, mu: Floats, out: Ints
) -> int:
    centres = np.zeros(len(scales))
    tries = 0
    for row in out:
        for piece in range(len(pieces) - 1):
            low, high = pieces[piece], pieces[piece + 1]
            kept = False
            while not kept:
                tries += 1
                kept = True
                centres[low:high] = 0.0
                for i in range(high - 1, low - 1, -1):
                    ratio = mass_ratio(centres[i], scales[i], waves[i])
                    if ratio < 1.0 and uniform(state) >= ratio:
                        kept = False
                        break
                    k = centred_gaussian(state, centres[i], scales[i])
                    row[i] = k
                    if k != 0:
                        for at in range(starts[i], starts[i + 1]):
                            centres[columns[at]] -= k * mu[at]
    return tries


def nearest_plane_acceptance(lattice: GramSchmidt, epsilon: float) -> float:
    """A lower bound on the acceptance rate."""
    return math.exp(-epsilon * lattice.reach)


def draw_nearest_plane(lattice: GramSchmidt, epsilon: float, rng: np.random.Generator, size: int) -> tuple[Ints, int]:
    """Draw vectors with mass proportional to ``exp(-epsilon ||z||_2)``; and how many proposals were made."""
    return lattice.filled(_fill_by_planes, size, seed_state(rng), epsilon, lattice.reach, lattice.lengths)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_by_planes(
    state: Words, epsilon: float, reach: float, lengths: Floats, starts: Ints, columns: Ints, mu: Floats, out: Ints
) -> int:
    n = len(lengths)
    point, moved = np.zeros(n), np.zeros(n)
    tries = 0
    for row in out:
        while True:
            tries += 1
            square = 0.0
            for i in range(n):
                point[i] = normal(state)
                square += point[i] * point[i]
            radius = _gamma(state, n) / epsilon
            stretch = radius / math.sqrt(square)
            moved[:] = 0.0  # along each b*_i, how far the planes chosen so far have moved the origin
            size = 0.0
            for i in range(n - 1, -1, -1):
                k = math.floor(point[i] * stretch / lengths[i] - moved[i] + 0.5)
                row[i] = int(k)
                along = (k + moved[i]) * lengths[i]
                size += along * along
                if k != 0.0:
                    for at in range(starts[i], starts[i + 1]):
                        moved[columns[at]] += k * mu[at]
            if exponential(state) > epsilon * (math.sqrt(size) - radius + reach):
                break
    return tries


@nb.njit(cache=True, error_model="numpy")
def _gamma(state: Words, shape: int) -> float:
    """A Gamma draw of rate one and integer shape (Marsaglia and Tsang, 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log1p(-uniform(state)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v

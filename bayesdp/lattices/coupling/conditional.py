"""The law of one integer coordinate given all others, in closed form, with its mass: what exact Gibbs steps need.

Along ``z + k b`` with integer entries of b the mass of k is

* l1: ``exp(-rate sum_i |z_i + k b_i|)``, whose logarithm is linear between knots: pieces of geometric laws, summed
  in closed form; energies are exact integers;
* Gaussian: a discrete Gaussian around ``-<z, b> / ||b||**2`` with scale ``sigma / ||b||``;
* l2: ``exp(-rate sqrt(||b||**2 (k - c)**2 + rest))``, tabulated outwards from its centre c by its values until the
  rest is below ``exp(-40)`` of the largest.

`describe` fills a small array with what `draw` and `log_mass` then read, so that two laws can be compared: a
maximal coupling needs masses and not only draws.

A law of noise in the coordinates of a lattice basis: what the chains that move along basis vectors are handed.

Noise on a lattice by Gibbs steps along the vectors of a basis, in a fixed order.

Each step draws one coordinate from its exact law given the others (`bayesdp.lattices.coupling.conditional`): nothing is
proposed, rejected or tuned. The order is fixed so that two chains can be coupled (`bayesdp.lattices.coupling.coupling`);
`bayesdp.lattices.samplers` moves along more directions, in random order, and mixes a little faster, but two such
chains hardly meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp._validate import choice, nonnegative_integer, positive_integer, positive_real
from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.gram_schmidt import centred_gaussian, mass_ratio
from bayesdp.moves.basis import kernel_basis

__all__ = ["describe", "draw", "log_mass", "new_pieces"]

type Ints = npt.NDArray[np.int64]

L1, L2, GAUSSIAN = 0, 1, 2
"""The laws, as the kernels know them."""

_CODES = {"l1": L1, "l2": L2, "gaussian": GAUSSIAN}

_REACH = 2.0**29
"""Noise beyond this could overflow 64-bit sums of squares."""

_LONGEST = 1e5
"""Lattice l2 noise: integers that one step would have to tabulate, at most."""


@dataclass(frozen=True, eq=False)
class BasisLaw:
    """Noise ``z = sum_j c_j b_j`` on a lattice with basis vectors b_j, of mass that depends on a norm of z.

    Parameters
    ----------
    basis : sparse integer array, shape (n, cells)
        Linearly independent vectors of the lattice, one a row.
    law : {"l1", "l2", "gaussian"}
        Mass proportional to ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)`` or ``exp(-||z||_2**2 / (2 scale**2))``.
    scale : float

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, a basis vector is zero, or the noise is so wide that its sums of squares could
        overflow (or, for l2, that a single step would take longer than a tenth of a second).

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> target = BasisLaw.of(Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]})), "l1", 0.5)
    >>> target.basis.toarray()
    array([[ 1, -1,  0],
           [ 0,  1, -1]])
    """

    basis: sp.csr_array
    law: str
    scale: float

    def __post_init__(self) -> None:
        choice(self.law, tuple(_CODES), "law")
        object.__setattr__(self, "scale", positive_real(self.scale, "scale"))
        basis = sp.csr_array(self.basis, copy=True)
        if not np.issubdtype(basis.dtype, np.integer):
            raise TypeError(f"basis must hold integers, got {basis.dtype}")
        basis = sp.csr_array(basis.astype(np.int64))
        basis.eliminate_zeros()
        if not basis.shape[0] or not np.diff(basis.indptr).all():
            raise ValueError("basis must have at least one vector, and no vector that is zero")
        object.__setattr__(self, "basis", basis)
        wide = 40.0 * (self.scale if self.law == "gaussian" else (basis.shape[1] + 1) / self.scale)
        if wide > _REACH:
            raise ValueError(
                f"scale must keep the noise below 2**29, got {self.scale!r} for {self.law!r} noise on {basis.shape[1]} cells"
            )
        if self.law == "l2" and wide > _LONGEST:
            raise ValueError(
                f"scale must be at least {40.0 * (basis.shape[1] + 1) / _LONGEST:.2g} for 'l2' noise on "
                f"{basis.shape[1]} cells (a step tabulates its law), got {self.scale!r}"
            )

    @classmethod
    def of(cls, invariants: Invariants, law: str, scale: float) -> BasisLaw:
        """Take the basis that `kernel_basis` knows: sparse for margins and totals, else reduced."""
        return cls(kernel_basis(invariants), law, scale)

    @property
    def dimension(self) -> int:
        """Number of basis vectors; a sweep updates each of them once, in order."""
        return int(self.basis.shape[0])

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.basis.shape[1])

    @cached_property
    def arrays(self) -> tuple[int, float, Ints, Ints, Ints, Ints]:
        """For the kernels: law, scale, where each vector starts, its cells, its entries, squared lengths."""
        basis = self.basis
        squares = np.add.reduceat(basis.data**2, basis.indptr[:-1])
        pointers, cells = basis.indptr.astype(np.int64), basis.indices.astype(np.int64)
        return _CODES[self.law], self.scale, pointers, cells, basis.data, squares

    @property
    def widest(self) -> int:
        """Most cells in one basis vector."""
        return int(np.diff(self.basis.indptr).max())


@nb.njit(cache=True, error_model="numpy")
def shift(k: int, z: Ints, norm: int, cells: Ints, entries: Ints, start: int, stop: int, square: int) -> int:
    """Add k times a basis vector to z, and return the new ``||z||_2**2``."""
    along = 0
    for at in range(start, stop):
        along += z[cells[at]] * entries[at]
        z[cells[at]] += k * entries[at]
    return norm + k * (2 * along + k * square)


type Floats = npt.NDArray[np.float64]
type Words = npt.NDArray[np.uint64]

# Row 0 describes the whole law; l1 laws have one piece in each of the rows after it.
TOTAL, LEAST, CENTRE, REST, PIECES = 0, 1, 2, 3, 4
WEIGHT, FROM, SIGN, SLOPE, COUNT = 0, 1, 2, 3, 4
KNOT, ENTRY, VALUE = 5, 6, 7  # scratch for the sort

_NEGLIGIBLE = 40.0


def new_pieces(widest: int) -> Floats:
    """Room for the description of a law along vectors with at most so many entries."""
    return np.zeros((widest + 2, 8))


@nb.njit(cache=True, error_model="numpy")
def _energy(k: int, z: Ints, cells: Ints, entries: Ints, start: int, stop: int) -> int:
    total = 0
    for at in range(start, stop):
        total += abs(z[cells[at]] + k * entries[at])
    return total


@nb.njit(cache=True, error_model="numpy")
def _describe_l1(rate: float, z: Ints, cells: Ints, entries: Ints, start: int, stop: int, pieces: Floats) -> None:
    # Knots -z/b, by the integer at or below each: insertion sort, since vectors are short.
    count, weight = stop - start, 0.0
    for i in range(count):
        value, entry = z[cells[start + i]], entries[start + i]
        if entry < 0:
            value, entry = -value, -entry
        knot = (-value) // entry
        weight += entry
        place = i
        while place > 0 and pieces[place, KNOT] > knot:
            pieces[place + 1, KNOT] = pieces[place, KNOT]
            pieces[place + 1, ENTRY] = pieces[place, ENTRY]
            pieces[place + 1, VALUE] = pieces[place, VALUE]
            place -= 1
        pieces[place + 1, KNOT], pieces[place + 1, ENTRY], pieces[place + 1, VALUE] = knot, entry, value
    energy = float(_energy(int(pieces[1, KNOT]), z, cells, entries, start, stop))
    least = energy
    # Piece 1: everything up to the first knot, counted from its right end.
    made = 1
    pieces[1, WEIGHT], pieces[1, FROM], pieces[1, SIGN] = energy, pieces[1, KNOT], -1.0
    pieces[1, SLOPE], pieces[1, COUNT] = weight, math.inf
    slope = -weight
    i = 1
    while i <= count:
        knot = pieces[i, KNOT]
        step, after = slope, slope
        while i <= count and pieces[i, KNOT] == knot:
            entry, value = pieces[i, ENTRY], pieces[i, VALUE]
            step += abs(value + (knot + 1.0) * entry) - abs(value + knot * entry) + entry
            after += 2.0 * entry
            i += 1
        energy += step
        slope = after
        # Integers knot + 1 .. end lie between the same knots.
        number = math.inf if i > count else pieces[i, KNOT] - knot
        made += 1
        last = energy + slope * (number - 1.0) if i <= count else energy
        falls = slope < 0.0
        pieces[made, WEIGHT] = last if falls else energy
        pieces[made, FROM] = knot + number if falls else knot + 1.0
        pieces[made, SIGN] = -1.0 if falls else 1.0
        pieces[made, SLOPE], pieces[made, COUNT] = abs(slope), number
        least = min(least, pieces[made, WEIGHT])
        energy = last
    total = 0.0
    for p in range(1, made + 1):
        steepness, number = rate * pieces[p, SLOPE], pieces[p, COUNT]
        share = number
        if steepness > 0.0 and number > 1.0:
            share = 1.0 / -math.expm1(-steepness)
            if number < math.inf:
                share *= -math.expm1(-steepness * number)
        pieces[p, WEIGHT] = math.exp(-rate * (pieces[p, WEIGHT] - least)) * share
        pieces[p, SLOPE] = steepness
        total += pieces[p, WEIGHT]
    pieces[0, TOTAL], pieces[0, LEAST], pieces[0, PIECES] = total, least, made


@nb.njit(cache=True, error_model="numpy")
def _draw_l1(generator: Words, pieces: Floats) -> int:
    left = uniform(generator) * pieces[0, TOTAL]
    p, made = 1, int(pieces[0, PIECES])
    while p < made and left >= pieces[p, WEIGHT]:
        left -= pieces[p, WEIGHT]
        p += 1
    steepness, number = pieces[p, SLOPE], pieces[p, COUNT]
    if number == 1.0:
        return int(pieces[p, FROM])
    u = uniform(generator)
    if steepness == 0.0:
        step = math.floor(u * number)
    else:
        rest = -math.expm1(-steepness * number) if number < math.inf else 1.0
        step = math.floor(-math.log1p(-u * rest) / steepness)
    return int(pieces[p, FROM] + pieces[p, SIGN] * min(step, number - 1.0))


@nb.njit(cache=True, error_model="numpy")
def _l2_weight(k: float, rate: float, square: float, centre: float, rest: float, least: float) -> float:
    return rate * (math.sqrt(square * (k - centre) * (k - centre) + rest) - least)


@nb.njit(cache=True, error_model="numpy")
def _describe_l2(rate: float, square: float, pieces: Floats) -> None:
    centre, rest = pieces[0, CENTRE], pieces[0, REST]
    mode = math.floor(centre + 0.5)
    least = math.sqrt(square * (mode - centre) * (mode - centre) + rest)
    total = 1.0
    for sign in (1.0, -1.0):
        k = mode + sign
        while True:
            minus = _l2_weight(k, rate, square, centre, rest, least)
            if minus > _NEGLIGIBLE:
                break
            total += math.exp(-minus)
            k += sign
    pieces[0, TOTAL], pieces[0, LEAST] = total, least


@nb.njit(cache=True, error_model="numpy")
def _draw_l2(generator: Words, rate: float, square: float, pieces: Floats) -> int:
    centre, rest, least = pieces[0, CENTRE], pieces[0, REST], pieces[0, LEAST]
    mode = math.floor(centre + 0.5)
    left = uniform(generator) * pieces[0, TOTAL] - 1.0
    # In the order of the distance from the centre, so that most draws end soon.
    sign = 1.0 if centre >= mode else -1.0
    step = 1.0
    while left >= 0.0:
        for side in (sign, -sign):
            minus = _l2_weight(mode + side * step, rate, square, centre, rest, least)
            if side == sign and minus > _NEGLIGIBLE:
                return int(mode)  # rounding of the total: probability about 1e-16
            left -= math.exp(-minus)
            if left < 0.0:
                return int(mode + side * step)
        step += 1.0
    return int(mode)


@nb.njit(cache=True, error_model="numpy")
def describe(law: int, scale: float, z: Ints, norm: int, cells: Ints, entries: Ints, start: int, stop: int, square: int,
             pieces: Floats) -> None:  # fmt: skip
    """Describe the law of k along ``z + k b``.

    Parameters
    ----------
    law, scale : int, float
        As in `BasisLaw.arrays`.
    z : int64 array, shape (cells,)
    norm : int
        ``||z||_2**2``; not read for l1.
    cells, entries : int64 arrays
        Of all basis vectors; b is what lies between `start` and `stop`.
    square : int
        ``||b||_2**2``.
    pieces : float64 array
        From `new_pieces`; the description.
    """
    if law == L1:
        _describe_l1(scale, z, cells, entries, start, stop, pieces)
        return
    along = 0
    for at in range(start, stop):
        along += z[cells[at]] * entries[at]
    pieces[0, CENTRE] = -along / square
    if law == GAUSSIAN:
        sigma = scale / math.sqrt(square)
        ratio = mass_ratio(pieces[0, CENTRE], sigma, math.exp(-2.0 * (math.pi * sigma) ** 2))
        # Up to the sum around zero, which is the same for all laws along b.
        pieces[0, TOTAL] = ratio
    else:
        pieces[0, REST] = max(norm - along * (along / square), 0.0)
        _describe_l2(scale, float(square), pieces)


@nb.njit(cache=True, error_model="numpy")
def draw(law: int, scale: float, square: int, pieces: Floats, generator: Words) -> int:
    """Draw k from a law that `describe` described."""
    if law == L1:
        return _draw_l1(generator, pieces)
    if law == GAUSSIAN:
        return centred_gaussian(generator, pieces[0, CENTRE], scale / math.sqrt(square))
    return _draw_l2(generator, scale, float(square), pieces)


@nb.njit(cache=True, error_model="numpy")
def log_mass(k: int, law: int, scale: float, z: Ints, cells: Ints, entries: Ints, start: int, stop: int, square: int,
             pieces: Floats) -> float:  # fmt: skip
    """Logarithm of the mass of k; for Gaussian laws up to a constant that all laws along b share."""
    minus = math.log(pieces[0, TOTAL])
    if law == L1:
        minus += scale * (_energy(k, z, cells, entries, start, stop) - pieces[0, LEAST])
    elif law == GAUSSIAN:
        distance = (k - pieces[0, CENTRE]) / scale
        minus += 0.5 * square * distance * distance
    else:
        minus += _l2_weight(k, scale, float(square), pieces[0, CENTRE], pieces[0, REST], pieces[0, LEAST])
    return -minus


_UPDATES = 2_000_000
"""Steps in one call of the kernel, about a second, which cannot be interrupted."""


@nb.njit(cache=True, error_model="numpy")
def gibbs_update(j: int, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints,
                 norm: int, pieces: Floats, generator: Words) -> tuple[int, int]:  # fmt: skip
    """Draw coordinate j given the others: the step taken, and the new squared norm of z, which is changed in place."""
    start, stop, square = pointers[j], pointers[j + 1], squares[j]
    describe(law, scale, z, norm, cells, entries, start, stop, square, pieces)
    k = draw(law, scale, square, pieces, generator)
    return k, shift(k, z, norm, cells, entries, start, stop, square)


@nb.njit(cache=True, error_model="numpy")
def _run(out: Ints, z: Ints, skip: int, thin: int, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints,
         squares: Ints, pieces: Floats, generator: Words) -> None:  # fmt: skip
    norm = 0
    for value in z:
        norm += value * value
    for sweep in range(skip + thin * len(out)):
        for j in range(len(squares)):
            _, norm = gibbs_update(j, law, scale, pointers, cells, entries, squares, z, norm, pieces, generator)
        done = sweep + 1 - skip
        if done > 0 and done % thin == 0:
            out[done // thin - 1] = z


def draw_basis_gibbs(
    target: BasisLaw, rng: np.random.Generator, chains: int = 1, draws: int = 1, *, burn_in: int = 0, thin: int = 1
) -> Ints:
    """Run chains that start at zero.

    Independent noise is the end of many chains: ``chains=size, draws=1, thin=sweeps``.

    Parameters
    ----------
    target : BasisLaw
    rng : numpy.random.Generator
        Seeds the generator of the kernel.
    chains, draws : int
    burn_in : int
        Sweeps before the first draw.
    thin : int
        Sweeps for each draw.

    Returns
    -------
    int64 array, shape (chains, draws, cells)

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> target = BasisLaw.of(Invariants(Margins(table, ["county"], ["education"])), "l1", 1.0)
    >>> noise = draw_basis_gibbs(target, np.random.default_rng(1), chains=20_000, thin=12)
    >>> round(float((noise[:, 0, 0] ** 2).mean()), 1)  # enumeration: 0.156
    0.2
    """
    out = np.empty((positive_integer(chains, "chains"), positive_integer(draws, "draws"), target.cells), dtype=np.int64)
    skip, thin = nonnegative_integer(burn_in, "burn_in"), positive_integer(thin, "thin")
    pieces, generator = new_pieces(target.widest), seed_state(rng)
    # Short calls, between which the work can be interrupted.
    sweeps = max(1, _UPDATES // target.dimension)
    for chain in out:
        z = np.zeros(target.cells, dtype=np.int64)
        nothing = chain[:0]
        for done in range(0, skip, sweeps):
            _run(nothing, z, min(sweeps, skip - done), 1, *target.arrays, pieces, generator)
        at_once = max(1, sweeps // thin)
        for done in range(0, len(chain), at_once):
            _run(chain[done : done + at_once], z, 0, thin, *target.arrays, pieces, generator)
    return out

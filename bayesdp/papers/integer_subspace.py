"""How many sweeps a chain of lattice noise needs (Dharangutte, Gao, Gong and Yu, 2023, Integer Subspace Differential Privacy).

`certify` says it of a mechanism, with what it costs in privacy.

**Noise by Gibbs steps** along the vectors of a basis, in a fixed order: each step draws one coordinate from its exact law given the
others, and nothing is proposed, rejected or tuned. The order is fixed so that two chains can be coupled;
`bayesdp.lattices.samplers` moves along more directions, in random order, and mixes a little faster, but two such chains hardly
meet. Along ``z + k b`` with integer entries of b the mass of k is

* l1: ``exp(-rate sum_i |z_i + k b_i|)``, whose logarithm is linear between knots: pieces of geometric laws, summed
  in closed form; energies are exact integers;
* Gaussian: a discrete Gaussian around ``-<z, b> / ||b||**2`` with scale ``sigma / ||b||``;
* l2: ``exp(-rate sqrt(||b||**2 (k - c)**2 + rest))``, tabulated outwards from its centre c by its values until the
  rest is below ``exp(-40)`` of the largest.

`describe` fills a small array with what `draw` and `log_mass` then read, so that two laws can be compared: a
maximal coupling needs masses and not only draws.

**Coupled chains.** One chain X is run L sweeps ahead of another chain Y with the same start; then both are moved together by a
coupling until ``X_t = Y_{t - L}``, at the time tau. Then (Biswas, Jacob and Vanetti, 2019, Theorem 2.5; X may meet Y as soon as
``t = L``)

    TV(law of X_t, target) <= E[max(0, ceil((tau - L - t) / L))] = sum over j >= 1 of P(tau > t + j L).

The average of the left hand side over independent pairs is an *estimate* of this bound, never a proof: no finite
number of pairs shows that longer meeting times do not occur.

A coordinate of the two chains is updated by a maximal coupling of its two conditional laws, in basis coordinates, by
rejection: draw v from the first law p and keep it for both chains with probability ``min(1, q(v) / p(v))``; else draw w
from the second law q until ``U q(w) > p(w)`` (Jacob, O'Leary and Atchadé, 2020, Algorithm 2). Chains that agree in all
coordinates stay together from then on.

**An upper confidence limit**, although the summands have no largest value. The bound at time t is ``sum over j >= 1 of P(tau >
t + j L)``. Finitely many meeting times say nothing about how the sum goes on, so something has to be assumed. This is what is
done, and all that is assumed:

* **a time s**: one pair in five is used to choose it, so that about a tenth of all pairs are apart longer, and for
  nothing else;
* **assumption**: after s, no block of L sweeps is passed unmet with a larger probability than the first one, ``P(tau >
  u + L | tau > u) <= P(tau > s + L | tau > s) = r`` for u >= s. (Meeting times have geometric tails, and after s the
  tail should have set in; a slower rate that only one pair in thousands would show cannot be seen);
* then ``sum over j >= k of P(tau > t + j L) <= P(tau > t + k L) / (1 - r)`` for the first k with ``t + k L >= s``.

The remaining four pairs in five are independent of s. The probabilities before that k, that at k, and r have upper limits
by Clopper and Pearson, which hold at any number of pairs: r at half of ``1 - confidence``, the k others together at the
other half. A pair that was given up counts as one that never meets.

The largest value at this or a later time is reported, so that the curve never increases. That is what makes it safe to read
off the first time at which it is below a tolerance: for this to be too early, the curve must be below the truth at
one fixed time, the last one at which the truth is above the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import betaincinv

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp._validate import (
    Seed,
    choice,
    generator_of,
    nonnegative_integer,
    positive_integer,
    positive_real,
    probability,
)
from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.gram_schmidt import centred_gaussian, mass_ratio
from bayesdp.mechanisms.integers import LatticeGaussian, LatticeLaplace
from bayesdp.moves.basis import kernel_basis
from bayesdp.noise.arrays import count_of
from bayesdp.privacy import gaussian_rho, rho_to_epsilon

__all__ = [
    "Certificate", "certify",
]  # fmt: skip


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
    """Noise ``z = sum_j c_j b_j`` on a lattice with linearly independent basis vectors b_j, the rows of a sparse integer array.

    Its mass is proportional to ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)`` or ``exp(-||z||_2**2 / (2 scale**2))``.

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
    """Describe the law of k along ``z + k b`` in `pieces`, from `new_pieces`; b is what lies between `start` and `stop`.

    `norm` is ``||z||_2**2``, which is not read for l1, `square` is ``||b||_2**2``; the others are as in `BasisLaw.arrays`.
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
    """Run chains that start at zero: an array of shape (chains, draws, cells).

    `burn_in` sweeps come before the first draw, and `thin` sweeps before each: independent noise is the end of many chains,
    ``chains=size, draws=1, thin=sweeps``.

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


_FIRST = 5
"""One pair in so many chooses the time s."""

_APART = 0.1
"""Share of pairs that are still apart after s."""

_BLOCKS = 50
"""Times that are more blocks before s get the trivial limit 1: the lag is too short to say more."""


def clopper_pearson(successes: npt.ArrayLike, trials: int, confidence: float) -> Floats:
    """One-sided upper confidence limit of a probability."""
    count = np.asarray(successes, dtype=np.float64)
    inner = np.minimum(count, trials - 1.0)
    if trials == 0:
        return np.ones_like(count)
    return np.where(count < trials, betaincinv(inner + 1.0, trials - inner, confidence), 1.0)


def least_limit(pairs: int, confidence: float) -> float:
    """What the limit would be if no pair were apart any longer, and all met at once: no run can show less."""
    return float(clopper_pearson(0, pairs - pairs // _FIRST, 1.0 - 0.5 * (1.0 - confidence)))


def upper_limits(meetings: Ints, lag: int, horizon: int, times: Ints, confidence: float) -> Floats:
    """Upper confidence limits of the bound at ascending times, as this module describes: never increasing, at most 1.

    `meetings` are the meeting times of independent pairs, 0 for a pair that was given up.
    """
    alpha = 1.0 - probability(confidence, "confidence")
    last = np.where(meetings == 0, np.iinfo(np.int64).max, meetings)
    first = np.sort(last[: len(last) // _FIRST])
    rest = np.sort(last[len(first) :])
    if not len(first):
        return np.ones(len(times))
    # The latest time after which at least a tenth of the first pairs are apart.
    s = min(int(first[len(first) - max(1, math.ceil(_APART * len(first)))]) - 1, horizon)

    def apart(u: npt.ArrayLike) -> npt.NDArray[np.intp]:
        return len(rest) - np.searchsorted(rest, u, side="right")

    r = float(clopper_pearson(apart(s + lag), int(apart(s)), 1.0 - 0.5 * alpha))
    if r >= 1.0:
        return np.ones(len(times))
    limits = np.ones(len(times))
    for i, t in enumerate(times):
        k = max(1, -((int(t) - s) // lag))
        if k <= _BLOCKS:
            each = clopper_pearson(apart(t + lag * np.arange(1, k + 1)), len(rest), 1.0 - 0.5 * alpha / k)
            limits[i] = each[:-1].sum() + each[-1] / (1.0 - r)
    return np.minimum(np.maximum.accumulate(limits[::-1])[::-1], 1.0)


TRIES = 1_000_000
"""Laws that are the same but for rounding leave nothing that only the second one has. To get there takes an event of
probability 1e-16, and the search for a remainder that does not exist must then end: any draw of the second law will do."""


@nb.njit(cache=True, error_model="numpy")
def sweep_alone(law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints, c: Ints,
                norm: int, pieces: Floats, generator: Words) -> int:  # fmt: skip
    """Sweep one chain with cells z and coordinates c; returns its squared norm."""
    for j in range(len(squares)):
        k, norm = gibbs_update(j, law, scale, pointers, cells, entries, squares, z, norm, pieces, generator)
        c[j] += k
    return norm


@nb.njit(cache=True, error_model="numpy")
def _pair(j: int, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints,
          gap: int, norms: Ints, pieces: Floats, generator: Words) -> tuple[int, int]:  # fmt: skip
    """Steps of both chains; `gap` is the coordinate of the first minus that of the second."""
    start, stop, square = pointers[j], pointers[j + 1], squares[j]
    describe(law, scale, z[0], norms[0], cells, entries, start, stop, square, pieces[0])
    describe(law, scale, z[1], norms[1], cells, entries, start, stop, square, pieces[1])
    first = draw(law, scale, square, pieces[0], generator)
    p = log_mass(first, law, scale, z[0], cells, entries, start, stop, square, pieces[0])
    q = log_mass(first + gap, law, scale, z[1], cells, entries, start, stop, square, pieces[1])
    if q >= p or uniform(generator) < math.exp(q - p):
        return first, first + gap
    second = 0
    for _ in range(TRIES):
        second = draw(law, scale, square, pieces[1], generator)
        q = log_mass(second, law, scale, z[1], cells, entries, start, stop, square, pieces[1])
        p = log_mass(second - gap, law, scale, z[0], cells, entries, start, stop, square, pieces[0])
        if p < q and uniform(generator) > math.exp(p - q):
            break
    return first, second


@nb.njit(cache=True, error_model="numpy")
def coupled_sweep(law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints, c: Ints,
                  norms: Ints, pieces: Floats, generator: Words) -> None:  # fmt: skip
    """Sweep both chains together."""
    # `law`, `scale`, `pointers`, `cells`, `entries`, `squares`: `BasisLaw.arrays`. `z`, shape (2, cells). `c`, shape (2, n).
    # `norms`, shape (2,). `pieces`, shape (2, ...): two of `bayesdp.papers.integer_subspace.new_pieces`. `generator`, shape
    # (4,).
    for j in range(len(squares)):
        gap = c[0, j] - c[1, j]
        first, second = _pair(j, law, scale, pointers, cells, entries, squares, z, gap, norms, pieces, generator)
        c[0, j] += first
        c[1, j] += second
        start, stop = pointers[j], pointers[j + 1]
        if first != 0:
            norms[0] = shift(first, z[0], norms[0], cells, entries, start, stop, squares[j])
        if second != 0:
            norms[1] = shift(second, z[1], norms[1], cells, entries, start, stop, squares[j])


@nb.njit(cache=True, error_model="numpy")
def count_apart(c: Ints) -> int:
    """Number of coordinates in which two chains differ; none if and only if they are at the same point."""
    apart = 0
    for j in range(c.shape[1]):
        if c[0, j] != c[1, j]:
            apart += 1
    return apart


type Meet = Callable[[Ints, int, int, BasisLaw, Words], None]
"""Runs pairs of chains that start at zero: fills an array with their meeting times, 0 for a pair that was given up. The
other arguments are the lag, the horizon, the law, and the state of the generator."""

_AT_ONCE = 50
"""Pairs in one call of the kernel, which cannot be interrupted."""

_SHOWN = 2000
"""Most times at which a bound is evaluated."""


@dataclass(frozen=True, eq=False)
class CouplingBound:
    """Estimated bound on the total variation distance between the noise after t sweeps and its law, by pairs of coupled chains.

    At `times`, ascending from 0: `bound` and its Monte Carlo `standard_error`, nan if one of the pairs, `censored` in all, was
    given up after `horizon` sweeps; `upper`, the limit at level `confidence`, never increasing, with pairs that were given up
    as if they never met. It holds for the first time at which it falls below a given number as well. One chain of a pair is
    `lag` sweeps ahead, and `meetings` are the times tau in its sweeps, 0 for a pair that was given up.
    """

    lag: int
    times: Ints
    bound: Floats
    standard_error: Floats
    upper: Floats
    meetings: Ints
    censored: int
    horizon: int
    confidence: float

    def sweeps_to(self, tolerance: float, *, upper: bool = False) -> int | None:
        """First time at which the estimate (or its upper limit) is at most the tolerance; None if it never is."""
        curve = self.upper if upper else self.bound
        below = np.flatnonzero(curve <= tolerance)
        return int(self.times[below[0]]) if below.size else None


@nb.njit(cache=True, error_model="numpy")
def _meet(meetings: Ints, lag: int, horizon: int, pieces: Floats, law: int, scale: float, pointers: Ints, where: Ints,
          entries: Ints, squares: Ints, cells: int, generator: Words) -> None:  # fmt: skip
    n = len(squares)
    z, c, norms = np.empty((2, cells), np.int64), np.empty((2, n), np.int64), np.empty(2, np.int64)
    for r in range(len(meetings)):
        z[:], c[:], norms[:] = 0, 0, 0
        for _ in range(lag):
            norms[0] = sweep_alone(
                law, scale, pointers, where, entries, squares, z[0], c[0], norms[0], pieces[0], generator
            )
        t = lag
        while count_apart(c) > 0 and t < horizon:
            coupled_sweep(law, scale, pointers, where, entries, squares, z, c, norms, pieces, generator)
            t += 1
        meetings[r] = t if count_apart(c) == 0 else 0


def gibbs(meetings: Ints, lag: int, horizon: int, target: BasisLaw, generator: Words) -> None:
    """Pairs of chains that move by exact conditional steps along the vectors of the basis, see `Meet`."""
    pieces = np.stack([new_pieces(target.widest)] * 2)
    _meet(meetings, lag, horizon, pieces, *target.arrays, target.cells, generator)


def meeting_times(
    target: BasisLaw, rng: np.random.Generator, *, pairs: int, lag: int, meet: Meet = gibbs, horizon: int = 100_000
) -> Ints:
    """Times at which coupled chains that start at zero meet."""
    # `pairs`: independent pairs of chains. `lag`: sweeps that one chain is ahead. `meet`: runs pairs of chains, see `Meet`.
    # `horizon`: pairs that have not met when the leading chain has run so many sweeps are given up. Returns shape (pairs,): in
    # sweeps of the leading chain, at least `lag`; 0 for a pair that was given up.
    pairs, lag, horizon = (
        positive_integer(v, name) for v, name in ((pairs, "pairs"), (lag, "lag"), (horizon, "horizon"))
    )
    if horizon <= lag:
        raise ValueError(f"horizon must be more sweeps than the lag of {lag}, got {horizon}")
    generator, meetings = seed_state(rng), np.empty(pairs, dtype=np.int64)
    for done in range(0, pairs, _AT_ONCE):
        meet(meetings[done : done + _AT_ONCE], lag, horizon, target, generator)
    return meetings


def suggest_lag(target: BasisLaw, rng: np.random.Generator, *, meet: Meet = gibbs, horizon: int = 100_000) -> int:
    """A lag in which nearly all pairs meet, from 200 pairs with a growing lag that are used for nothing else."""
    lag = 1
    for _ in range(4):
        meetings = meeting_times(target, rng, pairs=200, lag=lag, meet=meet, horizon=horizon)
        if not meetings.all():
            raise ValueError(
                f"{np.count_nonzero(meetings == 0)} of 200 pairs of chains have not met within {horizon} sweeps, so that "
                "nothing is known of the convergence; raise the horizon, or draw exactly where that is practical"
            )
        apart = math.ceil(np.quantile(meetings - lag, 0.95))
        if apart <= lag:
            break
        lag = apart
    return max(lag, 1)


def couple(
    target: BasisLaw,
    rng: np.random.Generator,
    *,
    pairs: int = 1000,
    lag: int | None = None,
    meet: Meet = gibbs,
    horizon: int = 100_000,
    confidence: float = 0.99,
) -> CouplingBound:
    """Estimate how many sweeps a chain that starts at zero needs, from independent pairs of coupled chains.

    Any lag gives a bound, larger ones tighter bounds; `suggest_lag` if none is given. Biswas, Jacob and Vanetti (2019), Theorem 2.5;
    Jacob, O'Leary and Atchadé (2020).

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> target = BasisLaw.of(Invariants(Margins(table, ["county"], ["education"])), "l1", 1.0)
    >>> found = couple(target, np.random.default_rng(1), pairs=2000, lag=10)
    >>> found.sweeps_to(0.01), found.sweeps_to(0.01, upper=True)
    (8, 11)
    """
    lag = suggest_lag(target, rng, meet=meet, horizon=horizon) if lag is None else lag
    meetings = meeting_times(target, rng, pairs=pairs, lag=lag, meet=meet, horizon=horizon)
    censored = int(np.count_nonzero(meetings == 0))
    last = int(meetings.max()) if not censored else horizon
    # From 0 to the first time at which no pair is apart a lag later: beyond it the curves do not change.
    times = np.unique(np.linspace(0, max(last - lag, 0), _SHOWN).astype(np.int64))
    if censored:
        bound = error = np.full(len(times), np.nan)
    else:
        terms = (_blocks(meetings, int(t), lag) for t in times)
        moments = np.array([(values.mean(), values.std()) for values in terms])
        bound, error = moments[:, 0], moments[:, 1] / math.sqrt(len(meetings))
    upper = upper_limits(meetings, lag, horizon, times, confidence)
    return CouplingBound(lag, times, bound, error, upper, meetings, censored, horizon, confidence)


def _blocks(meetings: Ints, t: int, lag: int) -> Ints:
    """``max(0, ceil((tau - L - t) / L))``."""
    return np.maximum(-((t + lag - meetings) // lag), 0)


@dataclass(frozen=True, eq=False)
class Certificate:
    """An estimate of how far the noise of a chain is from its law, and a way to draw that noise.

    It is an estimate from coupled chains, never a proof; see `bayesdp.papers.integer_subspace` for what it assumes.

    Parameters
    ----------
    mechanism : LatticeLaplace or LatticeGaussian
    tolerance : float
        The total variation distance that was asked for.
    sweeps : int
        First number of sweeps at which `tv_upper` is at most the tolerance.
    tv_estimate : float
        Estimate of the bound on the total variation distance after so many sweeps.
    tv_upper : float
        Its upper confidence limit.
    largest : float
        Largest protected ``||u||``, in the mechanism's norm.
    epsilon : float
        Loss between two tables with that difference.
    delta_charge : float
        ``(1 + exp(epsilon)) tv_upper``: what not having converged adds to delta.
    delta : float
        The mechanism's own delta, to which the charge is added; zero for Laplace noise.
    chains, lag : int
        Pairs of coupled chains, and the sweeps that one of a pair is ahead.
    confidence : float
    bound : CouplingBound
        The whole curve.
    """

    mechanism: LatticeLaplace | LatticeGaussian
    tolerance: float
    sweeps: int
    tv_estimate: float
    tv_upper: float
    largest: float
    epsilon: float
    delta_charge: float
    delta: float
    chains: int
    lag: int
    confidence: float
    bound: CouplingBound = field(repr=False)

    @property
    def text(self) -> str:
        """What is claimed, in words."""
        kind, _ = _law(self.mechanism)
        norm = "l2" if kind == "gaussian" else kind
        vacuous = ", which protects nothing: ask for a smaller tolerance" if self.delta_charge >= 1.0 else ""
        return (
            f"Estimate, not a proof: after {self.sweeps} sweeps of Gibbs from zero the noise is within {self.tv_upper:.3g} of "
            f"its law in total variation (upper limit at {100 * self.confidence:g}% confidence; estimate "
            f"{self.tv_estimate:.2g}), from {self.chains} pairs of coupled chains with lag {self.lag}, if pairs that stay "
            f"apart long go on meeting at the rate seen. Charged to delta: (1 + exp({self.epsilon:.4g})) x "
            f"{self.tv_upper:.3g} = {self.delta_charge:.3g} on top of {self.delta:.3g}{vacuous}; for two tables at "
            f"{norm} distance {self.largest:.4g} or less."
        )

    def __str__(self) -> str:
        return self.text

    def noise(self, rng: Seed = None, size: int = 1) -> npt.NDArray[np.int64]:
        """Draw noise, each draw the end of a chain of its own of `sweeps` sweeps.

        Parameters
        ----------
        rng : int, numpy.random.Generator or None
            Without one, entropy of the operating system.
        size : int

        Returns
        -------
        int64 array, shape ``(size, *table)``
        """
        count, shape = count_of(size), self.mechanism.frame.shape
        generator = generator_of(rng)
        if not count:
            return np.zeros((0, *shape), dtype=np.int64)
        target = BasisLaw.of(self.mechanism.invariants, *_law(self.mechanism))
        draws = draw_basis_gibbs(target, generator, chains=count, thin=self.sweeps)
        return draws.reshape(count, *shape)


def certify(
    mechanism: LatticeLaplace | LatticeGaussian,
    tolerance: float,
    *,
    chains: int = 10_000,
    lag: int | None = None,
    confidence: float = 0.99,
    largest: float | None = None,
    delta: float | None = None,
    horizon: int = 100_000,
    rng: Seed = None,
) -> Certificate:
    """Find the number of sweeps after which noise by a chain is as close to its law as asked for.

    Pairs of chains are coupled; the number of sweeps is the first one at which an upper confidence limit of the
    estimated total variation distance is at most the tolerance. Noise that is within TV of its law is ``(epsilon, delta +
    (1 + exp(epsilon)) TV)``-private where the law is ``(epsilon, delta)``-private: an event is TV more likely under the
    one table, and ``exp(epsilon) TV`` under the other.

    Parameters
    ----------
    mechanism : LatticeLaplace or LatticeGaussian
    tolerance : float
        Total variation distance, in (0, 1).
    chains : int, default 10000
        Pairs of coupled chains. A tolerance takes about ``1.25 log(2 / (1 - confidence)) / tolerance`` of them, or more.
    lag : int, optional
        Sweeps that one chain of a pair is ahead; found from other pairs if not given.
    confidence : float, default 0.99
    largest : float, optional
        Largest protected difference ``||u||``, in the norm of the mechanism (l2 for Gaussian noise). By default the
        largest of the smallest kinds of difference that keep the invariants (`Mechanism.differences`).
    delta : float, optional
        Gaussian noise stated by rho: the delta at which the loss is converted to an epsilon, on top of which comes the
        charge.
    horizon : int, default 100000
        Sweeps after which a pair is given up.
    rng : int, numpy.random.Generator or None
        Without one, entropy of the operating system.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Section 4; Biswas, Jacob and Vanetti
    (2019), Theorem 2.5.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = LatticeLaplace(Margins(table, ["county"], ["education"]), epsilon=0.25)
    >>> certificate = certify(mechanism, 0.05, chains=1000, rng=np.random.default_rng(1))
    >>> certificate.tv_upper <= 0.05
    True
    >>> certificate.noise(np.random.default_rng(2), size=5).shape
    (5, 3, 3)
    >>> print(certificate)
    Estimate, not a proof: after ... sweeps of Gibbs from zero ...
    """
    law, scale = _law(mechanism)
    tolerance = probability(tolerance, "tolerance")
    chains, confidence = positive_integer(chains, "chains"), probability(confidence, "confidence")
    size = _largest(mechanism, largest, law)
    epsilon, own = _loss(mechanism, size, delta)
    _enough(chains, tolerance, confidence)
    target = BasisLaw.of(mechanism.invariants, law, scale)
    bound = couple(target, generator_of(rng), pairs=chains, lag=lag, horizon=horizon, confidence=confidence)
    if bound.censored:
        raise ValueError(
            f"{bound.censored} of {chains} pairs of chains have not met within {horizon} sweeps: the bound is unknown, and "
            "nothing is certified; raise horizon, or draw exactly where that is practical"
        )
    at = np.flatnonzero((bound.upper <= tolerance) & (bound.times >= 1))
    if not at.size:
        least = float(bound.upper[-1])
        raise ValueError(
            f"tolerance={tolerance:g} cannot be supported by {chains} pairs of chains at {100 * confidence:g}% confidence: the "
            f"upper limit does not fall below {least:.3g}"
            + (
                f"; about {math.ceil(1.2 * chains * least / tolerance)} pairs could"
                if least < 1.0
                else "; try a longer lag"
            )
        )
    found = int(at[0])
    upper = float(bound.upper[found])
    return Certificate(
        mechanism, tolerance, int(bound.times[found]), float(bound.bound[found]), upper, size, epsilon,
        _charge(epsilon, upper), own, chains, bound.lag, confidence, bound,
    )  # fmt: skip


def _law(mechanism: LatticeLaplace | LatticeGaussian) -> tuple[str, float]:
    if isinstance(mechanism, LatticeLaplace):
        return mechanism.norm, mechanism.rate
    if isinstance(mechanism, LatticeGaussian):
        return "gaussian", mechanism.sigma
    raise TypeError(
        f"mechanism must be a LatticeLaplace or LatticeGaussian, whose chains can be coupled, got {type(mechanism).__name__}; "
        "noise by hit-and-run (k-norm) is certified by nothing here"
    )


def _largest(mechanism: LatticeLaplace | LatticeGaussian, largest: float | None, law: str) -> float:
    if largest is not None:
        return positive_real(largest, "largest")
    known = [difference.l1 if law == "l1" else difference.l2 for difference in mechanism.differences]
    if not known:
        raise ValueError("largest must be given: no difference that keeps these invariants is known")
    return max(known)


def _loss(mechanism: LatticeLaplace | LatticeGaussian, size: float, delta: float | None) -> tuple[float, float]:
    """Epsilon and delta for two tables at the largest protected difference."""
    if isinstance(mechanism, LatticeLaplace):
        if delta is not None:
            raise ValueError(f"delta must not be given for Laplace noise, which has none, got {delta!r}")
        return mechanism.rate * size, 0.0
    if (delta is None) == (mechanism.delta is None):
        raise ValueError(
            "delta must be given for Gaussian noise that is stated by rho, and only for that: the charge is for a loss "
            f"epsilon at a delta; got delta={delta!r} for {mechanism.delta!r} of the mechanism"
        )
    own = probability(delta if delta is not None else mechanism.delta, "delta")
    return rho_to_epsilon(gaussian_rho(mechanism.sigma, size), own), own


def _enough(chains: int, tolerance: float, confidence: float) -> None:
    """Refuse before any work what no outcome could support."""
    least = least_limit(chains, confidence)
    if least > tolerance:
        needed = math.ceil(1.25 * math.log(2.0 / (1.0 - confidence)) / -math.log1p(-tolerance)) + 1
        raise ValueError(
            f"tolerance={tolerance:g} cannot be supported by {chains} pairs of chains at {100 * confidence:g}% confidence: "
            f"even if none stayed apart, the upper limit would be {least:.3g}; use at least chains={needed}"
        )


def _charge(epsilon: float, tv: float) -> float:
    # exp overflows beyond 709; the charge is then vacuous anyway.
    return (1.0 + math.exp(epsilon)) * tv if epsilon < 700.0 else math.inf
